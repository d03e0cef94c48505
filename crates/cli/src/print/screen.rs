//! Draws on the alternate screen of the terminal.
//!
//! The alternate screen leaves the previous content intact, and a resized window cannot smear it.
//! Nothing is typed into this view, so a few control sequences that every terminal knows are
//! enough, and no library is needed.

use std::fmt::Write as _;
use std::io::{self, Write as _};

use anstream::AutoStream;

use super::window_size::window_size;

/// The alternate screen. Dropping it restores the terminal, also in a panic.
pub(crate) struct AlternateScreen {
    /// Frame that is shown.
    last_frame: String,
}

/// Switches to the alternate screen, hides the cursor, and turns line wrapping off.
const ENTER_SEQUENCE: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";
const LEAVE_SEQUENCE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";

impl AlternateScreen {
    /// Switches to the alternate screen.
    pub(crate) fn enter() -> io::Result<Self> {
        write(ENTER_SEQUENCE)?;
        Ok(Self { last_frame: String::new() })
    }

    /// Shows these lines, which must fit the rows of the terminal.
    pub(crate) fn draw(&mut self, lines: &[String]) -> io::Result<()> {
        let frame = frame(lines);
        if frame == self.last_frame {
            return Ok(());
        }
        write(&frame)?;
        self.last_frame = frame;
        Ok(())
    }

    /// Returns the current columns and rows.
    pub(crate) fn size() -> (usize, usize) {
        window_size().map_or((80, 24), |(columns, rows)| (columns.clamp(40, 240), rows.max(3)))
    }
}

impl Drop for AlternateScreen {
    fn drop(&mut self) {
        // A terminal that is gone need not be restored.
        let _ = write(LEAVE_SEQUENCE);
    }
}

/// Builds a frame that is shown at once where the terminal supports it: from the top, each line
/// cleared to its end, and everything below.
fn frame(lines: &[String]) -> String {
    let mut out = String::from("\x1b[?2026h\x1b[H");
    for (at, line) in lines.iter().enumerate() {
        let end = if at + 1 < lines.len() { "\r\n" } else { "" };
        write!(out, "{line}\x1b[K{end}").expect("writing to a string");
    }
    out.push_str("\x1b[J\x1b[?2026l");
    out
}

fn write(text: &str) -> io::Result<()> {
    let mut out = AutoStream::always_ansi(io::stdout().lock());
    out.write_all(text.as_bytes())?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_replaces_the_one_before() {
        let picture = frame(&["a".to_owned(), "b".to_owned()]);
        assert_eq!(picture, "\x1b[?2026h\x1b[Ha\x1b[K\r\nb\x1b[K\x1b[J\x1b[?2026l");
    }
}

//! Owns the terminal while something is drawn in place.
//!
//! It is drawn on the terminal's other screen, so what was there before is there again after, and a resized
//! window cannot smear it. A handful of control sequences that every terminal knows is all it takes: nothing
//! is typed into this view, so no library for that is needed.

use std::fmt::Write as _;
use std::io::{self, Write as _};

use anstream::AutoStream;

/// The terminal's other screen. Dropped, it gives the terminal back as it was, also in a panic.
pub(crate) struct Screen {
    /// What it shows.
    shown: String,
}

/// The other screen, without a cursor, and with long lines cut where the window is too narrow for them.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";
const LEAVE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";

impl Screen {
    /// Takes the terminal.
    pub(crate) fn enter() -> io::Result<Self> {
        write(ENTER)?;
        Ok(Self { shown: String::new() })
    }

    /// Shows these lines, which are no more than the terminal has rows.
    pub(crate) fn draw(&mut self, lines: &[String]) -> io::Result<()> {
        let frame = frame(lines);
        if frame == self.shown {
            return Ok(());
        }
        write(&frame)?;
        self.shown = frame;
        Ok(())
    }

    /// How many columns and rows there are now.
    pub(crate) fn size() -> (usize, usize) {
        terminal_size::terminal_size().map_or((80, 24), |(columns, rows)| {
            (usize::from(columns.0).clamp(40, 240), usize::from(rows.0).max(3))
        })
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A terminal that is gone need not be given back.
        let _ = write(LEAVE);
    }
}

/// One picture, shown at once where the terminal can do that: from the top, each line cleared to its end,
/// and everything below.
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

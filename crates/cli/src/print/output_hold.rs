//! Holds back output to the terminal while a dialog is open. Notes and logs are written when it
//! ends; a progress bar is erased and comes back by itself.

use std::io::{self, Write as _};

use anstream::ColorChoice;
use indicatif::TermLike;
use parking_lot::{Mutex, MutexGuard};

use super::window_size::window_size;

/// Holds back output until it is dropped.
#[derive(Debug)]
pub(crate) struct OutputHold {
    /// Writes texts for stderr once they are no longer held back.
    write_stderr: fn(&str, ColorChoice),
}

/// The one state of the process, as there is one terminal.
static OUTPUT_STATE: Mutex<OutputState> =
    Mutex::new(OutputState { held: None, bar_visible: false, dropped: 0 });

struct OutputState {
    /// Texts that are held back, while a dialog is open.
    held: Option<Vec<HeldText>>,
    /// How many texts were dropped.
    dropped: usize,
    /// Whether a progress bar is in the line of the cursor.
    bar_visible: bool,
}

struct HeldText {
    stream: Stream,
    text: String,
    color: ColorChoice,
}

/// Where a text is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    Stdout,
    Stderr,
}

/// How many texts are held back. A dialog that nobody answers must not use unbounded memory.
const MAX_HELD_TEXTS: usize = 1000;

impl OutputHold {
    /// Erases the progress bar and starts to hold back output. The caller makes sure that only one
    /// exists at a time.
    pub(super) fn begin(write_stderr: fn(&str, ColorChoice)) -> Self {
        let mut stage = lock_state();
        if std::mem::take(&mut stage.bar_visible) {
            write_bar(CLEAR_LINE);
        }
        stage.held.get_or_insert_default();
        Self { write_stderr }
    }
}

impl Drop for OutputHold {
    fn drop(&mut self) {
        let mut stage = lock_state();
        let (held, lost) = (stage.held.take().unwrap_or_default(), std::mem::take(&mut stage.dropped));
        drop(stage);
        for HeldText { stream: to, text, color } in held {
            match to {
                Stream::Stderr => (self.write_stderr)(&text, color),
                Stream::Stdout => {
                    let mut out = anstream::AutoStream::new(io::stdout().lock(), color);
                    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
                }
            }
        }
        if lost > 0 {
            (self.write_stderr)(
                &format!("note: {lost} more notes were dropped while you were asked\n"),
                ColorChoice::Never,
            );
        }
    }
}

/// Holds `text` back while a dialog is open, and returns whether it did.
pub(super) fn hold_back(to: Stream, text: &str, color: ColorChoice) -> bool {
    let mut stage = lock_state();
    let Some(held) = &mut stage.held else { return false };
    if held.len() < MAX_HELD_TEXTS {
        held.push(HeldText { stream: to, text: text.to_owned(), color });
    } else {
        stage.dropped += 1;
    }
    true
}

#[cfg(test)]
pub(super) fn held_texts() -> Vec<String> {
    lock_state().held.iter().flatten().map(|held| held.text.clone()).collect()
}

/// The terminal of a progress bar. It draws nothing while a dialog is open.
#[derive(Debug)]
pub(super) struct BarTerminal;

/// Moves to the start of the line and clears it.
const CLEAR_LINE: &str = "\r\x1b[2K";

impl BarTerminal {
    fn write(text: &str, bar: bool) {
        let mut stage = lock_state();
        if stage.held.is_none() {
            stage.bar_visible = bar;
            write_bar(text);
        }
    }

    fn move_cursor(count: usize, direction: char) {
        if count > 0 {
            Self::write(&format!("\x1b[{count}{direction}"), true);
        }
    }
}

impl TermLike for BarTerminal {
    fn width(&self) -> u16 {
        window_size().map_or(80, |(width, _)| u16::try_from(width).unwrap_or(u16::MAX))
    }

    fn height(&self) -> u16 {
        window_size().map_or(24, |(_, height)| u16::try_from(height).unwrap_or(u16::MAX))
    }

    fn move_cursor_up(&self, n: usize) -> io::Result<()> {
        Self::move_cursor(n, 'A');
        Ok(())
    }

    fn move_cursor_down(&self, n: usize) -> io::Result<()> {
        Self::move_cursor(n, 'B');
        Ok(())
    }

    fn move_cursor_right(&self, n: usize) -> io::Result<()> {
        Self::move_cursor(n, 'C');
        Ok(())
    }

    fn move_cursor_left(&self, n: usize) -> io::Result<()> {
        Self::move_cursor(n, 'D');
        Ok(())
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        Self::write(&format!("{text}\n"), false);
        Ok(())
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        if !text.is_empty() {
            Self::write(text, true);
        }
        Ok(())
    }

    fn clear_line(&self) -> io::Result<()> {
        Self::write(CLEAR_LINE, false);
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes to stderr. Errors are ignored: a terminal that is gone needs no progress bar.
fn write_bar(text: &str) {
    let mut err = anstream::AutoStream::always_ansi(io::stderr().lock());
    let _ = err.write_all(text.as_bytes());
    let _ = err.flush();
}

fn lock_state() -> MutexGuard<'static, OutputState> {
    OUTPUT_STATE.lock()
}

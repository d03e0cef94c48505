//! Holds back output to the terminal while a dialog is open. Notes and logs are written when it
//! ends, or above it where a prompt waits for a command; a progress bar is erased and comes back by
//! itself.

use std::io::{self, Write as _};

use anstream::ColorChoice;
use indicatif::TermLike;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

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

/// Notified when a text is held back.
static HELD_TEXT: Notify = Notify::const_new();

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

    /// Writes what was held back so far to a terminal in raw mode. The caller has erased the dialog, and
    /// draws it again below.
    #[expect(clippy::unused_self, reason = "nothing is held back without one")]
    pub(crate) fn write_held(&self) {
        let mut stage = lock_state();
        let held = stage.held.as_mut().map(std::mem::take).unwrap_or_default();
        let lost = std::mem::take(&mut stage.dropped);
        drop(stage);
        for HeldText { stream, text, color } in held {
            let text = text.replace('\n', "\r\n");
            // A terminal that is gone needs no output.
            let _ = match stream {
                Stream::Stderr => write_to(anstream::AutoStream::new(io::stderr().lock(), color), &text),
                Stream::Stdout => write_to(anstream::AutoStream::new(io::stdout().lock(), color), &text),
            };
        }
        if lost > 0 {
            write_bar(&format!("note: {lost} more notes were dropped\r\n"));
        }
    }
}

/// Waits until a text is held back. Dropping the future loses nothing.
pub(crate) async fn wait_for_held_text() {
    HELD_TEXT.notified().await;
}

fn write_to(mut stream: impl io::Write, text: &str) -> io::Result<()> {
    stream.write_all(text.as_bytes())?;
    stream.flush()
}

/// Runs `write`, which writes whole lines to the terminal, with the progress bar erased.
pub(super) fn with_bar_erased<T>(write: impl FnOnce() -> T) -> T {
    let mut stage = lock_state();
    // Without a bar, a reader that does not read must block nobody else.
    if !std::mem::take(&mut stage.bar_visible) {
        drop(stage);
        return write();
    }
    // The bar cannot be drawn in between, since it needs the lock too.
    write_bar(CLEAR_LINE);
    write()
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
    HELD_TEXT.notify_one();
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

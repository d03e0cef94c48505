//! Holds back output to the terminal while a dialog is open. Notes and logs are written when it
//! ends; a progress bar is erased and comes back by itself.

use std::io::{self, Write as _};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anstream::ColorChoice;
use indicatif::TermLike;

use super::stderr;

/// Holds back output until it is dropped.
#[derive(Debug)]
pub(crate) struct Curtain(());

/// The one state of the process, as there is one terminal.
static STAGE: Mutex<Stage> = Mutex::new(Stage { held: None, bar: false, lost: 0 });

struct Stage {
    /// Texts that are held back, while a dialog is open.
    held: Option<Vec<Held>>,
    /// How many texts were dropped.
    lost: usize,
    /// Whether a progress bar is in the line of the cursor.
    bar: bool,
}

struct Held {
    to: To,
    text: String,
    color: ColorChoice,
}

/// Where a text is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum To {
    Stdout,
    Stderr,
}

/// How many texts are held back. A dialog that nobody answers must not use unbounded memory.
const MOST: usize = 1000;

impl Curtain {
    /// Erases the progress bar and starts to hold back output. The caller makes sure that only one
    /// exists at a time.
    pub(crate) fn fall() -> Self {
        let mut stage = stage();
        if std::mem::take(&mut stage.bar) {
            say(CLEAR);
        }
        stage.held.get_or_insert_default();
        Self(())
    }
}

impl Drop for Curtain {
    fn drop(&mut self) {
        let mut stage = stage();
        let (held, lost) = (stage.held.take().unwrap_or_default(), std::mem::take(&mut stage.lost));
        drop(stage);
        for Held { to, text, color } in held {
            match to {
                To::Stderr => stderr::write(&text, color),
                To::Stdout => {
                    let mut out = anstream::AutoStream::new(io::stdout().lock(), color);
                    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
                }
            }
        }
        if lost > 0 {
            stderr::write(
                &format!("note: {lost} more were not kept while you were asked\n"),
                ColorChoice::Never,
            );
        }
    }
}

/// Holds `text` back while a dialog is open, and returns whether it did.
pub(super) fn holds(to: To, text: &str, color: ColorChoice) -> bool {
    let mut stage = stage();
    let Some(held) = &mut stage.held else { return false };
    if held.len() < MOST {
        held.push(Held { to, text: text.to_owned(), color });
    } else {
        stage.lost += 1;
    }
    true
}

/// Returns the texts that are held back.
#[cfg(test)]
pub(super) fn waiting() -> Vec<String> {
    stage().held.iter().flatten().map(|held| held.text.clone()).collect()
}

/// The terminal of a progress bar. It draws nothing while a dialog is open.
#[derive(Debug)]
pub(super) struct Bars;

/// Moves to the start of the line and clears it.
const CLEAR: &str = "\r\x1b[2K";

impl Bars {
    fn write(text: &str, bar: bool) {
        let mut stage = stage();
        if stage.held.is_none() {
            stage.bar = bar;
            say(text);
        }
    }

    fn go(count: usize, direction: char) {
        if count > 0 {
            Self::write(&format!("\x1b[{count}{direction}"), true);
        }
    }
}

impl TermLike for Bars {
    fn width(&self) -> u16 {
        terminal_size::terminal_size_of(io::stderr()).map_or(80, |(width, _)| width.0)
    }

    fn height(&self) -> u16 {
        terminal_size::terminal_size_of(io::stderr()).map_or(24, |(_, height)| height.0)
    }

    fn move_cursor_up(&self, n: usize) -> io::Result<()> {
        Self::go(n, 'A');
        Ok(())
    }

    fn move_cursor_down(&self, n: usize) -> io::Result<()> {
        Self::go(n, 'B');
        Ok(())
    }

    fn move_cursor_right(&self, n: usize) -> io::Result<()> {
        Self::go(n, 'C');
        Ok(())
    }

    fn move_cursor_left(&self, n: usize) -> io::Result<()> {
        Self::go(n, 'D');
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
        Self::write(CLEAR, false);
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes to stderr. Errors are ignored: a terminal that is gone needs no progress bar.
fn say(text: &str) {
    let mut err = anstream::AutoStream::always_ansi(io::stderr().lock());
    let _ = err.write_all(text.as_bytes());
    let _ = err.flush();
}

fn stage() -> MutexGuard<'static, Stage> {
    STAGE.lock().unwrap_or_else(PoisonError::into_inner)
}

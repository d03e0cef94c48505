//! Owns what may be written to the terminal while a person is asked something: nothing but the question.
//! Notes and logs wait until it is answered; a progress bar is taken away and comes back by itself.

use std::io::{self, Write as _};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anstream::ColorChoice;
use indicatif::TermLike;

use super::stderr;

/// Dropped, it lets through what was held back.
#[derive(Debug)]
pub(crate) struct Curtain(());

/// One for the process, as there is one terminal.
static STAGE: Mutex<Stage> = Mutex::new(Stage { held: None, bar: false, lost: 0 });

struct Stage {
    /// What waits, while the curtain is down.
    held: Option<Vec<Held>>,
    /// What did not fit.
    lost: usize,
    /// Whether a progress bar stands in the line of the cursor.
    bar: bool,
}

struct Held {
    to: To,
    text: String,
    color: ColorChoice,
}

/// Where a text was to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum To {
    Stdout,
    Stderr,
}

/// How many texts wait. A person who does not answer must not cost memory without end.
const MOST: usize = 1000;

impl Curtain {
    /// Takes the bar away and holds back what others write. The caller sees to it that there is one at a time.
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

/// Whether `text` has been kept for later.
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

/// The texts that wait.
#[cfg(test)]
pub(super) fn waiting() -> Vec<String> {
    stage().held.iter().flatten().map(|held| held.text.clone()).collect()
}

/// The terminal as a progress bar sees it: always there, and sometimes nobody looks.
#[derive(Debug)]
pub(super) struct Bars;

/// To the start of a line, and nothing on it.
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

/// A terminal that is gone needs no bar.
fn say(text: &str) {
    let mut err = anstream::AutoStream::always_ansi(io::stderr().lock());
    let _ = err.write_all(text.as_bytes());
    let _ = err.flush();
}

fn stage() -> MutexGuard<'static, Stage> {
    STAGE.lock().unwrap_or_else(PoisonError::into_inner)
}

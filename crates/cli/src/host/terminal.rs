//! Owns the terminal while a person is asked: raw keys in, pictures out, and everything put back however it
//! ends: an answer, a panic, a signal, or a server that no longer wants to know (CN-04).

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};
use std::task::Poll;
use std::time::Duration;

use crossterm::event::EventStream;
use crossterm::terminal::{disable_raw_mode, enable_raw_mode};
use futures_util::StreamExt as _;
use tokio::sync::{Mutex, Notify};
use tokio_util::sync::CancellationToken;

use super::key::Key;
use super::look::{Picture, Room, Row};
use crate::print::curtain::Curtain;

/// Something to ask, as a state that keys change.
pub(super) trait Dialog {
    /// How it ends.
    type Answer;

    /// Takes a key, and may be done with it.
    fn press(&mut self, key: &Key) -> Option<Self::Answer>;

    /// What it looks like now.
    fn draw(&self, room: Room) -> Picture;
}

/// The terminal, for one question at a time.
#[derive(Debug, Default)]
pub(crate) struct Terminal {
    color: bool,
    floor: Mutex<()>,
    interrupted: Notify,
    dismissed: CancellationToken,
}

/// Why nobody can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Absent {
    NoTerminal,
    /// It says of itself that it only prints.
    Dumb,
}

impl Absent {
    /// After `as`.
    pub(super) fn why(self) -> &'static str {
        match self {
            Self::NoTerminal => "there is no terminal to ask you on",
            Self::Dumb => "TERM is `dumb`, and a question needs a terminal that can move the cursor",
        }
    }

    /// Where it would be otherwise.
    pub(super) fn elsewhere(self) -> &'static str {
        match self {
            Self::NoTerminal => "in a terminal",
            Self::Dumb => "with another TERM",
        }
    }
}

/// Nobody answers: the terminal is gone, or we leave.
#[derive(Debug)]
pub(super) struct NoAnswer;

impl Terminal {
    /// The terminal, if somebody sits at it: keys come from stdin, and what is asked goes to stderr, so that
    /// stdout stays what it is.
    pub(super) fn find(dumb: bool, color: bool) -> Result<Self, Absent> {
        match io::stdin().is_terminal() && io::stderr().is_terminal() {
            false => Err(Absent::NoTerminal),
            true if dumb => Err(Absent::Dumb),
            true => Ok(Self { color, ..Self::default() }),
        }
    }

    /// Shows `heading`, which stays, and below it the dialog, which goes when it is done.
    ///
    /// Ctrl-C is passed on as an interrupt, and there is no answer then. Dropping the future takes the dialog
    /// away.
    pub(super) async fn ask<D: Dialog>(&self, heading: &[Row], mut dialog: D) -> Result<D::Answer, NoAnswer> {
        // In turn: two questions at once cannot be told apart.
        let floor = self.floor.lock().await;
        // Before anything is read. The thread of a stream that was just dropped is woken to give back the reader, which
        // a new stream needs; a read in between can take that wake-up, and then the new one waits for a key.
        let mut events = EventStream::new();
        let mut stage = Stage::enter(self.color).map_err(|_| NoAnswer)?;
        discard_early_keys(&mut events).await;
        stage.heading(heading);
        let answer = loop {
            stage.draw(&dialog.draw(room()));
            let event = tokio::select! {
                event = events.next() => event,
                () = self.dismissed.cancelled() => break Err(NoAnswer),
            };
            let Some(Ok(event)) = event else { break Err(NoAnswer) };
            match Key::of(event) {
                Some(Key::Interrupt) => {
                    drop((events, stage, floor));
                    self.interrupted.notify_one();
                    // What the call was for is gone as well. No answer leaves before that is.
                    self.dismissed.cancelled().await;
                    return Err(NoAnswer);
                }
                Some(key) => {
                    if let Some(answer) = dialog.press(&key) {
                        break Ok(answer);
                    }
                }
                None => {}
            }
        };
        drop(events);
        drop(stage);
        answer
    }

    /// Lines that stay.
    pub(super) fn tell(&self, rows: &[Row]) {
        let columns = room().columns;
        let text: String = rows.iter().map(|row| row.painted(columns, self.color) + "\n").collect();
        let color = if self.color { anstream::ColorChoice::Always } else { anstream::ColorChoice::Never };
        crate::print::stderr::write(&text, color);
    }

    /// Waits for Ctrl-C in a dialog, where it is a key like any other.
    pub(crate) async fn interrupted(&self) {
        self.interrupted.notified().await;
    }

    /// Takes away whatever is asked, and waits until the terminal is as it was.
    pub(crate) async fn dismiss(&self) {
        self.dismissed.cancel();
        let _ = tokio::time::timeout(LEAVING, self.floor.lock()).await;
    }
}

/// What was typed before the question was seen is no answer to it. This does not wait; but whoever does later is woken
/// by the waker that the first look left behind, so that it must be this task's.
async fn discard_early_keys(events: &mut EventStream) {
    std::future::poll_fn(|context| {
        for _ in 0..MAX_EARLY_KEYS {
            if !matches!(events.poll_next_unpin(context), Poll::Ready(Some(Ok(_)))) {
                break;
            }
        }
        Poll::Ready(())
    })
    .await;
}

/// For a dialog to be taken away.
const LEAVING: Duration = Duration::from_secs(1);

/// How much room a dialog has: the last column stays free, as terminals differ in what they do there.
pub(super) fn room() -> Room {
    let (columns, rows) = terminal_size::terminal_size_of(io::stderr())
        .map_or((80, 24), |(columns, rows)| (usize::from(columns.0), usize::from(rows.0)));
    Room { columns: columns.saturating_sub(1).max(20), rows: rows.saturating_sub(1).max(6) }
}

/// The terminal in its other state. Dropped, it is in the first again.
struct Stage {
    color: bool,
    /// How wide the rows are that were drawn, down to the one the cursor is in.
    above: Vec<usize>,
    _curtain: Curtain,
}

/// More is no person.
const MAX_EARLY_KEYS: usize = 10_000;
/// Pasted text is marked as such.
const ENTER: &str = "\x1b[?2004h";
const LEAVE: &str = "\x1b[?2004l\x1b[?25h";

impl Stage {
    fn enter(color: bool) -> io::Result<Self> {
        let curtain = Curtain::fall();
        enable_raw_mode()?;
        let stage = Self { color, above: Vec::new(), _curtain: curtain };
        write(ENTER);
        Ok(stage)
    }

    fn heading(&self, rows: &[Row]) {
        let columns = room().columns;
        let text: String = rows.iter().map(|row| row.painted(columns, self.color) + "\r\n").collect();
        write(&text);
    }

    fn draw(&mut self, picture: &Picture) {
        let Room { columns, rows } = room();
        let shown = &picture.rows[..picture.rows.len().min(rows)];
        let lines: Vec<String> = shown.iter().map(|row| row.painted(columns, self.color)).collect();
        let mut out = String::from("\x1b[?2026h\x1b[?25l");
        out.push_str(&self.top(columns));
        out.push_str(&lines.join("\r\n"));
        let last = lines.len().saturating_sub(1);
        let (row, column) = picture.cursor.unwrap_or((last, 0));
        if row < last {
            let _ = write!(out, "\x1b[{}A", last - row);
        }
        out.push('\r');
        if column > 0 {
            let _ = write!(out, "\x1b[{column}C");
        }
        if picture.cursor.is_some() {
            out.push_str("\x1b[?25h");
        }
        out.push_str("\x1b[?2026l");
        write(&out);
        self.above = shown[..row.min(shown.len())].iter().map(|row| row.width().min(columns)).collect();
    }

    /// To where the picture begins, with nothing below. A window that is narrower than before has broken the
    /// rows that no longer fit.
    fn top(&self, columns: usize) -> String {
        let up: usize = self.above.iter().map(|width| width.div_ceil(columns + 1).max(1)).sum();
        let up = if up > 0 { format!("\x1b[{up}A") } else { String::new() };
        format!("{up}\r\x1b[J")
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // A terminal that is gone need not be given back.
        write(&format!("{}{LEAVE}", self.top(room().columns)));
        let _ = disable_raw_mode();
    }
}

fn write(text: &str) {
    let mut err = anstream::AutoStream::always_ansi(io::stderr().lock());
    let _ = err.write_all(text.as_bytes());
    let _ = err.flush();
}

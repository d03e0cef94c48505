//! Controls the terminal while a person is asked: reads raw keys, draws frames, and restores
//! everything however the dialog ends: an answer, a panic, a signal, or a server that cancels its
//! request.
// CN-04.

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

/// A question as a state machine that keys change.
pub(super) trait Dialog {
    /// What the dialog results in.
    type Answer;

    /// Handles a key, and returns the result if it ends the dialog.
    fn press(&mut self, key: &Key) -> Option<Self::Answer>;

    /// Draws the current state.
    fn draw(&self, room: Room) -> Picture;
}

/// The terminal, which shows one dialog at a time.
#[derive(Debug, Default)]
pub(crate) struct Terminal {
    color: bool,
    floor: Mutex<()>,
    interrupted: Notify,
    dismissed: CancellationToken,
}

/// Why no dialog can be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Absent {
    NoTerminal,
    /// `TERM` says that the terminal can only print.
    Dumb,
}

impl Absent {
    /// Returns the reason, as a phrase that follows `as`.
    pub(super) fn why(self) -> &'static str {
        match self {
            Self::NoTerminal => "there is no terminal to ask you on",
            Self::Dumb => "TERM is `dumb`, and a question needs a terminal that can move the cursor",
        }
    }

    /// Returns where or how the command could ask.
    pub(super) fn elsewhere(self) -> &'static str {
        match self {
            Self::NoTerminal => "in a terminal",
            Self::Dumb => "with another TERM",
        }
    }
}

/// There is no answer: the terminal is gone, or the process ends.
#[derive(Debug)]
pub(super) struct NoAnswer;

impl Terminal {
    /// Opens the terminal, if a person sits at it: keys come from stdin, and dialogs go to stderr,
    /// so that stdout is not affected.
    pub(super) fn find(dumb: bool, color: bool) -> Result<Self, Absent> {
        match io::stdin().is_terminal() && io::stderr().is_terminal() {
            false => Err(Absent::NoTerminal),
            true if dumb => Err(Absent::Dumb),
            true => Ok(Self { color, ..Self::default() }),
        }
    }

    /// Shows `heading`, which stays, and below it the dialog, which is erased when it ends.
    ///
    /// Ctrl-C is passed on as an interrupt, without an answer. Dropping the future erases the
    /// dialog.
    pub(super) async fn ask<D: Dialog>(&self, heading: &[Row], mut dialog: D) -> Result<D::Answer, NoAnswer> {
        // One dialog at a time: two questions at once could not be told apart.
        let floor = self.floor.lock().await;
        // Created before anything is read. The thread of a stream that was just dropped is woken to
        // give back the reader, which a new stream needs; a read in between can take that wake-up,
        // and then the new stream waits for a key.
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
                    // The call is about to be canceled, and no answer must be sent before that.
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

    /// Prints rows that stay.
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

    /// Dismisses the current dialog, and waits until the terminal is restored.
    pub(crate) async fn dismiss(&self) {
        self.dismissed.cancel();
        let _ = tokio::time::timeout(LEAVING, self.floor.lock()).await;
    }
}

/// Discards keys that were typed before the question was shown. This does not wait, but it has to
/// run in the task that waits later: that one is woken by the waker of the first poll.
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

/// How long dismissing a dialog may take.
const LEAVING: Duration = Duration::from_secs(1);

/// Returns the size that a dialog may use. The last column stays free, since terminals differ in
/// how they wrap there.
pub(super) fn room() -> Room {
    let (columns, rows) = terminal_size::terminal_size_of(io::stderr())
        .map_or((80, 24), |(columns, rows)| (usize::from(columns.0), usize::from(rows.0)));
    Room { columns: columns.saturating_sub(1).max(20), rows: rows.saturating_sub(1).max(6) }
}

/// The terminal in raw mode. Dropping it restores the terminal.
struct Stage {
    color: bool,
    /// Widths of the drawn rows above the one with the cursor.
    above: Vec<usize>,
    _curtain: Curtain,
}

/// More pending keys are not from a person.
const MAX_EARLY_KEYS: usize = 10_000;
/// Turns bracketed paste on, which marks pasted text.
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

    /// Moves to the first row of the frame and clears everything below. A window that became
    /// narrower has wrapped rows that no longer fit.
    fn top(&self, columns: usize) -> String {
        let up: usize = self.above.iter().map(|width| width.div_ceil(columns + 1).max(1)).sum();
        let up = if up > 0 { format!("\x1b[{up}A") } else { String::new() };
        format!("{up}\r\x1b[J")
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // A terminal that is gone need not be restored.
        write(&format!("{}{LEAVE}", self.top(room().columns)));
        let _ = disable_raw_mode();
    }
}

fn write(text: &str) {
    let mut err = anstream::AutoStream::always_ansi(io::stderr().lock());
    let _ = err.write_all(text.as_bytes());
    let _ = err.flush();
}

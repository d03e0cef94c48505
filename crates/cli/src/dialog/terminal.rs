//! Controls the terminal while a person is asked: reads raw keys, draws frames, and restores
//! everything however the dialog ends: an answer, a panic, a signal, or a server that cancels its
//! request.
// CN-04.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use crossterm::event::EventStream;
use crossterm::terminal::{disable_raw_mode, enable_raw_mode};
use futures_util::future::Fuse;
use futures_util::{FutureExt as _, StreamExt as _};
use tokio::sync::{Mutex, Notify};
use tokio_util::sync::CancellationToken;

use super::frame::{Frame, Row, TerminalSize};
use super::key::Key;
use super::query::Query;
use crate::print::output_hold::{OutputHold, wait_for_held_text};
use crate::print::{stderr, window_size};

/// A question as a state machine that keys change.
pub(super) trait Dialog {
    /// What the dialog results in.
    type Output;

    /// Handles a key, and returns the result if it ends the dialog.
    fn handle_key(&mut self, key: &Key) -> Option<Self::Output>;

    /// Draws the current state.
    fn draw(&self, room: TerminalSize) -> Frame;

    /// Handles Ctrl-C, and returns whether the dialog goes on.
    fn handle_interrupt(&mut self) -> bool {
        false
    }

    /// Handles Ctrl-D: there is no more input, so most dialogs are dismissed.
    fn handle_end_of_input(&mut self) -> Option<Self::Output> {
        self.handle_key(&Key::Escape)
    }

    /// Takes what the dialog wants to be suggested since the last key. A new query replaces one that has
    /// no suggestions yet.
    fn take_query(&mut self) -> Option<Query> {
        None
    }

    /// Handles the suggestions for the latest query.
    fn handle_suggestions(&mut self, _: Vec<String>) {}
}

/// What becomes of other output while a dialog is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OutputPolicy {
    /// It is written when the dialog ends.
    HoldBack,
    /// It is written above the dialog.
    ShowAbove,
}

/// The terminal, which shows one dialog at a time.
#[derive(Debug)]
pub(super) struct Terminal {
    color: bool,
    /// Held while a dialog is shown. It has the stream of keys that the last dialog has left.
    dialog_lock: Mutex<Option<EventStream>>,
    interrupted: Notify,
    /// Canceled when no more dialogs are to be shown.
    dismissed: CancellationToken,
    /// Canceled when the dialogs that are open or waiting now are dismissed; a child of `dismissed`.
    current: parking_lot::Mutex<CancellationToken>,
}

/// Why no dialog can be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TerminalUnavailable {
    NoTerminal,
    /// `TERM` says that the terminal can only print.
    Dumb,
}

impl TerminalUnavailable {
    /// Returns the reason, as a phrase that follows `as`.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::NoTerminal => "there is no terminal to ask you on",
            Self::Dumb => "TERM is `dumb`, and a question needs a terminal that can move the cursor",
        }
    }

    /// Returns where or how the command could ask.
    pub(super) fn remedy(self) -> &'static str {
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
    pub(super) fn open(dumb: bool, color: bool) -> Result<Self, TerminalUnavailable> {
        match io::stdin().is_terminal() && io::stderr().is_terminal() {
            false => Err(TerminalUnavailable::NoTerminal),
            true if dumb => Err(TerminalUnavailable::Dumb),
            true => {
                let dismissed = CancellationToken::new();
                let current = parking_lot::Mutex::new(dismissed.child_token());
                let (dialog_lock, interrupted) = (Mutex::default(), Notify::new());
                Ok(Self { color, dialog_lock, interrupted, dismissed, current })
            }
        }
    }

    /// Shows `heading`, which stays, and below it the dialog, which is erased when it ends.
    ///
    /// Ctrl-C is passed on as an interrupt, without an answer. Dropping the future erases the
    /// dialog.
    pub(super) async fn ask<D: Dialog>(&self, heading: &[Row], dialog: D) -> Result<D::Output, NoAnswer> {
        self.ask_with_suggestions(heading, dialog, |_| std::future::ready(Vec::new())).await
    }

    /// Like [`Terminal::ask`], with suggestions for what the dialog queries.
    pub(super) async fn ask_with_suggestions<D: Dialog, F: Future<Output = Vec<String>>>(
        &self,
        heading: &[Row],
        dialog: D,
        suggest: impl Fn(Query) -> F,
    ) -> Result<D::Output, NoAnswer> {
        self.run(heading, dialog, suggest, OutputPolicy::HoldBack).await
    }

    /// Shows a prompt for a command. Keys that were typed before belong to it, and other output appears
    /// above it.
    pub(super) async fn prompt<D: Dialog, F: Future<Output = Vec<String>>>(
        &self,
        dialog: D,
        suggest: impl Fn(Query) -> F,
    ) -> Result<D::Output, NoAnswer> {
        self.run(&[], dialog, suggest, OutputPolicy::ShowAbove).await
    }

    async fn run<D: Dialog, F: Future<Output = Vec<String>>>(
        &self,
        heading: &[Row],
        mut dialog: D,
        suggest: impl Fn(Query) -> F,
        output: OutputPolicy,
    ) -> Result<D::Output, NoAnswer> {
        let dismissed = self.current.lock().clone();
        // One dialog at a time: two questions at once could not be told apart.
        let mut floor = self.dialog_lock.lock().await;
        // The stream of the last dialog is used again. The thread of one that was just dropped is woken to
        // give back the reader, which a new stream needs; a read in between can take that wake-up, and then
        // the new stream sees no key before the next one. For the same reason it is created before
        // anything is read.
        let mut events = floor.take().unwrap_or_default();
        let mut stage = RawTerminal::enter(self.color).map_err(|_| NoAnswer)?;
        if output == OutputPolicy::HoldBack {
            discard_waiting_input();
            discard_early_keys(&mut events).await;
        }
        stage.print_heading(heading);
        let mut suggestions = pin!(Fuse::terminated());
        let answer = loop {
            stage.draw(&dialog.draw(dialog_size()));
            if let Some(query) = dialog.take_query() {
                suggestions.set(suggest(query).fuse());
            }
            let event = tokio::select! {
                event = events.next() => event,
                found = &mut suggestions => {
                    dialog.handle_suggestions(found);
                    continue;
                }
                () = wait_for_held_text(), if output == OutputPolicy::ShowAbove => {
                    stage.write_held_output();
                    continue;
                }
                () = dismissed.cancelled() => break Err(NoAnswer),
            };
            let Some(Ok(event)) = event else { break Err(NoAnswer) };
            match Key::from_event(event) {
                Some(Key::Interrupt) if dialog.handle_interrupt() => {}
                Some(Key::Interrupt) => {
                    *floor = Some(events);
                    drop((stage, floor));
                    self.interrupted.notify_one();
                    // The call is about to be canceled, and no answer must be sent before that.
                    dismissed.cancelled().await;
                    return Err(NoAnswer);
                }
                Some(Key::EndOfInput) => {
                    if let Some(answer) = dialog.handle_end_of_input() {
                        break Ok(answer);
                    }
                }
                Some(Key::ClearScreen) if output == OutputPolicy::ShowAbove => stage.clear_screen(),
                Some(key) => {
                    if let Some(answer) = dialog.handle_key(&key) {
                        break Ok(answer);
                    }
                }
                None => {}
            }
        };
        // Unless the last key has ended the dialog, a key wakes this task, and not the one that asks next.
        if answer.is_ok() {
            *floor = Some(events);
        }
        drop(stage);
        answer
    }

    /// Prints rows that stay.
    pub(super) fn print_rows(&self, rows: &[Row]) {
        let columns = dialog_size().columns;
        let text: String = rows.iter().map(|row| row.render(columns, self.color) + "\n").collect();
        let color = if self.color { anstream::ColorChoice::Always } else { anstream::ColorChoice::Never };
        stderr::write(&text, color);
    }

    /// Waits for Ctrl-C in a dialog, where it is a key like any other.
    pub(super) async fn interrupted(&self) {
        self.interrupted.notified().await;
    }

    /// Dismisses the current dialog, and all that are still to come, and waits until the terminal is restored.
    pub(super) async fn dismiss(&self) {
        self.dismissed.cancel();
        self.wait_until_free().await;
    }

    /// Dismisses the current dialog and those that wait for it, and waits until the terminal is restored.
    pub(super) async fn dismiss_current(&self) {
        let next = self.dismissed.child_token();
        std::mem::replace(&mut *self.current.lock(), next).cancel();
        self.wait_until_free().await;
    }

    async fn wait_until_free(&self) {
        let _ = tokio::time::timeout(DISMISS_TIMEOUT, self.dialog_lock.lock()).await;
    }
}

/// Discards what was typed before the question was shown and was not read yet: it is no answer to it.
#[cfg(unix)]
fn discard_waiting_input() {
    use rustix::termios::{QueueSelector, tcflush};
    // Where it fails, early keys are discarded as they are read.
    let _ = tcflush(io::stdin(), QueueSelector::IFlush);
}

/// Keys that were typed early are discarded as they are read.
#[cfg(not(unix))]
fn discard_waiting_input() {}

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
const DISMISS_TIMEOUT: Duration = Duration::from_secs(1);

/// Returns the size that a dialog may use. The last column stays free, since terminals differ in
/// how they wrap there.
pub(super) fn dialog_size() -> TerminalSize {
    let (columns, rows) = window_size::window_size().unwrap_or((80, 24));
    TerminalSize { columns: columns.saturating_sub(1).max(20), rows: rows.saturating_sub(1).max(6) }
}

/// The terminal in raw mode. Dropping it restores the terminal.
struct RawTerminal {
    color: bool,
    /// Widths of the drawn rows above the one with the cursor.
    widths_above_cursor: Vec<usize>,
    output_hold: OutputHold,
}

/// More pending keys are not from a person.
const MAX_EARLY_KEYS: usize = 10_000;
/// Turns bracketed paste on, which marks pasted text.
const ENTER_SEQUENCE: &str = "\x1b[?2004h";
const LEAVE_SEQUENCE: &str = "\x1b[?2004l\x1b[?25h";

impl RawTerminal {
    fn enter(color: bool) -> io::Result<Self> {
        let output_hold = stderr::hold_output();
        enable_raw_mode()?;
        let stage = Self { color, widths_above_cursor: Vec::new(), output_hold };
        write(ENTER_SEQUENCE);
        Ok(stage)
    }

    fn print_heading(&self, rows: &[Row]) {
        let columns = dialog_size().columns;
        let text: String = rows.iter().map(|row| row.render(columns, self.color) + "\r\n").collect();
        write(&text);
    }

    /// Writes output that was held back, in place of the frame, which has to be drawn again.
    fn write_held_output(&mut self) {
        write(&self.move_to_top(dialog_size().columns));
        self.widths_above_cursor.clear();
        self.output_hold.write_held();
    }

    fn clear_screen(&mut self) {
        write("\x1b[2J\x1b[H");
        self.widths_above_cursor.clear();
    }

    fn draw(&mut self, picture: &Frame) {
        let TerminalSize { columns, rows } = dialog_size();
        let shown = &picture.rows[..picture.rows.len().min(rows)];
        let lines: Vec<String> = shown.iter().map(|row| row.render(columns, self.color)).collect();
        let mut out = String::from("\x1b[?2026h\x1b[?25l");
        out.push_str(&self.move_to_top(columns));
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
        self.widths_above_cursor =
            shown[..row.min(shown.len())].iter().map(|row| row.width().min(columns)).collect();
    }

    /// Moves to the first row of the frame and clears everything below. A window that became
    /// narrower has wrapped rows that no longer fit.
    fn move_to_top(&self, columns: usize) -> String {
        let up: usize = self.widths_above_cursor.iter().map(|width| width.div_ceil(columns + 1).max(1)).sum();
        let up = if up > 0 { format!("\x1b[{up}A") } else { String::new() };
        format!("{up}\r\x1b[J")
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        // A terminal that is gone need not be restored.
        write(&format!("{}{LEAVE_SEQUENCE}", self.move_to_top(dialog_size().columns)));
        let _ = disable_raw_mode();
    }
}

fn write(text: &str) {
    let mut err = anstream::AutoStream::always_ansi(io::stderr().lock());
    let _ = err.write_all(text.as_bytes());
    let _ = err.flush();
}

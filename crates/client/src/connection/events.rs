//! What subscribers of a connection learn: its events and its statistics.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bowline_proto::fault::ProcessEnd;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::events::{ConnectionEvent, Event, EventReceiver, EventSender, StderrLine};
use crate::status::Health;

/// The subscribers of one connection, and its statistics.
pub(crate) struct ConnectionEvents {
    sender: EventSender<Event>,
    health: Mutex<Health>,
    /// Whether the end of each call is an event.
    report_calls: AtomicBool,
    /// Calls whose end is yet to be an event.
    open_reports: AtomicUsize,
    /// Notified when the last of these calls has ended.
    all_reported: Notify,
    stderr: Mutex<StderrReports>,
}

/// What becomes of the lines that the server's process writes to stderr.
enum StderrReports {
    /// They are kept, and the oldest ones forgotten, until somebody wants them as events.
    Kept(VecDeque<Box<str>>),
    /// Each is an event.
    Reported {
        /// Number of lines that were left out since the last one that was not.
        skipped: u64,
    },
}

impl ConnectionEvents {
    pub(crate) fn new() -> Self {
        Self {
            sender: EventSender::new(EVENT_BUFFER),
            health: Mutex::default(),
            report_calls: AtomicBool::new(false),
            open_reports: AtomicUsize::new(0),
            all_reported: Notify::new(),
            stderr: Mutex::new(StderrReports::Kept(VecDeque::new())),
        }
    }

    /// Subscribes to events without asking a modern server for notifications.
    pub(crate) fn subscribe(&self) -> EventReceiver<Event> {
        self.sender.subscribe()
    }

    /// Sends an event to all subscribers, if there are any.
    pub(crate) fn emit(&self, event: Event) {
        self.sender.send(event);
    }

    /// Ends the streams of all subscribers, after the events that they have yet to receive.
    pub(crate) fn close(&self) {
        self.sender.close();
    }

    pub(crate) fn report_calls(&self) {
        self.report_calls.store(true, Ordering::Relaxed);
    }

    /// Begins a call. Returns whether its end is worth an event, for which [`Self::report_call`] must then be
    /// called: reports were asked for, and somebody receives them.
    pub(crate) fn begin_report(&self) -> bool {
        let is_reported = self.report_calls.load(Ordering::Relaxed) && self.has_subscribers();
        if is_reported {
            self.open_reports.fetch_add(1, Ordering::AcqRel);
        }
        is_reported
    }

    /// Emits the end of a call that [`Self::begin_report`] has counted.
    pub(crate) fn report_call(&self, event: Event) {
        self.emit(event);
        if self.open_reports.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.all_reported.notify_waiters();
        }
    }

    /// Waits until the calls that just ended with the connection are reported. Not for long: a caller may hold a call
    /// without polling it.
    pub(crate) async fn wait_for_reports(&self) {
        let all_reported = async {
            loop {
                let notified = self.all_reported.notified();
                if self.open_reports.load(Ordering::Acquire) == 0 {
                    return;
                }
                notified.await;
            }
        };
        let _ = timeout(REPORT_TIMEOUT, all_reported).await;
    }

    /// Makes lines of stderr events: those that were kept, and all further ones.
    pub(crate) fn report_stderr(&self) {
        let mut reports = self.stderr.lock();
        if let StderrReports::Kept(lines) = &mut *reports {
            let lines = std::mem::take(lines);
            *reports = StderrReports::Reported { skipped: 0 };
            for line in lines {
                self.offer_stderr(&mut reports, line);
            }
        }
    }

    /// Counts a line of stderr, and emits it if that was asked for; otherwise it is kept for a while.
    pub(crate) fn emit_stderr(&self, line: &str) {
        self.health.lock().stderr_lines += 1;
        let mut reports = self.stderr.lock();
        if let StderrReports::Kept(lines) = &mut *reports {
            if lines.len() == MAX_KEPT_LINES {
                lines.pop_front();
            }
            lines.push_back(line.into());
            return;
        }
        self.offer_stderr(&mut reports, line.into());
    }

    /// Emits a line, if somebody receives it. A line that finds many events waiting is counted and left
    /// out, so that a flood neither grows the queue nor displaces other events.
    fn offer_stderr(&self, reports: &mut StderrReports, text: Box<str>) {
        let StderrReports::Reported { skipped } = reports else { return };
        if self.has_subscribers() {
            let line = StderrLine { text, skipped: *skipped };
            let is_sent = self.sender.offer(Event::Stderr(Arc::new(line)));
            *skipped = if is_sent { 0 } else { *skipped + 1 };
        }
    }

    /// Whether an event stream, a hook or a relay subscribes to the events of this connection.
    pub(crate) fn has_subscribers(&self) -> bool {
        self.sender.receiver_count() > 0
    }

    pub(crate) fn health(&self) -> Health {
        self.health.lock().clone()
    }

    /// Counts a line on stdout that was no message.
    pub(crate) fn record_stray_line(&self) {
        self.health.lock().stray_lines += 1;
    }

    /// Records how the process of the server ended.
    pub(crate) fn record_process_end(&self, end: ProcessEnd) {
        self.health.lock().process_end = Some(end);
    }

    /// Updates the statistics with an event that is about to be emitted.
    pub(crate) fn record_health(&self, event: &ConnectionEvent) {
        self.health.lock().record(event);
    }
}

/// How many lines of stderr are kept until somebody wants them as events. Each has at most 1,024 bytes.
const MAX_KEPT_LINES: usize = 50;

/// How long the end of a connection waits for the reports of its calls.
const REPORT_TIMEOUT: Duration = Duration::from_millis(500);

/// Number of events that a slow subscriber may fall behind.
const EVENT_BUFFER: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    /// What a server wrote while it started is not lost to those who ask for it later, within limits.
    #[test]
    fn earlier_lines_of_stderr_come_first() {
        let events = ConnectionEvents::new();
        (0..60).for_each(|n| events.emit_stderr(&n.to_string()));
        let mut received = events.subscribe();
        assert_eq!(received.try_next(), None);
        events.report_stderr();
        events.emit_stderr("now");
        // They are reported once.
        events.report_stderr();
        let mut lines = Vec::new();
        while let Some(Event::Stderr(line)) = received.try_next() {
            assert_eq!(line.skipped, 0);
            lines.push(line.text.to_string());
        }
        let expected = (10..60).map(|n| n.to_string()).chain(["now".to_owned()]);
        assert_eq!(lines, expected.collect::<Vec<_>>());
    }
}

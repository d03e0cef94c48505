//! What subscribers of a connection learn: its events and its statistics.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bowline_proto::fault::ProcessEnd;
use parking_lot::Mutex;

use crate::events::{ConnectionEvent, Event, EventReceiver, EventSender, StderrLine};
use crate::status::Health;

/// The subscribers of one connection, and its statistics.
pub(crate) struct ConnectionEvents {
    sender: EventSender<Event>,
    health: Mutex<Health>,
    /// Whether the end of each call is an event.
    report_calls: AtomicBool,
    /// Whether each line that the server's process writes to stderr is an event.
    report_stderr: AtomicBool,
    /// Number of lines of stderr that were left out since the last one that was not.
    skipped_stderr: Mutex<u64>,
}

impl ConnectionEvents {
    pub(crate) fn new() -> Self {
        Self {
            sender: EventSender::new(EVENT_BUFFER),
            health: Mutex::default(),
            report_calls: AtomicBool::new(false),
            report_stderr: AtomicBool::new(false),
            skipped_stderr: Mutex::default(),
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

    pub(crate) fn report_calls(&self) {
        self.report_calls.store(true, Ordering::Relaxed);
    }

    /// Whether the end of a call is worth an event: it was asked for, and somebody receives it.
    pub(crate) fn reports_calls(&self) -> bool {
        self.report_calls.load(Ordering::Relaxed) && self.has_subscribers()
    }

    pub(crate) fn report_stderr(&self) {
        self.report_stderr.store(true, Ordering::Relaxed);
    }

    /// Counts a line of stderr, and emits it if that was asked for. A line that finds many events waiting is
    /// counted and left out, so that a flood neither grows the queue nor displaces other events.
    pub(crate) fn emit_stderr(&self, line: &str) {
        self.health.lock().stderr_lines += 1;
        if !self.report_stderr.load(Ordering::Relaxed) || !self.has_subscribers() {
            return;
        }
        let mut skipped = self.skipped_stderr.lock();
        let line = StderrLine { text: line.into(), skipped: *skipped };
        let is_sent = self.sender.offer(Event::Stderr(Arc::new(line)));
        *skipped = if is_sent { 0 } else { *skipped + 1 };
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

/// Number of events that a slow subscriber may fall behind.
const EVENT_BUFFER: usize = 1024;

//! What subscribers of a connection learn: its events and its statistics.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::events::{ConnectionEvent, Event, EventReceiver, EventSender};
use crate::status::Health;

/// The subscribers of one connection, and its statistics.
pub(crate) struct ConnectionEvents {
    sender: EventSender<Event>,
    health: Mutex<Health>,
    /// Whether the end of each call is an event.
    report_calls: AtomicBool,
}

impl ConnectionEvents {
    pub(crate) fn new() -> Self {
        Self {
            sender: EventSender::new(EVENT_BUFFER),
            health: Mutex::default(),
            report_calls: AtomicBool::new(false),
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

    /// Whether an event stream, a hook or a relay subscribes to the events of this connection.
    pub(crate) fn has_subscribers(&self) -> bool {
        self.sender.receiver_count() > 0
    }

    pub(crate) fn health(&self) -> Health {
        self.health.lock().clone()
    }

    /// Updates the statistics with an event that is about to be emitted.
    pub(crate) fn record_health(&self, event: &ConnectionEvent) {
        self.health.lock().record(event);
    }
}

/// Number of events that a slow subscriber may fall behind.
const EVENT_BUFFER: usize = 1024;

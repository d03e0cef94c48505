//! An event stream: a log of events that one response reads, and that another can resume later.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body::{Body, Frame};
use parking_lot::Mutex;
use serde_json::Value;

use crate::engine::{Engine, Outlet};

pub(crate) struct EventStream {
    number: u64,
    has_event_ids: bool,
    log: Mutex<StreamLog>,
    /// Told when the stream may have stopped being open, since tests wait for that.
    engine: Weak<Engine>,
}

#[derive(Default)]
struct StreamLog {
    events: Vec<Bytes>,
    finished: bool,
    readers: usize,
    /// Incremented to end all current readers.
    generation: u64,
    wakers: Vec<Waker>,
}

impl EventStream {
    pub(crate) fn new(engine: &Arc<Engine>) -> Arc<Self> {
        let (number, settings) = (engine.next_number(), &engine.script().http);
        let (has_event_ids, engine) = (settings.event_ids, Arc::downgrade(engine));
        let stream = Self { number, has_event_ids, log: Mutex::default(), engine };
        let mut head = String::new();
        if let Some(retry) = settings.retry_ms {
            let _ = writeln!(head, "retry: {retry}");
        }
        if settings.priming {
            let _ = write!(head, "id: {number}.0\ndata:\n");
        }
        if !head.is_empty() {
            head.push('\n');
            stream.push(head);
        }
        Arc::new(stream)
    }

    /// Returns the stream number and the position after the event with this id.
    pub(crate) fn parse_id(id: &str) -> Option<(u64, usize)> {
        let (stream, event) = id.split_once('.')?;
        Some((stream.parse().ok()?, event.parse::<usize>().ok()? + 1))
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Returns a reader from this event on.
    pub(crate) fn open_reader(self: &Arc<Self>, from: usize) -> StreamReader {
        let mut log = self.log.lock();
        log.readers += 1;
        StreamReader {
            stream: self.clone(),
            next: from,
            generation: log.generation,
            events_left: u32::MAX,
            on_drop: None,
        }
    }

    /// Returns whether the stream is finished and can neither be read nor resumed.
    pub(crate) fn is_disposable(&self) -> bool {
        let log = self.log.lock();
        log.finished && log.readers == 0 && !self.has_event_ids
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.log.lock().finished
    }

    /// Ends the responses that read it now; the stream itself continues.
    pub(crate) fn end_readers(&self) {
        let mut log = self.log.lock();
        log.generation += 1;
        log.wake();
    }

    /// Appends an event without changing it.
    pub(crate) fn push(&self, event: String) {
        let mut log = self.log.lock();
        log.events.push(event.into());
        log.wake();
    }

    /// Makes tests look again whether it is open.
    pub(crate) fn notify_waiters(&self) {
        if let Some(engine) = self.engine.upgrade() {
            engine.message_log.notify_waiters();
        }
    }
}

impl StreamLog {
    fn wake(&mut self) {
        self.wakers.drain(..).for_each(Waker::wake);
    }
}

impl Outlet for EventStream {
    fn send(&self, message: Value) -> bool {
        if !self.is_open() {
            return false;
        }
        let mut log = self.log.lock();
        let mut event = String::new();
        if self.has_event_ids {
            let _ = writeln!(event, "id: {}.{}", self.number, log.events.len());
        }
        let _ = write!(event, "event: message\ndata: {message}\n\n");
        log.events.push(event.into());
        log.wake();
        true
    }

    /// Without ids, an event that nobody reads at once is lost.
    fn is_open(&self) -> bool {
        let log = self.log.lock();
        !log.finished && (log.readers > 0 || self.has_event_ids)
    }

    fn finish(&self) {
        let mut log = self.log.lock();
        log.finished = true;
        log.wake();
    }
}

/// A response body that follows an [`EventStream`].
pub(crate) struct StreamReader {
    stream: Arc<EventStream>,
    next: usize,
    generation: u64,
    /// The number of events after which the response ends in good order.
    pub(crate) events_left: u32,
    /// Called when the response is dropped.
    pub(crate) on_drop: Option<Box<dyn FnOnce() + Send>>,
}

impl Body for StreamReader {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let stream = self.stream.clone();
        let mut log = stream.log.lock();
        if self.events_left == 0 || log.generation != self.generation {
            return Poll::Ready(None);
        }
        if let Some(event) = log.events.get(self.next) {
            self.next += 1;
            self.events_left -= 1;
            return Poll::Ready(Some(Ok(Frame::data(event.clone()))));
        }
        if log.finished {
            return Poll::Ready(None);
        }
        log.wakers.push(cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for StreamReader {
    fn drop(&mut self) {
        self.stream.log.lock().readers -= 1;
        if let Some(on_drop) = self.on_drop.take() {
            on_drop();
        }
        // Whoever waits for the end of the stream also sees what follows from it.
        self.stream.notify_waiters();
    }
}

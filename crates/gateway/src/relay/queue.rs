//! Queues notifications for the host, in the order in which the server sent them.
//!
//! The client delivers events through a channel, and the progress of a call to a callback of that
//! call. Both happen while the messages of the server are read, in order. So adding progress first
//! takes the events that are in the channel by then.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bowline::wire::Json;
use bowline::{Event, EventReceiver};
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::{Notify, oneshot};

/// The sending end of the queue.
#[derive(Debug)]
pub(super) struct HostQueue {
    inner: Mutex<Inner>,
    /// Notified when something other than an event was added.
    added: Notify,
}

/// The receiving end of the queue. Dropping it releases everybody who waits in
/// [`HostQueue::wait_until_delivered`].
#[derive(Debug)]
pub(super) struct QueueReader {
    queue: Arc<HostQueue>,
    /// A second receiver of the events, which only wakes the reader.
    wake: EventReceiver<Event>,
}

/// One entry of the queue.
#[derive(Debug)]
pub(super) enum QueueItem {
    Event(Event),
    /// This many events were missed.
    Missed(u64),
    /// Progress of a call, with the token of the host.
    Progress {
        call: Weak<OpenCall>,
        params: Json,
    },
}

/// An open call of the host: its progress is delivered only while this lives.
#[derive(Debug)]
pub(super) struct OpenCall;

#[derive(Debug)]
struct Inner {
    items: VecDeque<QueueItem>,
    /// Events that come after `items`.
    events: EventReceiver<Event>,
    /// How many messages of the server `items` stand for.
    queued: u64,
    /// How many messages were given to the reader.
    taken: u64,
    /// Callers that wait until this many messages were delivered, in order.
    waiters: VecDeque<(u64, oneshot::Sender<()>)>,
    /// Whether the reader was dropped.
    closed: bool,
}

/// How many items are queued for a host that reads slowly. Beyond that events stay in their
/// channel, and progress is dropped.
const MAX_ITEMS: usize = 1024;

impl HostQueue {
    /// Creates both ends.
    pub(super) fn new(events: EventReceiver<Event>) -> (Arc<Self>, QueueReader) {
        let wake = events.resubscribe();
        let inner = Inner {
            items: VecDeque::new(),
            events,
            queued: 0,
            taken: 0,
            waiters: VecDeque::new(),
            closed: false,
        };
        let queue = Arc::new(Self { inner: Mutex::new(inner), added: Notify::new() });
        (Arc::clone(&queue), QueueReader { queue, wake })
    }

    /// Adds progress of a call. Only the newest progress matters, so it is dropped if there is no
    /// room.
    pub(super) fn push_progress(&self, call: &Weak<OpenCall>, params: Json) {
        let mut inner = self.lock();
        while inner.items.len() < MAX_ITEMS
            && let Some(event) = inner.take_event()
        {
            inner.push(event);
        }
        if inner.items.len() < MAX_ITEMS {
            inner.push(QueueItem::Progress { call: Weak::clone(call), params });
            drop(inner);
            self.added.notify_one();
        }
    }

    /// Waits until the host was sent everything that the server has sent by now. Later messages are
    /// not waited for: a server that never stops must not delay its responses.
    pub(super) async fn wait_until_delivered(&self) {
        let passed = {
            let mut inner = self.lock();
            if inner.closed {
                return;
            }
            let (told, passed) = oneshot::channel();
            let position = inner.taken + inner.queued + count(inner.events.len());
            inner.waiters.push_back((position, told));
            passed
        };
        self.added.notify_one();
        // The sender is dropped when that is the case.
        let _ = passed.await;
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl QueueReader {
    /// Returns the next item; the previous one counts as delivered. `None` at the end.
    ///
    /// Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> Option<QueueItem> {
        loop {
            if let Some(item) = self.queue.lock().next() {
                return Some(item);
            }
            tokio::select! {
                event = self.wake.recv() => if matches!(event, Err(RecvError::Closed)) {
                    return self.queue.lock().next();
                },
                () = self.queue.added.notified() => {}
            }
        }
    }
}

impl Drop for QueueReader {
    fn drop(&mut self) {
        let mut inner = self.queue.lock();
        inner.closed = true;
        inner.waiters.clear();
    }
}

impl Inner {
    fn push(&mut self, item: QueueItem) {
        self.queued += item.count();
        self.items.push_back(item);
    }

    /// Everything that was taken before has been delivered by now.
    fn next(&mut self) -> Option<QueueItem> {
        while self.waiters.front().is_some_and(|(position, _)| *position <= self.taken) {
            self.waiters.pop_front();
        }
        let item = match self.items.pop_front() {
            Some(item) => {
                self.queued -= item.count();
                item
            }
            None => self.take_event()?,
        };
        self.taken += item.count();
        Some(item)
    }

    fn take_event(&mut self) -> Option<QueueItem> {
        match self.events.try_recv() {
            Ok(event) => Some(QueueItem::Event(event)),
            Err(TryRecvError::Lagged(missed)) => Some(QueueItem::Missed(missed)),
            Err(TryRecvError::Empty | TryRecvError::Closed) => None,
        }
    }
}

impl QueueItem {
    /// How many messages of the server it stands for.
    fn count(&self) -> u64 {
        match self {
            Self::Missed(missed) => *missed,
            Self::Event(_) | Self::Progress { .. } => 1,
        }
    }
}

fn count(messages: usize) -> u64 {
    u64::try_from(messages).unwrap_or(u64::MAX)
}

//! What the host is told unasked, in the order in which the server said it.
//!
//! The client hands over events by a channel, and the progress of a call to a listener of that call. Both happen while
//! the server's messages are read, in their order. So whoever adds progress first takes the events that are in the
//! channel by then.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bowline::wire::Json;
use bowline::{Event, EventReceiver};
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::{Notify, oneshot};

/// The end of the queue where something is added.
#[derive(Debug)]
pub(super) struct Queue {
    inner: Mutex<Inner>,
    /// Told when something other than an event was added.
    added: Notify,
}

/// The end of the queue where it is read. Dropping it lets everybody go who waits in [`Queue::passed`].
#[derive(Debug)]
pub(super) struct QueueReader {
    queue: Arc<Queue>,
    /// A second receiver of those events, which wakes the queue when one comes.
    wake: EventReceiver<Event>,
}

/// What is in the queue.
#[derive(Debug)]
pub(super) enum Item {
    Event(Event),
    /// So many events were missed.
    Missed(u64),
    /// Progress of a call, as the host is to be told it.
    Progress {
        call: Weak<OpenCall>,
        params: Json,
    },
}

/// A call of the host: its progress is told for as long as this is there.
#[derive(Debug)]
pub(super) struct OpenCall;

#[derive(Debug)]
struct Inner {
    items: VecDeque<Item>,
    /// What comes after `items`.
    events: EventReceiver<Event>,
    /// How many messages of the server `items` stand for.
    queued: u64,
    /// How many were given to the reader.
    taken: u64,
    /// Who waits until so many were told. In order.
    waiting: VecDeque<(u64, oneshot::Sender<()>)>,
    /// The reader is gone.
    closed: bool,
}

/// How many items wait for a host that reads slowly. Then events stay in their channel, and progress is dropped.
const MAX_ITEMS: usize = 1024;

impl Queue {
    /// Both ends.
    pub(super) fn new(events: EventReceiver<Event>) -> (Arc<Self>, QueueReader) {
        let wake = events.resubscribe();
        let inner = Inner {
            items: VecDeque::new(),
            events,
            queued: 0,
            taken: 0,
            waiting: VecDeque::new(),
            closed: false,
        };
        let queue = Arc::new(Self { inner: Mutex::new(inner), added: Notify::new() });
        (Arc::clone(&queue), QueueReader { queue, wake })
    }

    /// Adds progress of a call. Of progress only the newest counts: what finds no room is dropped.
    pub(super) fn push_progress(&self, call: &Weak<OpenCall>, params: Json) {
        let mut inner = self.lock();
        while inner.items.len() < MAX_ITEMS
            && let Some(event) = inner.take_event()
        {
            inner.push(event);
        }
        if inner.items.len() < MAX_ITEMS {
            inner.push(Item::Progress { call: Weak::clone(call), params });
            drop(inner);
            self.added.notify_one();
        }
    }

    /// Waits until the host was told all that the server has said by now. What it says later is not waited for: a
    /// server that never stops talking must not hold up its answers.
    pub(super) async fn passed(&self) {
        let passed = {
            let mut inner = self.lock();
            if inner.closed {
                return;
            }
            let (told, passed) = oneshot::channel();
            let position = inner.taken + inner.queued + count(inner.events.len());
            inner.waiting.push_back((position, told));
            passed
        };
        self.added.notify_one();
        // Dropped when it is so.
        let _ = passed.await;
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl QueueReader {
    /// The next item, once the host was told the one before. `None`: there will be none.
    ///
    /// Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> Option<Item> {
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
        inner.waiting.clear();
    }
}

impl Inner {
    fn push(&mut self, item: Item) {
        self.queued += item.count();
        self.items.push_back(item);
    }

    /// Everything that was taken before has been told by now.
    fn next(&mut self) -> Option<Item> {
        while self.waiting.front().is_some_and(|(position, _)| *position <= self.taken) {
            self.waiting.pop_front();
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

    fn take_event(&mut self) -> Option<Item> {
        match self.events.try_recv() {
            Ok(event) => Some(Item::Event(event)),
            Err(TryRecvError::Lagged(missed)) => Some(Item::Missed(missed)),
            Err(TryRecvError::Empty | TryRecvError::Closed) => None,
        }
    }
}

impl Item {
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

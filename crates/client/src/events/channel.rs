//! A bounded broadcast channel that allocates memory only for the values that wait in it.
//!
//! The runtime's own broadcast channel allocates and initializes a slot for every value that may
//! ever wait when it is created. For the events of one client that is more memory than everything
//! else an idle connection holds.

use std::collections::VecDeque;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::task::coop::cooperative;

/// Creates a channel for `capacity` values: when a receiver falls further behind, the oldest value
/// is dropped, and that receiver is told how many it missed.
pub fn channel<T>(capacity: usize) -> (EventSender<T>, EventReceiver<T>) {
    let sender = EventSender::new(capacity);
    let receiver = sender.subscribe();
    (sender, receiver)
}

/// The sending end of a channel of events. All clones send into the same channel, which closes when
/// the last one is dropped.
pub struct EventSender<T>(Arc<OpenChannel<T>>);

/// The receiving end of a channel of events. Every receiver gets every value that is sent after it
/// was created.
///
/// # Behavior
/// - A receiver that falls far behind (1,024 events of a client) misses the oldest values and is
///   told how many: [`RecvError::Lagged`].
/// - After the channel was closed, the values that wait are still received.
pub struct EventReceiver<T> {
    channel: Arc<Channel<T>>,
    /// The position of the value to receive next. Positions count all values that were ever sent.
    next: u64,
}

struct Channel<T> {
    capacity: usize,
    state: Mutex<State<T>>,
    /// Notified when a value was sent, and when the channel was closed.
    changed: Notify,
}

struct State<T> {
    pending: VecDeque<PendingValue<T>>,
    /// The position of the first value in `pending`.
    first: u64,
    receivers: usize,
    closed: bool,
}

/// A value that at least one receiver has not received yet.
struct PendingValue<T> {
    value: T,
    /// How many receivers have yet to receive it. Those that were created later are not among them.
    unread: usize,
}

/// Closes the channel when it is dropped.
struct OpenChannel<T>(Arc<Channel<T>>);

/// Maximum capacity that is kept after all values were received.
const MAX_EMPTY_CAPACITY: usize = 16;

// === impl EventSender ===

impl<T> EventSender<T> {
    /// Creates a channel without a receiver.
    pub fn new(capacity: usize) -> Self {
        let state = State { pending: VecDeque::new(), first: 0, receivers: 0, closed: false };
        let channel = Channel { capacity, state: Mutex::new(state), changed: Notify::new() };
        Self(Arc::new(OpenChannel(Arc::new(channel))))
    }

    /// Sends a value to all receivers. Without a receiver it is dropped.
    pub fn send(&self, value: T) {
        let channel = &self.0.0;
        let missed = {
            let mut state = channel.state();
            if state.receivers == 0 {
                return;
            }
            let missed = if state.pending.len() >= channel.capacity { state.pop_first() } else { None };
            let unread = state.receivers;
            state.pending.push_back(PendingValue { value, unread });
            missed
        };
        channel.changed.notify_waiters();
        // Not under the lock: dropping a value may run arbitrary code.
        drop(missed);
    }

    /// Creates a receiver of everything that is sent from now on.
    pub fn subscribe(&self) -> EventReceiver<T> {
        EventReceiver::new(&self.0.0)
    }

    /// Number of receivers.
    pub fn receiver_count(&self) -> usize {
        self.0.0.state().receivers
    }
}

impl<T> Clone for EventSender<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> fmt::Debug for EventSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventSender").finish_non_exhaustive()
    }
}

// === impl EventReceiver ===

impl<T> EventReceiver<T> {
    fn new(channel: &Arc<Channel<T>>) -> Self {
        let next = {
            let mut state = channel.state();
            state.receivers += 1;
            state.next_position()
        };
        Self { channel: Arc::clone(channel), next }
    }

    /// Creates another receiver of the same channel, for everything that is sent from now on.
    #[must_use]
    pub fn resubscribe(&self) -> Self {
        Self::new(&self.channel)
    }

    /// Number of values that were sent and not received yet, missed ones included.
    pub fn len(&self) -> usize {
        usize::try_from(self.channel.state().next_position() - self.next).unwrap_or(usize::MAX)
    }

    /// Whether there is nothing to receive now.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T: Clone> EventReceiver<T> {
    /// Receives the next value, and waits for it if there is none yet.
    ///
    /// Dropping the future loses nothing.
    pub async fn recv(&mut self) -> Result<T, RecvError> {
        cooperative(async {
            let channel = Arc::clone(&self.channel);
            loop {
                let mut changed = pin!(channel.changed.notified());
                // From here on no change is missed.
                changed.as_mut().enable();
                match self.try_recv() {
                    Ok(value) => return Ok(value),
                    Err(TryRecvError::Lagged(missed)) => return Err(RecvError::Lagged(missed)),
                    Err(TryRecvError::Closed) => return Err(RecvError::Closed),
                    Err(TryRecvError::Empty) => changed.await,
                }
            }
        })
        .await
    }

    /// Receives the next value, if there is one.
    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        let mut state = self.channel.state();
        if self.next < state.first {
            let missed = state.first - self.next;
            self.next = state.first;
            return Err(TryRecvError::Lagged(missed));
        }
        let Some(waiting) = state.get_mut(self.next) else {
            return Err(if state.closed { TryRecvError::Closed } else { TryRecvError::Empty });
        };
        self.next += 1;
        waiting.unread -= 1;
        if waiting.unread > 0 {
            return Ok(waiting.value.clone());
        }
        // Receivers go in order, so a value that all have received is the first.
        state.pop_first().ok_or(TryRecvError::Empty)
    }
}

impl<T> Drop for EventReceiver<T> {
    fn drop(&mut self) {
        let mut unreceived = Vec::new();
        let mut state = self.channel.state();
        state.receivers -= 1;
        for position in self.next.max(state.first)..state.next_position() {
            if let Some(waiting) = state.get_mut(position) {
                waiting.unread -= 1;
            }
        }
        while state.pending.front().is_some_and(|waiting| waiting.unread == 0) {
            unreceived.extend(state.pop_first());
        }
        drop(state);
        // Not under the lock, as in `send`.
        drop(unreceived);
    }
}

impl<T> fmt::Debug for EventReceiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventReceiver").field("len", &self.len()).finish_non_exhaustive()
    }
}

// === impl Channel ===

impl<T> Channel<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        // A value whose `clone` panics leaves the counts consistent.
        self.state.lock()
    }
}

impl<T> State<T> {
    /// The position of the next value to be sent.
    fn next_position(&self) -> u64 {
        self.first + self.pending.len() as u64
    }

    fn get_mut(&mut self, position: u64) -> Option<&mut PendingValue<T>> {
        let index = usize::try_from(position.checked_sub(self.first)?).ok()?;
        self.pending.get_mut(index)
    }

    fn pop_first(&mut self) -> Option<T> {
        let PendingValue { value, .. } = self.pending.pop_front()?;
        self.first += 1;
        if self.pending.is_empty() && self.pending.capacity() > MAX_EMPTY_CAPACITY {
            self.pending = VecDeque::new();
        }
        Some(value)
    }
}

impl<T> Drop for OpenChannel<T> {
    fn drop(&mut self) {
        self.0.state().closed = true;
        self.0.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests;

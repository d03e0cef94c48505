//! A bounded broadcast channel that allocates memory only for the values that wait in it.
//!
//! The runtime's own broadcast channel allocates and initializes a slot for every value that may
//! ever wait when it is created. For the events of one client that is more memory than everything
//! else an idle connection holds.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use futures_core::Stream;
use parking_lot::{Mutex, MutexGuard};
use tokio::task::coop;

/// Creates a channel for `capacity` values: when a receiver falls further behind, the oldest value
/// is dropped, and that receiver is told how many it missed.
pub(crate) fn channel<T>(capacity: usize) -> (EventSender<T>, EventReceiver<T>) {
    let sender = EventSender::new(capacity);
    let receiver = sender.subscribe();
    (sender, receiver)
}

/// The sending end of a channel of events. All clones send into the same channel, which closes when
/// the last one is dropped.
///
/// Clients and registries create their own. Tests of a host create one to send it events of their
/// choice: [`EventSender::new`], and a receiver with [`EventSender::subscribe`].
pub struct EventSender<T>(Arc<OpenChannel<T>>);

/// The receiving end of a channel of events. Every receiver gets every value that is sent after it
/// was created. It is a [`Stream`], and [`EventReceiver::next`] needs no further crate.
///
/// # Behavior
/// - A receiver that falls far behind (1,024 events of a client, 4,096 of a registry) misses the
///   oldest values. It then receives their exact number as a value, in their place:
///   [`Event::Missed`](super::Event::Missed).
/// - After the channel was closed, the values that wait are still received.
pub struct EventReceiver<T> {
    channel: Arc<Channel<T>>,
    /// The position of the value to receive next. Positions count all values that were ever sent.
    next: u64,
    /// Identifies the waker of this receiver.
    id: u64,
}

/// A value of an event channel: one that can also say how many values were missed.
pub trait EventItem: Clone {
    /// Creates the value that takes the place of `count` values that were missed.
    fn missed(count: u64) -> Self;
}

/// The result of receiving from a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReceiveOutcome<T> {
    Value(T),
    /// Number of values that were dropped before they were received.
    Missed(u64),
    Closed,
}

struct Channel<T> {
    capacity: usize,
    state: Mutex<State<T>>,
}

struct State<T> {
    pending: VecDeque<PendingValue<T>>,
    /// The position of the first value in `pending`.
    first: u64,
    receivers: usize,
    /// The id of the next receiver.
    next_id: u64,
    /// The receivers that wait for a value or for the end.
    wakers: Vec<(u64, Waker)>,
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
    /// Creates a channel without a receiver, in which at most `capacity` values wait: when a receiver
    /// falls further behind, the oldest value is dropped, and that receiver is told how many it missed.
    pub fn new(capacity: usize) -> Self {
        let state = State {
            pending: VecDeque::new(),
            first: 0,
            receivers: 0,
            next_id: 0,
            wakers: Vec::new(),
            closed: false,
        };
        let channel = Channel { capacity, state: Mutex::new(state) };
        Self(Arc::new(OpenChannel(Arc::new(channel))))
    }

    /// Sends a value to all receivers. Without a receiver, or after the channel was closed, it is
    /// dropped.
    pub fn send(&self, value: T) {
        self.send_below(value, usize::MAX);
    }

    /// Sends a value that is less important than others: only while fewer values wait than a
    /// quarter of the capacity, so that a flood of such values displaces no other value. Returns
    /// false if it was dropped for that reason.
    pub(crate) fn offer(&self, value: T) -> bool {
        self.send_below(value, (self.0.0.capacity / 4).max(1))
    }

    /// Sends a value, unless at least `limit` values wait. Returns false if they do.
    fn send_below(&self, value: T, limit: usize) -> bool {
        let channel = &self.0.0;
        let (missed, wakers) = {
            let mut state = channel.state();
            if state.receivers == 0 || state.closed {
                return true;
            }
            if state.pending.len() >= limit {
                return false;
            }
            let missed = if state.pending.len() >= channel.capacity { state.pop_first() } else { None };
            let unread = state.receivers;
            state.pending.push_back(PendingValue { value, unread });
            (missed, std::mem::take(&mut state.wakers))
        };
        // Not under the lock: waking a task and dropping a value may run arbitrary code.
        wake_all(wakers);
        drop(missed);
        true
    }

    /// Closes the channel, though other senders may exist.
    pub(crate) fn close(&self) {
        self.0.0.close();
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
        let (next, id) = {
            let mut state = channel.state();
            state.receivers += 1;
            state.next_id += 1;
            (state.next_position(), state.next_id)
        };
        Self { channel: Arc::clone(channel), next, id }
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

impl<T: EventItem> EventReceiver<T> {
    /// Receives the next value, and waits for it if there is none yet. `None` once the channel is
    /// closed and everything was received.
    ///
    /// Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<T> {
        self.receive().await.into_item()
    }

    /// Receives the next value, if there is one now.
    pub fn try_next(&mut self) -> Option<T> {
        self.try_receive()?.into_item()
    }
}

impl<T: Clone> EventReceiver<T> {
    /// Receives the next value or its loss, and waits for it if there is none yet.
    ///
    /// Dropping the future loses nothing.
    pub(crate) async fn receive(&mut self) -> ReceiveOutcome<T> {
        poll_fn(|cx| self.poll_receive(cx)).await
    }

    /// Receives the next value or its loss, if there is one now.
    pub(crate) fn try_receive(&mut self) -> Option<ReceiveOutcome<T>> {
        let mut state = self.channel.state();
        take_next(&mut state, &mut self.next)
    }

    pub(crate) fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<ReceiveOutcome<T>> {
        let budget = ready!(coop::poll_proceed(cx));
        let mut state = self.channel.state();
        if let Some(received) = take_next(&mut state, &mut self.next) {
            budget.made_progress();
            return Poll::Ready(received);
        }
        match state.wakers.iter_mut().find(|(id, _)| *id == self.id) {
            Some((_, waker)) => waker.clone_from(cx.waker()),
            None => state.wakers.push((self.id, cx.waker().clone())),
        }
        Poll::Pending
    }
}

/// Takes the value at a position, or says that it was missed or will not come. `None` if there is
/// none yet.
fn take_next<T: Clone>(state: &mut State<T>, next: &mut u64) -> Option<ReceiveOutcome<T>> {
    if *next < state.first {
        let missed = state.first - *next;
        *next = state.first;
        return Some(ReceiveOutcome::Missed(missed));
    }
    let Some(waiting) = state.get_mut(*next) else {
        return state.closed.then_some(ReceiveOutcome::Closed);
    };
    *next += 1;
    waiting.unread -= 1;
    if waiting.unread > 0 {
        return Some(ReceiveOutcome::Value(waiting.value.clone()));
    }
    // Receivers go in order, so a value that all have received is the first.
    state.pop_first().map(ReceiveOutcome::Value)
}

impl<T: EventItem> ReceiveOutcome<T> {
    fn into_item(self) -> Option<T> {
        match self {
            Self::Value(value) => Some(value),
            Self::Missed(count) => Some(T::missed(count)),
            Self::Closed => None,
        }
    }
}

impl<T: EventItem> Stream for EventReceiver<T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        self.poll_receive(cx).map(ReceiveOutcome::into_item)
    }
}

impl<T> Drop for EventReceiver<T> {
    fn drop(&mut self) {
        let mut unreceived = Vec::new();
        let mut state = self.channel.state();
        state.receivers -= 1;
        let id = self.id;
        state.wakers.retain(|(waiting, _)| *waiting != id);
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

    fn close(&self) {
        let wakers = {
            let mut state = self.state();
            state.closed = true;
            std::mem::take(&mut state.wakers)
        };
        wake_all(wakers);
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
        self.0.close();
    }
}

fn wake_all(wakers: Vec<(u64, Waker)>) {
    for (_, waker) in wakers {
        waker.wake();
    }
}

#[cfg(test)]
mod tests;

//! Queues notifications for the host, in the order in which the server sent them.
//!
//! The client delivers events through a channel, and the progress of a call to a callback of that
//! call. Both happen while the messages of the server are read, in order. So adding progress first
//! takes the events that are in the channel by then.

use std::sync::{Arc, Weak};

use bowline::{Event, EventReceiver, Json};
use bowline_proto::server::delivery::DeliveryQueue;
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

use crate::open_calls::OpenCall;

/// The sending end of the queue.
#[derive(Debug)]
pub(crate) struct HostQueue {
    inner: Mutex<Inner>,
    /// Notified when something other than an event was added.
    added: Notify,
}

/// The receiving end of the queue. Dropping it releases everybody who waits in
/// [`HostQueue::wait_until_delivered`].
#[derive(Debug)]
pub(crate) struct QueueReader {
    queue: Arc<HostQueue>,
    /// A second receiver of the events, which only wakes the reader.
    wake: EventReceiver<Event>,
}

/// One entry of the queue.
#[derive(Debug)]
pub(crate) enum QueueItem {
    Event(Event),
    /// This many events were missed.
    Missed(u64),
    /// Progress of a call, with the token of the host.
    Progress {
        call: Weak<OpenCall>,
        params: Json,
    },
}

#[derive(Debug)]
struct Inner {
    /// Items, and callers that wait for their delivery. Beyond its bound events stay in their
    /// channel, and progress is dropped.
    delivery: DeliveryQueue<QueueItem, oneshot::Sender<()>>,
    /// Events that come after those in `delivery`.
    events: EventReceiver<Event>,
}

impl HostQueue {
    /// Creates both ends.
    pub(crate) fn new(events: EventReceiver<Event>) -> (Arc<Self>, QueueReader) {
        let wake = events.resubscribe();
        let inner = Inner { delivery: DeliveryQueue::default(), events };
        let queue = Arc::new(Self { inner: Mutex::new(inner), added: Notify::new() });
        (Arc::clone(&queue), QueueReader { queue, wake })
    }

    /// Adds progress of a call. Only the newest progress matters, so it is dropped if there is no
    /// room.
    pub(crate) fn push_progress(&self, call: &Weak<OpenCall>, params: Json) {
        let mut inner = self.inner.lock();
        while inner.delivery.has_room()
            && let Some((event, count)) = take_event(&mut inner.events)
        {
            inner.delivery.push(event, count);
        }
        if inner.delivery.has_room() {
            inner.delivery.push(QueueItem::Progress { call: Weak::clone(call), params }, 1);
            drop(inner);
            self.added.notify_one();
        }
    }

    /// Waits until the host was sent everything that the server has sent by now. Later messages are
    /// not waited for: a server that never stops must not delay its responses.
    pub(crate) async fn wait_until_delivered(&self) {
        let delivered = {
            let mut inner = self.inner.lock();
            let in_channel = u64::try_from(inner.events.len()).unwrap_or(u64::MAX);
            // Most servers send nothing before a response, and then the reader need not be woken.
            if in_channel == 0 && inner.delivery.is_delivered() {
                return;
            }
            let (waiter, delivered) = oneshot::channel();
            inner.delivery.wait(in_channel, waiter);
            delivered
        };
        self.added.notify_one();
        // The waiter is dropped when that is the case.
        let _ = delivered.await;
    }
}

impl QueueReader {
    /// Returns the next item; the previous one counts as delivered. `None` at the end, or once `ended` is ready and
    /// everything that was queued before that was returned.
    ///
    /// Dropping the future loses nothing.
    pub(crate) async fn next_until(&mut self, ended: impl Future<Output = ()>) -> Option<QueueItem> {
        tokio::select! {
            biased;
            item = self.next() => item,
            // Something may have been queued since the line above was evaluated.
            () = ended => self.try_next(),
        }
    }

    /// Returns the next item; the previous one counts as delivered. `None` at the end.
    ///
    /// Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Option<QueueItem> {
        loop {
            if let Some(item) = self.try_next() {
                return Some(item);
            }
            tokio::select! {
                event = self.wake.next() => if event.is_none() {
                    return self.try_next();
                },
                () = self.queue.added.notified() => {}
            }
        }
    }

    /// Returns the next item, if there is one now; the previous one counts as delivered.
    fn try_next(&mut self) -> Option<QueueItem> {
        self.queue.inner.lock().next()
    }
}

impl Drop for QueueReader {
    fn drop(&mut self) {
        self.queue.inner.lock().delivery.close();
    }
}

impl Inner {
    fn next(&mut self) -> Option<QueueItem> {
        let events = &mut self.events;
        self.delivery.next(|| take_event(events))
    }
}

/// Takes the next event, and how many messages of the server it stands for.
fn take_event(events: &mut EventReceiver<Event>) -> Option<(QueueItem, u64)> {
    match events.try_next()? {
        Event::Missed(missed) => Some((QueueItem::Missed(missed), missed)),
        event => Some((QueueItem::Event(event), 1)),
    }
}

#[cfg(test)]
mod tests {
    use bowline::{EventSender, Notification};

    use super::*;

    /// The reader looks for items, then one is queued, and then the reader looks for the end.
    #[tokio::test]
    async fn item_before_the_end_is_returned() {
        let events = EventSender::new(2);
        let receiver = events.subscribe();
        let (_queue, mut reader) = HostQueue::new(receiver);
        let ended = async { events.send(Event::Notification(Notification::new("notifications/last", None))) };
        assert!(matches!(reader.next_until(ended).await, Some(QueueItem::Event(_))));
        assert!(reader.next_until(async {}).await.is_none());
    }
}

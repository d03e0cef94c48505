//! [`DeliveryQueue`]: messages on their way to a host, in order, and who waits until they are
//! delivered.
//!
//! A response comes after everything that was said before it. Messages may still be in a source
//! behind the queue, such as a channel: the queue counts them, and takes them when it is empty.

use std::collections::VecDeque;

/// Messages `M` for a host, and waiters `W` for their delivery. A waiter is dropped when its turn
/// has come.
#[derive(Debug)]
pub struct DeliveryQueue<M, W> {
    messages: VecDeque<(M, u64)>,
    /// How many messages of the server `messages` stand for.
    queued: u64,
    /// How many messages of the server were given to the reader.
    taken: u64,
    /// How many of them were delivered: all but those that the reader holds.
    delivered: u64,
    /// Waiters until this many messages were delivered, in order.
    waiters: VecDeque<(u64, W)>,
    is_closed: bool,
}

/// How many messages are queued for a host that reads slowly.
pub const MAX_QUEUED_MESSAGES: usize = 1024;

impl<M, W> Default for DeliveryQueue<M, W> {
    fn default() -> Self {
        Self {
            messages: VecDeque::new(),
            queued: 0,
            taken: 0,
            delivered: 0,
            waiters: VecDeque::new(),
            is_closed: false,
        }
    }
}

impl<M, W> DeliveryQueue<M, W> {
    /// Whether there is room for another message.
    pub fn has_room(&self) -> bool {
        self.messages.len() < MAX_QUEUED_MESSAGES
    }

    /// Adds a message that stands for `count` messages of the server.
    pub fn push(&mut self, message: M, count: u64) {
        self.queued += count;
        self.messages.push_back((message, count));
    }

    /// Takes the next message, from `source` if the queue is empty. The one before it counts as
    /// delivered.
    pub fn next(&mut self, source: impl FnOnce() -> Option<(M, u64)>) -> Option<M> {
        self.delivered = self.taken;
        while self.waiters.front().is_some_and(|(position, _)| *position <= self.taken) {
            self.waiters.pop_front();
        }
        let (message, count) = match self.messages.pop_front() {
            Some((message, count)) => {
                self.queued -= count;
                (message, count)
            }
            None => source()?,
        };
        self.taken += count;
        Some(message)
    }

    /// Whether all messages that the queue was given are delivered. Those behind it are not counted.
    pub fn is_delivered(&self) -> bool {
        self.messages.is_empty() && self.delivered == self.taken
    }

    /// Keeps `waiter` until all messages so far are delivered, of which `in_source` are behind the
    /// queue. Later ones are not waited for: a server that never stops must not delay its
    /// responses.
    pub fn wait(&mut self, in_source: u64, waiter: W) {
        if !self.is_closed {
            self.waiters.push_back((self.taken + self.queued + in_source, waiter));
        }
    }

    /// Drops all waiters, because nothing is delivered any more.
    pub fn close(&mut self) {
        self.is_closed = true;
        self.waiters.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use proptest::prelude::*;

    use super::*;

    /// Whether the queue has dropped the waiter.
    fn is_released(waiter: &Rc<()>) -> bool {
        Rc::strong_count(waiter) == 1
    }

    #[test]
    fn waiters_are_released_once_earlier_messages_are_delivered() {
        let mut queue = DeliveryQueue::default();
        queue.push('a', 1);
        let waiter = Rc::new(());
        queue.wait(1, Rc::clone(&waiter));
        queue.push('c', 1);
        assert_eq!(queue.next(|| None), Some('a'));
        assert_eq!(queue.next(|| None), Some('c'));
        assert!(!is_released(&waiter), "the second message is being delivered");
        assert_eq!(queue.next(|| Some(('b', 1))), Some('b'));
        assert!(is_released(&waiter));
    }

    #[test]
    fn waiter_of_an_empty_queue_is_released_at_once() {
        let mut queue = DeliveryQueue::<(), _>::default();
        let waiter = Rc::new(());
        queue.wait(0, Rc::clone(&waiter));
        assert_eq!(queue.next(|| None), None);
        assert!(is_released(&waiter));
    }

    #[test]
    fn a_message_is_delivered_when_the_reader_comes_back() {
        let mut queue = DeliveryQueue::<_, ()>::default();
        assert!(queue.is_delivered());
        queue.push('a', 1);
        assert!(!queue.is_delivered());
        assert_eq!(queue.next(|| None), Some('a'));
        assert!(!queue.is_delivered(), "it is being delivered");
        assert_eq!(queue.next(|| None), None);
        assert!(queue.is_delivered());
        assert_eq!(queue.next(|| Some(('b', 3))), Some('b'));
        assert!(!queue.is_delivered());
    }

    #[test]
    fn one_message_may_stand_for_many() {
        let mut queue = DeliveryQueue::default();
        let waiter = Rc::new(());
        queue.wait(5, Rc::clone(&waiter));
        assert_eq!(queue.next(|| Some(('m', 4))), Some('m'));
        assert_eq!(queue.next(|| Some(('n', 1))), Some('n'));
        assert!(!is_released(&waiter));
        assert_eq!(queue.next(|| None), None);
        assert!(is_released(&waiter));
    }

    #[test]
    fn closed_queue_keeps_nobody_waiting() {
        let mut queue = DeliveryQueue::<(), _>::default();
        let (early, late) = (Rc::new(()), Rc::new(()));
        queue.wait(1, Rc::clone(&early));
        queue.close();
        queue.wait(1, Rc::clone(&late));
        assert!(is_released(&early) && is_released(&late));
    }

    proptest! {
        /// Messages leave in the order in which they came, from the queue or from behind it, and a
        /// waiter is released exactly when those before it were delivered.
        #[test]
        fn order_is_kept(steps in prop::collection::vec(0..4u8, 0..200)) {
            let mut queue = DeliveryQueue::default();
            let mut source = VecDeque::new();
            let (mut sent, mut delivered) = (0u64, 0u64);
            let mut waiters: Vec<(u64, Rc<()>)> = Vec::new();
            for step in steps {
                match step {
                    // The source fills up, and what is in it moves to the queue before a push.
                    0 => {
                        source.push_back(sent);
                        sent += 1;
                    }
                    1 => {
                        while let Some(message) = source.pop_front() {
                            queue.push(message, 1);
                        }
                        queue.push(sent, 1);
                        sent += 1;
                    }
                    2 => {
                        let waiter = Rc::new(());
                        queue.wait(source.len() as u64, Rc::clone(&waiter));
                        waiters.push((sent, waiter));
                    }
                    _ => {
                        let before = delivered;
                        if let Some(message) = queue.next(|| source.pop_front().map(|message| (message, 1))) {
                            prop_assert_eq!(message, delivered);
                            delivered += 1;
                        }
                        for (position, waiter) in &waiters {
                            prop_assert_eq!(is_released(waiter), *position <= before);
                        }
                        waiters.retain(|(position, _)| *position > before);
                        prop_assert_eq!(queue.is_delivered() && source.is_empty(), before == sent);
                    }
                }
            }
        }
    }
}

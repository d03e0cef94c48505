//! Tests of the event channel: order, lag, memory and shutdown.

use std::sync::Arc;

use super::*;

fn room<T>(sender: &EventSender<T>) -> usize {
    sender.0.0.state().pending.capacity()
}

fn drain<T: Clone>(receiver: &mut EventReceiver<T>) -> Vec<T> {
    std::iter::from_fn(|| match receiver.try_receive()? {
        ReceiveOutcome::Value(value) => Some(value),
        ReceiveOutcome::Missed(_) | ReceiveOutcome::Closed => None,
    })
    .collect()
}

#[test]
fn channel_takes_no_room_before_something_is_received_late() {
    let sender = EventSender::new(1024);
    sender.send(0);
    assert_eq!(room(&sender), 0, "nobody receives");
    let mut receiver = sender.subscribe();
    assert_eq!(room(&sender), 0, "nothing was sent to it");
    for value in 0..1024 {
        sender.send(value);
    }
    assert!(room(&sender) >= 1024);
    assert_eq!(drain(&mut receiver), (0..1024).collect::<Vec<_>>());
    assert!(room(&sender) <= MAX_EMPTY_CAPACITY, "all were received");
}

#[test]
fn every_receiver_gets_every_value_in_order() {
    let (sender, mut early) = channel(8);
    sender.send("a");
    let mut late = sender.subscribe();
    sender.send("b");
    assert_eq!((early.len(), late.len()), (2, 1));
    assert_eq!(drain(&mut early), ["a", "b"]);
    assert_eq!(drain(&mut late), ["b"]);
    assert!(early.is_empty() && late.is_empty());
    assert_eq!(late.try_receive(), None);
}

#[test]
fn slow_receiver_is_told_how_many_it_missed() {
    let (sender, mut slow) = channel(4);
    let mut fast = sender.subscribe();
    for value in 0..10 {
        sender.send(value);
        assert_eq!(fast.try_receive(), Some(ReceiveOutcome::Value(value)));
    }
    assert_eq!(slow.len(), 10);
    assert_eq!(slow.try_receive(), Some(ReceiveOutcome::Missed(6)));
    assert_eq!(drain(&mut slow), [6, 7, 8, 9]);
    sender.send(10);
    let ten = Some(ReceiveOutcome::Value(10));
    assert_eq!((slow.try_receive(), fast.try_receive()), (ten.clone(), ten));
}

#[test]
fn closed_channel_gives_what_waits_and_then_its_end() {
    let (sender, mut receiver) = channel(4);
    let other = sender.clone();
    sender.send(1);
    drop(sender);
    other.send(2);
    drop(other);
    let mut later = receiver.resubscribe();
    assert_eq!(later.try_receive(), Some(ReceiveOutcome::Closed));
    assert_eq!(drain(&mut receiver), [1, 2]);
    assert_eq!(receiver.try_receive(), Some(ReceiveOutcome::Closed));
}

#[test]
fn values_are_dropped_with_the_last_receiver_that_wants_them() {
    let (sender, mut reading) = channel(8);
    let (lagging, idle) = (sender.subscribe(), sender.subscribe());
    let value = Arc::new(());
    let held = || Arc::strong_count(&value) - 1;
    for _ in 0..12 {
        sender.send(Arc::clone(&value));
    }
    assert_eq!(held(), 8);
    assert_eq!(reading.try_receive(), Some(ReceiveOutcome::Missed(4)));
    assert!(matches!(reading.try_receive(), Some(ReceiveOutcome::Value(_))));
    drop(lagging);
    assert_eq!(held(), 8, "one receiver has received nothing yet");
    drop(idle);
    assert_eq!(held(), 7);
    assert_eq!(sender.receiver_count(), 1);
    drop(reading);
    assert_eq!((held(), sender.receiver_count()), (0, 0));
    let mut next = sender.subscribe();
    assert_eq!(next.try_receive(), None);
}

#[tokio::test]
async fn waiting_receiver_is_woken_by_a_value_and_by_the_end() {
    let (sender, mut receiver) = channel(4);
    let receiving = tokio::spawn(async move {
        let mut values = Vec::new();
        loop {
            match receiver.receive().await {
                ReceiveOutcome::Value(value) => values.push(value),
                ReceiveOutcome::Missed(_) => unreachable!("each is received before the next is sent"),
                ReceiveOutcome::Closed => return values,
            }
        }
    });
    for value in 0..100 {
        sender.send(value);
        while !sender.0.0.state().pending.is_empty() {
            tokio::task::yield_now().await;
        }
    }
    drop(sender);
    assert_eq!(receiving.await.unwrap(), (0..100).collect::<Vec<_>>());
}

/// With several threads, received and missed values add up to all that were sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_value_is_received_or_counted_as_missed() {
    const SENDERS: usize = 3;
    const EACH: u64 = 5_000;
    let (sender, receiver) = channel(16);
    let receivers: Vec<_> = (0..3)
        .map(|_| {
            let mut receiver = receiver.resubscribe();
            tokio::spawn(async move {
                let mut last = [None; SENDERS];
                let (mut seen, mut missed) = (0, 0);
                loop {
                    match receiver.receive().await {
                        ReceiveOutcome::Value((from, value)) => {
                            let last: &mut Option<u64> = &mut last[from];
                            assert!(last.is_none_or(|last| last < value), "in order");
                            *last = Some(value);
                            seen += 1;
                        }
                        ReceiveOutcome::Missed(count) => missed += count,
                        ReceiveOutcome::Closed => return seen + missed,
                    }
                }
            })
        })
        .collect();
    drop(receiver);
    let senders: Vec<_> = (0..SENDERS)
        .map(|from| {
            let sender = sender.clone();
            tokio::spawn(async move {
                for value in 0..EACH {
                    sender.send((from, value));
                    if value % 64 == 0 {
                        tokio::task::yield_now().await;
                    }
                }
            })
        })
        .collect();
    drop(sender);
    for sending in senders {
        sending.await.unwrap();
    }
    for receiving in receivers {
        assert_eq!(receiving.await.unwrap(), SENDERS as u64 * EACH);
    }
}

#[tokio::test]
async fn dropped_recv_loses_nothing() {
    let (sender, mut receiver) = channel(4);
    for _ in 0..3 {
        let mut waiting = Box::pin(receiver.receive());
        assert!(futures_util::poll!(&mut waiting).is_pending());
        sender.send(1);
        drop(waiting);
        assert_eq!(receiver.receive().await, ReceiveOutcome::Value(1));
    }
}

/// What was missed is one value with the exact count, in the place of the events that are gone.
#[tokio::test]
async fn missed_events_are_a_value_of_the_stream() {
    use futures_util::StreamExt;

    use crate::events::Event;

    let (sender, mut receiver) = channel(2);
    let mut stream = receiver.resubscribe();
    let event = |n: u64| Event::Missed(1_000 + n);
    for n in 0..5 {
        sender.send(event(n));
    }
    drop(sender);
    for expected in [Some(Event::Missed(3)), Some(event(3)), Some(event(4)), None, None] {
        assert_eq!(receiver.next().await, expected);
        assert_eq!(StreamExt::next(&mut stream).await, expected);
    }
    assert_eq!(receiver.try_next(), None);
}

/// A receiver that is polled by several tasks in turn wakes the last one only, and a dropped one
/// leaves no waker behind.
#[tokio::test]
async fn receiver_has_one_waker() {
    let (sender, mut receiver) = channel::<u8>(2);
    for _ in 0..3 {
        let mut waiting = Box::pin(receiver.receive());
        assert!(futures_util::poll!(&mut waiting).is_pending());
    }
    assert_eq!(sender.0.0.state().wakers.len(), 1);
    drop(receiver);
    assert!(sender.0.0.state().wakers.is_empty());
}

/// A value that is offered is taken only while less than a quarter of the queue is full.
#[test]
fn offered_values_leave_room_for_others() {
    let (sender, mut receiver) = channel(8);
    assert_eq!([1, 2, 3, 4].map(|value| sender.offer(value)), [true, true, false, false]);
    (10..16).for_each(|value| sender.send(value));
    assert_eq!(drain(&mut receiver), [1, 2, 10, 11, 12, 13, 14, 15], "none was missed");
    assert!(sender.offer(5));
    drop(receiver);
    assert!([6, 7, 8].iter().all(|value| sender.offer(*value)), "nobody misses what nobody receives");
}

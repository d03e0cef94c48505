//! Owns the wake-ups of an exchange that drives its own connection.
//!
//! Such an exchange is both ends of every channel between itself and its connection: asking for the next
//! piece of a body wakes the connection, which is the task that is asking. Passed on, each such wake-up
//! would have the task scheduled once more, and another thread woken to help. So while the exchange is
//! being polled its own wake-ups only make it look once more.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// Between a connection and the task that drives it.
#[derive(Debug)]
pub(super) struct Gate {
    inner: Arc<Inner>,
    waker: Waker,
}

#[derive(Debug)]
struct Inner {
    state: AtomicU8,
    task: Mutex<Waker>,
}

/// Nobody polls: whoever wakes, wakes the task.
const OPEN: u8 = 0;
/// Somebody polls.
const SHUT: u8 = 1;
/// Somebody polls and was woken meanwhile.
const KNOCKED: u8 = 2;

/// So often an exchange looks once more before it lets others run.
const LOOKS: usize = 16;

impl Default for Gate {
    fn default() -> Self {
        let inner = Arc::new(Inner { state: AtomicU8::new(OPEN), task: Mutex::new(Waker::noop().clone()) });
        Self { waker: Waker::from(Arc::clone(&inner)), inner }
    }
}

impl Gate {
    /// Polls for the task of `cx`, and again while that only woke itself.
    pub(super) fn poll<T>(
        &self,
        cx: &Context<'_>,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        self.set_task(cx.waker());
        for _ in 0..LOOKS {
            self.inner.state.store(SHUT, Ordering::SeqCst);
            if let Poll::Ready(value) = poll(&mut Context::from_waker(&self.waker)) {
                // A knock is forgotten: whoever got something asks again.
                self.inner.state.store(OPEN, Ordering::SeqCst);
                return Poll::Ready(value);
            }
            let quiet = self.inner.state.compare_exchange(SHUT, OPEN, Ordering::SeqCst, Ordering::SeqCst);
            if quiet.is_ok() {
                return Poll::Pending;
            }
        }
        self.inner.state.store(OPEN, Ordering::SeqCst);
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Has nobody woken until the next poll.
    pub(super) fn detach(&self) {
        self.set_task(Waker::noop());
    }

    fn set_task(&self, waker: &Waker) {
        let mut task = self.inner.task();
        if !task.will_wake(waker) {
            task.clone_from(waker);
        }
    }
}

impl Inner {
    fn task(&self) -> MutexGuard<'_, Waker> {
        self.task.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Inner {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Only one of the two can win: either the poller sees the knock, or the gate was open.
        let knocked = self
            .state
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |state| (state != OPEN).then_some(KNOCKED));
        if knocked.is_err() {
            let task = self.task().clone();
            task.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn task() -> (Arc<Count>, Waker) {
        let count = Arc::new(Count::default());
        (Arc::clone(&count), Waker::from(count))
    }

    #[test]
    fn its_own_wake_ups_make_it_look_again_and_others_wake_the_task() {
        let (gate, (count, waker)) = (Gate::default(), task());
        let mut looks = 0;
        let mut kept = None;
        let polled: Poll<()> = gate.poll(&Context::from_waker(&waker), |cx| {
            looks += 1;
            if looks < 3 {
                cx.waker().wake_by_ref();
            }
            kept = Some(cx.waker().clone());
            Poll::Pending
        });
        assert_eq!((polled, looks, count.0.load(Ordering::SeqCst)), (Poll::Pending, 3, 0));
        kept.unwrap().wake();
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn one_that_never_rests_lets_others_run() {
        let (gate, (count, waker)) = (Gate::default(), task());
        let mut looks = 0;
        let polled: Poll<()> = gate.poll(&Context::from_waker(&waker), |cx| {
            looks += 1;
            cx.waker().wake_by_ref();
            Poll::Pending
        });
        assert_eq!((polled, looks, count.0.load(Ordering::SeqCst)), (Poll::Pending, LOOKS, 1));
    }
}

//! Filters the wake-ups of an exchange that drives its own connection.
//!
//! Such an exchange is both ends of every channel between itself and its connection: polling for
//! the next chunk of a body wakes the connection, which is driven by the polling task itself.
//! Passed on, each such wake-up would schedule the task once more, and wake another thread to help.
//! So while the exchange is being polled its own wake-ups only make it poll once more.

use std::mem;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use super::sync::{Mutex, MutexGuard};

/// Stands between a connection and the task that drives it.
#[derive(Debug)]
pub(super) struct WakeFilter {
    inner: Arc<Inner>,
    waker: Waker,
}

#[derive(Debug)]
struct Inner {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    /// The task that polled last.
    task: Waker,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nobody polls: a wake-up wakes the task.
    Idle,
    /// A poll is under way.
    Polling,
    /// A poll is under way, and a wake-up came meanwhile.
    Woken,
}

/// How often an exchange polls itself again before it lets other tasks run.
const MAX_SELF_POLLS: usize = 16;

impl Default for WakeFilter {
    fn default() -> Self {
        let state = State { phase: Phase::Idle, task: Waker::noop().clone() };
        let inner = Arc::new(Inner { state: Mutex::new(state) });
        Self { waker: Waker::from(Arc::clone(&inner)), inner }
    }
}

impl WakeFilter {
    /// Polls for the task of `cx`, and again while that only woke itself. A wake-up during a poll
    /// that returns a value is forgotten, so a caller that gets one must poll again, or call
    /// [`settle`](Self::settle).
    pub(super) fn poll<T>(
        &self,
        cx: &Context<'_>,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        self.inner.set_task(cx.waker(), Phase::Polling);
        for _ in 0..MAX_SELF_POLLS {
            if let Poll::Ready(value) = poll(&mut Context::from_waker(&self.waker)) {
                self.inner.state().phase = Phase::Idle;
                return Poll::Ready(value);
            }
            if self.inner.finish_poll() {
                return Poll::Pending;
            }
        }
        self.inner.state().phase = Phase::Idle;
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Runs `look` on a connection that nobody polls from now on. Every wake-up during a run causes
    /// another run or wakes `idle`, and every later one wakes `idle`.
    pub(super) fn settle(&self, idle: &Waker, mut look: impl FnMut(&mut Context<'_>)) {
        let looked: Poll<()> = self.poll(&Context::from_waker(idle), |cx| {
            look(cx);
            // Returning a value would make the filter forget a wake-up.
            Poll::Pending
        });
        debug_assert!(looked.is_pending());
    }

    /// Wakes nobody until the next poll.
    pub(super) fn detach(&self) {
        self.inner.set_task(Waker::noop(), Phase::Idle);
    }
}

// === impl Inner ===

impl Inner {
    fn set_task(&self, waker: &Waker, phase: Phase) {
        let mut state = self.state();
        state.phase = phase;
        if !state.task.will_wake(waker) {
            let last = mem::replace(&mut state.task, waker.clone());
            // Dropping a waker can drop a task, and with it something that wakes this filter.
            drop(state);
            drop(last);
        }
    }

    /// Ends a poll that was pending. Returns whether no wake-up came meanwhile; otherwise the next
    /// poll has begun.
    fn finish_poll(&self) -> bool {
        let mut state = self.state();
        let is_quiet = state.phase == Phase::Polling;
        state.phase = if is_quiet { Phase::Idle } else { Phase::Polling };
        is_quiet
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Inner {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut state = self.state();
        match state.phase {
            Phase::Idle => {
                let task = state.task.clone();
                drop(state);
                task.wake();
            }
            Phase::Polling | Phase::Woken => state.phase = Phase::Woken,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

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
        let (gate, (count, waker)) = (WakeFilter::default(), task());
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
        let (gate, (count, waker)) = (WakeFilter::default(), task());
        let mut looks = 0;
        let polled: Poll<()> = gate.poll(&Context::from_waker(&waker), |cx| {
            looks += 1;
            cx.waker().wake_by_ref();
            Poll::Pending
        });
        assert_eq!((polled, looks, count.0.load(Ordering::SeqCst)), (Poll::Pending, MAX_SELF_POLLS, 1));
    }

    #[test]
    fn a_wake_up_while_a_connection_settles_has_it_looked_at_again() {
        let (gate, (count, idle)) = (WakeFilter::default(), task());
        let (mut looks, mut kept) = (0, None);
        gate.settle(&idle, |cx| {
            looks += 1;
            if looks == 1 {
                cx.waker().wake_by_ref();
            }
            kept = Some(cx.waker().clone());
        });
        assert_eq!((looks, count.0.load(Ordering::SeqCst)), (2, 0));
        kept.unwrap().wake();
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn the_last_task_may_wake_the_gate_when_it_is_dropped() {
        struct WakeOnDrop(Waker);
        impl Wake for WakeOnDrop {
            fn wake(self: Arc<Self>) {}
        }
        impl Drop for WakeOnDrop {
            fn drop(&mut self) {
                self.0.wake_by_ref();
            }
        }
        let (gate, (count, waker)) = (WakeFilter::default(), task());
        let last = Waker::from(Arc::new(WakeOnDrop(gate.waker.clone())));
        let _: Poll<()> = gate.poll(&Context::from_waker(&last), |_| Poll::Pending);
        drop(last);
        let mut looks = 0;
        let _: Poll<()> = gate.poll(&Context::from_waker(&waker), |_| {
            looks += 1;
            Poll::Pending
        });
        assert_eq!((looks, count.0.load(Ordering::SeqCst)), (2, 0));
    }
}

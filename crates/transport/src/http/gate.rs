//! Owns the wake-ups of an exchange that drives its own connection.
//!
//! Such an exchange is both ends of every channel between itself and its connection: asking for the next
//! piece of a body wakes the connection, which is the task that is asking. Passed on, each such wake-up
//! would have the task scheduled once more, and another thread woken to help. So while the exchange is
//! being polled its own wake-ups only make it look once more.

use std::mem;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use super::sync::{Mutex, MutexGuard};

/// Between a connection and the task that drives it.
#[derive(Debug)]
pub(super) struct Gate {
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
    /// Nobody polls: whoever wakes, wakes the task.
    Idle,
    /// Somebody polls.
    Polling,
    /// Somebody polls, and was woken meanwhile.
    Woken,
}

/// So often an exchange looks once more before it lets others run.
const LOOKS: usize = 16;

impl Default for Gate {
    fn default() -> Self {
        let state = State { phase: Phase::Idle, task: Waker::noop().clone() };
        let inner = Arc::new(Inner { state: Mutex::new(state) });
        Self { waker: Waker::from(Arc::clone(&inner)), inner }
    }
}

impl Gate {
    /// Polls for the task of `cx`, and again while that only woke itself. A wake-up during a poll that gives a value is
    /// forgotten, so whoever gets one must poll again, or call [`settle`](Self::settle).
    pub(super) fn poll<T>(
        &self,
        cx: &Context<'_>,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        self.inner.set_task(cx.waker(), Phase::Polling);
        for _ in 0..LOOKS {
            if let Poll::Ready(value) = poll(&mut Context::from_waker(&self.waker)) {
                self.inner.state().phase = Phase::Idle;
                return Poll::Ready(value);
            }
            if self.inner.finish_look() {
                return Poll::Pending;
            }
        }
        self.inner.state().phase = Phase::Idle;
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Looks after a connection that nobody polls from now on. Every wake-up that comes during a look causes another one,
    /// or wakes `idle`, as do all that come later.
    pub(super) fn settle(&self, idle: &Waker, mut look: impl FnMut(&mut Context<'_>)) {
        let looked: Poll<()> = self.poll(&Context::from_waker(idle), |cx| {
            look(cx);
            // A value would have the gate forget a wake-up.
            Poll::Pending
        });
        debug_assert!(looked.is_pending());
    }

    /// Has nobody woken until the next poll.
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
            // Dropping a waker can drop a task, and with it whatever wakes this gate.
            drop(state);
            drop(last);
        }
    }

    /// Ends a look that found nothing. Says whether nobody woke the gate meanwhile; otherwise the next look has begun.
    fn finish_look(&self) -> bool {
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

    #[test]
    fn a_wake_up_while_a_connection_settles_has_it_looked_at_again() {
        let (gate, (count, idle)) = (Gate::default(), task());
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
        let (gate, (count, waker)) = (Gate::default(), task());
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

//! Owns single flight: concurrent callers share one run of the same work and its outcome.

use std::future::Future;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared, WeakShared};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::error::{AuthError, AuthErrorKind};

/// The outcome of shared work; every waiter has a clone.
pub(super) type SharedOutcome = Shared<BoxedWork>;
type BoxedWork = BoxFuture<'static, Result<(), AuthError>>;

/// Single flight for work that runs to completion once started, even without waiters.
#[derive(Default)]
pub(super) struct DetachedSingleFlight {
    running: Mutex<Option<RunningTask>>,
}

struct RunningTask {
    outcome: SharedOutcome,
    /// Tells whether the task has ended, also by a panic. It is never aborted.
    task: AbortHandle,
}

/// Single flight for work that is canceled when its last waiter is dropped.
#[derive(Default)]
pub(super) struct CancelableSingleFlight {
    running: Mutex<Option<WeakShared<BoxedWork>>>,
}

impl DetachedSingleFlight {
    /// Joins the running work, or starts it.
    pub(super) fn join<F>(&self, work: impl FnOnce() -> F) -> SharedOutcome
    where
        F: Future<Output = Result<(), AuthError>> + Send + 'static,
    {
        let mut running = self.running.lock();
        if let Some(now) = &*running
            && !now.task.is_finished()
        {
            return now.outcome.clone();
        }
        // In its own task, because waiters may be dropped, and received tokens must still be saved.
        let spawned = tokio::spawn(work());
        let task = spawned.abort_handle();
        let landing = async move {
            spawned.await.unwrap_or_else(|_| {
                Err(AuthError::new(AuthErrorKind::Unavailable, "it was canceled: the program is ending"))
            })
        };
        let landing = landing.boxed().shared();
        *running = Some(RunningTask { outcome: landing.clone(), task });
        landing
    }
}

impl CancelableSingleFlight {
    /// Joins the running work, or starts it. The work is canceled when its last waiter is dropped.
    pub(super) fn join<F>(&self, work: impl FnOnce() -> F) -> SharedOutcome
    where
        F: Future<Output = Result<(), AuthError>> + Send + 'static,
    {
        let mut running = self.running.lock();
        if let Some(now) = running.as_ref().and_then(WeakShared::upgrade)
            && now.peek().is_none()
        {
            return now;
        }
        let landing = work().boxed().shared();
        *running = landing.downgrade();
        landing
    }
}

/// Work that must not be interrupted by the end of the program: [`CriticalSection::close`] waits
/// for it.
pub(super) struct CriticalSection {
    state: watch::Sender<SectionState>,
}

#[derive(Clone, Copy, Default)]
struct SectionState {
    occupied: bool,
    closed: bool,
}

impl CriticalSection {
    pub(super) fn new() -> Self {
        Self { state: watch::Sender::new(SectionState::default()) }
    }

    /// Enters the section. Returns `false` if it was closed because the program is exiting.
    pub(super) fn enter(&self) -> bool {
        let mut entered = false;
        self.state.send_modify(|passage| {
            entered = !passage.closed;
            passage.occupied |= entered;
        });
        entered
    }

    /// Leaves the section.
    pub(super) fn leave(&self) {
        self.state.send_modify(|passage| passage.occupied = false);
    }

    /// Refuses further entries, and waits until the section is left.
    pub(super) async fn close(&self) {
        self.state.send_modify(|passage| passage.closed = true);
        let _ = self.state.subscribe().wait_for(|passage| !passage.occupied).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

    use tokio::sync::Notify;

    use super::*;

    #[tokio::test]
    async fn many_wait_for_one() {
        let (flight, count) = (DetachedSingleFlight::default(), Arc::new(AtomicU32::new(0)));
        let landings: Vec<SharedOutcome> = (0..10)
            .map(|_| {
                let count = Arc::clone(&count);
                flight.join(|| async move {
                    count.fetch_add(1, Ordering::Relaxed);
                    Ok(())
                })
            })
            .collect();
        for landing in landings {
            landing.await.unwrap();
        }
        assert_eq!(count.load(Ordering::Relaxed), 1);
        flight.join(|| async { Err(AuthError::new(AuthErrorKind::Refused, "anew")) }).await.unwrap_err();
    }

    #[tokio::test]
    async fn detached_work_finishes_and_its_outcome_is_not_reused() {
        let flight = DetachedSingleFlight::default();
        let (go, done) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (going, doing) = (Arc::clone(&go), Arc::clone(&done));
        drop(flight.join(|| async move {
            going.notified().await;
            doing.notify_one();
            Err(AuthError::new(AuthErrorKind::Refused, "old"))
        }));
        // A caller that comes while it runs joins it.
        let joined = flight.join(|| async { Ok(()) });
        go.notify_one();
        done.notified().await;
        joined.await.unwrap_err();
        flight.join(|| async { Ok(()) }).await.unwrap();
    }

    #[tokio::test]
    async fn cancelable_work_ends_with_the_last_waiter() {
        struct Gone(Arc<AtomicBool>);
        impl Drop for Gone {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let (flight, gone) = (CancelableSingleFlight::default(), Arc::new(AtomicBool::new(false)));
        let begin = |gone: &Arc<AtomicBool>| {
            let held = Gone(Arc::clone(gone));
            flight.join(move || async move {
                let _held = held;
                std::future::pending().await
            })
        };
        let first = begin(&gone);
        let second = begin(&Arc::default());
        assert!(first.ptr_eq(&second));
        drop(first);
        assert!(!gone.load(Ordering::Relaxed));
        drop(second);
        assert!(gone.load(Ordering::Relaxed));
        flight.join(|| async { Ok(()) }).await.unwrap();
    }

    #[tokio::test]
    async fn closing_waits_for_the_section_and_refuses_entry() {
        let gate = Arc::new(CriticalSection::new());
        assert!(gate.enter());
        let closing = tokio::spawn({
            let gate = Arc::clone(&gate);
            async move { gate.close().await }
        });
        let mut passage = gate.state.subscribe();
        passage.wait_for(|passage| passage.closed).await.unwrap();
        assert!(!closing.is_finished());
        assert!(!gate.enter());
        gate.leave();
        closing.await.unwrap();
    }

    #[tokio::test]
    async fn a_panic_is_an_error_and_the_next_one_begins_anew() {
        let flight = DetachedSingleFlight::default();
        let error = flight.join(|| async { panic!("on purpose") }).await.unwrap_err();
        assert_eq!(error.kind, AuthErrorKind::Unavailable);
        flight.join(|| async { Ok(()) }).await.unwrap();
    }
}

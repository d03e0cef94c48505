//! Owns the last moment before a request leaves: on a connection that is made already, after somebody has agreed, and
//! before the clocks have moved on.
//!
//! A request that must not be made twice is agreed upon by a lease somewhere else. Making a connection takes a while,
//! so the agreement comes after it. A process can also be stopped between the agreement and the write; when it goes on,
//! the clocks say so, and the request is given up.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use bowline_proto::fault::{Cause, Fault};
use tokio::sync::watch;

/// Holds a request back until it is agreed that it may leave. Put into the extensions of a request for
/// [`Fetch`](super::Fetch). Clones are the same fence.
#[derive(Clone)]
pub struct Fence {
    shared: Arc<Shared>,
}

struct Shared {
    state: watch::Sender<State>,
    missed: AtomicBool,
    patience: Duration,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// No request is waiting.
    Away,
    /// A request could leave.
    Reached,
    /// It may, in this time.
    Open(Window),
    /// It may not.
    Closed,
}

/// The time in which a request may leave.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    wall: SystemTime,
    steady: Instant,
    length: Duration,
}

impl Fence {
    /// A fence for requests whose answers are waited for this long, in place of the limit of other requests: what was
    /// asked for with something that can be used once is lost if its answer is.
    pub fn new(patience: Duration) -> Self {
        let shared =
            Shared { state: watch::Sender::new(State::Away), missed: AtomicBool::new(false), patience };
        Self { shared: Arc::new(shared) }
    }

    /// Waits for a request that could leave.
    pub async fn reached(&self) {
        // The sender lives as long as `self` does.
        let _ = self.shared.state.subscribe().wait_for(|state| matches!(state, State::Reached)).await;
    }

    /// Lets the request leave in this time.
    pub fn open(&self, window: Window) {
        self.shared.state.send_replace(State::Open(window));
    }

    /// Does not let it leave.
    pub fn close(&self) {
        self.shared.state.send_replace(State::Closed);
    }

    /// Whether a request came too late, and did not leave.
    pub fn was_missed(&self) -> bool {
        self.shared.missed.load(Ordering::Acquire)
    }

    /// Says that a request could leave, and waits until it may.
    pub async fn pass(&self) -> Result<Window, Fault> {
        let mut state = self.shared.state.subscribe();
        self.shared.state.send_replace(State::Reached);
        let decided = state.wait_for(|state| matches!(state, State::Open(_) | State::Closed)).await;
        match decided.as_deref() {
            Ok(State::Open(window)) => Ok(*window),
            _ => {
                Err(Fault::before_sending(Cause::Closed)
                    .note("the request was called off before it was sent"))
            }
        }
    }

    /// Whether the request may still leave, by the clocks. To be asked right before it does.
    pub fn holds(&self, window: Window) -> bool {
        let holds = window.holds(SystemTime::now(), Instant::now());
        if !holds {
            self.shared.missed.store(true, Ordering::Release);
        }
        holds
    }

    pub(super) fn patience(&self) -> Duration {
        self.shared.patience
    }
}

impl Window {
    /// A time that begins now.
    pub fn new(length: Duration) -> Self {
        Self { wall: SystemTime::now(), steady: Instant::now(), length }
    }

    /// Whether it lasts, by both clocks: the one stands still while a machine sleeps, and the other can be set. One
    /// that was set back says nothing of how long ago the window began.
    fn holds(&self, wall: SystemTime, steady: Instant) -> bool {
        let by_wall = wall.duration_since(self.wall).is_ok_and(|passed| passed < self.length);
        by_wall && steady.duration_since(self.steady) < self.length
    }
}

impl fmt::Debug for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Fence").field(&*self.shared.state.borrow()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_ends_by_either_clock() {
        let window = Window::new(Duration::from_secs(10));
        let after = |wall: u64, steady: u64| {
            let (wall, steady) = (Duration::from_secs(wall), Duration::from_secs(steady));
            window.holds(window.wall + wall, window.steady + steady)
        };
        assert!(after(0, 0) && after(9, 9));
        // A machine that slept, or a clock that was set.
        assert!(!after(10, 0));
        assert!(!after(0, 10));
        assert!(!window.holds(window.wall - Duration::from_secs(1), window.steady));
    }

    #[tokio::test]
    async fn each_request_is_agreed_upon() {
        let fence = Fence::new(Duration::from_secs(60));
        for _ in 0..2 {
            let passing = fence.pass();
            let agreeing = async {
                fence.reached().await;
                fence.open(Window::new(Duration::from_secs(10)));
            };
            let (passed, ()) = tokio::join!(passing, agreeing);
            assert!(fence.holds(passed.unwrap()));
        }
        let refusing = async {
            fence.reached().await;
            fence.close();
        };
        let (refused, ()) = tokio::join!(fence.pass(), refusing);
        assert_eq!(refused.unwrap_err().cause, Cause::Closed);
        assert!(!fence.was_missed());
        assert!(!fence.holds(Window::new(Duration::ZERO)));
        assert!(fence.was_missed());
    }
}

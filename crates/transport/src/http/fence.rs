//! Controls the last moment before a request is sent: on a connection that is already open, after
//! permission was given, and before that permission expires.
//!
//! A request that must not be made twice needs a lease that is held elsewhere. Making a connection
//! takes a while, so permission is requested after it. A process can also be stopped between the
//! permission and the write; when it continues, the clocks show it, and the request is given up.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use bowline_proto::fault::{Cause, Fault};
use tokio::sync::watch;

/// Holds a request back until permission to send it is given. Put into the extensions of a request
/// for [`Fetcher`](super::Fetcher). Clones share the fence.
#[derive(Clone)]
pub struct SendFence {
    shared: Arc<Shared>,
}

struct Shared {
    state: watch::Sender<State>,
    missed: AtomicBool,
    response_timeout: Duration,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// No request waits for permission.
    Idle,
    /// A request is ready to be sent.
    Waiting,
    /// The request may be sent within this window.
    Open(SendWindow),
    /// The request may not be sent.
    Closed,
}

/// The time in which a request may be sent.
#[derive(Clone, Copy, Debug)]
pub struct SendWindow {
    wall: SystemTime,
    steady: Instant,
    length: Duration,
}

impl SendFence {
    /// Creates a fence for requests whose responses are awaited for `response_timeout`, in place of
    /// the limit of other requests: a request with a single-use credential is lost if its response
    /// is.
    pub fn new(response_timeout: Duration) -> Self {
        let shared = Shared {
            state: watch::Sender::new(State::Idle),
            missed: AtomicBool::new(false),
            response_timeout,
        };
        Self { shared: Arc::new(shared) }
    }

    /// Waits until a request is ready to be sent.
    pub async fn wait_for_request(&self) {
        // The sender lives as long as `self`.
        let _ = self.shared.state.subscribe().wait_for(|state| matches!(state, State::Waiting)).await;
    }

    /// Allows the request to be sent within this window.
    pub fn open(&self, window: SendWindow) {
        self.shared.state.send_replace(State::Open(window));
    }

    /// Forbids the request to be sent.
    pub fn close(&self) {
        self.shared.state.send_replace(State::Closed);
    }

    /// Whether a request missed its window and was not sent.
    pub fn was_missed(&self) -> bool {
        self.shared.missed.load(Ordering::Acquire)
    }

    /// Announces a request that is ready to be sent, and waits for permission.
    pub async fn wait_until_open(&self) -> Result<SendWindow, Fault> {
        let mut state = self.shared.state.subscribe();
        self.shared.state.send_replace(State::Waiting);
        let decided = state.wait_for(|state| matches!(state, State::Open(_) | State::Closed)).await;
        match decided.as_deref() {
            Ok(State::Open(window)) => Ok(*window),
            _ => Err(Fault::before_sending(Cause::Closed)
                .with_note("the request was called off before it was sent")),
        }
    }

    /// Whether the request may still be sent, by the clocks; records a missed window. To be called
    /// right before sending.
    pub fn check_window(&self, window: SendWindow) -> bool {
        let holds = window.contains(SystemTime::now(), Instant::now());
        if !holds {
            self.shared.missed.store(true, Ordering::Release);
        }
        holds
    }

    pub(super) fn response_timeout(&self) -> Duration {
        self.shared.response_timeout
    }
}

impl SendWindow {
    /// A window that begins now.
    pub fn new(length: Duration) -> Self {
        Self { wall: SystemTime::now(), steady: Instant::now(), length }
    }

    /// Whether the window is still open, by both clocks: one stands still while a machine sleeps,
    /// and the other can be set. A clock that was set back does not tell how long ago the window
    /// began.
    fn contains(&self, wall: SystemTime, steady: Instant) -> bool {
        let by_wall = wall.duration_since(self.wall).is_ok_and(|passed| passed < self.length);
        by_wall && steady.duration_since(self.steady) < self.length
    }
}

impl fmt::Debug for SendFence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Fence").field(&*self.shared.state.borrow()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_ends_by_either_clock() {
        let window = SendWindow::new(Duration::from_secs(10));
        let after = |wall: u64, steady: u64| {
            let (wall, steady) = (Duration::from_secs(wall), Duration::from_secs(steady));
            window.contains(window.wall + wall, window.steady + steady)
        };
        assert!(after(0, 0) && after(9, 9));
        // A machine that slept, or a clock that was set.
        assert!(!after(10, 0));
        assert!(!after(0, 10));
        assert!(!window.contains(window.wall - Duration::from_secs(1), window.steady));
    }

    #[tokio::test]
    async fn each_request_is_agreed_upon() {
        let fence = SendFence::new(Duration::from_secs(60));
        for _ in 0..2 {
            let passing = fence.wait_until_open();
            let agreeing = async {
                fence.wait_for_request().await;
                fence.open(SendWindow::new(Duration::from_secs(10)));
            };
            let (passed, ()) = tokio::join!(passing, agreeing);
            assert!(fence.check_window(passed.unwrap()));
        }
        let refusing = async {
            fence.wait_for_request().await;
            fence.close();
        };
        let (refused, ()) = tokio::join!(fence.wait_until_open(), refusing);
        assert_eq!(refused.unwrap_err().cause, Cause::Closed);
        assert!(!fence.was_missed());
        assert!(!fence.check_window(SendWindow::new(Duration::ZERO)));
        assert!(fence.was_missed());
    }
}

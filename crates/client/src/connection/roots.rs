//! When the first call may go to a server that asks for the roots: once it has them.
//!
//! A server asks as soon as it is told that the handshake is done, and works in the folders that it was started with
//! until it has its answer. Calls wait for that, in bounded time: whether a server will ask cannot be known.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::Shared;

/// Counts what a server asks, for whoever waits for it.
#[derive(Debug, Default)]
pub(super) struct RootsRequests(Arc<watch::Sender<Counts>>);

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    asked: u64,
    /// Answered, or given up.
    done: u64,
}

/// One request that is being answered, until it is dropped.
pub(super) struct RootsRequest(Arc<watch::Sender<Counts>>);

impl RootsRequests {
    /// The server asks.
    pub(super) fn begin(&self) -> RootsRequest {
        self.0.send_modify(|counts| counts.asked += 1);
        RootsRequest(Arc::clone(&self.0))
    }

    /// How often the server has asked so far, in all its sessions.
    pub(super) fn asked(&self) -> u64 {
        self.0.borrow().asked
    }
}

impl Drop for RootsRequest {
    fn drop(&mut self) {
        self.0.send_modify(|counts| counts.done += 1);
    }
}

impl Shared {
    /// Waits until the server has asked for the roots more often than `before` and has its answer, until it is taken
    /// not to ask, or until `silent` says that it cannot.
    pub(super) async fn wait_for_roots_request(&self, before: u64, silent: Option<CancellationToken>) {
        let mut counts = self.roots_requests.0.subscribe();
        let asked = async { counts.wait_for(|counts| counts.asked > before).await.is_ok() };
        let silent = async {
            match silent {
                Some(silent) => silent.cancelled().await,
                None => std::future::pending().await,
            }
        };
        let has_asked = tokio::select! {
            biased;
            asked = timeout(self.handler.roots_request_wait(), asked) => asked.unwrap_or(false),
            () = silent => false,
        };
        if has_asked {
            let answered = async { counts.wait_for(|counts| counts.done >= counts.asked).await.is_ok() };
            let _ = timeout(MAX_ANSWER_TIME, answered).await;
        }
    }
}

/// For the handler to answer. Folders are looked at meanwhile, and may be far away.
const MAX_ANSWER_TIME: Duration = Duration::from_secs(5);

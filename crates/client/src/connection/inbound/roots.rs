//! Tells servers of changed roots, and delays the first call to a server that requests the roots
//! until it has them.
//!
//! A server requests them as soon as the handshake is done, and works in its own folders until it
//! gets the response. Whether it will ask cannot be known, so the wait is bounded.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use bowline_proto::revision::Era;
use bowline_proto::wire::method;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::Inbound;
use crate::connection::{Connection, LiveLink};
use crate::handler::RootChanges;

/// Counts the server's `roots/list` requests.
#[derive(Debug, Default)]
pub(crate) struct RootsRequestCounter(Arc<watch::Sender<Counts>>);

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    received: u64,
    /// Requests that were answered or canceled.
    finished: u64,
}

/// A request in progress, until this is dropped.
pub(crate) struct RootsRequestGuard(Arc<watch::Sender<Counts>>);

impl RootsRequestCounter {
    /// Counts a new request.
    pub(crate) fn start(&self) -> RootsRequestGuard {
        self.0.send_modify(|counts| counts.received += 1);
        RootsRequestGuard(Arc::clone(&self.0))
    }

    /// Number of requests so far, in all sessions.
    pub(crate) fn count(&self) -> u64 {
        self.0.borrow().received
    }
}

impl Drop for RootsRequestGuard {
    fn drop(&mut self) {
        self.0.send_modify(|counts| counts.finished += 1);
    }
}

impl Inbound {
    /// Number of `roots/list` requests so far, in all sessions.
    pub(crate) fn roots_request_count(&self) -> u64 {
        self.roots_requests.count()
    }

    /// Whether the first call to a server waits for its `roots/list` request.
    pub(crate) fn waits_for_roots_request(&self) -> bool {
        !self.handler.roots_request_wait().is_zero()
    }

    /// Waits until the server has made more than `before` requests and has its response, until it
    /// is taken not to ask, or until `silent` is canceled because it cannot ask.
    pub(crate) async fn wait_for_roots_request(&self, before: u64, silent: Option<CancellationToken>) {
        let mut counts = self.roots_requests.0.subscribe();
        let asked = async { counts.wait_for(|counts| counts.received > before).await.is_ok() };
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
            let answered =
                async { counts.wait_for(|counts| counts.finished >= counts.received).await.is_ok() };
            let _ = timeout(ROOTS_ANSWER_TIMEOUT, answered).await;
        }
    }
}

impl Connection {
    /// Sends `notifications/roots/list_changed`, which modern servers do not have (RT-03).
    pub(crate) async fn notify_roots_changed(&self, live: &LiveLink) {
        if self.server.declaration.has_roots_changed() && live.peer.era() == Era::Legacy {
            let _ = self.notify(live, method::ROOTS_CHANGED, None).await;
        }
    }

    /// Notifies the server whenever the host's roots change. A server that is down learns of it
    /// when it is back.
    pub(crate) async fn watch_roots(self: Arc<Self>, mut changes: RootChanges) {
        while poll_fn(|cx| changes.as_mut().poll_next(cx)).await.is_some() {
            if let Some(live) = self.links.live() {
                self.notify_roots_changed(&live).await;
            }
        }
    }
}

/// Maximum time to wait for the handler, which checks folders that may be on a slow file system.
const ROOTS_ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

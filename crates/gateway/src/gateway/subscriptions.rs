//! The resources whose changes a host wants.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bowline::{RpcError, Subscription};
use parking_lot::Mutex;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};

use super::upstream::{UpstreamUse, Upstreams};
use crate::catalog::Target;

/// The subscriptions of one session, by the URI that the host uses.
#[derive(Debug, Default)]
pub(super) struct Subscriptions(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    by_uri: HashMap<String, AbortHandle>,
    tasks: JoinSet<()>,
}

/// Most subscriptions of one session.
const MAX_SUBSCRIPTIONS: usize = 1_000;

impl Subscriptions {
    /// Whether there is room for another subscription, or this one exists.
    pub(super) fn has_room(&self, uri: &str) -> bool {
        let mut state = self.0.lock();
        if state.by_uri.len() >= MAX_SUBSCRIPTIONS {
            // Those of servers that were removed have ended.
            state.by_uri.retain(|_, task| !task.is_finished());
        }
        state.by_uri.len() < MAX_SUBSCRIPTIONS || state.by_uri.contains_key(uri)
    }

    /// Begins a subscription, whose changes `forward` sends to the host. It replaces an earlier one
    /// to the same URI.
    pub(super) fn begin(&self, uri: String, forward: impl Future<Output = ()> + Send + 'static) {
        let mut state = self.0.lock();
        while state.tasks.try_join_next().is_some() {}
        let handle = state.tasks.spawn(forward);
        if let Some(earlier) = state.by_uri.insert(uri, handle) {
            earlier.abort();
        }
    }

    /// Ends a subscription.
    pub(super) fn end(&self, uri: &str) {
        if let Some(task) = self.0.lock().by_uri.remove(uri) {
            task.abort();
        }
    }

    /// Ends all subscriptions.
    pub(super) fn clear(&self) {
        let state = std::mem::take(&mut *self.0.lock());
        // Dropping the tasks aborts them.
        drop(state);
    }
}

/// A subscription to a resource of a server, as this is configured at the time.
pub(super) struct ResourceWatch {
    upstreams: Weak<Upstreams>,
    target: Target,
    open: Option<OpenWatch>,
}

/// A subscription on one connection.
struct OpenWatch {
    /// Dropped first: this unsubscribes.
    subscription: Subscription,
    used: UpstreamUse,
}

/// A changed resource.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum WatchedChange {
    /// The one that was subscribed to.
    Itself,
    /// One below it, with this URI of the server.
    Below(String),
}

impl WatchedChange {
    /// The URI for the host, which knows the one that it subscribed to as `exposed`.
    pub(super) fn exposed<'a>(&'a self, exposed: &'a str) -> &'a str {
        match self {
            Self::Itself => exposed,
            Self::Below(uri) => uri,
        }
    }
}

impl ResourceWatch {
    /// Subscribes. `None` if there is no such server.
    ///
    /// Dropping the future unsubscribes.
    pub(super) async fn open(upstreams: &Arc<Upstreams>, target: &Target) -> Option<Result<Self, RpcError>> {
        let opened = OpenWatch::open(upstreams, target).await?;
        let upstreams = Arc::downgrade(upstreams);
        Some(opened.map(|open| Self { upstreams, target: target.clone(), open: Some(open) }))
    }

    /// Subscribes. A server that cannot be reached for `wait` is subscribed to when it is back, which counts as a change.
    /// `None` if there is no such server, or if it refuses.
    ///
    /// Dropping the future unsubscribes.
    pub(super) async fn open_within(
        wait: Duration,
        upstreams: &Arc<Upstreams>,
        target: &Target,
    ) -> Option<Self> {
        let later = || Self { upstreams: Arc::downgrade(upstreams), target: target.clone(), open: None };
        match timeout(wait, Self::open(upstreams, target)).await {
            Ok(opened) => match opened? {
                Ok(watch) => Some(watch),
                Err(error) if error.code == crate::UNREACHABLE => Some(later()),
                Err(_) => None,
            },
            Err(_) => Some(later()),
        }
    }

    /// Waits for the next change. When the configuration of the server changes, the subscription is
    /// restored, and counts as a change, since others may have been missed. `None` once the server is
    /// removed or has ended the subscription, or the session is over.
    pub(super) async fn next(&mut self) -> Option<WatchedChange> {
        if let Some(OpenWatch { subscription, used }) = &mut self.open {
            tokio::select! {
                biased;
                change = subscription.next() => {
                    let uri = change?.uri;
                    let is_itself = *uri == *self.target.name;
                    return Some(if is_itself { WatchedChange::Itself } else { WatchedChange::Below(uri) });
                }
                () = used.upstream.wait_until_lost() => {}
            }
        }
        // The old connection is not held up by it.
        self.open = None;
        let mut delay = MIN_RETRY_DELAY;
        loop {
            // Not held while waiting, so that the session can end.
            let upstreams = self.upstreams.upgrade()?;
            match OpenWatch::open(&upstreams, &self.target).await? {
                Ok(open) => {
                    self.open = Some(open);
                    return Some(WatchedChange::Itself);
                }
                Err(error) if error.code == crate::UNREACHABLE => {}
                Err(error) => {
                    tracing::info!(server = %self.target.server, %error.message, "a subscription was not restored");
                    return None;
                }
            }
            drop(upstreams);
            sleep(delay).await;
            delay = (delay * 2).min(MAX_RETRY_DELAY);
        }
    }
}

impl OpenWatch {
    async fn open(upstreams: &Upstreams, target: &Target) -> Option<Result<Self, RpcError>> {
        loop {
            let used = match upstreams.connect(&target.server)? {
                Ok(used) => used,
                Err(error) => return Some(Err(error)),
            };
            let client = &used.connection.client;
            let subscribed = tokio::select! {
                biased;
                subscribed = client.subscribe(&target.name) => subscribed,
                () = used.upstream.wait_until_lost() => continue,
            };
            let subscribed = subscribed.map_err(|error| used.upstream.error_response(client, &error));
            return Some(subscribed.map(|subscription| Self { subscription, used }));
        }
    }
}

/// How long a server that cannot be reached is left alone before a subscription is restored.
const MIN_RETRY_DELAY: Duration = Duration::from_secs(1);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(60);

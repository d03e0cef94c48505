//! The resources whose changes a host wants.

use std::collections::HashMap;
use std::future::Future;

use parking_lot::Mutex;
use tokio::task::{AbortHandle, JoinSet};

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
        let state = self.0.lock();
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

//! Routes the progress of tasks of 2025-11-25: the progress token of the call stays valid until the
//! task has ended (PR-03), though the call is no longer open.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use super::link::lock;
use super::options::Listener;

/// Progress tokens of calls that may have become tasks.
#[derive(Default)]
pub(crate) struct Tokens(Mutex<BTreeMap<u64, Arc<Tracked>>>);

/// Progress of a call that may become a task, or has.
pub(crate) struct Tracked {
    listener: Option<Listener>,
    task: Mutex<Option<Box<str>>>,
    heard: Notify,
}

impl Tracked {
    pub(crate) fn new(listener: Option<Listener>) -> Arc<Self> {
        Arc::new(Self { listener, task: Mutex::default(), heard: Notify::new() })
    }

    /// Records that the call was answered with this task.
    pub(crate) fn becomes(&self, task: &str) {
        *lock(&self.task) = Some(task.into());
    }

    /// Waits for progress. Dropping the future loses none.
    pub(super) async fn heard(&self) {
        self.heard.notified().await;
    }
}

impl Tokens {
    /// Registers the token of a call. Beyond [`MAX_TOKENS`] the oldest is removed.
    pub(super) fn add(&self, token: u64, tracked: &Arc<Tracked>) {
        let mut tokens = lock(&self.0);
        tokens.insert(token, Arc::clone(tracked));
        if tokens.len() > MOST {
            tokens.pop_first();
        }
    }

    /// Records progress under a token that no open call has. Returns its listener.
    pub(super) fn progress(&self, token: u64) -> Option<Listener> {
        let tracked = lock(&self.0).get(&token).cloned()?;
        tracked.heard.notify_one();
        tracked.listener.clone()
    }

    pub(super) fn of_task(&self, task: &str) -> Option<Arc<Tracked>> {
        lock(&self.0).values().find(|tracked| lock(&tracked.task).as_deref() == Some(task)).cloned()
    }

    pub(super) fn forget_task(&self, task: &str) {
        lock(&self.0).retain(|_, tracked| lock(&tracked.task).as_deref() != Some(task));
    }

    /// Removes a call that did not become a task.
    pub(crate) fn forget(&self, tracked: &Arc<Tracked>) {
        lock(&self.0).retain(|_, other| !Arc::ptr_eq(other, tracked));
    }
}

/// Maximum number of registered tokens.
const MOST: usize = 1024;

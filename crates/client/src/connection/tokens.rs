//! Whom progress belongs to once a call was answered with a task of 2025-11-25: its token stays good until
//! the task has ended (PR-03), though the call has left the table.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use super::link::lock;
use super::options::Listener;

/// Tokens of calls that may have become tasks.
#[derive(Default)]
pub(crate) struct Tokens(Mutex<BTreeMap<u64, Arc<Tracked>>>);

/// A call that may become a task, or has.
pub(crate) struct Tracked {
    listener: Option<Listener>,
    task: Mutex<Option<Box<str>>>,
    heard: Notify,
}

impl Tracked {
    pub(crate) fn new(listener: Option<Listener>) -> Arc<Self> {
        Arc::new(Self { listener, task: Mutex::default(), heard: Notify::new() })
    }

    /// The call was answered with this task.
    pub(crate) fn becomes(&self, task: &str) {
        *lock(&self.task) = Some(task.into());
    }

    /// Waits for progress. Dropping the future loses none.
    pub(super) async fn heard(&self) {
        self.heard.notified().await;
    }
}

impl Tokens {
    /// A call goes out under this token. The oldest are forgotten where there are too many.
    pub(super) fn add(&self, token: u64, tracked: &Arc<Tracked>) {
        let mut tokens = lock(&self.0);
        tokens.insert(token, Arc::clone(tracked));
        if tokens.len() > MOST {
            tokens.pop_first();
        }
    }

    /// Progress came under a token that no open call has.
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

    /// The call did not become a task.
    pub(crate) fn forget(&self, tracked: &Arc<Tracked>) {
        lock(&self.0).retain(|_, other| !Arc::ptr_eq(other, tracked));
    }
}

/// More tasks than anybody waits for at once.
const MOST: usize = 1024;

//! Routes the progress of tasks of 2025-11-25: the progress token of the call stays valid until the
//! task has ended (PR-03), though the call is no longer open.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use crate::connection::options::ProgressListener;
use crate::sync::lock;

/// Progress tokens of calls that may have become tasks.
#[derive(Default)]
pub(crate) struct ProgressTokens(Mutex<BTreeMap<u64, Arc<TaskProgress>>>);

/// Progress of a call that may become a task, or has.
pub(crate) struct TaskProgress {
    listener: Option<ProgressListener>,
    task: Mutex<Option<Box<str>>>,
    progress_notify: Notify,
}

impl TaskProgress {
    pub(crate) fn new(listener: Option<ProgressListener>) -> Arc<Self> {
        Arc::new(Self { listener, task: Mutex::default(), progress_notify: Notify::new() })
    }

    /// Records that the call was answered with this task.
    pub(crate) fn set_task(&self, task: &str) {
        *lock(&self.task) = Some(task.into());
    }

    /// Waits for progress. Dropping the future loses none.
    pub(crate) async fn wait_for_progress(&self) {
        self.progress_notify.notified().await;
    }
}

impl ProgressTokens {
    /// Registers the token of a call. Beyond [`MAX_TOKENS`] the oldest is removed.
    pub(crate) fn insert(&self, token: u64, tracked: &Arc<TaskProgress>) {
        let mut tokens = lock(&self.0);
        tokens.insert(token, Arc::clone(tracked));
        if tokens.len() > MAX_TOKENS {
            tokens.pop_first();
        }
    }

    /// Records progress under a token that no open call has. Returns its listener.
    pub(crate) fn notify_progress(&self, token: u64) -> Option<ProgressListener> {
        let tracked = lock(&self.0).get(&token).cloned()?;
        tracked.progress_notify.notify_one();
        tracked.listener.clone()
    }

    pub(crate) fn find_by_task(&self, task: &str) -> Option<Arc<TaskProgress>> {
        lock(&self.0).values().find(|tracked| lock(&tracked.task).as_deref() == Some(task)).cloned()
    }

    pub(crate) fn remove_task(&self, task: &str) {
        lock(&self.0).retain(|_, tracked| lock(&tracked.task).as_deref() != Some(task));
    }

    /// Removes a call that did not become a task.
    pub(crate) fn remove(&self, tracked: &Arc<TaskProgress>) {
        lock(&self.0).retain(|_, other| !Arc::ptr_eq(other, tracked));
    }
}

/// Maximum number of registered tokens.
const MAX_TOKENS: usize = 1024;

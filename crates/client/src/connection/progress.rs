//! The progress of calls and tasks: its listeners, and the tokens under which it arrives.
//!
//! The progress token of a call that became a task of 2025-11-25 stays valid until the task has
//! ended (PR-03), though the call is no longer open.

use std::collections::BTreeMap;
use std::sync::Arc;

use bowline_proto::wire::Json;
use bowline_proto::wire::view::Progress;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Receives the progress notifications of a call. Called from the task that reads the link, so it
/// must be quick.
#[derive(Clone)]
pub(crate) enum ProgressListener {
    Typed(Arc<dyn Fn(Progress) + Send + Sync>),
    Raw(Arc<dyn Fn(Json) + Send + Sync>),
    Both(Arc<(ProgressListener, ProgressListener)>),
    /// The listener of one call, which may be sent several times.
    Retried(Arc<RetriedListener>),
}

impl ProgressListener {
    pub(crate) fn notify(&self, progress: Progress, params: Json) {
        match self {
            Self::Typed(listener) => listener(progress),
            Self::Raw(listener) => listener(params),
            Self::Both(listeners) => {
                listeners.0.notify(progress.clone(), params.clone());
                listeners.1.notify(progress, params);
            }
            Self::Retried(retried) => retried.notify(progress, params),
        }
    }

    /// Wraps the listener for one call, so that progress never decreases when the call is sent
    /// again.
    pub(crate) fn for_call(&self) -> Self {
        let heights =
            Mutex::new(ProgressMarks { highest: f64::NEG_INFINITY, previous_highest: f64::NEG_INFINITY });
        Self::Retried(Arc::new(RetriedListener { listener: self.clone(), marks: heights }))
    }

    /// Records that the call is sent again and its progress restarts.
    pub(crate) fn restart(&self) {
        if let Self::Retried(retried) = self {
            let mut heights = retried.marks.lock();
            heights.previous_highest = heights.highest;
        }
    }
}

/// Holds back the progress of a repeated request until it exceeds what was already reported.
pub(crate) struct RetriedListener {
    listener: ProgressListener,
    marks: Mutex<ProgressMarks>,
}

struct ProgressMarks {
    highest: f64,
    /// Highest progress of the earlier sendings.
    previous_highest: f64,
}

impl RetriedListener {
    fn notify(&self, progress: Progress, params: Json) {
        let at = progress.progress;
        {
            let mut heights = self.marks.lock();
            if at <= heights.previous_highest {
                return;
            }
            heights.highest = heights.highest.max(at);
        }
        self.listener.notify(progress, params);
    }
}

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
        *self.task.lock() = Some(task.into());
    }

    /// Waits for progress. Dropping the future loses none.
    pub(crate) async fn wait_for_progress(&self) {
        self.progress_notify.notified().await;
    }
}

impl ProgressTokens {
    /// Registers the token of a call. Beyond [`MAX_TOKENS`] the oldest is removed.
    pub(crate) fn insert(&self, token: u64, tracked: &Arc<TaskProgress>) {
        let mut tokens = self.0.lock();
        tokens.insert(token, Arc::clone(tracked));
        if tokens.len() > MAX_TOKENS {
            tokens.pop_first();
        }
    }

    /// Records progress under a token that no open call has. Returns its listener.
    pub(crate) fn notify_progress(&self, token: u64) -> Option<ProgressListener> {
        let tracked = self.0.lock().get(&token).cloned()?;
        tracked.progress_notify.notify_one();
        tracked.listener.clone()
    }

    pub(crate) fn find_by_task(&self, task: &str) -> Option<Arc<TaskProgress>> {
        self.0.lock().values().find(|tracked| tracked.task.lock().as_deref() == Some(task)).cloned()
    }

    pub(crate) fn remove_task(&self, task: &str) {
        self.0.lock().retain(|_, tracked| tracked.task.lock().as_deref() != Some(task));
    }

    /// Removes a call that did not become a task.
    pub(crate) fn remove(&self, tracked: &Arc<TaskProgress>) {
        self.0.lock().retain(|_, other| !Arc::ptr_eq(other, tracked));
    }
}

/// Maximum number of registered tokens.
const MAX_TOKENS: usize = 1024;

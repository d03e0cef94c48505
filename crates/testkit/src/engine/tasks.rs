//! Tasks: calls that outlive their request, their session and a restart of the server.
//!
//! One task is in [`task`], the methods of clients in [`requests`]; this file stores, changes and
//! announces tasks.

mod requests;
mod task;
mod timestamp;

use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::{Engine, Era};
use crate::rpc;
use crate::task_plan::TaskOutcome;
pub(super) use requests::{check_extension_declared, create_task, handle_request, task_plan_for_call};
use task::{Status, Task};

pub(super) const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";
const RELATED_TASK_KEY: &str = "io.modelcontextprotocol/related-task";
const IMMEDIATE_RESPONSE_KEY: &str = "io.modelcontextprotocol/model-immediate-response";

/// All tasks, in order of creation.
#[derive(Debug, Default)]
pub(super) struct Tasks(Mutex<Vec<Task>>);

/// A task of the server.
#[derive(Clone, Debug)]
pub struct TaskInfo {
    /// The id of the task.
    pub id: String,
    /// The tool that was called.
    pub tool: String,
    /// The status in the protocol's spelling.
    pub status: String,
    /// The client's responses to its requests, by key.
    pub input_responses: Value,
    /// The number of `tasks/get` requests for it.
    pub polls: usize,
    /// The shortest time between two `tasks/get` requests.
    pub min_poll_interval: Option<Duration>,
}

/// A change that a test makes to a task.
pub(crate) enum TaskAction {
    /// Ends the task, with its own outcome or this one.
    Finish(Option<TaskOutcome>),
    Cancel,
    SetMessage(String),
}

impl Engine {
    pub(crate) fn tasks(&self) -> Vec<TaskInfo> {
        self.tasks.0.lock().iter().map(TaskInfo::new).collect()
    }

    /// Applies a change to a task and announces it. Returns false if there is no such task, or if
    /// it has ended.
    pub(crate) fn apply_task_action(&self, id: &str, nudge: TaskAction) -> bool {
        let changed = self.with_task(id, |task| {
            let open = !task.status.is_terminal();
            match nudge {
                _ if !open => {}
                TaskAction::Finish(outcome) => {
                    task.outcome = outcome.or(task.outcome.take());
                    task.finish();
                }
                TaskAction::Cancel => task.set_status(Status::Cancelled),
                TaskAction::SetMessage(message) => {
                    task.message = Some(message);
                    task.mark_updated();
                }
            }
            open.then(|| task.clone())
        });
        let Some(task) = changed.flatten() else { return false };
        self.announce_task(&task);
        true
    }

    /// Forgets a task, as when its time to live has passed. Returns false if there is none.
    pub(crate) fn forget_task(&self, id: &str) -> bool {
        let mut tasks = self.tasks.0.lock();
        let before = tasks.len();
        tasks.retain(|task| task.id != id);
        before != tasks.len()
    }

    /// Returns the notification that reports a task's progress, if its call had a token.
    pub(crate) fn task_progress_notification(
        &self,
        id: &str,
        progress: f64,
        total: Option<f64>,
    ) -> Option<Value> {
        let token =
            self.with_task(id, |task| task.progress_token.clone()).filter(|token| !token.is_null())?;
        let mut params = json!({"progressToken": token, "progress": progress});
        if let Some(total) = total {
            params["total"] = total.into();
        }
        params["_meta"] = json!({RELATED_TASK_KEY: {"taskId": id}});
        Some(rpc::notification("notifications/progress", params))
    }

    fn add_task(&self, task: Task) {
        self.tasks.0.lock().push(task);
        self.message_log.notify_waiters();
    }

    /// Accesses a task that is not expired.
    fn with_task<T>(&self, id: &str, f: impl FnOnce(&mut Task) -> T) -> Option<T> {
        let mut tasks = self.tasks.0.lock();
        tasks.retain(|task| !task.is_expired());
        let out = tasks.iter_mut().find(|task| task.id == id).map(f);
        drop(tasks);
        self.message_log.notify_waiters();
        out
    }

    /// Like [`with_task`](Self::with_task), and announces a change of status.
    fn change_task<T>(&self, id: &str, f: impl FnOnce(&mut Task) -> T) -> Option<T> {
        let (out, changed) = self.with_task(id, |task| {
            let before = task.status;
            let out = f(task);
            (out, (task.status != before).then(|| task.clone()))
        })?;
        if let Some(task) = changed {
            self.announce_task(&task);
        }
        Some(out)
    }

    fn announce_task(&self, task: &Task) {
        self.message_log.notify_waiters();
        match task.era {
            Era::Legacy if !self.script().quiet_tasks => {
                self.announce_to_sessions("notifications/tasks/status", &task.to_legacy_json(), |_| true);
            }
            Era::Legacy => {}
            Era::Modern => {
                let id = Value::from(task.id.as_str());
                self.announce_to_subscriptions("notifications/tasks", &task.to_detailed_json(), |filter| {
                    filter["taskIds"].as_array().is_some_and(|ids| ids.contains(&id))
                });
            }
        }
    }
}

impl TaskInfo {
    fn new(task: &Task) -> Self {
        let gaps = task.polls.windows(2).map(|pair| pair[1] - pair[0]);
        Self {
            id: task.id.clone(),
            tool: task.tool.clone(),
            status: task.status.name().into(),
            input_responses: task.input_responses.clone().into(),
            polls: task.polls.len(),
            min_poll_interval: gaps.min(),
        }
    }
}

//! The [`Control`] methods for tasks. Tasks belong to the server, not to a session: neither session
//! loss nor a restart of the server ends them.

use serde_json::Value;

use super::Control;
use crate::engine::{TaskAction, TaskInfo};
use crate::task_plan::TaskOutcome;

impl Control {
    /// Returns all tasks that were created and not forgotten, in order.
    pub fn tasks(&self) -> Vec<TaskInfo> {
        self.engine.tasks()
    }

    /// Returns the task with this id. Panics if there is none.
    pub fn task(&self, id: &str) -> TaskInfo {
        let found = self.tasks().into_iter().find(|task| task.id == id);
        found.unwrap_or_else(|| panic!("there is no task {id}; {}", self.engine.message_log.summary()))
    }

    /// Ends a task as its plan says, and announces it. Returns false if it had ended.
    pub fn finish_task(&self, id: &str) -> bool {
        self.engine.apply_task_action(id, TaskAction::Finish(None))
    }

    /// Ends a task with this result.
    pub fn finish_task_with(&self, id: &str, result: Value) -> bool {
        self.engine.apply_task_action(id, TaskAction::Finish(Some(TaskOutcome::Result(result))))
    }

    /// Cancels a task from the side of the server.
    pub fn cancel_task(&self, id: &str) -> bool {
        self.engine.apply_task_action(id, TaskAction::Cancel)
    }

    /// Sets the `statusMessage`.
    pub fn set_task_message(&self, id: &str, message: &str) -> bool {
        self.engine.apply_task_action(id, TaskAction::SetMessage(message.into()))
    }

    /// Forgets a task, as when its time to live has passed: its id is unknown from now on.
    pub fn forget_task(&self, id: &str) -> bool {
        self.engine.forget_task(id)
    }

    /// 2025-11-25: reports progress under the token of the call that created the task, as soon as a
    /// stream is open. Panics if the call had no token.
    pub async fn report_task_progress(&self, id: &str, progress: f64, total: Option<f64>) {
        match self.engine.task_progress_notification(id, progress, total) {
            Some(message) => self.send(message).await,
            None => panic!("{id} has no progress token; {}", self.engine.message_log.summary()),
        }
    }
}

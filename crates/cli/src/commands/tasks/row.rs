//! Formats a task as a row of the list, a line, or a JSON object.

use std::time::SystemTime;

use bowline::types::{Progress, Task};
use bowline::{Id, TaskEnd, TaskHandle};
use serde_json::{Value, json};

use crate::print::{clock, escape};

pub(super) struct TaskRow {
    pub(super) handle: TaskHandle,
    pub(super) tool: Option<String>,
    pub(super) state: TaskRowState,
}

pub(super) enum TaskRowState {
    Known(Task),
    /// The task has ended, or cannot be asked about from here.
    Ended(TaskEnd),
    /// The server's response could not be used, with the reason.
    Unreadable(String),
}

impl TaskRowState {
    /// Returns the status in one word, and the message about it.
    fn status_and_message(&self) -> (&str, Option<String>) {
        match self {
            Self::Known(task) => (task.status.as_str(), task.status_message()),
            Self::Ended(end) => {
                let status = match end {
                    TaskEnd::WrongRevision => "other_revision",
                    TaskEnd::Cancelled => "cancelled",
                    TaskEnd::Expired => "expired",
                    _ => "gone",
                };
                (status, Some(end.to_string()))
            }
            Self::Unreadable(why) => ("unreadable", Some(why.clone())),
        }
    }
}

impl TaskRow {
    pub(super) fn cells(&self) -> [String; 5] {
        let (status, message) = self.state.status_and_message();
        let age = clock::format_span(self.handle.age(SystemTime::now()));
        let tool = self.tool.clone().unwrap_or_default();
        // The statuses of the protocol stay as they are.
        let status = if status == "other_revision" { "other revision" } else { status };
        [self.handle.id.to_string(), status.to_owned(), age, tool, message.unwrap_or_default()]
    }

    pub(super) fn to_json(&self) -> Value {
        let mut json = handle_json(&self.handle);
        json["tool"] = self.tool.clone().into();
        let (status, message) = self.state.status_and_message();
        json["status"] = status.into();
        json["message"] = message.into();
        json
    }
}

pub(super) fn handle_json(handle: &TaskHandle) -> Value {
    let millis = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    json!({
        "id": handle.id,
        "created_at": clock::utc(handle.created_at),
        "ttl_ms": handle.ttl.map(millis),
        "poll_interval_ms": handle.poll_interval.map(millis),
    })
}

pub(super) fn state_json(task: &Task) -> Value {
    json!({ "id": task.id, "status": task.status.as_str(), "message": task.status_message() })
}

/// Formats the status of a task on one line.
pub(super) fn describe_status(task: &Task) -> String {
    match task.status_message() {
        Some(message) => format!("{} ({})", task.status, escape::line(&message)),
        None => task.status.to_string(),
    }
}

/// Returns the status of a task as progress, for a progress bar.
pub(in crate::commands) fn status_progress(task: &Task) -> Progress {
    let mut progress = Progress::new(Id::from(0_u64), 0.0);
    progress.message = Some(describe_status(task).into());
    progress
}

//! [`Task`]: the state of a task, in two dialects that are similar but not compatible.
// Groups TA and TN

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::read::{Object, text};
use super::{InputRequests, ListItem, ViewError, input};
use crate::named::named;
use crate::wire::{Json, RpcError, meta};

/// The dialect of tasks that a connection speaks, which its revision decides.
///
/// Exhaustive, since each dialect has methods and states of its own, which no default can replace.
// TN-10
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskDialect {
    /// The experiment of 2025-11-25, with `ttl`, `pollInterval`, and new tasks nested in `task`.
    Experiment,
    /// The extension of 2026-07-28, with `ttlMs`, `pollIntervalMs`, and flat new tasks.
    Extension,
}

/// The state of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Task {
    /// The state as received.
    pub json: Json,
    /// The dialect of the state.
    pub dialect: TaskDialect,
    /// The id: not empty, and at most 4096 bytes.
    pub id: Box<str>,
    /// The status.
    pub status: TaskStatus,
    /// Time after creation from which the server may drop the task. `None`: never, or not said.
    pub ttl: Option<Duration>,
    // TA-03, TN-04
    /// The interval between polls that the server asks for, if any.
    pub poll_interval: Option<Duration>,
}

/// Maximum length of an id, which is sent in every request about the task, and in a header.
const MAX_TASK_ID_LEN: usize = 4096;

named! {
    /// The status of a task.
    #[non_exhaustive]
    pub enum TaskStatus {
        /// The task is running.
        Working = "working",
        /// The task waits for input.
        InputRequired = "input_required",
        // TN-04
        /// The task completed. In the extension its tool may have failed, which the result says.
        Completed = "completed",
        /// The task failed.
        Failed = "failed",
        /// The task was cancelled.
        Cancelled = "cancelled",
    }
}

impl Task {
    /// Decodes the result of a call that became a task.
    pub fn decode_created(json: &Json, dialect: TaskDialect) -> Result<Self, ViewError> {
        match dialect {
            TaskDialect::Extension => Self::decode(json, dialect),
            TaskDialect::Experiment => {
                let task = Object::parse(json)?.required_object("task")?;
                Self::decode(&task, dialect).map_err(|error| error.in_member("task"))
            }
        }
    }

    /// Decodes the state of a task: the result of `tasks/get`, the parameters of a notification, or
    /// an element of a list.
    pub fn decode(json: &Json, dialect: TaskDialect) -> Result<Self, ViewError> {
        Self::from_object(&Object::parse(json)?, dialect)
    }

    fn from_object(object: &Object<'_>, dialect: TaskDialect) -> Result<Self, ViewError> {
        let (ttl, poll_interval) = match dialect {
            TaskDialect::Experiment => ("ttl", "pollInterval"),
            TaskDialect::Extension => ("ttlMs", "pollIntervalMs"),
        };
        let id = object.required("taskId")?;
        if id.is_empty() || id.len() > MAX_TASK_ID_LEN {
            return Err(object.misfit("taskId", "an id of at most 4096 bytes"));
        }
        Ok(Self {
            dialect,
            id,
            status: object
                .string("status")
                .and_then(|status| TaskStatus::from_name(&status))
                .ok_or_else(|| object.misfit("status", "a task status"))?,
            ttl: object.millis(ttl),
            poll_interval: object.millis(poll_interval),
            json: object.json.clone(),
        })
    }

    /// The server's message about the status. Untrusted.
    pub fn status_message(&self) -> Option<String> {
        text(&self.json, "statusMessage")
    }

    /// Time of creation in ISO 8601, not checked.
    pub fn created_at(&self) -> Option<String> {
        text(&self.json, "createdAt")
    }

    /// Time of the last change in ISO 8601, not checked.
    pub fn last_updated_at(&self) -> Option<String> {
        text(&self.json, "lastUpdatedAt")
    }

    /// 2025-11-25: text for the model while the task runs, from the result that created it.
    /// Untrusted.
    // TA-02
    pub fn immediate_response(created: &Json) -> Option<String> {
        let given = Object::parse(created).ok()?.meta()?;
        text(&given, meta::MODEL_RESPONSE)
    }

    /// Extension: the result of a completed task.
    pub fn result(&self) -> Option<Json> {
        Object::parse(&self.json).ok()?.json("result")
    }

    /// Extension: the JSON-RPC error of a failed task.
    pub fn error(&self) -> Option<Json> {
        Object::parse(&self.json).ok()?.object("error")
    }

    /// Extension: the decoded error of a failed task, if it has one.
    pub fn rpc_error(&self) -> Option<RpcError> {
        let json = self.error()?;
        let object = Object::parse(&json).ok()?;
        // Some servers write the code as `-32000.0`.
        #[expect(clippy::cast_possible_truncation, reason = "codes are small; a huge one has no meaning")]
        let code = object.value::<f64>("code")? as i64;
        let message = object.string("message").unwrap_or_default().into_owned();
        Some(RpcError { code, message, data: object.any_json("data") })
    }

    /// Extension: the inputs that the task requests.
    // TN-05
    pub fn input_requests(&self) -> Result<InputRequests, ViewError> {
        input::decode_requests(&Object::parse(&self.json)?)
    }
}

// TA-05: lists of tasks exist in the experiment only.
impl ListItem for Task {
    const LIST: &'static str = "tasks";

    fn json(&self) -> &Json {
        &self.json
    }

    fn key(&self) -> &str {
        &self.id
    }

    fn read(object: &Object<'_>) -> Result<Self, ViewError> {
        Self::from_object(object, TaskDialect::Experiment)
    }
}

impl TaskStatus {
    /// The status of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == name)
    }

    /// Whether the status can no longer change.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

//! Tasks in both of their forms, which are alike but not compatible (groups TA and TN).

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::read::{Object, text};
use super::{InputRequests, Item, ViewError, input};
use crate::wire::{Json, RpcError, meta};

/// Which form of tasks a connection speaks. Its revision decides (TN-10).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dialect {
    /// The experiment of 2025-11-25: `ttl`, `pollInterval`, created inside `task`.
    Experiment,
    /// The extension of 2026-07-28: `ttlMs`, `pollIntervalMs`, flat.
    Extension,
}

/// The state of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// As it came.
    pub json: Json,
    /// Which form it has.
    pub dialect: Dialect,
    /// Its id: not empty, and no longer than a thousand bytes.
    pub id: Box<str>,
    /// How it stands.
    pub status: TaskStatus,
    /// How long after its creation it may be forgotten. `None`: not at all, or not said.
    pub ttl: Option<Duration>,
    /// How long to wait between polls, if said (TA-03, TN-04).
    pub poll_interval: Option<Duration>,
}

/// It goes into every request about the task, and into a header.
const LONGEST_ID: usize = 1024;

/// How a task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskStatus {
    /// Under way.
    Working,
    /// Waiting for an answer.
    InputRequired,
    /// Done. In the extension also a tool that failed: its result says so (TN-04).
    Completed,
    /// Not done.
    Failed,
    /// Given up.
    Cancelled,
}

impl Task {
    /// Decodes the answer to a call that became a task.
    pub fn created(json: &Json, dialect: Dialect) -> Result<Self, ViewError> {
        match dialect {
            Dialect::Extension => Self::decode(json, dialect),
            Dialect::Experiment => {
                let task = Object::of(json)?.required_object("task")?;
                Self::decode(&task, dialect).map_err(|error| error.under("task"))
            }
        }
    }

    /// Decodes the state of a task: the result of `tasks/get`, the parameters of a notification, or an
    /// entry in a list.
    pub fn decode(json: &Json, dialect: Dialect) -> Result<Self, ViewError> {
        Self::of(&Object::of(json)?, dialect)
    }

    fn of(object: &Object<'_>, dialect: Dialect) -> Result<Self, ViewError> {
        let (ttl, poll_interval) = match dialect {
            Dialect::Experiment => ("ttl", "pollInterval"),
            Dialect::Extension => ("ttlMs", "pollIntervalMs"),
        };
        let id = object.required("taskId")?;
        if id.is_empty() || id.len() > LONGEST_ID {
            return Err(object.misfit("taskId", "an id of at most 1024 bytes"));
        }
        Ok(Self {
            dialect,
            id,
            status: object
                .string("status")
                .and_then(|status| TaskStatus::of(&status))
                .ok_or_else(|| object.misfit("status", "a task status"))?,
            ttl: object.millis(ttl),
            poll_interval: object.millis(poll_interval),
            json: object.json.clone(),
        })
    }

    /// What the server says about the status. Untrusted.
    pub fn status_message(&self) -> Option<String> {
        text(&self.json, "statusMessage")
    }

    /// When it was created, ISO 8601, not checked.
    pub fn created_at(&self) -> Option<String> {
        text(&self.json, "createdAt")
    }

    /// When it last changed, ISO 8601, not checked.
    pub fn last_updated_at(&self) -> Option<String> {
        text(&self.json, "lastUpdatedAt")
    }

    /// 2025-11-25: what the model may be told while it goes on, beside the created task (TA-02). Untrusted.
    pub fn immediate_response(created: &Json) -> Option<String> {
        let given = Object::of(created).ok()?.meta()?;
        text(&given, meta::MODEL_RESPONSE)
    }

    /// Extension: what it gave, once it is completed.
    pub fn result(&self) -> Option<Json> {
        Object::of(&self.json).ok()?.json("result")
    }

    /// Extension: the JSON-RPC error it ended with, once it has failed.
    pub fn error(&self) -> Option<Json> {
        Object::of(&self.json).ok()?.object("error")
    }

    /// The same, read. A task that failed without one has none.
    pub fn rpc_error(&self) -> Option<RpcError> {
        let json = self.error()?;
        let object = Object::of(&json).ok()?;
        // Some servers write the code as `-32000.0`.
        #[expect(clippy::cast_possible_truncation, reason = "codes are small; a huge one has no meaning")]
        let code = object.value::<f64>("code")? as i64;
        let message = object.string("message").unwrap_or_default().into_owned();
        Some(RpcError { code, message, data: object.any("data") })
    }

    /// Extension: what it waits for (TN-05).
    pub fn input_requests(&self) -> Result<InputRequests, ViewError> {
        input::requests(&Object::of(&self.json)?)
    }
}

/// Lists exist in the experiment only (TA-05).
impl Item for Task {
    const LIST: &'static str = "tasks";

    fn json(&self) -> &Json {
        &self.json
    }

    fn key(&self) -> &str {
        &self.id
    }

    fn read(object: &Object<'_>) -> Result<Self, ViewError> {
        Self::of(object, Dialect::Experiment)
    }
}

impl TaskStatus {
    /// A status by its name.
    pub fn of(name: &str) -> Option<Self> {
        Some(match name {
            "working" => Self::Working,
            "input_required" => Self::InputRequired,
            "completed" => Self::Completed,
            "failed" => Self::Failed,
            "cancelled" => Self::Cancelled,
            _ => return None,
        })
    }

    /// Its name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::InputRequired => "input_required",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether it can no longer change.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

impl fmt::Display for TaskStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

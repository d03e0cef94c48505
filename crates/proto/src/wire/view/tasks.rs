//! Tasks in both of their forms, which are alike but not compatible (groups TA and TN).

use std::time::Duration;

use super::read::{Object, text};
use super::{InputRequests, Item, ViewError, input};
use crate::wire::Json;

/// Which form of tasks a connection speaks. Its revision decides (TN-10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// Its id.
    pub id: Box<str>,
    /// How it stands.
    pub status: TaskStatus,
    /// How long after its creation it may be forgotten. `None`: not at all, or not said.
    pub ttl: Option<Duration>,
    /// How long to wait between polls, if said (TA-03, TN-04).
    pub poll_interval: Option<Duration>,
}

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
        Ok(Self {
            id: object.required("taskId")?,
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

    /// Extension: what it gave, once it is completed.
    pub fn result(&self) -> Option<Json> {
        Object::of(&self.json).ok()?.json("result")
    }

    /// Extension: the JSON-RPC error it ended with, once it has failed.
    pub fn error(&self) -> Option<Json> {
        Object::of(&self.json).ok()?.object("error")
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

    /// Whether it can no longer change.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

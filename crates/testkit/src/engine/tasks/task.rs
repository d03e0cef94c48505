//! One task: its status, and its JSON form in each dialect.

use std::time::{Duration, Instant, SystemTime};

use serde_json::{Map, Value, json};

use super::timestamp::format_iso8601;
use crate::engine::Era;
use crate::scripted_request::ScriptedRequest;
use crate::task_plan::{TaskOutcome, TaskPlan};

/// The status of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Working,
    InputRequired,
    Completed,
    Failed,
    Cancelled,
}

impl Status {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::InputRequired => "input_required",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    pub(super) fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

#[derive(Clone, Debug)]
pub(super) struct Task {
    pub(super) id: String,
    pub(super) tool: String,
    /// The era whose dialect it was created in.
    pub(super) era: Era,
    pub(super) plan: TaskPlan,
    pub(super) status: Status,
    pub(super) message: Option<String>,
    pub(super) ttl_ms: Option<u64>,
    /// The progress token of the call, or `null`.
    pub(super) progress_token: Value,
    pub(super) input_responses: Map<String, Value>,
    pub(super) polls: Vec<Instant>,
    /// The outcome it ends or ended with. `None`: the client's responses as text.
    pub(super) outcome: Option<TaskOutcome>,
    requests: Vec<ScriptedRequest>,
    lingering_polls: u32,
    started: Instant,
    created: SystemTime,
    updated: SystemTime,
}

impl Task {
    pub(super) fn new(
        id: String,
        tool: &str,
        era: Era,
        plan: &TaskPlan,
        outcome: Option<TaskOutcome>,
    ) -> Self {
        let now = SystemTime::now();
        let mut task = Self {
            id,
            tool: tool.into(),
            era,
            plan: plan.clone(),
            status: Status::Working,
            message: None,
            ttl_ms: plan.ttl_ms,
            progress_token: Value::Null,
            input_responses: Map::new(),
            polls: Vec::new(),
            outcome,
            requests: plan.asks.clone(),
            lingering_polls: plan.lingers,
            started: Instant::now(),
            created: now,
            updated: now,
        };
        if plan.polls == Some(0) {
            task.advance();
        }
        task
    }

    pub(super) fn is_expired(&self) -> bool {
        self.ttl_ms.is_some_and(|ttl| self.started.elapsed() >= Duration::from_millis(ttl))
    }

    /// Records a `tasks/get`, and advances the task if it is due.
    pub(super) fn record_poll(&mut self) {
        self.polls.push(Instant::now());
        let due = self.plan.polls.is_none_or(|polls| self.polls.len() >= polls as usize);
        if due {
            self.advance();
        }
        // Counted after the status was chosen, so that this many polls do show the requests.
        if self.open_requests().next().is_none() {
            self.lingering_polls = self.lingering_polls.saturating_sub(1);
        }
    }

    /// Advances as far as possible: to its open requests, or to its end unless the test decides
    /// that.
    pub(super) fn advance(&mut self) {
        if self.status.is_terminal() {
            return;
        }
        if self.open_requests().next().is_some() || (!self.requests.is_empty() && self.lingering_polls > 0) {
            self.set_status(Status::InputRequired);
        } else if self.plan.polls.is_some() {
            self.finish();
        } else {
            self.set_status(Status::Working);
        }
    }

    /// Returns the requests without a response.
    pub(super) fn open_requests(&self) -> impl Iterator<Item = &ScriptedRequest> {
        self.requests.iter().filter(|question| !self.input_responses.contains_key(&question.key))
    }

    /// Records responses. Returns the keys that were answered already or never requested.
    pub(super) fn record_responses(&mut self, answers: &Map<String, Value>) -> Vec<String> {
        let mut superfluous = Vec::new();
        for (key, answer) in answers {
            if self.open_requests().any(|question| question.key == *key) {
                self.input_responses.insert(key.clone(), answer.clone());
            } else {
                superfluous.push(key.clone());
            }
        }
        if self.status == Status::InputRequired
            && self.open_requests().next().is_none()
            && self.lingering_polls == 0
        {
            self.set_status(Status::Working);
        }
        superfluous
    }

    /// Makes responses count at once, as they do when the server sends its requests itself.
    pub(super) fn stop_lingering(&mut self) {
        self.lingering_polls = 0;
    }

    /// Ends the task with its outcome.
    pub(super) fn finish(&mut self) {
        let answers = || {
            let words = Value::from(self.input_responses.clone()).to_string();
            TaskOutcome::Result(json!({"content": [{"type": "text", "text": words}]}))
        };
        let outcome = self.outcome.clone().unwrap_or_else(answers);
        let status = match (&outcome, self.era) {
            (TaskOutcome::Error { .. }, _) => Status::Failed,
            // TN-04: the dialects differ in the status of an error result.
            (TaskOutcome::Result(result), Era::Legacy) if result["isError"] == true => Status::Failed,
            (TaskOutcome::Result(_), _) => Status::Completed,
        };
        self.outcome = Some(outcome);
        self.set_status(status);
    }

    pub(super) fn set_status(&mut self, status: Status) {
        if self.status != status {
            self.status = status;
            self.mark_updated();
        }
    }

    pub(super) fn mark_updated(&mut self) {
        self.updated = SystemTime::now();
    }

    /// Returns the task in the form of 2025-11-25.
    pub(super) fn to_legacy_json(&self) -> Value {
        self.to_json("ttl", "pollInterval")
    }

    /// Returns the task in the short form of the extension, without the members that only
    /// `tasks/get` has.
    pub(super) fn to_handle_json(&self) -> Value {
        self.to_json("ttlMs", "pollIntervalMs")
    }

    /// Returns the task in the form of `tasks/get` and `notifications/tasks` of the extension.
    pub(super) fn to_detailed_json(&self) -> Value {
        let mut shown = self.to_handle_json();
        match (self.status, &self.outcome) {
            (Status::InputRequired, _) => {
                let lingering = self.open_requests().next().is_none();
                let asked =
                    self.requests.iter().filter(|q| lingering || !self.input_responses.contains_key(&q.key));
                shown["inputRequests"] =
                    asked.map(|q| (q.key.clone(), q.input_request())).collect::<Map<_, _>>().into();
            }
            (Status::Completed, Some(TaskOutcome::Result(result))) => shown["result"] = result.clone(),
            (Status::Failed, Some(TaskOutcome::Error { code, message })) => {
                shown["error"] = json!({"code": code, "message": message});
            }
            _ => {}
        }
        shown
    }

    fn to_json(&self, ttl: &str, poll_interval: &str) -> Value {
        let mut shown = json!({
            "taskId": self.id,
            "status": self.status.name(),
            "createdAt": format_iso8601(self.created),
            "lastUpdatedAt": format_iso8601(self.updated),
            ttl: self.ttl_ms,
        });
        if let Some(message) = &self.message {
            shown["statusMessage"] = message.as_str().into();
        }
        shown[poll_interval] = self.plan.poll_interval_ms.into();
        shown
    }
}

//! One task: its status, and its JSON form in each dialect.

use std::time::{Duration, Instant, SystemTime};

use serde_json::{Map, Value, json};

use super::clock::iso;
use crate::engine::Era;
use crate::question::Question;
use crate::task_plan::{Outcome, TaskPlan};

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
    pub(super) token: Value,
    pub(super) answers: Map<String, Value>,
    pub(super) polls: Vec<Instant>,
    /// The outcome it ends or ended with. `None`: the client's responses as text.
    pub(super) outcome: Option<Outcome>,
    questions: Vec<Question>,
    lingers: u32,
    born: Instant,
    created: SystemTime,
    updated: SystemTime,
}

impl Task {
    pub(super) fn new(id: String, tool: &str, era: Era, plan: &TaskPlan, outcome: Option<Outcome>) -> Self {
        let now = SystemTime::now();
        let mut task = Self {
            id,
            tool: tool.into(),
            era,
            plan: plan.clone(),
            status: Status::Working,
            message: None,
            ttl_ms: plan.ttl_ms,
            token: Value::Null,
            answers: Map::new(),
            polls: Vec::new(),
            outcome,
            questions: plan.asks.clone(),
            lingers: plan.lingers,
            born: Instant::now(),
            created: now,
            updated: now,
        };
        if plan.polls == Some(0) {
            task.advance();
        }
        task
    }

    pub(super) fn is_expired(&self) -> bool {
        self.ttl_ms.is_some_and(|ttl| self.born.elapsed() >= Duration::from_millis(ttl))
    }

    /// Records a `tasks/get`, and advances the task if it is due.
    pub(super) fn polled(&mut self) {
        self.polls.push(Instant::now());
        let due = self.plan.polls.is_none_or(|polls| self.polls.len() >= polls as usize);
        if due {
            self.advance();
        }
        // Counted after the status was chosen, so that this many polls do show the requests.
        if self.open().next().is_none() {
            self.lingers = self.lingers.saturating_sub(1);
        }
    }

    /// Advances as far as possible: to its open requests, or to its end unless the test decides
    /// that.
    pub(super) fn advance(&mut self) {
        if self.status.is_terminal() {
            return;
        }
        if self.open().next().is_some() || (!self.questions.is_empty() && self.lingers > 0) {
            self.enter(Status::InputRequired);
        } else if self.plan.polls.is_some() {
            self.end();
        } else {
            self.enter(Status::Working);
        }
    }

    /// Returns the requests without a response.
    pub(super) fn open(&self) -> impl Iterator<Item = &Question> {
        self.questions.iter().filter(|question| !self.answers.contains_key(&question.key))
    }

    pub(super) fn ask(&mut self, questions: Vec<Question>) {
        self.questions.extend(questions);
        self.enter(Status::InputRequired);
    }

    /// Records responses. Returns the keys that were answered already or never requested.
    pub(super) fn answer(&mut self, answers: &Map<String, Value>) -> Vec<String> {
        let mut superfluous = Vec::new();
        for (key, answer) in answers {
            if self.open().any(|question| question.key == *key) {
                self.answers.insert(key.clone(), answer.clone());
            } else {
                superfluous.push(key.clone());
            }
        }
        if self.status == Status::InputRequired && self.open().next().is_none() && self.lingers == 0 {
            self.enter(Status::Working);
        }
        superfluous
    }

    /// Makes responses count at once, as they do when the server sends its requests itself.
    pub(super) fn settle(&mut self) {
        self.lingers = 0;
    }

    /// Ends the task with its outcome.
    pub(super) fn end(&mut self) {
        let answers = || {
            let words = Value::from(self.answers.clone()).to_string();
            Outcome::Result(json!({"content": [{"type": "text", "text": words}]}))
        };
        let outcome = self.outcome.clone().unwrap_or_else(answers);
        let status = match (&outcome, self.era) {
            (Outcome::Error { .. }, _) => Status::Failed,
            // TN-04: the dialects differ in the status of an error result.
            (Outcome::Result(result), Era::Legacy) if result["isError"] == true => Status::Failed,
            (Outcome::Result(_), _) => Status::Completed,
        };
        self.outcome = Some(outcome);
        self.enter(status);
    }

    pub(super) fn enter(&mut self, status: Status) {
        if self.status != status {
            self.status = status;
            self.touch();
        }
    }

    pub(super) fn touch(&mut self) {
        self.updated = SystemTime::now();
    }

    /// Returns the task in the form of 2025-11-25.
    pub(super) fn legacy(&self) -> Value {
        self.shown("ttl", "pollInterval")
    }

    /// Returns the task in the short form of the extension, without the members that only
    /// `tasks/get` has.
    pub(super) fn handle(&self) -> Value {
        self.shown("ttlMs", "pollIntervalMs")
    }

    /// Returns the task in the form of `tasks/get` and `notifications/tasks` of the extension.
    pub(super) fn detailed(&self) -> Value {
        let mut shown = self.handle();
        match (self.status, &self.outcome) {
            (Status::InputRequired, _) => {
                let lingering = self.open().next().is_none();
                let asked = self.questions.iter().filter(|q| lingering || !self.answers.contains_key(&q.key));
                shown["inputRequests"] =
                    asked.map(|q| (q.key.clone(), q.input_request())).collect::<Map<_, _>>().into();
            }
            (Status::Completed, Some(Outcome::Result(result))) => shown["result"] = result.clone(),
            (Status::Failed, Some(Outcome::Error { code, message })) => {
                shown["error"] = json!({"code": code, "message": message});
            }
            _ => {}
        }
        shown
    }

    fn shown(&self, ttl: &str, poll_interval: &str) -> Value {
        let mut shown = json!({
            "taskId": self.id,
            "status": self.status.name(),
            "createdAt": iso(self.created),
            "lastUpdatedAt": iso(self.updated),
            ttl: self.ttl_ms,
        });
        if let Some(message) = &self.message {
            shown["statusMessage"] = message.as_str().into();
        }
        if let Some(interval) = self.plan.poll_interval_ms {
            shown[poll_interval] = interval.into();
        }
        shown
    }
}

//! [`TaskPlan`]: how a call that became a task proceeds, in both dialects.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::scripted_request::ScriptedRequest;

/// How the tasks of a tool proceed and end, for [`Tool::task`](crate::Tool::task).
///
/// ```
/// use bowline_testkit::{ScriptedRequest, TaskPlan, Tool};
///
/// Tool::named("export").task(TaskPlan::after_polls(2));
/// let where_to = ScriptedRequest::roots("where");
/// Tool::named("deploy").task(TaskPlan::manual().asks([where_to]).required());
/// ```
///
/// A task ends with the result of the tool; if it requested input, with the responses as JSON text;
/// or with the outcome set by [`result`](Self::result), [`fails`](Self::fails) or
/// [`error`](Self::error).
#[must_use]
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TaskPlan {
    pub(crate) polls: Option<u32>,
    pub(crate) poll_interval_ms: u64,
    pub(crate) ttl_ms: Option<u64>,
    pub(crate) asks: Vec<ScriptedRequest>,
    pub(crate) lingers: u32,
    pub(crate) outcome: Option<TaskOutcome>,
    pub(crate) required: bool,
    pub(crate) uncancellable: bool,
    pub(crate) immediate: Option<String>,
}

/// The outcome of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TaskOutcome {
    Result(Value),
    Error { code: i64, message: String },
}

impl TaskPlan {
    /// Returns a plan that ends at the `n`th `tasks/get`; with 0 the task has ended when it is
    /// created. A `tasks/result` of the legacy dialect counts as all of them.
    pub fn after_polls(n: u32) -> Self {
        Self { polls: Some(n), ..Self::default() }
    }

    /// Returns a plan that ends when [`Control::finish_task`](crate::Control::finish_task) is
    /// called.
    pub fn manual() -> Self {
        Self { polls: None, ..Self::default() }
    }

    /// Sets how long a client should wait between polls. The default is 10 ms.
    pub fn poll_interval(mut self, interval: Duration) -> Self {
        self.poll_interval_ms = crate::script::millis(interval);
        self
    }

    /// Sets how long the task is kept, whatever the client requests. The default is the time the
    /// client requests, or forever.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl_ms = Some(crate::script::millis(ttl));
        self
    }

    /// Requires the responses to these requests before it can end.
    pub fn asks(mut self, questions: impl IntoIterator<Item = impl Into<ScriptedRequest>>) -> Self {
        self.asks = questions.into_iter().map(Into::into).collect();
        self
    }

    /// Keeps showing answered requests in this many further polls, like a server that is slow to
    /// process `tasks/update`.
    pub fn lingers(mut self, polls: u32) -> Self {
        self.lingers = polls;
        self
    }

    /// Ends with this result.
    pub fn result(mut self, result: Value) -> Self {
        self.outcome = Some(TaskOutcome::Result(result));
        self
    }

    /// Ends with an error result: `failed` in 2025-11-25, `completed` in the extension.
    pub fn fails(self, message: &str) -> Self {
        self.result(json!({"content": [{"type": "text", "text": message}], "isError": true}))
    }

    /// Ends with a JSON-RPC error.
    pub fn error(mut self, code: i64, message: &str) -> Self {
        self.outcome = Some(TaskOutcome::Error { code, message: message.into() });
        self
    }

    /// 2025-11-25: sets `taskSupport` to `required` instead of `optional`.
    pub fn required(mut self) -> Self {
        self.required = true;
        self
    }

    /// Acknowledges `tasks/cancel` and continues the task all the same.
    pub fn uncancellable(mut self) -> Self {
        self.uncancellable = true;
        self
    }

    /// 2025-11-25: sets a text for the model until the task ends.
    pub fn immediate(mut self, text: &str) -> Self {
        self.immediate = Some(text.into());
        self
    }
}

impl Default for TaskPlan {
    fn default() -> Self {
        Self {
            polls: Some(1),
            poll_interval_ms: 10,
            ttl_ms: None,
            asks: Vec::new(),
            lingers: 0,
            outcome: None,
            required: false,
            uncancellable: false,
            immediate: None,
        }
    }
}

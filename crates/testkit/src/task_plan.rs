//! [`TaskPlan`]: how a call that became a task goes on, in both dialects.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::question::Question;

/// The life of a tool's tasks, for [`Tool::task`](crate::Tool::task).
///
/// ```
/// use bowline_testkit::{Question, TaskPlan, Tool};
///
/// Tool::named("export").task(TaskPlan::after_polls(2));
/// Tool::named("deploy").task(TaskPlan::manual().asks([Question::roots("where")]).required());
/// ```
///
/// A task ends with what the tool returns; if it asked, with the answers as JSON text; or with what
/// [`result`](Self::result), [`fails`](Self::fails) or [`error`](Self::error) say.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TaskPlan {
    pub(crate) polls: Option<u32>,
    pub(crate) poll_interval_ms: Option<u64>,
    pub(crate) ttl_ms: Option<u64>,
    pub(crate) asks: Vec<Question>,
    pub(crate) lingers: u32,
    pub(crate) outcome: Option<Outcome>,
    pub(crate) required: bool,
    pub(crate) demanded: bool,
    pub(crate) uncancellable: bool,
    pub(crate) immediate: Option<String>,
}

/// What a task ends with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    Result(Value),
    Error { code: i64, message: String },
}

impl TaskPlan {
    /// Ends at the `n`th `tasks/get`; with 0 it has ended when it is created. A `tasks/result` of the
    /// legacy dialect counts as all of them.
    pub fn after_polls(n: u32) -> Self {
        Self { polls: Some(n), ..Self::default() }
    }

    /// Ends when [`Control::finish_task`](crate::Control::finish_task) says so.
    pub fn manual() -> Self {
        Self { polls: None, ..Self::default() }
    }

    /// How long a client should wait between polls; 10 ms by default.
    #[must_use]
    pub fn poll_interval(mut self, interval: Duration) -> Self {
        self.poll_interval_ms = Some(crate::script::millis(interval));
        self
    }

    /// Gives no poll interval.
    #[must_use]
    pub fn no_poll_interval(mut self) -> Self {
        self.poll_interval_ms = None;
        self
    }

    /// How long the task is kept, whatever the client asked for. By default as long as it asked for,
    /// or for ever.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl_ms = Some(crate::script::millis(ttl));
        self
    }

    /// Needs these answers before it can end.
    #[must_use]
    pub fn asks(mut self, questions: impl IntoIterator<Item = impl Into<Question>>) -> Self {
        self.asks = questions.into_iter().map(Into::into).collect();
        self
    }

    /// Shows the questions in this many polls more after they were answered, as a server that takes its
    /// time with `tasks/update` does.
    #[must_use]
    pub fn lingers(mut self, polls: u32) -> Self {
        self.lingers = polls;
        self
    }

    /// Ends with this result.
    #[must_use]
    pub fn result(mut self, result: Value) -> Self {
        self.outcome = Some(Outcome::Result(result));
        self
    }

    /// Ends with a result that is an error: `failed` in 2025-11-25, `completed` in the extension.
    #[must_use]
    pub fn fails(self, message: &str) -> Self {
        self.result(json!({"content": [{"type": "text", "text": message}], "isError": true}))
    }

    /// Ends with a JSON-RPC error.
    #[must_use]
    pub fn error(mut self, code: i64, message: &str) -> Self {
        self.outcome = Some(Outcome::Error { code, message: message.into() });
        self
    }

    /// 2025-11-25: `taskSupport` is `required`, not `optional`.
    #[must_use]
    pub fn required(mut self) -> Self {
        self.required = true;
        self
    }

    /// Extension: a call by a client that did not declare it gets `-32021`, not a plain result.
    #[must_use]
    pub fn demanded(mut self) -> Self {
        self.demanded = true;
        self
    }

    /// `tasks/cancel` is taken note of, and the task ends as if it had not come.
    #[must_use]
    pub fn uncancellable(mut self) -> Self {
        self.uncancellable = true;
        self
    }

    /// 2025-11-25: a text for the model until the task ends.
    #[must_use]
    pub fn immediate(mut self, text: &str) -> Self {
        self.immediate = Some(text.into());
        self
    }
}

impl Default for TaskPlan {
    fn default() -> Self {
        Self {
            polls: Some(1),
            poll_interval_ms: Some(10),
            ttl_ms: None,
            asks: Vec::new(),
            lingers: 0,
            outcome: None,
            required: false,
            demanded: false,
            uncancellable: false,
            immediate: None,
        }
    }
}

//! The end of a call as data: [`Outcome`], [`CallReport`], and the types that carry them.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use bowline_proto::fault::Execution;
use bowline_proto::wire::view::CallToolResult;

/// How a call ended. Every call has exactly one outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Outcome {
    /// The server answered with a result.
    Done,
    /// The tool ran and says in its result that it failed (`isError`).
    ToolError,
    /// The server answered with an error.
    Refused,
    /// This side refused: a handler declined the input that the server required, or a layer
    /// refused the request.
    Declined,
    /// There was no answer, or none that could be used. Says whether the server can have acted on the request.
    Failed(Execution),
    /// The caller dropped or canceled the call.
    Abandoned,
}

/// What happened to one call, from its start to its outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallReport {
    /// How the call ended.
    pub outcome: Outcome,
    /// How often the request was handed to a connection, also if that then could not be established:
    /// 0 if there was none to hand it to, 1 for a call that was neither retried nor required input.
    pub attempts: u32,
    /// How long the request waited, not sent, for a connection, a login, or the end of a time that
    /// a busy server asked for.
    pub waited: Duration,
    /// How often the call went on over a new connection or session because the one it was sent on
    /// was lost.
    pub recoveries: u32,
    /// Time from the start of the call to its end, including `waited`.
    pub duration: Duration,
}

/// The result of a tool, with the report of its call. Dereferences to the result.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ToolResult {
    /// What the tool returned.
    pub result: CallToolResult,
    /// What happened to the call.
    pub report: CallReport,
}

/// The record of a request that ended; see [`Client::report_calls`](crate::Client::report_calls).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CallRecord {
    /// The configured name of the server.
    pub server: Arc<str>,
    /// The method.
    pub method: Box<str>,
    /// The name of the tool, if a tool was called.
    pub tool: Option<Box<str>>,
    /// What happened to the request.
    pub report: CallReport,
}

// === impl Outcome ===

impl Outcome {
    /// The outcome as one word for machines. Scripts match on it, so a word never changes.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::ToolError => "tool_error",
            Self::Refused => "refused",
            Self::Declined => "declined",
            Self::Failed(Execution::NotExecuted) => "not_executed",
            Self::Failed(Execution::Unknown) => "unknown",
            Self::Abandoned => "abandoned",
        }
    }
}

// === impl CallReport ===

impl CallReport {
    /// Creates a report with this outcome and without attempts, waits and recoveries, for the unit
    /// test of a host. Its fields can be set.
    pub const fn new(outcome: Outcome) -> Self {
        Self { outcome, attempts: 0, waited: Duration::ZERO, recoveries: 0, duration: Duration::ZERO }
    }
}

// === impl CallRecord ===

impl CallRecord {
    /// Creates the record of a request that called no tool, for the unit test of a host. Its fields
    /// can be set.
    pub fn new(server: impl Into<Arc<str>>, method: impl Into<Box<str>>, report: CallReport) -> Self {
        Self { server: server.into(), method: method.into(), tool: None, report }
    }
}

// === impl ToolResult ===

impl ToolResult {
    /// Joins a result and the report of its call, for the unit test of a host.
    pub fn new(result: CallToolResult, report: CallReport) -> Self {
        Self { result, report }
    }

    /// Returns the result without the report.
    pub fn into_result(self) -> CallToolResult {
        self.result
    }
}

impl Deref for ToolResult {
    type Target = CallToolResult;

    fn deref(&self) -> &CallToolResult {
        &self.result
    }
}

impl From<ToolResult> for CallToolResult {
    fn from(result: ToolResult) -> Self {
        result.result
    }
}

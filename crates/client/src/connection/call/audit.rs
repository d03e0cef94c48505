//! The audit log of tool calls: server, tool, outcome and duration (TL-08). Arguments and results
//! are left out, since they may be secret.
//!
//! It is written to `tracing` at level `info` with the target [`TARGET`], and costs nothing without
//! a subscriber.

use std::sync::Arc;

use bowline_proto::wire::method;

use crate::report::{CallReport, Outcome};

/// The `tracing` target of the audit log.
pub(crate) const TARGET: &str = "bowline::calls";

/// Whether a call of this method is logged.
pub(crate) fn is_enabled(method: &str) -> bool {
    method == method::TOOLS_CALL && tracing::enabled!(target: TARGET, tracing::Level::INFO)
}

/// Logs a call that has ended.
pub(crate) fn log_call(server: &Arc<str>, tool: &str, report: &CallReport) {
    let tool: String = tool.chars().take(MAX_NAME_CHARS).collect();
    let outcome = match report.outcome {
        Outcome::Done => "done",
        Outcome::ToolError => "tool error",
        Outcome::Refused => "refused by the server",
        Outcome::Declined => "declined by the host",
        Outcome::Failed(_) => "failed",
        Outcome::Abandoned => "left by its caller",
    };
    tracing::info!(target: TARGET, %server, tool, outcome, took = ?report.duration, "a tool was called");
}

const MAX_NAME_CHARS: usize = 200;

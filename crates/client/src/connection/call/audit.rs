//! [`AuditLog`]: the audit log of tool calls: server, tool, outcome and duration (TL-08). Arguments
//! and results are left out, since they may be secret.
//!
//! It is written to `tracing` at level `info` with the target [`TARGET`], and costs nothing without
//! a subscriber.

use bowline_proto::wire::method;

use crate::layer::{Layer, OutgoingRequest};
use crate::report::{CallReport, Outcome};

/// The layer that logs tool calls. It is the outermost one of every client, so that it also sees
/// calls that another layer refuses, and logs the tool that was called in the end.
pub(crate) struct AuditLog;

impl Layer for AuditLog {
    fn observes(&self, method: &str) -> bool {
        method == method::TOOLS_CALL && tracing::enabled!(target: TARGET, tracing::Level::INFO)
    }

    fn on_end(&self, request: &OutgoingRequest, report: &CallReport) {
        let server = request.server();
        let tool: String = request.tool().unwrap_or_default().chars().take(MAX_NAME_CHARS).collect();
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
}

/// The `tracing` target of the audit log.
const TARGET: &str = "bowline::calls";

const MAX_NAME_CHARS: usize = 200;

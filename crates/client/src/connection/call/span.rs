//! The `tracing` span of a request. Its name, target and fields are documented in
//! `docs/watching.md`, and are stable. Arguments and results never appear in it.

use bowline_proto::wire::Json;
use tracing::Span;
use tracing::field::Empty;

use super::scope::tool_name;
use crate::connection::Connection;
use crate::error::{Error, ErrorKind};
use crate::report::{CallReport, Outcome};

/// The `tracing` target of the spans.
const TARGET: &str = "bowline";

/// Creates the span of a request. `None`, and nothing is built, if no subscriber wants it.
pub(super) fn open(connection: &Connection, method: &str, params: Option<&Json>) -> Option<Span> {
    let span = tracing::info_span!(
        target: TARGET,
        "mcp.request",
        "mcp.method.name" = method,
        "mcp.server.name" = &*connection.server.name,
        "mcp.protocol.version" = Empty,
        "gen_ai.tool.name" = Empty,
        "bowline.outcome" = Empty,
        "bowline.attempts" = Empty,
        "error.type" = Empty,
    );
    if span.is_disabled() {
        return None;
    }
    if let Some(tool) = tool_name(method, params) {
        record_tool(&span, &tool);
    }
    Some(span)
}

/// Records the tool that is called, also again after a layer chose another one.
pub(super) fn record_tool(span: &Span, tool: &str) {
    span.record("gen_ai.tool.name", tool.chars().take(MAX_NAME_CHARS).collect::<String>());
}

/// Records how the request ended.
pub(super) fn close(span: &Span, connection: &Connection, error_type: Option<&str>, report: &CallReport) {
    if let Some(live) = connection.links.live() {
        span.record("mcp.protocol.version", live.peer.revision.as_str());
    }
    span.record("bowline.outcome", report.outcome.as_str());
    span.record("bowline.attempts", report.attempts);
    if let Some(error_type) = error_type {
        span.record("error.type", error_type);
    }
}

/// The type of an error in the sense of OpenTelemetry: one of few words, or the code of a JSON-RPC
/// error.
pub(super) fn error_type(outcome: Outcome, error: Option<&Error>) -> Option<String> {
    let Some(error) = error else {
        return match outcome {
            Outcome::Done => None,
            other => Some(other.as_str().to_owned()),
        };
    };
    Some(match error.kind() {
        ErrorKind::Server(answer) => answer.code.to_string(),
        ErrorKind::Fault(fault) => fault.cause.kind().to_owned(),
        ErrorKind::Task(_) => "task".to_owned(),
        ErrorKind::NotOffered(_) => "not_offered".to_owned(),
        ErrorKind::NotGranted(_) => "not_granted".to_owned(),
        ErrorKind::Usage(_) => "usage".to_owned(),
        ErrorKind::Declined(_)
        | ErrorKind::LayerRefused(_)
        | ErrorKind::ToolError(_)
        | ErrorKind::Cancelled => outcome.as_str().to_owned(),
    })
}

/// Maximum length of a tool name in a span.
const MAX_NAME_CHARS: usize = 200;

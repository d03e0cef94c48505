//! The audit log of tool calls: server, tool, outcome and duration (TL-08). Arguments and results
//! are left out, since they may be secret.
//!
//! It is written to `tracing` at level `info` with the target [`TARGET`], and costs nothing without
//! a subscriber.

use std::sync::Arc;
use std::time::Instant;

use bowline_proto::wire::{Json, method};

use crate::error::{ErrorKind, Result};

/// The `tracing` target of the audit log.
pub(crate) const TARGET: &str = "bowline::calls";

/// A tool call in progress, logged when this is dropped. Without an outcome it is logged as dropped
/// by its caller.
pub(crate) struct CallAudit {
    server: Arc<str>,
    tool: String,
    started: Instant,
    outcome: &'static str,
}

impl CallAudit {
    /// Starts the record of a tool call. `None` for other methods, or if the log is off.
    pub(crate) fn start(server: &Arc<str>, method: &str, params: Option<&Json>) -> Option<Self> {
        if method != method::TOOLS_CALL || !tracing::enabled!(target: TARGET, tracing::Level::INFO) {
            return None;
        }
        let tool = params.and_then(|params| params.member("name")?.decode().ok()).unwrap_or_default();
        Some(Self {
            server: Arc::clone(server),
            tool,
            started: Instant::now(),
            outcome: "left by its caller",
        })
    }

    pub(crate) fn set_outcome<T>(&mut self, outcome: &Result<T>, result: impl Fn(&T) -> &Json) {
        self.outcome = match outcome {
            Ok(value) if result(value).member("isError").is_some_and(|flag| flag.as_str() == "true") => {
                "tool error"
            }
            Ok(_) => "done",
            Err(error) => match error.kind() {
                ErrorKind::Server(_) => "refused by the server",
                ErrorKind::Declined(_) => "declined by the host",
                _ => "failed",
            },
        };
    }
}

impl Drop for CallAudit {
    fn drop(&mut self) {
        let Self { server, tool, started: begun, outcome } = self;
        let tool: String = tool.chars().take(MAX_NAME_CHARS).collect();
        tracing::info!(target: TARGET, %server, tool, outcome, took = ?begun.elapsed(), "a tool was called");
    }
}

const MAX_NAME_CHARS: usize = 200;

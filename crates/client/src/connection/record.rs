//! A record of every tool call, for those who keep one: which tool of which server, how it ended, how long it took
//! (TL-08). Arguments and results are not in it; they may be anybody's secrets.
//!
//! It goes to `tracing` at level `info` under the target [`TARGET`], and costs nothing where nobody listens.

use std::sync::Arc;
use std::time::Instant;

use bowline_proto::wire::{Json, method};

use crate::error::{ErrorKind, Result};

/// Where records go.
pub(super) const TARGET: &str = "bowline::calls";

/// A call that is under way. Dropped before its end, it is recorded as left.
pub(super) struct Record {
    server: Arc<str>,
    tool: String,
    begun: Instant,
    outcome: &'static str,
}

impl Record {
    /// `None`: it is no tool call, or nobody listens.
    pub(super) fn begin(server: &Arc<str>, method: &str, params: Option<&Json>) -> Option<Self> {
        if method != method::TOOLS_CALL || !tracing::enabled!(target: TARGET, tracing::Level::INFO) {
            return None;
        }
        let tool = params.and_then(|params| params.member("name")?.decode().ok()).unwrap_or_default();
        Some(Self { server: Arc::clone(server), tool, begun: Instant::now(), outcome: "left by its caller" })
    }

    pub(super) fn end<T>(&mut self, outcome: &Result<T>, result: impl Fn(&T) -> &Json) {
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

impl Drop for Record {
    fn drop(&mut self) {
        let Self { server, tool, begun, outcome } = self;
        let tool: String = tool.chars().take(LONGEST_NAME).collect();
        tracing::info!(target: TARGET, %server, tool, outcome, took = ?begun.elapsed(), "a tool was called");
    }
}

const LONGEST_NAME: usize = 200;

//! [`ReceivedMessage`] and [`MessageLog`]: every message to the MCP server in order, and what it
//! did.

use std::collections::HashMap;

use serde_json::Value;

use crate::event_log::{EventLog, LogEntry};

/// One message or HTTP request as the server received it.
#[derive(Clone, Debug)]
pub struct ReceivedMessage {
    /// Position in the order of arrival, from 0.
    pub seq: u64,
    /// The number of the server start or process that received it, from 1.
    pub run: u32,
    /// The number of the TCP connection, from 1. On stdio it equals `run`.
    pub connection: u64,
    /// `POST`, `GET` or `DELETE`. Empty on stdio.
    pub http_method: String,
    /// The path and query of the request. Empty on stdio.
    pub path: String,
    /// Headers in order, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The session id in its headers.
    pub session: Option<String>,
    /// The JSON-RPC method; `response` for a client's response; else the HTTP method.
    pub method: String,
    /// The JSON body, or `null` if there was none or it was not JSON.
    pub body: Value,
}

impl ReceivedMessage {
    /// Returns whether the message has this method.
    pub fn has_method(&self, method: &str) -> bool {
        self.method == method
    }

    /// Returns the first header with this name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str())
    }

    /// Returns `params`, or `null`.
    pub fn params(&self) -> &Value {
        &self.body["params"]
    }

    /// Returns the tool of a `tools/call`.
    pub fn tool(&self) -> Option<&str> {
        called_tool(&self.body)
    }
}

/// Returns the tool that a `tools/call` message calls.
pub(crate) fn called_tool(message: &Value) -> Option<&str> {
    (message["method"] == "tools/call").then(|| message["params"]["name"].as_str()).flatten()
}

/// The record of an MCP server.
pub(crate) type MessageLog = EventLog<ReceivedMessage>;

/// What is counted beside the messages.
#[derive(Debug, Default)]
pub(crate) struct MessageCounts {
    executions: HashMap<String, u64>,
    cancellations: Vec<Value>,
    connections: u64,
    runs: u32,
}

impl LogEntry for ReceivedMessage {
    type Counts = MessageCounts;

    fn register(&mut self, seq: u64, counts: &mut MessageCounts) {
        (self.seq, self.run) = (seq, counts.runs);
    }

    fn summary(&self) -> String {
        let Self { run, connection, http_method, method, .. } = self;
        let tool = self.tool().map(|tool| format!(" {tool}")).unwrap_or_default();
        format!("run {run} conn {connection} {http_method} {method}{tool}")
    }

    fn summarize_counts(counts: &MessageCounts, entries: usize) -> String {
        format!("{} connections, {entries} messages:", counts.connections)
    }
}

impl MessageLog {
    pub(crate) fn count_execution(&self, tool: &str) {
        self.update_counts(|counts| *counts.executions.entry(tool.into()).or_default() += 1);
    }

    pub(crate) fn record_cancellation(&self, id: Value) {
        self.update_counts(|counts| counts.cancellations.push(id));
    }

    /// Counts a connection and returns its number.
    pub(crate) fn count_connection(&self) -> u64 {
        self.update_counts(|counts| {
            counts.connections += 1;
            counts.connections
        })
    }

    /// Counts a start and returns its number.
    pub(crate) fn count_run(&self) -> u32 {
        self.update_counts(|counts| {
            counts.runs += 1;
            counts.runs
        })
    }

    pub(crate) fn executions(&self, tool: &str) -> u64 {
        self.with_counts(|counts| counts.executions.get(tool).copied().unwrap_or(0))
    }

    pub(crate) fn cancellations(&self) -> Vec<Value> {
        self.with_counts(|counts| counts.cancellations.clone())
    }

    pub(crate) fn connections(&self) -> u64 {
        self.with_counts(|counts| counts.connections)
    }

    pub(crate) fn runs(&self) -> u32 {
        self.with_counts(|counts| counts.runs)
    }
}

//! [`ReceivedMessage`] and [`MessageLog`]: everything the server received, in order, with a way to
//! wait for an event instead of sleeping.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;

use crate::sync::{self, lock};

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

/// The record of a server: messages, executions, cancellations and protocol violations.
#[derive(Debug)]
pub(crate) struct MessageLog {
    state: Mutex<State>,
    changed: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    received: Vec<ReceivedMessage>,
    executions: HashMap<String, u64>,
    cancellations: Vec<Value>,
    violations: Vec<String>,
    connections: u64,
    runs: u32,
    next_seq: u64,
}

impl Default for MessageLog {
    fn default() -> Self {
        Self { state: Mutex::default(), changed: watch::Sender::new(0) }
    }
}

impl MessageLog {
    pub(crate) fn record(&self, mut received: ReceivedMessage) {
        self.write(|book| {
            received.seq = book.next_seq;
            book.next_seq += 1;
            received.run = book.runs;
            book.received.push(received);
        });
    }

    pub(crate) fn count_execution(&self, tool: &str) {
        self.write(|book| *book.executions.entry(tool.into()).or_default() += 1);
    }

    pub(crate) fn record_cancellation(&self, id: Value) {
        self.write(|book| book.cancellations.push(id));
    }

    pub(crate) fn record_violation(&self, what: impl Into<String>) {
        self.write(|book| book.violations.push(what.into()));
    }

    /// Counts a connection and returns its number.
    pub(crate) fn count_connection(&self) -> u64 {
        self.write(|book| {
            book.connections += 1;
            book.connections
        })
    }

    /// Counts a start and returns its number.
    pub(crate) fn count_run(&self) -> u32 {
        self.write(|book| {
            book.runs += 1;
            book.runs
        })
    }

    pub(crate) fn received(&self) -> Vec<ReceivedMessage> {
        lock(&self.state).received.clone()
    }

    /// Returns the messages from this sequence number on.
    pub(crate) fn received_from(&self, seq: u64) -> Vec<ReceivedMessage> {
        let book = lock(&self.state);
        let start = book.received.partition_point(|r| r.seq < seq);
        book.received[start..].to_vec()
    }

    pub(crate) fn clear_received(&self) {
        self.write(|book| book.received.clear());
    }

    pub(crate) fn executions(&self, tool: &str) -> u64 {
        lock(&self.state).executions.get(tool).copied().unwrap_or(0)
    }

    pub(crate) fn cancellations(&self) -> Vec<Value> {
        lock(&self.state).cancellations.clone()
    }

    pub(crate) fn violations(&self) -> Vec<String> {
        lock(&self.state).violations.clone()
    }

    pub(crate) fn connections(&self) -> u64 {
        lock(&self.state).connections
    }

    pub(crate) fn runs(&self) -> u32 {
        lock(&self.state).runs
    }

    pub(crate) fn count(&self, method: &str) -> usize {
        lock(&self.state).received.iter().filter(|r| r.has_method(method)).count()
    }

    /// Makes waiters test their condition again although nothing was recorded here.
    pub(crate) fn notify_waiters(&self) {
        self.changed.send_modify(|version| *version += 1);
    }

    /// Waits until `look` returns something, calling it again after every change.
    pub(crate) async fn wait_for<T>(&self, look: impl FnMut() -> Option<T>, timeout: Duration) -> Option<T> {
        sync::wait_for(&self.changed, look, timeout).await
    }

    /// Returns one line per message, for the panic message of a failed wait.
    pub(crate) fn summary(&self) -> String {
        let book = lock(&self.state);
        let mut text = format!("{} connections, {} messages:", book.connections, book.received.len());
        for r in &book.received {
            let _ = write!(
                text,
                "\n  #{} run {} conn {} {} {}",
                r.seq, r.run, r.connection, r.http_method, r.method
            );
            if let Some(tool) = r.tool() {
                let _ = write!(text, " {tool}");
            }
        }
        text
    }

    fn write<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let out = change(&mut lock(&self.state));
        self.notify_waiters();
        out
    }
}

//! [`Received`] and the ledger: what the server saw, in order, with waiting instead of sleeping.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;

use crate::sync::{self, lock};

/// One message or HTTP request as the server received it.
#[derive(Clone, Debug)]
pub struct Received {
    /// Position in the order of arrival, from 0.
    pub seq: u64,
    /// Which start of the server or process this was, from 1.
    pub run: u32,
    /// Number of the TCP connection, from 1. Stdio: the same as `run`.
    pub connection: u64,
    /// `POST`, `GET` or `DELETE`. Empty on stdio.
    pub http: String,
    /// The path and query of the request. Empty on stdio.
    pub path: String,
    /// Headers in order, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The session id it carried.
    pub session: Option<String>,
    /// The JSON-RPC method; `response` for a client's answer; else the HTTP method.
    pub method: String,
    /// The JSON body, `null` if there was none or it was no JSON.
    pub body: Value,
}

impl Received {
    /// Whether this is a message with that method.
    pub fn is(&self, method: &str) -> bool {
        self.method == method
    }

    /// The first header with this name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str())
    }

    /// `params`, or `null`.
    pub fn params(&self) -> &Value {
        &self.body["params"]
    }

    /// The tool of a `tools/call`.
    pub fn tool(&self) -> Option<&str> {
        tool_of(&self.body)
    }
}

/// The tool a message calls.
pub(crate) fn tool_of(message: &Value) -> Option<&str> {
    (message["method"] == "tools/call").then(|| message["params"]["name"].as_str()).flatten()
}

#[derive(Debug)]
pub(crate) struct Ledger {
    book: Mutex<Book>,
    changed: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Book {
    received: Vec<Received>,
    executions: HashMap<String, u64>,
    cancelled: Vec<Value>,
    violations: Vec<String>,
    connections: u64,
    runs: u32,
    next_seq: u64,
}

impl Default for Ledger {
    fn default() -> Self {
        Self { book: Mutex::default(), changed: watch::Sender::new(0) }
    }
}

impl Ledger {
    pub(crate) fn record(&self, mut received: Received) {
        self.write(|book| {
            received.seq = book.next_seq;
            book.next_seq += 1;
            received.run = book.runs;
            book.received.push(received);
        });
    }

    pub(crate) fn executed(&self, tool: &str) {
        self.write(|book| *book.executions.entry(tool.into()).or_default() += 1);
    }

    pub(crate) fn cancelled(&self, id: Value) {
        self.write(|book| book.cancelled.push(id));
    }

    pub(crate) fn violation(&self, what: impl Into<String>) {
        self.write(|book| book.violations.push(what.into()));
    }

    /// Counts a connection and gives its number.
    pub(crate) fn connected(&self) -> u64 {
        self.write(|book| {
            book.connections += 1;
            book.connections
        })
    }

    /// Counts a start and gives its number.
    pub(crate) fn started(&self) -> u32 {
        self.write(|book| {
            book.runs += 1;
            book.runs
        })
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        lock(&self.book).received.clone()
    }

    /// What came with this number and after it.
    pub(crate) fn received_from(&self, seq: u64) -> Vec<Received> {
        let book = lock(&self.book);
        let start = book.received.partition_point(|r| r.seq < seq);
        book.received[start..].to_vec()
    }

    pub(crate) fn forget_received(&self) {
        self.write(|book| book.received.clear());
    }

    pub(crate) fn executions(&self, tool: &str) -> u64 {
        lock(&self.book).executions.get(tool).copied().unwrap_or(0)
    }

    pub(crate) fn cancellations(&self) -> Vec<Value> {
        lock(&self.book).cancelled.clone()
    }

    pub(crate) fn violations(&self) -> Vec<String> {
        lock(&self.book).violations.clone()
    }

    pub(crate) fn connections(&self) -> u64 {
        lock(&self.book).connections
    }

    pub(crate) fn runs(&self) -> u32 {
        lock(&self.book).runs
    }

    pub(crate) fn count(&self, method: &str) -> usize {
        lock(&self.book).received.iter().filter(|r| r.is(method)).count()
    }

    /// Tells waiters to look again although nothing was written here.
    pub(crate) fn touch(&self) {
        self.changed.send_modify(|version| *version += 1);
    }

    /// Waits until `look` finds something, looking again after every change.
    pub(crate) async fn until<T>(&self, look: impl FnMut() -> Option<T>, timeout: Duration) -> Option<T> {
        sync::until(&self.changed, look, timeout).await
    }

    /// The record as lines, for the message of a failed wait.
    pub(crate) fn summary(&self) -> String {
        let book = lock(&self.book);
        let mut text = format!("{} connections, {} messages:", book.connections, book.received.len());
        for r in &book.received {
            let _ =
                write!(text, "\n  #{} run {} conn {} {} {}", r.seq, r.run, r.connection, r.http, r.method);
            if let Some(tool) = r.tool() {
                let _ = write!(text, " {tool}");
            }
        }
        text
    }

    fn write<T>(&self, change: impl FnOnce(&mut Book) -> T) -> T {
        let out = change(&mut lock(&self.book));
        self.touch();
        out
    }
}

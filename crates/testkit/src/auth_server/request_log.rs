//! [`ReceivedAuthRequest`] and [`RequestLog`]: every request to the authorization server in order,
//! with its response.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use tokio::sync::watch;

use crate::sync::{self, lock};

/// A request as the authorization server received it. Requests for protected resource metadata are
/// included, although the MCP server answers those.
#[derive(Clone, Debug)]
pub struct ReceivedAuthRequest {
    /// Position in the order of arrival, from 0.
    pub seq: u64,
    /// The endpoint: `prm`, `metadata`, `authorize`, `token`, `register`, `device`, `verify`,
    /// `revoke`, `jwks`, `userinfo`, or `other`. A request for metadata counts as such also where
    /// none is published.
    pub endpoint: &'static str,
    /// The grant of a token request, without its URN prefix.
    pub grant: Option<String>,
    /// The HTTP method.
    pub method: String,
    /// The path, without the query.
    pub path: String,
    /// The fields of the form, or of the query if there is no form. A repeated field has all its
    /// values, separated by spaces.
    pub form: BTreeMap<String, String>,
    /// The JSON body of a registration, else `null`.
    pub json: Value,
    /// Headers in order, names in lower case.
    pub headers: Vec<(String, String)>,
    /// How the client authenticated itself, whether or not that was valid: `none` (an id alone),
    /// `client_secret_basic`, `client_secret_post`, `private_key_jwt`, or empty.
    pub client_auth: &'static str,
    /// The client id that the request claims.
    pub client_id: Option<String>,
    /// The status of the response; 0 while there is none, and if there never will be.
    pub status: u16,
    /// The OAuth error in the response.
    pub error: Option<String>,
}

impl ReceivedAuthRequest {
    /// Returns whether the request went to this endpoint, or was a token request with this grant.
    pub fn matches(&self, name: &str) -> bool {
        self.endpoint == name || self.grant.as_deref() == Some(name)
    }

    /// Returns a field of the form or query.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.form.get(name).map(String::as_str)
    }

    /// Returns the first header with this name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str())
    }
}

/// Counts of what happened so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AuthCounts {
    /// The number of codes issued.
    pub authorizations: u64,
    /// The number of clients registered.
    pub registrations: u64,
    /// The number of successful refreshes.
    pub refreshes: u64,
    /// How often a rotated refresh token was presented again.
    pub reuse_detected: u64,
    /// The number of logins that were revoked because of that, or because a code was used twice.
    pub families_revoked: u64,
    /// The number of token requests that were answered with an error by the rules, not by an
    /// injected fault.
    pub refused: u64,
    /// The number of requests the MCP server answered with 401.
    pub unauthorized: u64,
    /// The number of requests the MCP server answered with 403.
    pub forbidden: u64,
    /// The number of token requests received, by grant.
    pub tokens: BTreeMap<String, u64>,
}

/// The record of an authorization server: requests, counts and protocol violations.
#[derive(Debug)]
pub(super) struct RequestLog {
    state: Mutex<State>,
    changed: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    requests: Vec<ReceivedAuthRequest>,
    first_seq: u64,
    counts: AuthCounts,
    violations: Vec<String>,
}

impl Default for RequestLog {
    fn default() -> Self {
        Self { state: Mutex::default(), changed: watch::Sender::new(0) }
    }
}

impl RequestLog {
    /// Records a request and returns its sequence number.
    pub(super) fn record(&self, mut seen: ReceivedAuthRequest) -> u64 {
        self.write(|book| {
            seen.seq = book.first_seq + book.requests.len() as u64;
            if seen.endpoint == "token" {
                *book.counts.tokens.entry(seen.grant.clone().unwrap_or_default()).or_default() += 1;
            }
            let seq = seen.seq;
            book.requests.push(seen);
            seq
        })
    }

    pub(super) fn record_response(&self, seq: u64, status: u16, error: Option<String>) {
        self.write(|book| {
            let index = seq.checked_sub(book.first_seq).and_then(|index| usize::try_from(index).ok());
            if let Some(seen) = index.and_then(|index| book.requests.get_mut(index)) {
                (seen.status, seen.error) = (status, error);
            }
        });
    }

    pub(super) fn update_counts(&self, change: impl FnOnce(&mut AuthCounts)) {
        self.write(|book| change(&mut book.counts));
    }

    pub(super) fn record_violation(&self, what: impl Into<String>) {
        self.write(|book| book.violations.push(what.into()));
    }

    pub(super) fn requests(&self) -> Vec<ReceivedAuthRequest> {
        lock(&self.state).requests.clone()
    }

    pub(super) fn with_requests<T>(&self, look: impl FnOnce(&[ReceivedAuthRequest]) -> T) -> T {
        look(&lock(&self.state).requests)
    }

    pub(super) fn clear(&self) {
        self.write(|book| {
            book.first_seq += book.requests.len() as u64;
            book.requests.clear();
        });
    }

    pub(super) fn counts(&self) -> AuthCounts {
        lock(&self.state).counts.clone()
    }

    pub(super) fn violations(&self) -> Vec<String> {
        lock(&self.state).violations.clone()
    }

    /// Makes waiters test their condition again although nothing was recorded here.
    pub(super) fn notify_waiters(&self) {
        self.changed.send_modify(|version| *version += 1);
    }

    /// Waits until `look` returns something, calling it again after every change.
    pub(super) async fn wait_for<T>(&self, look: impl FnMut() -> Option<T>, timeout: Duration) -> Option<T> {
        sync::wait_for(&self.changed, look, timeout).await
    }

    /// Returns one line per request, for the panic message of a failed wait.
    pub(super) fn summary(&self) -> String {
        let book = lock(&self.state);
        let mut text = format!("{:?}; {} requests:", book.counts, book.requests.len());
        for seen in &book.requests {
            let _ = write!(text, "\n  #{} {} {} {}", seen.seq, seen.method, seen.path, seen.status);
            for word in [&seen.grant, &seen.error].into_iter().flatten() {
                let _ = write!(text, " {word}");
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

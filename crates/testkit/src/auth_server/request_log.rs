//! [`ReceivedAuthRequest`] and [`RequestLog`]: every request to the authorization server in order,
//! with its response.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::event_log::{EventLog, LogEntry};

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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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

/// The record of an authorization server.
pub(super) type RequestLog = EventLog<ReceivedAuthRequest>;

impl LogEntry for ReceivedAuthRequest {
    type Counts = AuthCounts;

    fn register(&mut self, seq: u64, counts: &mut AuthCounts) {
        self.seq = seq;
        if self.endpoint == "token" {
            *counts.tokens.entry(self.grant.clone().unwrap_or_default()).or_default() += 1;
        }
    }

    fn summary(&self) -> String {
        let mut summary = format!("{} {} {}", self.method, self.path, self.status);
        for word in [&self.grant, &self.error].into_iter().flatten() {
            summary.push(' ');
            summary.push_str(word);
        }
        summary
    }

    fn summarize_counts(counts: &AuthCounts, entries: usize) -> String {
        format!("{counts:?}; {entries} requests:")
    }
}

impl RequestLog {
    pub(super) fn record_response(&self, seq: u64, status: u16, error: Option<String>) {
        self.edit(seq, |seen| (seen.status, seen.error) = (status, error));
    }
}

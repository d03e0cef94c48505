//! [`CannedResponse`]: a complete HTTP response, given literally by a test.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A complete HTTP response: status, headers, body.
///
/// In the body, `$id` stands for the JSON of the request's id.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CannedResponse {
    pub(crate) status: u16,
    #[serde(default)]
    pub(crate) headers: Vec<(String, String)>,
    #[serde(default)]
    pub(crate) body: Vec<u8>,
}

impl CannedResponse {
    /// Returns a response with this status and an empty body.
    pub fn new(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Vec::new() }
    }

    /// Adds a header.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sets the body without a content type.
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// Sets a `text/plain` body.
    pub fn text(self, text: &str) -> Self {
        self.header("content-type", "text/plain; charset=utf-8").body(text)
    }

    /// Sets a `text/html` body, as proxies send.
    pub fn html(self, html: &str) -> Self {
        self.header("content-type", "text/html").body(html)
    }

    /// Sets an `application/json` body. The string `"$id"` in it becomes the request's id.
    pub fn json(self, json: &Value) -> Self {
        self.header("content-type", "application/json").body(serialize_with_id_placeholder(json))
    }

    /// Sets an event stream with one message as the body. The string `"$id"` in it becomes the
    /// request's id.
    pub fn sse(self, json: &Value) -> Self {
        self.header("content-type", "text/event-stream")
            .body(format!("event: message\ndata: {}\n\n", serialize_with_id_placeholder(json)))
    }

    /// Returns the body with `$id` replaced by this id.
    pub(crate) fn body_for(&self, id: &Value) -> Vec<u8> {
        match std::str::from_utf8(&self.body) {
            Ok(text) if text.contains("$id") => text.replace("$id", &id.to_string()).into_bytes(),
            _ => self.body.clone(),
        }
    }
}

/// Serializes JSON and strips the quotes around the placeholder `"$id"`, so that a number can take
/// its place.
fn serialize_with_id_placeholder(json: &Value) -> String {
    json.to_string().replace("\"$id\"", "$id")
}

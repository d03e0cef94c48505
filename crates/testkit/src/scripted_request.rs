//! [`ScriptedRequest`] and [`InputScript`]: the requests the server sends the client while it works
//! on a request of the client.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// One server request under a key. A triple of key, method and params converts into one;
/// `Value::Null` leaves the params out.
///
/// ```
/// use bowline_testkit::{ScriptedRequest, Tool};
/// use serde_json::json;
///
/// let city = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
/// let form = ScriptedRequest::form_elicitation("where", "Which city?", city);
/// Tool::asks("book", [form, ScriptedRequest::roots("files")]);
/// Tool::asks("look", [("files", "roots/list", json!(null))]);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedRequest {
    pub(crate) key: String,
    pub(crate) method: String,
    #[serde(default)]
    pub(crate) params: Value,
}

impl ScriptedRequest {
    /// Returns an elicitation in form mode.
    pub fn form_elicitation(key: &str, message: &str, schema: Value) -> Self {
        let params = json!({"mode": "form", "message": message, "requestedSchema": schema});
        (key, "elicitation/create", params).into()
    }

    /// Returns an elicitation in URL mode. Its `elicitationId`, in the era that has one, is the
    /// key.
    pub fn url_elicitation(key: &str, message: &str, url: &str) -> Self {
        let params = json!({"mode": "url", "elicitationId": key, "message": message, "url": url});
        (key, "elicitation/create", params).into()
    }

    /// Returns a sampling request with one user message.
    pub fn sampling(key: &str, text: &str, max_tokens: u64) -> Self {
        let messages = json!([{"role": "user", "content": {"type": "text", "text": text}}]);
        (key, "sampling/createMessage", json!({"messages": messages, "maxTokens": max_tokens})).into()
    }

    /// Returns a request for the client's roots.
    pub fn roots(key: &str) -> Self {
        (key, "roots/list", Value::Null).into()
    }

    /// Returns the request as a member of a modern `inputRequests`.
    pub(crate) fn input_request(&self) -> Value {
        let mut request = json!({"method": self.method});
        if !self.params.is_null() {
            request["params"] = self.params.clone();
        }
        // The modern era has no `elicitationId`.
        if self.params["mode"] == "url"
            && let Some(params) = request["params"].as_object_mut()
        {
            params.remove("elicitationId");
        }
        request
    }

    /// Returns the client capabilities this request requires.
    pub(crate) fn required_capabilities(&self) -> Value {
        match self.method.as_str() {
            "elicitation/create" if self.params["mode"] == "url" => json!({"elicitation": {"url": {}}}),
            "elicitation/create" => json!({"elicitation": {}}),
            "sampling/createMessage" if self.params.get("tools").is_some() => {
                json!({"sampling": {"tools": {}}})
            }
            "sampling/createMessage" => json!({"sampling": {}}),
            _ => json!({"roots": {}}),
        }
    }
}

impl<K: Into<String>, M: Into<String>> From<(K, M, Value)> for ScriptedRequest {
    fn from((key, method, params): (K, M, Value)) -> Self {
        Self { key: key.into(), method: method.into(), params }
    }
}

/// The server requests of one client request, round by round.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct InputScript {
    pub(crate) rounds: Vec<Vec<ScriptedRequest>>,
    /// The `requestState` of each round. A round without an entry gets a new state that breaks if
    /// the client parses and rewrites it.
    pub(crate) states: Vec<Option<String>>,
    /// Whether the requests are sent whatever the client declared.
    pub(crate) unchecked: bool,
}

impl InputScript {
    pub(crate) fn single_round(questions: impl IntoIterator<Item = impl Into<ScriptedRequest>>) -> Self {
        Self::rounds([questions])
    }

    pub(crate) fn rounds<Q: Into<ScriptedRequest>>(
        rounds: impl IntoIterator<Item = impl IntoIterator<Item = Q>>,
    ) -> Self {
        let rounds = rounds.into_iter().map(|round| round.into_iter().map(Into::into).collect()).collect();
        Self { rounds, ..Self::default() }
    }
}

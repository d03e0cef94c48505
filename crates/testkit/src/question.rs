//! [`Question`] and [`Asks`]: what the server asks of the client while it works on a request.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// One question. A triple of key, method and params is one; `Value::Null` leaves the params out.
///
/// ```
/// use bowline_testkit::{Question, Tool};
/// use serde_json::json;
///
/// let city = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
/// Tool::asks("book", [Question::form("where", "Which city?", city), Question::roots("files")]);
/// Tool::asks("look", [("files", "roots/list", json!(null))]);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    pub(crate) key: String,
    pub(crate) method: String,
    #[serde(default)]
    pub(crate) params: Value,
}

impl Question {
    /// A form to fill in.
    pub fn form(key: &str, message: &str, schema: Value) -> Self {
        let params = json!({"mode": "form", "message": message, "requestedSchema": schema});
        (key, "elicitation/create", params).into()
    }

    /// A page to visit; its `elicitationId`, where the era has one, is the key.
    pub fn page(key: &str, message: &str, url: &str) -> Self {
        let params = json!({"mode": "url", "elicitationId": key, "message": message, "url": url});
        (key, "elicitation/create", params).into()
    }

    /// A message for the client's model.
    pub fn sample(key: &str, text: &str, max_tokens: u64) -> Self {
        let messages = json!([{"role": "user", "content": {"type": "text", "text": text}}]);
        (key, "sampling/createMessage", json!({"messages": messages, "maxTokens": max_tokens})).into()
    }

    /// The client's roots.
    pub fn roots(key: &str) -> Self {
        (key, "roots/list", Value::Null).into()
    }

    /// As a modern input request.
    pub(crate) fn input_request(&self) -> Value {
        let mut request = json!({"method": self.method});
        if !self.params.is_null() {
            request["params"] = self.params.clone();
        }
        // Pages have no id of their own any more.
        if self.params["mode"] == "url"
            && let Some(params) = request["params"].as_object_mut()
        {
            params.remove("elicitationId");
        }
        request
    }

    /// What the client must have declared to be asked this.
    pub(crate) fn needs(&self) -> Value {
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

impl<K: Into<String>, M: Into<String>> From<(K, M, Value)> for Question {
    fn from((key, method, params): (K, M, Value)) -> Self {
        Self { key: key.into(), method: method.into(), params }
    }
}

/// The questions of one request, round by round.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Asks {
    pub(crate) rounds: Vec<Vec<Question>>,
    /// What `requestState` is in each round; unless given, something new that is hard to copy.
    pub(crate) states: Vec<Option<String>>,
    /// The last round comes again and again.
    pub(crate) forever: bool,
    /// Asked whatever the client declared.
    pub(crate) unchecked: bool,
}

impl Asks {
    pub(crate) fn once(questions: impl IntoIterator<Item = impl Into<Question>>) -> Self {
        Self::rounds([questions])
    }

    pub(crate) fn rounds<Q: Into<Question>>(
        rounds: impl IntoIterator<Item = impl IntoIterator<Item = Q>>,
    ) -> Self {
        let rounds = rounds.into_iter().map(|round| round.into_iter().map(Into::into).collect()).collect();
        Self { rounds, ..Self::default() }
    }
}

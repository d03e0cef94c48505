//! [`Resource`], [`ResourceTemplate`] and [`Prompt`]: their definitions in lists, and the contents
//! a read returns.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// A resource of a [`Script`](crate::Script).
///
/// ```
/// use bowline_testkit::Resource;
/// use serde_json::json;
///
/// Resource::text("file:///notes.txt", "hello").member("annotations", json!({"priority": 0.5}));
/// Resource::blob("file:///dot.png", "image/png", b"\x89PNG");
/// Resource::text("file:///folder", "one").content(json!({"uri": "file:///folder/two", "text": "two"}));
/// ```
#[must_use]
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resource {
    pub(crate) definition: Value,
    pub(crate) contents: Vec<Value>,
}

impl Resource {
    /// Returns a resource with one text content.
    pub fn text(uri: &str, text: &str) -> Self {
        Self::new(uri, "text/plain", json!({"uri": uri, "mimeType": "text/plain", "text": text}))
    }

    /// Returns a resource with one binary content, encoded as Base64.
    pub fn blob(uri: &str, mime_type: &str, bytes: &[u8]) -> Self {
        let blob = STANDARD.encode(bytes);
        Self::new(uri, mime_type, json!({"uri": uri, "mimeType": mime_type, "blob": blob}))
    }

    fn new(uri: &str, mime_type: &str, content: Value) -> Self {
        let name = uri.rsplit('/').next().unwrap_or(uri);
        let definition = json!({"uri": uri, "name": name, "mimeType": mime_type});
        Self { definition, contents: vec![content] }
    }

    /// Sets any member of the definition.
    pub fn member(mut self, name: &str, value: Value) -> Self {
        self.definition[name] = value;
        self
    }

    /// Adds a content to the result of a read, well-formed or not.
    pub fn content(mut self, content: Value) -> Self {
        self.contents.push(content);
        self
    }

    /// Removes all contents, so that a read returns an empty list.
    pub fn empty(mut self) -> Self {
        self.contents.clear();
        self
    }
}

/// A resource template. Every URI with its literal prefix exists, and its text is the URI.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResourceTemplate {
    pub(crate) definition: Value,
}

impl ResourceTemplate {
    pub(crate) fn new(uri_template: &str) -> Self {
        Self { definition: json!({"uriTemplate": uri_template, "name": uri_template}) }
    }

    /// Returns whether a URI matches this template.
    pub(crate) fn matches(&self, uri: &str) -> bool {
        let pattern = self.definition["uriTemplate"].as_str().unwrap_or_default();
        uri.starts_with(pattern.split('{').next().unwrap_or_default())
    }
}

/// A prompt: its definition and its messages.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Prompt {
    pub(crate) definition: Value,
    /// The messages, with `{name}` for the argument in each text.
    pub(crate) messages: Value,
}

impl Prompt {
    pub(crate) fn name(&self) -> &str {
        self.definition["name"].as_str().unwrap_or_default()
    }

    /// Returns the first required argument that is missing.
    pub(crate) fn missing_argument(&self, arguments: &Value) -> Option<&str> {
        let wanted = self.definition["arguments"].as_array().into_iter().flatten();
        let required = wanted.filter(|argument| argument["required"] == true);
        required.filter_map(|argument| argument["name"].as_str()).find(|name| arguments.get(name).is_none())
    }

    pub(crate) fn messages(&self, arguments: &Value) -> Value {
        let none = Map::new();
        let arguments = arguments.as_object().unwrap_or(&none);
        let mut messages = self.messages.clone();
        for message in messages.as_array_mut().into_iter().flatten() {
            if let Some(text) = message["content"]["text"].as_str() {
                message["content"]["text"] = fill_placeholders(text, arguments).into();
            }
        }
        messages
    }
}

fn fill_placeholders(text: &str, values: &Map<String, Value>) -> String {
    let mut words = text.to_owned();
    for (name, value) in values {
        words = words.replace(&format!("{{{name}}}"), value.as_str().unwrap_or_default());
    }
    words
}

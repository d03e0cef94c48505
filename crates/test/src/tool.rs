//! What a tool of the fake server is given and what it returns.

use std::fmt;
use std::pin::Pin;

use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use crate::running_call::CallEvent;

/// The result of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolReply {
    pub(crate) outcome: Result<Value, ToolError>,
}

/// The failure of a tool. It becomes a result with `isError`, which is for the model to see, unless
/// it is [a protocol error](ToolError::protocol).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolError {
    pub(crate) code: Option<i64>,
    pub(crate) message: String,
}

/// Converts what a tool returns: text, JSON, a [`ToolReply`], or a `Result` of these whose error
/// becomes a result with `isError`.
pub trait IntoToolReply {
    /// Converts it.
    fn into_tool_reply(self) -> ToolReply;
}

/// The running call of an asynchronous tool. Clones are the same call.
#[derive(Clone, Debug)]
pub struct ToolContext {
    pub(crate) events: mpsc::UnboundedSender<CallEvent>,
}

/// The answer to a form.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ElicitationReply {
    /// The person filled in the form, with this content.
    Accept(Value),
    /// The person declined.
    Decline,
    /// The person dismissed the form.
    Cancel,
}

pub(crate) type ToolFuture = Pin<Box<dyn Future<Output = ToolReply> + Send>>;

// === impl ToolReply ===

impl ToolReply {
    /// A result of one text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self::raw(json!({ "content": [{ "type": "text", "text": text.into() }] }))
    }

    /// A result of structured content, which is repeated as text. Anything but an object is text
    /// only.
    pub fn json(value: Value) -> Self {
        let mut result = json!({ "content": [{ "type": "text", "text": value.to_string() }] });
        if value.is_object() {
            result["structuredContent"] = value;
        }
        Self::raw(result)
    }

    /// A whole `CallToolResult`, as it is.
    pub fn raw(result: Value) -> Self {
        Self { outcome: Ok(result) }
    }
}

impl ToolError {
    /// A failure that the model sees.
    pub fn new(message: impl Into<String>) -> Self {
        Self { code: None, message: message.into() }
    }

    /// An error response in place of a result.
    pub fn protocol(code: i64, message: impl Into<String>) -> Self {
        Self { code: Some(code), message: message.into() }
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ToolError {}

impl From<&str> for ToolError {
    fn from(message: &str) -> Self {
        Self::new(message)
    }
}

impl From<String> for ToolError {
    fn from(message: String) -> Self {
        Self::new(message)
    }
}

// === impl IntoToolReply ===

impl IntoToolReply for ToolReply {
    fn into_tool_reply(self) -> ToolReply {
        self
    }
}

impl IntoToolReply for &str {
    fn into_tool_reply(self) -> ToolReply {
        ToolReply::text(self)
    }
}

impl IntoToolReply for String {
    fn into_tool_reply(self) -> ToolReply {
        ToolReply::text(self)
    }
}

impl IntoToolReply for Value {
    fn into_tool_reply(self) -> ToolReply {
        ToolReply::json(self)
    }
}

impl<T: IntoToolReply, E: Into<ToolError>> IntoToolReply for Result<T, E> {
    fn into_tool_reply(self) -> ToolReply {
        match self {
            Ok(result) => result.into_tool_reply(),
            Err(error) => ToolReply { outcome: Err(error.into()) },
        }
    }
}

// === impl ToolContext ===

impl ToolContext {
    /// Reports progress, which is dropped if the caller did not ask for it.
    pub fn progress(&self, done: f64, total: Option<f64>, message: Option<&str>) {
        let mut params = json!({ "progress": done });
        if let Some(total) = total {
            params["total"] = total.into();
        }
        if let Some(message) = message {
            params["message"] = message.into();
        }
        // A call that was given up takes no more events.
        let _ = self.events.send(CallEvent::Progress(params));
    }

    /// Asks the person behind the host to fill in a form. `schema` is an object schema of simple
    /// fields. Fails if the client did not declare elicitation, or answers with an error. Dropping the
    /// future is as with [`ToolContext::request`].
    pub async fn elicit_form(&self, message: &str, schema: Value) -> Result<ElicitationReply, ToolError> {
        let params = json!({ "mode": "form", "message": message, "requestedSchema": schema });
        let answer = self.request("elicitation/create", params).await?;
        Ok(match answer["action"].as_str() {
            Some("accept") => ElicitationReply::Accept(answer["content"].clone()),
            Some("decline") => ElicitationReply::Decline,
            _ => ElicitationReply::Cancel,
        })
    }

    /// Sends any request to the client, such as `sampling/createMessage` or `roots/list`, and
    /// returns its result.
    ///
    /// Dropping the future does not withdraw the request: its answer is discarded.
    pub async fn request(&self, method: &str, params: Value) -> Result<Value, ToolError> {
        let (reply, answered) = oneshot::channel();
        let question = CallEvent::Ask { method: method.to_owned(), params, reply };
        self.events.send(question).map_err(|_| ToolError::new("the call was given up"))?;
        answered.await.map_err(|_| ToolError::new("the call was given up"))?
    }
}

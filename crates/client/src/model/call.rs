//! One step per tool call of a model: resolve the name, check the arguments, call, and convert the
//! result.

use std::fmt;
use std::sync::Arc;

use bowline_proto::wire::Json;
use bowline_proto::wire::view::CallToolResult;
use serde::Serialize;

use super::{ModelContext, ModelResult, ModelTool};
use crate::client::Client;
use crate::connection::CallOptions;
use crate::error::Error;
use crate::registry::Registry;
use crate::report::ToolResult;
use crate::schema::Violation;

/// Why a model's tool call has no result.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ModelCallError {
    /// The context has no tool of this name. Models invent names.
    UnknownTool(String),
    /// The arguments do not fit the tool's schema; nothing was sent.
    InvalidArguments(Vec<Violation>),
    /// The context names a server that the registry or the client does not have.
    UnknownServer(Arc<str>),
    /// The call itself failed.
    Call(Error),
}

impl Registry {
    /// Calls the tool that a model asked for, and returns the result in the provider's format.
    ///
    /// `name` and `arguments` are the model's, `context` is what the model was given. A tool that
    /// fails is a result with [`ModelResult::is_error`]; an error can be told to the model as well
    /// ([`ModelContext::error_result`]). Dropping the future cancels the call on the server.
    ///
    /// ```no_run
    /// # async fn run(registry: &bowline::Registry) -> Result<(), Box<dyn std::error::Error>> {
    /// use bowline::CallOptions;
    /// use bowline::model::{ModelApi, ModelOptions};
    ///
    /// let context = registry.model_context(&ModelOptions::new(ModelApi::Anthropic)).await;
    /// // The model wants to call a tool.
    /// # let (name, input) = ("files_search", serde_json::json!({}));
    /// let called = registry.call_model(&context, name, &input, &CallOptions::new()).await;
    /// let result = called.unwrap_or_else(|error| context.error_result(&error));
    /// let block = serde_json::json!({ "content": result.content, "is_error": result.is_error });
    /// # Ok(())
    /// # }
    /// ```
    pub async fn call_model<A: Serialize + ?Sized>(
        &self,
        context: &ModelContext,
        name: &str,
        arguments: &A,
        options: &CallOptions,
    ) -> Result<ModelResult, ModelCallError> {
        let (tool, arguments) = context.prepare_call(name, arguments)?;
        let client =
            self.get(&tool.server).ok_or_else(|| ModelCallError::UnknownServer(Arc::clone(&tool.server)))?;
        context.finish_call(client.call_tool_with(&tool.original, &arguments, options).await)
    }
}

impl Client {
    /// [`Registry::call_model`] with the context of this server.
    pub async fn call_model<A: Serialize + ?Sized>(
        &self,
        context: &ModelContext,
        name: &str,
        arguments: &A,
        options: &CallOptions,
    ) -> Result<ModelResult, ModelCallError> {
        let (tool, arguments) = context.prepare_call(name, arguments)?;
        if *tool.server != *self.name() {
            return Err(ModelCallError::UnknownServer(Arc::clone(&tool.server)));
        }
        context.finish_call(self.call_tool_with(&tool.original, &arguments, options).await)
    }
}

impl ModelContext {
    /// Describes to the model, in the provider's format, why a call has no result, so that it can
    /// correct itself: a [`ModelCallError`], or in words that a person refused or canceled the call.
    /// Providers require a result for each call.
    pub fn error_result(&self, error: &(impl fmt::Display + ?Sized)) -> ModelResult {
        let text = Json::encode(&error.to_string()).unwrap_or_else(|_| Json::empty_object());
        let json = format!(r#"{{"content":[{{"type":"text","text":{text}}}],"isError":true}}"#);
        let result = Json::parse(json).ok().and_then(|json| CallToolResult::decode(&json).ok());
        self.tool_result(&result.expect("a text block is a result"))
    }

    fn prepare_call<A: Serialize + ?Sized>(
        &self,
        name: &str,
        arguments: &A,
    ) -> Result<(&ModelTool, Json), ModelCallError> {
        let tool = self.resolve(name).ok_or_else(|| ModelCallError::UnknownTool(name.to_owned()))?;
        let arguments = Json::encode(arguments).map_err(|error| {
            let violation = Violation::new("", error.to_string());
            ModelCallError::InvalidArguments(vec![violation])
        })?;
        let arguments = tool.check_arguments(&arguments).map_err(ModelCallError::InvalidArguments)?;
        Ok((tool, arguments))
    }

    fn finish_call(&self, called: Result<ToolResult, Error>) -> Result<ModelResult, ModelCallError> {
        let called = called.map_err(ModelCallError::Call)?;
        Ok(ModelResult { report: Some(called.report), ..self.tool_result(&called) })
    }
}

impl fmt::Display for ModelCallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownTool(name) => write!(f, "there is no tool {name:?}"),
            Self::InvalidArguments(violations) => {
                f.write_str("the arguments do not fit")?;
                for violation in violations {
                    write!(f, "; {violation}")?;
                }
                Ok(())
            }
            Self::UnknownServer(server) => write!(f, "there is no server {server:?}"),
            Self::Call(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ModelCallError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Call(error) => Some(error),
            Self::UnknownTool(_) | Self::InvalidArguments(_) | Self::UnknownServer(_) => None,
        }
    }
}

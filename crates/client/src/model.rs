//! The context for a model: a server's instructions, its tools in the format of a provider, and
//! the results of calls.
//!
//! ```no_run
//! # async fn run(client: &bowline::Client) -> Result<(), Box<dyn std::error::Error>> {
//! use bowline::CallOptions;
//! use bowline::model::{ModelApi, ModelOptions};
//!
//! let context = client.model_context(&ModelOptions::new(ModelApi::Anthropic)).await?;
//! let request = serde_json::json!({ "system": context.instructions, "tools": context.definitions() });
//! // The model answers that it wants to call a tool.
//! # let (name, input) = ("search", bowline::Json::empty_object());
//! let called = client.call_model(&context, name, &input, &CallOptions::new()).await;
//! let content = called.unwrap_or_else(|error| context.error_result(&error)).content;
//! # Ok(())
//! # }
//! ```
//!
//! Text of a server is untrusted: it is bounded, sanitized and marked as the server's. See
//! [`approval()`] for what its annotations are worth.

mod approval;
mod arguments;
mod assemble;
mod call;
mod options;
mod picture;
mod registry;
mod result;
pub(crate) mod rewrite;
mod text;

use std::fmt;
use std::sync::{Arc, OnceLock};

use bowline_proto::wire::view::Tool;
use serde_json::{Value, json};

use crate::client::Client;
use crate::error::Result;
use crate::schema::Schema;

pub use approval::{Approval, Trust, approval};
pub use call::ModelCallError;
pub use options::{Audience, ModelApi, ModelOptions, Prefix};
pub use result::{ContentOmission, ModelResult};

use self::assemble::ServerTools;

/// Instructions and tools for a model.
#[derive(Debug)]
#[non_exhaustive]
pub struct ModelContext {
    /// The instructions of the servers, each under its configured name, quoted and shortened.
    pub instructions: Option<String>,
    /// The tools, in the order of the servers.
    pub tools: Vec<ModelTool>,
    /// What was left out, and why.
    pub omissions: Vec<Omission>,
    options: ModelOptions,
}

/// A tool, as the model sees it and as the server defines it.
#[non_exhaustive]
pub struct ModelTool {
    /// The definition in the provider's format. Gemini needs all of them in one list:
    /// [`ModelContext::definitions`].
    pub definition: Value,
    /// The name for the model.
    pub name: String,
    /// The server's own name for it.
    pub original: Box<str>,
    /// The configured name of its server.
    pub server: Arc<str>,
    /// The tool as the server defines it, with its original schema.
    pub tool: Tool,
    keys: rewrite::KeyMap,
    /// Compiled on first use. `None` if the schema cannot be used and only the server checks.
    schema: OnceLock<Option<Schema>>,
}

/// Something that was left out of the context.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Omission {
    /// The configured name of the server.
    pub server: Arc<str>,
    /// The tool's name, shortened; `None` for the server as a whole.
    pub name: Option<String>,
    /// The reason.
    pub reason: String,
}

impl Omission {
    /// Creates an omission of a server as a whole. Its fields can be set.
    pub fn new(server: impl Into<Arc<str>>, reason: impl Into<String>) -> Self {
        Self { server: server.into(), name: None, reason: reason.into() }
    }
}

impl Client {
    /// Builds the context of this server for a model.
    ///
    /// Tools that cannot be expressed for the provider are in [`ModelContext::omissions`], with the
    /// reason. Dropping the future cancels it.
    pub async fn model_context(&self, options: &ModelOptions) -> Result<ModelContext> {
        Ok(assemble::build_context(vec![ServerTools::fetch(self).await?], options))
    }
}

impl ModelContext {
    /// The tools in the format of the `tools` member of the provider's request.
    pub fn definitions(&self) -> Value {
        let all: Vec<&Value> = self.tools.iter().map(|tool| &tool.definition).collect();
        match self.options.api {
            ModelApi::OpenAi | ModelApi::OpenAiResponses | ModelApi::Anthropic => json!(all),
            // Gemini refuses an empty list of functions.
            ModelApi::Gemini if all.is_empty() => json!([]),
            ModelApi::Gemini => json!([{ "functionDeclarations": all }]),
        }
    }

    /// The tool with this model name.
    pub fn resolve(&self, name: &str) -> Option<&ModelTool> {
        self.tools.iter().find(|tool| tool.name == name)
    }
}

impl fmt::Debug for ModelTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { definition: _, name, original, server, tool: _, keys: _, schema: _ } = self;
        f.debug_struct("ModelTool")
            .field("name", name)
            .field("original", original)
            .field("server", server)
            .finish_non_exhaustive()
    }
}

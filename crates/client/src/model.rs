//! What a host gives to a model: a server's instructions, its tools in the shape that a provider takes, and
//! the results of calls.
//!
//! ```no_run
//! # async fn run(client: &bowline::Client) -> Result<(), Box<dyn std::error::Error>> {
//! use bowline::model::{Dialect, ModelOptions};
//!
//! let context = client.model_context(&ModelOptions::new(Dialect::Anthropic)).await?;
//! let request = serde_json::json!({ "system": context.instructions, "tools": context.definitions() });
//! // The model answers that it wants to call a tool.
//! # let (name, input) = ("search", bowline::wire::Json::empty_object());
//! let tool = context.resolve(name).ok_or("there is no such tool")?;
//! let arguments = context.check_arguments(name, &input).map_err(|why| why[0].to_string())?;
//! let result = client.call_tool(&tool.original, &arguments).await?;
//! let content = context.tool_result(&result).content;
//! # Ok(())
//! # }
//! ```
//!
//! Everything a server says is untrusted: it is bounded, cleaned and marked as the server's. See
//! [`approval()`] for what its annotations are worth.

mod approval;
mod arguments;
mod assemble;
mod names;
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
pub use options::{Audience, Dialect, ModelOptions, Prefix};
pub use result::{LeftOutContent, ModelResult};

use self::assemble::Source;

/// What a model is given.
#[derive(Debug)]
#[non_exhaustive]
pub struct ModelContext {
    /// What the servers say of themselves, each under its configured name, quoted and shortened.
    pub instructions: Option<String>,
    /// The tools, in the order of the servers.
    pub tools: Vec<ModelTool>,
    /// What the model is not given, and why.
    pub left_out: Vec<LeftOut>,
    options: ModelOptions,
}

/// A tool, as a model sees it and as it is.
#[non_exhaustive]
pub struct ModelTool {
    /// In the shape that the provider takes. Gemini wants all of them in one list:
    /// [`ModelContext::definitions`].
    pub definition: Value,
    /// What the model calls it.
    pub name: String,
    /// What the server calls it.
    pub original: Box<str>,
    /// The configured name of its server.
    pub server: Arc<str>,
    /// The tool as it came, with its real schema.
    pub tool: Tool,
    keys: rewrite::Keys,
    /// Compiled when it is first needed. `None`: it cannot be used, and the server will have to check.
    schema: OnceLock<Option<Schema>>,
}

/// Something that the model is not given.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeftOut {
    /// The configured name of the server.
    pub server: Arc<str>,
    /// The tool's name, shortened; `None` if it is the server as a whole.
    pub name: Option<String>,
    /// Why.
    pub reason: String,
}

impl Client {
    /// The server's instructions and tools, for a model.
    ///
    /// Tools that cannot be said in the provider's dialect are in [`ModelContext::left_out`], with the
    /// reason. Dropping the future cancels it.
    pub async fn model_context(&self, options: &ModelOptions) -> Result<ModelContext> {
        Ok(assemble::context(vec![Source::of(self).await?], options))
    }
}

impl ModelContext {
    /// The tools as the provider's request takes them, in its `tools` member.
    pub fn definitions(&self) -> Value {
        let all: Vec<&Value> = self.tools.iter().map(|tool| &tool.definition).collect();
        match self.options.dialect {
            Dialect::OpenAi | Dialect::OpenAiResponses | Dialect::Anthropic => json!(all),
            // An empty list of functions is refused.
            Dialect::Gemini if all.is_empty() => json!([]),
            Dialect::Gemini => json!([{ "functionDeclarations": all }]),
        }
    }

    /// The tool that the model means.
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

//! Converts the tools of a request for an API, and tool calls back. The APIs accept fewer names and
//! less of JSON Schema than servers use, and one unsupported tool fails the whole request.

use std::collections::HashMap;

use bowline_config::SamplingApi;
use bowline_proto::wire::Json;
use bowline_proto::wire::view::SamplingRequest;
use serde_json::Value;

use super::content_text::{self, UnsupportedContent};
use super::names::ToolNames;
use crate::model::ModelApi;
use crate::model::rewrite::{KeyMap, for_provider};

/// The tools of a request, in the format of one API.
pub(super) struct SamplingTools {
    names: ToolNames,
    /// In the order of the request.
    schemas: Vec<Value>,
    /// Renamed members, by the server's name of the tool.
    keys: HashMap<Box<str>, KeyMap>,
}

/// Maximum number of tools, each of which has a schema to be rewritten.
const MAX_TOOLS: usize = 512;

impl SamplingTools {
    /// Converts the tools of a request. Fails if a schema cannot be expressed in the API.
    pub(super) fn from_request(
        request: &SamplingRequest,
        api: SamplingApi,
    ) -> Result<Self, UnsupportedContent> {
        let api = match api {
            SamplingApi::OpenAi => ModelApi::OpenAi,
            SamplingApi::Anthropic => ModelApi::Anthropic,
        };
        if request.tools.len() > MAX_TOOLS {
            return Err(UnsupportedContent(format!("more than {MAX_TOOLS} tools cannot be told to a model")));
        }
        let mut tools =
            Self { names: ToolNames::from_request(request), schemas: Vec::new(), keys: HashMap::new() };
        for tool in &request.tools {
            let said = for_provider(&tool.input_schema, api);
            let (schema, keys) = said.map_err(|error| {
                UnsupportedContent(format!(
                    "the tool {} cannot be told to this model: {error}",
                    content_text::shorten(&tool.name)
                ))
            })?;
            tools.schemas.push(schema);
            tools.keys.insert(tool.name.clone(), keys);
        }
        Ok(tools)
    }

    /// The name and schema of each tool, in the order of the request.
    pub(super) fn definitions<'a>(
        &'a self,
        request: &'a SamplingRequest,
    ) -> impl Iterator<Item = (&'a str, &'a Value)> {
        request.tools.iter().map(|tool| self.name(&tool.name)).zip(&self.schemas)
    }

    /// The model's name of a tool.
    pub(super) fn name<'a>(&'a self, name: &'a str) -> &'a str {
        self.names.to_model(name)
    }

    /// The input of an earlier call, with the model's member names.
    pub(super) fn input(&self, name: &str, input: &Json) -> Json {
        self.keys.get(name).map_or_else(|| input.clone(), |keys| keys.to_model(input))
    }

    /// The tool and the input that the model means, with the server's names.
    pub(super) fn resolve_call<'a>(&'a self, name: &'a str, input: &Json) -> (&'a str, Json) {
        let name = self.names.to_server(name);
        let input = self.keys.get(name).map_or_else(|| input.clone(), |keys| keys.to_server(input));
        (name, input)
    }
}

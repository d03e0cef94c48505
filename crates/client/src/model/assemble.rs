//! Assembles the instructions and tools of one or more servers into one context.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, OnceLock};

use bowline_proto::wire::view::Tool;
use serde_json::{Value, json};

use super::options::{ModelApi, ModelOptions, Prefix};
use super::rewrite::{self, RewrittenSchema, Rules};
use super::{ModelContext, ModelTool, Omission, text};
use crate::client::Client;
use crate::error::Result;
use bowline_proto::tool_names::{MAX_NAME, ToolId, assign_names};

/// The instructions and tools of one server.
pub(super) struct ServerTools {
    pub(super) server: Arc<str>,
    pub(super) instructions: Option<String>,
    pub(super) tools: Vec<Tool>,
    /// Tools that could not be decoded.
    pub(super) omissions: Vec<Omission>,
}

impl ServerTools {
    pub(super) async fn fetch(client: &Client) -> Result<Self> {
        let peer = client.peer().await?;
        let list = client.list_tools_full().await?;
        let server: Arc<str> = client.name().into();
        let left_out = list.dropped.iter().map(|dropped| {
            let reason = format!("entry {} of its list cannot be read: {}", dropped.index, dropped.reason);
            Omission::new(Arc::clone(&server), reason)
        });
        let left_out = left_out.collect();
        Ok(Self { server, instructions: peer.instructions.clone(), tools: list.items, omissions: left_out })
    }
}

pub(super) fn build_context(sources: Vec<ServerTools>, options: &ModelOptions) -> ModelContext {
    let instructions: Vec<String> = sources
        .iter()
        .filter_map(|source| {
            let said = source.instructions.as_deref().filter(|_| options.max_instructions > 0)?;
            text::instructions(&source.server, said, options.max_instructions)
        })
        .collect();
    let instructions = Some(instructions.join("\n\n")).filter(|text| !text.is_empty());
    let mut left_out = Vec::new();
    let mut candidates: Vec<(Arc<str>, Tool)> = Vec::new();
    // Number of candidates per server; those of one server are contiguous.
    let mut counts = Vec::new();
    for source in sources {
        left_out.extend(source.omissions);
        let before = candidates.len();
        let mut seen = HashSet::new();
        for tool in source.tools {
            if seen.insert(tool.name.clone()) {
                candidates.push((Arc::clone(&source.server), tool));
            } else {
                left_out.push(omit_tool(&source.server, &tool, "the server has another tool of that name"));
            }
        }
        counts.push(candidates.len() - before);
    }
    let wanted: Vec<ToolId<'_>> = candidates
        .iter()
        .map(|(server, tool)| ToolId { server, prefix: prefix(options, server), name: &tool.name })
        .collect();
    let names = assign_names(&wanted, MAX_NAME);
    let mut all =
        candidates.into_iter().zip(names).map(|((server, tool), name)| Candidate { server, tool, name });
    let queues = counts.into_iter().map(|count| all.by_ref().take(count).collect()).collect();
    let tools = allot_tools(queues, options, &mut left_out);
    ModelContext { instructions, tools, omissions: left_out, options: options.clone() }
}

/// A tool that may be included, with its model name.
struct Candidate {
    server: Arc<str>,
    tool: Tool,
    name: String,
}

/// Selects tools up to the limit. Servers take turns, so that none can use up the limit for the
/// others.
fn allot_tools(
    mut queues: Vec<VecDeque<Candidate>>,
    options: &ModelOptions,
    left_out: &mut Vec<Omission>,
) -> Vec<ModelTool> {
    let mut given: Vec<Vec<ModelTool>> = queues.iter().map(|_| Vec::new()).collect();
    let mut room = options.max_tools;
    while room > 0 && queues.iter().any(|queue| !queue.is_empty()) {
        for (queue, given) in queues.iter_mut().zip(&mut given) {
            // A tool that cannot be expressed does not cost its server the turn.
            while room > 0
                && let Some(Candidate { server, tool, name }) = queue.pop_front()
            {
                match define_tool(&tool, &name, options) {
                    Ok((definition, keys)) => {
                        let (original, schema) = (tool.name.clone(), OnceLock::new());
                        given.push(ModelTool { definition, name, original, server, tool, keys, schema });
                        room -= 1;
                        break;
                    }
                    Err(reason) => left_out.push(omit_tool(&server, &tool, &reason)),
                }
            }
        }
    }
    let many = format!("there are more than {} tools", options.max_tools);
    left_out.extend(
        queues.iter().flatten().map(|candidate| omit_tool(&candidate.server, &candidate.tool, &many)),
    );
    given.into_iter().flatten().collect()
}

fn prefix<'a>(options: &'a ModelOptions, server: &'a str) -> &'a str {
    match &options.prefix {
        Prefix::Auto | Prefix::None => "",
        Prefix::Server => server,
        Prefix::Text(text) => text,
    }
}

fn omit_tool(server: &Arc<str>, tool: &Tool, reason: &str) -> Omission {
    let name = Some(text::sanitize_trimmed(&tool.name, MAX_SHOWN_NAME_CHARS));
    Omission { name, ..Omission::new(Arc::clone(server), reason) }
}

/// Maximum length of an omitted tool's name, in characters.
const MAX_SHOWN_NAME_CHARS: usize = 128;

/// The definition of a tool in the provider's format, or why there is none.
fn define_tool(
    tool: &Tool,
    name: &str,
    options: &ModelOptions,
) -> std::result::Result<(Value, rewrite::KeyMap), String> {
    let rules = Rules::for_api(options.api, options.strict);
    let rewritten = rewrite::rewrite(&tool.input_schema, rules, options.max_description)
        .map_err(|error| error.to_string())?;
    let RewrittenSchema { parameters, keys, strict, note } = rewritten;
    let said = tool.description().unwrap_or_default();
    let said = match note {
        Some(note) => format!("{said}\n\n{note}"),
        None => said,
    };
    let description = text::sanitize_trimmed(&said, options.max_description);
    // Without a description the name is used, since one provider requires a description.
    let description = if text::is_blank(&description) { name } else { &description };
    let definition = match options.api {
        ModelApi::OpenAi => {
            let mut function = json!({ "name": name, "description": description, "parameters": parameters });
            if strict {
                function["strict"] = true.into();
            }
            json!({ "type": "function", "function": function })
        }
        // The Responses API defaults to strict, so it is always written.
        ModelApi::OpenAiResponses => json!({
            "type": "function",
            "name": name,
            "description": description,
            "parameters": parameters,
            "strict": strict,
        }),
        ModelApi::Anthropic => {
            json!({ "name": name, "description": description, "input_schema": parameters })
        }
        ModelApi::Gemini => {
            let mut function = json!({ "name": name, "description": description });
            if let Some(parameters) = parameters {
                function["parameters"] = parameters;
            }
            function
        }
    };
    let bytes = definition.to_string().len();
    if bytes > options.max_definition {
        return Err(format!(
            "its definition has {bytes} bytes; at most {} are given",
            options.max_definition
        ));
    }
    Ok((definition, keys))
}

//! Owns how instructions and tools of one or more servers become one context.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

use bowline_proto::wire::view::Tool;
use serde_json::{Value, json};

use super::names::{self, Wanted};
use super::options::{Dialect, ModelOptions, Prefix};
use super::rewrite::{self, Rewritten, Rules};
use super::{LeftOut, ModelContext, ModelTool, text};
use crate::client::Client;
use crate::error::Result;

/// What one server has to offer.
pub(super) struct Source {
    pub(super) server: Arc<str>,
    pub(super) instructions: Option<String>,
    pub(super) tools: Vec<Tool>,
    /// What could not even be read.
    pub(super) left_out: Vec<LeftOut>,
}

impl Source {
    pub(super) async fn of(client: &Client) -> Result<Self> {
        let peer = client.server().await?;
        let list = client.list_tools_full().await?;
        let server: Arc<str> = client.name().into();
        let left_out = list.dropped.iter().map(|dropped| LeftOut {
            server: Arc::clone(&server),
            name: None,
            reason: format!("entry {} of its list cannot be read: {}", dropped.index, dropped.reason),
        });
        let left_out = left_out.collect();
        Ok(Self { server, instructions: peer.instructions.clone(), tools: list.items, left_out })
    }
}

pub(super) fn context(sources: Vec<Source>, options: &ModelOptions) -> ModelContext {
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
    for source in sources {
        left_out.extend(source.left_out);
        let mut seen = HashSet::new();
        for tool in source.tools {
            if seen.insert(tool.name.clone()) {
                candidates.push((Arc::clone(&source.server), tool));
            } else {
                left_out.push(leave(&source.server, &tool, "the server has another tool of that name"));
            }
        }
    }
    let wanted: Vec<Wanted<'_>> = candidates
        .iter()
        .map(|(server, tool)| Wanted { server, prefix: prefix(options, server), name: &tool.name })
        .collect();
    let names = names::all(&wanted);
    let mut tools = Vec::new();
    for ((server, tool), name) in candidates.into_iter().zip(names) {
        if tools.len() >= options.max_tools {
            left_out.push(leave(&server, &tool, &format!("there are more than {} tools", options.max_tools)));
            continue;
        }
        match define(&tool, &name, options) {
            Ok((definition, keys)) => tools.push(ModelTool {
                definition,
                name,
                original: tool.name.clone(),
                server,
                tool,
                keys,
                schema: OnceLock::new(),
            }),
            Err(reason) => left_out.push(leave(&server, &tool, &reason)),
        }
    }
    ModelContext { instructions, tools, left_out, options: options.clone() }
}

fn prefix<'a>(options: &'a ModelOptions, server: &'a str) -> &'a str {
    match &options.prefix {
        Prefix::Auto | Prefix::None => "",
        Prefix::Server => server,
        Prefix::Text(text) => text,
    }
}

fn leave(server: &Arc<str>, tool: &Tool, reason: &str) -> LeftOut {
    LeftOut {
        server: Arc::clone(server),
        name: Some(text::tidy(&tool.name, MAX_SHOWN)),
        reason: reason.to_owned(),
    }
}

/// Characters of a tool's name that are shown where it is left out.
const MAX_SHOWN: usize = 128;

/// A tool in the provider's shape, or why it has none.
fn define(
    tool: &Tool,
    name: &str,
    options: &ModelOptions,
) -> std::result::Result<(Value, rewrite::Keys), String> {
    let rules = match options.dialect {
        Dialect::OpenAi | Dialect::OpenAiResponses => Rules::OpenAi { strict: options.strict },
        Dialect::Anthropic => Rules::Anthropic,
        Dialect::Gemini => Rules::Gemini,
    };
    let rewritten = rewrite::rewrite(&tool.input_schema, rules, options.max_description)
        .map_err(|error| error.to_string())?;
    let Rewritten { parameters, keys, strict, note } = rewritten;
    let said = tool.description().unwrap_or_default();
    let said = match note {
        Some(note) => format!("{said}\n\n{note}"),
        None => said,
    };
    let description = text::tidy(&said, options.max_description);
    // A model that is told nothing is told the name, which one provider wants said twice.
    let description = if description.is_empty() { name } else { &description };
    let definition = match options.dialect {
        Dialect::OpenAi => {
            let mut function = json!({ "name": name, "description": description, "parameters": parameters });
            if strict {
                function["strict"] = true.into();
            }
            json!({ "type": "function", "function": function })
        }
        // There strict is what is meant if nothing is said.
        Dialect::OpenAiResponses => json!({
            "type": "function",
            "name": name,
            "description": description,
            "parameters": parameters,
            "strict": strict,
        }),
        Dialect::Anthropic => json!({ "name": name, "description": description, "input_schema": parameters }),
        Dialect::Gemini => {
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

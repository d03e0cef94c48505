//! The messages API: `POST BASE_URL/v1/messages`.

use std::collections::BTreeSet;

use bowline_proto::wire::Json;
use bowline_proto::wire::view::{
    Content, MediaContent, SamplingBlock, SamplingMessage, SamplingRequest, Tool, ToolChoice,
};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};

use super::approve::SamplingPlan;
use super::content_text::{self, ModelReply, UnreadableReply, UnsupportedContent};
use super::quirks::Quirks;
use super::tools::SamplingTools;

pub(super) const PATH: &str = "v1/messages";

/// The version header of the API, and the version that this file implements.
pub(super) const VERSION: (&str, &str) = ("anthropic-version", "2023-06-01");

/// Maximum number of text blocks in an answer.
const MAX_TEXT_BLOCKS: usize = 64;

/// Writes the request body.
pub(super) fn write(
    request: &SamplingRequest,
    plan: &SamplingPlan,
    tools: &SamplingTools,
    quirks: Quirks,
) -> Result<Value, UnsupportedContent> {
    let mut messages = Vec::new();
    for message in &request.messages {
        let blocks = write_message(message, tools)?;
        // The API refuses an empty message.
        if !blocks.is_empty() {
            messages.push(json!({ "role": message.role.as_str(), "content": blocks }));
        }
    }
    let mut body = json!({ "model": plan.model, "messages": messages, "max_tokens": plan.max_tokens });
    if let Some(prompt) = request.system_prompt.as_deref().filter(|prompt| !is_blank(prompt)) {
        body["system"] = prompt.into();
    }
    if let Some(temperature) = request.temperature.filter(|_| !quirks.no_temperature) {
        body["temperature"] = temperature.clamp(0.0, 1.0).into();
    }
    let stops = request.stop_sequences.iter().filter(|stop| !is_blank(stop));
    let stops: Vec<&str> = stops.map(|stop| &**stop).collect();
    if !stops.is_empty() {
        body["stop_sequences"] = stops.into();
    }
    if !request.tools.is_empty() {
        let said = request.tools.iter().zip(tools.definitions(request));
        body["tools"] = said.map(|(tool, (name, schema))| definition(tool, name, schema)).collect();
        if let Some(choice) = request.tool_choice {
            let choice = match choice {
                ToolChoice::Required => "any",
                ToolChoice::None => "none",
                _ => "auto",
            };
            body["tool_choice"] = json!({ "type": choice });
        }
    } else if super::tool_rounds(request) > 0 {
        // A conversation with tool uses needs tool definitions, even if no tool may be used any
        // more.
        body["tools"] = used_tools(request, tools).into();
        body["tool_choice"] = json!({ "type": "none" });
    }
    Ok(body)
}

/// Definitions of the tools used in the conversation, each once, without their schemas.
fn used_tools(request: &SamplingRequest, tools: &SamplingTools) -> Vec<Value> {
    let blocks = request.messages.iter().flat_map(|message| &message.content);
    let used: BTreeSet<&str> = blocks
        .filter_map(|block| match block {
            SamplingBlock::ToolUse { name, .. } => Some(tools.name(name)),
            _ => None,
        })
        .collect();
    let definition = |name| json!({ "name": name, "input_schema": { "type": "object", "properties": {} } });
    used.into_iter().map(definition).collect()
}

fn definition(tool: &Tool, name: &str, schema: &Value) -> Value {
    let mut definition = json!({ "name": name, "input_schema": schema });
    if let Some(description) = tool.description() {
        definition["description"] = description.into();
    }
    definition
}

fn write_message(message: &SamplingMessage, tools: &SamplingTools) -> Result<Vec<Value>, UnsupportedContent> {
    let mut blocks = Vec::new();
    for block in &message.content {
        match block {
            SamplingBlock::Content(content) => blocks.extend(content_block(content)?),
            SamplingBlock::ToolUse { id, name, input, .. } => blocks.push(json!({
                "type": "tool_use",
                "id": id,
                "name": tools.name(name),
                "input": content_text::to_value(&tools.input(name, input), "the input of a tool")?,
            })),
            SamplingBlock::ToolResult { tool_use_id, content, structured, is_error, .. } => {
                let mut inner = Vec::new();
                for block in content {
                    inner.extend(content_block(block)?);
                }
                let structured = content_text::structured_text(content, structured.as_ref());
                inner.extend(structured.map(|text| json!({ "type": "text", "text": text })));
                let mut result =
                    json!({ "type": "tool_result", "tool_use_id": tool_use_id, "content": inner });
                if *is_error {
                    result["is_error"] = true.into();
                }
                blocks.push(result);
            }
            _ => return Err(UnsupportedContent("a block of an unknown type".to_owned())),
        }
    }
    Ok(blocks)
}

/// Converts a content block; `None` for an empty text.
fn content_block(content: &Content) -> Result<Option<Value>, UnsupportedContent> {
    if let Some(text) = content_text::as_text(content) {
        return Ok((!is_blank(&text)).then(|| json!({ "type": "text", "text": text })));
    }
    match content {
        Content::Image(image) if is_known(image) => Ok(Some(json!({
            "type": "image",
            "source": { "type": "base64", "media_type": image.mime_type, "data": image.data.get() },
        }))),
        _ => Err(UnsupportedContent(format!(
            "{} cannot be told to this model",
            content_text::describe(content)
        ))),
    }
}

/// The API refuses blank texts.
fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

fn is_known(image: &MediaContent) -> bool {
    matches!(&*image.mime_type, "image/jpeg" | "image/png" | "image/gif" | "image/webp")
}

// === response ===

#[derive(Deserialize)]
struct Message {
    model: Option<String>,
    content: Vec<Block>,
    stop_reason: Option<String>,
    usage: Option<Usage>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block {
    Text {
        text: String,
    },
    ToolUse {
        id: Option<String>,
        name: String,
        input: Value,
    },
    /// Thinking and unknown blocks, which are not for the server.
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Usage {
    #[serde(default)]
    input_tokens: u64,
    #[serde(default)]
    output_tokens: u64,
}

pub(super) fn read(body: &Bytes, tools: &SamplingTools, asked: &str) -> Result<ModelReply, UnreadableReply> {
    let message: Message =
        serde_json::from_slice(body).map_err(|_| UnreadableReply("the answer is not a message"))?;
    let mut blocks = Vec::new();
    for block in message.content {
        match block {
            Block::Text { text } if blocks.len() < MAX_TEXT_BLOCKS => blocks.push(SamplingBlock::text(&text)),
            Block::Text { .. } => return Err(UnreadableReply("the answer has too many parts")),
            Block::ToolUse { id, name, input } => {
                let input = Json::encode(&input).ok().filter(Json::is_object);
                let input = input
                    .ok_or(UnreadableReply("the model called a tool with arguments that are no object"))?;
                let used = content_text::tool_use(id.as_deref(), &name, &input, tools, &blocks)?;
                blocks.push(used);
            }
            Block::Other => {}
        }
    }
    let stop = message.stop_reason.map(|reason| match &*reason {
        "end_turn" => "endTurn".to_owned(),
        "stop_sequence" => "stopSequence".to_owned(),
        "max_tokens" => "maxTokens".to_owned(),
        "tool_use" => "toolUse".to_owned(),
        _ => reason,
    });
    let length = message.usage.as_ref().map(|usage| usage.output_tokens);
    let tokens = message.usage.map(|usage| usage.input_tokens.saturating_add(usage.output_tokens));
    Ok(ModelReply {
        result: content_text::build_result(blocks, message.model.as_deref(), stop, asked),
        tokens,
        output_tokens: length,
    })
}

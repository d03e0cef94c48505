//! The chat completions API: `POST BASE_URL/chat/completions`.

use bowline_proto::wire::Json;
use bowline_proto::wire::view::{
    Content, MediaContent, Role, SamplingBlock, SamplingMessage, SamplingRequest, Tool, ToolChoice,
};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::approve::SamplingPlan;
use super::content_text::{self, ModelReply, UnreadableReply, UnsupportedContent};
use super::quirks::Quirks;
use super::tools::SamplingTools;

pub(super) const PATH: &str = "chat/completions";

/// Maximum number of stop sequences; most endpoints refuse more.
const MAX_STOP_SEQUENCES: usize = 4;
/// Maximum number of text parts in an answer.
const MAX_TEXT_PARTS: usize = 64;

/// Writes the request body.
pub(super) fn write(
    request: &SamplingRequest,
    plan: &SamplingPlan,
    tools: &SamplingTools,
    quirks: Quirks,
) -> Result<Value, UnsupportedContent> {
    let mut messages = Vec::new();
    if let Some(prompt) = &request.system_prompt {
        messages.push(json!({ "role": "system", "content": prompt }));
    }
    for message in &request.messages {
        write_message(message, tools, &mut messages)?;
    }
    let limit = if quirks.completion_tokens { "max_completion_tokens" } else { "max_tokens" };
    let mut body = json!({
        "model": plan.model,
        "messages": messages,
        limit: plan.max_tokens,
        "stream": false,
    });
    if let Some(temperature) = request.temperature.filter(|_| !quirks.no_temperature) {
        body["temperature"] = temperature.clamp(0.0, 2.0).into();
    }
    let stops = request.stop_sequences.iter().filter(|stop| !stop.is_empty()).take(MAX_STOP_SEQUENCES);
    let stops: Vec<&str> = stops.map(|stop| &**stop).collect();
    if !stops.is_empty() && !quirks.no_stop {
        body["stop"] = stops.into();
    }
    if !request.tools.is_empty() {
        let said = request.tools.iter().zip(tools.definitions(request));
        body["tools"] = said.map(|(tool, (name, schema))| function(tool, name, schema)).collect();
        if let Some(choice) = request.tool_choice {
            body["tool_choice"] = match choice {
                ToolChoice::Required => "required",
                ToolChoice::None => "none",
                _ => "auto",
            }
            .into();
        }
    }
    Ok(body)
}

fn function(tool: &Tool, name: &str, schema: &Value) -> Value {
    let mut function = json!({ "name": name, "parameters": schema });
    if let Some(description) = tool.description() {
        function["description"] = description.into();
    }
    json!({ "type": "function", "function": function })
}

/// Writes one message. Each tool result becomes a message of its own.
fn write_message(
    message: &SamplingMessage,
    tools: &SamplingTools,
    messages: &mut Vec<Value>,
) -> Result<(), UnsupportedContent> {
    let mut parts = Vec::new();
    let mut calls = Vec::new();
    for block in &message.content {
        match block {
            SamplingBlock::Content(content) => parts.push(content_part(content, &message.role)?),
            SamplingBlock::ToolUse { id, name, input, .. } => calls.push(json!({
                "id": id,
                "type": "function",
                "function": { "name": tools.name(name), "arguments": tools.input(name, input).as_str() },
            })),
            SamplingBlock::ToolResult { tool_use_id, content, structured, is_error, .. } => {
                let text = result_text(content, structured.as_ref(), *is_error)?;
                messages.push(json!({ "role": "tool", "tool_call_id": tool_use_id, "content": text }));
            }
            _ => return Err(UnsupportedContent("a block of an unknown type".to_owned())),
        }
    }
    if parts.is_empty() && calls.is_empty() {
        return Ok(());
    }
    let mut turn = Map::new();
    turn.insert("role".to_owned(), message.role.as_str().into());
    // Every endpoint accepts a plain string; not every one a list.
    let content = match &*parts {
        [] => Value::Null,
        [only] if only["type"] == "text" => only["text"].clone(),
        _ => Value::Array(parts),
    };
    turn.insert("content".to_owned(), content);
    if !calls.is_empty() {
        turn.insert("tool_calls".to_owned(), calls.into());
    }
    messages.push(Value::Object(turn));
    Ok(())
}

fn content_part(content: &Content, role: &Role) -> Result<Value, UnsupportedContent> {
    if let Some(text) = content_text::as_text(content) {
        return Ok(json!({ "type": "text", "text": text }));
    }
    match content {
        Content::Image(image) if *role == Role::User => {
            let url = format!("data:{};base64,{}", image.mime_type, image.data.get());
            Ok(json!({ "type": "image_url", "image_url": { "url": url } }))
        }
        Content::Audio(audio) if *role == Role::User => {
            let format = audio_format(audio).ok_or_else(|| unsupported(content, role))?;
            Ok(
                json!({ "type": "input_audio", "input_audio": { "data": audio.data.get(), "format": format } }),
            )
        }
        _ => Err(unsupported(content, role)),
    }
}

fn audio_format(audio: &MediaContent) -> Option<&'static str> {
    match &*audio.mime_type {
        "audio/wav" | "audio/x-wav" | "audio/wave" => Some("wav"),
        "audio/mpeg" | "audio/mp3" => Some("mp3"),
        _ => None,
    }
}

fn unsupported(content: &Content, role: &Role) -> UnsupportedContent {
    UnsupportedContent(format!(
        "{} of the {} cannot be told to this model",
        content_text::describe(content),
        role.as_str()
    ))
}

/// Tool results have no error flag, so the text says it.
fn result_text(
    content: &[Content],
    structured: Option<&Json>,
    is_error: bool,
) -> Result<String, UnsupportedContent> {
    let mut lines = Vec::new();
    for block in content {
        let text = content_text::as_text(block).ok_or_else(|| {
            UnsupportedContent(format!(
                "{} in the result of a tool cannot be told to this model",
                content_text::describe(block)
            ))
        })?;
        lines.push(text.into_owned());
    }
    lines.extend(content_text::structured_text(content, structured));
    let text = lines.join("\n");
    Ok(if is_error { format!("The tool failed: {text}") } else { text })
}

// === response ===

#[derive(Deserialize)]
struct Completion {
    model: Option<String>,
    choices: Vec<Choice>,
    usage: Option<Usage>,
}

#[derive(Deserialize)]
struct Choice {
    message: Message,
    finish_reason: Option<String>,
    /// The stop sequence that ended the answer. Only some endpoints report it.
    #[serde(default)]
    stop_reason: Value,
}

#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    content: Value,
    refusal: Option<String>,
    tool_calls: Option<Vec<Call>>,
}

#[derive(Deserialize)]
struct Call {
    id: Option<String>,
    function: Function,
}

#[derive(Deserialize)]
struct Function {
    name: String,
    #[serde(default)]
    arguments: Value,
}

#[derive(Default, Deserialize)]
struct Usage {
    #[serde(rename = "total_tokens")]
    total: Option<u64>,
    #[serde(rename = "prompt_tokens")]
    prompt: Option<u64>,
    #[serde(rename = "completion_tokens")]
    completion: Option<u64>,
}

pub(super) fn read(body: &Bytes, tools: &SamplingTools, asked: &str) -> Result<ModelReply, UnreadableReply> {
    let completion: Completion =
        serde_json::from_slice(body).map_err(|_| UnreadableReply("the answer is not a chat completion"))?;
    let choice =
        completion.choices.into_iter().next().ok_or(UnreadableReply("the answer holds no choice"))?;
    let Message { content, refusal, tool_calls } = choice.message;
    // A string, or parts, of which those without a text are the model's thoughts.
    let parts = match &content {
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        other => Vec::from_iter(other.as_str()),
    };
    let texts = parts.into_iter().chain(refusal.as_deref()).filter(|text| !text.is_empty());
    let mut blocks: Vec<SamplingBlock> = texts.take(MAX_TEXT_PARTS).map(SamplingBlock::text).collect();
    for call in tool_calls.into_iter().flatten() {
        let input = parse_arguments(&call.function.arguments)?;
        let used = content_text::tool_use(call.id.as_deref(), &call.function.name, &input, tools, &blocks)?;
        blocks.push(used);
    }
    let stop = match choice.finish_reason.as_deref() {
        Some("stop") if choice.stop_reason.is_string() => Some("stopSequence".to_owned()),
        Some("stop") => Some("endTurn".to_owned()),
        Some("length") => Some("maxTokens".to_owned()),
        Some("tool_calls" | "function_call") => Some("toolUse".to_owned()),
        other => other.map(str::to_owned),
    };
    let Usage { total, prompt, completion: length } = completion.usage.unwrap_or_default();
    let tokens = total.or_else(|| Some(prompt?.saturating_add(length?)));
    Ok(ModelReply {
        result: content_text::build_result(blocks, completion.model.as_deref(), stop, asked),
        tokens,
        output_tokens: length,
    })
}

/// Parses arguments, which are JSON in a string. Some endpoints send an object, null or an empty
/// string.
fn parse_arguments(written: &Value) -> Result<Json, UnreadableReply> {
    let input = match written {
        Value::Null => Ok(Json::empty_object()),
        Value::String(text) if text.trim().is_empty() => Ok(Json::empty_object()),
        Value::String(text) => Json::parse(text.clone()),
        other => Json::encode(other),
    };
    let input = input.ok().filter(Json::is_object);
    input.ok_or(UnreadableReply("the model called a tool with arguments that are no object"))
}

//! One turn of the model, written in each interface, as an event stream or as one message.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::dialect::{Dialect, OfferedTool};

/// One turn of the model.
pub(super) enum ModelTurn {
    /// It says this and is done.
    Text(&'static str),
    /// It wants this tool to be called.
    Call { id: String, tool: OfferedTool, arguments: Value },
}

impl Dialect {
    /// Writes a turn as the body of an event stream.
    pub(super) fn write_stream(self, turn: &ModelTurn) -> String {
        let mut body = String::new();
        let events = match self {
            Self::Messages => messages_events(turn),
            Self::Chat => chat_chunks(turn),
            Self::Responses => responses_events(turn),
        };
        for event in events {
            if let Some(kind) = event["type"].as_str() {
                let _ = writeln!(body, "event: {kind}");
            }
            let _ = write!(body, "data: {event}\n\n");
        }
        if self == Self::Chat {
            body += "data: [DONE]\n\n";
        }
        body
    }

    /// Writes a turn as one message.
    pub(super) fn write_message(self, turn: &ModelTurn) -> Value {
        match self {
            Self::Messages => {
                let mut message = empty_message();
                message["content"] = json!([finished_block(turn)]);
                message["stop_reason"] = json!(stop_reason(turn));
                message
            }
            Self::Chat => {
                let choice =
                    json!({"index": 0, "message": chat_message(turn), "finish_reason": finish_reason(turn)});
                json!({
                    "id": "chat_1", "object": "chat.completion", "created": 0, "model": "knots",
                    "choices": [choice], "usage": chat_usage(),
                })
            }
            Self::Responses => finished_response(turn),
        }
    }
}

// === Anthropic Messages ===

fn messages_events(turn: &ModelTurn) -> Vec<Value> {
    let (empty, delta) = match turn {
        ModelTurn::Text(text) => {
            (json!({"type": "text", "text": ""}), json!({"type": "text_delta", "text": text}))
        }
        ModelTurn::Call { id, tool, arguments } => (
            json!({"type": "tool_use", "id": id, "name": tool.name, "input": {}}),
            json!({"type": "input_json_delta", "partial_json": arguments.to_string()}),
        ),
    };
    vec![
        json!({"type": "message_start", "message": empty_message()}),
        json!({"type": "content_block_start", "index": 0, "content_block": empty}),
        json!({"type": "content_block_delta", "index": 0, "delta": delta}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({
            "type": "message_delta",
            "delta": {"stop_reason": stop_reason(turn), "stop_sequence": null},
            "usage": {"output_tokens": 1},
        }),
        json!({"type": "message_stop"}),
    ]
}

fn empty_message() -> Value {
    json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "knots", "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": {"input_tokens": 1, "output_tokens": 1},
    })
}

fn finished_block(turn: &ModelTurn) -> Value {
    match turn {
        ModelTurn::Text(text) => json!({"type": "text", "text": text}),
        ModelTurn::Call { id, tool, arguments } => {
            json!({"type": "tool_use", "id": id, "name": tool.name, "input": arguments})
        }
    }
}

fn stop_reason(turn: &ModelTurn) -> &'static str {
    match turn {
        ModelTurn::Text(_) => "end_turn",
        ModelTurn::Call { .. } => "tool_use",
    }
}

// === OpenAI chat completions ===

fn chat_chunks(turn: &ModelTurn) -> Vec<Value> {
    let chunk = |choices: Value| json!({"id": "chat_1", "object": "chat.completion.chunk", "created": 0, "model": "knots", "choices": choices});
    let mut usage = chunk(json!([]));
    usage["usage"] = chat_usage();
    vec![
        chunk(json!([{"index": 0, "delta": chat_message(turn), "finish_reason": null}])),
        chunk(json!([{"index": 0, "delta": {}, "finish_reason": finish_reason(turn)}])),
        usage,
    ]
}

fn chat_message(turn: &ModelTurn) -> Value {
    match turn {
        ModelTurn::Text(text) => json!({"role": "assistant", "content": text}),
        ModelTurn::Call { id, tool, arguments } => {
            let function = json!({"name": tool.name, "arguments": arguments.to_string()});
            let call = json!({"index": 0, "id": id, "type": "function", "function": function});
            json!({"role": "assistant", "content": null, "tool_calls": [call]})
        }
    }
}

fn finish_reason(turn: &ModelTurn) -> &'static str {
    match turn {
        ModelTurn::Text(_) => "stop",
        ModelTurn::Call { .. } => "tool_calls",
    }
}

fn chat_usage() -> Value {
    json!({"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2})
}

// === OpenAI responses ===

fn responses_events(turn: &ModelTurn) -> Vec<Value> {
    vec![
        json!({"type": "response.created", "response": {"id": "resp_1"}}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": output_item(turn)}),
        json!({"type": "response.completed", "response": finished_response(turn)}),
    ]
}

fn finished_response(turn: &ModelTurn) -> Value {
    json!({
        "id": "resp_1", "object": "response", "status": "completed", "output": [output_item(turn)],
        "usage": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2},
    })
}

fn output_item(turn: &ModelTurn) -> Value {
    match turn {
        ModelTurn::Text(text) => {
            json!({"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": text}]})
        }
        ModelTurn::Call { id, tool, arguments } => {
            let mut item = json!({"type": "function_call", "call_id": id, "name": tool.name});
            item["arguments"] = json!(arguments.to_string());
            if let Some(namespace) = &tool.namespace {
                item["namespace"] = json!(namespace);
            }
            item
        }
    }
}

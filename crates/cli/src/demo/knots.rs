//! Owns what the demo server knows: two tools and a resource, all about knots.

use std::time::Duration;

use serde_json::{Value, json};

/// What a request comes to.
#[derive(Debug, PartialEq)]
pub(super) enum Reply {
    /// A result.
    Result(Value),
    /// A JSON-RPC error.
    Error(i64, String),
    /// A knot to tie step by step, reporting progress under this token.
    Tie(Value),
}

/// How a bowline is tied.
pub(super) const STEPS: [&str; 4] = [
    "make a small loop in the rope",
    "bring the end up through the loop",
    "pass it behind the standing part",
    "take it back down the loop and draw it tight",
];

/// How long one step takes.
pub(super) const STEP_TIME: Duration = Duration::from_millis(150);

/// The answer to `initialize`.
pub(super) fn initialize() -> Value {
    json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}, "resources": {}},
        "serverInfo": {"name": "knots", "title": "The knot locker", "version": env!("CARGO_PKG_VERSION")},
        "instructions": "Ask for a bowline when a loop must neither slip nor jam.",
    })
}

/// The result of tying a knot.
pub(super) fn tied() -> Value {
    json!({"content": [{"type": "text", "text": "A bowline: it neither slips nor jams."}]})
}

/// Answers a request of an open session.
pub(super) fn answer(method: &str, params: &Value) -> Reply {
    match method {
        "ping" => Reply::Result(json!({})),
        "tools/list" => Reply::Result(json!({"tools": tools()})),
        "tools/call" => call(params),
        "resources/list" => Reply::Result(json!({"resources": [
            {"uri": BOWLINE, "name": "bowline", "mimeType": "text/plain", "description": "What a bowline is"},
        ]})),
        "resources/templates/list" => Reply::Result(json!({"resourceTemplates": []})),
        "resources/read" if params["uri"] == BOWLINE => Reply::Result(json!({"contents": [
            {"uri": BOWLINE, "mimeType": "text/plain", "text": ABOUT},
        ]})),
        "resources/read" => Reply::Error(-32602, "no such resource".to_owned()),
        _ => Reply::Error(-32601, "method not found".to_owned()),
    }
}

const BOWLINE: &str = "knot://bowline";
const ABOUT: &str = "The bowline makes a loop that holds under load and comes undone by hand.";

fn tools() -> Value {
    json!([
        {
            "name": "tie",
            "description": "Ties a knot, step by step",
            "inputSchema": {
                "type": "object",
                "properties": {"knot": {"type": "string"}},
                "required": ["knot"],
            },
        },
        {
            "name": "strength",
            "description": "What a knotted polyamide rope holds",
            "inputSchema": {
                "type": "object",
                "properties": {"millimetres": {"type": "number", "exclusiveMinimum": 0}},
                "required": ["millimetres"],
            },
            "outputSchema": {
                "type": "object",
                "properties": {"kilonewtons": {"type": "number"}},
                "required": ["kilonewtons"],
            },
            "annotations": {"readOnlyHint": true},
        },
    ])
}

fn call(params: &Value) -> Reply {
    let arguments = &params["arguments"];
    match params["name"].as_str() {
        Some("tie") if arguments["knot"] == "bowline" => Reply::Tie(params["_meta"]["progressToken"].clone()),
        Some("tie") => Reply::Result(json!({
            "content": [{"type": "text", "text": "That knot slips. Ask for a bowline."}],
            "isError": true,
        })),
        Some("strength") => {
            let millimetres = arguments["millimetres"].as_f64().unwrap_or_default();
            // A rule of thumb: 0.2 kN per square millimetre of rope, a third lost to the knot.
            let kilonewtons = (millimetres * millimetres * 0.2 * 0.66 * 10.0).round() / 10.0;
            let structured = json!({"kilonewtons": kilonewtons});
            Reply::Result(json!({
                "content": [{"type": "text", "text": structured.to_string()}],
                "structuredContent": structured,
            }))
        }
        _ => Reply::Error(-32602, "no such tool".to_owned()),
    }
}

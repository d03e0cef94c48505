//! Defines the tools of the demo server: three, which differ in how a call that was cut off may be
//! retried.

use std::time::Duration;

use bowline::types::{code, method};
use bowline::{Json, Revision, RpcError};
use bowline_proto::server::handshake::{InitializeParams, ServerOffer};
use serde_json::{Value, json};

/// A tool of the demo server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tool {
    /// Has an effect, so that running it twice is wrong.
    Stow,
    /// Has an effect, and reports its steps on a stream that can be resumed.
    Tie,
    /// Only reads, and is annotated as read-only.
    Strength,
}

#[derive(Debug, PartialEq)]
pub(super) enum Reply {
    Result(Value),
    Error(RpcError),
    /// A tool to run.
    Call(Tool),
}

/// How a bowline is tied.
pub(super) const STEPS: [&str; 4] = [
    "make a small loop in the rope",
    "bring the end up through the loop",
    "pass it behind the standing part",
    "take it back down the loop and draw it tight",
];

/// How long one step takes.
pub(super) const STEP_TIME: Duration = Duration::from_millis(5);

/// How long the other tools take.
pub(super) const WORK_TIME: Duration = Duration::from_millis(3);

impl Tool {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Stow => "stow",
            Self::Tie => "tie",
            Self::Strength => "strength",
        }
    }

    /// Returns whether the tool is annotated as safe to repeat.
    pub(crate) fn may_repeat(self) -> bool {
        self == Self::Strength
    }

    /// Returns the result. It includes the ticket, so that a caller can check that the response is
    /// its own.
    pub(super) fn result(self, arguments: &Value) -> Value {
        let (text, structured) = match self {
            Self::Stow => ("Stowed.".to_owned(), json!({})),
            Self::Tie => ("A bowline: it neither slips nor jams.".to_owned(), json!({})),
            Self::Strength => {
                let millimeters = arguments["millimeters"].as_f64().unwrap_or_default();
                // A rule of thumb: 0.2 kN per square millimeter of rope, minus a third for the
                // knot.
                let kilonewtons = (millimeters * millimeters * 0.2 * 0.66 * 10.0).round() / 10.0;
                (format!("{kilonewtons} kN"), json!({ "kilonewtons": kilonewtons }))
            }
        };
        let mut structured = structured;
        structured["ticket"] = arguments["ticket"].clone();
        json!({"content": [{"type": "text", "text": text}], "structuredContent": structured})
    }
}

/// Returns what a host is offered.
pub(super) fn offer(params: &InitializeParams) -> ServerOffer {
    let info = json!({"name": "knots", "title": "The knot locker", "version": env!("CARGO_PKG_VERSION")});
    ServerOffer {
        revision: params.agreed_revision(Revision::NEWEST_LEGACY),
        capabilities: Json::encode(&json!({"tools": {}})).expect("an object is JSON"),
        server_info: Json::encode(&info).expect("an object is JSON"),
        instructions: Some("Ask for a bowline when a loop must neither slip nor jam.".to_owned()),
    }
}

/// Answers a request of an open session.
pub(super) fn answer_request(method: &str, params: &Value) -> Reply {
    match method {
        method::TOOLS_LIST => Reply::Result(json!({"tools": tool_list()})),
        method::TOOLS_CALL => {
            let tools = [Tool::Stow, Tool::Tie, Tool::Strength];
            match tools.into_iter().find(|tool| params["name"] == tool.name()) {
                Some(tool) => Reply::Call(tool),
                None => Reply::Error(RpcError::new(code::INVALID_PARAMS, "no such tool")),
            }
        }
        _ => Reply::Error(RpcError::new(code::METHOD_NOT_FOUND, "method not found")),
    }
}

fn tool_list() -> Value {
    let ticket = json!({"type": "integer", "description": "What the call is counted by"});
    json!([
        {
            "name": Tool::Stow.name(),
            "description": "Puts a rope into the locker; twice is one too many",
            "inputSchema": {"type": "object", "properties": {"ticket": ticket}},
        },
        {
            "name": Tool::Tie.name(),
            "description": "Ties a bowline step by step, and tells each step",
            "inputSchema": {"type": "object", "properties": {"ticket": ticket}},
        },
        {
            "name": Tool::Strength.name(),
            "description": "What a knotted rope holds; only reads, may be repeated",
            "inputSchema": {
                "type": "object",
                "properties": {"ticket": ticket, "millimeters": {"type": "number", "exclusiveMinimum": 0}},
                "required": ["millimeters"],
            },
            "annotations": {"readOnlyHint": true},
        },
    ])
}

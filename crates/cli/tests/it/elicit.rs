//! Server requests at a real terminal, and their handling without one.

mod cancellation;
mod form;
mod model;
mod policy;
mod url_elicitation;

use std::time::Duration;

use bowline_testkit::{self as testkit, Script, ScriptedRequest, StdioServer, Tool};
use serde_json::{Value, json};

use crate::context::{Context, toml_path};
use crate::pty::{Person, TerminalExit};

const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Makes a form with a field of every kind.
fn booking() -> Value {
    json!({
        "type": "object",
        "properties": {
            "age": {"type": "integer", "title": "Age", "description": "In years", "minimum": 18},
            "guest": {"type": "string", "minLength": 2},
            "room": {"type": "string", "oneOf": [
                {"const": "s1", "title": "Single room"}, {"const": "d2", "title": "Double room"},
            ]},
            "extras": {"type": "array", "minItems": 1, "maxItems": 2, "items": {"anyOf": [
                {"const": "b", "title": "Breakfast"}, {"const": "p", "title": "Parking"},
                {"const": "d", "title": "Dog"},
            ]}},
            "news": {"type": "boolean", "default": false},
            "note": {"type": "string", "default": "none"},
        },
        "required": ["guest", "age", "room", "extras"],
    })
}

fn server_asking(question: ScriptedRequest) -> Script {
    testkit::server().tool(Tool::asks("book", [question]))
}

fn form_server() -> Script {
    server_asking(ScriptedRequest::form_elicitation("stay", "Who comes?\u{1b}[2J", booking()))
}

/// Makes a context in which the server is configured as `hotel`.
fn context_with_server(server: &StdioServer) -> Context {
    let context = Context::new();
    configure(&context, server, "");
    context
}

fn configure(context: &Context, server: &StdioServer, more: &str) {
    let command = server.command();
    let env: Vec<String> = command.env.iter().map(|(key, value)| format!("{key} = '{value}'")).collect();
    let (program, env) = (toml_path(&command.program), env.join(", "));
    context.user_config(&format!("[servers.hotel]\ncommand = {program}\nenv = {{ {env} }}\n{more}"));
}

/// Returns the response that the tool got, by the key of its request.
fn tool_reply(end: &TerminalExit, key: &str) -> Value {
    assert_eq!(end.code, 0, "{}", end.screen);
    // Stdout contains the result and nothing else.
    let result: Value = serde_json::from_str(&end.stdout).expect("the result");
    let text = result["content"][0]["text"].as_str().expect("a text");
    serde_json::from_str::<Value>(text).expect("the answers")[key].clone()
}

fn start_call(context: &Context) -> Person {
    Person::sits_at(context.bowline(["call", "--json", "hotel", "book"]))
}

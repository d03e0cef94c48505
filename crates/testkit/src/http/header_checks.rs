//! Checks of the headers of an HTTP request before the engine gets its message.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::HeaderMap;
use serde_json::{Value, json};

use crate::canned_response::CannedResponse;
use crate::engine::{Engine, VERSION_KEY};
use crate::rpc::{self, HEADER_MISMATCH, INVALID_REQUEST};

/// Returns a header as text.
pub(super) fn header_text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

// HT-01
/// Checks that `Accept` has both content types and that the body is JSON.
pub(super) fn check_content_types(headers: &HeaderMap) -> Result<(), CannedResponse> {
    let accept = header_text(headers, "accept").unwrap_or_default();
    if !(accept.contains("application/json") && accept.contains("text/event-stream")) {
        return Err(error_response(
            406,
            -32000,
            "Not Acceptable: Client must accept both application/json and text/event-stream",
        ));
    }
    let kind = header_text(headers, "content-type").unwrap_or_default();
    if kind.split(';').next().map(str::trim) != Some("application/json") {
        return Err(error_response(
            415,
            -32000,
            "Unsupported Media Type: Content-Type must be application/json",
        ));
    }
    Ok(())
}

/// Checks the session and revision of a legacy request and returns its session id. `method` is that
/// of the message, or the HTTP method.
pub(super) fn check_session(
    engine: &Engine,
    headers: &HeaderMap,
    method: &str,
) -> Result<Option<String>, CannedResponse> {
    let script = engine.script();
    let version = header_text(headers, "mcp-protocol-version");
    if let Some(version) = version
        && !script.legacy_versions.iter().any(|spoken| spoken == version)
    {
        let spoken = script.legacy_versions.join(", ");
        return Err(error_response(
            400,
            -32000,
            &format!("Bad Request: Unsupported protocol version: {version} (supported versions: {spoken})"),
        ));
    }
    let id = header_text(headers, "mcp-session-id");
    if method == "initialize" {
        return match id.filter(|_| script.http.sessions) {
            None => Ok(None),
            Some(id) if engine.with_session(Some(id), |_| ()).is_some() => {
                Err(error_response(400, INVALID_REQUEST, "Invalid Request: Server already initialized"))
            }
            Some(_) => Err(script.http.session_gone.clone()),
        };
    }
    if script.http.sessions && id.is_none() {
        return Err(error_response(400, -32000, "Bad Request: Mcp-Session-Id header is required"));
    }
    let id = id.filter(|_| script.http.sessions);
    let Some(agreed) = engine.with_session(id, |session| session.version.clone()) else {
        // Without session ids no session can be lost; the engine reports a missing handshake.
        return if id.is_some() { Err(script.http.session_gone.clone()) } else { Ok(None) };
    };
    match version {
        Some(version) if version != agreed => {
            return Err(error_response(
                400,
                -32000,
                &format!("Bad Request: MCP-Protocol-Version {version} is not the negotiated {agreed}"),
            ));
        }
        // HL-01
        None if agreed.as_str() >= "2025-06-18" => {
            engine.message_log.record_violation(format!("{method} without MCP-Protocol-Version"));
        }
        _ => {}
    }
    Ok(id.map(str::to_owned))
}

// HM-01 to HM-04, TN-07
/// Checks that the headers of a modern request mirror its body.
pub(super) fn check_mirrored_headers(
    engine: &Engine,
    headers: &HeaderMap,
    message: &Value,
) -> Result<(), CannedResponse> {
    let script = engine.script();
    let params = &message["params"];
    if headers.contains_key("mcp-session-id") {
        engine.message_log.record_violation("Mcp-Session-Id on a modern request");
    }
    // The engine reports a missing version in the body; notifications need no mirrored headers.
    let Some(version) = params["_meta"][VERSION_KEY].as_str() else { return Ok(()) };
    if message.get("id").is_none() {
        return Ok(());
    }
    let id = &message["id"];
    let method = message["method"].as_str().unwrap_or_default();
    let name = match method {
        "tools/call" | "prompts/get" => params["name"].as_str(),
        "resources/read" => params["uri"].as_str(),
        "tasks/get" | "tasks/update" | "tasks/cancel" => params["taskId"].as_str(),
        _ => None,
    };
    let mut wanted = vec![
        ("mcp-protocol-version".to_owned(), Some(version.to_owned())),
        ("mcp-method".to_owned(), Some(method.to_owned())),
    ];
    if let Some(name) = name {
        wanted.push(("mcp-name".into(), Some(name.to_owned())));
    }
    if method == "tools/call"
        && let Some(tool) = script.tools.iter().find(|tool| Some(tool.name()) == name)
    {
        collect_argument_headers(&tool.definition["inputSchema"], &params["arguments"], &mut wanted);
    }
    for (header, value) in wanted {
        let Some(sent) = headers.get(&header) else {
            if value.is_none() {
                continue;
            }
            return Err(header_mismatch(id, &format!("{header} is missing")));
        };
        let sent = sent.to_str().ok().and_then(decode_header_value);
        if sent != value {
            return Err(header_mismatch(id, &format!("{header} does not match the body")));
        }
    }
    Ok(())
}

/// Collects the headers that `x-mcp-header` requires; `None` where the argument is absent or null.
fn collect_argument_headers(schema: &Value, arguments: &Value, wanted: &mut Vec<(String, Option<String>)>) {
    for (key, property) in schema["properties"].as_object().into_iter().flatten() {
        let argument = &arguments[key.as_str()];
        if let Some(name) = property["x-mcp-header"].as_str() {
            let value = match argument {
                Value::Null => None,
                Value::String(text) => Some(text.clone()),
                other => Some(other.to_string()),
            };
            wanted.push((format!("mcp-param-{}", name.to_ascii_lowercase()), value));
        }
        collect_argument_headers(property, argument, wanted);
    }
}

/// Decodes the Base64 sentinel. Returns `None` if the encoded part is invalid.
fn decode_header_value(value: &str) -> Option<String> {
    let Some(inside) = value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) else {
        return Some(value.to_owned());
    };
    String::from_utf8(STANDARD.decode(inside).ok()?).ok()
}

fn header_mismatch(id: &Value, what: &str) -> CannedResponse {
    CannedResponse::new(400).json(&rpc::error(id, HEADER_MISMATCH, what))
}

pub(super) fn error_response(status: u16, code: i64, message: &str) -> CannedResponse {
    CannedResponse::new(status).json(&json!({
        "jsonrpc": "2.0",
        "error": {"code": code, "message": message},
        "id": null,
    }))
}

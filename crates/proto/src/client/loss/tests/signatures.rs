//! Exchanges that must be recognized as a session loss.

use super::*;
use crate::client::loss::LossWording::{Handshake, Hint, None, Plain};
use crate::client::loss::Verdict::{Answer, Lost, Suspect};

/// The refusals that known servers send for an unknown session id.
#[expect(clippy::too_many_lines, reason = "a table")]
pub(super) fn signatures() -> Vec<(&'static str, Case, Verdict)> {
    let no_valid = "Bad Request: No valid session ID provided";
    let wrapped = serde_json::to_string(&format!(
        "Error POSTing to endpoint (HTTP 400): {}",
        unaddressed_error(-32000, no_valid)
    ))
    .unwrap();
    vec![
        ("TypeScript SDK", post(404, unaddressed_error(-32001, "Session not found")), Lost),
        (
            "TypeScript SDK, new transport",
            post(400, unaddressed_error(-32000, "Bad Request: Server not initialized")),
            Suspect(Handshake),
        ),
        (
            "TypeScript SDK, framed",
            post(
                400,
                format!(
                    "event: message\ndata: {}\n\n",
                    unaddressed_error(-32000, "Bad Request: Server not initialized")
                ),
            ),
            Suspect(Handshake),
        ),
        (
            "TypeScript SDK, header missing",
            post(400, unaddressed_error(-32000, "Bad Request: Mcp-Session-Id header is required")),
            Suspect(Plain),
        ),
        ("TypeScript examples, null id", post(400, unaddressed_error(-32000, no_valid)), Suspect(Plain)),
        ("TypeScript examples, our id", post(400, own_error(-32000, no_valid)), Suspect(Plain)),
        (
            "TypeScript examples, no id",
            post(400, format!(r#"{{"jsonrpc":"2.0","error":{{"code":-32000,"message":"{no_valid}"}}}}"#)),
            Suspect(Plain),
        ),
        ("wrapped by an outer app", post(500, format!(r#"{{"error":{wrapped}}}"#)), Suspect(Plain)),
        (
            "or not an initialize request",
            post(
                400,
                unaddressed_error(-32000, "Bad Request: No valid session ID or not an initialize request"),
            ),
            Suspect(Handshake),
        ),
        (
            "or not an initialization request",
            post(
                400,
                unaddressed_error(
                    -32000,
                    "Bad Request: No valid session ID provided or not an initialization request",
                ),
            ),
            Suspect(Handshake),
        ),
        (
            "not an initialize request alone",
            post(400, own_error(-32600, "Not an initialize request")),
            Suspect(Handshake),
        ),
        (
            "404 with a 400's words",
            post(404, unaddressed_error(-32000, "No valid session ID provided")),
            Lost,
        ),
        ("Mastra", post(404, unaddressed_error(-32000, "Session not found")), Lost),
        ("Mastra, older", post(400, unaddressed_error(-32000, "Session not found")), Suspect(Plain)),
        ("Python SDK, older; Atlassian", post(400, no_valid), Suspect(Plain)),
        ("Python SDK", post(404, rpc("\"server-error\"", -32600, "Session not found")), Lost),
        (
            "Python SDK, header missing",
            post(400, rpc("\"server-error\"", -32600, "Bad Request: Missing session ID")),
            Suspect(Plain),
        ),
        ("rmcp", post(404, "Not Found: Session not found"), Lost),
        ("rmcp, older", post(401, "Unauthorized: Session not found"), Suspect(Plain)),
        ("rmcp, header missing", post(400, "Bad Request: Session ID is required"), Suspect(Plain)),
        (
            "rmcp, wrong first message",
            post(422, "Unexpected message, expect initialize request"),
            Suspect(Handshake),
        ),
        ("Go SDK", post(404, "session not found\n"), Lost),
        ("Go SDK, other user", post(403, "session user mismatch\n"), Suspect(Plain)),
        ("anubis, 400", post(400, "No active session"), Suspect(Plain)),
        (
            "anubis, not initialized",
            post(400, own_error(-32002, "Server not initialized")),
            Suspect(Handshake),
        ),
        ("410", post(410, ""), Lost),
        ("bare 404", post(404, ""), Lost),
        ("bare JSON", post(404, r#"{"error":"Session not found"}"#), Lost),
        ("AgentCore", post(404, r#"{"message":"The runtime is gone"}"#), Lost),
        ("agentgateway", post(404, "session not found"), Lost),
        (
            "agentgateway, 400",
            post(400, "session header is required for non-initialize requests"),
            Suspect(Handshake),
        ),
        ("agentgateway, 422", post(422, "invalid session_id query parameter"), Suspect(Plain)),
        ("Prisma", post(400, "broken session"), Suspect(Plain)),
        ("Python SSE", post(404, "Could not find session"), Lost),
        ("Python SSE, other status", post(400, "Could not find session"), Suspect(Plain)),
        ("ModelScope", post(404, r#"{"error":{"message":"Invalid session id."}}"#), Lost),
        (
            "ModelScope, other status",
            post(400, r#"{"error":{"message":"Invalid session id."}}"#),
            Suspect(Plain),
        ),
        (
            "Python SSE, in words",
            post(400, "Received request before initialization was complete"),
            Suspect(Handshake),
        ),
        ("Java, gone", post(404, r#"{"message":"Session not found: 4c1f"}"#), Lost),
    ]
}

/// HL-03, and everything that servers send instead of a 404.
#[test]
fn hl_03_known_signatures_are_losses() {
    check(&signatures());
}

/// Exchanges that may be a loss or something else.
#[test]
fn known_signatures_that_need_a_probe() {
    check(&[
        ("anubis, 200", post(200, own_error(-32002, "Server not initialized")), Suspect(Handshake)),
        ("Zilla", post(200, unaddressed_error(-32600, "Invalid Request")), Suspect(None)),
        ("keryx", post(200, "event: message\ndata: {\"error\":\"Session not found\"}\n\n"), Suspect(Plain)),
        ("gortex", post(200, own_error(-32001, "session not found")), Suspect(Plain)),
        ("agent-wiki", post(200, own_error(-32600, "missing or invalid Mcp-Session-Id")), Suspect(Plain)),
        ("bare JSON in a 200", post(200, r#"{"error":"Session not found"}"#), Suspect(Plain)),
        (
            "Python SSE, before the handshake",
            post(200, own_error(-32602, "Invalid request parameters")),
            Suspect(Handshake),
        ),
        ("a stranger's id", post(200, rpc("\"server-error\"", -32600, "Bad Request")), Suspect(None)),
        ("Java, null pointer", post(500, ""), Suspect(None)),
        (
            "Spring",
            post(
                500,
                r#"{"timestamp":"2025-05-01T10:00:00.000+00:00","status":500,"error":"Internal Server Error","path":"/mcp/message"}"#,
            ),
            Suspect(None),
        ),
        (
            "Java, in words",
            post(500, "Cannot invoke \"McpSession.handle()\" because \"session\" is null"),
            Suspect(Hint),
        ),
        ("mcp-go, older", post(400, ""), Suspect(None)),
        ("a bare 503", post(503, ""), Suspect(None)),
        ("a bare 502", post(502, "  \n"), Suspect(None)),
        ("rmcp, cut", post(422, "Unexpected message, expect …"), Suspect(None)),
    ]);
}

/// Wordings that no known server uses.
#[test]
fn unlisted_wordings_are_losses() {
    let mut rows = Vec::new();
    let plain = UNLISTED_LOSS_TEXTS.iter().map(|text| (*text, Suspect(Plain)));
    let handshake = UNLISTED_HANDSHAKE_TEXTS.iter().map(|text| (*text, Suspect(Handshake)));
    for (text, verdict) in plain.chain(handshake) {
        for status in [400, 401, 403, 409, 422, 500, 502, 503] {
            rows.push((text, post(status, text), verdict));
        }
        for status in [404, 410] {
            rows.push((text, post(status, text), Lost));
        }
        rows.push((text, post(400, unaddressed_error(-32000, text)), verdict));
        // In an error for our request this text may be a tool's, in a 404 too.
        for status in [200, 400, 404, 500] {
            rows.push((text, post(status, own_error(-32000, text)), verdict));
        }
        rows.push((text, post(429, text), Answer));
    }
    check(&rows);
}

#[test]
fn the_reason_may_be_in_the_data() {
    let body = |data: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":null,"error":{{"code":-32000,"message":"Bad Request","data":{data}}}}}"#
        )
    };
    assert_eq!(post(400, body(r#"{"reason":"session_expired"}"#)).judge(), Suspect(Plain));
    assert_eq!(post(400, body(r#"{"reason":"quota"}"#)).judge(), Suspect(None));
}

/// Texts in UTF-16, in Latin-1, and with JSON escapes.
#[test]
fn character_sets() {
    let utf16 = |text: &str| -> Vec<u8> {
        let units = text.encode_utf16().flat_map(u16::to_le_bytes);
        [0xff, 0xfe].into_iter().chain(units).collect()
    };
    assert_eq!(post(400, utf16("Session not found")).judge(), Suspect(Plain));
    assert_eq!(post(400, b"La session est expir\xe9e").judge(), Suspect(Plain));
    assert_eq!(post(400, b"Session not found \xe2\x82").judge(), Suspect(Plain));
    assert_eq!(post(400, r#"{"error":"\u0053ession\u0020not\u0020found"}"#).judge(), Suspect(Plain));
}

/// A driver keeps the beginning of a body, which is enough if it mentions the session there.
#[test]
fn a_cut_body_is_read_as_far_as_it_goes() {
    let long = format!(r#"{{"error":"Session not found","trace":"{}"#, "at handler ".repeat(1000));
    assert_eq!(post(400, &long[..200]).judge(), Suspect(Plain));
    assert_eq!(post(400, &long).judge(), Suspect(Plain));
    let late = format!("{} Session not found", "x ".repeat(10_000));
    assert_eq!(post(400, late).judge(), Suspect(None));
}

/// Sentences about a lost session that no known server uses.
const UNLISTED_LOSS_TEXTS: &[&str] = &[
    "Unknown session",
    "Invalid or expired session ID",
    "Invalid or missing session ID",
    "Session ID not provided",
    "Session terminated",
    "MCP session not found or expired",
    "Your MCP session ended",
    "unknown mcp-session-id",
    "The provided session ID is not recognized by this server",
    "Invalid Mcp-Session-Id header",
    "the Mcp-Session-Id does not correspond to an active session",
    "Session does not belong to this user",
    "Session expired or server restarted",
    "Unknown or expired session. Please re-initialize.",
    "ERR_SESSION_NOT_FOUND",
    "NoSuchSession",
    "E_NO_SESSION",
    "session_id query parameter is required",
    "Missing required parameter: session_id",
    "Could not find a session for this request",
    "There is no session for this id",
    "Not found: session 12",
    "not_found: session",
    "This session is dead",
    "session unknown to this node",
    "bad session id",
    "No session matches that id",
    "Unknown session, please start again",
    "Session not established",
    "unknown sid",
    "Session ID unknown",
    "SESSION_EXPIRED",
    "session_not_found",
    "SessionNotFoundException",
    "InvalidSessionId",
    "Invalid sessionId",
    "Mcp-Session-Id header missing",
    "Missing required header: Mcp-Session-Id",
    "Mcp-Session-Id is not valid",
    "MCP session expired",
    "Session expired due to inactivity",
    "Session has expired, please reconnect",
    "Session timed out",
    "Session was terminated by the server",
    "The session has been closed",
    "Session is no longer available",
    "session no longer exists",
    "Session does not exist",
    "Session doesn't exist",
    "Session isn’t active",
    "No such session",
    "No session",
    "No session found for id 6f1c2a90-1111-4222-8333-abcdefabcdef",
    "Session 6f1c2a90-1111-4222-8333-abcdefabcdef not found",
    "Session `abcdef` not found",
    "Session [abcdef] could not be found",
    "Session <abcdef> was not found",
    "Session with ID 'xyz' does not exist",
    "no session with that id exists",
    "This is not a valid session",
    "Cannot find session",
    "Unable to locate session",
    "Failed to resume session",
    "failed to look up the session",
    "stale session id",
    "expired or unknown session",
    "Session gone",
    "There was never a session registered",
    "Request has no valid id for the session",
    "Request has invalid session",
    "Session expired yesterday",
    "Session was evicted",
    "Session exceeded its maximum idle time and was closed",
    "Session ID does not match any active session",
    "Session not recognized",
    "No transport found for sessionId",
    "No active transport",
    "Transport is closed",
    "transport not found",
    "Request failed: invalid session ID",
    "Error: Session not found",
    "Bad Request Session not found",
    "{\"code\":\"SESSION_EXPIRED\"}",
    "{\"session\":\"expired\"}",
    "{\"detail\":\"Unknown session: abc\"}",
    "<html><head><title>Error</title></head><body><pre>Error: Session not found<br> &nbsp; &nbsp;at handle (/app/index.js:10:3)</pre></body></html>",
    "<p>Session <b>4711</b> not&nbsp;found</p>",
    "session\u{a0}not\u{a0}found",
    "Session introuvable",
    "La session a expirée",
    "Sesión no encontrada",
    "Sessão expirada",
    "Sessione scaduta",
    "Sitzung abgelaufen",
    "Ungültige Sitzung",
    "会话不存在",
    "会话abc123已过期",
    "セッションが見つかりません",
    "세션이 만료되었습니다",
    "Сессия не найдена",
];

/// Sentences about a missing handshake that no known server uses.
const UNLISTED_HANDSHAKE_TEXTS: &[&str] = &[
    "No session found. Please initialize first.",
    "Client must send initialize first",
    "Server not ready: initialize must be called first",
    "Session is uninitialized",
    "Server has not been initialized",
    "Client not initialized",
    "Connection not initialized",
    "Not initialized",
    "Please initialize first",
    "You must call initialize first",
    "Send an initialize request before calling tools",
    "Initialization required",
    "Initialization not complete",
    "Expected initialize request",
    "the handshake has not been completed",
    "Server must be initialized first",
    "No calls until initialized",
];

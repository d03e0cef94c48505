//! Exchanges that must not be mistaken for a session loss.

use super::signatures::signatures;
use super::*;
use crate::client::loss::LossWording::{Handshake, Hint, None, Plain};
use crate::client::loss::Verdict::{Answer, Login, Lost, Suspect};
use crate::client::negotiation::Reply;

/// Texts that mention sessions, or something missing, without a session loss.
#[test]
fn other_texts_are_answers() {
    let mut rows = Vec::new();
    for &text in UNRELATED_TEXTS {
        for status in [400, 403, 406, 409, 413, 415, 422, 500, 502, 503] {
            rows.push((text, post(status, text), verdict_without_wording(status)));
        }
        rows.push((text, post(200, own_error(-32000, text)), Answer));
        rows.push((text, post(401, text), Login));
    }
    check(&rows);
}

/// Texts about a tool's own sessions cause at most a probe.
#[test]
fn foreign_sessions_are_at_most_suspect() {
    let mut rows = Vec::new();
    for &text in FOREIGN_SESSION_TEXTS {
        rows.push((text, post(200, own_error(-32603, text)), Suspect(Hint)));
        rows.push((text, post(400, own_error(-32602, text)), Suspect(Hint)));
        rows.push((text, post(500, text), Suspect(Hint)));
        // A 403 has no login to offer, unless it asks for credentials.
        rows.push((text, post(403, text), Suspect(Hint)));
        rows.push((text, post(403, text).challenge("Bearer"), Answer));
        rows.push((text, post(401, text), Login));
    }
    check(&rows);
    // A plain text, but the request reached a handler.
    for code in [-32601, -32602, -32603] {
        assert_eq!(post(400, own_error(code, "Session not found")).judge(), Suspect(Plain), "{code}");
        assert_eq!(post(500, own_error(code, "Session not found")).judge(), Suspect(Plain), "{code}");
    }
}

#[test]
fn without_a_session_nothing_is_lost() {
    for (name, case, _) in signatures() {
        let verdict = if case.status == 401 { Login } else { Answer };
        assert_eq!(case.clone().without_session().judge(), verdict, "{name}");
        for method in ["initialize", "notifications/initialized"] {
            assert_eq!(case.clone().method(method).judge(), verdict, "{name}, {method}");
        }
    }
}

/// A server without session ids may want its handshake again, and nothing else can be lost.
#[test]
fn without_a_session_only_a_missing_handshake_counts() {
    let reply = |status, message: &str| {
        let error = RpcError::new(-32000, message);
        Reply::Error { status: Some(status), error, stray: false }
    };
    for (status, message, expected) in [
        (400, "Bad Request: Server not initialized", Suspect(Handshake)),
        (200, "Server not initialized", Suspect(Handshake)),
        (400, "Session not found", Answer),
        (404, "Session not found", Answer),
        (429, "Server not initialized", Answer),
        (500, "Database not initialized", Answer),
    ] {
        assert_eq!(reply(status, message).handshake_verdict("tools/call", false), expected, "{message}");
        assert_eq!(reply(status, message).handshake_verdict("initialize", false), Answer, "{message}");
        assert_eq!(reply(status, message).session_verdict("tools/call", false, false), Answer, "{message}");
    }
}

/// DE-08: a 404 or 410 that means something else.
#[test]
fn de_08_a_404_about_something_else() {
    check(&[
        ("unknown method", post(404, own_error(-32601, "Method not found")), Answer),
        ("unknown method, cut", post(404, r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"mess"#), Answer),
        (
            "unknown method, framed",
            post(404, format!("data: {}", own_error(-32601, "Method not found"))),
            Answer,
        ),
        ("unknown method of nobody", post(404, unaddressed_error(-32601, "Method not found")), Suspect(None)),
        ("unknown tool", post(404, own_error(-32602, "Unknown tool: foo")), Answer),
        ("unknown resource", post(404, own_error(-32002, "Resource not found")), Suspect(None)),
        ("session, as unknown method", post(404, own_error(-32601, "Session not found")), Suspect(Plain)),
        ("a web server's page", post(404, "<html><h1>404 Not Found</h1></html>"), Lost),
        (
            "an error that was cut",
            post(404, r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32004,"mess"#),
            Suspect(None),
        ),
        // The part that was not read may name our request.
        ("a body that could not be read", post(404, "").cut(), Suspect(None)),
        ("a comment without an end", post(404, ": hi\n\n").cut(), Suspect(None)),
        ("text without an end", post(404, "Warning: deprecated\n").cut(), Suspect(None)),
        (
            "our error behind a warning",
            post(404, format!("Warning: deprecated\n{}", own_error(-32000, "no"))),
            Suspect(None),
        ),
        (
            "our error in a string",
            post(404, serde_json::to_string(&own_error(-32000, "no")).unwrap()),
            Suspect(None),
        ),
        ("our error, with another form of its id", post(404, rpc("7.00", -32000, "no")), Suspect(None)),
        ("our error, with its id in letters", post(404, rpc("\" 7\"", -32000, "no")), Suspect(None)),
        ("our error, with its id as a power", post(404, rpc("70e-1", -32000, "no")), Suspect(None)),
        ("an object without an end", post(404, r#"{"error":{"mess"#).cut(), Suspect(None)),
        ("an event without an end", post(404, r#"data: {"err"#).cut(), Suspect(None)),
        ("a long page", post(404, "<html><h1>404 Not Found</h1>").cut(), Lost),
        ("an empty body", post(404, ""), Lost),
        ("a batch", post(404, format!("[{}]", own_error(-32004, "no"))), Suspect(None)),
        (
            "behind a byte order mark",
            post(404, format!("\u{feff}{}", own_error(-32004, "no"))),
            Suspect(None),
        ),
        ("bytes that are no text", post(404, "\u{fffd}\u{fffd}8"), Suspect(None)),
        ("another encoding", post(404, "{\0\"\0j\0"), Suspect(None)),
        ("gone, about the method", post(410, own_error(-32601, "Method removed")), Answer),
    ]);
}

#[test]
fn credentials_are_not_sessions() {
    let bearer = r#"Bearer error="invalid_token""#;
    check(&[
        ("challenge", post(401, "").challenge("Bearer"), Login),
        ("token expired", post(401, own_error(-32001, "Access token expired")).credentials(), Login),
        ("mcp-proxy", post(401, "").challenge(bearer).credentials(), Login),
        (
            "mcp-proxy, in words",
            post(401, unaddressed_error(-32000, "Unauthorized: Session not found"))
                .challenge(bearer)
                .credentials(),
            Suspect(Plain),
        ),
        ("no credentials yet", post(401, "Session not found").challenge("Bearer"), Login),
        ("session token", post(401, "Session token expired"), Login),
        ("log in again", post(401, "Your session has expired. Please log in again."), Login),
        ("sign in", post(401, "Session expired, sign in"), Login),
        ("browser session", post(401, "Browser session expired"), Login),
        ("authentication", post(401, "Session not found, authentication required"), Login),
        ("authentication, 400", post(400, "Session not found, authentication required"), Suspect(Hint)),
        (
            "scope",
            post(403, r#"{"error":"insufficient_scope"}"#).challenge(r#"Bearer error="insufficient_scope""#),
            Answer,
        ),
        ("scope of a session", post(403, "Session is missing required scope").challenge("Bearer"), Answer),
        ("forbidden", post(403, "Forbidden"), Answer),
        ("forbidden, bare", post(403, ""), Answer),
    ]);
}

#[test]
fn proxies_and_limits_are_not_losses() {
    let page = |title: &str| {
        format!(
            "<html>\r\n<head><title>{title}</title></head>\r\n<body>\r\n<center><h1>{title}</h1></center>\r\n\
             <hr><center>nginx/1.27.0</center>\r\n</body>\r\n</html>\r\n"
        )
    };
    check(&[
        ("nginx 502", post(502, page("502 Bad Gateway")), Answer),
        ("nginx 503", post(503, page("503 Service Temporarily Unavailable")), Answer),
        ("nginx 504", post(504, page("504 Gateway Time-out")), Answer),
        ("nginx 413", post(413, page("413 Request Entity Too Large")), Answer),
        (
            "a script that knows sessions",
            post(
                503,
                "<html><script>if (session.expired) reload()</script><style>.session.gone{}</style><p>We are back soon</p>",
            ),
            Answer,
        ),
        ("plain 502", post(502, "Bad Gateway"), Answer),
        ("plain 503", post(503, "Service Unavailable"), Answer),
        (
            "envoy",
            post(
                503,
                "upstream connect error or disconnect/reset before headers. reset reason: connection termination",
            ),
            Answer,
        ),
        ("too many requests", post(429, ""), Answer),
        ("too many sessions", post(429, "Too many sessions"), Answer),
        ("session limit", post(503, unaddressed_error(-32000, "Session limit reached")), Answer),
        ("not acceptable", post(406, unaddressed_error(-32000, "Not Acceptable")), Answer),
        ("not acceptable, bare", post(406, ""), Answer),
        ("media type, bare", post(415, ""), Answer),
        ("too large, bare", post(413, ""), Answer),
        ("not allowed, bare", post(405, ""), Answer),
        ("parse error", post(400, unaddressed_error(-32700, "Parse error")), Answer),
        ("parse error, bare", post(400, unaddressed_error(-32700, "")), Answer),
        ("invalid params", post(400, own_error(-32602, "Invalid params")), Answer),
        (
            "version",
            post(400, unaddressed_error(-32000, "Bad Request: Unsupported protocol version: 2026-07-28")),
            Suspect(None),
        ),
        ("internal error of ours", post(500, own_error(-32603, "Internal error")), Answer),
        ("tool failure", post(500, r#"{"error":"database is locked"}"#), Suspect(None)),
        ("our error in a 200", post(200, own_error(-32000, "Connection closed")), Answer),
        ("our timeout in a 200", post(200, own_error(-32001, "Request timed out")), Answer),
        ("our bad params in a 200", post(200, own_error(-32602, "Invalid params: name")), Answer),
        ("redirect", post(302, "Session expired"), Answer),
    ]);
}

/// Each contains a word of the grammar, or comes with a status that does.
const UNRELATED_TEXTS: &[&str] = &[
    "Session is valid",
    "session created",
    "Session could not be established",
    "Session creation failed",
    "Failed to save session",
    "Session ID must be a string",
    "Session pool exhausted",
    "Rate limit exceeded for session",
    "User not found in session",
    "Missing required argument 'session'",
    "Session conflict: another client is connected",
    "Forbidden: Origin not allowed",
    "Only POST requests are supported",
    "Request body is missing",
    "Invalid Host header",
    "Session initialized",
    "Session has not expired",
    "session is not closed",
    "session is active",
    "No session required",
    "Session ID is not required",
    "Sessions are not supported",
    "Session already exists",
    "Server already initialized",
    "Invalid Request: Server already initialized",
    "Already connected to a transport. Call close() before connecting to a new transport",
    "Too many sessions",
    "Session limit reached",
    "session limit exceeded: missing capacity",
    "Maximum number of sessions exceeded",
    "No sessions available",
    "no available session",
    "Failed to create session",
    "Cannot create a new session",
    "Failed to initialize",
    "Could not initialize the model",
    "Initialization failed",
    "Request timed out",
    "Connection closed",
    "Access token expired",
    "Token is invalid",
    "Missing Authorization header",
    "Unknown tool: session_list",
    "Invalid params: session_name must be a string",
    "Missing argument: session",
    "Resource not found: session://notes",
    "Tool was not found for session",
    "Resource not found",
    "File does not exist",
    "Not Acceptable: Client must accept both application/json and text/event-stream",
    "Unsupported Media Type: Content-Type must be application/json",
    "Bad Request: Unsupported protocol version: 2026-07-28 (supported versions: 2025-06-18)",
    "Bad Request: The MCP-Protocol-Version header value 2026-07-28 is not supported.",
    "Parse error: Invalid JSON",
    "Invalid params",
    "Payload Too Large",
    "insufficient_scope",
    "Session created. Tool not found.",
    "This is a timed session",
    "Session has a bad name",
    "Deleted file of session",
    "Undefined variable in session",
    "Failed to open session",
    "No valid browser for session",
    "No: valid browser for session",
    "Not existing tool for session",
    "Not: existing tool for session",
    "No tools for session",
    "No tools listed for session",
    "It currently has no worker found nearby for session",
    "Cannot find tool for session",
    "Cannot: find tool for session",
    "The session is fine, but the file is missing",
];

/// Texts about sessions that are perhaps not ours.
const FOREIGN_SESSION_TEXTS: &[&str] = &[
    "Browser session not found",
    "No browser session found",
    "Session timeout",
    "Cannot work without session storage",
    "Invalid session configuration",
    "Invalid session ID format",
    "unknown session type",
    "No worker found for session",
    "SSE connection not established",
    "No active browser session",
    "Database session expired",
    "Login session expired",
    "user session is invalid",
    "Your SSH session was closed",
    "The session of the browser expired",
    "Session file not found",
    "session token expired",
    "Session expired. Please log in again.",
    "Database not initialized",
    "You must initialize the database first",
    "sessions not found",
    "It has no browser: session",
    "SSE connection from browser over tunnel was closed",
    "Session user expired",
    "Session name mismatch",
    "Session has invalid format",
    "Expired: card of session",
];

//! Replies of servers that have lost a session: the host's call succeeds anyway and runs once.

use bowline_testkit::{self as testkit, CannedResponse, Script};
use serde_json::{Value, json};

use super::host::{Host, TEST_TIMEOUT, result_text};
use crate::context::Context;

async fn is_survived(script: Script, gone: CannedResponse) {
    let context = Context::new();
    let server = script.unknown_session_response(gone).tool("counter").run().await;
    // Some servers answer 401 when they mean the session.
    let command =
        context.bowline(["connect", &server.url(), "--header", "Authorization: Bearer tk-secret-good"]);
    let mut host = Host::start_initialized(command).await;
    assert_eq!(result_text(&host.call("counter").await), "1");
    // Repeated, to show that recovery uses nothing up.
    for count in 2..4_u64 {
        let handshakes = server.initialize_count();
        server.drop_sessions();
        assert_eq!(result_text(&host.call("counter").await), count.to_string());
        assert_eq!(server.executions("counter"), count);
        assert_eq!(server.initialize_count(), handshakes + 1);
    }
    let ended = host.close().await;
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert_eq!(ended.stderr, "", "what heals at once is not told");
    // A server of HTTP+SSE learns of the end when its stream is closed, which may be after the exit.
    server.wait_until(|server| server.sessions().is_empty(), TEST_TIMEOUT).await;
}

/// Makes a JSON-RPC error as the whole body. `$id` stands for the id of the request.
fn rpc(id: impl Into<Value>, code: i64, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "error": {"code": code, "message": message}})
}

macro_rules! signatures {
    ($script:expr; $($name:ident: $answer:expr;)*) => {
        $(#[tokio::test]
        async fn $name() {
            is_survived($script, $answer).await;
        })*
    };
}

signatures! { testkit::server().legacy();
    not_found_without_a_word: CannedResponse::new(404);
    not_found_in_one_sdk: CannedResponse::new(404).json(&rpc(Value::Null, -32001, "Session not found"));
    not_found_in_another_sdk: CannedResponse::new(404).json(&rpc("server-error", -32600, "Session not found"));
    not_found_with_a_general_code: CannedResponse::new(404).json(&rpc("$id", -32000, "Session not found"));
    not_found_and_not_provided: CannedResponse::new(404).json(&rpc(Value::Null, -32000, "No valid session ID provided"));
    not_found_as_text: CannedResponse::new(404).text("Not Found: Session not found");
    not_found_in_small_letters: CannedResponse::new(404).text("session not found");
    not_found_as_bare_json: CannedResponse::new(404).json(&json!({"error": "Session not found"}));
    gone_for_good: CannedResponse::new(410);
    not_provided_as_text: CannedResponse::new(400).text("Bad Request: No valid session ID provided");
    not_provided_as_an_error:
        CannedResponse::new(400).json(&rpc("$id", -32000, "Bad Request: No valid session ID provided"));
    not_provided_without_an_id: CannedResponse::new(400).json(
        &json!({"jsonrpc": "2.0", "error": {"code": -32000, "message": "Bad Request: No valid session ID provided"}}),
    );
    not_provided_or_not_initialize: CannedResponse::new(400).json(&rpc(
        Value::Null,
        -32000,
        "Bad Request: No valid session ID or not an initialize request",
    ));
    not_provided_inside_a_wrapper: CannedResponse::new(500).json(&json!({
        "error": "Error POSTing to endpoint (HTTP 400): {\"error\":{\"message\":\"No valid session ID provided\"}}",
    }));
    missing_as_an_error: CannedResponse::new(400).json(&rpc("server-error", -32600, "Bad Request: Missing session ID"));
    header_is_required:
        CannedResponse::new(400).json(&rpc(Value::Null, -32000, "Bad Request: Mcp-Session-Id header is required"));
    required_as_text: CannedResponse::new(400).text("Bad Request: Session ID is required");
    not_initialized: CannedResponse::new(400).json(&rpc(Value::Null, -32000, "Bad Request: Server not initialized"));
    not_initialized_framed_as_an_event:
        CannedResponse::new(400).sse(&rpc(Value::Null, -32000, "Bad Request: Server not initialized"));
    wants_an_initialize_first: CannedResponse::new(422).text("Unexpected message, expect initialize request");
    unauthorized_in_words_of_the_session: CannedResponse::new(401).text("Unauthorized: Session not found");
    unauthorized_though_the_token_is_good:
        CannedResponse::new(401).header("www-authenticate", "Bearer error=\"invalid_token\"");
    of_another_user: CannedResponse::new(403).text("session user mismatch");
    broken: CannedResponse::new(400).text("broken session");
    conflict: CannedResponse::new(409).text("Conflict: session expired");
    bad_in_the_query: CannedResponse::new(422).json(&json!({"error": "invalid session_id"}));
    unavailable: CannedResponse::new(503).text("unknown session");
    ok_but_not_found: CannedResponse::new(200).json(&rpc("$id", -32001, "session not found"));
    ok_but_invalid: CannedResponse::new(200).json(&rpc("$id", -32600, "missing or invalid Mcp-Session-Id"));
    ok_but_not_initialized: CannedResponse::new(200).json(&rpc("$id", -32002, "Server not initialized"));
    ok_but_none_is_active: CannedResponse::new(200).json(&rpc("$id", -32000, "No active session"));
    ok_but_about_nothing: CannedResponse::new(200).json(&rpc(Value::Null, -32600, "Invalid Request"));
    ok_but_an_event_with_no_message: CannedResponse::new(200).sse(&json!({"error": "Session not found"}));
    ok_but_bare_json: CannedResponse::new(200).json(&json!({"error": "Session not found"}));
}

// HTTP+SSE, where the endpoint URL names the session.
signatures! { testkit::server().http_sse();
    sse_could_not_find: CannedResponse::new(404).text("Could not find session");
    sse_invalid_id: CannedResponse::new(404).json(&json!({"error": {"message": "Invalid session id."}}));
    sse_not_found_without_a_word: CannedResponse::new(404);
    sse_failed_over_it: CannedResponse::new(500).text("Session not found");
}

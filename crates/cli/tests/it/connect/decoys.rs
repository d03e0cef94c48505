//! Replies that resemble a session loss: they pass to the host unchanged, nothing is retried, and
//! no new session is opened.

use bowline_testkit::{self as testkit, CannedResponse, Fault, Script};
use serde_json::{Value, json};

use super::host::{Host, result_text};
use crate::context::Context;

fn script() -> Script {
    testkit::server().legacy().tool("counter")
}

/// Returns the host's response to a call hit by `fault`, and checks that the next call succeeds on
/// the same session.
async fn call_with_fault(fault: impl Into<Fault>) -> Value {
    let context = Context::new();
    let server = script().run().await;
    let mut host = Host::start_initialized(context.bowline(["connect", &server.url()])).await;
    assert_eq!(result_text(&host.call("counter").await), "1");
    server.arm(fault.into().on_tool("counter"));
    let answer = host.call("counter").await;
    assert!(server.armed_faults().is_empty(), "the fault did not strike");
    assert_eq!(server.received_with_method("tools/call").len(), 2, "the call was sent again");
    let before = server.executions("counter");
    assert_eq!(result_text(&host.call("counter").await), (before + 1).to_string());
    assert_eq!(server.initialize_count(), 1, "a new session was opened");
    assert_eq!(host.close().await.status.code(), Some(0));
    answer
}

#[tokio::test]
async fn a_tool_error_about_its_own_session_is_passed_on() {
    let result = json!({"content": [{"type": "text", "text": "Browser session not found"}], "isError": true});
    assert_eq!(call_with_fault(Fault::reply(result.clone())).await["result"], result);
}

#[tokio::test]
async fn an_error_about_a_live_session_is_passed_on() {
    let data = json!({"session": "s-1"});
    for (code, message) in
        [(-32001, "Session not found"), (-32000, "Access token expired"), (-32602, "session_id: unknown")]
    {
        let answer = call_with_fault(Fault::error_with_data(code, message, &data)).await;
        assert_eq!(answer["error"], json!({"code": code, "message": message, "data": data}));
    }
}

#[tokio::test]
async fn an_unknown_method_with_status_404_is_passed_on() {
    let error = json!({"code": -32601, "message": "Method not found"});
    let body = json!({"jsonrpc": "2.0", "id": "$id", "error": error});
    assert_eq!(call_with_fault(CannedResponse::new(404).json(&body)).await["error"], error);
}

#[tokio::test]
async fn other_statuses_are_reported_to_the_host() {
    for (answer, status) in [
        (
            CannedResponse::new(406)
                .text("Not Acceptable: Client must accept both application/json and text/event-stream"),
            406,
        ),
        (CannedResponse::new(413).text("Payload Too Large"), 413),
        (CannedResponse::new(500), 500),
        (CannedResponse::new(500).text("Internal Server Error"), 500),
    ] {
        let answer = call_with_fault(answer).await;
        assert_eq!(answer["error"]["code"], -31050, "{answer}");
        assert_eq!(answer["error"]["data"]["bowline"]["cause"], "status");
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains(&format!("HTTP status {status}")), "{message}");
    }
}

/// Only a person can log in; the next call tries again.
#[tokio::test]
async fn a_login_challenge_reaches_the_host() {
    let context = Context::new();
    let server = script().run().await;
    let mut host = Host::start_initialized(context.bowline(["connect", &server.url()])).await;
    let challenge = CannedResponse::new(401).header("www-authenticate", "Bearer realm=\"r\"");
    let body =
        json!({"jsonrpc": "2.0", "id": "$id", "error": {"code": -32001, "message": "Access token expired"}});
    server.arm(Fault::response(challenge.json(&body)).on_tool("counter"));
    let answer = host.call("counter").await;
    assert_eq!(answer["error"]["data"]["bowline"]["cause"], "login_required", "{answer}");
    assert_eq!(server.executions("counter"), 0);
    let ended = host.close().await;
    assert_eq!(ended.status.code(), Some(0));
    assert!(ended.stderr.contains("requires a login"), "{}", ended.stderr);
}

/// A gateway does not know whether the request was executed.
#[tokio::test]
async fn a_bad_gateway_does_not_run_a_tool_twice() {
    for status in [502, 504] {
        let context = Context::new();
        let server = script().run().await;
        let mut host = Host::start_initialized(context.bowline(["connect", &server.url()])).await;
        server.arm(
            Fault::response(CannedResponse::new(status).html("<h1>Bad Gateway</h1>"))
                .on_tool("counter")
                .executed(),
        );
        let answer = host.call("counter").await;
        assert_eq!(answer["error"]["data"]["bowline"]["execution"], "unknown", "{answer}");
        assert_eq!(server.executions("counter"), 1);
        assert_eq!(result_text(&host.call("counter").await), "2");
    }
}

/// HL-05: the standalone stream is optional, however it is refused.
#[tokio::test]
async fn hl_05_the_standalone_stream_is_optional() {
    for answer in [
        CannedResponse::new(405),
        CannedResponse::new(404).text("Not Found"),
        CannedResponse::new(409).text("Conflict"),
        CannedResponse::new(200).json(&json!({})),
    ] {
        let context = Context::new();
        let server = script().fault(Fault::response(answer).on("GET").always()).run().await;
        let mut host = Host::start_initialized(context.bowline(["connect", &server.url()])).await;
        for count in ["1", "2"] {
            assert_eq!(result_text(&host.call("counter").await), count);
        }
        assert_eq!(server.initialize_count(), 1);
    }
}

//! Malformed and out-of-order input of the host.

use bowline_gateway::Relay;
use bowline_testkit as testkit;
use serde_json::{Value, json};

use crate::support::{TestHost, result_text, server_at};

/// BM-03: what cannot be read is answered with an error that has no id, and the next message is served.
#[tokio::test]
async fn bm_03_garbage_is_answered_and_costs_nothing_but_itself() {
    let server = testkit::server().legacy().tool("echo").run().await;
    let mut host = TestHost::connect(&server).await;
    for (garbage, code) in [
        ("hello", -32700),
        ("{", -32700),
        ("[", -32700),
        ("\u{feff}{", -32700),
        ("[]", -32600),
        ("null", -32600),
    ] {
        host.send_line(garbage).await;
        let answer = host.next_message().await;
        assert_eq!(answer["error"]["code"], code, "{garbage}: {answer}");
        assert_eq!(answer.get("id"), None, "{answer}");
    }
    for silent in ["", "   ", "{}", r#"{"jsonrpc":"2.0"}"#] {
        host.send_line(silent).await;
    }
    assert!(host.is_silent().await, "what may be no request is not answered");
    assert_eq!(result_text(&host.call_tool(1, "echo", json!({})).await), "{}");
}

#[tokio::test]
async fn a_bad_message_that_names_its_id_is_answered() {
    let server = testkit::server().legacy().tool("echo").run().await;
    let mut host = TestHost::connect(&server).await;
    for (line, code) in [
        (r#"{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":}}"#, -32700),
        (r#"{"jsonrpc":"2.0","id":7,"method":"ping""#, -32700),
        (r#"{"jsonrpc":"2.0","id":7,"method":"ping","method":"pong"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":7}"#, -32600),
    ] {
        host.send_line(line).await;
        let answer = host.response(7).await;
        assert_eq!(answer["error"]["code"], code, "{line}");
    }
}

#[tokio::test]
async fn a_request_before_initialize_is_refused_and_a_ping_is_not() {
    let server = testkit::server().legacy().tool("echo").run().await;
    let mut host = TestHost::start(Relay::new(server_at(&server)));
    host.send_request(1, "tools/list", Value::Null).await;
    assert_eq!(host.response(1).await["error"]["code"], -32600);
    host.send_request(2, "ping", Value::Null).await;
    assert_eq!(host.response(2).await["result"], json!({}));
    host.send_notification("notifications/cancelled", json!({"requestId": 1})).await;
    host.send_notification("notifications/x", json!({})).await;
    host.send_line(r#"{"jsonrpc":"2.0","id":9,"result":{}}"#).await;
    assert!(host.is_silent().await);
    assert_eq!(server.connections(), 0);
    assert!(host.initialize(json!({})).await["result"].is_object());
}

/// BM-01: only 2025-03-26 has batches; each message in one is handled separately.
#[tokio::test]
async fn bm_01_a_batch_is_taken_apart() {
    let server = testkit::server().legacy().tool("echo").run().await;
    let mut host = TestHost::connect(&server).await;
    host.send_line(
        r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/x"},{"jsonrpc":"2.0","id":3},{"jsonrpc":"2.0","id":"b","method":"tools/call","params":{"name":"echo"}}]"#,
    )
    .await;
    assert_eq!(host.response(1).await["result"], json!({}));
    assert_eq!(host.response(3).await["error"]["code"], -32600);
    assert_eq!(result_text(&host.response("b").await), "{}");
}

#[tokio::test]
async fn a_second_request_with_an_open_id_is_refused_without_an_id() {
    let server = testkit::server().legacy().tool("slow").tool("echo").run().await;
    let mut host = TestHost::connect(&server).await;
    host.send_request(1, "tools/call", json!({"name": "slow", "arguments": {"ms": 200}})).await;
    host.send_request(1, "tools/call", json!({"name": "echo", "arguments": {"wrong": 1}})).await;
    let refusal = json!({"code": -32600, "message": "a request with this id is under way"});
    assert_eq!(host.next_message().await, json!({"jsonrpc": "2.0", "error": refusal}));
    assert!(!result_text(&host.response(1).await).contains("wrong"));
    assert!(host.is_silent().await);
    assert_eq!(server.executions("echo"), 0);
}

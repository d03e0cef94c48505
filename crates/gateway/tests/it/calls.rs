//! Requests of the host: ids, order, progress, cancellation, limits.

use std::time::Duration;

use bowline_gateway::{Relay, UNREACHABLE};
use bowline_testkit::{self as testkit, Fault};
use serde_json::{Value, json};

use crate::raw_server::RawServer;
use crate::support::{TEST_TIMEOUT, TestHost, result_text, server_at};

/// BM-03: value and type of an id come back unchanged.
#[tokio::test]
async fn bm_03_ids_of_all_kinds_come_back_as_they_were() {
    let server = testkit::server().legacy().tool("echo").run().await;
    let mut host = TestHost::connect(&server).await;
    for id in ["1", "\"1\"", "-7", "0", "1.50", "\"a\\u0062\"", "98765432109876543210"] {
        host.send_line(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"echo"}}}}"#
        ))
        .await;
        let line = host.read_line().await;
        assert!(line.starts_with(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result""#)), "{line}");
    }
}

#[tokio::test]
async fn requests_run_side_by_side_and_are_answered_as_they_end() {
    let server = testkit::server().legacy().tool("echo").tool("slow").run().await;
    let mut host = TestHost::connect(&server).await;
    host.send_request(1, "tools/call", json!({"name": "slow", "arguments": {"ms": 60_000}})).await;
    assert_eq!(result_text(&host.call_tool("1", "echo", json!({"b": 2})).await), r#"{"b":2}"#);
    // PG-01: the relay answers a ping itself.
    host.send_request(2, "ping", Value::Null).await;
    assert_eq!(host.response(2).await["result"], json!({}));
    assert_eq!(server.count("ping"), 0);
}

/// PR-01, PR-02: progress has the host's token, comes in order, and before the result.
#[tokio::test]
async fn pr_02_progress_comes_before_the_result_under_the_hosts_token() {
    for script in [testkit::server().legacy(), testkit::server().modern()] {
        let server = script.tool("slow").run().await;
        let mut host = TestHost::connect(&server).await;
        for token in [json!("tok"), json!(1)] {
            let params = json!({"name": "slow", "arguments": {"ms": 20, "steps": 5}, "_meta": {"progressToken": token}});
            host.send_request(1, "tools/call", params).await;
            let mut seen = Vec::new();
            loop {
                let message = host.next_message().await;
                if message["id"] == 1 {
                    break;
                }
                assert_eq!(message["method"], "notifications/progress");
                assert_eq!(message["params"]["progressToken"], token);
                seen.push(message["params"]["progress"].as_f64().unwrap());
            }
            assert!(seen.len() >= 5 && seen.is_sorted(), "{seen:?}");
        }
        // Without a token there is no progress.
        host.call_tool(2, "slow", json!({"ms": 20, "steps": 5})).await;
        assert!(host.is_silent().await);
    }
}

/// CN-01, CN-03: the server is notified, and the host gets no response.
#[tokio::test]
async fn cn_01_a_cancelled_request_is_cancelled_on_the_server() {
    let server = testkit::server().legacy().tool("slow").tool("echo").run().await;
    let mut host = TestHost::connect(&server).await;
    host.send_request("c", "tools/call", json!({"name": "slow", "arguments": {"ms": 60_000}})).await;
    server.wait_for(|received| received.tool() == Some("slow"), TEST_TIMEOUT).await;
    // An unknown id is ignored.
    host.send_notification("notifications/cancelled", json!({"requestId": "other"})).await;
    host.send_notification("notifications/cancelled", json!({"requestId": "c", "reason": "enough"})).await;
    server.wait_until(|server| !server.cancellations().is_empty(), TEST_TIMEOUT).await;
    assert!(host.is_silent().await);
    // The id is free again.
    assert_eq!(result_text(&host.call_tool("c", "echo", json!({})).await), "{}");
}

/// More requests than can run at once: the rest waits.
#[tokio::test]
async fn a_thousand_requests_at_once_are_all_answered() {
    let server = testkit::server().legacy().tool("slow").run().await;
    let mut host = TestHost::connect(&server).await;
    for id in 0..1000 {
        host.send_request(id, "tools/call", json!({"name": "slow", "arguments": {"ms": 200}})).await;
    }
    for id in 0..1000 {
        let answer = host.response(id).await;
        assert!(answer["result"].is_object(), "{answer}");
    }
    assert_eq!(server.executions("slow"), 1000);
    assert!(host.is_silent().await);
}

/// The maximum of running requests, all of them slow: the host is still read.
#[tokio::test]
async fn cn_01_cancellations_are_read_while_all_places_are_taken() {
    let server = testkit::server().legacy().tool("slow").tool("echo").run().await;
    let mut host = TestHost::connect(&server).await;
    for id in 0..512 {
        host.send_request(id, "tools/call", json!({"name": "slow", "arguments": {"ms": 600_000}})).await;
    }
    server.wait_for_nth(511, |received| received.tool() == Some("slow"), TEST_TIMEOUT).await;
    host.send_request("waits", "tools/call", json!({"name": "echo", "arguments": {"a": 1}})).await;
    host.send_request("taken back", "tools/call", json!({"name": "echo"})).await;
    host.send_notification("notifications/cancelled", json!({"requestId": "taken back"})).await;
    // A waiting request sends nothing, and a ping behind it is answered.
    assert!(host.is_silent().await);
    host.send_notification("notifications/cancelled", json!({"requestId": 7})).await;
    assert_eq!(result_text(&host.response("waits").await), r#"{"a":1}"#);
    server.wait_until(|server| server.cancellations().len() == 1, TEST_TIMEOUT).await;
    assert_eq!((server.executions("echo"), server.cancellations().len()), (1, 1));
    host.stop();
}

/// Requests beyond those that run and those that may wait are refused, and the host is still read.
#[tokio::test]
async fn requests_beyond_the_bound_are_refused_at_once() {
    let server = testkit::server().legacy().tool("slow").run().await;
    let mut host = TestHost::connect(&server).await;
    for id in 0..512 + 4096 {
        host.send_request(id, "tools/call", json!({"name": "slow", "arguments": {"ms": 600_000}})).await;
    }
    assert!(host.is_silent().await);
    host.send_request("beyond", "tools/list", json!({})).await;
    let refused = host.response("beyond").await;
    assert_eq!(refused["error"]["code"], UNREACHABLE);
    let facts = json!({"server": "testkit", "cause": "busy", "execution": "not_executed"});
    assert_eq!(refused["error"]["data"]["bowline"], facts);
    assert_eq!(server.count("tools/list"), 0);
    host.stop();
}

/// PR-02: progress takes another path through the client than other notifications.
#[tokio::test(flavor = "multi_thread")]
async fn notifications_and_progress_keep_their_order() {
    const PROGRESS: &str =
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":ID,"progress":1}}"#;
    const LOG: &str =
        r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}"#;
    let said = &[PROGRESS, LOG, LOG, PROGRESS, LOG, PROGRESS, PROGRESS, LOG, PROGRESS];
    let server = RawServer::start_with_messages(said, r#""result":{"content":[]}"#).await;
    let mut host = TestHost::start(Relay::new(server.server()));
    host.send_request("hello", "initialize", json!({"protocolVersion": "2025-06-18"})).await;
    // The result contains a number that most parsers reject, so it is not parsed.
    host.read_line().await;
    for id in 0..300 {
        host.send_request(id, "tools/call", json!({"name": "any", "_meta": {"progressToken": "mine"}})).await;
        for message in said {
            let heard = host.next_message().await;
            let is_progress = *message == PROGRESS;
            let method = if is_progress { "notifications/progress" } else { "notifications/message" };
            assert_eq!(heard["method"], method, "call {id}: {heard}");
            assert!(!is_progress || heard["params"]["progressToken"] == "mine", "{heard}");
        }
        assert_eq!(host.next_message().await["id"], id);
    }
}

/// PR-02 for every notification: it comes before the result that it preceded.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_said_before_a_result_comes_before_it() {
    const LOG: &str =
        r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}"#;
    const OTHER: &str = r#"{"jsonrpc":"2.0","method":"notifications/x-vendor"}"#;
    let server = RawServer::start_with_messages(&[LOG, OTHER], r#""result":{"content":[]}"#).await;
    let mut host = TestHost::start(Relay::new(server.server()));
    host.send_request("hello", "initialize", json!({"protocolVersion": "2025-06-18"})).await;
    // The result contains a number that most parsers reject, so it is not parsed.
    host.read_line().await;
    for id in 0..300 {
        host.send_request(id, "tools/call", json!({"name": "any"})).await;
        assert_eq!(host.next_message().await["method"], "notifications/message");
        assert_eq!(host.next_message().await["method"], "notifications/x-vendor");
        assert_eq!(host.next_message().await["id"], id);
    }
}

/// A configured timeout applies: a call is given up when it is silent for that long.
#[tokio::test]
async fn a_configured_timeout_holds() {
    let server = testkit::server().legacy().tool("slow").run().await;
    let reached = server_at(&server).with_idle_timeout(Duration::from_millis(300));
    let mut host = TestHost::start(Relay::new(reached));
    host.initialize(json!({})).await;
    let failed = host.call_tool(1, "slow", json!({"ms": 60_000})).await;
    assert_eq!(failed["error"]["data"]["bowline"]["cause"], "timeout", "{failed}");
    server.wait_until(|server| !server.cancellations().is_empty(), TEST_TIMEOUT).await;
}

#[tokio::test]
async fn ten_megabytes_pass_both_ways() {
    let server = testkit::server().legacy().tool("echo").tool("big").run().await;
    let mut host = TestHost::connect(&server).await;
    let large = "x".repeat(10_000_000);
    let answer = host.call_tool(1, "echo", json!({ "text": large })).await;
    assert_eq!(result_text(&answer).len(), large.len() + r#"{"text":""}"#.len());
    assert_eq!(result_text(&host.call_tool(2, "big", json!({"bytes": 10_000_000})).await).len(), 10_000_000);
}

#[tokio::test]
async fn a_call_that_may_have_run_says_so() {
    let server = testkit::server().legacy().tool("counter").run().await;
    let mut host = TestHost::connect(&server).await;
    server.arm(Fault::reset().on_tool("counter").executed());
    let failed = host.call_tool(1, "counter", json!({})).await;
    assert_eq!(failed["error"]["code"], UNREACHABLE);
    assert_eq!(failed["error"]["data"]["bowline"]["execution"], "unknown");
    assert_eq!(server.executions("counter"), 1);
    // The session of the host is not affected.
    assert_eq!(result_text(&host.call_tool(2, "counter", json!({})).await), "2");
}

#[tokio::test]
async fn params_that_are_no_object_are_refused_here() {
    let server = testkit::server().legacy().tool("echo").run().await;
    let mut host = TestHost::connect(&server).await;
    host.send_request(1, "tools/call", json!([1])).await;
    assert_eq!(host.response(1).await["error"]["code"], -32602);
    assert_eq!(server.count("tools/call"), 0);
}

#[tokio::test]
async fn what_the_host_says_unasked_reaches_the_server() {
    let server = testkit::server().legacy().tool("echo").run().await;
    let mut host = TestHost::connect(&server).await;
    host.send_notification("notifications/roots/list_changed", json!({})).await;
    host.send_notification("notifications/x-vendor", json!({"a": 1})).await;
    let seen = server.wait_for(|received| received.has_method("notifications/x-vendor"), TEST_TIMEOUT).await;
    assert_eq!(seen.params(), &json!({"a": 1}));
    assert_eq!(server.count("notifications/roots/list_changed"), 1);
}

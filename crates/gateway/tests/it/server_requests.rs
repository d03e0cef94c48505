//! Server requests, which the host answers.

use std::time::Duration;

use bowline_gateway::{Gateway, Relay};
use bowline_testkit::{self as testkit, ReceivedMessage};
use serde_json::{Value, json};

use crate::support::{TEST_TIMEOUT, TestHost, result_text, server_at};

fn all_capabilities() -> Value {
    json!({"roots": {"listChanged": true}, "sampling": {}, "elicitation": {}})
}

/// Each request is forwarded and answered, in both eras.
#[tokio::test]
async fn roots_sampling_and_elicitation_reach_the_host() {
    for script in [testkit::server().legacy(), testkit::server().modern()] {
        let server = script.tool("ask").run().await;
        let mut host = TestHost::connect_with(&server, all_capabilities()).await;
        for (method, params, result) in [
            ("roots/list", json!({}), json!({"roots": [{"uri": "file:///a", "x": 1}]})),
            (
                "sampling/createMessage",
                json!({"messages": [], "maxTokens": 1, "x-vendor": true}),
                json!({"role": "assistant", "content": {"type": "text", "text": "hi"}, "model": "m"}),
            ),
            (
                "elicitation/create",
                json!({"message": "?", "requestedSchema": {"type": "object", "properties": {}}}),
                json!({"action": "accept", "content": {}}),
            ),
        ] {
            host.send_request(
                1,
                "tools/call",
                json!({"name": "ask", "arguments": {"method": method, "params": params}}),
            )
            .await;
            let asked = host.next_server_request().await;
            assert_eq!(asked["method"], method);
            assert_eq!(asked["params"], params);
            host.send_line(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": result}).to_string()).await;
            let answer = host.response(1).await;
            assert!(result_text(&answer).contains(&result.to_string()), "{answer}");
        }
    }
}

/// The ids of the host, of the server and of the relay are independent.
#[tokio::test]
async fn the_same_id_on_both_sides_is_two_requests() {
    let server = testkit::server().legacy().tool("slow").run().await;
    let mut host = TestHost::connect_with(&server, all_capabilities()).await;
    for id in [0, 1] {
        host.send_request(id, "tools/call", json!({"name": "slow", "arguments": {"ms": 60_000}})).await;
    }
    server.wait_for_nth(1, |received| received.tool() == Some("slow"), TEST_TIMEOUT).await;
    for id in [json!(0), json!(1), json!("1")] {
        server.send(json!({"jsonrpc": "2.0", "id": id, "method": "roots/list"})).await;
        let asked = host.next_server_request().await;
        host.send_line(
            &json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"roots": [], "for": id}}).to_string(),
        )
        .await;
        let got = server
            .wait_for(|received| received.has_method("response") && received.body["id"] == id, TEST_TIMEOUT)
            .await;
        assert_eq!(got.body["result"], json!({"roots": [], "for": id}));
    }
    // None was taken for a response to a request of the host.
    assert!(host.is_silent().await);
}

#[tokio::test]
async fn the_hosts_error_is_the_servers_answer() {
    let server = testkit::server().legacy().tool("echo").run().await;
    let mut host = TestHost::connect_with(&server, all_capabilities()).await;
    let asking = tokio::spawn({
        let server = server.control();
        async move { server.request("sampling/createMessage", json!({"messages": []})).await }
    });
    let asked = host.next_server_request().await;
    let error = json!({"code": -1, "message": "no", "data": {"a": 1}});
    host.send_line(&json!({"jsonrpc": "2.0", "id": asked["id"], "error": error}).to_string()).await;
    assert_eq!(asking.await.unwrap()["error"], error);
}

/// CN-04: a cancellation by the server reaches the host.
#[tokio::test]
async fn cn_04_a_request_that_the_server_takes_back_is_taken_back_from_the_host() {
    let server = testkit::server().legacy().tool("echo").run().await;
    let mut host = TestHost::connect_with(&server, all_capabilities()).await;
    server.send(json!({"jsonrpc": "2.0", "id": "s", "method": "roots/list"})).await;
    let asked = host.next_server_request().await;
    server
        .send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "s"}}))
        .await;
    let cancelled = host.notification("notifications/cancelled").await;
    assert_eq!(cancelled["params"]["requestId"], asked["id"]);
    // A late response of the host is dropped.
    host.send_line(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"roots": []}}).to_string()).await;
    assert!(host.is_silent().await);
    assert_eq!(server.count("response"), 0);
}

/// A host that cancels a call need not answer what the server asked because of it.
#[tokio::test]
async fn a_question_ends_with_the_call_that_the_host_cancels() {
    for is_relayed in [true, false] {
        let server = testkit::server().legacy().tool("slow").run().await;
        let mut host = if is_relayed {
            TestHost::connect_with(&server, all_capabilities()).await
        } else {
            TestHost::join_with(&Gateway::builder([server_at(&server)]).build(), all_capabilities()).await
        };
        for id in [1, 2] {
            host.send_request(id, "tools/call", json!({"name": "slow", "arguments": {"ms": 60_000}})).await;
        }
        server.wait_for_nth(1, |received| received.tool() == Some("slow"), TEST_TIMEOUT).await;
        let asking = tokio::spawn({
            let server = server.control();
            async move { server.request("sampling/createMessage", json!({"messages": []})).await }
        });
        let asked = host.next_server_request().await;
        // The question may be about the other call.
        host.send_notification("notifications/cancelled", json!({"requestId": 2})).await;
        let is_canceled = |received: &ReceivedMessage| received.has_method("notifications/cancelled");
        server.wait_for(is_canceled, TEST_TIMEOUT).await;
        assert!(host.is_silent().await);
        assert_eq!(server.count("response"), 0);
        host.send_notification("notifications/cancelled", json!({"requestId": 1})).await;
        let canceled = host.notification("notifications/cancelled").await;
        assert_eq!(canceled["params"]["requestId"], asked["id"]);
        assert_eq!(asking.await.unwrap()["error"]["message"], "the host has canceled the call");
    }
}

/// A server does not wait forever for a host that leaves its request unanswered.
#[tokio::test]
async fn a_host_that_does_not_answer_is_asked_no_longer() {
    let server = testkit::server().legacy().tool("echo").run().await;
    let reached = server_at(&server).with_timeout(Duration::from_millis(300));
    let mut host = TestHost::start(Relay::new(reached));
    host.initialize(all_capabilities()).await;
    let answer = server.request("sampling/createMessage", json!({"messages": []})).await;
    assert_eq!(answer["error"]["message"], "the host did not answer in time", "{answer}");
    let asked = host.next_server_request().await;
    let cancelled = host.notification("notifications/cancelled").await;
    assert_eq!(cancelled["params"]["requestId"], asked["id"]);
}

/// PR-01: the host gets our token, the server its own.
#[tokio::test]
async fn progress_of_a_servers_request_goes_back_under_its_own_token() {
    let server = testkit::server().legacy().tool("echo").run().await;
    let mut host = TestHost::connect_with(&server, all_capabilities()).await;
    let params = json!({"messages": [], "_meta": {"progressToken": "theirs", "a": 1}});
    server
        .send(json!({"jsonrpc": "2.0", "id": 77, "method": "sampling/createMessage", "params": params}))
        .await;
    let asked = host.next_server_request().await;
    let token = asked["params"]["_meta"]["progressToken"].clone();
    assert_eq!((&token, &asked["params"]["_meta"]["a"]), (&asked["id"], &json!(1)));
    host.send_notification("notifications/progress", json!({"progressToken": "foreign", "progress": 1}))
        .await;
    host.send_notification("notifications/progress", json!({"progressToken": token, "progress": 0.5})).await;
    let got = server.wait_for(|received| received.has_method("notifications/progress"), TEST_TIMEOUT).await;
    assert_eq!(got.params(), &json!({"progressToken": "theirs", "progress": 0.5}));
}

/// LC-05: a host without capabilities gets no server requests.
#[tokio::test]
async fn lc_05_what_the_host_did_not_declare_is_refused_for_it() {
    let server = testkit::server().legacy().tool("echo").run().await;
    let mut host = TestHost::connect(&server).await;
    let answer = server.request("roots/list", json!({})).await;
    assert_eq!(answer["error"]["code"], -32601);
    assert!(host.is_silent().await);
}

/// A server request waits until the host has said that it is ready.
#[tokio::test]
async fn the_host_is_not_asked_before_it_is_ready() {
    let server = testkit::server().legacy().tool("echo").run().await;
    let mut host = TestHost::start(Relay::new(server_at(&server)));
    host.send_request(
        1,
        "initialize",
        json!({"protocolVersion": "2025-11-25", "capabilities": all_capabilities()}),
    )
    .await;
    host.response(1).await;
    server.send(json!({"jsonrpc": "2.0", "id": "early", "method": "roots/list"})).await;
    assert!(host.is_silent().await);
    host.send_line(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
    assert_eq!(host.next_server_request().await["method"], "roots/list");
}

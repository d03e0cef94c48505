//! Calls: each reaches its server, under the server's own name, and comes back as it was.

use std::time::Duration;

use bowline_testkit as testkit;
use serde_json::{Value, json};

use super::{at, gateway};
use crate::support::{TEST_TIMEOUT, TestHost, result_text};

/// GW-14: names are those of the server on its side.
#[tokio::test]
async fn gw_14_a_call_reaches_the_server_that_it_names() {
    let one = testkit::server().legacy().tool("counter").tool("files.read").run().await;
    let two = testkit::server().modern().tool("counter").run().await;
    let mut host = TestHost::join_with(&gateway([at("one", &one), at("two", &two)]), json!({})).await;
    assert_eq!(host.tools().await, ["one__counter", "files_read", "two__counter"]);
    result_text(&host.call_tool(1, "two__counter", json!({"a": 1})).await);
    assert_eq!((one.executions("counter"), two.executions("counter")), (0, 1));
    result_text(&host.call_tool(2, "files_read", json!({"p": 1.0})).await);
    assert_eq!(one.executions("files.read"), 1);
    let answer = host.call_tool(3, "counter", json!({})).await;
    assert_eq!(answer["error"]["code"], -32602);
    assert_eq!(
        answer["error"]["message"],
        "Unknown tool: counter; it is now called one__counter or two__counter"
    );
    assert_eq!((one.executions("counter"), two.executions("counter")), (0, 1));
}

/// PR-02: progress has the host's token and comes before the result.
#[tokio::test]
async fn pr_02_progress_reaches_the_host_before_the_result() {
    let one = testkit::server().legacy().tool("slow").run().await;
    let two = testkit::server().legacy().tool("echo").run().await;
    let mut host = TestHost::join_with(&gateway([at("one", &one), at("two", &two)]), json!({})).await;
    let params =
        json!({"name": "slow", "arguments": {"ms": 20, "steps": 5}, "_meta": {"progressToken": "tok"}});
    host.send_request(1, "tools/call", params).await;
    let mut seen = Vec::new();
    loop {
        let message = host.next_message().await;
        if message["id"] == 1 {
            break;
        }
        assert_eq!(message["method"], "notifications/progress");
        assert_eq!(message["params"]["progressToken"], "tok");
        seen.push(message["params"]["progress"].as_f64().expect("a number"));
    }
    assert!(seen.len() >= 5 && seen.is_sorted(), "{seen:?}");
}

/// CN-01: a cancellation reaches the server that runs the call, under its id, and no other.
#[tokio::test]
async fn cn_01_a_cancellation_reaches_exactly_the_server_that_runs_the_call() {
    let one = testkit::server().legacy().tool("slow").run().await;
    let two = testkit::server().legacy().tool("echo").run().await;
    let mut host = TestHost::join_with(&gateway([at("one", &one), at("two", &two)]), json!({})).await;
    host.send_request("c", "tools/call", json!({"name": "slow", "arguments": {"ms": 600_000}})).await;
    let call = one.wait_for(|received| received.tool() == Some("slow"), TEST_TIMEOUT).await;
    host.send_notification("notifications/cancelled", json!({"requestId": "c"})).await;
    one.wait_until(|server| !server.cancellations().is_empty(), TEST_TIMEOUT).await;
    assert_eq!(one.cancellations(), [call.body["id"].clone()]);
    assert_eq!(two.cancellations(), [Value::Null; 0]);
    assert!(host.is_silent().await, "a canceled request has no response");
}

/// A host that leaves cancels what it left behind.
#[tokio::test]
async fn calls_of_a_host_that_is_stopped_are_canceled() {
    let one = testkit::server().legacy().tool("slow").run().await;
    let mut host = TestHost::join_with(&gateway([at("one", &one)]), json!({})).await;
    host.send_request("c", "tools/call", json!({"name": "slow", "arguments": {"ms": 600_000}})).await;
    let call = one.wait_for(|received| received.tool() == Some("slow"), TEST_TIMEOUT).await;
    host.stop();
    let answers = host.close().await;
    let facts = json!({"cause": "closed", "execution": "unknown"});
    assert_eq!((answers.len(), &answers[0]["id"]), (1, &json!("c")), "{answers:?}");
    assert_eq!(answers[0]["error"]["data"]["bowline"], facts);
    assert_eq!(one.cancellations(), [call.body["id"].clone()]);
    assert_eq!(one.sessions().len(), 0, "the session was ended on the server");
}

/// A server that is slow to begin a session is left with none.
#[tokio::test]
async fn a_session_that_a_server_is_about_to_begin_is_ended() {
    let slow = testkit::Fault::delay(Duration::from_millis(1_500)).on("initialize");
    let one = testkit::server().legacy().tool("echo").fault(slow).run().await;
    // The host is answered before the server has answered, and leaves.
    let host = TestHost::join_with(&gateway([at("one", &one)]), json!({})).await;
    assert_eq!(one.initialize_count(), 1);
    host.close().await;
    assert_eq!((one.sessions().len(), one.count("DELETE")), (0, 1));
}

/// GW-14: two hosts with the same ids do not hear of each other.
#[tokio::test]
async fn gw_14_two_hosts_with_equal_ids_do_not_collide() {
    let server = testkit::server().legacy().tool("echo").tool("slow").run().await;
    let gateway = gateway([at("one", &server)]);
    let mut first = TestHost::join_with(&gateway, json!({})).await;
    let mut second = TestHost::join_with(&gateway, json!({})).await;
    let slow = json!({"name": "slow", "arguments": {"ms": 600_000}, "_meta": {"progressToken": 1}});
    first.send_request(1, "tools/call", slow).await;
    server.wait_for(|received| received.tool() == Some("slow"), TEST_TIMEOUT).await;
    assert_eq!(result_text(&second.call_tool(1, "echo", json!({"b": 2})).await), r#"{"b":2}"#);
    second.send_notification("notifications/cancelled", json!({"requestId": 1})).await;
    assert!(second.is_silent().await);
    assert_eq!(server.cancellations(), [Value::Null; 0], "the call of the other host goes on");
}

#[tokio::test]
async fn methods_of_extensions_pass_to_the_only_server_and_are_unknown_with_two() {
    let server = testkit::server().legacy().tool("echo").run().await;
    let mut host = TestHost::join_with(&gateway([at("one", &server)]), json!({})).await;
    host.send_request(1, "com.example/do", json!({"x": 1.0})).await;
    assert_eq!(host.response(1).await["error"]["code"], -32601);
    assert_eq!(server.count("com.example/do"), 1);
    let both = gateway([at("one", &server), at("two", &server)]);
    let mut host = TestHost::join_with(&both, json!({})).await;
    host.send_request(1, "com.example/do", json!({})).await;
    let answer = host.response(1).await;
    assert_eq!(answer["error"], json!({"code": -32601, "message": "Method not found: com.example/do"}));
    assert_eq!(server.count("com.example/do"), 1);
}

#[tokio::test]
async fn prompts_and_completions_reach_their_server() {
    let one = testkit::server().legacy().prompt("greet", "one").run().await;
    let two = testkit::server().modern().prompt("greet", "two").run().await;
    let mut host = TestHost::join_with(&gateway([at("one", &one), at("two", &two)]), json!({})).await;
    let prompt = host.result("prompts/get", json!({"name": "two__greet"})).await;
    assert!(prompt["messages"].to_string().contains("two"), "{prompt}");
    let reference = json!({"type": "ref/prompt", "name": "one__greet"});
    host.send_request(
        1,
        "completion/complete",
        json!({"ref": reference, "argument": {"name": "n", "value": "v"}}),
    )
    .await;
    host.response(1).await;
    let asked = one.received_with_method("completion/complete").pop().expect("it was asked");
    assert_eq!(asked.params()["ref"]["name"], "greet");
    assert_eq!(two.count("completion/complete"), 0);
}

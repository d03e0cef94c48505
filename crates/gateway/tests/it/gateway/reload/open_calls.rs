//! Calls that are open on a server while its configuration changes.

use std::time::Duration;

use super::*;

/// Makes a tool ask the host something, and returns the question. The call goes on when the host
/// answers.
async fn begin_call(host: &mut TestHost, id: u64) -> Value {
    let question = json!({"message": "which?", "requestedSchema": {"type": "object", "properties": {}}});
    let arguments = json!({"method": "elicitation/create", "params": question});
    host.send_request(id, "tools/call", json!({"name": "ask", "arguments": arguments})).await;
    host.next_server_request().await
}

async fn finish_call(host: &mut TestHost, question: &Value, id: u64) {
    let declined = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}});
    host.send_line(&declined.to_string()).await;
    let answer = host.response(id).await;
    assert!(result_text(&answer).contains("decline"), "{answer}");
}

#[tokio::test]
async fn a_call_on_a_removed_server_ends_with_its_result_and_then_the_process() {
    let process = testkit::server().legacy().tool("ask").stdio().await;
    let kept = testkit::server().legacy().tool("echo").run().await;
    let gateway = gateway([program("process", &process), at("kept", &kept)]);
    let mut host = TestHost::join_with(&gateway, json!({"elicitation": {}})).await;
    let question = begin_call(&mut host, 1).await;
    gateway.reload([at("kept", &kept)]);
    unknown_tool(&mut host, "ask").await;
    assert_eq!(host.tools().await, ["echo"]);
    assert!(process.processes()[0].is_running());
    finish_call(&mut host, &question, 1).await;
    assert!(testkit::wait_for_exit(process.pid().expect("it ran"), TEST_TIMEOUT).await);
    assert_eq!(process.processes().len(), 1);
    assert_eq!(process.cancellations(), [Value::Null; 0]);
}

#[tokio::test]
async fn a_call_on_a_changed_server_ends_on_the_old_connection() {
    let server = testkit::server().legacy().tool("ask").tool("counter").run().await;
    let configured = at("one", &server);
    let gateway = gateway([with_header(&configured, "1")]);
    let mut host = TestHost::join_with(&gateway, json!({"elicitation": {}})).await;
    let question = begin_call(&mut host, 1).await;
    gateway.reload([with_header(&configured, "2")]);
    assert_eq!(result_text(&host.call_tool(2, "counter", json!({})).await), "1");
    let called = server.received_with_method("tools/call");
    let versions: Vec<_> =
        called.iter().map(|call| (call.tool().unwrap(), call.header("x-version").unwrap())).collect();
    assert_eq!(versions, [("ask", "1"), ("counter", "2")]);
    assert_eq!(server.sessions().len(), 2);
    finish_call(&mut host, &question, 1).await;
    server.wait_until(|server| server.sessions().len() == 1, TEST_TIMEOUT).await;
    assert_eq!(server.cancellations(), [Value::Null; 0]);
    // What it kept for the next call is on the new connection.
    assert_eq!(result_text(&host.call_tool(3, "counter", json!({})).await), "2");
    assert_eq!(server.initialize_count(), 2);
}

/// Several changes while a call is open: each old connection ends after its own calls.
#[tokio::test]
async fn old_connections_of_several_changes_end_one_by_one() {
    let server = testkit::server().legacy().tool("ask").run().await;
    let configured = at("one", &server);
    let gateway = gateway([with_header(&configured, "0")]);
    let mut host = TestHost::join_with(&gateway, json!({"elicitation": {}})).await;
    let mut questions = Vec::new();
    for version in 0..4_u64 {
        gateway.reload([with_header(&configured, &version.to_string())]);
        questions.push((begin_call(&mut host, version).await, version));
    }
    assert_eq!(server.sessions().len(), 4);
    for (left, (question, id)) in (1..=3).rev().zip(&questions) {
        finish_call(&mut host, question, *id).await;
        server.wait_until(move |server| server.sessions().len() == left, TEST_TIMEOUT).await;
    }
    finish_call(&mut host, &questions[3].0, 3).await;
    assert_eq!(server.sessions().len(), 1);
}

#[tokio::test]
async fn a_call_that_does_not_end_is_ended_after_the_drain_timeout() {
    let server = testkit::server().legacy().tool("slow").run().await;
    let gateway = Gateway::builder([at("one", &server)]).drain_timeout(Duration::from_millis(50)).build();
    let mut host = TestHost::join_with(&gateway, json!({})).await;
    host.send_request(1, "tools/call", json!({"name": "slow", "arguments": {"ms": 600_000}})).await;
    server.wait_for(|received| received.tool() == Some("slow"), TEST_TIMEOUT).await;
    gateway.reload([]);
    let answer = host.response(1).await;
    assert_eq!(answer["error"]["data"]["bowline"]["execution"], "unknown", "{answer}");
    server.wait_until(|server| server.sessions().is_empty(), TEST_TIMEOUT).await;
}

/// An old connection that sessions shared is closed when the last of them has ended.
#[tokio::test]
async fn the_end_of_the_last_host_closes_shared_old_connections() {
    let server = testkit::server().legacy().tool("slow").run().await;
    let shared = at("one", &server).with_share(bowline::config::Share::All);
    let gateway = gateway([shared]);
    let (mut one, mut two) =
        (TestHost::join_with(&gateway, json!({})).await, TestHost::join_with(&gateway, json!({})).await);
    for (number, host) in [&mut one, &mut two].into_iter().enumerate() {
        host.send_request(1, "tools/call", json!({"name": "slow", "arguments": {"ms": 600_000}})).await;
        server.wait_for_nth(number, |received| received.tool() == Some("slow"), TEST_TIMEOUT).await;
    }
    gateway.reload([]);
    one.stop();
    one.close().await;
    assert_eq!(server.sessions().len(), 1, "a call of the other host is open");
    two.stop();
    two.close().await;
    assert_eq!((server.sessions().len(), server.initialize_count()), (0, 1));
}

/// A session that ends takes its old connections along, and waits for no others.
#[tokio::test]
async fn a_host_that_leaves_ends_its_calls_on_old_connections() {
    let process = testkit::server().legacy().tool("ask").stdio().await;
    let gateway = gateway([program("process", &process)]);
    let mut staying = TestHost::join_with(&gateway, json!({"elicitation": {}})).await;
    let stays = begin_call(&mut staying, 1).await;
    let stays_in = process.pid().expect("it runs");
    let mut leaving = TestHost::join_with(&gateway, json!({"elicitation": {}})).await;
    begin_call(&mut leaving, 1).await;
    let leaves_with = process.pid().expect("it runs");
    gateway.reload([]);
    leaving.stop();
    leaving.close().await;
    assert!(testkit::wait_for_exit(leaves_with, TEST_TIMEOUT).await);
    finish_call(&mut staying, &stays, 1).await;
    assert!(testkit::wait_for_exit(stays_in, TEST_TIMEOUT).await);
}

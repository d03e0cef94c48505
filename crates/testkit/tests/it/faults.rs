//! Each injected fault over HTTP, as a client sees it.

use crate::support::{Client, Reply, TEST_TIMEOUT, request, within_timeout};
use bowline_testkit::{self as testkit, CannedResponse, Fault, Tool};
use serde_json::json;
use std::time::{Duration, Instant};

async fn armed(fault: Fault) -> (testkit::HttpServer, Client) {
    let server = testkit::server().tool("echo").tool("counter").tool(Tool::like("big", "big")).run().await;
    let client = Client::legacy(server.addr()).await;
    server.arm(fault);
    (server, client)
}

async fn count(client: &Client) -> Result<Reply, String> {
    client.try_post(&request(5, "tools/call", json!({"name": "counter", "arguments": {}}))).await
}

#[tokio::test]
async fn status_faults_strike_as_often_as_armed() {
    let answer = CannedResponse::new(503).header("retry-after", "1").html("<h1>busy</h1>");
    let (server, client) = armed(Fault::response(answer).on("tools/call").times(2)).await;
    assert_eq!(client.post(&request(1, "ping", json!({}))).await.status, 200);
    for _ in 0..2 {
        let reply = count(&client).await.unwrap();
        assert_eq!((reply.status, reply.text().as_str()), (503, "<h1>busy</h1>"));
        assert_eq!(reply.header("retry-after"), Some("1"));
    }
    assert_eq!(server.executions("counter"), 0);
    assert_eq!(count(&client).await.unwrap().status, 200);
    assert!(server.armed_faults().is_empty());
}

#[tokio::test]
async fn status_after_execution() {
    let (server, client) = armed(Fault::status(502).on_tool("counter").executed()).await;
    client.call("echo", json!({})).await;
    assert_eq!(count(&client).await.unwrap().status, 502);
    assert_eq!(server.executions("counter"), 1);
}

#[tokio::test]
async fn cut_json_breaks_at_the_byte() {
    for bytes in [0, 1, 30] {
        let (server, client) = armed(Fault::cut_after(bytes).on("tools/call")).await;
        let reply = count(&client).await.unwrap();
        assert!(reply.broken);
        assert_eq!(reply.body.len() as u64, bytes);
        assert_eq!(server.executions("counter"), 1);
        assert_eq!(count(&client).await.unwrap().last()["id"], 5);
    }
}

#[tokio::test]
async fn cut_stream_breaks_at_the_byte() {
    let (server, client) = armed(Fault::cut_after(25).on("tools/call")).await;
    server.edit(testkit::Script::reply_sse);
    let reply = count(&client).await.unwrap();
    assert!(reply.broken);
    assert_eq!(reply.body.len(), 25);
    assert!(reply.text().starts_with("event: message\ndata: {"));
}

#[tokio::test]
async fn cut_deep_inside_a_large_answer() {
    let (_server, client) = armed(Fault::cut_after(1_000_000).on("tools/call")).await;
    let big = request(1, "tools/call", json!({"name": "big", "arguments": {"bytes": 2_000_000}}));
    let reply = client.post(&big).await;
    assert!(reply.broken);
    assert_eq!(reply.body.len(), 1_000_000);
}

#[tokio::test]
async fn reset_before_and_after_execution() {
    for (fault, executions) in [(Fault::reset(), 0), (Fault::reset().executed(), 1)] {
        let (server, client) = armed(fault.on("tools/call")).await;
        let error = count(&client).await.unwrap_err();
        assert!(error.contains("reset"), "{error}");
        assert_eq!(server.executions("counter"), executions);
        assert_eq!(count(&client).await.unwrap().status, 200);
    }
}

#[tokio::test]
async fn close_sends_nothing() {
    let (server, client) = armed(Fault::close().on("tools/call")).await;
    let error = count(&client).await.unwrap_err();
    assert!(error.contains("closed"), "{error}");
    assert_eq!(server.executions("counter"), 0);
}

#[tokio::test]
async fn reset_on_accept_reads_nothing() {
    let (server, client) = armed(Fault::reset().on("accept")).await;
    let before = (server.received().len(), server.connections());
    count(&client).await.unwrap_err();
    assert_eq!((server.received().len(), server.connections()), (before.0, before.1 + 1));
    assert_eq!(count(&client).await.unwrap().status, 200);
}

#[tokio::test]
async fn silence_holds_the_connection() {
    let (server, client) = armed(Fault::silent().on("tools/call")).await;
    let message = request(5, "tools/call", json!({"name": "counter"})).to_string().into_bytes();
    let mut waiting = Box::pin(client.open("POST", message));
    tokio::select! {
        _ = &mut waiting => panic!("silence was broken"),
        _ = server.wait_for(|r| r.tool() == Some("counter"), TEST_TIMEOUT) => {}
    }
    // Other requests are answered meanwhile, and the silent one ends with the server.
    client.call("echo", json!({})).await;
    server.stop().await;
    assert!(within_timeout(waiting).await.is_err());
    assert_eq!(server.executions("counter"), 0);
}

#[tokio::test]
async fn delay_adds_up_with_other_faults() {
    let (server, client) = armed(Fault::delay(Duration::from_millis(60)).on("tools/call")).await;
    server.arm(Fault::delay(Duration::from_millis(40)).on("tools/call").executed());
    server.arm(Fault::error(-32000, "later").on("tools/call").executed());
    let start = Instant::now();
    let reply = count(&client).await.unwrap();
    assert!(start.elapsed() >= Duration::from_millis(100));
    assert_eq!(reply.message()["error"], json!({"code": -32000, "message": "later"}));
    assert_eq!(server.executions("counter"), 1);
}

#[tokio::test]
async fn raw_replaces_the_body() {
    let (server, client) = armed(Fault::raw(b"\xff{not json".to_vec()).on("tools/call")).await;
    let reply = count(&client).await.unwrap();
    assert_eq!((reply.status, reply.body.as_slice()), (200, &b"\xff{not json"[..]));
    server.arm(Fault::raw_as("text/event-stream", ": hm\n\ndata: {}\n\n"));
    let reply = count(&client).await.unwrap();
    assert!(reply.is_sse());
    assert_eq!(reply.messages(), [json!({})]);
}

#[tokio::test]
async fn sessions_vanish_under_a_request() {
    let (server, client) = armed(Fault::drop_sessions().on("tools/call")).await;
    assert_eq!(count(&client).await.unwrap().status, 404);
    assert_eq!(server.executions("counter"), 0);
    assert!(server.sessions().is_empty());
}

#[tokio::test]
async fn result_and_error_are_replaced() {
    let (server, client) = armed(Fault::reply(json!({"odd": true})).on("tools/call")).await;
    assert_eq!(count(&client).await.unwrap().message()["result"], json!({"odd": true}));
    server.arm(Fault::error_with_data(-32022, "no", &json!({"supported": []})));
    let reply = count(&client).await.unwrap();
    assert_eq!(reply.message()["error"]["data"], json!({"supported": []}));
    assert_eq!(reply.message()["id"], 5);
    server.edit(testkit::Script::reply_sse);
    server.arm(Fault::error(-1, "no"));
    let reply = count(&client).await.unwrap();
    assert!(reply.is_sse());
    assert_eq!(reply.last()["error"]["code"], -1);
    assert_eq!(server.executions("counter"), 1);
}

#[tokio::test]
async fn get_and_delete_can_be_struck() {
    let (server, client) = armed(Fault::status(409).on("GET")).await;
    server.arm(Fault::status(500).on("DELETE"));
    assert_eq!(client.try_send("GET", Vec::new()).await.unwrap().status, 409);
    assert_eq!(client.try_send("DELETE", Vec::new()).await.unwrap().status, 500);
    assert_eq!(server.sessions().len(), 1);
}

#[tokio::test]
async fn disarm_takes_faults_back() {
    let (server, client) = armed(Fault::status(500).always()).await;
    for _ in 0..3 {
        assert_eq!(count(&client).await.unwrap().status, 500);
    }
    server.disarm();
    assert_eq!(count(&client).await.unwrap().status, 200);
}

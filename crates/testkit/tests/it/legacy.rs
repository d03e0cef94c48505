//! The handshake era over Streamable HTTP, without faults.

use crate::support::{Client, TEST_TIMEOUT, initialize, messages, next_chunk, request, within_timeout};
use bowline_testkit::{self as testkit, CannedResponse, Cursors, StreamKind, Tool, rpc};
use serde_json::{Value, json};
use std::time::Duration;

#[tokio::test]
async fn echoes_a_known_version_and_counters_an_unknown_one() {
    let server = testkit::server().legacy().run().await;
    let client = Client::new(server.addr());
    for version in testkit::LEGACY_VERSIONS {
        let reply = client.post(&initialize(version)).await;
        assert_eq!(reply.message()["result"]["protocolVersion"], version);
    }
    let reply = client.post(&initialize("1999-01-01")).await;
    assert_eq!(reply.message()["result"]["protocolVersion"], "2025-11-25");
    assert_eq!(server.initialize_count(), 5);

    let pinned = testkit::server().legacy_only("2025-03-26").run().await;
    let reply = Client::new(pinned.addr()).post(&initialize("2025-11-25")).await;
    assert_eq!(reply.message()["result"]["protocolVersion"], "2025-03-26");
}

// HL-02, HL-03, HL-04
#[tokio::test]
async fn sessions_are_required_known_and_deletable() {
    let server = testkit::server().tool("echo").run().await;
    let client = Client::legacy(server.addr()).await;
    assert_eq!(client.call("echo", json!({"x": 1})).await, r#"{"x":1}"#);
    assert_eq!(server.sessions().len(), 1);
    assert!(server.sessions()[0].initialized);

    let ping = request(1, "ping", json!({}));
    let without = Client::new(server.addr()).post(&ping).await;
    assert_eq!(without.status, 400);
    let unknown = Client::new(server.addr()).with_header("mcp-session-id", "nobody").post(&ping).await;
    assert_eq!(unknown.status, 404);
    assert_eq!(unknown.message()["error"]["code"], -32001);

    assert_eq!(client.try_send("DELETE", Vec::new()).await.unwrap().status, 200);
    assert_eq!(client.post(&ping).await.status, 404);
    assert!(server.sessions().is_empty());
    assert_eq!(server.violations(), Vec::<String>::new());
}

#[tokio::test]
async fn a_lost_session_is_answered_as_scripted() {
    let gone = CannedResponse::new(200).json(&json!({
        "jsonrpc": "2.0", "id": "$id", "error": {"code": -32600, "message": "no such session"},
    }));
    let server = testkit::server().unknown_session_response(gone).run().await;
    let client = Client::legacy(server.addr()).await;
    server.drop_sessions();
    let reply = client.post(&request(41, "ping", json!({}))).await;
    assert_eq!((reply.status, reply.message()["id"].clone()), (200, json!(41)));
    let reply = client.post(&request("a", "ping", json!({}))).await;
    assert_eq!(reply.message()["id"], "a");
}

#[tokio::test]
async fn idle_sessions_expire() {
    let server = testkit::server().session_idle_timeout(Duration::ZERO).run().await;
    let reply = Client::new(server.addr()).post(&initialize("2025-11-25")).await;
    let session = reply.header("mcp-session-id").unwrap().to_owned();
    let client = Client::new(server.addr()).with_header("mcp-session-id", &session);
    assert_eq!(client.post(&request(1, "ping", json!({}))).await.status, 404);
}

#[tokio::test]
async fn sessionless_servers_give_no_id() {
    let server = testkit::server().tool("echo").sessionless().run().await;
    let client = Client::legacy(server.addr()).await;
    assert!(client.headers.iter().all(|(name, _)| name != "mcp-session-id"));
    client.call("echo", json!({})).await;
    assert_eq!(client.try_send("DELETE", Vec::new()).await.unwrap().status, 405);
}

#[tokio::test]
async fn built_in_tools_do_what_they_say() {
    let server = testkit::server()
        .tool("add")
        .tool("fail")
        .tool("big")
        .tool("counter")
        .tool("structured")
        .tool(Tool::like("charge", "counter").idempotent())
        .tool_fn("twice", json!({"type": "object"}), |args| json!(args["n"].as_i64().unwrap() * 2))
        .run()
        .await;
    let client = Client::legacy(server.addr()).await;
    assert_eq!(client.call("add", json!({"a": 2, "b": 3})).await, "5");
    assert_eq!(client.call("big", json!({"bytes": 100_000})).await.len(), 100_000);
    assert_eq!(client.call("counter", json!({})).await, "1");
    assert_eq!(client.call("counter", json!({})).await, "2");
    assert_eq!(client.call("charge", json!({})).await, "1");
    assert_eq!(client.call("twice", json!({"n": 21})).await, "42");
    assert_eq!(server.executions("counter"), 2);
    let failed = client.result("tools/call", json!({"name": "fail", "arguments": {}})).await;
    assert_eq!(failed["isError"], true);
    let structured = client.result("tools/call", json!({"name": "structured", "arguments": {"a": 1}})).await;
    assert_eq!(structured["structuredContent"], json!({"arguments": {"a": 1}, "size": 1}));
    let unknown = client.post(&request(1, "tools/call", json!({"name": "nope"}))).await;
    assert_eq!(unknown.message()["error"]["code"], -32602);
    let tools = client.result("tools/list", json!({})).await;
    assert_eq!(tools["tools"][5]["annotations"], json!({"idempotentHint": true}));
}

#[tokio::test]
async fn progress_makes_the_answer_a_stream() {
    let server = testkit::server().tool("slow").run().await;
    let client = Client::legacy(server.addr()).await;
    let call = |meta: Value| {
        request(3, "tools/call", json!({"name": "slow", "arguments": {"ms": 4, "steps": 2}, "_meta": meta}))
    };
    let quiet = client.post(&call(json!({}))).await;
    assert!(!quiet.is_sse());
    let told = client.post(&call(json!({"progressToken": "t"}))).await;
    let messages = told.messages();
    assert_eq!(messages.len(), 3);
    assert_eq!(
        messages[1]["params"],
        json!({"progressToken": "t", "progress": 2, "total": 2, "message": "step 2"})
    );
    assert_eq!(messages[2]["id"], 3);
}

#[tokio::test]
async fn resources_prompts_and_completion() {
    let server = testkit::server()
        .resource("file:///a.txt", "alpha")
        .template("db://{table}")
        .prompt("greet", "Hello {who}")
        .instructions("be kind")
        .run()
        .await;
    let client = Client::legacy(server.addr()).await;
    assert_eq!(
        client.result("resources/read", json!({"uri": "file:///a.txt"})).await["contents"][0]["text"],
        "alpha"
    );
    assert_eq!(
        client.result("resources/read", json!({"uri": "db://x"})).await["contents"][0]["text"],
        "db://x"
    );
    let missing = client.post(&request(1, "resources/read", json!({"uri": "file:///b"}))).await;
    assert_eq!(missing.message()["error"]["code"], -32002);
    let templates = client.result("resources/templates/list", json!({})).await;
    assert_eq!(templates["resourceTemplates"][0]["uriTemplate"], "db://{table}");
    let prompt = client.result("prompts/get", json!({"name": "greet", "arguments": {"who": "you"}})).await;
    assert_eq!(prompt["messages"][0]["content"]["text"], "Hello you");
    // No tool was scripted, so the capability is not offered.
    let tools = client.post(&request(1, "tools/list", json!({}))).await;
    assert_eq!(tools.message()["error"]["code"], -32601);
    client.result("resources/subscribe", json!({"uri": "file:///a.txt"})).await;
    client.result("logging/setLevel", json!({"level": "debug"})).await;
    let session = &server.sessions()[0];
    assert_eq!(session.subscriptions, ["file:///a.txt"]);
    assert_eq!(session.log_level.as_deref(), Some("debug"));
}

#[tokio::test]
async fn lists_come_in_pages() {
    let server =
        testkit::server().filler_tools(5, 200).page_size(2).cursors(Cursors::EmptyString).run().await;
    let client = Client::legacy(server.addr()).await;
    let first = client.result("tools/list", json!({})).await;
    assert_eq!(first["nextCursor"], "");
    assert_eq!(first["tools"][0].to_string().len(), 200);
    let second = client.result("tools/list", json!({"cursor": ""})).await;
    assert_eq!(second["tools"][0]["name"], "tool_0002");
    assert_eq!(client.call("tool_0004", json!({"q": "x"})).await, r#"{"q":"x"}"#);
}

// HL-05, HL-06
#[tokio::test]
async fn the_server_speaks_on_the_get_stream() {
    let server = testkit::server().tool("echo").run().await;
    let client = Client::legacy(server.addr()).await;
    let mut stream = within_timeout(client.open("GET", Vec::new())).await.unwrap().into_body();
    let asking = tokio::spawn({
        let control = server.control();
        async move { control.request("roots/list", json!({})).await }
    });
    let asked = messages(&next_chunk(&mut stream).await.unwrap());
    assert_eq!(asked[0]["method"], "roots/list");
    let answer = json!({"jsonrpc": "2.0", "id": asked[0]["id"], "result": {"roots": []}});
    assert_eq!(client.post(&answer).await.status, 202);
    assert_eq!(within_timeout(asking).await.unwrap()["result"], json!({"roots": []}));

    server.edit(|script| script.tool("new"));
    assert_eq!(server.announce_tools(), 1);
    assert!(next_chunk(&mut stream).await.unwrap().contains("notifications/tools/list_changed"));
    server.close_streams();
    assert_eq!(next_chunk(&mut stream).await, None);
    server.wait_until(|s| s.open_streams(StreamKind::Get) == 0, TEST_TIMEOUT).await;

    let refusing = testkit::server().no_get_stream().run().await;
    let client = Client::legacy(refusing.addr()).await;
    assert_eq!(client.try_send("GET", Vec::new()).await.unwrap().status, 405);
}

// HL-06
#[tokio::test]
async fn a_tool_can_ask_in_the_middle_of_its_stream() {
    let server = testkit::server().tool("ask").run().await;
    let client = Client::legacy(server.addr()).await;
    let call = request(
        9,
        "tools/call",
        json!({"name": "ask", "arguments": {"method": "elicitation/create", "params": {"message": "?"}}}),
    );
    let mut stream =
        within_timeout(client.open("POST", call.to_string().into_bytes())).await.unwrap().into_body();
    let asked = messages(&next_chunk(&mut stream).await.unwrap()).remove(0);
    assert_eq!(asked["params"], json!({"message": "?"}));
    server
        .send_via(
            StreamKind::Post,
            rpc::notification("notifications/message", json!({"level": "info", "data": 1})),
        )
        .await;
    assert!(next_chunk(&mut stream).await.unwrap().contains("notifications/message"));
    client.post(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "decline"}})).await;
    let answer = messages(&next_chunk(&mut stream).await.unwrap()).remove(0);
    assert_eq!(answer["id"], 9);
    assert!(answer["result"]["content"][0]["text"].as_str().unwrap().contains("decline"));
}

// HL-07, HL-08, HL-09
#[tokio::test]
async fn a_stream_closed_early_is_resumed_by_get() {
    let server = testkit::server()
        .tool("slow")
        .priming()
        .sse_retry(Duration::from_millis(250))
        .reply_sse()
        .run()
        .await;
    let client = Client::legacy(server.addr()).await;
    server.arm(testkit::Fault::end_after(1).on("tools/call"));
    let reply = client
        .post(&request(
            5,
            "tools/call",
            json!({"name": "slow", "arguments": {"ms": 0}, "_meta": {"progressToken": 1}}),
        ))
        .await;
    assert!(!reply.broken);
    let text = reply.text();
    assert!(text.starts_with("retry: 250\nid: "), "{text}");
    let id = text.lines().find_map(|line| line.strip_prefix("id: ")).unwrap();
    let resuming = Client { headers: client.headers.clone(), ..Client::new(client.addr) }
        .with_header("last-event-id", id);
    let rest = resuming.try_send("GET", Vec::new()).await.unwrap();
    let messages = rest.messages();
    assert_eq!(messages.len(), 5);
    assert_eq!(messages[4]["id"], 5);
    assert_eq!(server.executions("slow"), 1);
}

// CN-01
#[tokio::test]
async fn cancellation_ends_the_work() {
    let server = testkit::server().tool("slow").reply_sse().run().await;
    let client = Client::legacy(server.addr()).await;
    let call = request("c", "tools/call", json!({"name": "slow", "arguments": {"ms": 3_600_000}}));
    let response = within_timeout(client.open("POST", call.to_string().into_bytes())).await.unwrap();
    client
        .post(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "c"}}))
        .await;
    let reply = within_timeout(crate::support::read_reply(response)).await;
    assert!(reply.messages().is_empty() && !reply.broken);
    assert_eq!(server.cancellations(), [json!("c")]);
}

// BM-01, HL-11
#[tokio::test]
async fn batches_belong_to_one_revision() {
    let server = testkit::server().tool("echo").legacy_only("2025-03-26").run().await;
    let client = Client::legacy(server.addr()).await;
    let batch = json!([request(1, "ping", json!({})), request(2, "tools/list", json!({}))]);
    let reply = client.post(&batch).await;
    assert_eq!(reply.message().as_array().unwrap().len(), 2);

    let newer = testkit::server().run().await;
    let client = Client::legacy(newer.addr()).await;
    assert_eq!(client.post(&batch).await.status, 400);
}

// HT-01, HL-01
#[tokio::test]
async fn what_a_client_must_send_is_checked() {
    let server = testkit::server().run().await;
    let client = Client::legacy(server.addr()).await;
    let ping = request(1, "ping", json!({}));
    let bad = |name: &str, value: &str| {
        let headers = client.headers.iter().filter(|(n, _)| n != name).cloned().collect();
        Client { headers, ..Client::new(client.addr) }.with_header(name, value)
    };
    assert_eq!(bad("accept", "application/json").post(&ping).await.status, 406);
    assert_eq!(bad("content-type", "text/plain").post(&ping).await.status, 415);
    assert_eq!(bad("mcp-protocol-version", "1999-01-01").post(&ping).await.status, 400);
    assert_eq!(bad("mcp-protocol-version", "2025-06-18").post(&ping).await.status, 400);
    assert_eq!(client.try_send("POST", b"{".to_vec()).await.unwrap().message()["error"]["code"], -32700);
    assert!(server.violations().is_empty());
    let bare = Client::new(server.addr()).with_header("mcp-session-id", client.session());
    assert_eq!(bare.post(&ping).await.status, 200);
    assert_eq!(server.violations(), ["ping without MCP-Protocol-Version"]);
}

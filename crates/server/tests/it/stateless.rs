//! Hosts of revision 2026-07-28: each request on its own, beside hosts with sessions.

use bowline_proto::wire::Json;
use bowline_server::HttpSettings;
use serde_json::{Value, json};

use crate::http_client::{HttpClient, TEST_TIMEOUT, TestReply, soon};
use crate::test_server::{Report, TestServer, bind, notification, refusal, request, result};

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

fn meta() -> Value {
    json!({VERSION: "2026-07-28", CAPABILITIES: {}})
}

/// A request with a valid `_meta`.
fn modern(id: u64, method: &str, mut params: Value) -> Value {
    let mut meta = meta();
    if let Some(extra) = params.get("_meta").and_then(Value::as_object) {
        meta.as_object_mut().expect("an object").extend(extra.clone());
    }
    params["_meta"] = meta;
    request(id, method, params)
}

/// A client with the headers of a request of this method.
fn headers(client: &HttpClient, method: &str) -> HttpClient {
    client.with("mcp-protocol-version", "2026-07-28").with("mcp-method", method)
}

/// Sends a request with its headers.
pub(crate) async fn send(client: &HttpClient, id: u64, method: &str, params: Value) -> TestReply {
    headers(client, method).post(&modern(id, method, params)).await
}

fn error(id: u64, code: i64, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}

#[tokio::test]
async fn a_request_needs_no_session_and_creates_none() {
    let server = TestServer::start_both(HttpSettings::new().with_max_sessions(0)).await;
    for client in [server.client.clone(), server.client.with("mcp-session-id", "nobody's")] {
        let reply = send(&client, 1, "echo", json!({"x": 1})).await;
        assert_eq!(reply.header("mcp-session-id"), None);
        let echoed = reply.expect_json(200).await;
        assert_eq!((&echoed["id"], &echoed["result"]["x"]), (&json!(1), &json!(1)));
    }
}

/// Hosts wait until it is known who serves them.
#[tokio::test]
async fn a_request_that_comes_before_it_can_be_served_waits() {
    let listener = bind(HttpSettings::new()).await;
    let client = HttpClient::new(listener.local_addr().expect("an address"));
    let early = tokio::spawn(async move { send(&client, 1, "echo", json!({})).await });
    // Another request is answered meanwhile, so that one has arrived.
    let other = HttpClient::new(listener.local_addr().expect("an address"));
    assert_eq!(other.send("GET", "/healthz", "").await.text().await, "ok");
    let mut requests = listener.accept_stateless();
    let request = soon(requests.next()).await.expect("the request");
    request.request.respond(Ok(&Json::empty_object())).await;
    assert_eq!(soon(early).await.unwrap().expect_json(200).await["id"], 1);
}

/// GW-01: a revision that is not served is refused, with those that are.
#[tokio::test]
async fn gw_01_unsupported_revisions_are_refused_with_those_served() {
    let server = TestServer::start_both(HttpSettings::new()).await;
    for version in ["1900-01-01", "2025-11-25"] {
        let message = request(7, "echo", json!({"_meta": {VERSION: version, CAPABILITIES: {}}}));
        let client = headers(&server.client, "echo").with("mcp-protocol-version", version);
        let refused = client.post(&message).await.expect_json(400).await;
        assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(7), &json!(-32022)));
        assert_eq!(refused["error"]["data"], json!({"supported": ["2026-07-28"], "requested": version}));
    }
}

/// GW-02: each member is required on each request, whatever came before on the connection.
#[tokio::test]
async fn gw_02_requests_without_version_or_capabilities_are_refused() {
    let server = TestServer::start_both(HttpSettings::new()).await;
    let client = headers(&server.client, "echo");
    for (meta, missing) in [
        (json!({CAPABILITIES: {}}), VERSION),
        (json!({VERSION: "2026-07-28"}), CAPABILITIES),
        (json!({VERSION: "2026-07-28", CAPABILITIES: 7}), CAPABILITIES),
        (json!({}), VERSION),
    ] {
        let refused = client.post(&request(3, "echo", json!({"_meta": meta}))).await.expect_json(400).await;
        assert_eq!(refused, error(3, -32602, &format!("_meta has no valid {missing}")));
    }
    let without_params = client.post(&json!({"jsonrpc": "2.0", "id": 3, "method": "echo"})).await;
    assert_eq!(without_params.expect_json(400).await["error"]["code"], -32602);
}

/// GW-03: headers repeat the body.
#[tokio::test]
async fn gw_03_headers_must_repeat_the_body() {
    let server = TestServer::start_both(HttpSettings::new()).await;
    let valid = headers(&server.client, "tools/call").with("mcp-name", "t");
    let call = modern(4, "tools/call", json!({"name": "t"}));
    for (client, problem) in [
        (valid.without("mcp-method"), "Mcp-Method: missing"),
        (valid.with("mcp-method", "tools/list"), "Mcp-Method: does not match the body"),
        (valid.with("mcp-method", "Tools/Call"), "Mcp-Method: does not match the body"),
        (valid.without("mcp-name"), "Mcp-Name: missing"),
        (valid.with("mcp-name", "T"), "Mcp-Name: does not match the body"),
        (valid.with("mcp-name", "=?base64?!?="), "Mcp-Name: malformed"),
        (valid.without("mcp-protocol-version"), "MCP-Protocol-Version: missing"),
        (valid.with("mcp-protocol-version", "2025-11-25"), "MCP-Protocol-Version: does not match the body"),
    ] {
        let refused = client.post(&call).await.expect_json(400).await;
        assert_eq!(refused, error(4, -32020, &format!("header {problem}")));
    }
    for client in [
        valid.clone(),
        valid.with("mcp-name", " t "),
        valid.with("mcp-name", "=?base64?dA==?="),
        valid.with("mcp-param-unknown", "ignored"),
    ] {
        // It reaches the server, which has no such method.
        assert_eq!(client.post(&call).await.expect_json(404).await["error"]["code"], -32601);
    }
}

/// GW-05: the status follows the error, and what is not of this revision has no effect.
#[tokio::test]
async fn gw_05_statuses_follow_errors_and_sessions_are_ignored() {
    let server = TestServer::start_both(HttpSettings::new()).await;
    let unknown = send(&server.client, 5, "no/such", json!({})).await;
    assert_eq!(unknown.expect_json(404).await, error(5, -32601, "no such method"));
    let dropped = send(&server.client, 6, "drop", json!({})).await;
    let dropped = dropped.expect_json(200).await;
    assert_eq!((&dropped["id"], &dropped["error"]["code"]), (&json!(6), &json!(-31050)));
    assert_eq!(dropped["error"]["data"], json!({"bowline": {"cause": "closed", "execution": "unknown"}}));
    let batch = json!([modern(1, "echo", json!({}))]);
    let refused = headers(&server.client, "echo").post(&batch).await.expect_json(400).await;
    assert_eq!(refused, refusal(-32600, "revision 2026-07-28 has no batches"));
    let mut cancellation = notification("notifications/cancelled");
    cancellation["params"] = json!({"requestId": 1, "_meta": meta()});
    server.client.post(&cancellation).await.expect_empty(202).await;
    let client = server.client.with("accept", "application/json");
    let listen = send(&client, 8, "subscriptions/listen", json!({})).await;
    assert_eq!(listen.expect_json(406).await["error"]["code"], -32600);
}

/// GW-09: what belongs to a request is on its own stream, without event ids.
#[tokio::test]
async fn gw_09_progress_is_on_the_stream_of_its_request() {
    let server = TestServer::start_both(HttpSettings::new()).await;
    server.go.send_replace(10);
    let params = json!({"steps": 2, "_meta": {"progressToken": "p"}});
    let text = send(&server.client, 9, "talk", params).await.expect_events().text().await;
    let progress = |number: u64| {
        let params = json!({"progressToken": "p", "progress": number});
        json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
    };
    let messages: Vec<Value> = text
        .split("\n\n")
        .filter(|event| !event.is_empty())
        .map(|event| serde_json::from_str(event.strip_prefix("event: message\ndata: ").unwrap()).unwrap())
        .collect();
    assert_eq!(messages, [progress(1), progress(2), result(9, json!({"said": 2}))]);
    // A host that accepts JSON alone gets the response.
    let client = server.client.with("accept", "application/json");
    let reply = send(&client, 10, "talk", json!({"steps": 2})).await;
    assert_eq!(reply.expect_json(200).await, result(10, json!({"said": 2})));
}

/// GW-09: the end of a connection cancels its request and no other.
#[tokio::test]
async fn gw_09_the_end_of_the_connection_cancels_the_request() {
    let mut server = TestServer::start_both(HttpSettings::new()).await;
    // Before anything was said.
    let silent = {
        let client = server.client.clone();
        tokio::spawn(async move { send(&client, 1, "hang", json!({})).await })
    };
    server.expect(Report::Arrived("hang".into())).await;
    let other = {
        let client = server.client.clone();
        tokio::spawn(async move { send(&client, 1, "talk", json!({"steps": 0})).await })
    };
    server.expect(Report::Arrived("talk".into())).await;
    silent.abort();
    assert_eq!(server.next_report().await, Report::Gone("hang".into()));
    // In the middle of an event stream.
    let events = server.client.with("accept", "text/event-stream");
    let stream = send(&events, 2, "hang", json!({})).await.expect_events();
    server.expect(Report::Arrived("hang".into())).await;
    drop(stream);
    assert_eq!(server.next_report().await, Report::Gone("hang".into()));
    server.go.send_replace(1);
    assert_eq!(other.await.unwrap().expect_json(200).await, result(1, json!({"said": 0})));
}

/// GW-10: both kinds of host at once, with equal ids.
#[tokio::test]
async fn gw_10_both_eras_are_served_on_one_endpoint() {
    let server = TestServer::start_both(HttpSettings::new()).await;
    let legacy = server.initialize("2025-11-25").await;
    let legacy_request = request(1, "echo", json!({"from": "legacy"}));
    let legacy_call = legacy.post(&legacy_request);
    let modern_call = send(&server.client, 1, "echo", json!({"from": "modern"}));
    let (legacy_reply, modern_reply) = tokio::join!(legacy_call, modern_call);
    assert_eq!(legacy_reply.expect_json(200).await, result(1, json!({"from": "legacy"})));
    assert_eq!(modern_reply.expect_json(200).await["result"]["from"], "modern");
    // The rules of sessions stay.
    let without = legacy.without("mcp-session-id");
    let refused = without.post(&request(2, "echo", json!({}))).await.expect_json(400).await;
    assert_eq!(refused, refusal(-32600, "the MCP-Session-Id header is missing"));
    // A modern header makes a modern request, even with the id of a session.
    let mixed = legacy.with("mcp-protocol-version", "2026-07-28");
    let refused = mixed.post(&request(3, "echo", json!({}))).await.expect_json(400).await;
    assert_eq!(refused["error"]["code"], -32602);
    // DE-12: a fallback may repeat the header of its probe.
    let fallback = server.client.with("mcp-protocol-version", "2026-07-28");
    let begun = fallback.post(&crate::test_server::initialize("2025-11-25")).await;
    assert_eq!((begun.status, begun.header("mcp-session-id").is_some()), (200, true));
    legacy.delete().await.expect_empty(204).await;
    assert_eq!(legacy.post(&request(4, "echo", json!({}))).await.status, 404);
}

#[tokio::test]
async fn the_number_of_open_requests_is_bounded() {
    let mut server = TestServer::start_both(HttpSettings::new().with_max_stateless_requests(1)).await;
    let events = server.client.with("accept", "text/event-stream");
    let open = send(&events, 1, "hang", json!({})).await.expect_events();
    server.expect(Report::Arrived("hang".into())).await;
    let refused = send(&server.client, 2, "echo", json!({})).await;
    assert_eq!(refused.header("retry-after"), Some("5"));
    assert_eq!(refused.expect_json(503).await, error(2, -32603, "there are too many requests"));
    drop(open);
    server.expect(Report::Gone("hang".into())).await;
    // The place is free once the request is gone, which may be a moment later.
    soon(async { while send(&server.client, 3, "echo", json!({})).await.status == 503 {} }).await;
}

#[tokio::test]
async fn a_listener_without_takers_knows_no_modern_hosts() {
    let server = TestServer::start().await;
    let refused = send(&server.client, 1, "server/discover", json!({})).await.expect_json(400).await;
    assert_eq!(refused, refusal(-32600, "the MCP-Session-Id header is missing"));
}

/// A host that does not read loses what may be dropped, and nothing else.
#[tokio::test]
async fn notifications_that_may_be_dropped_do_not_wait_for_the_host() {
    let server = TestServer::start_both(HttpSettings::new()).await;
    for (method, is_complete) in [("burst", false), ("flood", true)] {
        let params = json!({"count": 16, "bytes": 1_000_000});
        let text = send(&server.client, 1, method, params).await.expect_events().text().await;
        let events: Vec<&str> = text.split("\n\n").filter(|event| !event.is_empty()).collect();
        assert_eq!(events.len() == 17, is_complete, "{method}: {}", events.len());
        let last = events.last().unwrap().strip_prefix("event: message\ndata: ").unwrap();
        assert_eq!(serde_json::from_str::<Value>(last).unwrap(), result(1, json!({})));
    }
}

#[tokio::test]
async fn a_graceful_stop_waits_for_open_requests_and_refuses_others() {
    let listener = bind(HttpSettings::new()).await;
    let client = HttpClient::new(listener.local_addr().unwrap());
    let mut requests = listener.accept_stateless();
    let open = {
        let client = client.clone();
        tokio::spawn(async move { send(&client, 1, "echo", json!({})).await.expect_json(200).await })
    };
    let request = soon(requests.next()).await.expect("a request");
    listener.drain();
    assert!(soon(requests.next()).await.is_none(), "no more are accepted");
    let refused = send(&client, 2, "echo", json!({})).await;
    assert_eq!(refused.header("retry-after"), Some("5"));
    assert_eq!(refused.expect_json(503).await, error(2, -32603, "no more requests are accepted"));
    let stopping = tokio::spawn(listener.shut_down(TEST_TIMEOUT * 10));
    request.spawn(|request| async move { request.request.respond(Ok(&Json::empty_object())).await });
    assert_eq!(soon(open).await.unwrap(), result(1, json!({})));
    soon(stopping).await.unwrap();
}

#[tokio::test]
async fn requests_that_nobody_takes_are_answered() {
    let listener = bind(HttpSettings::new()).await;
    let client = HttpClient::new(listener.local_addr().unwrap());
    drop(listener.accept_stateless());
    let refused = send(&client, 1, "echo", json!({})).await.expect_json(503).await;
    assert_eq!(refused, error(1, -32603, "no more requests are accepted"));
}

//! The HTTP+SSE transport of 2024-11-05.

use bowline_testkit::{self as testkit, CannedResponse, Fault};
use hyper::body::Incoming;
use serde_json::{Value, json};

use crate::support::{Client, TEST_TIMEOUT, initialize, messages, next_chunk, request, within_timeout};

/// An open stream and a client for its endpoint.
struct SseSession {
    client: Client,
    stream: Incoming,
}

impl SseSession {
    async fn open(server: &testkit::HttpServer) -> Self {
        let client = Client::new(server.addr());
        let mut stream = within_timeout(client.open("GET", Vec::new())).await.unwrap().into_body();
        let first = next_chunk(&mut stream).await.unwrap();
        let endpoint = first.strip_prefix("event: endpoint\ndata: ").unwrap().trim_end().to_owned();
        Self { client: Client { path: endpoint, ..client }, stream }
    }

    async fn ask(&mut self, message: &Value) -> Value {
        assert_eq!(self.client.post(message).await.status, 202);
        messages(&next_chunk(&mut self.stream).await.unwrap()).remove(0)
    }
}

// HS-01, HS-02
#[tokio::test]
async fn answers_come_on_the_stream() {
    let server = testkit::server().tool("echo").tool("counter").http_sse().run().await;
    assert_eq!(Client::new(server.addr()).post(&initialize("2025-11-25")).await.status, 405);
    let mut sse = SseSession::open(&server).await;
    let early = sse.ask(&request(0, "tools/list", json!({}))).await;
    assert_eq!(early["error"]["message"], "Server not initialized");
    let reply = sse.ask(&initialize("2024-11-05")).await;
    assert_eq!(reply["result"]["protocolVersion"], "2024-11-05");
    sse.client.post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    let echoed = sse.ask(&request(1, "tools/call", json!({"name": "echo", "arguments": {}}))).await;
    assert_eq!(
        (echoed["id"].clone(), echoed["result"]["content"][0]["text"].clone()),
        (json!(1), json!("{}"))
    );
    assert_eq!(server.announce_tools(), 1);
    assert!(next_chunk(&mut sse.stream).await.unwrap().contains("list_changed"));

    server.arm(Fault::error(-5, "no").on("tools/call").executed());
    let refused = sse.ask(&request(2, "tools/call", json!({"name": "counter"}))).await;
    assert_eq!(refused["error"]["code"], -5);
    server.arm(Fault::status(500).on("tools/call").executed());
    let reply = sse.client.post(&request(3, "tools/call", json!({"name": "counter"}))).await;
    assert_eq!((reply.status, server.executions("counter")), (500, 2));
}

// HS-03
#[tokio::test]
async fn the_stream_is_the_session() {
    let server = testkit::server().http_sse().run().await;
    let mut sse = SseSession::open(&server).await;
    sse.ask(&initialize("2024-11-05")).await;
    assert_eq!(server.sessions().len(), 1);
    let SseSession { client, stream } = sse;
    drop(stream);
    server.wait_until(|s| s.sessions().is_empty(), TEST_TIMEOUT).await;
    let reply = client.post(&request(1, "ping", json!({}))).await;
    assert_eq!((reply.status, reply.text().as_str()), (404, "Could not find session"));
}

/// Posts a message that must reach the server and get no response while others get theirs.
async fn post_without_response(server: &testkit::HttpServer, client: &Client, method: &'static str) {
    let seen = server.count(method);
    let message = request(1, method, json!({})).to_string().into_bytes();
    let asking = async {
        server.wait_until(|s| s.count(method) > seen, TEST_TIMEOUT).await;
        for _ in 0..3 {
            SseSession::open(server).await.ask(&initialize("2024-11-05")).await;
        }
    };
    tokio::select! {
        biased;
        answer = client.open("POST", message) => panic!("answered: {answer:?}"),
        () = asking => {}
    }
}

/// Starts a server and opens a stream.
async fn open_sse_session(script: testkit::Script) -> (testkit::HttpServer, SseSession) {
    let server = script.run().await;
    let sse = SseSession::open(&server).await;
    (server, sse)
}

// HS-02
#[tokio::test]
async fn every_form_of_endpoint_leads_to_the_session() {
    for (form, path) in [
        ("/messages?session_id=$session", "/messages?session_id="),
        ("/messages/?sessionId=$session", "/messages/?sessionId="),
        ("/messages/$session", "/messages/"),
        ("messages?a=b&session_id=$session", "/messages?a=b&session_id="),
        ("?session_id=$session", "/mcp?session_id="),
        ("$origin/messages?session_id=$session", "/messages?session_id="),
    ] {
        let (server, mut sse) = open_sse_session(testkit::server().http_sse().sse_endpoint(form)).await;
        // Resolved by hand: the stream is at /mcp, and the plain client sends localhost as host.
        let said = sse.client.path.strip_prefix("http://localhost").unwrap_or(&sse.client.path);
        sse.client.path = match said.chars().next().unwrap() {
            '?' => format!("/mcp{said}"),
            '/' => said.to_owned(),
            _ => format!("/{said}"),
        };
        assert!(sse.client.path.starts_with(path), "{form}: {}", sse.client.path);
        let reply = sse.ask(&initialize("2024-11-05")).await;
        assert_eq!(reply["result"]["protocolVersion"], "2024-11-05", "{form}");
        assert_eq!(server.sessions().len(), 1);
    }
}

#[tokio::test]
async fn the_endpoint_can_point_elsewhere() {
    let script = testkit::server().http_sse();
    let (_server, sse) = open_sse_session(script.sse_endpoint("http://elsewhere.test/m?s=$session")).await;
    assert!(sse.client.path.starts_with("http://elsewhere.test/m?s=sse-"));
}

#[tokio::test]
async fn the_endpoint_event_can_be_repeated() {
    let (server, mut sse) = open_sse_session(testkit::server().http_sse()).await;
    server.edit(|script| script.sse_endpoint("/messages/$session"));
    assert_eq!(server.repeat_endpoint(), 1);
    let second = next_chunk(&mut sse.stream).await.unwrap();
    assert!(second.starts_with("event: endpoint\ndata: /messages/sse-"), "{second}");
    drop(sse);
    server.wait_until(|s| s.open_streams(testkit::StreamKind::Any) == 0, TEST_TIMEOUT).await;
    assert_eq!(server.repeat_endpoint(), 0);
}

// HS-01
#[tokio::test]
async fn a_post_to_the_stream_is_refused_as_scripted() {
    let server = testkit::server().http_sse().run().await;
    let client = Client::new(server.addr());
    let reply = client.post(&initialize("2025-11-25")).await;
    assert_eq!((reply.status, reply.header("allow")), (405, Some("GET")));
    for (status, text) in [(404, "Not Found"), (400, "Missing sessionId parameter"), (405, "")] {
        server.edit(|script| script.sse_stream_post_response(CannedResponse::new(status).text(text)));
        let reply = client.post(&initialize("2025-11-25")).await;
        assert_eq!((reply.status, reply.text().as_str()), (status, text));
    }
    assert!(server.sessions().is_empty());
}

#[tokio::test]
async fn unknown_session_gets_scripted_response_or_none() {
    let server = testkit::server().http_sse().run().await;
    let client = Client { path: "/messages?session_id=gone".into(), ..Client::new(server.addr()) };
    let ping = request(1, "ping", json!({}));
    let reply = client.post(&ping).await;
    assert_eq!((reply.status, reply.text().as_str()), (404, "Could not find session"));

    let invalid = json!({"error": {"message": "Invalid session id."}});
    server.edit(|script| script.unknown_session_response(CannedResponse::new(404).json(&invalid)));
    let reply = client.post(&ping).await;
    assert_eq!((reply.status, reply.message()), (404, invalid));

    server.edit(|script| script.unknown_session_response(CannedResponse::new(500)));
    assert_eq!(client.post(&ping).await.status, 500);
}

#[tokio::test]
async fn a_restart_ends_streams_and_sessions_and_names_another_endpoint() {
    let (server, mut sse) = open_sse_session(testkit::server().http_sse()).await;
    sse.ask(&initialize("2024-11-05")).await;
    server.restart().await;
    assert_eq!((next_chunk(&mut sse.stream).await, server.sessions().len()), (None, 0));
    assert_eq!(sse.client.post(&request(1, "ping", json!({}))).await.status, 404);
    let mut fresh = SseSession::open(&server).await;
    assert_ne!(fresh.client.path, sse.client.path);
    let early = fresh.ask(&request(2, "tools/list", json!({}))).await;
    assert_eq!(early["error"]["code"], -32600);
    assert!(fresh.ask(&initialize("2024-11-05")).await.get("result").is_some());
}

/// A client that opens the stream again and continues without a handshake.
#[tokio::test]
async fn requests_before_the_handshake_get_scripted_error() {
    let script = testkit::server().tool("counter").http_sse();
    let (server, mut sse) =
        open_sse_session(script.uninitialized(-32602, "Invalid request parameters")).await;
    let call = request(1, "tools/call", json!({"name": "counter"}));
    let refused = sse.ask(&call).await;
    assert_eq!(refused["error"], json!({"code": -32602, "message": "Invalid request parameters"}));

    sse.ask(&initialize("2024-11-05")).await;
    sse.ask(&call).await;
    // A stream that stayed open gets the same error.
    server.drop_sessions();
    server.edit(|s| s.uninitialized(-32600, "Received request before initialization was complete"));
    let refused = sse.ask(&call).await;
    assert_eq!(refused["error"]["message"], "Received request before initialization was complete");
    assert_eq!(server.executions("counter"), 1);
}

#[tokio::test]
async fn faults_strike_over_http_sse() {
    let (server, mut sse) = open_sse_session(testkit::server().tool("counter").http_sse()).await;
    sse.ask(&initialize("2024-11-05")).await;
    let call = request(1, "tools/call", json!({"name": "counter"}));
    // An error arrives on the stream, whether the call was executed or not.
    server.arm(Fault::error(-5, "no").on("tools/call"));
    assert_eq!(sse.ask(&call).await["error"]["code"], -5);
    assert_eq!(server.executions("counter"), 0);
    server.arm(Fault::silent().on("ping"));
    post_without_response(&server, &sse.client, "ping").await;
    server.arm(Fault::end_after(1).on("GET"));
    let mut short = SseSession::open(&server).await;
    assert_eq!(next_chunk(&mut short.stream).await, None);
    server.arm(Fault::raw_as("text/event-stream", "event: endpoint\ndata: http://[\n\n").on("GET"));
    assert_eq!(SseSession::open(&server).await.client.path, "http://[");
    assert!(server.armed_faults().is_empty());
}

// HS-03
#[tokio::test]
async fn headers_of_the_other_transport_are_recorded() {
    let (server, mut sse) = open_sse_session(testkit::server().http_sse()).await;
    sse.ask(&initialize("2024-11-05")).await;
    assert_eq!(server.violations(), Vec::<String>::new());
    sse.client = sse.client.with_header("mcp-protocol-version", "2024-11-05");
    sse.ask(&request(1, "ping", json!({}))).await;
    assert_eq!(server.violations(), ["mcp-protocol-version over HTTP+SSE"]);
}

//! HTTP+SSE of 2024-11-05: a session on two endpoints.

use bowline::{Client, Server};
use bowline_server::HttpSettings;
use serde_json::{Value, json};

use crate::http_client::{EventReader, HttpClient, soon};
use crate::test_server::{Report, TestServer, initialize, notification, refusal, request, result};

const OLDEST: &str = "2024-11-05";

async fn start() -> TestServer {
    TestServer::start_with(HttpSettings::new().with_sse("/sse", "/messages")).await
}

/// Opens a stream and returns it with the endpoint for messages.
pub(crate) async fn open(client: &HttpClient) -> (EventReader, String) {
    let mut events = client.send("GET", "/sse", "").await.expect_events();
    let endpoint = events.endpoint().await;
    let id = endpoint.strip_prefix("/messages?session=").unwrap_or_else(|| panic!("{endpoint}"));
    assert_eq!(id.len(), 96);
    (events, endpoint)
}

pub(crate) async fn post(client: &HttpClient, endpoint: &str, message: &Value) {
    assert_eq!(client.send("POST", endpoint, &message.to_string()).await.status, 202);
}

/// HS-02: messages go to the endpoint that the first event names; all answers come on the stream.
#[tokio::test]
async fn hs_02_everything_is_said_on_the_stream() {
    let mut server = start().await;
    let client = server.client.clone();
    let (mut events, endpoint) = open(&client).await;
    post(&client, &endpoint, &initialize(OLDEST)).await;
    assert_eq!(events.message().await["result"]["protocolVersion"], OLDEST);
    post(&client, &endpoint, &notification("notifications/initialized")).await;
    post(&client, &endpoint, &request(1, "ask", json!({}))).await;
    let question = events.message().await;
    assert_eq!(question["method"], "roots/list");
    post(&client, &endpoint, &result(question["id"].clone(), json!({"roots": []}))).await;
    assert_eq!(events.message().await, result(1, json!({"roots": []})));
    post(&client, &endpoint, &notification("notifications/announce")).await;
    assert_eq!(events.message().await, notification("notifications/tools/list_changed"));
    post(&client, &endpoint, &request(2, "hang", json!({}))).await;
    server.expect(Report::Arrived("hang".into())).await;
    // HS-03: the end of the stream is the end of the session.
    drop(events);
    server.expect(Report::Ended).await;
    let gone = client.send("POST", &endpoint, &request(3, "echo", json!({})).to_string()).await;
    assert_eq!(gone.expect_json(404).await, refusal(-32600, "no such session"));
}

/// The sessions of one transport are unknown to the other.
#[tokio::test]
async fn sessions_of_the_transports_do_not_mix() {
    let server = start().await;
    let (_events, endpoint) = open(&server.client).await;
    let id = endpoint.split_once('=').unwrap().1;
    let streamable = server.client.with("mcp-session-id", id);
    assert_eq!(streamable.post(&request(1, "ping", json!({}))).await.status, 404);
    let reply = server.client.post(&initialize(OLDEST)).await;
    let id = reply.header("mcp-session-id").unwrap().to_owned();
    for query in [format!("?session={id}"), "?session=".to_owned(), String::new(), "?x=1&session".to_owned()]
    {
        let path = format!("/messages{query}");
        assert_eq!(server.client.send("POST", &path, "{}").await.status, 404, "{path}");
    }
}

#[tokio::test]
async fn other_requests_to_the_two_endpoints_are_refused() {
    let server = start().await;
    for (method, path, allowed) in
        [("POST", "/sse", "GET"), ("DELETE", "/sse", "GET"), ("GET", "/messages", "POST")]
    {
        let reply = server.client.send(method, path, "").await;
        assert_eq!((reply.status, reply.header("allow")), (405, Some(allowed)), "{method} {path}");
    }
    assert_eq!(server.client.with("accept", "application/json").send("GET", "/sse", "").await.status, 406);
    assert_eq!(server.client.with("host", "evil.example").send("GET", "/sse", "").await.status, 403);
    let without = TestServer::start().await;
    assert_eq!(without.client.send("GET", "/sse", "").await.status, 404);
    let secured = HttpSettings::new().with_sse("/sse", "/messages").with_bearer_token("secret");
    let secured = TestServer::start_with(secured).await;
    for (method, path) in [("GET", "/sse"), ("POST", "/messages")] {
        assert_eq!(secured.client.send(method, path, "").await.status, 401);
    }
}

/// HS-01: a client that falls back to the old transport is served.
#[tokio::test]
async fn hs_01_own_client_falls_back_to_the_old_transport() {
    let mut server = start().await;
    let url = format!("http://{}/sse", server.client.addr());
    let client = Client::builder(Server::http("test", url).build().unwrap()).open().unwrap();
    let echoed: Value = soon(client.request("echo", &json!({"x": 1}))).await.unwrap().decode().unwrap();
    assert_eq!(echoed["x"], 1);
    soon(client.close()).await;
    server.expect(Report::Ended).await;
}

#[tokio::test]
async fn malformed_messages_are_refused_where_they_are_sent() {
    let server = start().await;
    let client = server.client.clone();
    let (mut events, endpoint) = open(&client).await;
    for (body, code, defect) in [
        ("garbage", -32700, "not valid JSON"),
        ("[]", -32600, "not a JSON-RPC object"),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32600, "the id is neither a string nor a number"),
    ] {
        let reply = client.send("POST", &endpoint, body).await;
        let expected = refusal(code, &format!("the message cannot be used: {defect}"));
        assert_eq!(reply.expect_json(400).await, expected, "{body}");
    }
    // The session is as it was.
    post(&client, &endpoint, &initialize(OLDEST)).await;
    assert_eq!(events.message().await["result"]["protocolVersion"], OLDEST);
}

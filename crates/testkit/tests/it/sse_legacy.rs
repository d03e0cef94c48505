//! The HTTP+SSE transport of 2024-11-05.

use bowline_testkit::{self as testkit, Fault};
use hyper::body::Incoming;
use serde_json::{Value, json};

use crate::support::{Client, SOON, chunk, initialize, messages, request, soon};

/// An open stream and where to post.
struct Sse {
    client: Client,
    stream: Incoming,
}

impl Sse {
    async fn open(server: &testkit::HttpServer) -> Self {
        let client = Client::new(server.addr());
        let mut stream = soon(client.open("GET", Vec::new())).await.unwrap().into_body();
        let first = chunk(&mut stream).await.unwrap();
        let endpoint = first.strip_prefix("event: endpoint\ndata: ").unwrap().trim_end().to_owned();
        Self { client: Client { path: endpoint, ..client }, stream }
    }

    async fn ask(&mut self, message: &Value) -> Value {
        assert_eq!(self.client.post(message).await.status, 202);
        messages(&chunk(&mut self.stream).await.unwrap()).remove(0)
    }
}

// HS-01, HS-02
#[tokio::test]
async fn answers_come_on_the_stream() {
    let server = testkit::server().tool("echo").tool("counter").http_sse().run().await;
    assert_eq!(Client::new(server.addr()).post(&initialize("2025-11-25")).await.status, 405);
    let mut sse = Sse::open(&server).await;
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
    assert!(chunk(&mut sse.stream).await.unwrap().contains("list_changed"));

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
    let mut sse = Sse::open(&server).await;
    sse.ask(&initialize("2024-11-05")).await;
    assert_eq!(server.sessions().len(), 1);
    let Sse { client, stream } = sse;
    drop(stream);
    server.wait_until(|s| s.sessions().is_empty(), SOON).await;
    let reply = client.post(&request(1, "ping", json!({}))).await;
    assert_eq!((reply.status, reply.text().as_str()), (404, "Could not find session"));
}

#[tokio::test]
async fn the_endpoint_can_point_elsewhere() {
    let server = testkit::server().http_sse().sse_endpoint("http://elsewhere.test/m?s=$session").run().await;
    let sse = Sse::open(&server).await;
    assert!(sse.client.path.starts_with("http://elsewhere.test/m?s=sse-"));
}

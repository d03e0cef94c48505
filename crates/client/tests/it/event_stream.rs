//! HTTP+SSE, the transport of 2024-11-05: configured, by fallback, and across restarts.

use std::time::Duration;

use bowline::{CallOptions, Cause, Client, Era, Execution, Misbehavior, Server, Status};
use bowline_config::TransportSettings as _;
use bowline_testkit::{self as testkit, CannedResponse, Fault, HttpServer, Tool};
use serde_json::{Value, json};

use crate::support::{TEST_TIMEOUT, call_concurrently, http};

fn sse(server: &HttpServer) -> Server {
    Server::sse("test", server.url()).build().expect("a valid URL")
}

/// HS-01, HS-02: the client waits for the endpoint, posts messages to it and reads responses from
/// the stream.
#[tokio::test]
async fn hs_01_http_sse_is_supported() {
    let server =
        testkit::server().http_sse().tool("echo").tool("slow").resource("file:///a", "text").run().await;
    let client = Client::connect(sse(&server)).await.unwrap();
    assert_eq!(client.peer().await.unwrap().era(), Era::Legacy);
    assert_eq!(client.list_tools().await.unwrap().len(), 2);
    for n in 0..20 {
        let result = client.call_tool("echo", &json!({ "text": n.to_string() })).await.unwrap();
        assert!(result.text().contains(&n.to_string()));
    }
    client.ping().await.unwrap();
    client.close().await;
    assert_eq!(server.violations(), Vec::<String>::new());
}

/// HS-04: where Streamable HTTP is refused, HTTP+SSE is tried, unless the configuration forbids it.
#[tokio::test]
async fn hs_04_http_sse_is_the_fallback() {
    for refusal in
        [CannedResponse::new(404), CannedResponse::new(405), CannedResponse::new(400).text("Bad Request")]
    {
        let server =
            testkit::server().http_sse().tool("echo").sse_stream_post_response(refusal.clone()).run().await;
        let client = Client::connect(http(&server)).await.unwrap();
        client.call_tool("echo", &json!({ "text": "x" })).await.unwrap();
        assert_eq!(client.transport(), "sse", "not as it is configured");
        client.close().await;
        let strict = http(&server).without_fallback().unwrap();
        let error = Client::connect(strict).await.unwrap_err();
        assert_eq!(error.execution(), Execution::NotExecuted, "{error}");
    }
    // Where neither works, the first refusal is reported.
    let server = testkit::server().legacy().no_get_stream().run().await;
    server.arm(Fault::status(405).on("initialize").always());
    server.arm(Fault::status(405).on("server/discover").always());
    let error = Client::connect(http(&server)).await.unwrap_err();
    assert!(matches!(error.fault().unwrap().cause, Cause::Status { code: 405, .. }), "{error}");
}

/// After a restart the stream ends: pending calls report an unknown outcome or are retried if
/// harmless, and queued calls follow a new handshake. Nothing is assumed of the new stream.
#[tokio::test]
async fn hs_03_calls_survive_a_restart() {
    let script = testkit::server()
        .http_sse()
        .tool("counter")
        .tool(Tool::like("look", "counter").read_only())
        .tool("slow");
    let server = script.run().await;
    let client = Client::connect(sse(&server)).await.unwrap();
    client.list_tools().await.unwrap();
    client.call_tool("counter", &Value::Null).await.unwrap();
    for _ in 0..3 {
        let slow = tokio::spawn({
            let client = client.clone();
            async move { client.call_tool("slow", &json!({ "ms": 60_000 })).await }
        });
        let before = server.count("tools/call");
        server.wait_until(|server| server.count("tools/call") >= before, TEST_TIMEOUT).await;
        server.wait_for(|received| received.tool() == Some("slow"), TEST_TIMEOUT).await;
        server.restart().await;
        let error = slow.await.unwrap().unwrap_err();
        assert_eq!(error.execution(), Execution::Unknown, "{error}");
        client.call_tool("look", &Value::Null).await.unwrap();
        client.call_tool("counter", &Value::Null).await.unwrap();
        server.clear_received();
    }
    assert_eq!((server.executions("counter"), server.executions("look")), (4, 3));
    client.close().await;
}

/// The replies of various servers to a message for a lost session.
#[tokio::test]
async fn a_lost_session_is_replaced_in_the_same_call() {
    let gone = [
        CannedResponse::new(404).text("Could not find session"),
        CannedResponse::new(404).json(&json!({ "error": { "message": "Invalid session id." } })),
        CannedResponse::new(500).text("Cannot invoke send because session is null: session not found"),
    ];
    for answer in gone {
        let server = testkit::server().http_sse().tool("counter").run().await;
        let client = Client::connect(sse(&server)).await.unwrap();
        client.call_tool("counter", &Value::Null).await.unwrap();
        for method in ["tools/call", "ping"] {
            server.arm(Fault::response(answer.clone()).on(method));
        }
        client.call_tool("counter", &Value::Null).await.unwrap();
        assert_eq!((server.executions("counter"), server.initialize_count()), (2, 2));
        server.disarm();
        client.close().await;
    }
}

/// Concurrent calls on a lost session: each is refused, each is retried, and none runs twice.
#[tokio::test]
async fn concurrent_calls_survive_a_lost_session() {
    let server = testkit::server().http_sse().tool("counter").run().await;
    let client = Client::connect(sse(&server)).await.unwrap();
    client.call_tool("counter", &Value::Null).await.unwrap();
    server.arm(
        Fault::response(CannedResponse::new(404).text("Could not find session")).on("tools/call").times(20),
    );
    call_concurrently(&client, 20, "counter").await;
    assert_eq!(server.executions("counter"), 21);
    client.close().await;
}

/// A server that kept the stream but lost the handshake gets a new handshake.
#[tokio::test]
async fn a_forgotten_handshake_is_made_again() {
    for (code, message) in
        [(-32602, "Received request before initialization was complete"), (-32600, "Server not initialized")]
    {
        let server = testkit::server().http_sse().tool("counter").uninitialized(code, message).run().await;
        let client = Client::connect(sse(&server)).await.unwrap();
        client.call_tool("counter", &Value::Null).await.unwrap();
        server.drop_sessions();
        client.call_tool("counter", &Value::Null).await.unwrap();
        assert_eq!((server.executions("counter"), server.initialize_count()), (2, 2));
        client.close().await;
    }
}

/// An unanswered message ends at its deadline, and the next call finds a connection.
#[tokio::test]
async fn a_message_that_is_never_answered_ends_at_its_deadline() {
    let server = testkit::server().http_sse().tool("counter").run().await;
    let client = Client::connect(sse(&server)).await.unwrap();
    client.call_tool("counter", &Value::Null).await.unwrap();
    server.arm(Fault::silent().on("tools/call"));
    let hurried = CallOptions::new().idle_timeout(Duration::from_millis(400));
    let error = client.call_tool_with("counter", &Value::Null, &hurried).await.unwrap_err();
    assert!(matches!(error.fault().unwrap().cause, Cause::Timeout(_)), "{error}");
    client.close().await;
}

/// HS-02: an endpoint of another origin is refused.
#[tokio::test]
async fn hs_02_the_endpoint_must_be_of_the_same_origin() {
    let server = testkit::server().http_sse().sse_endpoint("http://127.0.0.1:9/messages").run().await;
    let foreign = Misbehavior::ForeignEndpoint { origin: "http://127.0.0.1:9/".into() };
    // Also where Streamable HTTP was refused first: that the server speaks HTTP+SSE says more.
    for entry in [sse(&server), http(&server)] {
        let error = Client::connect(entry).await.unwrap_err();
        assert_eq!(error.fault().unwrap().cause, Cause::Protocol(foreign.clone()), "{error}");
    }
}

/// A second `endpoint` event on the same stream begins a new session.
#[tokio::test]
async fn a_second_endpoint_is_a_new_session() {
    let server = testkit::server().http_sse().tool("counter").run().await;
    let client = Client::connect(sse(&server)).await.unwrap();
    let mut status = client.status();
    server.repeat_endpoint();
    status.wait_for(|status| matches!(status, Status::Connecting)).await.unwrap();
    client.call_tool("counter", &Value::Null).await.unwrap();
    assert_eq!(server.initialize_count(), 2);
    client.close().await;
}

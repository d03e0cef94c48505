//! POST: formats of responses, batches, and malformed messages.

use serde_json::{Value, json};

use crate::http_client::HttpClient;
use crate::test_server::{Report, TestServer, initialize, notification, refusal, request, result};

const NEWEST: &str = "2025-11-25";

/// GW-10: a response that is the first thing to say is JSON.
#[tokio::test]
async fn lone_response_is_json() {
    let server = TestServer::start().await;
    let host = server.initialize(NEWEST).await;
    let reply = host.post(&request("a", "echo", json!({"x": 1}))).await;
    assert_eq!(reply.header("mcp-session-id"), None);
    assert_eq!(reply.expect_json(200).await, result("a", json!({"x": 1})));
    let error = host.post(&request(2, "nonsense", json!({}))).await.expect_json(200).await;
    assert_eq!(error["error"]["code"], -32601);
    let pong = host.post(&request(3, "ping", json!({}))).await.expect_json(200).await;
    assert_eq!(pong, result(3, json!({})));
}

/// HT-03: notifications and responses are accepted without a body.
#[tokio::test]
async fn ht_03_notifications_and_responses_are_accepted() {
    let mut server = TestServer::start().await;
    let host = server.initialize(NEWEST).await;
    host.post(&notification("notifications/x")).await.expect_empty(202).await;
    server.expect(Report::Arrived("notifications/x".into())).await;
    host.post(&result(77, json!({}))).await.expect_empty(202).await;
}

/// GW-10: what belongs to a request and comes before its response is on the stream of its POST.
#[tokio::test]
async fn related_messages_make_an_event_stream() {
    let server = TestServer::start().await;
    let host = server.initialize("2025-06-18").await;
    let standalone = host.get().await.expect_events();
    for _ in 0..3 {
        host.post(&notification("notifications/go")).await.expect_empty(202).await;
    }
    let mut events = host.post(&request(1, "talk", json!({"steps": 2, "token": "t"}))).await.expect_events();
    for step in [1, 2] {
        let message = events.message().await;
        assert_eq!(message["params"], json!({"progressToken": "t", "progress": step}));
    }
    let last = events.next().await.unwrap();
    assert_eq!(last.message, result(1, json!({"said": 2})));
    assert_eq!(last.id.split_once('-').unwrap().1, "3");
    events.expect_end().await;
    // Nothing was sent on the other stream.
    host.post(&notification("notifications/announce")).await.expect_empty(202).await;
    let mut standalone = standalone;
    assert_eq!(standalone.message().await["method"], "notifications/tools/list_changed");
}

/// HL-06: a question that belongs to a request is asked on its stream, and answered by a POST.
#[tokio::test]
async fn hl_06_question_is_asked_on_the_stream_of_its_request() {
    let server = TestServer::start().await;
    let host = server.initialize(NEWEST).await;
    let mut events = host.post(&request(1, "ask", json!({}))).await.expect_events();
    let begin = events.next().await.unwrap();
    assert_eq!(begin.message, Value::Null, "HL-09: the stream begins with an id");
    let question = events.message().await;
    assert_eq!(question["method"], "roots/list");
    host.post(&result(question["id"].clone(), json!({"roots": []}))).await.expect_empty(202).await;
    assert_eq!(events.message().await, result(1, json!({"roots": []})));
    events.expect_end().await;
}

/// A host that accepts no event stream is answered with JSON, and questioned on its other stream.
#[tokio::test]
async fn host_without_event_streams_is_answered_with_json() {
    let server = TestServer::start().await;
    let host = server.initialize(NEWEST).await;
    let mut standalone = host.get().await.expect_events();
    assert_eq!(standalone.message().await, Value::Null);
    let asking = {
        let host = host.with("accept", "application/json");
        tokio::spawn(async move { host.post(&request(1, "ask", json!({}))).await.expect_json(200).await })
    };
    let question = standalone.message().await;
    host.post(&result(question["id"].clone(), json!({"roots": []}))).await.expect_empty(202).await;
    assert_eq!(asking.await.unwrap(), result(1, json!({"roots": []})));
}

#[tokio::test]
async fn accept_header_decides_the_format() {
    let server = TestServer::start().await;
    let host = server.initialize("2025-06-18").await;
    for accept in ["*/*", "application/json, text/event-stream", "application/json;q=0.5"] {
        let reply = host.with("accept", accept).post(&request(1, "echo", json!({}))).await;
        assert_eq!(reply.expect_json(200).await, result(1, json!({})), "{accept}");
    }
    let only_events = host.with("accept", "text/event-stream");
    let mut events = only_events.post(&request(1, "echo", json!({}))).await.expect_events();
    assert_eq!(events.message().await, result(1, json!({})));
    events.expect_end().await;
    let refused = host.with("accept", "text/html").post(&request(1, "echo", json!({}))).await;
    let message = "Accept must allow application/json or text/event-stream";
    assert_eq!(refused.expect_json(406).await, refusal(-32600, message));
    let refused = host.with("content-type", "text/plain").post(&request(1, "echo", json!({}))).await;
    let message = "Content-Type must be application/json";
    assert_eq!(refused.expect_json(415).await, refusal(-32600, message));
}

/// BM-01: each request of a batch is answered on the one stream.
#[tokio::test]
async fn bm_01_batch_is_answered_on_one_stream() {
    let mut server = TestServer::start().await;
    let host = server.initialize("2025-03-26").await;
    let batch = json!([
        request(1, "echo", json!({"n": 1})),
        notification("notifications/x"),
        request(2, "echo", json!({"n": 2})),
    ]);
    let mut events = host.post(&batch).await.expect_events();
    let mut responses = [events.message().await, events.message().await];
    responses.sort_by_key(|response| response["id"].as_u64());
    assert_eq!(responses, [result(1, json!({"n": 1})), result(2, json!({"n": 2}))]);
    events.expect_end().await;
    server.expect(Report::Arrived("notifications/x".into())).await;
    let as_json = host.with("accept", "application/json").post(&batch).await.expect_json(200).await;
    assert_eq!(as_json.as_array().map(Vec::len), Some(2), "{as_json}");
    let single = json!([request(3, "echo", json!({}))]);
    assert_eq!(host.post(&single).await.expect_json(200).await, json!([result(3, json!({}))]));
    let only_notifications = json!([notification("notifications/x"), notification("notifications/y")]);
    host.post(&only_notifications).await.expect_empty(202).await;
    let begun = server.client.post(&json!([initialize("2025-03-26"), request(9, "ping", json!({}))])).await;
    let message = "initialize must not be part of a batch";
    assert_eq!(begun.expect_json(400).await, refusal(-32600, message));
}

/// The stream of a batch does not end with the first of its responses.
#[tokio::test]
async fn batch_waits_for_its_slowest_request() {
    let server = TestServer::start().await;
    let host = server.initialize("2025-03-26").await;
    let batch = json!([request(1, "talk", json!({"steps": 0})), request(2, "echo", json!({}))]);
    let mut events = host.post(&batch).await.expect_events();
    assert_eq!(events.message().await, result(2, json!({})));
    host.post(&notification("notifications/go")).await.expect_empty(202).await;
    assert_eq!(events.message().await, result(1, json!({"said": 0})));
    events.expect_end().await;
}

#[tokio::test]
async fn malformed_messages_are_refused() {
    let server = TestServer::start().await;
    let host = server.initialize(NEWEST).await;
    for (body, expected) in [
        ("", refusal(-32700, "the message cannot be used: not valid JSON")),
        ("{\"jsonrpc\":", refusal(-32700, "the message cannot be used: not valid JSON")),
        ("\u{0}\u{1}", refusal(-32700, "the message cannot be used: not valid JSON")),
        ("7", refusal(-32600, "the message cannot be used: not a JSON-RPC object")),
        ("[]", refusal(-32600, "the message cannot be used: not a JSON-RPC object")),
        ("{}", refusal(-32600, "the message cannot be used: neither a request nor an answer")),
        (
            r#"{"jsonrpc":"2.0","id":null,"method":"echo"}"#,
            refusal(-32600, "the message cannot be used: the id is neither a string nor a number"),
        ),
        (
            r#"{"jsonrpc":"2.0","id":0001,"method":"echo"}"#,
            refusal(-32700, "the message cannot be used: not valid JSON"),
        ),
    ] {
        assert_eq!(host.post_text(body).await.expect_json(400).await, expected, "{body}");
    }
    // BM-03: the id is echoed where it can be read.
    let cut = host.post_text(r#"{"jsonrpc":"2.0","id":"q","method":"x","params":{"#).await;
    let expected = json!({"jsonrpc": "2.0", "id": "q", "error": {"code": -32700, "message": "the message cannot be used: not valid JSON"}});
    assert_eq!(cut.expect_json(400).await, expected);
    // The session is as it was.
    assert_eq!(host.post(&request(1, "echo", json!({}))).await.expect_json(200).await, result(1, json!({})));
}

/// CN-03: `notifications/cancelled` ends a request without a response, and its POST with it.
#[tokio::test]
async fn cn_03_canceled_request_ends_its_post() {
    let mut server = TestServer::start().await;
    let host = server.initialize(NEWEST).await;
    let hanging = spawn_post(&host, request(5, "hang", json!({})));
    server.expect(Report::Arrived("hang".into())).await;
    let canceled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}});
    host.post(&canceled).await.expect_empty(202).await;
    let reply = hanging.await.unwrap();
    reply.expect_empty(202).await;
    server.expect(Report::Gone("hang".into())).await;
}

#[tokio::test]
async fn dropped_request_is_answered_with_an_error() {
    let server = TestServer::start().await;
    let host = server.initialize(NEWEST).await;
    let error = json!({
        "code": -31050,
        "message": "bowline: the request was given up (the server may have executed it)",
        "data": {"bowline": {"cause": "closed", "execution": "unknown"}},
    });
    let reply = host.post(&request(5, "drop", json!({}))).await;
    assert_eq!(reply.expect_json(200).await, json!({"jsonrpc": "2.0", "id": 5, "error": error}));
}

/// BM-02: an id that is in use is refused, and the request that uses it is not touched.
#[tokio::test]
async fn bm_02_duplicate_id_is_refused() {
    let mut server = TestServer::start().await;
    let host = server.initialize(NEWEST).await;
    let first = spawn_post(&host, request(5, "talk", json!({"steps": 0})));
    server.expect(Report::Arrived("talk".into())).await;
    let second = host.post(&request(5, "echo", json!({}))).await;
    assert_eq!(second.expect_json(400).await, refusal(-32600, "a request with this id is under way"));
    host.post(&notification("notifications/go")).await.expect_empty(202).await;
    assert_eq!(first.await.unwrap().expect_json(200).await, result(5, json!({"said": 0})));
}

/// A silent request becomes an event stream before its host gives up on it.
#[tokio::test]
async fn silent_request_becomes_an_event_stream() {
    let settings =
        bowline_server::HttpSettings::new().with_keep_alive_interval(std::time::Duration::from_millis(20));
    let server = TestServer::start_with(settings).await;
    let host = server.initialize("2025-06-18").await;
    let mut events = host.post(&request(1, "talk", json!({"steps": 0}))).await.expect_events();
    for _ in 0..3 {
        assert_eq!(events.comment().await, ": \n\n");
    }
    host.post(&notification("notifications/go")).await.expect_empty(202).await;
    assert_eq!(events.message().await, result(1, json!({"said": 0})));
    events.expect_end().await;
}

fn spawn_post(host: &HttpClient, message: Value) -> tokio::task::JoinHandle<crate::http_client::TestReply> {
    let host = host.clone();
    tokio::spawn(async move { host.post(&message).await })
}

//! Server requests in either era (PG-01, HL-06, BM-06, LC-05, CN-04, group MR).

use std::future::Future;
use std::pin::Pin;
use std::sync::mpsc;

use bowline::{Cause, Client, Handler, HandlerResult, Json, Misbehavior, ServerRequest, Topic};
use bowline_testkit::{self as testkit, Fault, StreamKind};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::mpsc::UnboundedSender;

use crate::support::{TEST_TIMEOUT, http, run_everywhere};

/// Accepts every form with the same content.
struct AcceptingHandler;

impl Handler for AcceptingHandler {
    fn capabilities(&self) -> Json {
        Json::parse(r#"{"elicitation":{"form":{}}}"#).unwrap()
    }

    fn handle(&self, _: ServerRequest) -> Pin<Box<dyn Future<Output = HandlerResult> + Send + '_>> {
        Box::pin(async { Ok(Json::parse(r#"{"action":"accept","content":{"city":"Oslo"}}"#).unwrap()) })
    }
}

/// PG-01: a ping is answered in any phase, on any channel, and during a call.
#[tokio::test]
async fn pg_01_pings_are_answered() {
    for (name, running, server) in run_everywhere(testkit::server().tool("slow")).await {
        if name.starts_with("modern") {
            continue;
        }
        let client = Client::connect(server).await.unwrap();
        let call = tokio::spawn({
            let client = client.clone();
            async move { client.call_tool("slow", &json!({ "ms": 500 })).await }
        });
        running.wait_for(|received| received.has_method("tools/call"), TEST_TIMEOUT).await;
        let pong = running.request("ping", json!({})).await;
        assert_eq!(pong["result"], json!({}), "{name}");
        call.await.unwrap().unwrap();
        client.close().await;
    }
}

/// LC-05: a request for an undeclared capability is refused, not ignored.
#[tokio::test]
async fn lc_05_undeclared_requests_are_refused() {
    let server = testkit::server().legacy().tool("echo").run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    for method in ["elicitation/create", "sampling/createMessage", "roots/list", "made/up"] {
        let answer = server.request(method, json!({})).await;
        assert_eq!(answer["error"]["code"], -32601, "{method}: {answer}");
    }
    client.close().await;
}

/// HL-06: a request on the stream of a call is answered while the call is pending.
#[tokio::test]
async fn hl_06_a_tool_that_asks_is_answered() {
    let form = json!({ "message": "Where?", "requestedSchema": { "type": "object", "properties": { "city": { "type": "string" } } } });
    for (name, running, server) in run_everywhere(testkit::server().tool("ask")).await {
        let client = Client::builder(server).handler(AcceptingHandler).connect().await.unwrap();
        let result = client
            .call_tool("ask", &json!({ "method": "elicitation/create", "params": form }))
            .await
            .unwrap();
        assert!(result.text().contains("Oslo"), "{name}: {}", result.text());
        client.close().await;
        assert_eq!(running.violations(), Vec::<String>::new(), "{name}");
    }
}

/// MR-02 to MR-05: the retry is the original request with the responses and the state, under a new
/// id.
#[tokio::test]
async fn mr_03_the_retry_carries_responses_and_state() {
    let server = testkit::server().modern().tool("echo").run().await;
    let client = Client::builder(http(&server)).handler(AcceptingHandler).connect().await.unwrap();
    let state = "{\"a\": 1}  \u{e9}";
    server.arm(Fault::reply(json!({
        "resultType": "input_required",
        "inputRequests": {
            "one": { "method": "elicitation/create", "params": { "message": "?", "requestedSchema": { "type": "object", "properties": {} } } },
            "two": { "method": "elicitation/create", "params": { "message": "?", "requestedSchema": { "type": "object", "properties": {} } } },
        },
        "requestState": state,
    })).on("tools/call"));
    client.call_tool("echo", &json!({ "q": "x" })).await.unwrap();
    let calls = server.received_with_method("tools/call");
    assert_eq!(calls.len(), 2);
    assert_ne!(calls[0].body["id"], calls[1].body["id"]);
    let (mut first, mut second) = (calls[0].params().clone(), calls[1].params().clone());
    let added = second.as_object_mut().unwrap();
    let answer = json!({ "action": "accept", "content": { "city": "Oslo" } });
    assert_eq!(added.remove("inputResponses").unwrap(), json!({ "one": answer, "two": answer }));
    assert_eq!(added.remove("requestState").unwrap(), state);
    // PR-04: the retry has its own progress token.
    assert_ne!(first["_meta"]["progressToken"], second["_meta"]["progressToken"]);
    for params in [&mut first, &mut second] {
        params["_meta"].as_object_mut().unwrap().remove("progressToken");
    }
    assert_eq!(first, second);
    client.close().await;
}

/// MR-01, MR-06, MR-07: input requests where none is allowed, without end, or of an undeclared
/// kind.
#[tokio::test]
async fn mr_06_invalid_input_requests_end_the_call() {
    let server = testkit::server().modern().tool("echo").run().await;
    let client = Client::builder(http(&server)).handler(AcceptingHandler).connect().await.unwrap();
    let state_only = json!({ "resultType": "input_required", "requestState": "s" });
    server.arm(Fault::reply(state_only.clone()).on("tools/list"));
    let error = client.list_tools().await.unwrap_err();
    assert_eq!(error.fault().unwrap().cause, Cause::Protocol(Misbehavior::UnknownResultType));
    server.arm(Fault::reply(state_only).on("tools/call").times(100));
    let error = client.call_tool("echo", &json!({})).await.unwrap_err();
    assert_eq!(error.fault().unwrap().cause, Cause::Protocol(Misbehavior::TooManyInputRounds));
    assert!(server.count("tools/call") < 30);
    server.disarm();
    let sampling =
        json!({ "k": { "method": "sampling/createMessage", "params": { "messages": [], "maxTokens": 1 } } });
    server.arm(
        Fault::reply(json!({ "resultType": "input_required", "inputRequests": sampling })).on("tools/call"),
    );
    let before = server.count("tools/call");
    let error = client.call_tool("echo", &json!({})).await.unwrap_err();
    assert_eq!(error.fault().unwrap().cause, Cause::Protocol(Misbehavior::UndeclaredInput));
    assert_eq!(error.execution(), bowline::Execution::Unknown, "it was sent");
    assert_eq!(server.count("tools/call"), before + 1, "no retry");
    client.close().await;
}

/// BM-06: a modern server must not send requests, and gets no response.
#[tokio::test]
async fn bm_06_a_modern_server_gets_no_answer() {
    let server = testkit::server().modern().tool("echo").stdio().await;
    let client =
        Client::builder(crate::support::stdio(&server)).handler(AcceptingHandler).connect().await.unwrap();
    server.write_stdout(
        "{\"jsonrpc\":\"2.0\",\"id\":\"s1\",\"method\":\"elicitation/create\",\"params\":{}}\n",
    );
    server.write_stdout("{\"jsonrpc\":\"2.0\",\"id\":\"s2\",\"method\":\"ping\"}\n");
    for _ in 0..3 {
        client.call_tool("echo", &json!({})).await.unwrap();
    }
    assert_eq!(server.count("response"), 0);
    client.close().await;
}

/// A request repeated with the same id is handled once.
#[tokio::test]
async fn a_repeated_request_is_served_once() {
    struct CountingHandler(UnboundedSender<&'static str>);
    impl Handler for CountingHandler {
        fn capabilities(&self) -> Json {
            AcceptingHandler.capabilities()
        }
        fn handle(&self, _: ServerRequest) -> Pin<Box<dyn Future<Output = HandlerResult> + Send + '_>> {
            let _ = self.0.send("asked");
            Box::pin(std::future::pending())
        }
    }
    let (said, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let server = testkit::server().legacy().tool("echo").stdio().await;
    let client = Client::builder(crate::support::stdio(&server))
        .handler(CountingHandler(said))
        .connect()
        .await
        .unwrap();
    for _ in 0..500 {
        server.write_stdout(
            "{\"jsonrpc\":\"2.0\",\"id\":\"same\",\"method\":\"elicitation/create\",\"params\":{}}\n",
        );
    }
    client.call_tool("echo", &json!({})).await.unwrap();
    assert_eq!(heard.recv().await, Some("asked"));
    assert!(heard.try_recv().is_err(), "asked once");
    client.close().await;
    drop(client);
    // The handler does not outlive its link.
    assert_eq!(heard.recv().await, None);
}

/// CN-04: when the server cancels its request, the handler is dropped and no response is sent.
#[tokio::test]
async fn cn_04_a_cancelled_request_is_dropped() {
    /// Reports when a request arrives and when its future is dropped.
    struct PendingHandler(UnboundedSender<&'static str>);
    struct DropNotifier(UnboundedSender<&'static str>);
    impl Drop for DropNotifier {
        fn drop(&mut self) {
            let _ = self.0.send("dropped");
        }
    }
    impl Handler for PendingHandler {
        fn capabilities(&self) -> Json {
            AcceptingHandler.capabilities()
        }
        fn handle(&self, _: ServerRequest) -> Pin<Box<dyn Future<Output = HandlerResult> + Send + '_>> {
            let _ = self.0.send("asked");
            let dropped = DropNotifier(self.0.clone());
            Box::pin(async move {
                let _dropped = dropped;
                std::future::pending().await
            })
        }
    }
    let (said, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let server = testkit::server().legacy().tool("echo").run().await;
    let client = Client::builder(http(&server)).handler(PendingHandler(said)).connect().await.unwrap();
    server
        .send_via(
            StreamKind::Get,
            json!({ "jsonrpc": "2.0", "id": "ask-1", "method": "elicitation/create", "params": {} }),
        )
        .await;
    assert_eq!(heard.recv().await, Some("asked"));
    server.send_via(StreamKind::Get, json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": "ask-1" } })).await;
    let end = tokio::time::timeout(TEST_TIMEOUT, heard.recv()).await.expect("the handler is dropped");
    assert_eq!(end, Some("dropped"));
    client.call_tool("echo", &json!({})).await.unwrap();
    assert_eq!(server.count("response"), 0);
    client.close().await;
}

/// CN-04: a handler that is running when its request is canceled, and that finishes without another
/// await, sends no response either.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cn_04_a_handler_that_finishes_during_cancellation_is_silent() {
    /// Keeps its thread until it may finish.
    struct BusyHandler {
        started: UnboundedSender<()>,
        may_finish: Mutex<mpsc::Receiver<()>>,
    }
    impl Handler for BusyHandler {
        fn capabilities(&self) -> Json {
            AcceptingHandler.capabilities()
        }
        fn handle(&self, request: ServerRequest) -> Pin<Box<dyn Future<Output = HandlerResult> + Send + '_>> {
            let _ = self.started.send(());
            let _ = self.may_finish.lock().recv_timeout(TEST_TIMEOUT);
            AcceptingHandler.handle(request)
        }
    }
    let (started, mut starts) = tokio::sync::mpsc::unbounded_channel();
    let (finish, may_finish) = mpsc::channel();
    let handler = BusyHandler { started, may_finish: Mutex::new(may_finish) };
    let server = testkit::server().legacy().tool("echo").stdio().await;
    let client = Client::builder(crate::support::stdio(&server)).handler(handler).connect().await.unwrap();
    let asked = server.send_request("elicitation/create", json!({})).await;
    assert_eq!(starts.recv().await, Some(()));
    assert!(asked.cancel("never mind"));
    // The cancellation was handled before this response.
    client.call_tool("echo", &json!({})).await.unwrap();
    finish.send(()).unwrap();
    client.call_tool("echo", &json!({})).await.unwrap();
    client.close().await;
    assert_eq!(server.violations(), [""; 0]);
    assert_eq!(server.count("response"), 0);
}

/// Notifications arrive as events, in the order they were sent.
#[tokio::test]
async fn notifications_keep_their_order() {
    for (name, running, server) in run_everywhere(testkit::server().tool("echo")).await {
        if name.starts_with("modern") {
            continue;
        }
        let client = Client::connect(server).await.unwrap();
        let mut events = client.events();
        for n in 0..500 {
            let params = json!({ "level": "info", "data": n });
            running
                .send(json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": params }))
                .await;
        }
        running.send(json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" })).await;
        // BM-04: unknown notifications are no error.
        running.send(json!({ "jsonrpc": "2.0", "method": "notifications/foo" })).await;
        for n in 0..500 {
            let event = tokio::time::timeout(TEST_TIMEOUT, events.next()).await.unwrap().unwrap();
            let bowline::Event::Notification(said) = event else { panic!("{name}: {event:?}") };
            let Topic::Log(params) = said.topic() else { panic!("{name}: {said:?}") };
            assert_eq!(params.member("data").unwrap().as_str(), n.to_string(), "{name}");
        }
        for topic in [Topic::ToolsChanged, Topic::Other] {
            let event = events.next().await.unwrap();
            let bowline::Event::Notification(said) = event else { panic!("{name}: {event:?}") };
            assert_eq!(said.topic(), topic, "{name}");
        }
        client.close().await;
        assert_eq!(running.count("response"), 0, "{name}: nothing is answered");
    }
}

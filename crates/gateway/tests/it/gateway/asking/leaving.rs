//! Hosts and servers that leave while a call waits for input.

use std::time::Duration;

use bowline_testkit::{self as testkit, ReceivedMessage, StreamKind, Tool};
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::*;

/// A gateway that waits for input only shortly.
pub(super) fn impatient(server: &TestServer) -> Gateway {
    Gateway::builder([server.configured()]).input_timeout(Duration::from_millis(50)).build()
}

/// One question of each kind.
fn every_question() -> [ScriptedRequest; 4] {
    [form("asked"), page("asked"), sampling("asked"), ScriptedRequest::roots("asked")]
}

fn given_up() -> Value {
    json!({"cause": "input_timeout", "execution": "unknown"})
}

/// GW-16: a host that does not come back. The server is told, and a late retry that nobody knows
/// what was executed.
#[tokio::test]
async fn gw_16_a_call_without_a_retry_is_given_up() {
    let questions = || [[form("a"), ScriptedRequest::roots("b")], [page("a"), sampling("b")]];
    for (kind, questions) in [ServerKind::LegacyHttp, ServerKind::LegacyStdio]
        .into_iter()
        .flat_map(|kind| questions().map(|questions| (kind, questions)))
    {
        let tool = Tool::asks("book", questions);
        let server = TestServer::start(kind, testkit::server().tool(tool)).await;
        let endpoint = Endpoint::start(&impatient(&server)).await;
        let host = RawHost::new(&endpoint, all_capabilities());
        let (_, state) = host.begin("book").await;
        let is_answer = |received: &ReceivedMessage| received.has_method("response");
        let first = server.wait_for_nth(0, is_answer, TEST_TIMEOUT).await;
        let second = server.wait_for_nth(1, is_answer, TEST_TIMEOUT).await;
        let told = [first.body, second.body];
        let cancel = told.iter().find_map(|answer| answer.get("result")).expect("an answer");
        assert_eq!(cancel, &json!({"action": "cancel"}), "{kind:?}");
        let error = told.iter().find_map(|answer| answer.get("error")).expect("an error");
        assert_eq!(error["message"], "the host did not answer in time", "{kind:?}");
        let late = host.call("book", retry(&state, json!({"q1": accept("Oslo")}))).await;
        assert_eq!(late["error"]["code"], -31050, "{late}");
        assert_eq!(late["error"]["data"]["bowline"], given_up(), "{kind:?}");
        assert_eq!(server.executions("book"), 1, "{kind:?}");
        endpoint.stop().await;
        assert_eq!(server.violations(), [""; 0], "{kind:?}");
    }
}

/// GW-16: a modern server is not asked again for a call whose host is gone.
#[tokio::test]
async fn gw_16_a_modern_server_gets_no_retry_of_a_host_that_left() {
    for question in every_question() {
        let case = format!("{question:?}");
        let server = testkit::server().tool(Tool::asks("book", [question]));
        let server = TestServer::start(ServerKind::ModernHttp, server).await;
        let endpoint = Endpoint::start(&impatient(&server)).await;
        let host = RawHost::new(&endpoint, all_capabilities());
        let (_, state) = host.begin("book").await;
        let late = loop {
            // An invalid answer does not use the state.
            let answer = host.call("book", retry(&state, json!({"asked": {}}))).await;
            if answer["error"]["code"] != -32602 {
                break answer;
            }
        };
        assert_eq!(late["error"]["data"]["bowline"], given_up(), "{case}: {late}");
        assert_eq!((server.executions("book"), server.count("tools/call")), (0, 1), "{case}");
        endpoint.stop().await;
    }
}

/// CN-01, GW-16: a call that goes on after its question was given up is canceled.
#[tokio::test]
async fn cn_01_a_call_that_is_given_up_is_canceled_upstream() {
    let server = TestServer::start(ServerKind::LegacyHttp, testkit::server().tool("slow")).await;
    let endpoint = Endpoint::start(&impatient(&server)).await;
    let host = RawHost::new(&endpoint, all_capabilities());
    let long = json!({"arguments": {"ms": 600_000}});
    let calling = host.send("slow", &long);
    let asking = async {
        let called = server.wait_for(|received| received.tool() == Some("slow"), TEST_TIMEOUT).await;
        server.send_via(StreamKind::Post, json!({"jsonrpc": "2.0", "id": "s", "method": "roots/list"})).await;
        called
    };
    let (reply, called) = tokio::join!(calling, asking);
    assert_eq!(reply.message().await["result"]["resultType"], "input_required");
    server.wait_until(|server| !server.cancellations().is_empty(), TEST_TIMEOUT).await;
    assert_eq!(server.cancellations(), [called.body["id"].clone()]);
    let told = server.received_with_method("response");
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].body["error"]["message"], "the host did not answer in time");
    endpoint.stop().await;
}

/// GW-09, CN-01: a retry whose connection closes cancels the call.
#[tokio::test]
async fn gw_09_a_closed_retry_cancels_the_call_upstream() {
    let server = TestServer::start(ServerKind::LegacyHttp, testkit::server().tool("slow")).await;
    let endpoint = Endpoint::start(&gateway([server.configured()])).await;
    let client = endpoint.host(Era::Modern, ScriptedHost::new("accept")).await;
    let calling = tokio::spawn({
        let client = client.clone();
        async move { client.call_tool("slow", &json!({"ms": 600_000})).await }
    });
    let called = server.wait_for(|received| received.tool() == Some("slow"), TEST_TIMEOUT).await;
    server.send_via(StreamKind::Post, json!({"jsonrpc": "2.0", "id": "s", "method": "roots/list"})).await;
    let answered = server.wait_for(|received| received.has_method("response"), TEST_TIMEOUT).await;
    assert_eq!(answered.body["result"], scripted_answer("accept", "roots/list", "").unwrap());
    calling.abort();
    server.wait_until(|server| !server.cancellations().is_empty(), TEST_TIMEOUT).await;
    assert_eq!(server.cancellations(), [called.body["id"].clone()]);
    endpoint.stop().await;
}

/// GW-16: a server that dies while its question is open. Nobody knows what it executed.
#[tokio::test]
async fn gw_16_a_server_that_dies_while_a_call_is_parked_says_unknown() {
    for kind in [ServerKind::LegacyHttp, ServerKind::LegacyStdio] {
        let tool = Tool::asks("book", [form("where")]);
        let server = TestServer::start(kind, testkit::server().tool(tool)).await;
        let endpoint = Endpoint::start(&gateway([server.configured()])).await;
        let host = RawHost::new(&endpoint, all_capabilities());
        let (_, state) = host.begin("book").await;
        match &server {
            TestServer::Http(server) => server.stop().await,
            TestServer::Stdio(server) => server.exit(1),
        }
        let lost = host.call("book", retry(&state, json!({"q1": accept("Oslo")}))).await;
        assert_eq!(lost["error"]["code"], -31050, "{kind:?}: {lost}");
        assert_eq!(lost["error"]["data"]["bowline"]["execution"], "unknown", "{kind:?}: {lost}");
        assert_eq!(lost["error"]["data"]["bowline"]["server"], "one", "{kind:?}: {lost}");
        assert_eq!(server.executions("book"), 1, "{kind:?}");
        endpoint.stop().await;
    }
}

/// A host that never answers.
struct SilentHost(Arc<Notify>);

impl Handler for SilentHost {
    fn capabilities(&self) -> Json {
        Json::encode(&all_capabilities()).expect("JSON")
    }

    fn handle(&self, _: ServerRequest) -> Pin<Box<dyn Future<Output = HandlerResult> + Send + '_>> {
        self.0.notify_one();
        Box::pin(std::future::pending())
    }
}

/// GW-09, CN-01: a host with a session that cancels its call while it is asked.
#[tokio::test]
async fn cn_01_a_legacy_host_that_leaves_cancels_its_call() {
    for (kind, question) in SERVERS.into_iter().flat_map(|kind| every_question().map(|asked| (kind, asked))) {
        let case = format!("{kind:?} {question:?}");
        let tool = Tool::asks("book", [question]);
        let server = TestServer::start(kind, testkit::server().tool(tool).tool("echo")).await;
        let endpoint = Endpoint::start(&gateway([server.configured()])).await;
        let asked = Arc::<Notify>::default();
        let client = endpoint.host(Era::Legacy, SilentHost(Arc::clone(&asked))).await;
        let calling = tokio::spawn({
            let client = client.clone();
            async move { client.call_tool("book", &json!({})).await }
        });
        soon(asked.notified()).await;
        calling.abort();
        if kind == ServerKind::ModernHttp {
            // The server has nothing open that could be canceled.
            soon(client.call_tool("echo", &json!({}))).await.expect("a result");
            assert_eq!((server.count("tools/call"), server.executions("book")), (2, 0), "{case}");
        } else {
            let called = server.wait_for(|received| received.tool() == Some("book"), TEST_TIMEOUT).await;
            server.wait_until(|server| !server.cancellations().is_empty(), TEST_TIMEOUT).await;
            assert_eq!(server.cancellations(), [called.body["id"].clone()], "{case}");
            assert_eq!(server.executions("book"), 1, "{case}");
        }
        endpoint.stop().await;
        assert_eq!(server.violations(), [""; 0], "{case}");
    }
}

/// CN-04: a question that the server takes back is not asked, and the call goes on.
#[tokio::test]
async fn cn_04_a_question_that_is_taken_back_needs_no_answer() {
    let tool = Tool::asks("book", [form("where")]);
    let server = TestServer::start(ServerKind::LegacyHttp, testkit::server().tool(tool)).await;
    let endpoint = Endpoint::start(&gateway([server.configured()])).await;
    let host = RawHost::new(&endpoint, all_capabilities());
    let (_, state) = host.begin("book").await;
    let pending = server.pending_server_requests();
    assert!(server.cancel_server_request(&pending[0].id, "never mind"));
    let mut answer = host.call("book", retry(&state, json!({}))).await;
    // The gateway may not have read that yet.
    while answer["result"]["resultType"] == "input_required" {
        answer = host.call("book", retry(&answer["result"]["requestState"], json!({}))).await;
    }
    assert_eq!(answers(&answer)["where"]["cancelled"], "never mind", "{answer}");
    endpoint.stop().await;
    assert_eq!(server.violations(), [""; 0]);
}

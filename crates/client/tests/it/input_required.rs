//! Input that modern servers require in several rounds (group MR), and limits on cancellation and
//! progress.

use std::collections::BTreeMap;
use std::time::Duration;

use bowline::host::{Elicit, FormRequest, Host, HostFuture, UrlRequest};
use bowline::types::ElicitResult;
use bowline::{CallOptions, Client, Json};
use bowline_test::{FakeServer, ToolError};
use bowline_testkit::{self as testkit, Fault, ScriptedRequest, Tool};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::support::{TEST_TIMEOUT, http, run_everywhere};

/// Accepts each form with its own message.
#[derive(Default)]
struct EchoingPerson;

impl Elicit for EchoingPerson {
    fn form(&self, request: FormRequest) -> HostFuture<'_, ElicitResult> {
        let content = json!({ "said": &*request.form.message });
        Box::pin(async move { ElicitResult::Accept(Some(Json::encode(&content).unwrap())) })
    }

    fn url(&self, _: UrlRequest) -> HostFuture<'_, ElicitResult> {
        Box::pin(async { ElicitResult::Decline })
    }
}

fn question(key: &str, message: &str) -> ScriptedRequest {
    let schema = json!({ "type": "object", "properties": { "said": { "type": "string" } } });
    ScriptedRequest::form_elicitation(key, message, schema)
}

/// MR-01: prompts and resources may require input as tools may.
#[tokio::test]
async fn mr_01_prompts_and_resources_may_ask() {
    let script = testkit::server()
        .prompt("p", "hi")
        .resource("a:1", "one")
        .asks("prompts/get", "p", [question("k", "for the prompt")])
        .asks("resources/read", "a:1", [question("k", "for the resource")]);
    for (name, running, server) in run_everywhere(script).await {
        if name.starts_with("legacy") {
            continue;
        }
        let client =
            Client::builder(server).handler(Host::new().elicitation(EchoingPerson)).connect().await.unwrap();
        client.get_prompt("p", &BTreeMap::new()).await.unwrap();
        client.read_resource("a:1").await.unwrap();
        for (method, said) in [("prompts/get", "for the prompt"), ("resources/read", "for the resource")] {
            let asked = running.received_with_method(method);
            assert_eq!(asked.len(), 2, "{name} {method}");
            assert_eq!(asked[1].params()["inputResponses"]["k"]["content"]["said"], said, "{name}");
        }
        client.close().await;
        assert_eq!(running.violations(), Vec::<String>::new(), "{name}");
    }
}

/// MR-04, MR-05, MR-08: each round carries the newest state and responses and nothing of the
/// previous round; a concurrent call carries neither.
#[tokio::test]
async fn mr_04_each_round_carries_only_its_own_state() {
    let tool = Tool::asks_in_rounds("long", [vec![question("one", "1")], vec![question("two", "2")], vec![]])
        .request_states([Some("first"), None, Some("third")]);
    let server = testkit::server().modern().tool(tool).tool("echo").run().await;
    let client = Client::builder(http(&server))
        .handler(Host::new().elicitation(EchoingPerson))
        .connect()
        .await
        .unwrap();
    let (nothing, something) = (json!({}), json!({ "x": 1 }));
    let (long, echo) = tokio::join!(client.call_tool("long", &nothing), client.call_tool("echo", &something));
    long.unwrap();
    echo.unwrap();
    client.call_tool("echo", &json!({ "x": 2 })).await.unwrap();
    let seen = |tool: &str| -> Vec<(Value, Value)> {
        let calls = server.received_with_method("tools/call");
        let calls = calls.iter().filter(|call| call.params()["name"] == tool);
        calls
            .map(|call| (call.params()["requestState"].clone(), call.params()["inputResponses"].clone()))
            .collect()
    };
    let rounds = seen("long");
    assert_eq!(rounds.len(), 4);
    assert_eq!(rounds[0], (Value::Null, Value::Null));
    assert_eq!((&rounds[1].0, rounds[1].1.as_object().unwrap().len()), (&json!("first"), 1));
    assert_eq!(rounds[1].1["one"]["content"], json!({ "said": "1" }));
    assert_eq!(rounds[2].0, Value::Null, "the newest result had none");
    assert_eq!(rounds[2].1.as_object().unwrap().keys().collect::<Vec<_>>(), ["two"]);
    assert_eq!(rounds[3], (json!("third"), Value::Null));
    assert!(seen("echo").iter().all(|call| *call == (Value::Null, Value::Null)));
    client.close().await;
    assert_eq!(server.violations(), Vec::<String>::new());
}

/// CN-05: a modern server must not cancel our call.
#[tokio::test]
async fn cn_05_a_server_cannot_cancel_our_call() {
    for (name, running, server) in run_everywhere(testkit::server().tool("slow")).await {
        let client = Client::connect(server).await.unwrap();
        let call = tokio::spawn({
            let client = client.clone();
            async move { client.call_tool("slow", &json!({ "ms": 300 })).await }
        });
        let received = running.wait_for(|received| received.has_method("tools/call"), TEST_TIMEOUT).await;
        let id = received.body["id"].clone();
        running
            .send(json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } }))
            .await;
        call.await.unwrap().unwrap_or_else(|error| panic!("{name}: {error}"));
        client.close().await;
    }
}

/// CN-01: an abandoned handshake is not canceled by a message.
#[tokio::test]
async fn cn_01_initialize_is_never_cancelled() {
    let server = testkit::server().legacy().tool("echo").stdio().await;
    server.arm(Fault::silent().on("initialize"));
    let entry = crate::support::stdio(&server).with_protocol(bowline::config::Protocol::Legacy);
    let client = Client::builder(entry).open().unwrap();
    server.wait_for(|received| received.has_method("initialize"), TEST_TIMEOUT).await;
    client.close().await;
    assert_eq!(server.count("notifications/cancelled"), 0);
}

/// PR-02: progress that falls, repeats or has an unknown token is passed on or dropped, and
/// disturbs no call.
#[tokio::test]
async fn pr_02_odd_progress_is_tolerated() {
    for (name, running, server) in run_everywhere(testkit::server().tool("slow")).await {
        let client = Client::connect(server).await.unwrap();
        let mut call = client.call("slow").arguments(&json!({ "ms": 300 })).start();
        let mut progress = call.progress();
        let received = running.wait_for(|received| received.has_method("tools/call"), TEST_TIMEOUT).await;
        let token = received.params()["_meta"]["progressToken"].clone();
        for (token, at) in
            [(token.clone(), 5.5), (json!("nobody's"), 9.0), (token.clone(), 2.0), (token, 2.0)]
        {
            let params = json!({ "progressToken": token, "progress": at, "total": 77 });
            running
                .send(json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params }))
                .await;
        }
        call.await.unwrap();
        let mut seen = Vec::new();
        while let Some(progress) = progress.next().await {
            // The tool's own progress comes in between.
            if progress.total == Some(77.0) {
                seen.push(progress.progress);
            }
        }
        assert_eq!(seen, [5.5, 2.0, 2.0], "{name}: and the stream ends with the call");
        client.close().await;
    }
}

/// PA-01: a cursor is not used in another session: the list starts again.
#[tokio::test]
async fn pa_01_a_cursor_stays_in_its_session() {
    let server = testkit::server().legacy().filler_tools(25, 50).page_size(10).run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    server.arm(Fault::drop_sessions().on("tools/list").skip(1).times(1));
    assert_eq!(client.list_tools().await.unwrap().len(), 25);
    // Per session: the pages that were requested with a cursor.
    let mut by_session: Vec<(Option<String>, Vec<bool>)> = Vec::new();
    for page in server.received_with_method("tools/list") {
        let cursor = page.params().get("cursor").is_some();
        match by_session.last_mut() {
            Some((session, pages)) if *session == page.session => pages.push(cursor),
            _ => by_session.push((page.session.clone(), vec![cursor])),
        }
    }
    assert_eq!(by_session.len(), 2, "{by_session:?}");
    assert_eq!(by_session[1].1, [false, true, true], "{by_session:?}");
    client.close().await;
}

/// TL-08: every call is logged, however it ends, without its arguments.
#[tokio::test]
async fn tl_08_calls_are_recorded() {
    static RECORDS: Mutex<Vec<u8>> = Mutex::new(Vec::new());
    struct LogSink;
    impl std::io::Write for LogSink {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            RECORDS.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_span_events(tracing_subscriber::fmt::format::FmtSpan::CLOSE)
        .with_writer(|| LogSink)
        .finish();
    // Global, because a thread's subscriber misses call sites that others have registered first.
    tracing::subscriber::set_global_default(subscriber).unwrap();
    let server = testkit::server().tool("echo").tool("fail").tool("slow").run().await;
    let entry = bowline::Server::http("recorded", server.url()).build().unwrap();
    let client = Client::connect(entry).await.unwrap();
    client.call_tool("echo", &json!({ "password": "hunter2" })).await.unwrap();
    assert!(client.call_tool("fail", &json!({})).await.unwrap().is_error);
    client.call_tool("nonesuch", &json!({})).await.unwrap_err();
    {
        let arguments = json!({ "ms": 60_000 });
        let slow = client.call_tool("slow", &arguments);
        tokio::pin!(slow);
        tokio::select! {
            _ = &mut slow => panic!("it is slow"),
            _ = server.wait_for(|received| received.tool() == Some("slow"), TEST_TIMEOUT) => {}
        }
    }
    let brief = CallOptions::new().timeout(Duration::from_millis(50));
    client.call_tool_with("slow", &json!({ "ms": 60_000 }), &brief).await.unwrap_err();
    client.close().await;
    let records = String::from_utf8(RECORDS.lock().clone()).unwrap();
    let calls: Vec<_> = records
        .lines()
        .filter(|line| line.contains("bowline::calls") && line.contains("server=recorded"))
        .collect();
    assert_eq!(calls.len(), 5, "{records}");
    for (call, (tool, outcome)) in calls.iter().zip([
        ("echo", "done"),
        ("fail", "tool error"),
        ("nonesuch", "refused by the server"),
        ("slow", "left by its caller"),
        ("slow", "failed"),
    ]) {
        assert!(call.contains(&format!("tool={tool:?}")) && call.contains(outcome), "{call}");
    }
    // Each call has one span, with the documented fields and without arguments and results.
    let spans: Vec<_> = records
        .lines()
        .filter(|line| line.contains("mcp.request{") && line.contains("close"))
        .filter(|line| line.contains(r#"mcp.server.name="recorded""#))
        .filter(|line| line.contains(r#"mcp.method.name="tools/call""#))
        .collect();
    assert_eq!(spans.len(), 5, "{records}");
    for (span, (tool, outcome, error)) in spans.iter().zip([
        ("echo", "done", None),
        ("fail", "tool_error", Some("tool_error")),
        ("nonesuch", "refused", Some("-32602")),
        ("slow", "abandoned", Some("abandoned")),
        ("slow", "unknown", Some("timeout")),
    ]) {
        assert!(span.contains(&format!("gen_ai.tool.name={tool:?}")), "{span}");
        assert!(span.contains(&format!("bowline.outcome={outcome:?} bowline.attempts=1")), "{span}");
        assert!(span.contains(r#"mcp.protocol.version="2026-07-28""#), "{span}");
        let error_type = span.split_once("error.type=").map(|(_, rest)| rest.split('}').next().unwrap());
        assert_eq!(error_type.map(str::to_owned), error.map(|error: &str| format!("{error:?}")), "{span}");
    }
    assert!(!records.contains("hunter2"));
}

/// PR-02: a server that begins its work anew in each round does not let the progress of a call fall.
#[tokio::test]
async fn pr_02_progress_does_not_fall_from_one_round_to_the_next() {
    let fake = FakeServer::modern().async_tool("knit", |context, _| async move {
        for at in [1.0, 2.0] {
            context.progress(at, None, None);
        }
        let schema = json!({ "type": "object", "properties": { "said": { "type": "string" } } });
        context.elicit_form("Go on?", schema).await?;
        for at in [1.0, 2.0, 3.0] {
            context.progress(at, None, None);
        }
        Ok::<_, ToolError>("knitted")
    });
    let fake = fake.serve_http().await.unwrap();
    let client = Client::builder(fake.server()).handler(Host::new().elicitation(EchoingPerson));
    let client = client.connect().await.unwrap();
    let mut call = client.call("knit").start();
    let mut progress = call.progress();
    let result = call.await.unwrap();
    assert_eq!((&*result.text(), result.report.attempts), ("knitted", 2));
    let mut seen = Vec::new();
    while let Some(progress) = progress.next().await {
        seen.push(progress.progress);
    }
    assert_eq!(seen, [1.0, 2.0, 3.0]);
    client.close().await;
}

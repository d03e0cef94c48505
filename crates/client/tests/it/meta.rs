//! What callers add to the `_meta` of requests: log levels (group LG), traces (OT-01) and their own
//! keys (MT-01, MT-03).

use bowline::types::LogLevel;
use bowline::{CallOptions, Client, ErrorKind, Event, Json, MetaKey, TraceContext};
use bowline_testkit::{self as testkit, Control, Tool};
use serde_json::{Value, json};

use crate::support::run_everywhere;

const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
const TRACE_PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn last_meta(running: &Control) -> Value {
    running.received_with_method("tools/call").last().expect("a call").params()["_meta"].clone()
}

/// LG-01, LG-02: one log level, set once per session in the legacy era and with each call in the
/// modern one.
#[tokio::test]
async fn lg_01_a_log_level_in_either_era() {
    for (name, running, server) in run_everywhere(testkit::server().tool("echo")).await {
        let client = Client::connect(server).await.unwrap();
        client.call_tool("echo", &json!({})).await.unwrap();
        assert_eq!(last_meta(&running).get(LOG_LEVEL), None, "{name}: not asked for");
        client.set_log_level(LogLevel::Warning).await.unwrap();
        client.call_tool("echo", &json!({})).await.unwrap();
        let chatty = CallOptions::new().log_level(LogLevel::Debug);
        if name.starts_with("legacy") {
            assert_eq!(running.received_with_method("logging/setLevel")[0].params()["level"], "warning");
            client.call_tool_with("echo", &json!({}), &chatty).await.unwrap();
            assert_eq!(running.count("logging/setLevel"), 1, "{name}");
            assert_eq!(last_meta(&running).get(LOG_LEVEL), None, "{name}: DE-12");
        } else {
            assert_eq!(last_meta(&running)[LOG_LEVEL], "warning", "{name}");
            assert_eq!(running.count("logging/setLevel"), 0, "{name}");
            client.call_tool_with("echo", &json!({}), &chatty).await.unwrap();
            assert_eq!(last_meta(&running)[LOG_LEVEL], "debug", "{name}: the call's own");
        }
        client.close().await;
        assert_eq!(running.violations(), Vec::<String>::new(), "{name}");
    }
}

/// LG-02: messages on the stream of a call reach its listener, and others are events.
#[tokio::test]
async fn lg_02_log_messages_of_a_call_reach_its_listener() {
    let tool = Tool::logs("log", [("info", json!("quiet")), ("error", json!("loud"))]);
    for (name, _running, server) in run_everywhere(testkit::server().tool(tool)).await {
        let client = Client::connect(server).await.unwrap();
        client.set_log_level(LogLevel::Error).await.unwrap();
        let mut events = client.events();
        let (sender, mut heard) = tokio::sync::mpsc::unbounded_channel();
        let options =
            CallOptions::new().on_log(move |params| sender.send(params.as_str().to_owned()).unwrap());
        client.call_tool_with("log", &json!({}), &options).await.unwrap();
        client.call_tool("log", &json!({})).await.unwrap();
        drop(options);
        let mut on_stream = 0;
        while let Some(params) = heard.recv().await {
            assert!(params.contains("loud"), "{name}: {params}");
            on_stream += 1;
        }
        let mut elsewhere = 0;
        while let Some(event) = events.try_next() {
            elsewhere += usize::from(matches!(event, Event::Notification(said) if *said.method == *"notifications/message"));
        }
        let expected = if name.ends_with("http") { (1, 1) } else { (0, 2) };
        assert_eq!((on_stream, elsewhere), expected, "{name}");
        client.close().await;
    }
}

/// LG-01: a legacy server without the logging capability gets no level.
#[tokio::test]
async fn lg_01_no_level_without_the_capability() {
    let server = testkit::server().legacy().without_capability("logging").run().await;
    let client = Client::connect(crate::support::http(&server)).await.unwrap();
    let error = client.set_log_level(LogLevel::Info).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NotOffered("logging")), "{error}");
    assert_eq!(server.count("logging/setLevel"), 0);
    client.close().await;
}

/// OT-01, MT-03: the trace and the caller's own keys are sent beside ours, on calls and retries.
#[tokio::test]
async fn ot_01_the_callers_trace_travels() {
    tokio::task_local!(static SPAN: &'static str);
    for (name, running, server) in run_everywhere(testkit::server().tool("echo")).await {
        let client = Client::builder(server)
            .trace(|| TraceContext::parse(SPAN.try_with(|span| *span).ok()?))
            .connect()
            .await
            .unwrap();
        client.call_tool("echo", &json!({})).await.unwrap();
        assert_eq!(last_meta(&running).get("traceparent"), None, "{name}: no span, no trace");
        // The trace source is queried within the caller's own task.
        SPAN.scope(TRACE_PARENT, client.call_tool("echo", &json!({}))).await.unwrap();
        assert_eq!(last_meta(&running)["traceparent"], TRACE_PARENT, "{name}");
        let options = CallOptions::new()
            .trace(TraceContext::parse(TRACE_PARENT).unwrap().child(7).state("v=1"))
            .meta(MetaKey::parse("com.example/tenant").unwrap(), Json::encode(&json!({ "id": 7 })).unwrap());
        // MT-02: callers cannot set the protocol's own keys.
        let reserved = MetaKey::parse("io.modelcontextprotocol/clientCapabilities").unwrap();
        let options = options.meta(reserved, Json::encode(&json!({ "sampling": {} })).unwrap());
        client.call_tool_with("echo", &json!({}), &options).await.unwrap();
        let meta = last_meta(&running);
        assert_eq!(meta["io.modelcontextprotocol/clientCapabilities"]["sampling"], Value::Null, "{name}");
        assert_eq!(meta["traceparent"], "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000007-01", "{name}");
        assert_eq!(meta["tracestate"], "v=1", "{name}");
        assert_eq!(meta["com.example/tenant"], json!({ "id": 7 }), "{name}");
        assert!(meta["progressToken"].is_number(), "{name}: ours is still there");
        // Keys already in the params stay.
        let params = json!({ "name": "echo", "arguments": {}, "_meta": { "com.example/a": 1 } });
        client.request_with("tools/call", &params, &options).await.unwrap();
        let meta = last_meta(&running);
        assert_eq!((&meta["com.example/a"], &meta["tracestate"]), (&json!(1), &json!("v=1")), "{name}");
        client.close().await;
        assert_eq!(running.violations(), Vec::<String>::new(), "{name}");
    }
}

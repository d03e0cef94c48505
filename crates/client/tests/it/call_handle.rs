//! The handle of a call: progress as a stream, cancellation, attempts, and typed results.

use std::time::Duration;

use bowline::{
    CallOptions, Cause, Client, ErrorKind, Execution, Json, Layer, LayerFuture, Misbehavior, Outcome,
    OutgoingRequest,
};
use bowline_testkit::{self as testkit, Tool};
use futures_util::StreamExt;
use serde::Deserialize;
use serde_json::json;
use tokio::time::timeout;

use crate::support::{TEST_TIMEOUT, http, run_everywhere};

/// The stream ends with the call, also when both are joined, and has every step in order.
#[tokio::test]
async fn progress_ends_with_the_call_it_is_joined_with() {
    for (name, _running, server) in run_everywhere(testkit::server().tool("slow")).await {
        let client = Client::connect(server).await.unwrap();
        let mut call = client.call("slow").arguments(&json!({ "ms": 100, "steps": 5 })).start();
        let mut progress = call.progress();
        let steps = async {
            let mut steps = Vec::new();
            while let Some(step) = progress.next().await {
                steps.push(step.progress);
            }
            steps
        };
        let (result, steps) =
            timeout(TEST_TIMEOUT, async { tokio::join!(call, steps) }).await.expect("both end");
        assert_eq!(steps, [1.0, 2.0, 3.0, 4.0, 5.0], "{name}");
        assert_eq!(result.unwrap().report.attempts, 1, "{name}");
        client.close().await;
    }
}

/// Progress flows though nobody polls the call, and what was not read in time gives way to newer.
#[tokio::test]
async fn slow_reader_of_progress_gets_the_newest() {
    let server = testkit::server().legacy().tool("slow").run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    let mut call = client.call("slow").arguments(&json!({ "ms": 200, "steps": 100 })).start();
    let (progress, mut late) = (call.progress(), call.progress());
    call.await.unwrap();
    let steps: Vec<_> = progress.map(|step| step.progress).collect().await;
    assert_eq!((steps.len(), steps[0], steps[63]), (64, 37.0, 100.0));
    assert_eq!(late.next().await.map(|step| step.progress), Some(37.0));
    client.close().await;
}

/// `cancel` and dropping the handle each reach the server exactly once, and only `cancel` leaves
/// someone to be told.
#[tokio::test]
async fn cancellation_reaches_the_server_once() {
    for (name, running, server) in run_everywhere(testkit::server().tool("slow").tool("echo")).await {
        let client = Client::connect(server).await.unwrap();
        let mut call = client.call("slow").arguments(&json!({ "ms": 30_000 })).start();
        let mut progress = call.progress();
        running.wait_for(|received| received.has_method("tools/call"), TEST_TIMEOUT).await;
        assert_eq!(call.attempts(), 1, "{name}");
        call.cancel();
        call.cancel();
        let error = timeout(TEST_TIMEOUT, call).await.expect("it ends").unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Cancelled), "{name}: {error}");
        assert_eq!((error.outcome(), error.execution()), (Outcome::Abandoned, Execution::Unknown), "{name}");
        assert_eq!(error.report().unwrap().attempts, 1, "{name}");
        while timeout(TEST_TIMEOUT, progress.next()).await.expect("it ends too").is_some() {}
        running.wait_until(|server| server.cancellations().len() == 1, TEST_TIMEOUT).await;

        let call = client.call("slow").arguments(&json!({ "ms": 30_000 })).start();
        running.wait_for_nth(1, |received| received.has_method("tools/call"), TEST_TIMEOUT).await;
        drop(call);
        running.wait_until(|server| server.cancellations().len() == 2, TEST_TIMEOUT).await;
        client.call("echo").await.unwrap();
        client.close().await;
        assert_eq!(running.cancellations().len(), 2, "{name}");
    }
}

/// A call that is canceled before it is sent sends nothing.
#[tokio::test]
async fn call_canceled_at_once_is_not_sent() {
    let server = testkit::server().legacy().tool("echo").run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    let call = client.call("echo").start();
    call.cancel();
    let error = call.await.unwrap_err();
    assert_eq!((error.outcome(), error.execution()), (Outcome::Abandoned, Execution::NotExecuted));
    client.close().await;
    assert_eq!(server.count("tools/call"), 0);
}

/// The attempts of a call that found its session lost are those of its report.
#[tokio::test]
async fn handle_counts_the_attempts() {
    let server = testkit::server().legacy().tool("counter").run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    client.call("counter").await.unwrap();
    server.drop_sessions();
    let mut call = client.call("counter").start();
    let result = (&mut call).await.unwrap();
    assert_eq!((call.attempts(), result.report.attempts, result.report.recoveries), (2, 2, 1));
    client.close().await;
}

/// The total limit ends a call despite its progress, and the idle limit one without any.
#[tokio::test]
async fn limits_of_the_builder_are_total_and_idle() {
    let server = testkit::server().legacy().tool("slow").run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    let limit = Duration::from_millis(200);
    let busy = client.call("slow").arguments(&json!({ "ms": 60_000, "steps": 6_000 }));
    let error = busy.timeout(limit).await.unwrap_err();
    assert!(error.is_timeout() && error.to_string().contains("longer than its limit"), "{error}");
    let silent = client.call("slow").arguments(&json!({ "ms": 60_000, "steps": 1 }));
    let error = silent.idle_timeout(limit).start().await.unwrap_err();
    assert!(error.is_timeout() && error.to_string().contains("no answer in time"), "{error}");
    client.close().await;
}

#[derive(Debug, Deserialize, PartialEq)]
struct Sum {
    sum: i64,
}

/// A typed result is the structured content, or a text that is JSON. A failed tool, a result that
/// fits neither the type nor the output schema, and arguments that are no object are errors.
#[tokio::test]
async fn json_decodes_and_checks_the_result() {
    let schema = json!({ "type": "object", "properties": { "sum": { "maximum": 9 } }, "required": ["sum"] });
    let text = |text: &str| json!({ "content": [{ "type": "text", "text": text }] });
    let tools = [
        Tool::named("structured").structured(json!({ "sum": 7 })).output_schema(schema.clone()),
        Tool::named("text").result(text("{\"sum\": 8}")),
        Tool::named("violating").structured(json!({ "sum": 10 })).output_schema(schema),
        Tool::named("prose").result(text("seven")),
        Tool::named("other").structured(json!({ "total": 7 })),
        Tool::like("fail", "fail"),
    ];
    let script = tools.into_iter().fold(testkit::server().legacy(), testkit::Script::tool);
    let server = script.run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    let sum = async |tool: &str| client.call(tool).start().json::<Sum>().await;
    assert_eq!(sum("violating").await.unwrap(), Sum { sum: 10 }, "the schema is not known yet");
    client.list_tools().await.unwrap();
    assert_eq!(sum("structured").await.unwrap(), Sum { sum: 7 });
    assert_eq!(sum("text").await.unwrap(), Sum { sum: 8 });
    for (tool, reason) in [("violating", "output schema"), ("prose", "not JSON"), ("other", "missing field")]
    {
        let error = sum(tool).await.unwrap_err();
        assert_eq!(error.fault().unwrap().cause, Cause::Protocol(Misbehavior::BadResult), "{tool}");
        assert!(error.to_string().contains(reason), "{tool}: {error}");
    }
    let failed = sum("fail").await.unwrap_err();
    let ErrorKind::ToolError(said) = failed.kind() else { panic!("{failed}") };
    assert!(!said.is_empty() && failed.to_string().contains(said), "{failed}");
    assert_eq!((failed.outcome(), failed.report().unwrap().attempts), (Outcome::ToolError, 1));
    let wrong = client.call("text").arguments(&json!([1])).start().await.unwrap_err();
    assert!(matches!(wrong.kind(), ErrorKind::Usage(_)), "{wrong}");
    client.close().await;
}

/// Replaces each of two tools with the other.
struct Chooser;

impl Layer for Chooser {
    fn on_request<'a>(&'a self, request: &'a mut OutgoingRequest) -> LayerFuture<'a> {
        Box::pin(async move {
            let chosen = match request.tool() {
                Some("unchecked") => "strict",
                Some("strict") => "unchecked",
                _ => return Ok(()),
            };
            request.set_params(Json::encode(&json!({ "name": chosen })).unwrap());
            Ok(())
        })
    }
}

/// A typed result is checked against the schema of the tool that a layer chose.
#[tokio::test]
async fn json_is_checked_against_the_schema_of_the_tool_that_a_layer_chose() {
    let schema = json!({ "type": "object", "properties": { "sum": { "maximum": 9 } } });
    let strict = Tool::named("strict").structured(json!({ "sum": 10 })).output_schema(schema);
    let unchecked = Tool::named("unchecked").structured(json!({ "sum": 11 }));
    let server = testkit::server().legacy().tool(strict).tool(unchecked).run().await;
    let client = Client::builder(http(&server)).layer(Chooser).connect().await.unwrap();
    client.list_tools().await.unwrap();
    let sum = async |tool: &str| client.call(tool).start().json::<Sum>().await;
    assert_eq!(sum("strict").await.unwrap(), Sum { sum: 11 });
    let error = sum("unchecked").await.unwrap_err();
    assert!(error.to_string().contains("output schema"), "{error}");
    client.close().await;
}

/// Why a call is canceled is asked of the host, whose panic must not take the caller down.
#[tokio::test]
async fn reason_that_panics_is_no_reason() {
    let server = testkit::server().legacy().tool("slow").run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    let options = CallOptions::new().cancel_reason(|| panic!("no reason"));
    let arguments = json!({ "ms": 60_000 });
    let call = client.call_tool_with("slow", &arguments, &options);
    let called = server.wait_for(|received| received.has_method("tools/call"), TEST_TIMEOUT);
    tokio::select! {
        outcome = call => panic!("{outcome:?}"),
        _ = called => {}
    }
    let canceled =
        server.wait_for(|received| received.has_method("notifications/cancelled"), TEST_TIMEOUT).await;
    assert_eq!(canceled.params()["reason"], "the caller no longer waits");
    client.close().await;
}

/// Text becomes JSON only if it is.
#[test]
fn json_is_parsed_from_text() {
    let parsed: Json = r#" {"a": 1} "#.parse().unwrap();
    assert_eq!(Json::try_from(r#"{"a": 1}"#).unwrap(), parsed);
    assert!(Json::try_from("{").is_err());
}

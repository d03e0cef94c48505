//! The report of a call: outcome, attempts, waits and recoveries, in the result, in the error and
//! as an event.

use std::sync::Arc;
use std::time::Duration;

use bowline::config::Protocol;
use bowline::{
    CallOptions, CallRecord, CallReport, Client, Event, EventReceiver, Execution, Outcome, Server,
};
use bowline_testkit::{self as testkit, Fault};
use serde_json::json;
use tokio::time::timeout;

use crate::support::{TEST_TIMEOUT, http, run_everywhere};

/// The outcome and the counts of a report.
fn counts(report: &CallReport) -> (Outcome, u32, u32) {
    assert!(report.waited <= report.duration, "{report:?}");
    (report.outcome, report.attempts, report.recoveries)
}

async fn next_call(events: &mut EventReceiver<Event>) -> Arc<CallRecord> {
    let call = async {
        loop {
            if let Event::CallEnded(call) = events.next().await.expect("the connection is open") {
                return call;
            }
        }
    };
    timeout(TEST_TIMEOUT, call).await.expect("a call ends")
}

/// Each outcome has its own label, once in the result or error and once as an event.
#[tokio::test]
async fn outcomes_are_told_apart_everywhere() {
    for (name, running, server) in run_everywhere(testkit::server().tool("echo").tool("fail")).await {
        let client = Client::connect(server).await.unwrap();
        let mut events = client.events();
        client.report_calls();
        let done = client.call_tool("echo", &json!({})).await.unwrap();
        assert_eq!(counts(&done.report), (Outcome::Done, 1, 0), "{name}");
        assert_eq!(done.report.waited, Duration::ZERO, "{name}");
        let failed = client.call_tool("fail", &json!({})).await.unwrap();
        assert_eq!(counts(&failed.report), (Outcome::ToolError, 1, 0), "{name}");
        running.arm(Fault::error(-32050, "out of rope").on("tools/call"));
        let refused = client.call_tool("echo", &json!({})).await.unwrap_err();
        assert_eq!(counts(refused.report().unwrap()), (Outcome::Refused, 1, 0), "{name}");
        running.arm(Fault::silent().on_tool("echo"));
        let short = CallOptions::new().idle_timeout(Duration::from_millis(50));
        let silent = client.call_tool_with("echo", &json!({}), &short).await.unwrap_err();
        assert_eq!(silent.outcome(), Outcome::Failed(Execution::Unknown), "{name}");
        let expected =
            [&done.report, &failed.report, refused.report().unwrap(), silent.report().unwrap()].map(|it| *it);
        for (tool, report) in ["echo", "fail", "echo", "echo"].into_iter().zip(expected) {
            let call = next_call(&mut events).await;
            assert_eq!((&*call.server, &*call.method), ("test", "tools/call"), "{name}");
            assert_eq!((call.tool.as_deref(), call.report), (Some(tool), report), "{name}");
        }
        client.close().await;
    }
}

/// A call that finds its session lost is sent twice, and goes on over one new session.
#[tokio::test]
async fn lost_session_costs_one_attempt_and_one_recovery() {
    let server = testkit::server().legacy().tool("counter").run().await;
    let client = Client::connect(http(&server).with_protocol(Protocol::Legacy)).await.unwrap();
    client.call_tool("counter", &json!({})).await.unwrap();
    server.drop_sessions();
    let answered = client.call_tool("counter", &json!({})).await.unwrap();
    assert_eq!(counts(&answered.report), (Outcome::Done, 2, 1));
    assert!(answered.report.waited > Duration::ZERO, "it waited for the new session");
    let sent = server.received_with_method("tools/call");
    assert_eq!((sent.len(), server.executions("counter")), (3, 2), "one of them was refused");
    let after = client.call_tool("counter", &json!({})).await.unwrap();
    assert_eq!(counts(&after.report), (Outcome::Done, 1, 0));
    client.close().await;
}

/// A call that finds no server is never sent, and all of its time is a wait.
#[tokio::test]
async fn call_without_a_server_is_not_attempted() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let server = Server::http("test", format!("http://127.0.0.1:{port}/mcp")).build().unwrap();
    let client = Client::builder(server).open().unwrap();
    let short = CallOptions::new().idle_timeout(Duration::from_millis(50));
    let error = client.call_tool_with("echo", &json!({}), &short).await.unwrap_err();
    let report = error.report().unwrap();
    assert_eq!(counts(report), (Outcome::Failed(Execution::NotExecuted), 0, 0), "{error}");
    assert!(report.waited > Duration::ZERO);
    client.close().await;
}

/// A call whose future is dropped ends as abandoned, once, and not before.
#[tokio::test]
async fn dropped_call_is_reported_as_abandoned() {
    for (name, running, server) in run_everywhere(testkit::server().tool("slow").tool("echo")).await {
        let client = Client::connect(server).await.unwrap();
        let mut events = client.events();
        client.report_calls();
        let call = tokio::spawn({
            let client = client.clone();
            async move { client.call_tool("slow", &json!({ "ms": 30_000 })).await }
        });
        running.wait_for(|received| received.has_method("tools/call"), TEST_TIMEOUT).await;
        call.abort();
        let ended = next_call(&mut events).await;
        assert_eq!(counts(&ended.report), (Outcome::Abandoned, 1, 0), "{name}");
        client.call_tool("echo", &json!({})).await.unwrap();
        assert_eq!(next_call(&mut events).await.tool.as_deref(), Some("echo"), "{name}: once");
        client.close().await;
    }
}

/// The methods below the typed ones are reported too, and requests that nobody asked for are not.
#[tokio::test]
async fn raw_requests_and_lists_are_reported() {
    let server = testkit::server().legacy().tool("fail").run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    client.list_tools().await.unwrap();
    let mut events = client.events();
    client.report_calls();
    client.request("tools/call", &json!({ "name": "fail" })).await.unwrap();
    client.list_tools().await.unwrap();
    let call = next_call(&mut events).await;
    assert_eq!((call.tool.as_deref(), call.report.outcome), (Some("fail"), Outcome::ToolError));
    let list = next_call(&mut events).await;
    assert_eq!((&*list.method, list.tool.as_deref()), ("tools/list", None));
    assert_eq!(counts(&list.report), (Outcome::Done, 1, 0));
    client.close().await;
}

/// A call that waits when its client is closed is reported before the events end.
#[tokio::test]
async fn calls_that_end_with_the_client_are_reported() {
    for _ in 0..20 {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let server = Server::http("test", format!("http://127.0.0.1:{port}/mcp")).build().unwrap();
        let client = Client::builder(server).open().unwrap();
        let mut events = client.events();
        client.report_calls();
        let calls: Vec<_> = (0..3)
            .map(|_| {
                let client = client.clone();
                tokio::spawn(async move { client.call_tool("echo", &json!({})).await })
            })
            .collect();
        while !matches!(events.next().await, Some(Event::Connection(_))) {}
        client.close().await;
        let mut ended = 0;
        while let Some(event) = timeout(TEST_TIMEOUT, events.next()).await.expect("the events end") {
            ended += u32::from(matches!(event, Event::CallEnded(_)));
        }
        assert_eq!(ended, 3);
        for call in calls {
            assert_eq!(call.await.unwrap().unwrap_err().execution(), Execution::NotExecuted);
        }
    }
}

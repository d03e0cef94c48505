//! Nothing runs twice: for every fault, what the server ran is what the caller was told.

use std::time::Duration;

use bowline::config::Protocol;
use bowline::fault::Execution;
use bowline::{CallOptions, Client, Server};
use bowline_testkit::{self as testkit, Answer, Control, Fault, Tool};
use serde_json::Value;

use crate::support::{everywhere, http};

/// A fault, by name; what it is on a link of HTTP and on a pipe.
fn faults() -> Vec<(&'static str, Option<Fault>, Option<Fault>)> {
    let status = |code| Fault::answer(Answer::new(code).html("<h1>upstream</h1>"));
    let both = |name, fault: Fault| (name, Some(fault.clone()), Some(fault));
    vec![
        ("reset before it is run", Some(Fault::reset()), None),
        ("reset after it was run", Some(Fault::reset().executed()), None),
        ("closed before", Some(Fault::close()), None),
        ("closed after", Some(Fault::close().executed()), None),
        ("cut in the reply", Some(Fault::cut_after(10)), Some(Fault::cut_after(10))),
        ("502 before", Some(status(502)), None),
        ("502 after", Some(status(502).executed()), None),
        ("503 before", Some(status(503)), None),
        ("503 after", Some(status(503).executed()), None),
        ("504 after", Some(status(504).executed()), None),
        ("500 after", Some(status(500).executed()), None),
        ("session forgotten", Some(Fault::drop_sessions()), None),
        both("silent before", Fault::silent()),
        both("silent after", Fault::silent().executed()),
        both("garbage", Fault::raw(*b"{\"jsonrpc\":\"2.0\",")),
        ("exit before", None, Some(Fault::exit(7))),
        ("exit after", None, Some(Fault::exit(7).executed())),
    ]
}

/// One call with the fault armed. Then: a success ran once, what was not executed ran never, and what is
/// unknown ran at most once. After it the next call finds a server.
async fn check(name: &str, server: &Control, client: &Client, tool: &str, fault: Fault, most: u64) {
    let before = server.executions(tool);
    server.arm(fault.on_tool(tool));
    let limits = CallOptions::new().timeout(Duration::from_millis(700));
    let outcome = client.call_tool_with(tool, &Value::Null, &limits).await;
    let ran = server.executions(tool) - before;
    let told = match &outcome {
        Ok(_) => "done",
        Err(error) if error.execution() == Execution::NotExecuted => "not executed",
        Err(_) => "unknown",
    };
    match told {
        "done" => assert!((1..=most).contains(&ran), "{name}: {told}, ran {ran} times"),
        "not executed" => assert_eq!(ran, 0, "{name}: {outcome:?}"),
        _ => assert!(ran <= most.min(1), "{name}: {told}, ran {ran} times"),
    }
    server.disarm();
    // Half a reply ends the call before the process that wrote it has ended: one more may fall into that gap,
    // and must be told the truth too.
    let before = server.executions(tool);
    if let Err(error) = client.call_tool(tool, &Value::Null).await {
        let ran = server.executions(tool) - before;
        assert!(
            ran == 0 || (ran == 1 && error.execution() == Execution::Unknown),
            "{name}: {error}, ran {ran}"
        );
    }
    let before = server.executions(tool);
    client.call_tool(tool, &Value::Null).await.unwrap_or_else(|error| panic!("{name}, afterwards: {error}"));
    assert_eq!(server.executions(tool) - before, 1, "{name}, afterwards");
}

/// A tool that says nothing of itself runs at most once per call, always. One that is idempotent is repeated
/// at most once.
#[tokio::test]
async fn every_fault_leaves_a_true_account() {
    let script = testkit::server().tool("counter").tool(Tool::like("again", "counter").idempotent());
    for (transport, running, entry) in everywhere(script).await {
        let client = Client::connect(entry).await.unwrap();
        client.list_tools().await.unwrap();
        for (name, web, pipe) in faults() {
            let Some(fault) = (if transport.ends_with("http") { web } else { pipe }) else { continue };
            let name = format!("{transport}, {name}");
            check(&name, &running, &client, "counter", fault.clone(), 1).await;
            check(&name, &running, &client, "again", fault, 2).await;
        }
        client.close().await;
    }
}

/// The same where the tools were never listed: nothing is known of them, so they are looked up before
/// anything is repeated.
#[tokio::test]
async fn an_unlisted_tool_is_looked_up_before_it_is_repeated() {
    let script = testkit::server().legacy().tool("counter").tool(Tool::like("again", "counter").idempotent());
    for (tool, runs) in [("counter", 1), ("again", 2)] {
        let server = script.clone().run().await;
        let client = Client::connect(http(&server).with_protocol(Protocol::Legacy)).await.unwrap();
        server.arm(Fault::close().on_tool(tool).executed());
        let outcome = client.call_tool(tool, &Value::Null).await;
        assert_eq!((outcome.is_ok(), server.executions(tool)), (runs == 2, runs), "{tool}: {outcome:?}");
        client.close().await;
    }
}

/// What cannot be reached at all was not executed, and the error says why and when it is tried again.
#[tokio::test]
async fn what_cannot_be_reached_was_not_executed() {
    let server = testkit::server().run().await;
    let tls = server.url().replace("http://", "https://");
    for url in ["http://127.0.0.1:9/mcp", "http://nowhere.invalid/mcp", &tls] {
        let entry = Server::http("test", url).unwrap().with_reconnect_wait(Duration::from_millis(300));
        let client = Client::builder(entry).open().unwrap();
        let error = client.call_tool("counter", &Value::Null).await.unwrap_err();
        assert_eq!(error.execution(), Execution::NotExecuted, "{url}: {error}");
        assert!(error.to_string().contains("attempt"), "{url}: {error}");
        client.close().await;
    }
}

/// What may have run the first time is not said to have never run because the second attempt was refused.
#[tokio::test]
async fn a_doubt_is_not_forgotten_with_the_second_attempt() {
    let script = testkit::server().legacy().tool(Tool::like("again", "counter").idempotent());
    let server = script.run().await;
    let client = Client::connect(http(&server).with_protocol(Protocol::Legacy)).await.unwrap();
    client.list_tools().await.unwrap();
    server.arm(Fault::reset().on_tool("again").executed());
    server.arm(Fault::answer(Answer::new(404).text("Session not found")).on_tool("again"));
    let error = client.call_tool("again", &Value::Null).await.unwrap_err();
    assert_eq!((error.execution(), server.executions("again")), (Execution::Unknown, 1), "{error}");
    client.close().await;
}

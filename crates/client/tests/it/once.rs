//! Nothing runs twice: for every fault, what the server ran is what the caller was told.

use std::time::Duration;

use bowline::config::Protocol;
use bowline::fault::Execution;
use bowline::{CallOptions, Client, Server};
use bowline_testkit::{self as testkit, Answer, Control, Fault, Tool};
use serde_json::{Value, json};

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

/// Words about a session are no proof that a request was not run: not those of a tool that answers by our id,
/// not those of what stands in front of the server, and not where the session could not be asked.
#[tokio::test]
async fn words_alone_run_nothing_twice() {
    let own = |code: i64, message: &str| json!({ "jsonrpc": "2.0", "id": "$id", "error": { "code": code, "message": message } });
    let stray =
        json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32603, "message": "Internal error" } });
    let answers = [
        Answer::new(200).json(&own(-32603, "Browser session closed")),
        Answer::new(400).json(&own(-32000, "Session 5 not found")),
        Answer::new(404).json(&own(-32004, "Session 5 not found")),
        Answer::new(500).json(&own(-32000, "Session expired")),
        Answer::new(500).json(&own(-32603, "Payment session expired")),
        Answer::new(500).json(&own(-32000, "Internal Server Error")),
        Answer::new(504).text("Gateway Timeout: session timed out"),
        Answer::new(502).text("Bad Gateway: upstream session closed"),
        Answer::new(500).text("Error: Session closed"),
        Answer::new(200).json(&stray),
    ];
    // How the question that follows is answered: well, too busy, away, cut, and by a server that has lost the
    // session meanwhile.
    let probes = [
        None,
        Some(Fault::status(429)),
        Some(Fault::status(503)),
        Some(Fault::reset()),
        Some(Fault::drop_sessions()),
    ];
    for (at, answer) in answers.into_iter().enumerate() {
        // A refusal by our id in plain words, and a session that is gone in the same moment: that is how servers
        // report a lost session, and cannot be told from it.
        let telling = matches!(at, 1 | 2);
        for probe in probes.iter().take(if telling { 4 } else { 5 }) {
            let server = testkit::server().legacy().tool("counter").run().await;
            let client = Client::connect(http(&server).with_protocol(Protocol::Legacy)).await.unwrap();
            server.arm(Fault::answer(answer.clone()).on("tools/call").executed());
            if let Some(probe) = probe {
                server.arm(probe.clone().on("ping"));
            }
            let outcome = client.call_tool("counter", &Value::Null).await;
            let ran = server.executions("counter");
            assert_eq!(ran, 1, "{answer:?}, then {probe:?}: {outcome:?}");
            client.close().await;
        }
    }
}

/// A refusal in whatever words is asked about; if the session turns out to be gone it is replaced, and what was
/// refused is sent again.
#[tokio::test]
async fn unknown_wordings_are_asked_about() {
    for text in
        ["La session n'existe plus", "Sesja wygasła", "No MCP context for this client", "KeyError: 3f"]
    {
        let server =
            testkit::server().legacy().tool("counter").session_gone(Answer::new(400).text(text)).run().await;
        let client = Client::connect(http(&server).with_protocol(Protocol::Legacy)).await.unwrap();
        client.call_tool("counter", &Value::Null).await.unwrap();
        server.drop_sessions();
        client.call_tool("counter", &Value::Null).await.unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!((server.executions("counter"), server.initialize_count()), (2, 2), "{text}");
        client.close().await;
    }
}

/// The code by which modern servers report stale headers is, from others, their own.
#[tokio::test]
async fn a_legacy_error_of_that_number_is_not_mended() {
    let script = testkit::server().tool("counter");
    for (name, running, entry) in everywhere(script).await {
        if name.starts_with("modern") {
            continue;
        }
        let client = Client::connect(entry).await.unwrap();
        running.arm(Fault::error(-32020, "quota used up").on("tools/call").executed());
        client.call_tool("counter", &Value::Null).await.unwrap_err();
        assert_eq!(running.executions("counter"), 1, "{name}");
        client.close().await;
    }
}

/// Statuses that a server may give after the work do not say that there was none.
#[tokio::test]
async fn a_status_says_no_more_than_it_means() {
    for (code, execution) in [
        (408, Execution::Unknown),
        (409, Execution::Unknown),
        (424, Execution::Unknown),
        (499, Execution::Unknown),
        (405, Execution::NotExecuted),
        (413, Execution::NotExecuted),
        (415, Execution::NotExecuted),
    ] {
        let server = testkit::server().modern().tool("counter").run().await;
        let client = Client::connect(http(&server)).await.unwrap();
        server.arm(Fault::status(code).on("tools/call"));
        let error = client.call_tool("counter", &Value::Null).await.unwrap_err();
        assert_eq!(error.execution(), execution, "{code}: {error}");
        client.close().await;
    }
}

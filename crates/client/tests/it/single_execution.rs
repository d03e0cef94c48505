//! No call runs twice: for every fault, the reported outcome matches what the server executed.

use std::time::Duration;

use bowline::config::Protocol;
use bowline::host::Host;
use bowline::types::ElicitResult;
use bowline::{CallOptions, Client, Execution, Server};
use bowline_testkit::{self as testkit, CannedResponse, Control, Fault, HttpServer, Tool};
use serde_json::{Value, json};

use crate::support::{TEST_TIMEOUT, http, run_everywhere};

/// The outcome that a caller gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReportedOutcome {
    Done,
    NotExecuted,
    Unknown,
}

/// The reported outcome, and how often the tool ran.
type OutcomeAndRuns = (ReportedOutcome, u64);

/// One fault: its name, how it is armed over HTTP and on a pipe, and the expected outcome of a tool
/// with possible effects and of an idempotent one.
struct FaultCase {
    name: &'static str,
    http: Option<Fault>,
    pipe: Option<Fault>,
    effects: OutcomeAndRuns,
    idempotent: OutcomeAndRuns,
}

fn fault_cases() -> Vec<FaultCase> {
    use ReportedOutcome::{Done, Unknown};
    let status = |code| Fault::response(CannedResponse::new(code).html("<h1>upstream</h1>"));
    let web = |name, fault, effects, idempotent| FaultCase {
        name,
        http: Some(fault),
        pipe: None,
        effects,
        idempotent,
    };
    let pipe = |name, fault, effects, idempotent| FaultCase {
        name,
        http: None,
        pipe: Some(fault),
        effects,
        idempotent,
    };
    let (before, after) = (((Unknown, 0), (Done, 1)), ((Unknown, 1), (Done, 2)));
    let mut rows = Vec::new();
    for (name, fault) in [("reset", Fault::reset()), ("closed", Fault::close())] {
        rows.push(web(name, fault.clone(), before.0, before.1));
        rows.push(web(name, fault.executed(), after.0, after.1));
    }
    for (name, code) in [("502", 502), ("503", 503), ("504", 504)] {
        rows.push(web(name, status(code), before.0, before.1));
        rows.push(web(name, status(code).executed(), after.0, after.1));
    }
    rows.push(web("cut in the reply", Fault::cut_after(10), after.0, after.1));
    rows.push(pipe("cut in the reply", Fault::cut_after(10), after.0, after.1));
    // A status that is no outage is the server's own response, so nothing is retried.
    rows.push(web("500 after", status(500).executed(), (Unknown, 1), (Unknown, 1)));
    // An unreadable body might have named the request.
    let unread = CannedResponse::new(404).header("content-encoding", "gzip").body([0x1f, 0x8b, 8]);
    rows.push(web("404 that cannot be read", Fault::response(unread).executed(), (Unknown, 1), (Unknown, 1)));
    // A body in another encoding might contain an error for the request.
    let error = r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32004,"message":"no"}}"#;
    for (name, body) in [
        ("404 with a batch", format!("[{error}]").into_bytes()),
        ("404 behind a byte order mark", format!("\u{feff}{error}").into_bytes()),
        ("404 in UTF-16", error.encode_utf16().flat_map(u16::to_le_bytes).collect()),
        ("404 with bytes that are no text", vec![0x1f, 0x8b, 8, 0xff]),
    ] {
        let answer = CannedResponse::new(404).header("content-type", "application/json").body(body);
        rows.push(web(name, Fault::response(answer).executed(), (Unknown, 1), (Unknown, 1)));
    }
    rows.push(web("session forgotten", Fault::drop_sessions(), (Done, 1), (Done, 1)));
    rows.push(pipe("exit", Fault::exit(7), before.0, before.1));
    rows.push(pipe("exit", Fault::exit(7).executed(), after.0, after.1));
    // Silence lasts until the call's deadline, so nothing is retried.
    for (name, fault, ran) in [("silent", Fault::silent(), 0), ("silent", Fault::silent().executed(), 1)] {
        rows.push(web(name, fault.clone(), (Unknown, ran), (Unknown, ran)));
        rows.push(pipe(name, fault, (Unknown, ran), (Unknown, ran)));
    }
    let garbage = || Fault::raw(*b"{\"jsonrpc\":\"2.0\",");
    rows.push(web("garbage", garbage(), (Unknown, 1), (Unknown, 1)));
    rows.push(pipe("garbage", garbage(), (Unknown, 1), (Unknown, 1)));
    rows
}

/// Makes one call with the fault armed and returns its outcome. The next call must succeed.
async fn call_with_fault(
    server: &Control,
    client: &Client,
    tool: &str,
    fault: Fault,
    limit: Duration,
) -> OutcomeAndRuns {
    let before = server.executions(tool);
    server.arm(fault.on_tool(tool));
    let limits = CallOptions::new().idle_timeout(limit);
    let told = reported_outcome(&client.call_tool_with(tool, &Value::Null, &limits).await);
    let ran = server.executions(tool) - before;
    server.disarm();
    // Half a reply ends the call before its process has exited. One more call may fall into that
    // gap, and its outcome must be true as well.
    let before = server.executions(tool);
    if let Err(error) = client.call_tool(tool, &Value::Null).await {
        let ran = server.executions(tool) - before;
        assert!(ran == 0 || error.execution() == Execution::Unknown, "afterwards: {error}, ran {ran}");
    }
    let before = server.executions(tool);
    client.call_tool(tool, &Value::Null).await.unwrap_or_else(|error| panic!("afterwards: {error}"));
    assert_eq!(server.executions(tool) - before, 1, "afterwards");
    (told, ran)
}

fn reported_outcome<T>(outcome: &bowline::Result<T>) -> ReportedOutcome {
    match outcome.as_ref().map_err(bowline::Error::execution) {
        Ok(_) => ReportedOutcome::Done,
        Err(Execution::NotExecuted) => ReportedOutcome::NotExecuted,
        Err(Execution::Unknown) => ReportedOutcome::Unknown,
    }
}

/// For each fault, transport and era: the exact outcome, and the exact number of runs.
#[tokio::test]
async fn the_reported_outcome_matches_the_runs_for_every_fault() {
    let script = testkit::server().tool("counter").tool(Tool::like("again", "counter").idempotent());
    let mut wrong = Vec::new();
    for (transport, running, entry) in run_everywhere(script).await {
        let client = Client::connect(entry).await.unwrap();
        client.list_tools().await.unwrap();
        for FaultCase { name, http, pipe, effects, idempotent } in fault_cases() {
            let Some(fault) = (if transport.ends_with("http") { http } else { pipe }) else { continue };
            // Only these wait until the time of the call is over.
            let limit = match name {
                "silent" | "garbage" => Duration::from_secs(1),
                _ => TEST_TIMEOUT,
            };
            for (tool, wanted) in [("counter", effects), ("again", idempotent)] {
                let given = call_with_fault(&running, &client, tool, fault.clone(), limit).await;
                if given != wanted {
                    wrong.push(format!("{transport}, {name}, {tool}: {given:?} instead of {wanted:?}"));
                }
            }
        }
        client.close().await;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Tools that were never listed are looked up before anything is retried.
#[tokio::test]
async fn an_unlisted_tool_is_looked_up_before_it_is_repeated() {
    let script = testkit::server().legacy().tool("counter").tool(Tool::like("again", "counter").idempotent());
    for (tool, runs) in [("counter", 1), ("again", 2)] {
        let server = script.clone().run().await;
        let client = connect_legacy(&server).await;
        server.arm(Fault::close().on_tool(tool).executed());
        let outcome = client.call_tool(tool, &Value::Null).await;
        assert_eq!((outcome.is_ok(), server.executions(tool)), (runs == 2, runs), "{tool}: {outcome:?}");
        client.close().await;
    }
}

/// With two tools of one name it is unknown which one runs, so both must be harmless for a retry.
#[tokio::test]
async fn tools_of_one_name_are_retried_only_if_all_are_harmless() {
    let counter = || Tool::like("counter", "counter");
    for (tools, runs) in [
        ([counter(), counter().idempotent()], 1),
        ([counter().idempotent(), counter()], 1),
        ([counter().idempotent(), counter().read_only()], 2),
    ] {
        let [first, second] = tools;
        let server = testkit::server().legacy().tool(first).tool(second).run().await;
        let client = connect_legacy(&server).await;
        assert_eq!(client.list_tools().await.unwrap().len(), 2);
        server.arm(Fault::close().on_tool("counter").executed());
        let outcome = client.call_tool("counter", &Value::Null).await;
        assert_eq!((outcome.is_ok(), server.executions("counter")), (runs == 2, runs), "{outcome:?}");
        client.close().await;
    }
}

/// A call to an unreachable server was not executed; the error says why, and when the next attempt
/// is.
#[tokio::test]
async fn an_unreachable_server_executed_nothing() {
    let server = testkit::server().run().await;
    let tls = server.url().replace("http://", "https://");
    for url in ["http://127.0.0.1:9/mcp", "http://nowhere.invalid/mcp", &tls] {
        let entry =
            Server::http("test", url).build().unwrap().with_reconnect_wait(Duration::from_millis(300));
        let client = Client::builder(entry).open().unwrap();
        let error = client.call_tool("counter", &Value::Null).await.unwrap_err();
        assert_eq!(error.execution(), Execution::NotExecuted, "{url}: {error}");
        assert!(error.to_string().contains("attempt"), "{url}: {error}");
        client.close().await;
    }
}

/// A call that may have run keeps its unknown outcome when the server cannot be reached again.
#[tokio::test]
async fn an_unknown_outcome_survives_a_failed_retry() {
    let script = testkit::server().legacy().tool(Tool::like("again", "counter").idempotent());
    let server = script.run().await;
    let entry = http(&server).with_protocol(Protocol::Legacy).with_reconnect_wait(Duration::from_millis(300));
    let client = Client::connect(entry).await.unwrap();
    client.list_tools().await.unwrap();
    server.arm(Fault::reset().on_tool("again").executed());
    for method in ["ping", "initialize", "server/discover"] {
        server.arm(Fault::reset().on(method).always());
    }
    let error = client.call_tool("again", &Value::Null).await.unwrap_err();
    assert_eq!((error.execution(), server.executions("again")), (Execution::Unknown, 1), "{error}");
    client.close().await;
}

async fn connect_legacy(server: &HttpServer) -> Client {
    Client::connect(http(server).with_protocol(Protocol::Legacy)).await.unwrap()
}

/// Starts a server that answers requests of a lost session with `gate`, and calls its tool
/// `counter` once.
async fn connect_behind(gate: CannedResponse) -> (HttpServer, Client) {
    let server = testkit::server().legacy().tool("counter").unknown_session_response(gate).run().await;
    let client = connect_legacy(&server).await;
    client.call_tool("counter", &Value::Null).await.unwrap();
    (server, client)
}

/// Checks that a lost session behind this gateway is replaced, and the call retried at once.
async fn check_session_is_replaced(gate: CannedResponse) {
    let (server, client) = connect_behind(gate.clone()).await;
    server.drop_sessions();
    client.call_tool("counter", &Value::Null).await.unwrap_or_else(|error| panic!("{gate:?}: {error}"));
    assert_eq!((server.executions("counter"), server.initialize_count()), (2, 2), "{gate:?}");
    client.close().await;
}

/// The refusal of a gateway that looks for the session id in the headers.
fn missing_session_id() -> CannedResponse {
    CannedResponse::new(400).json(&server_error(-32000, "Bad Request: No valid session ID provided"))
}

fn server_error(code: i64, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": "$id", "error": { "code": code, "message": message } })
}

/// Text about a session does not prove that a request was not executed: neither a tool's, with or
/// without our id, nor a gateway's; whether the probe succeeds, fails, or finds the session lost.
#[tokio::test]
async fn error_text_alone_never_causes_a_retry() {
    let stray =
        json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32603, "message": "Internal error" } });
    let answers = [
        CannedResponse::new(200).json(&server_error(-32603, "Browser session closed")),
        CannedResponse::new(400).json(&server_error(-32000, "Session 5 not found")),
        CannedResponse::new(404).json(&server_error(-32004, "Session 5 not found")),
        CannedResponse::new(500).json(&server_error(-32000, "Session expired")),
        CannedResponse::new(503).json(&server_error(-32000, "Session expired")),
        CannedResponse::new(500).json(&server_error(-32603, "Payment session expired")),
        CannedResponse::new(500).json(&server_error(-32000, "Internal Server Error")),
        CannedResponse::new(504).text("Gateway Timeout: session timed out"),
        CannedResponse::new(502).text("Bad Gateway: upstream session closed"),
        CannedResponse::new(500).text("Error: Session closed"),
        CannedResponse::new(503).text("Session expired"),
        CannedResponse::new(400).text("Session expired"),
        CannedResponse::new(403).text("Session expired"),
        CannedResponse::new(200).json(&stray),
    ];
    // The replies to the probe: success, too busy, unavailable, cut, and session lost meanwhile.
    let probes = [
        None,
        Some(Fault::status(429)),
        Some(Fault::status(503)),
        Some(Fault::reset()),
        Some(Fault::drop_sessions()),
    ];
    for answer in answers {
        for probe in &probes {
            let server = testkit::server().legacy().tool("counter").run().await;
            let client = connect_legacy(&server).await;
            server.arm(Fault::response(answer.clone()).on("tools/call").executed());
            if let Some(probe) = probe {
                server.arm(probe.clone().on("ping"));
            }
            let outcome = client.call_tool("counter", &Value::Null).await;
            let account = (reported_outcome(&outcome), server.executions("counter"));
            assert_eq!(account, (ReportedOutcome::Unknown, 1), "{answer:?}, then {probe:?}: {outcome:?}");
            client.close().await;
        }
    }
}

/// A gateway refuses everything, in any wording, with our id or without: the session is replaced
/// and the call retried at once.
#[tokio::test]
async fn a_gateway_that_refuses_the_probe_too_means_session_loss() {
    let gates = [
        missing_session_id(),
        CannedResponse::new(400).json(&server_error(-32603, "Session not found")),
        CannedResponse::new(404).json(&server_error(-32603, "Session not found")),
        CannedResponse::new(400).json(&server_error(-32602, "Invalid session")),
        CannedResponse::new(403).json(&server_error(-32000, "Invalid session")),
        CannedResponse::new(503).json(&server_error(-32000, "Session not found")),
        CannedResponse::new(200).json(&server_error(-32001, "Session not found")),
        CannedResponse::new(401).text("Unauthorized: Session not found"),
        CannedResponse::new(404).text("Session not found"),
        CannedResponse::new(400).text("KeyError: 3f"),
        CannedResponse::new(400).text(""),
    ];
    for gate in gates {
        check_session_is_replaced(gate).await;
    }
}

/// Some gateways check the session of every request except `ping`.
#[tokio::test]
async fn a_gateway_that_passes_ping_is_probed_with_a_list() {
    let (server, client) = connect_behind(missing_session_id()).await;
    server.drop_sessions();
    server.arm(Fault::reply(json!({})).on("ping").always());
    client.call_tool("counter", &Value::Null).await.unwrap();
    assert_eq!((server.executions("counter"), server.initialize_count()), (2, 2));
    client.close().await;
}

/// The tool ran and the session is really lost: it is replaced, and the call is not retried.
#[tokio::test]
async fn a_probe_that_is_refused_differently_leaves_the_outcome_unknown() {
    let (server, client) = connect_behind(CannedResponse::new(404).text("Session not found")).await;
    server.arm(Fault::response(CannedResponse::new(500).text("session expired")).on("tools/call").executed());
    server.arm(Fault::drop_sessions().on("ping"));
    let error = client.call_tool("counter", &Value::Null).await.unwrap_err();
    assert_eq!((error.execution(), server.executions("counter")), (Execution::Unknown, 2), "{error}");
    client.call_tool("counter", &Value::Null).await.unwrap();
    assert_eq!((server.executions("counter"), server.initialize_count()), (3, 2));
    client.close().await;
}

/// One probe serves all waiting calls.
#[tokio::test]
async fn many_refused_calls_share_one_probe() {
    let (server, client) = connect_behind(missing_session_id()).await;
    server.drop_sessions();
    // The probe is slow enough for all calls to wait for it.
    server.arm(Fault::delay(Duration::from_millis(500)).on("ping"));
    crate::support::call_concurrently(&client, 50, "counter").await;
    assert_eq!((server.executions("counter"), server.initialize_count()), (51, 2));
    let probes = server.count("ping");
    assert!(probes <= 4, "{probes} probes for 50 calls");
    client.close().await;
}

/// A refusal in unknown wording is probed too.
#[tokio::test]
async fn unknown_wordings_are_probed() {
    for text in
        ["La session n'existe plus", "Sesja wygasła", "No MCP context for this client", "KeyError: 3f"]
    {
        check_session_is_replaced(CannedResponse::new(400).text(text)).await;
    }
}

/// Code -32020, by which modern servers report stale headers, has no such meaning from legacy ones.
#[tokio::test]
async fn a_legacy_error_32020_is_not_retried() {
    let script = testkit::server().tool("counter");
    for (name, running, entry) in run_everywhere(script).await {
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

/// Statuses that a server may send after executing do not prove that it did not.
#[tokio::test]
async fn statuses_that_may_follow_execution_prove_nothing() {
    for (code, execution) in [
        (400, Execution::Unknown),
        (403, Execution::Unknown),
        (408, Execution::Unknown),
        (409, Execution::Unknown),
        (422, Execution::Unknown),
        (429, Execution::Unknown),
        (424, Execution::Unknown),
        (499, Execution::Unknown),
        (404, Execution::Unknown),
        (405, Execution::Unknown),
        (413, Execution::Unknown),
        (415, Execution::Unknown),
    ] {
        let server = testkit::server().modern().tool("counter").run().await;
        let client = Client::connect(http(&server)).await.unwrap();
        server.arm(Fault::status(code).on("tools/call"));
        let error = client.call_tool("counter", &Value::Null).await.unwrap_err();
        assert_eq!(error.execution(), execution, "{code}: {error}");
        client.close().await;
    }
}

/// A server that has sent a message about a call let it pass its gate. If it then says that the session is
/// lost, of the call and of the probe, the call is not sent again. An idempotent tool is.
#[tokio::test]
async fn words_after_a_message_about_the_call_prove_nothing() {
    let log =
        r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"working"}}"#;
    let words = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Session not found"}}"#;
    let script = testkit::server().legacy().tool("counter").tool(Tool::like("again", "counter").idempotent());
    let server = script.run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    client.list_tools().await.unwrap();
    for (tool, expected) in
        [("counter", (ReportedOutcome::Unknown, 1)), ("again", (ReportedOutcome::Done, 2))]
    {
        let sessions = server.initialize_count();
        let stream = format!("data: {log}\n\ndata: {words}\n\n");
        server.arm(Fault::raw_as("text/event-stream", stream).on_tool(tool));
        server.arm(Fault::error(-32000, "Session not found").on("ping"));
        let outcome = client.call_tool(tool, &Value::Null).await;
        assert_eq!((reported_outcome(&outcome), server.executions(tool)), expected, "{tool}: {outcome:?}");
        // The session was given up all the same.
        client.call_tool("counter", &Value::Null).await.unwrap();
        assert_eq!(server.initialize_count(), sessions + 1, "{tool}");
    }
    assert_eq!(server.executions("counter"), 3);
    client.close().await;
}

/// A tool that asks a person is running, also if it asks on a stream of its own. If its call is then refused as one of
/// a lost session, it is not sent again. An idempotent tool is.
#[tokio::test]
async fn refusals_after_a_question_on_another_stream_prove_nothing() {
    let script = testkit::server().legacy().tool("counter").tool(Tool::like("again", "counter").idempotent());
    let server = script.run().await;
    let host = Host::new().on_form(async |_| ElicitResult::Decline);
    let client = Client::builder(http(&server)).handler(host).connect().await.unwrap();
    client.list_tools().await.unwrap();
    for (tool, expected) in
        [("counter", (ReportedOutcome::Unknown, 1)), ("again", (ReportedOutcome::Done, 2))]
    {
        let gate = CannedResponse::new(404).text("Session not found");
        server.arm(Fault::delay(Duration::from_secs(3)).on_tool(tool).executed());
        server.arm(Fault::response(gate).on_tool(tool).executed());
        let call = tokio::spawn({
            let client = client.clone();
            async move { client.call_tool(tool, &Value::Null).await }
        });
        server.wait_until(|server| server.executions(tool) == 1, TEST_TIMEOUT).await;
        let form = json!({ "message": "Sure?", "requestedSchema": { "type": "object", "properties": {} } });
        let answer = server.request("elicitation/create", form).await;
        assert_eq!(answer["result"]["action"], "decline", "{answer}");
        assert!(!call.is_finished(), "the question came too late");
        let outcome = call.await.unwrap();
        assert_eq!((reported_outcome(&outcome), server.executions(tool)), expected, "{tool}: {outcome:?}");
    }
    client.close().await;
}

//! Restarts, crashes and outages of the server, and the end of the host.

use std::collections::BTreeSet;
use std::time::Duration;

use bowline_testkit::{self as testkit, Fault, Script, StdioServer, StreamKind, Tool};
use serde_json::{Value, json};

use super::host::{Host, TEST_TIMEOUT, result_text};
use crate::context::Context;

/// A tool that counts, and an idempotent copy of it. A call sent on a connection whose end was not
/// yet noticed may have run, so only the copy is retried.
fn script() -> Script {
    testkit::server().tool("counter").tool(Tool::like("lookup", "counter").read_only())
}

#[tokio::test]
async fn a_restarted_server_is_back_in_the_same_call() {
    let context = Context::new();
    let server = script().legacy().run().await;
    let mut host = Host::start_initialized(context.bowline(["connect", &server.url()])).await;
    for _ in 0..5 {
        result_text(&host.call("lookup").await);
        server.restart().await;
    }
    assert_eq!(host.close().await.status.code(), Some(0));
}

/// Whatever the outcome of a call, the server has run it as often as the response says.
#[tokio::test]
async fn nothing_runs_twice_over_restarts() {
    let context = Context::new();
    let server = script().legacy().run().await;
    let mut host = Host::start_initialized(context.bowline(["connect", &server.url()])).await;
    for _ in 0..10 {
        let before = server.executions("counter");
        let answer = host.call("counter").await;
        let ran = server.executions("counter") - before;
        match answer["error"]["data"]["bowline"]["execution"].as_str() {
            None => assert_eq!((result_text(&answer), ran), (&*(before + 1).to_string(), 1)),
            Some("unknown") => assert!(ran <= 1, "{answer}"),
            other => panic!("{other:?}: {answer}"),
        }
        server.restart().await;
    }
}

#[tokio::test]
async fn a_call_waits_for_a_server_that_is_being_restarted() {
    let context = Context::new();
    let server = script().legacy().run().await;
    let mut host = Host::start_initialized(context.bowline(["connect", &server.url()])).await;
    server.stop().await;
    let id = host.send_request("tools/call", json!({"name": "lookup", "arguments": {}})).await;
    // The response to a ping proves that the call was received, and that the host is served
    // meanwhile.
    assert_eq!(host.request("ping", Value::Null).await["result"], json!({}));
    server.start().await;
    result_text(&host.wait_for_response(id).await);
}

/// HTTP+SSE by fallback, then by configuration.
#[tokio::test]
async fn an_http_sse_server_is_back_in_the_same_call() {
    for flags in [&["--transport", "sse-only"][..], &["--transport", "http-first"], &[]] {
        let context = Context::new();
        let server = script().http_sse().run().await;
        let url = server.url();
        let mut host = Host::start_initialized(context.bowline([&["connect", &url], flags].concat())).await;
        result_text(&host.call("lookup").await);
        server.restart().await;
        result_text(&host.call("lookup").await);
    }
}

/// As many calls as hosts have in flight: one new session for all of them, and each runs once.
#[tokio::test]
async fn five_hundred_calls_share_one_recovery() {
    let context = Context::new();
    let server = script().legacy().run().await;
    let mut host = Host::start_initialized(context.bowline(["connect", &server.url()])).await;
    result_text(&host.call("counter").await);
    server.drop_sessions();
    let mut open = BTreeSet::new();
    for _ in 0..500 {
        open.insert(host.send_request("tools/call", json!({"name": "counter", "arguments": {}})).await);
    }
    let mut counts = BTreeSet::new();
    while !open.is_empty() {
        let message = host.next_message().await;
        if let Some(id) = message["id"].as_u64() {
            assert!(open.remove(&id), "answered twice: {message}");
            counts.insert(result_text(&message).parse::<u64>().expect("a count"));
        }
    }
    assert_eq!(counts, (2..=501).collect());
    assert_eq!((server.executions("counter"), server.initialize_count()), (501, 2));
}

async fn start_child(context: &Context) -> (StdioServer, Host) {
    let server = script().legacy().stdio().await;
    let host = Host::start_initialized(context.bowline_with(&["connect"], &server.command())).await;
    (server, host)
}

#[tokio::test]
async fn a_process_that_ended_is_started_again_for_the_next_call() {
    let context = Context::new();
    let (server, mut host) = start_child(&context).await;
    result_text(&host.call("lookup").await);
    server.exit(1);
    result_text(&host.call("lookup").await);
    assert_eq!(server.processes().len(), 2);
    assert_eq!(host.close().await.status.code(), Some(0));
    server.expect_all_exited().await;
}

#[cfg(unix)]
#[tokio::test]
async fn a_process_that_is_killed_during_a_call_is_not_asked_twice() {
    use rustix::process::{Signal, kill_process};

    use crate::context::to_pid;

    let context = Context::new();
    let (server, mut host) = start_child(&context).await;
    server.arm(Fault::silent().on_tool("counter").executed());
    let id = host.send_request("tools/call", json!({"name": "counter", "arguments": {}})).await;
    server.wait_until(|server| server.executions("counter") == 1, TEST_TIMEOUT).await;
    kill_process(to_pid(server.pid().expect("it runs")), Signal::KILL).expect("it is there");
    let answer = host.wait_for_response(id).await;
    assert_eq!(answer["error"]["code"], -31050, "{answer}");
    assert_eq!(answer["error"]["data"]["bowline"]["cause"], "exited");
    assert_eq!(answer["error"]["data"]["bowline"]["execution"], "unknown");
    assert_eq!(result_text(&host.call("counter").await), "2");
    assert_eq!(server.processes().len(), 2);
}

#[tokio::test]
async fn list_changes_reach_the_host_announced_or_not() {
    let context = Context::new();
    let server = testkit::server().legacy().tool("counter").run().await;
    let mut host = Host::start_initialized(context.bowline(["connect", &server.url()])).await;
    host.request("tools/list", json!({})).await;
    server.wait_until(|server| server.open_streams(StreamKind::Get) > 0, TEST_TIMEOUT).await;
    server.announce_tools();
    assert_eq!(host.next_message().await["method"], "notifications/tools/list_changed");
    // The list changes without an announcement: the server restarts with another tool.
    server.edit(|script| script.tool("echo"));
    server.restart().await;
    let id = host.send_request("tools/call", json!({"name": "counter", "arguments": {}})).await;
    let mut seen = [false, false];
    while seen != [true, true] {
        let message = host.next_message().await;
        seen[0] |= message["id"] == id;
        seen[1] |= message["method"] == "notifications/tools/list_changed";
    }
}

/// A person reads the notes on stderr; the host's session goes on.
#[tokio::test]
async fn an_outage_and_its_end_are_reported_once() {
    let context = Context::new();
    let server = testkit::server().legacy().tool("counter").run().await;
    context.user_config(&format!("[servers.far]\nurl = \"{}\"\nreconnect_wait = \"2s\"\n", server.url()));
    let mut host = Host::start_initialized(context.bowline(["connect", "far"])).await;
    server.stop().await;
    // The first call may have been sent before the outage was noticed; the second cannot.
    assert_eq!(host.call("counter").await["error"]["code"], -31050);
    let answer = host.call("counter").await;
    assert_eq!(answer["error"]["data"]["bowline"]["execution"], "not_executed", "{answer}");
    assert_eq!(answer["error"]["data"]["bowline"]["server"], "far");
    server.start().await;
    server.wait_until(|server| server.initialize_count() == 2, TEST_TIMEOUT).await;
    assert_eq!(result_text(&host.call("counter").await), "1");
    let ended = host.close().await;
    assert_eq!(ended.status.code(), Some(0));
    let lines: Vec<&str> = ended.stderr.lines().collect();
    assert_eq!(lines.len(), 2, "{}", ended.stderr);
    assert!(lines[0].contains("`far` cannot be reached: connection "), "{}", lines[0]);
    assert!(lines[1].contains("`far` is back after"), "{}", lines[1]);
}

#[cfg(unix)]
#[tokio::test]
async fn signals_end_connect_in_good_order() {
    use rustix::process::{Signal, kill_process};

    use crate::context::to_pid;

    for signal in [Signal::TERM, Signal::INT] {
        let context = Context::new();
        let server = testkit::server().legacy().tool("slow").run().await;
        let mut host = Host::start_initialized(context.bowline(["connect", &server.url()])).await;
        let open =
            host.send_request("tools/call", json!({"name": "slow", "arguments": {"ms": 60_000}})).await;
        server.wait_for(|received| received.tool() == Some("slow"), TEST_TIMEOUT).await;
        kill_process(to_pid(host.id()), signal).expect("it is there");
        // Who sends a signal may still read.
        let answer = host.wait_for_response(open).await;
        assert_eq!(answer["error"]["code"], -31050, "{answer}");
        assert_eq!(answer["error"]["data"]["bowline"]["execution"], "unknown", "{answer}");
        let ended = host.wait().await;
        assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
        assert_eq!((server.cancellations().len(), server.count("DELETE")), (1, 1));
    }
}

/// `printf … | bowline connect` gets its responses, and a signal still ends it.
#[cfg(unix)]
#[tokio::test]
async fn calls_are_answered_after_stdin_closed_until_a_signal() {
    use rustix::process::{Signal, kill_process};

    use crate::context::to_pid;

    let context = Context::new();
    let server = testkit::server().legacy().tool("slow").run().await;
    let mut host = Host::start_initialized(context.bowline(["connect", &server.url()])).await;
    host.send_request("tools/call", json!({"name": "slow", "arguments": {"ms": 60_000}})).await;
    let soon = host.send_request("tools/call", json!({"name": "slow", "arguments": {"ms": 1500}})).await;
    host.close_stdin();
    result_text(&host.wait_for_response(soon).await);
    kill_process(to_pid(host.id()), Signal::TERM).expect("it is there");
    let begun = std::time::Instant::now();
    let ended = host.wait().await;
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert!(begun.elapsed() < TEST_TIMEOUT / 3, "{:?}", begun.elapsed());
    assert_eq!((server.cancellations().len(), server.count("DELETE")), (1, 1));
}

#[tokio::test]
async fn a_host_that_ends_ends_a_process_and_its_children() {
    let context = Context::new();
    let script = testkit::server().legacy().tool("slow").fault(Fault::ignore_eof());
    let server = script.stdio().await;
    let mut host = Host::start_initialized(context.bowline_with(&["connect"], &server.command())).await;
    host.send_request("tools/call", json!({"name": "slow", "arguments": {"ms": 60_000}})).await;
    server.wait_for(|received| received.tool() == Some("slow"), TEST_TIMEOUT).await;
    let begun = std::time::Instant::now();
    assert_eq!(host.leave().await.code(), Some(0));
    assert!(begun.elapsed() < TEST_TIMEOUT / 2, "{:?}", begun.elapsed());
    server.expect_all_exited().await;
}

/// Hosts have their own timeouts. A hanging process is replaced although the host canceled every
/// call before our timeout, and although there is no keepalive.
#[cfg(unix)]
#[tokio::test]
async fn a_hung_process_is_replaced_for_a_host_that_gives_up_first() {
    let context = Context::new();
    let server = script().legacy().stdio().await;
    let entry = crate::status::stdio_entry("rope", &server.command());
    context.user_config(&format!("{entry}timeout = 6\nkeepalive_interval = 0\n"));
    let mut host = Host::start_initialized(context.bowline(["connect", "rope"])).await;
    result_text(&host.call("lookup").await);
    server.arm(Fault::silent().always());
    let id = host.send_request("tools/call", json!({"name": "counter", "arguments": {}})).await;
    let patience = Duration::from_millis(5_500);
    tokio::time::timeout(patience, host.wait_for_response(id)).await.expect_err("it hangs");
    host.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}))
        .await;
    server.wait_for(|received| received.has_method("ping"), TEST_TIMEOUT).await;
    server.disarm();
    server.wait_until(|server| server.runs() == 2, 2 * TEST_TIMEOUT).await;
    result_text(&host.call("lookup").await);
}

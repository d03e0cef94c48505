//! Hosts whose daemon has ended and cannot be started again.

use std::collections::HashMap;
use std::path::Path;

use bowline_testkit as testkit;
use serde_json::{Value, json};

use super::daemons::{Daemons, wait_until};
use crate::connect::host::{Host, TEST_TIMEOUT, modern_call, result_text, with_meta};
use crate::context::{Command, Context};
use crate::status::http_entry;

/// Why a daemon does not start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Obstacle {
    /// Its program was removed.
    Program,
    /// It exits at once, since its configuration cannot be read.
    Configuration,
}

/// A front that starts daemons from a copy of the program, if that is to be removed.
fn front(context: &Context, copy: &Path, obstacle: Obstacle) -> Command {
    let command = context.bowline(["serve", "--stdio"]);
    if obstacle == Obstacle::Configuration {
        return command;
    }
    let script = format!(r#"cp -n "$1" '{0}'; shift; exec '{0}' "$@""#, copy.display());
    command.run_by("sh", ["-c", &*script, "sh"])
}

/// The next responses that a host gets, by id.
async fn responses(host: &mut Host, count: usize) -> HashMap<u64, Value> {
    let mut responses = HashMap::new();
    while responses.len() < count {
        let message = host.next_message().await;
        if message.get("method").is_none() {
            responses.insert(message["id"].as_u64().expect("an id"), message);
        }
    }
    responses
}

#[track_caller]
fn assert_failed(answer: &Value, execution: &str) {
    assert_eq!(answer["error"]["code"], -31050, "{answer}");
    assert_eq!(answer["error"]["data"]["bowline"]["execution"], execution, "{answer}");
}

/// Checks what a host is told of its open call, and of one that comes when the daemon is known to be gone. Before that,
/// a request can still be written to a connection that nobody reads, so a harmless one finds out.
async fn assert_answered(host: &mut Host, open: u64, (list, call): (Value, Value)) {
    let harmless = host.send_request("tools/list", list).await;
    let first = responses(host, 2).await;
    assert_failed(&first[&open], "unknown");
    assert_eq!(first[&harmless]["error"]["code"], -31050, "{}", first[&harmless]);
    let later = host.send_request("tools/call", call).await;
    assert_failed(&host.wait_for_response(later).await, "not_executed");
}

/// A call with effects that was open when the daemon ended may have been executed. One that comes later was not, and
/// hosts of either kind are told so. When the daemon can be started again, they go on.
async fn answer_without_daemon(obstacle: Obstacle) {
    let context = Context::new();
    let web = testkit::server().legacy().tool("slow").tool("counter").run().await;
    context.user_config(&http_entry("web", &web));
    let daemons = Daemons::of(&context);
    let copy = context.path("copy-of-bowline");
    let mut legacy = Host::start_initialized(front(&context, &copy, obstacle)).await;
    let mut modern = Host::start(front(&context, &copy, obstacle));
    let arguments = json!({"ms": 600_000, "steps": 60_000});
    let params = json!({"name": "slow", "arguments": arguments, "_meta": {"progressToken": "steps"}});
    let legacy_open = legacy.send_request("tools/call", params).await;
    // Once progress has arrived, the response has an event stream that can be resumed.
    while legacy.next_message().await["method"] != "notifications/progress" {}
    let modern_open = modern.send_request("tools/call", modern_call("slow", json!({"ms": 600_000}))).await;
    web.wait_for_nth(1, |received| received.tool() == Some("slow"), TEST_TIMEOUT).await;
    match obstacle {
        Obstacle::Program => std::fs::remove_file(&copy).expect("it is there"),
        Obstacle::Configuration => _ = context.user_config("[servers"),
    }
    daemons.kill();
    wait_until(|| daemons.all().is_empty()).await;
    let call = json!({"name": "counter", "arguments": {}});
    tokio::join!(
        assert_answered(&mut legacy, legacy_open, (json!({}), call)),
        assert_answered(&mut modern, modern_open, (with_meta(json!({})), modern_call("counter", json!({})))),
    );
    assert_eq!((web.executions("slow"), web.executions("counter")), (2, 0));
    match obstacle {
        Obstacle::Program => _ = std::fs::copy(env!("CARGO_BIN_EXE_bowline"), &copy).expect("a copy"),
        Obstacle::Configuration => _ = context.user_config(&http_entry("web", &web)),
    }
    assert_eq!(result_text(&legacy.call("counter").await), "1");
    let answer = modern.request("tools/call", modern_call("counter", json!({}))).await;
    assert_eq!(result_text(&answer), "2");
    // What is left in the folder is searched for credentials, which takes long for a program.
    let _ = std::fs::remove_file(&copy);
    for host in [legacy, modern] {
        let exit = host.close().await;
        assert_eq!(exit.status.code(), Some(0));
        assert!(exit.stderr.contains("note: the daemon did not start: it ended at once"), "{}", exit.stderr);
    }
}

#[tokio::test]
async fn hosts_are_answered_while_the_daemon_exits_at_once() {
    answer_without_daemon(Obstacle::Configuration).await;
}

#[tokio::test]
async fn hosts_are_answered_while_the_program_of_the_daemon_is_gone() {
    answer_without_daemon(Obstacle::Program).await;
}

/// The daemon that is started again does not have the view of its host, which is told so at once.
#[tokio::test]
async fn a_view_that_was_removed_while_the_daemon_was_down_is_refused() {
    for is_modern in [false, true] {
        let context = Context::new();
        let web = testkit::server().legacy().tool("counter").run().await;
        let entry = http_entry("web", &web);
        context.user_config(&format!("{entry}[views.v]\n"));
        let daemons = Daemons::of(&context);
        let mut host = Host::start(context.bowline(["serve", "--stdio", "--view", "v"]));
        let params = if is_modern {
            modern_call("counter", json!({}))
        } else {
            host.initialize().await;
            json!({"name": "counter", "arguments": {}})
        };
        assert_eq!(result_text(&host.request("tools/call", params.clone()).await), "1");
        context.user_config(&entry);
        let killed = daemons.kill();
        // The front starts the next one when it has noticed the end of the first.
        wait_until(|| daemons.all().iter().any(|daemon| *daemon != killed)).await;
        let refused = host.request("tools/call", params.clone()).await;
        let error = &refused["error"];
        let message =
            "bowline: the view `v` was removed from the configuration (the request was not executed)";
        assert_eq!((&error["code"], &error["message"]), (&json!(-31050), &json!(message)), "{refused}");
        let facts = json!({"cause": "view_removed", "execution": "not_executed"});
        assert_eq!(error["data"]["bowline"], facts);
        // The host goes on when the view is back.
        context.user_config(&format!("{entry}[views.v]\n"));
        daemons.signal(rustix::process::Signal::HUP);
        wait_until(|| daemons.log().contains("reloaded: views: 1 added (v)")).await;
        assert_eq!(result_text(&host.request("tools/call", params).await), "2");
        assert_eq!(web.executions("counter"), 2);
        assert_eq!(host.close().await.status.code(), Some(0));
    }
}

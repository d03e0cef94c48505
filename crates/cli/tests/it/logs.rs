//! Log output, ours and the servers'. It reaches a terminal only as plain text.

use std::time::Duration;

use bowline_testkit::{self as testkit, Script, Tool};
use serde_json::json;

use crate::context::{Context, snapshot};
use crate::watch::WatchProcess;

const TEST_TIMEOUT: Duration = Duration::from_secs(60);

#[test]
fn a_server_cannot_forge_a_line_or_drive_the_terminal() {
    // Not a message, so it is logged; then the server exits.
    let evil = r"printf 'x\033]0;title\007\302\2332J\r  0.1s ERROR forged\n'; exit 1";
    for way in ["-v", "BOWLINE_LOG"] {
        let context = Context::new();
        let mut command = context.bowline(if way == "-v" { &["tools", "-v"][..] } else { &["tools"] });
        command.args(["--", "/bin/sh", "-c", evil]);
        if way != "-v" {
            command.env(way, "trace");
        }
        let output = command.output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        let hostile = |c: char| c != '\n' && c.is_control();
        assert!(!stderr.contains(hostile), "{stderr:?}");
        // Precondition: the text was logged, within the line of its event.
        let line = stderr.lines().find(|line| line.contains("forged")).unwrap_or_else(|| panic!("{stderr}"));
        assert!(line.contains("non-MCP output on stdout") && line.contains(r"title"), "{stderr}");
        assert!(!stderr.lines().any(|line| line.starts_with("  0.1s")), "{stderr}");
    }
}

/// Makes a legacy server that logs.
fn script() -> Script {
    testkit::server().legacy().tool(Tool::logs(
        "work",
        [("debug", json!("begun")), ("warning", json!({"rope": "short", "evil": "\u{1b}[2J"}))],
    ))
}

// LG-01: the level is set once, and log lines are printed until Ctrl-C.
#[tokio::test]
async fn logs_are_printed_as_they_come() {
    let context = Context::new();
    let server = script().run().await;
    let mut watching = WatchProcess::start(context.bowline(["logs", &server.url(), "--level", "warning"]));
    let set = server.wait_for(|received| received.has_method("logging/setLevel"), TEST_TIMEOUT).await;
    assert_eq!(set.params()["level"], "warning");
    // The server sends all its lines, whatever level was requested.
    let unasked = json!({"level": "info", "data": "not this"});
    server.send(json!({"jsonrpc": "2.0", "method": "notifications/message", "params": unasked})).await;
    server
        .wait_until(
            |server| server.send_log_message("error", &json!("line one\nline two\u{9b}2J")) > 0,
            TEST_TIMEOUT,
        )
        .await;
    let line = watching.next_line().await;
    assert!(line.ends_with("Z\terror\ttestkit\tline one\\nline two\\u{9b}2J"), "{line:?}");
    // LG-03: data of any type.
    server.wait_until(|server| server.send_log_message("alert", &json!({"a": [1]})) > 0, TEST_TIMEOUT).await;
    let line = watching.next_line().await;
    assert!(line.ends_with("Z\talert\ttestkit\t{\"a\":[1]}"), "{line:?}");
    assert_eq!(watching.interrupt().await, (Some(0), vec![]));
    assert_eq!(server.count("logging/setLevel"), 1);
}

#[tokio::test]
async fn logs_go_on_after_a_restart() {
    let context = Context::new();
    let server = script().run().await;
    let mut watching = WatchProcess::start(context.bowline(["logs", "--json", &server.url()]));
    server.wait_for(|received| received.has_method("logging/setLevel"), TEST_TIMEOUT).await;
    server.restart().await;
    server.wait_for_nth(1, |received| received.has_method("logging/setLevel"), TEST_TIMEOUT).await;
    server.wait_until(|server| server.send_log_message("notice", &json!(7)) > 0, TEST_TIMEOUT).await;
    let message = watching.next_json().await;
    assert_eq!((&message["level"], &message["data"]), (&json!("notice"), &json!(7)));
    assert_eq!(watching.interrupt().await.0, Some(0));
}

/// A process has stderr, whatever it sends as messages.
#[tokio::test]
async fn the_stderr_of_a_process_is_printed() {
    let context = Context::new();
    for server in [script(), script().without_capability("logging"), script().modern()] {
        let server = testkit::stdio_command(&server);
        let talks = r#"printf 'begun \033[2J\n' >&2; exec "$0" "$@""#;
        let mut command = context.bowline(["logs", "--", "/bin/sh", "-c", talks]);
        command.arg(&server.program).args(&server.args);
        let mut watching = WatchProcess::start(command);
        let line = watching.next_line().await;
        assert!(line.ends_with("Z\tstderr\t\tbegun \\u{1b}[2J"), "{line:?}");
        assert_eq!(watching.interrupt().await.0, Some(0));
    }
}

// LG-01, LG-02
#[tokio::test]
async fn missing_log_support_is_reported() {
    let context = Context::new();
    let server = testkit::server().modern().tool("echo").run().await;
    snapshot!(context.run(context.bowline(["logs", &server.url()])), @"
    exit: 6
    --- stdout
    --- stderr
    error: `127.0.0.1:[PORT]` speaks 2026-07-28, where a server logs only what it does for a request

    hint: use `bowline call --log-level LEVEL`, or --protocol legacy here if it speaks that too
    ---
    ");
    let server = testkit::server().legacy().without_capability("logging").tool("echo").run().await;
    let shown = context.run(context.bowline(["logs", &server.url()]));
    assert!(shown.contains("offers no logging"), "{shown}");
    assert_eq!(server.count("logging/setLevel"), 0);
    // The call itself still succeeds.
    let shown = context.run(context.bowline(["call", &server.url(), "echo", "--log-level", "info"]));
    assert!(shown.starts_with("exit: 0\n--- stdout\n{}\n--- stderr\nnote: "), "{shown}");
}

// LG-01, LG-02, LG-03: in both eras, on stderr, and without effect on a terminal.
#[tokio::test]
async fn a_call_can_print_what_is_logged_about_it() {
    let context = Context::new();
    for server in [script(), script().modern()] {
        let server = server.run().await;
        let called = |level: &[&str]| {
            let output = context.bowline(["call", &server.url(), "work"]).args(level).output().unwrap();
            assert_eq!(output.stdout, b"done\n");
            String::from_utf8(output.stderr).unwrap()
        };
        let logged = called(&["--log-level", "info"]);
        assert!(
            logged.ends_with("  warning    work  {\"evil\":\"\\u001b[2J\",\"rope\":\"short\"}\n"),
            "{logged:?}"
        );
        assert_eq!(logged.lines().count(), 1, "{logged}");
        assert_eq!(called(&["--log-level", "debug"]).lines().count(), 2);
        assert_eq!(called(&[]), "");
    }
}

//! The flags of `mcp-remote`, and refused arguments.

use bowline_testkit as testkit;
use serde_json::json;

use super::host::{Host, result_text};
use crate::context::{Context, snapshot};

#[tokio::test]
async fn a_configuration_for_mcp_remote_works_as_it_is() {
    let context = Context::new();
    let server = testkit::server().legacy().tool("counter").run().await;
    let mut command = context.bowline([
        "connect",
        &server.url(),
        "3334",
        "--header",
        "Authorization:Bearer ${SECRET}",
        "--header",
        "X-Plain: a: b",
        "--header",
        "X-Unset: <${NOT_SET}>",
        "--allow-http",
        "--transport",
        "http-first",
        "--debug",
    ]);
    command.env("SECRET", "tk-secret-header");
    let mut host = Host::start_initialized(command).await;
    assert_eq!(result_text(&host.call("counter").await), "1");
    server.drop_sessions();
    assert_eq!(result_text(&host.call("counter").await), "2");
    for received in server.received_with_method("tools/call") {
        assert_eq!(received.header("authorization"), Some("Bearer tk-secret-header"));
        assert_eq!(received.header("x-plain"), Some("a: b"));
        assert_eq!(received.header("x-unset"), Some("<>"));
    }
    let stderr = host.close().await.stderr;
    for part in ["the port", "NOT_SET", "connected", "session_lost", "recovered"] {
        assert!(stderr.contains(part), "{part} is not in:\n{stderr}");
    }
    assert!(!stderr.contains("tk-secret-header"), "{stderr}");
}

#[tokio::test]
async fn a_timeout_ends_a_call_that_is_silent() {
    let context = Context::new();
    let server = testkit::server().legacy().tool("slow").run().await;
    let mut host =
        Host::start_initialized(context.bowline(["connect", &server.url(), "--timeout", "300ms"])).await;
    let answer = host.request("tools/call", json!({"name": "slow", "arguments": {"ms": 60_000}})).await;
    assert_eq!(answer["error"]["data"]["bowline"]["cause"], "timeout", "{answer}");
}

/// A host shows this error to a person, who has to know what to change.
#[tokio::test]
async fn a_reconnect_wait_that_was_too_short_is_named() {
    let context = Context::new();
    let server = testkit::server().legacy().tool("counter").run().await;
    let mut host =
        Host::start_initialized(context.bowline(["connect", &server.url(), "--reconnect-wait", "300ms"]))
            .await;
    server.stop().await;
    // The first call may have been sent before the outage was noticed; the second cannot.
    host.call("counter").await;
    let answer = host.call("counter").await;
    let (message, facts) = (answer["error"]["message"].as_str(), &answer["error"]["data"]["bowline"]);
    assert_eq!((&facts["execution"], &facts["reconnect_wait"]), (&json!("not_executed"), &json!(0.3)));
    let message = message.expect("an error");
    assert!(message.contains(" cannot be reached: connection "), "{message}");
    assert!(message.contains("a call waits 0.3 s for it to come back: raise --reconnect-wait,"), "{message}");
    assert!(!message.contains("next attempt"), "{message}");
}

#[test]
fn plain_http_over_a_network_must_be_allowed() {
    let context = Context::new();
    let shown = context.run(context.bowline(["connect", "http://192.0.2.1/mcp"]));
    snapshot!(shown, @r"
    exit: 2
    --- stdout
    --- stderr
    error: `192.0.2.1` uses plain http, which anyone on the network can read

    hint: use https, or say --allow-http if the network is trusted
    ---
    ");
}

#[test]
fn unexpected_arguments_are_refused() {
    let context = Context::new();
    for args in [
        &["connect"][..],
        &["connect", "http://127.0.0.1:1/mcp", "99999"],
        &["connect", "http://127.0.0.1:1/mcp", "one", "two"],
        &["connect", "http://127.0.0.1:1/mcp", "--", "program"],
        &["connect", "--transport", "sse-only", "--", "program"],
        &["connect", "http://127.0.0.1:1/mcp", "--transport", "carrier-pigeon"],
        &["connect", "http://127.0.0.1:1/mcp", "--reconnect-wait", "soon"],
        &["connect", "nobody"],
    ] {
        let output = context.bowline(args).output().expect("bowline starts");
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(output.stdout.is_empty());
    }
}

/// A host shows the error in the response to `initialize` to its user.
#[tokio::test]
async fn a_missing_command_is_reported_to_the_host() {
    let context = Context::new();
    let mut host = Host::start(context.bowline(["connect", "--", "no-such-program-anywhere"]));
    let answer = host.initialize().await;
    let message = answer["error"]["message"].as_str().expect("an error");
    assert!(message.contains("command not found"), "{message}");
    let ended = host.close().await;
    assert_eq!(ended.status.code(), Some(0));
    assert!(ended.stderr.contains("cannot be used: command not found"), "{}", ended.stderr);
}

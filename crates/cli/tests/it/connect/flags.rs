//! The flags of `mcp-remote`, and refused arguments.

use bowline_testkit as testkit;
use serde_json::json;

use super::host::{Host, result_text};
use crate::context::{Context, snapshot};
use crate::pty::Person;

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

/// Every option that `mcp-remote` 0.15 has, so that a host's configuration needs no other change.
#[tokio::test]
async fn no_option_of_mcp_remote_is_fatal() {
    let context = Context::new();
    let headers = context.write("home/headers.txt", "# mine\n\nX-From-File: ${SECRET}\n");
    let server = testkit::server().legacy().tool("counter").run().await;
    let mut command = context.bowline([
        "connect",
        &server.url(),
        "3334",
        "--header-file",
        headers.to_str().unwrap(),
        "--allow-http",
        "--enable-proxy",
        "--auth-timeout",
        "60",
        "--host",
        "127.0.0.1",
        "--callback-path",
        "/cb",
        "--resource",
        "https://tenant.example/",
        "--authorize-param",
        "prompt=consent",
        "--static-oauth-client-info",
        r#"{"client_id":"app","client_secret":"${SECRET}"}"#,
        "--static-oauth-client-metadata",
        r#"{"scope":"a b"}"#,
        "--client-metadata-url",
        "https://client.example/doc.json",
        "--auth-success-url",
        "https://client.example/done",
        "--connect-timeout",
        "30",
        "--headers-timeout",
        "30",
        "--body-timeout",
        "0",
        "--keep-alive",
        "--ping-interval",
        "60",
        "--transport",
        "sse-first",
        "--protocol",
        "auto",
        "--ipv4",
        "--disable-cookies",
        "--use-id-token",
        "--device-code",
        "--token-endpoint",
        "https://auth.example/token",
    ]);
    command.env("SECRET", "tk-secret-file");
    let mut host = Host::start_initialized(command).await;
    assert_eq!(result_text(&host.call("counter").await), "1");
    let call = server.received_with_method("tools/call").remove(0);
    assert_eq!(call.header("x-from-file"), Some("tk-secret-file"));
    let stderr = host.close().await.stderr;
    assert_eq!(
        stderr,
        "note: --auth-timeout, --auth-success-url, --headers-timeout, --body-timeout, --token-endpoint, --ipv4, \
         --disable-cookies, --use-id-token, --device-code have no effect in `bowline connect`\n"
    );
}

#[tokio::test]
async fn a_silent_relay_notes_nothing() {
    let context = Context::new();
    let server = testkit::server().legacy().tool("counter").run().await;
    let command = context.bowline([
        "connect",
        &server.url(),
        "3334",
        "--silent",
        "--ipv4",
        "--disable-resource-parameter",
    ]);
    let mut host = Host::start_initialized(command).await;
    assert_eq!(result_text(&host.call("counter").await), "1");
    assert_eq!(host.close().await.stderr, "");
}

/// Nobody types messages: a person who starts it at a terminal has to know what it waits for.
#[tokio::test]
async fn a_person_at_a_terminal_is_told_what_it_is_for() {
    let context = Context::new();
    let server = testkit::server().legacy().tool("counter").run().await;
    let mut person = Person::sits_at(context.bowline(["connect", &server.url()]));
    person.sees("this command is for MCP hosts");
    // The end of what is typed is the end of the host.
    person.presses("\u{4}");
    let ended = person.leaves();
    assert_eq!(ended.stdout, "");
    assert!(ended.screen.contains("bowline call"), "{}", ended.screen);
}

/// A tool that is hidden is neither listed nor called, whatever the host tries.
#[tokio::test]
async fn ignored_tools_are_hidden() {
    let context = Context::new();
    let server = testkit::server().legacy().tool("counter").tool("echo").tool("delete_all").run().await;
    context.user_config(&format!("[servers.s]\nurl = '{}'\ndisabled_tools = ['echo']\n", server.url()));
    let command = context.bowline(["connect", "s", "--ignore-tool", "delete*", "--ignore-tool", "nothing"]);
    let mut host = Host::start_initialized(command).await;
    let listed = host.request("tools/list", json!({})).await;
    let names: Vec<&str> =
        listed["result"]["tools"].as_array().unwrap().iter().filter_map(|it| it["name"].as_str()).collect();
    assert_eq!(names, ["counter"]);
    for hidden in ["delete_all", "echo"] {
        let answer = host.request("tools/call", json!({"name": hidden, "arguments": {}})).await;
        assert_eq!(answer["error"]["message"], format!("Unknown tool: {hidden}"), "{answer}");
        assert_eq!(answer["error"]["code"], -32602);
    }
    assert_eq!(result_text(&host.call("counter").await), "1");
    assert_eq!(server.count("tools/call"), 1);
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
        &["connect", "http://127.0.0.1:1/mcp", "--header-file", "no-such-file"],
        &["connect", "http://127.0.0.1:1/mcp", "--static-oauth-client-info", "{"],
        &["connect", "http://127.0.0.1:1/mcp", "--client-credentials"],
        &["connect", "--ca-file", "ca.pem", "--", "program"],
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

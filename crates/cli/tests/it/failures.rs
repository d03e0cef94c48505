//! Error messages and exit codes of failures.

use bowline_testkit::{self as testkit, CannedResponse, Fault};

use crate::context::{Context, snapshot};

#[tokio::test]
async fn a_refused_connection_is_reported() {
    let context = Context::new();
    let server = testkit::server().tool("echo").run().await;
    server.stop().await;
    snapshot!(context.run(context.bowline(["tools", &server.url()])), @"
    exit: 3
    --- stdout
    --- stderr
    error: cannot connect to `127.0.0.1:[PORT]`: connection refused: tcp connect error: Connection refused
      phase: connecting
      transport: http

    hint: is the server running, and does it listen on that port?
    ---
    ");
    snapshot!(context.run(context.bowline(["tools", "--json", &server.url()])), @r#"
    exit: 3
    --- stdout
    --- stderr
    {"error":{"executed":false,"exit_code":3,"hint":"is the server running, and does it listen on that port?","kind":"connection","message":"cannot connect to `127.0.0.1:[PORT]`: connection refused: tcp connect error: Connection refused","method":"connect","phase":"connect","server":"127.0.0.1:[PORT]","transport":"http"}}
    ---
    "#);
}

#[test]
fn a_missing_command_is_reported() {
    let context = Context::new();
    let mut command = context.bowline(["tools", "--", "no-such-mcp-server", "--flag"]);
    command.env("PATH", "/nowhere/at/all").env("SHELL", "/nowhere/sh");
    snapshot!(context.run(command), @"
    exit: 3
    --- stdout
    --- stderr
    error: cannot connect to `no-such-mcp-server`: command not found: no-such-mcp-server is in no folder of the PATH /nowhere/at/all
      phase: connecting
      transport: stdio

    hint: is it installed? A full path works from anywhere
    ---
    ");
}

#[cfg(unix)]
#[test]
fn the_stderr_of_a_dead_command_is_quoted() {
    let context = Context::new();
    let script = "echo first >&2; printf 'no \\033[31mtoken\\n' >&2; exit 7";
    snapshot!(context.run(context.bowline(["tools", "--", "/bin/sh", "-c", script])), @r"
    exit: 3
    --- stdout
    --- stderr
    error: cannot connect to `sh`: the server exited with code 7
      phase: connecting
      transport: stdio
      stderr ends:
        first
        no \u{1b}[31mtoken

    hint: see its stderr above, or run the command directly
    ---
    ");
}

/// A program that is started with the wrong arguments often says so on stdout.
#[cfg(unix)]
#[test]
fn what_a_dead_command_printed_on_stdout_is_quoted() {
    let context = Context::new();
    let script = "echo usage: server FOLDER; seq 1 25 >&2; exit 2";
    let shown = context.run(context.bowline(["tools", "--", "/bin/sh", "-c", script]));
    let stderr: Vec<String> = (6..=25).map(|line| format!("    {line}\n")).collect();
    let expected = format!(
        "error: cannot connect to `sh`: the server exited with code 2\n  phase: connecting\n  transport: stdio\n  \
         stdout ends: usage: server FOLDER\n  stderr ends:\n{}\nhint: see what it printed above, or run the command directly\n",
        stderr.concat()
    );
    assert!(shown.contains(&expected), "{shown}");
}

#[tokio::test]
async fn a_server_without_tls_is_named_as_such() {
    let context = Context::new();
    let server = testkit::server().tool("echo").run().await;
    snapshot!(context.run(context.bowline(["tools", &server.url().replace("http://", "https://")])), @"
    exit: 3
    --- stdout
    --- stderr
    error: cannot connect to `127.0.0.1:[PORT]`: TLS handshake failed: the server does not speak TLS on this port
      phase: connecting
      transport: http

    hint: if it has no certificate, write http://
    ---
    ");
}

/// A server with TLS resets a connection on which it is sent something else, or closes it.
#[test]
fn a_connection_that_ends_at_once_gets_a_hint_about_tls() {
    let context = Context::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    // It ends with the process of the tests.
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let _ = std::io::Read::read(&mut stream, &mut [0; 16]);
        }
    });
    let shown = context.run(context.bowline(["tools", &url]));
    assert!(shown.starts_with("exit: 3\n"), "{shown}");
    let hint = "hint: is that an MCP server? If it speaks TLS on that port, write https://\n";
    assert!(shown.contains(hint), "{shown}");
}

#[tokio::test]
async fn a_login_challenge_is_reported() {
    let context = Context::new();
    let challenge =
        CannedResponse::new(401).header("www-authenticate", "Bearer realm=\"x\"").text("who are you?");
    let server = testkit::server().tool("echo").fault(Fault::response(challenge).always()).run().await;
    snapshot!(context.run(context.bowline(["tools", &server.url()])), @"
    exit: 5
    --- stdout
    --- stderr
    error: cannot connect to `127.0.0.1:[PORT]`: the server requires a login: not logged in yet
      phase: connecting
      transport: http
      server: http://127.0.0.1:[PORT]/mcp
      body begins: who are you?

    hint: log in with `bowline login http://127.0.0.1:[PORT]/mcp`
    ---
    ");
    let refused = context.run(context.bowline([
        "tools",
        "-H",
        "Authorization: Bearer tk-secret-header",
        &server.url(),
    ]));
    snapshot!(refused, @"
    exit: 5
    --- stdout
    --- stderr
    error: cannot connect to `127.0.0.1:[PORT]`: the server requires a login
      phase: connecting
      transport: http
      server: http://127.0.0.1:[PORT]/mcp
      body begins: who are you?

    hint: the credentials were refused: has the token expired?
    ---
    ");
}

/// A list is harmless, so it is retried until its timeout; then the server's body is shown.
#[tokio::test]
async fn a_status_comes_with_its_body() {
    let context = Context::new();
    let server = testkit::server()
        .tool("echo")
        .fault(
            Fault::response(CannedResponse::new(503).html("<h1>Down\x1b[2J</h1>\n<p>for repairs</p>"))
                .on("tools/list")
                .always(),
        )
        .run()
        .await;
    snapshot!(context.run(context.bowline(["tools", "--timeout", "1s", &server.url()])), @r"
    exit: 3
    --- stdout
    --- stderr
    error: tools/list on `127.0.0.1:[PORT]` failed: HTTP status 503
      phase: tools/list
      transport: http
      body begins:
        <h1>Down\u{1b}[2J</h1>
        <p>for repairs</p>

    hint: this is an error on the server's side; its log may say more
    ---
    ");
    snapshot!(context.run(context.bowline(["tools", "--timeout", "1s", "--json", &server.url()])), @r#"
    exit: 3
    --- stdout
    --- stderr
    {"error":{"body":"<h1>Down\u001b[2J</h1>\n<p>for repairs</p>","executed":null,"exit_code":3,"hint":"this is an error on the server's side; its log may say more","kind":"connection","message":"tools/list on `127.0.0.1:[PORT]` failed: HTTP status 503","method":"tools/list","phase":"call","server":"127.0.0.1:[PORT]","status":503,"transport":"http"}}
    ---
    "#);
}

#[tokio::test]
async fn a_server_that_never_becomes_ready() {
    let context = Context::new();
    let server = testkit::server().tool("echo").fault(Fault::silent().always()).run().await;
    snapshot!(context.run(context.bowline(["tools", "--connect-timeout", "500ms", &server.url()])), @"
    exit: 4
    --- stdout
    --- stderr
    error: cannot connect to `127.0.0.1:[PORT]`: the server did not become ready in time
      phase: connecting
      transport: http

    hint: allow more time with --connect-timeout
    ---
    ");
}

#[test]
fn a_closed_output_pipe_is_no_error() {
    use std::process::Stdio;
    let context = Context::new();
    let mut command = context.bowline(["config", "schema"]);
    command.unwatched("the pipe has to be closed at its far end").stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0));
}

/// Some servers of both eras cannot do everything in the newer one, and their tools say so.
#[tokio::test]
async fn a_failure_of_the_newest_revision_gets_a_hint_at_the_older_one() {
    let context = Context::new();
    let server = testkit::server().modern().tool("fail").run().await;
    let call = |message: &str| context.run(context.bowline(["call", &server.url(), "fail", message]));
    let hint = "\nhint: if the server's support of 2026-07-28 is the problem, try --protocol legacy\n";
    let shown = call("message=elicitation is unavailable on 2026-07-28 connections");
    assert!(shown.contains(hint), "{shown}");
    let shown = call("message=out of rope");
    assert!(!shown.contains("hint:"), "{shown}");
}

/// The limit is that of the entry, and the error names it and the key that raises it.
#[tokio::test]
async fn the_limit_of_a_message_can_be_set() {
    let context = Context::new();
    let server = testkit::server().legacy().tool("echo").run().await;
    let message = format!("message={}", "x".repeat(2 * 1024 * 1024));
    let call = |limit: u32| {
        let url = server.url();
        context.user_config(&format!("[servers.s]\nurl = '{url}'\nmessage_limit_mib = {limit}\n"));
        let output = context.bowline(["call", "s", "echo", "--file", "-"]);
        context.run_with_input(output, &serde_json::json!({ "message": &message }).to_string())
    };
    let refused = call(1);
    assert!(refused.contains("sent a message larger than 1 MiB"), "{}", &refused[..2000.min(refused.len())]);
    assert!(refused.contains("hint: `message_limit_mib` in the server's entry allows larger messages"));
    assert!(call(8).starts_with("exit: 0\n"));
}

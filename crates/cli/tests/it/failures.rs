//! Error messages and exit codes of failures.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;

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

/// Mistakes are often made in the path. A part of it that may be a key is not shown, and neither is the query.
#[tokio::test]
async fn a_path_that_the_server_does_not_know_is_shown() {
    let context = Context::new();
    let server = testkit::server().tool("echo").run().await;
    let url = server.url().replace("/mcp", "/mpc");
    snapshot!(context.run(context.bowline(["tools", &url])), @"
    exit: 3
    --- stdout
    --- stderr
    error: cannot connect to `127.0.0.1:[PORT]`: HTTP status 404
      phase: connecting
      transport: http
      url: http://127.0.0.1:[PORT]/mpc

    hint: is the path of the URL right? Many servers listen under /mcp
    ---
    ");
    let url = server.url().replace("/mcp", "/tk-0123456789/mpc?key=tk-9876543210");
    let output = context.bowline(["tools", "--json", &url]).output().unwrap();
    let error: serde_json::Value = serde_json::from_slice(&output.stderr).unwrap();
    let shown = server.url().replace("/mcp", "/…/mpc");
    assert_eq!((&error["error"]["url"], &error["error"]["status"]), (&shown.into(), &404.into()));
    // It is not shown where it cannot be the reason.
    server.stop().await;
    let shown = context.run(context.bowline(["tools", &server.url()]));
    assert!(shown.contains("connection refused") && !shown.contains("url:"), "{shown}");
}

/// The suggested command meets the same failure: it has the options that say how the server is reached.
#[tokio::test]
async fn the_suggested_doctor_has_the_connection_options() {
    let context = Context::new();
    let server = testkit::server()
        .legacy()
        .fault(Fault::reply(serde_json::json!({})).on("initialize").always())
        .run()
        .await;
    let url = server.url();
    let options = ["--protocol", "legacy", "-H", "X-Key: tk-secret-header", "--transport", "http"];
    let shown = context.run(context.bowline([&["tools", &url][..], &options].concat()));
    let expected = format!(
        "\nhint: find out more with `bowline doctor {url} --transport http --protocol legacy -H 'X-Key: …'`\n"
    );
    assert!(shown.contains(&expected), "{shown}");
    // An entry that was not written cannot be examined.
    let shown = context.run(context.bowline(["add", "notes", &url]));
    assert!(shown.contains("\nhint: add it with --no-check, then run: bowline doctor notes\n"), "{shown}");
}

/// A server with TLS resets a connection on which it is sent something else, or closes it.
#[test]
fn a_connection_that_ends_at_once_gets_a_hint_about_tls() {
    let context = Context::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
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

/// Runs `bowline tools` for an entry with a key in the path of its URL; its server always sends this response.
fn list_from_url_with_key(response: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/sk-live-S3CR3T0123456789/mcp", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let mut length = 0;
            let mut line = String::new();
            while stream.read_line(&mut line).unwrap() > 2 {
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                line.clear();
            }
            stream.read_exact(&mut vec![0; length]).unwrap();
            stream.get_mut().write_all(response.as_bytes()).unwrap();
        }
    });
    let context = Context::new();
    context.user_config(&format!("[servers.docs]\nurl = '{url}'\n"));
    context.run(context.bowline(["tools", "docs"]))
}

#[test]
fn key_in_a_path_is_not_shown_when_a_login_is_required() {
    let challenge = "HTTP/1.1 401 Unauthorized\r\nwww-authenticate: Bearer\r\ncontent-length: 12\r\n\
                     connection: close\r\n\r\nwho are you?";
    snapshot!(list_from_url_with_key(challenge), @"
    exit: 5
    --- stdout
    --- stderr
    error: cannot connect to `docs`: the server requires a login: not logged in yet
      phase: connecting
      transport: http
      server: http://127.0.0.1:[PORT]/…/mcp
      body begins: who are you?

    hint: log in with `bowline login docs`
    ---
    ");
}

#[test]
fn key_in_the_target_of_a_redirect_is_not_shown() {
    let redirect = "HTTP/1.1 307 Temporary Redirect\r\ncontent-length: 0\r\nconnection: close\r\n\
                    location: https://127.0.0.1:18443/sk-live-S3CR3T0123456789/mcp?key=S3CR3T\r\n\r\n";
    snapshot!(list_from_url_with_key(redirect), @"
    exit: 3
    --- stdout
    --- stderr
    error: cannot connect to `docs`: refused to follow a redirect to https://127.0.0.1:[PORT]/…/mcp: it is another origin
      phase: connecting
      transport: http
      url: http://127.0.0.1:[PORT]/…/mcp

    hint: if you trust that address, use it as the URL
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

/// The limit is that of the entry or of the command, and the error names it and what raises it.
#[tokio::test]
async fn the_limit_of_a_message_can_be_set() {
    let context = Context::new();
    let server = testkit::server().legacy().tool("echo").run().await;
    let message = format!("message={}", "x".repeat(2 * 1024 * 1024));
    let arguments = serde_json::json!({ "message": &message }).to_string();
    let call = |limit: u32| {
        let url = server.url();
        context.user_config(&format!("[servers.s]\nurl = '{url}'\nmessage_limit_mib = {limit}\n"));
        let output = context.bowline(["call", "s", "echo", "--file", "-"]);
        context.run_with_input(output, &arguments)
    };
    let call_url = |limit: &str| {
        let words = ["call", &server.url(), "echo", "--file", "-", "--message-limit", limit];
        context.run_with_input(context.bowline(words), &arguments)
    };
    let refused = call(1);
    assert!(refused.contains("sent a message larger than 1 MiB"), "{}", &refused[..2000.min(refused.len())]);
    let hint = "hint: to allow larger messages, use --message-limit MIB, or set `message_limit_mib` in the server's entry\n";
    assert!(refused.contains(hint));
    assert!(call(8).starts_with("exit: 0\n"));
    let refused = call_url("1");
    assert!(refused.starts_with("exit: ") && !refused.starts_with("exit: 0\n"));
    assert!(refused.contains("sent a message larger than 1 MiB") && refused.contains(hint));
    assert!(call_url("8").starts_with("exit: 0\n"));
    for wrong in ["0", "1.5", "4294967296"] {
        let words = ["call", &server.url(), "echo", "--message-limit", wrong];
        let shown = context.run(context.bowline(words));
        assert!(shown.starts_with("exit: 2\n") && shown.contains("--message-limit <MIB>"), "{shown}");
    }
}

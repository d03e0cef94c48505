//! `bowline serve` between hosts and scripted servers.

use std::time::Duration;

use bowline_testkit::{self as testkit, HttpServer};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::time::timeout;

use crate::connect::host::{Host, TEST_TIMEOUT, result_text};
use crate::context::{Command, Context, snapshot};
use crate::status::{http_entry, stdio_entry};

pub(crate) const CATALOG: &str =
    if cfg!(windows) { "home/AppData/Local/bowline/cache/catalog" } else { "home/.cache/bowline/catalog" };

pub(crate) async fn tools(host: &mut Host) -> Vec<String> {
    let answer = host.request("tools/list", json!({})).await;
    let tools = answer["result"]["tools"].as_array().unwrap_or_else(|| panic!("no tools in {answer}"));
    tools.iter().map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
}

async fn server(tool: &str) -> HttpServer {
    testkit::server().legacy().tool("counter").tool(tool).run().await
}

#[tokio::test]
async fn a_host_gets_all_servers_as_one_and_keeps_its_session() {
    let context = Context::new();
    let one = server("echo").await;
    let two = testkit::server().legacy().tool("counter").tool("slow").stdio().await;
    context.user_config(&format!("{}{}", http_entry("one", &one), stdio_entry("two", &two.command())));
    let mut host = Host::start_initialized(context.bowline(["serve", "--stdio", "--alone"])).await;
    assert_eq!(tools(&mut host).await, ["one__counter", "echo", "two__counter", "slow"]);
    assert_eq!(result_text(&host.call("one__counter").await), "1");
    assert_eq!(result_text(&host.call("two__counter").await), "1");
    one.drop_sessions();
    assert_eq!(result_text(&host.call("one__counter").await), "2");
    let exit = host.close().await;
    assert_eq!((exit.status.code(), &*exit.stderr), (Some(0), ""));
    assert_eq!(one.sessions().len(), 0, "its session was ended");
}

/// The second start knows what the first one saw, also while every server is down.
#[tokio::test]
async fn the_next_start_answers_from_what_was_seen_before() {
    let context = Context::new();
    let one = server("echo").await;
    context.user_config(&http_entry("one", &one));
    let mut host = Host::start_initialized(context.bowline(["serve", "--stdio", "--alone"])).await;
    assert_eq!(tools(&mut host).await, ["counter", "echo"]);
    let folder = context.path(CATALOG);
    let is_saved = || {
        let files = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        files
            .map(|file| file.path())
            .any(|path| path.extension().is_some_and(|extension| extension == "json"))
    };
    while !is_saved() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(host.close().await.status.code(), Some(0));
    one.stop().await;
    let found = context.run(context.bowline(["search", "echo"]));
    assert!(found.starts_with("exit: 0\n--- stdout\ntool\tone\techo\t"), "commands know it as well: {found}");
    let mut host = Host::start_initialized(context.bowline(["serve", "--stdio", "--alone"])).await;
    assert_eq!(tools(&mut host).await, ["counter", "echo"]);
    let list = host.request("tools/list", json!({})).await;
    assert!(list["result"]["_meta"]["bowline/stale-servers"]["one"].is_string(), "{list}");
    one.start().await;
    assert_eq!(result_text(&host.call("counter").await), "1");
    assert_eq!(host.close().await.status.code(), Some(0));
}

#[tokio::test]
async fn chosen_servers_with_prefixed_names() {
    let context = Context::new();
    let (one, two) = (server("echo").await, server("slow").await);
    context.user_config(&format!("{}{}", http_entry("one", &one), http_entry("two", &two)));
    let command = context.bowline(["serve", "--stdio", "--alone", "--prefix", "two"]);
    let mut host = Host::start_initialized(command).await;
    assert_eq!(tools(&mut host).await, ["two__counter", "two__slow"]);
    assert_eq!(one.initialize_count(), 0);
    let answer = host.request("nobody/knows", Value::Null).await;
    assert_eq!(answer["error"]["code"], -32601);
    assert_eq!(host.close().await.status.code(), Some(0));
}

/// `bowline serve` on a socket.
pub(crate) struct Gateway {
    child: tokio::process::Child,
    stderr: tokio::io::Lines<BufReader<tokio::process::ChildStderr>>,
}

impl Gateway {
    pub(crate) fn start(context: &Context, args: &[&str]) -> Self {
        Self::start_command(context.bowline([&["serve"], args].concat()))
    }

    pub(crate) fn start_command(mut command: Command) -> Self {
        command.stderr(std::process::Stdio::piped());
        let mut child = command.spawn_async().expect("bowline starts");
        let stderr = BufReader::new(child.stderr.take().expect("piped")).lines();
        Self { child, stderr }
    }

    /// The next line on stderr.
    pub(crate) async fn line(&mut self) -> String {
        let line = timeout(TEST_TIMEOUT, self.stderr.next_line()).await.expect("a line in time");
        line.expect("text").expect("a line")
    }

    /// The next note.
    pub(crate) async fn note(&mut self) -> String {
        self.line().await.strip_prefix("note: ").expect("a note").to_owned()
    }

    /// The URL that the first note names.
    pub(crate) async fn url(&mut self) -> String {
        let note = self.note().await;
        let url = note.split(' ').find(|word| word.starts_with("http://")).expect("a URL");
        url.trim_end_matches(';').to_owned()
    }

    #[cfg(unix)]
    pub(crate) async fn kill(mut self) {
        self.child.kill().await.expect("it runs");
    }

    /// Sends a signal.
    #[cfg(unix)]
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let id = crate::context::to_pid(self.child.id().expect("it runs"));
        rustix::process::kill_process(id, signal).expect("it runs");
    }

    /// Its resident memory in kilobytes.
    #[cfg(target_os = "linux")]
    pub(crate) fn resident_memory(&self) -> u64 {
        let path = format!("/proc/{}/status", self.child.id().expect("it runs"));
        let status = std::fs::read_to_string(path).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
        line.trim().strip_suffix(" kB").expect("kilobytes").trim().parse().expect("a number")
    }

    /// Waits for the end of the process.
    #[cfg(unix)]
    pub(crate) async fn wait(&mut self) -> std::process::ExitStatus {
        timeout(TEST_TIMEOUT, self.child.wait()).await.expect("it ends").expect("it ends")
    }

    #[cfg(unix)]
    pub(crate) async fn terminate(mut self) -> std::process::ExitStatus {
        self.signal(rustix::process::Signal::TERM);
        self.wait().await
    }
}

/// SE-05: a host over TCP needs the token, which only its owner can read.
#[cfg(unix)]
#[tokio::test]
async fn se_05_hosts_over_http_need_the_token() {
    use std::os::unix::fs::PermissionsExt as _;
    let context = Context::new();
    let one = server("echo").await;
    context.user_config(&http_entry("one", &one));
    let mut gateway = Gateway::start(&context, &["--listen", "127.0.0.1:0"]);
    let url = gateway.url().await;
    let path = context.path("home/.local/state/bowline/serve-token");
    let note = gateway.note().await;
    assert!(note.ends_with(&*path.to_string_lossy()), "{note}");
    assert_eq!(path.metadata().expect("a file").permissions().mode() & 0o777, 0o600);
    let token = std::fs::read_to_string(&path).expect("a token");
    assert!(!note.contains(&token));
    let call = |header: &str| context.run(context.bowline(["call", &url, "counter", "--header", header]));
    assert!(call("X: y").starts_with("exit: 5\n"), "{}", call("X: y"));
    assert_eq!(call(&format!("Authorization: Bearer {token}")), "exit: 0\n--- stdout\n1\n--- stderr\n---");
    assert!(call(&format!("Authorization: Bearer {token}x")).starts_with("exit: 5\n"));
    assert_eq!(one.executions("counter"), 1);
    assert_eq!(gateway.terminate().await.code(), Some(0));
    assert_eq!(one.sessions().len(), 0, "the sessions of its hosts were ended");
    // The next start has the same token.
    let mut gateway = Gateway::start(&context, &["--listen", "127.0.0.1:0"]);
    gateway.url().await;
    assert_eq!(std::fs::read_to_string(&path).expect("a token"), token);
    assert_eq!(gateway.terminate().await.code(), Some(0));
}

/// SE-06: neither the token of a host nor any other header of it reaches a server, and what a server
/// needs is its own.
#[cfg(unix)]
#[tokio::test]
async fn se_06_no_header_of_a_host_reaches_a_server() {
    let context = Context::new();
    let one = server("echo").await;
    context.user_config(&format!(
        "{}headers = {{ Authorization = 'Bearer upstream' }}\n",
        http_entry("one", &one)
    ));
    let mut gateway = Gateway::start(&context, &["--listen", "127.0.0.1:0"]);
    let url = gateway.url().await;
    gateway.note().await;
    let token =
        std::fs::read_to_string(context.path("home/.local/state/bowline/serve-token")).expect("a token");
    let authorization = format!("Authorization: Bearer {}", token.trim());
    for protocol in ["legacy", "modern"] {
        let called = context.run(context.bowline([
            "call",
            &url,
            "counter",
            "--protocol",
            protocol,
            "--header",
            &authorization,
            "--header",
            "X-Of-Host: secret",
        ]));
        assert!(called.starts_with("exit: 0\n"), "{called}");
    }
    let received = one.received();
    assert!(received.len() > 2, "{}", received.len());
    for request in received {
        assert_eq!(request.header("authorization"), Some("Bearer upstream"));
        assert_eq!(request.header("x-of-host"), None);
    }
    assert_eq!(gateway.terminate().await.code(), Some(0));
}

/// Hosts of both eras are served on one endpoint.
#[cfg(unix)]
#[tokio::test]
async fn hosts_with_and_without_sessions_are_served() {
    let context = Context::new();
    let one = server("echo").await;
    context.user_config(&http_entry("one", &one));
    let mut gateway = Gateway::start(&context, &["--listen", "127.0.0.1:0", "--no-token"]);
    let url = gateway.url().await;
    gateway.note().await;
    for (protocol, revision) in [("legacy", "2025-11-25"), ("modern", "2026-07-28"), ("auto", "2026-07-28")] {
        let shown = context.run(context.bowline(["info", &url, "--json", "--protocol", protocol]));
        assert!(shown.contains(revision), "{shown}");
        assert_eq!(
            context.run(context.bowline(["call", &url, "echo", "--protocol", protocol])),
            "exit: 0\n--- stdout\n{}\n--- stderr\n---"
        );
    }
    assert_eq!(gateway.terminate().await.code(), Some(0));
}

/// A call that is open when the signal comes gets its response.
#[cfg(unix)]
#[tokio::test]
async fn sigterm_lets_open_calls_end() {
    let context = Context::new();
    let one = server("slow").await;
    context.user_config(&http_entry("one", &one));
    let mut gateway = Gateway::start(&context, &["--listen", "127.0.0.1:0", "--no-token", "--drain", "30s"]);
    let url = gateway.url().await;
    assert!(gateway.note().await.starts_with("no token is required"));
    let mut command = context.bowline(["call", &url, "slow", "ms=1500"]);
    command.stdout(std::process::Stdio::piped());
    let caller = command.spawn_async().expect("bowline starts");
    one.wait_for(|received| received.tool() == Some("slow"), TEST_TIMEOUT).await;
    assert_eq!(gateway.terminate().await.code(), Some(0));
    let output = timeout(TEST_TIMEOUT, caller.wait_with_output()).await.expect("it ends").expect("it ends");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(one.cancellations(), [Value::Null; 0]);
}

#[cfg(unix)]
#[tokio::test]
async fn a_unix_socket_is_private_and_is_removed_at_the_end() {
    use std::os::unix::fs::PermissionsExt as _;
    let context = Context::new();
    let one = server("echo").await;
    context.user_config(&http_entry("one", &one));
    let path = context.path("socket");
    let path = path.to_str().expect("a path");
    let mut gateway = Gateway::start(&context, &["--socket", path]);
    assert_eq!(gateway.note().await, format!("serving 1 server on the socket {path}; Ctrl-C ends it"));
    assert_eq!(std::fs::metadata(path).expect("a socket").permissions().mode() & 0o777, 0o600);
    let shown = context.run(context.bowline(["serve", "--socket", path]));
    assert!(shown.contains("it may be running already; choose another path with --socket"), "{shown}");
    let mut stream = tokio::net::UnixStream::connect(path).await.expect("it listens");
    stream
        .write_all(b"GET /healthz HTTP/1.1\r\nhost: any\r\nconnection: close\r\n\r\n")
        .await
        .expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("text");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("ok"), "{answer}");
    assert_eq!(gateway.terminate().await.code(), Some(0));
    assert!(std::fs::metadata(path).is_err());
    // What a killed process left behind is replaced.
    drop(std::os::unix::net::UnixListener::bind(path).expect("a socket"));
    let mut gateway = Gateway::start(&context, &["--socket", path]);
    gateway.note().await;
    assert_eq!(gateway.terminate().await.code(), Some(0));
    // Another file is not.
    context.write("socket", "mine");
    let shown = context.run(context.bowline(["serve", "--socket", path]));
    assert!(shown.starts_with("exit: 2\n"), "{shown}");
    assert_eq!(std::fs::read_to_string(path).expect("a file"), "mine");
}

#[test]
fn mistakes_are_explained() {
    let context = Context::new();
    snapshot!(context.run(context.bowline(["serve", "--stdio", "--no-token"])), @r"
    exit: 2
    --- stdout
    --- stderr
    error: the argument '--stdio' cannot be used with '--no-token'

    Usage: bowline serve --stdio [SERVER]...

    For more information, try '--help'.
    ---
    ");
    snapshot!(context.run(context.bowline(["serve", "--listen", "localhost"])), @r"
    exit: 2
    --- stdout
    --- stderr
    error: invalid value 'localhost' for '--listen <ADDRESS:PORT>': invalid socket address syntax

    For more information, try '--help'.
    ---
    ");
    snapshot!(context.run(context.bowline(["serve", "--stdio"])), @r"
    exit: 2
    --- stdout
    --- stderr
    error: no servers are configured

    hint: `bowline import` takes over those of your hosts, `bowline add NAME URL` adds one
    ---
    ");
    context.user_config("[servers.off]\ncommand = 'nothing'\nenabled = false\n");
    snapshot!(context.run(context.bowline(["serve", "--stdio"])), @r"
    exit: 2
    --- stdout
    --- stderr
    error: no server can be served

    hint: see `bowline status` for what is configured, and why it is left out
    ---
    ");
    snapshot!(context.run(context.bowline(["serve", "--stdio", "nobody"])), @r"
    exit: 2
    --- stdout
    --- stderr
    error: no server named `nobody` is configured

    hint: there are: off
    ---
    ");
    snapshot!(context.run(context.bowline(["serve", "--stdio", "--trust-project"])), @r"
    exit: 2
    --- stdout
    --- stderr
    error: --trust-project is for one command that you run yourself, and not for `serve`

    hint: run `bowline trust` in the project's folder: it asks you once, and again when the file has changed
    ---
    ");
    context.user_config("[servers.one]\nurl = 'http://127.0.0.1:9/mcp'\nx = [\n");
    let shown = context.run(context.bowline(["serve", "--stdio"]));
    assert!(shown.starts_with("exit: 2\n") && shown.contains("not valid TOML"), "{shown}");
    context.user_config("[servers.one]\nurl = 'http://127.0.0.1:9/mcp'\n");
    snapshot!(context.run(context.bowline(["serve", "--listen", "0.0.0.0:0"])), @r"
    exit: 2
    --- stdout
    --- stderr
    error: other machines can reach 0.0.0.0:0, and nothing is encrypted

    hint: use 127.0.0.1, or say --allow-remote and put a proxy with TLS in front
    ---
    ");
    context.write("token", "short");
    context.set_mode("token", 0o600);
    let token = context.path("token");
    snapshot!(context.run(context.bowline(["serve", "--listen", "127.0.0.1:0", "--token-file", &token.to_string_lossy()])), @r"
    exit: 2
    --- stdout
    --- stderr
    error: the token in [TMP]/token cannot be used: a token has at least 16 visible ASCII characters
    ---
    ");
}

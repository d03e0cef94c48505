//! `bowline serve --stdio` in front of a daemon that hosts share.

pub(crate) mod daemons;
mod modern;
mod no_daemon;
mod recovery;
mod reload;
mod views;

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use bowline_testkit::{self as testkit, ScriptedRequest, StdioServer, Tool};
use serde_json::json;
use tokio::time::timeout;

use crate::connect::host::{Host, TEST_TIMEOUT, result_text};
use crate::context::{Context, to_pid};
use crate::status::{http_entry, stdio_entry};
use daemons::{Daemons, wait_until};

const RUN_FOLDER: &str = "home/.local/state/bowline/run";

async fn start(context: &Context, args: &[&str]) -> Host {
    Host::start_initialized(context.bowline([&["serve", "--stdio"], args].concat())).await
}

fn running(server: &StdioServer) -> usize {
    server.processes().iter().filter(|process| process.is_running()).count()
}

/// ST-08: two hosts are served over a Unix socket by one daemon, which lives on when the host that started it is killed. A
/// server that is a process runs once for each session.
#[tokio::test]
async fn hosts_with_the_same_configuration_share_a_daemon() {
    let context = Context::new();
    let web = testkit::server().legacy().tool("echo").run().await;
    let child = testkit::server().legacy().tool("counter").stdio().await;
    context.user_config(&format!("{}{}", http_entry("web", &web), stdio_entry("child", &child.command())));
    let daemons = Daemons::of(&context);
    let mut first = start(&context, &[]).await;
    let mut second = start(&context, &[]).await;
    let daemon = daemons.only();
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&context.path(RUN_FOLDER)), 0o700);
    for extension in ["sock", "pid", "lock", "log"] {
        assert_eq!(mode(&daemons.path(extension)), 0o600, "{extension}");
    }
    assert_eq!(result_text(&first.call("counter").await), "1");
    assert_eq!(result_text(&second.call("counter").await), "2");
    assert_eq!(running(&child), 2);
    rustix::process::kill_process(to_pid(first.id()), rustix::process::Signal::KILL).unwrap();
    assert!(!first.wait().await.status.success());
    assert_eq!(result_text(&second.call("counter").await), "3");
    assert_eq!(daemons.only(), daemon);
    let exit = second.close().await;
    assert_eq!((exit.status.code(), &*exit.stderr), (Some(0), ""));
}

/// A host that sends a signal may still read: what is open is answered, and canceled on its server.
#[tokio::test]
async fn a_signal_answers_what_is_open() {
    use rustix::process::{Signal, kill_process};

    for signal in [Signal::TERM, Signal::INT] {
        let context = Context::new();
        let web = testkit::server().legacy().tool("slow").run().await;
        context.user_config(&http_entry("web", &web));
        let _daemons = Daemons::of(&context);
        let mut host = start(&context, &[]).await;
        let open =
            host.send_request("tools/call", json!({"name": "slow", "arguments": {"ms": 60_000}})).await;
        web.wait_for(|received| received.tool() == Some("slow"), TEST_TIMEOUT).await;
        kill_process(to_pid(host.id()), signal).unwrap();
        let answer = host.wait_for_response(open).await;
        assert_eq!(answer["error"]["code"], -31050, "{answer}");
        assert_eq!(answer["error"]["data"]["bowline"]["execution"], "unknown", "{answer}");
        assert_eq!(host.wait().await.status.code(), Some(0));
        web.wait_until(|web| web.cancellations().len() == 1, TEST_TIMEOUT).await;
    }
}

#[tokio::test]
async fn twenty_hosts_that_start_at_once_start_one_daemon() {
    let context = Context::new();
    let web = testkit::server().legacy().tool("echo").run().await;
    context.user_config(&http_entry("web", &web));
    let daemons = Daemons::of(&context);
    let mut hosts: Vec<Host> = (0..20).map(|_| Host::start(context.bowline(["serve", "--stdio"]))).collect();
    for host in &mut hosts {
        let answer = host.initialize().await;
        assert_eq!(answer["result"]["serverInfo"]["name"], "bowline", "{answer}");
    }
    for host in &mut hosts {
        let answer = host.request("tools/call", json!({"name": "echo", "arguments": {"a": 1}})).await;
        assert_eq!(result_text(&answer), r#"{"a":1}"#);
    }
    daemons.only();
    // Each daemon that ever started says so in its log.
    let log = daemons.log();
    assert_eq!(log.matches("serving 1 server on the socket").count(), 1, "{log}");
    for host in hosts {
        assert_eq!(host.close().await.status.code(), Some(0));
    }
}

/// What a server asks reaches the host that called it, under the name of that host, also if another
/// one has called it later.
#[tokio::test]
async fn a_question_of_a_server_reaches_its_host() {
    let context = Context::new();
    let roots = Tool::asks("where", [ScriptedRequest::roots("roots")]);
    let web = testkit::server().legacy().tool(roots).run().await;
    context.user_config(&http_entry("web", &web));
    let daemons = Daemons::of(&context);
    let mut hosts = Vec::new();
    for name in ["one", "two"] {
        let mut host = Host::start(context.bowline(["serve", "--stdio"]));
        let client = json!({"name": name, "version": "1"});
        let params =
            json!({"protocolVersion": "2025-11-25", "capabilities": {"roots": {}}, "clientInfo": client});
        host.request("initialize", params).await;
        host.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        let id = host.send_request("tools/call", json!({"name": "where", "arguments": {}})).await;
        hosts.push((name, host, id));
    }
    daemons.only();
    for (name, host, id) in &mut hosts {
        let question = loop {
            let message = host.next_message().await;
            if message["method"] == "roots/list" {
                break message;
            }
        };
        let roots = json!({"roots": [{"uri": format!("file:///{name}")}]});
        host.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": roots})).await;
        let answer = host.wait_for_response(*id).await;
        assert_eq!(result_text(&answer), json!({"roots": roots}).to_string());
    }
    let names = web.received_with_method("initialize").into_iter();
    let names: Vec<_> = names.map(|received| received.body["params"]["clientInfo"]["name"].clone()).collect();
    assert_eq!(names, ["one", "two"]);
}

#[tokio::test]
async fn a_host_that_is_served_alone_starts_no_daemon() {
    let context = Context::new();
    let web = testkit::server().legacy().tool("echo").run().await;
    context.user_config(&http_entry("web", &web));
    let mut host = start(&context, &["--alone"]).await;
    assert_eq!(result_text(&host.call("echo").await), "{}");
    assert_eq!(Daemons::of(&context).all(), [0; 0]);
    assert_eq!(host.close().await.status.code(), Some(0));
}

/// What a daemon would do differently is not shared.
#[tokio::test]
async fn each_configuration_has_its_own_daemon() {
    let context = Context::new();
    let web = testkit::server().legacy().tool("echo").run().await;
    context.user_config(&http_entry("web", &web));
    let daemons = Daemons::of(&context);
    let mut plain = start(&context, &[]).await;
    let mut prefixed = start(&context, &["--prefix"]).await;
    assert_eq!(daemons.all().len(), 2);
    assert_eq!(result_text(&prefixed.call("web__echo").await), "{}");
    context.user_config(&format!("{}headers = {{ X-Team = 'knots' }}\n", http_entry("web", &web)));
    let mut changed = start(&context, &[]).await;
    assert_eq!(daemons.all().len(), 3);
    for host in [&mut plain, &mut changed] {
        assert_eq!(result_text(&host.call("echo").await), "{}");
    }
    // A program that runs in the current folder would run in another one.
    let child = testkit::server().legacy().tool("counter").stdio().await;
    context.user_config(&stdio_entry("child", &child.command()));
    start(&context, &[]).await;
    assert_eq!(daemons.all().len(), 4);
    let mut elsewhere = context.bowline(["serve", "--stdio"]);
    elsewhere.current_dir(context.path("project"));
    Host::start_initialized(elsewhere).await;
    assert_eq!(daemons.all().len(), 5);
}

/// A daemon without hosts ends by itself, and takes its files with it.
#[tokio::test]
async fn a_daemon_exits_when_it_is_idle() {
    let context = Context::new();
    context.user_config("[servers.web]\nurl = 'http://127.0.0.1:9/mcp'\n");
    let socket = context.path("socket");
    let args = ["serve", "--socket", socket.to_str().unwrap(), "--exit-when-idle", "50ms"];
    let output = timeout(TEST_TIMEOUT, context.bowline(args).spawn_async().unwrap().wait_with_output());
    assert_eq!(output.await.expect("it ends").unwrap().status.code(), Some(0));
    assert!(!socket.exists());
}

/// The log of a daemon, which is its stderr, is emptied when it has become too large.
#[tokio::test]
async fn the_log_of_a_daemon_has_a_limited_size() {
    let context = Context::new();
    context.user_config("[servers.web]\nurl = 'http://127.0.0.1:9/mcp'\n");
    let (socket, log) = (context.path("d.sock"), context.path("log"));
    let limit = 1024 * 1024;
    for (before, after) in [(limit - 4096, limit - 4096), (limit + 1, 0)] {
        std::fs::write(&log, "x".repeat(before)).unwrap();
        let args =
            ["serve", "--socket", socket.to_str().unwrap(), "--detached", "k", "--exit-when-idle", "10ms"];
        let mut command = context.bowline(args);
        command.stderr(std::fs::OpenOptions::new().append(true).open(&log).unwrap());
        let status = timeout(TEST_TIMEOUT, command.spawn_async().unwrap().wait()).await.expect("it ends");
        assert_eq!(status.unwrap().code(), Some(0));
        let text = std::fs::read_to_string(&log).unwrap();
        assert!(text[after..].starts_with("note: serving 1 server on the socket"), "{before}");
    }
    assert!(!context.path("d.pid").exists());
}

/// The session of a host that was killed ends, and with it the processes of its servers. One that is
/// silent for as long keeps its own: it has an open stream.
#[tokio::test]
async fn the_session_of_a_killed_host_ends_soon() {
    let context = Context::new();
    let child = testkit::server().legacy().tool("counter").stdio().await;
    context.user_config(&stdio_entry("child", &child.command()));
    let socket = context.path("socket");
    let socket = socket.to_str().unwrap();
    let args = ["serve", "--socket", socket, "--session-idle", "500ms", "--exit-when-idle", "10m"];
    let mut gateway = context.bowline(args).spawn_async().unwrap();
    wait_until(|| std::os::unix::net::UnixStream::connect(socket).is_ok()).await;
    let hosts = Context::new();
    hosts.user_config(&format!("[servers.gateway]\nurl = 'http://localhost/mcp'\nsocket = '{socket}'\n"));
    let mut silent = Host::start_initialized(hosts.bowline(["connect", "gateway"])).await;
    result_text(&silent.call("counter").await);
    let own = child.processes()[0].pid;
    for _ in 0..2 {
        let mut killed = Host::start_initialized(hosts.bowline(["connect", "gateway"])).await;
        result_text(&killed.call("counter").await);
        assert_eq!(running(&child), 2);
        rustix::process::kill_process(to_pid(killed.id()), rustix::process::Signal::KILL).unwrap();
        killed.wait().await;
        wait_until(|| running(&child) == 1).await;
    }
    result_text(&silent.call("counter").await);
    let left: Vec<u32> =
        child.processes().iter().filter(|process| process.is_running()).map(|process| process.pid).collect();
    assert_eq!(left, [own]);
    assert_eq!(silent.close().await.status.code(), Some(0));
    rustix::process::kill_process(to_pid(gateway.id().unwrap()), rustix::process::Signal::TERM).unwrap();
    assert_eq!(timeout(TEST_TIMEOUT, gateway.wait()).await.expect("it ends").unwrap().code(), Some(0));
}

/// The host is served although there can be no daemon, and is told why.
#[tokio::test]
async fn a_host_is_served_alone_if_no_daemon_can_be_used() {
    let context = Context::new();
    let web = testkit::server().legacy().tool("echo").run().await;
    context.user_config(&http_entry("web", &web));
    let daemons = Daemons::of(&context);
    start(&context, &[]).await.close().await;
    // Nobody can listen where a folder is.
    let socket = daemons.path("sock");
    daemons.end_all().await;
    // The next start need not wait.
    std::fs::remove_file(daemons.path("lock")).unwrap();
    let _ = std::fs::remove_file(&socket);
    std::fs::create_dir_all(socket.join("full")).unwrap();
    let mut host = start(&context, &[]).await;
    assert_eq!(result_text(&host.call("echo").await), "{}");
    let exit = host.close().await;
    assert_eq!(exit.status.code(), Some(0));
    let expected = "note: the daemon did not start, so this process serves alone: it ended at once\n";
    assert!(exit.stderr.starts_with(expected) && exit.stderr.contains("cannot listen on"), "{}", exit.stderr);
    // There is no folder for its files.
    std::fs::remove_dir_all(context.path(RUN_FOLDER)).unwrap();
    context.write(RUN_FOLDER, "");
    let mut host = start(&context, &[]).await;
    assert_eq!(result_text(&host.call("echo").await), "{}");
    let exit = host.close().await;
    let expected = "note: no daemon can be shared, so this process serves alone: ";
    assert!(exit.stderr.starts_with(expected), "{}", exit.stderr);
}

/// The limit of every wait for a process.
const WAIT_STEP: Duration = Duration::from_millis(10);

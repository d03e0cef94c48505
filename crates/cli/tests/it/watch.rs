//! `bowline watch`: events of servers, line by line, and hooks on them.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Stdio};
use std::time::Duration;

use bowline_testkit as testkit;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::context::{Command, Context, toml_path};
use crate::status::{http_entry, stdio_entry};

const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// A running `bowline` whose lines are read one by one. Killed on drop.
pub(crate) struct WatchProcess {
    child: Child,
    lines: tokio::sync::mpsc::UnboundedReceiver<String>,
}

impl WatchProcess {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("bowline starts");
        let stdout: ChildStdout = child.stdout.take().expect("a pipe");
        let (sender, lines) = tokio::sync::mpsc::unbounded_channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Self { child, lines }
    }

    pub(crate) async fn next_line(&mut self) -> String {
        let line = tokio::time::timeout(TEST_TIMEOUT, self.lines.recv()).await.expect("a line in time");
        line.expect("bowline still runs")
    }

    pub(crate) async fn next_json(&mut self) -> Value {
        serde_json::from_str(&self.next_line().await).expect("one object per line")
    }

    /// Sends Ctrl-C, and returns the exit code and the remaining lines.
    pub(crate) async fn interrupt(mut self) -> (Option<i32>, Vec<String>) {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
        let mut rest = Vec::new();
        while let Some(line) = tokio::time::timeout(TEST_TIMEOUT, self.lines.recv()).await.expect("it ends") {
            rest.push(line);
        }
        (self.child.wait().unwrap().code(), rest)
    }
}

impl Drop for WatchProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The server restarts: its session is lost and replaced.
#[tokio::test]
async fn a_restart_is_seen() {
    let context = Context::new();
    let server = testkit::server().legacy().tool("echo").run().await;
    context.user_config(&http_entry("rope", &server));
    let mut watching = WatchProcess::start(context.bowline(["watch", "--json"]));
    let connected = watching.next_json().await;
    assert_eq!((&connected["event"], &connected["server"]), (&"connected".into(), &"rope".into()));
    server.wait_for(|received| received.has_method("GET"), TEST_TIMEOUT).await;
    server.restart().await;
    let lost = watching.next_json().await;
    assert!(matches!(lost["event"].as_str(), Some("session_lost" | "disconnected")), "{lost}");
    assert!(lost["cause"].is_string() && lost["time"].as_str() > connected["time"].as_str(), "{lost}");
    let mut next = watching.next_json().await;
    while next["event"] != "recovered" {
        next = watching.next_json().await;
    }
    assert!(next["outage_ms"].is_u64(), "{next}");
    assert!(next["attempt"].as_u64() >= Some(1), "{next}");
    assert_eq!(watching.interrupt().await, (Some(0), vec![]));
}

/// A process that dies is reported, and its hooks run.
#[tokio::test]
async fn a_crash_is_seen_and_hooks_are_run() {
    let context = Context::new();
    let server = testkit::server().legacy().tool("echo").stdio().await;
    let told = context.path("told");
    let hooks = format!(
        "[[hooks]]\ncommand = '/bin/sh'\nargs = ['-c', 'cat >> {}']\n\
         [[servers.rope.hooks]]\non = ['recovered']\ncommand = '/bin/sh'\nargs = ['-c', 'echo own >> {}']\n",
        told.display(),
        told.display()
    );
    context.user_config(&format!("{}{hooks}", stdio_entry("rope", &server.command())));
    let mut watching = WatchProcess::start(context.bowline(["watch", "rope"]));
    let line = watching.next_line().await;
    assert!(line.ends_with("Z\trope\tconnected"), "{line:?}");
    server.exit(3);
    let line = watching.next_line().await;
    assert!(line.ends_with("\trope\tdisconnected\tthe server exited with code 3"), "{line:?}");
    let line = watching.next_line().await;
    assert!(line.contains("\trope\trecovered\tafter "), "{line:?}");
    assert_eq!(watching.interrupt().await.0, Some(0));
    let told = std::fs::read_to_string(told).unwrap();
    let events: Vec<_> = told
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok()?["event"].as_str().map(str::to_owned))
        .collect();
    assert_eq!(events, ["connected", "disconnected", "recovered"]);
    assert_eq!(told.lines().filter(|line| *line == "own").count(), 1);
    server.expect_all_exited().await;
}

#[tokio::test]
async fn notifications_are_shown_when_asked_for() {
    let context = Context::new();
    let server = testkit::server().legacy().tool("echo").run().await;
    context.user_config(&http_entry("rope", &server));
    let mut watching = WatchProcess::start(context.bowline(["watch", "--notifications"]));
    watching.next_line().await;
    let message = serde_json::json!({
        "jsonrpc": "2.0",
        "method": "notifications/message",
        "params": {"level": "info", "data": "\u{9b}2J\u{202e}"},
    });
    server.send(message).await;
    let line = watching.next_line().await;
    assert!(line.contains("\trope\tnotification\tnotifications/message {"), "{line:?}");
    assert!(line.contains("\\u{9b}2J\\u{202e}"), "{line:?}");
    server.wait_until(|server| server.announce_tools() > 0, TEST_TIMEOUT).await;
    let line = watching.next_line().await;
    assert!(line.contains("notifications/tools/list_changed"), "{line:?}");
    watching.interrupt().await;
}

/// `status --watch` without a terminal prints a line for each change.
#[tokio::test]
async fn status_without_a_terminal_prints_changes() {
    let context = Context::new();
    let server = testkit::server().legacy().tool("echo").stdio().await;
    context.user_config(&stdio_entry("rope", &server.command()));
    let mut watching = WatchProcess::start(context.bowline(["status", "--watch"]));
    let line = watching.next_line().await;
    assert!(line.contains("\trope\tready\tlegacy 2025-11-25\tstdio\t"), "{line:?}");
    assert_eq!(watching.interrupt().await.0, Some(0));

    let mut watching = WatchProcess::start(context.bowline(["status", "--watch", "--json"]));
    let status = watching.next_json().await;
    assert_eq!((&status["name"], &status["state"]), (&"rope".into(), &"ready".into()));
    watching.interrupt().await;
}

/// A project's hooks are commands, and need trust.
#[tokio::test]
async fn hooks_of_a_project_need_trust() {
    let context = Context::new();
    let server = testkit::server().legacy().tool("echo").run().await;
    let mark = context.path("mark");
    context.user_config(&http_entry("rope", &server));
    context.project_config(&format!("[[hooks]]\ncommand = 'touch'\nargs = [{}]\n", toml_path(&mark)));
    let mut watching = WatchProcess::start(context.bowline(["watch"]));
    watching.next_line().await;
    watching.interrupt().await;
    assert!(!mark.exists());
    // Precondition: once trusted, the hook runs.
    let mut watching = WatchProcess::start(context.bowline(["watch", "--trust-project"]));
    watching.next_line().await;
    watching.interrupt().await;
    assert!(mark.exists());
}

/// Tools that changed during an outage are reported although no list was requested.
#[tokio::test]
async fn tools_changed_during_an_outage_are_reported() {
    let context = Context::new();
    let server = testkit::server().legacy().tool("echo").run().await;
    context.user_config(&format!("{}keepalive_interval = 5\n", http_entry("rope", &server)));
    let mut watching = WatchProcess::start(context.bowline(["watch"]));
    watching.next_line().await;
    // The server is idle, and its tools are known.
    server.wait_for(|received| received.has_method("tools/list"), TEST_TIMEOUT).await;
    server.wait_for(|received| received.has_method("ping"), TEST_TIMEOUT).await;
    server.edit(|script| script.tool("counter"));
    server.restart().await;
    let mut line = String::new();
    while !line.contains("\trecovered") {
        line = watching.next_line().await;
    }
    let line = watching.next_line().await;
    assert!(line.ends_with("\trope\tchanges\ttools: +counter"), "{line:?}");
    let line = watching.next_line().await;
    assert!(line.ends_with("\trope\ttools_changed"), "{line:?}");
    watching.interrupt().await;
}

/// A slow hook does not outlive the bowline that started it, however that ends.
#[tokio::test]
async fn a_hook_ends_with_a_killed_bowline() {
    let context = Context::new();
    let server = testkit::server().legacy().tool("echo").run().await;
    let fifo = context.path("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let hook = format!(
        "[[servers.rope.hooks]]\non = ['connected']\ncommand = '/bin/sh'\nargs = ['-c', 'exec > {} && echo up && sleep 100']\n",
        fifo.display()
    );
    context.user_config(&format!("{}{hook}", http_entry("rope", &server)));
    let mut watching = WatchProcess::start(context.bowline(["watch"]));
    // The hook and its child hold the other end of the pipe, so its end proves that both ended.
    let begun = tokio::task::spawn_blocking(move || {
        let mut lines = BufReader::new(std::fs::File::open(&fifo).unwrap()).lines();
        (lines.next().unwrap().unwrap(), lines)
    });
    let (said, mut lines) =
        tokio::time::timeout(TEST_TIMEOUT, begun).await.expect("the hook is run").unwrap();
    assert_eq!(said, "up");
    watching.child.kill().unwrap();
    let ended = tokio::task::spawn_blocking(move || lines.next().is_none());
    assert!(tokio::time::timeout(TEST_TIMEOUT, ended).await.expect("the hook ends").unwrap());
}

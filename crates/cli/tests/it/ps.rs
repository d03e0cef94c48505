//! `bowline ps`: running servers, their owners, and orphans.

use std::process::Child;
use std::time::Duration;

use bowline_testkit::{self as testkit, StdioCommand, StdioServer};
use serde_json::Value;

use crate::context::{Context, snapshot};
use crate::status::stdio_entry;

const TEST_TIMEOUT: Duration = Duration::from_secs(60);

fn json(context: &Context, args: &[&str]) -> Value {
    let output = context.bowline(args).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A bowline process that is killed on drop.
struct RunningBowline(Child);

impl Drop for RunningBowline {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a bowline that runs the server.
async fn start_bowline(context: &Context, server: &StdioServer) -> RunningBowline {
    // Behind a shell, as `npx` and others do: two processes, one below the other.
    let command = server.command();
    let wrapped = StdioCommand {
        program: "/bin/sh".into(),
        args: vec!["-c".to_owned(), format!("{}; exit $?", command.program.display())],
        ..command
    };
    context.user_config(&stdio_entry("rope", &wrapped));
    let held = context.bowline(["watch", "-q"]).spawn().unwrap();
    server.wait_for(|received| received.has_method("notifications/initialized"), TEST_TIMEOUT).await;
    RunningBowline(held)
}

#[test]
fn ps_without_servers() {
    let context = Context::new();
    snapshot!(context.run(context.bowline(["ps"])), @"
    exit: 0
    --- stdout
    --- stderr
    note: no server process is running
    ---
    ");
    assert_eq!(json(&context, &["ps", "--json"]), serde_json::json!({ "servers": [] }));
}

/// Lists the server of a running bowline and its descendants, with their memory.
#[tokio::test]
async fn ps_lists_a_server_and_its_descendants() {
    let context = Context::new();
    let server = testkit::server().legacy().tool("echo").stdio().await;
    let holder = start_bowline(&context, &server).await;
    let listed = json(&context, &["ps", "--json"]);
    let [rope] = listed["servers"].as_array().unwrap().as_slice() else { panic!("{listed}") };
    assert_eq!((&rope["server"], &rope["orphan"]), (&"rope".into(), &false.into()), "{rope}");
    assert_eq!(rope["owner"], holder.0.id());
    let [shell, below] = rope["processes"].as_array().unwrap().as_slice() else { panic!("{rope}") };
    assert_eq!(below["pid"], server.pid().unwrap());
    assert_eq!((&below["parent"], &below["depth"]), (&shell["pid"], &1.into()), "{rope}");
    assert_eq!(shell["parent"], holder.0.id());
    let memory: u64 = [shell, below].iter().map(|process| process["memory"].as_u64().unwrap()).sum();
    assert!(memory > 0 && rope["memory"].as_u64() == Some(memory), "{rope}");

    let lines = context.run(context.bowline(["ps", "-q"]));
    assert!(lines.contains(&format!("rope\towner {}\t{}\t", holder.0.id(), shell["pid"])), "{lines}");
    // A server in use is no orphan.
    assert_eq!(json(&context, &["ps", "--clean", "--json"]), serde_json::json!({ "ended": [] }));
    assert_eq!(server.processes().iter().filter(|process| process.is_running()).count(), 1);
}

/// A host often does not pass on this variable, which a terminal has.
#[tokio::test]
async fn what_a_host_started_is_seen_from_a_terminal() {
    let context = Context::new();
    let server = testkit::server().legacy().tool("echo").stdio().await;
    let holder = start_bowline(&context, &server).await;
    let mut terminal = context.bowline(["ps", "--json"]);
    terminal.env("XDG_RUNTIME_DIR", context.path("home/run"));
    let listed: Value = serde_json::from_slice(&terminal.output().unwrap().stdout).unwrap();
    assert_eq!(listed["servers"][0]["owner"], holder.0.id(), "{listed}");
}

/// Killing a bowline together with its watchdog orphans a server that ignores a closed stdin. The
/// next bowline ends it.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_orphan_is_ended() {
    use std::process::Command;

    let context = Context::new();
    let server = testkit::server().legacy().tool("echo").fault(testkit::Fault::ignore_eof()).stdio().await;
    let mut holder = start_bowline(&context, &server).await;
    let status = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let kill =
        |pid: u32| assert!(Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap().success());
    let listed = json(&context, &["ps", "--json"]);
    let shell = u32::try_from(listed["servers"][0]["processes"][0]["pid"].as_u64().unwrap()).unwrap();
    // Its children are the shells of the server and of the watchdog.
    let others: Vec<u32> = child_pids(holder.0.id()).into_iter().filter(|pid| *pid != shell).collect();
    let [watchdog] = others.as_slice() else { panic!("{others:?}") };
    kill(*watchdog);
    holder.0.kill().unwrap();
    holder.0.wait().unwrap();

    let listed = json(&context, &["ps", "--json"]);
    assert_eq!(listed["servers"][0]["orphan"], true, "{listed}");
    // Without a configured server, so that no other process of it is started.
    let empty = context.write("home/empty.toml", "").display().to_string();
    let examined = crate::doctor::Examined::of(&context, &["--config", &empty]);
    let leftover = examined.check("processes");
    assert_eq!((&leftover["status"], &leftover["blame"]), (&"warning".into(), &"machine".into()));
    assert_eq!(leftover["seen"], "left by a bowline that was killed: rope");
    assert_eq!(leftover["remedy"]["command"], format!("bowline ps --clean --config {empty}"));
    let shown = context.run(context.bowline(["ps"]));
    assert!(shown.contains("is gone") && shown.contains("`bowline ps --clean` ends them"), "{shown}");
    let cleaned = json(&context, &["ps", "--clean", "--json"]);
    assert_eq!(cleaned, serde_json::json!({ "ended": [{ "server": "rope", "pid": shell, "processes": 2 }] }));
    assert_eq!(json(&context, &["ps", "--json"]), serde_json::json!({ "servers": [] }));
    let left = status(server.pid().unwrap());
    assert!(left.is_empty() || left.contains("State:\tZ"), "{left}");
}

/// Returns the children of all threads of a process.
#[cfg(target_os = "linux")]
fn child_pids(pid: u32) -> Vec<u32> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let children =
        threads.map(|thread| std::fs::read_to_string(thread.unwrap().path().join("children")).unwrap());
    children
        .flat_map(|text| text.split_whitespace().map(|pid| pid.parse().unwrap()).collect::<Vec<_>>())
        .collect()
}

//! The stdio binary, directed by a test and on its own.

use std::process::Stdio;

use bowline_testkit::{self as testkit, Fault, ProcessEvent, StdioCommand, StdioServer};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout};

use crate::support::{TEST_TIMEOUT, initialize, modern_params, request, within_timeout};

/// A stdio server process and its pipes.
pub(crate) struct Pipes {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Pipes {
    pub(crate) fn start(command: &StdioCommand) -> Self {
        let mut child = command.command().stderr(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { child, stdin, stdout }
    }

    pub(crate) async fn legacy(command: &StdioCommand) -> Self {
        let mut pipes = Self::start(command);
        let reply = pipes.ask(&initialize("2025-06-18")).await;
        assert_eq!(reply["result"]["protocolVersion"], "2025-06-18");
        pipes.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        pipes
    }

    pub(crate) async fn send(&mut self, message: &Value) {
        let line = format!("{message}\n");
        self.stdin.as_mut().unwrap().write_all(line.as_bytes()).await.unwrap();
    }

    /// Returns the next line without its end; empty at the end of stdout.
    pub(crate) async fn line(&mut self) -> String {
        let mut line = Vec::new();
        within_timeout(self.stdout.read_until(b'\n', &mut line)).await.unwrap();
        String::from_utf8_lossy(&line).trim_end().to_owned()
    }

    pub(crate) async fn ask(&mut self, message: &Value) -> Value {
        self.send(message).await;
        serde_json::from_str(&self.line().await).unwrap()
    }

    async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.ask(&call(tool, arguments)).await
    }

    async fn exit_code(&mut self) -> Option<i32> {
        within_timeout(self.child.wait()).await.unwrap().code()
    }
}

fn call(tool: &str, arguments: Value) -> Value {
    request(3, "tools/call", json!({"name": tool, "arguments": arguments}))
}

async fn server() -> StdioServer {
    testkit::server().tool("echo").tool("counter").tool("slow").stdio().await
}

#[tokio::test]
async fn speaks_both_eras_and_is_recorded() {
    let server = server().await;
    let mut pipes = Pipes::start(&server.command());
    let found = pipes.ask(&request(0, "server/discover", modern_params(json!({})))).await;
    assert_eq!(found["result"]["supportedVersions"][0], "2026-07-28");
    drop(pipes);
    let mut pipes = Pipes::legacy(&server.command()).await;
    assert_eq!(pipes.call("counter", json!({})).await["result"]["content"][0]["text"], "1");
    assert_eq!(server.executions("counter"), 1);
    assert_eq!(server.runs(), 2);
    let last = server.received().pop().unwrap();
    assert_eq!((last.run, last.tool(), last.http_method.as_str()), (2, Some("counter"), ""));
    assert_eq!(server.pid(), pipes.child.id());
    assert_eq!(server.violations(), Vec::<String>::new());
}

#[tokio::test]
async fn a_legacy_server_does_not_know_the_probe() {
    let server = testkit::server().legacy().stdio().await;
    let mut pipes = Pipes::start(&server.command());
    let reply = pipes.ask(&request(0, "server/discover", modern_params(json!({})))).await;
    assert_eq!(reply["error"]["code"], -32601);
    let early = pipes.ask(&request(1, "tools/list", json!({}))).await;
    assert_eq!(early["error"]["code"], -32600);
    let reply = pipes.ask(&initialize("2025-11-25")).await;
    assert_eq!(reply["result"]["protocolVersion"], "2025-11-25");
}

// ST-04
#[tokio::test]
async fn exits_at_the_end_of_stdin_unless_told_otherwise() {
    let server = server().await;
    let mut pipes = Pipes::legacy(&server.command()).await;
    drop(pipes.stdin.take());
    assert_eq!(pipes.exit_code().await, Some(0));
    server.wait_until(|_| !server.processes()[0].is_running(), TEST_TIMEOUT).await;
    assert_eq!(server.processes()[0].events, [ProcessEvent::Eof, ProcessEvent::Ended]);
    assert!(server.sessions().is_empty());

    server.arm(Fault::ignore_eof());
    let mut pipes = Pipes::legacy(&server.command()).await;
    drop(pipes.stdin.take());
    server.wait_until(|_| server.processes()[1].events == [ProcessEvent::Eof], TEST_TIMEOUT).await;
    server.write_stdout("still here\n");
    assert_eq!(pipes.line().await, "still here");
    pipes.child.kill().await.unwrap();
}

#[cfg(unix)]
async fn terminate(pipes: &Pipes) {
    let pid = pipes.child.id().unwrap().to_string();
    assert!(tokio::process::Command::new("kill").args(["-TERM", &pid]).status().await.unwrap().success());
}

// ST-04
#[cfg(unix)]
#[tokio::test]
async fn ends_on_sigterm_unless_told_otherwise() {
    let server = server().await;
    let mut pipes = Pipes::legacy(&server.command()).await;
    terminate(&pipes).await;
    assert_eq!(pipes.exit_code().await, Some(143));
    server.wait_until(|_| !server.processes()[0].is_running(), TEST_TIMEOUT).await;
    assert_eq!(server.processes()[0].events, [ProcessEvent::Term, ProcessEvent::Ended]);

    let mut pipes = Pipes::legacy(&server.command()).await;
    server.arm(Fault::ignore_term());
    pipes.call("echo", json!({})).await;
    terminate(&pipes).await;
    server.wait_until(|_| server.processes()[1].events == [ProcessEvent::Term], TEST_TIMEOUT).await;
    pipes.call("echo", json!({})).await;
    pipes.child.kill().await.unwrap();
}

#[tokio::test]
async fn exit_cut_and_silence() {
    let server = server().await;
    server.arm(Fault::exit(7).on("tools/call"));
    let mut pipes = Pipes::legacy(&server.command()).await;
    pipes.send(&call("counter", json!({}))).await;
    assert_eq!(pipes.line().await, "");
    assert_eq!(pipes.exit_code().await, Some(7));
    assert_eq!(server.executions("counter"), 0);

    server.arm(Fault::exit(0).on("tools/call").executed());
    let mut pipes = Pipes::legacy(&server.command()).await;
    pipes.send(&call("counter", json!({}))).await;
    assert_eq!(pipes.exit_code().await, Some(0));
    assert_eq!(server.executions("counter"), 1);

    server.arm(Fault::cut_after(12).on("tools/call"));
    let mut pipes = Pipes::legacy(&server.command()).await;
    pipes.send(&call("counter", json!({}))).await;
    assert_eq!(pipes.line().await.len(), 12);
    assert_eq!(pipes.exit_code().await, Some(1));

    server.arm(Fault::silent().on("tools/call"));
    let mut pipes = Pipes::legacy(&server.command()).await;
    pipes.send(&call("counter", json!({}))).await;
    assert_eq!(pipes.ask(&request("p", "ping", json!({}))).await["id"], "p");
    assert_eq!(server.executions("counter"), 2);
}

// ST-02
#[tokio::test]
async fn noise_raw_and_replaced_answers() {
    let server = server().await;
    let mut pipes = Pipes::legacy(&server.command()).await;
    server.arm(Fault::noise("Listening on stdio…"));
    pipes.send(&call("echo", json!({}))).await;
    assert_eq!(pipes.line().await, "Listening on stdio…");
    assert!(pipes.line().await.contains("\"id\":3"));
    server.arm(Fault::raw("{\"half\":"));
    pipes.send(&call("echo", json!({}))).await;
    assert_eq!(pipes.line().await, "{\"half\":");
    server.arm(Fault::reply(json!({"odd": 1})));
    assert_eq!(pipes.call("echo", json!({})).await["result"], json!({"odd": 1}));
    server.arm(Fault::error(-32000, "no"));
    assert_eq!(pipes.call("echo", json!({})).await["error"]["code"], -32000);
}

// ST-03
#[tokio::test]
async fn stderr_can_be_flooded() {
    let server = server().await;
    server.arm(Fault::stderr(1_000_000).on("tools/call"));
    let mut pipes = Pipes::legacy(&server.command()).await;
    let mut stderr = pipes.child.stderr.take().unwrap();
    let reading = tokio::spawn(async move {
        let mut bytes = vec![0; 1_000_000];
        stderr.read_exact(&mut bytes).await.unwrap();
    });
    assert_eq!(pipes.call("echo", json!({})).await["id"], 3);
    within_timeout(reading).await.unwrap();
}

#[cfg(unix)]
#[tokio::test]
async fn a_grandchild_holds_stdout_open() {
    let server = server().await;
    let mut pipes = Pipes::legacy(&server.command()).await;
    let pid = server.spawn_grandchild().await;
    assert_eq!(server.grandchildren(), [pid]);
    server.exit(0);
    assert_eq!(pipes.exit_code().await, Some(0));
    let alive = |signal: &str| {
        std::process::Command::new("kill").args([signal, &pid.to_string()]).status().unwrap().success()
    };
    assert!(alive("-0"));
    assert!(alive("-KILL"));
    // Only now stdout ends.
    assert_eq!(pipes.line().await, "");
}

#[tokio::test]
async fn messages_of_the_servers_own_and_closures() {
    let server = testkit::server()
        .tool_fn("twice", json!({"type": "object"}), |args| json!(args["n"].as_i64().unwrap() * 2))
        .stdio()
        .await;
    let mut pipes = Pipes::legacy(&server.command()).await;
    assert_eq!(pipes.call("twice", json!({"n": 4})).await["result"]["content"][0]["text"], "8");
    let asking = tokio::spawn({
        let control = server.control();
        async move { control.request("ping", Value::Null).await }
    });
    let ping: Value = serde_json::from_str(&pipes.line().await).unwrap();
    assert_eq!(ping["method"], "ping");
    pipes.send(&json!({"jsonrpc": "2.0", "id": ping["id"], "result": {}})).await;
    assert_eq!(within_timeout(asking).await.unwrap()["result"], json!({}));
    assert_eq!(server.announce_tools(), 1);
    assert!(pipes.line().await.contains("tools/list_changed"));
}

#[tokio::test]
async fn cancellation_on_stdio() {
    let server = server().await;
    let mut pipes = Pipes::legacy(&server.command()).await;
    pipes.send(&call("slow", json!({"ms": 3_600_000}))).await;
    pipes
        .send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 3}}))
        .await;
    server.wait_until(|s| s.cancellations() == [json!(3)], TEST_TIMEOUT).await;
    assert_eq!(pipes.ask(&request("p", "ping", json!({}))).await["id"], "p");
}

#[tokio::test]
async fn processes_end_with_the_handle() {
    let server = server().await;
    let mut pipes = Pipes::legacy(&server.command()).await;
    drop(server);
    assert_eq!(pipes.exit_code().await, Some(0));
}

#[tokio::test]
async fn runs_a_script_on_its_own() {
    let script = testkit::server()
        .tool("add")
        .resource("file:///a", "alpha")
        .fault(Fault::exit(9).on("tools/call").skip(1))
        .legacy();
    let mut pipes = Pipes::legacy(&testkit::stdio_command(&script)).await;
    let sum = pipes.call("add", json!({"a": 1, "b": 2})).await;
    assert_eq!(sum["result"]["content"][0]["text"], "3");
    pipes.send(&call("add", json!({}))).await;
    assert_eq!(pipes.exit_code().await, Some(9));
}

#[tokio::test]
async fn a_script_can_be_written_by_hand() {
    let json =
        r#"{"tools": ["echo"], "eras": "legacy", "faults": [{"on": "ping", "do": {"noise": "psst"}}]}"#;
    let mut command = testkit::stdio_command(&testkit::server());
    command.args = Vec::new();
    command.env = vec![("TESTKIT_SCRIPT".into(), json.into())];
    let mut pipes = Pipes::legacy(&command).await;
    pipes.send(&request(1, "ping", json!({}))).await;
    assert_eq!(pipes.line().await, "psst");
    drop(pipes.stdin.take());
    assert_eq!(pipes.exit_code().await, Some(0));
}

#[tokio::test]
async fn all_answers_come_before_the_end() {
    let mut pipes = Pipes::start(&testkit::stdio_command(&testkit::server().tool("echo")));
    pipes.send(&initialize("2025-11-25")).await;
    pipes.send(&call("echo", json!({}))).await;
    drop(pipes.stdin.take());
    let mut all = String::new();
    within_timeout(pipes.stdout.read_to_string(&mut all)).await.unwrap();
    assert_eq!(all.lines().count(), 2, "{all}");
}

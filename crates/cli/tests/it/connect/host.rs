//! A host that starts `bowline connect` and exchanges lines of JSON with it.

use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::time::timeout;

use crate::context::Command;

/// Limits every wait.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) struct Host {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    next_id: u64,
}

/// How `bowline connect` ended.
pub(crate) struct HostExit {
    pub(crate) status: ExitStatus,
    pub(crate) stderr: String,
}

impl Host {
    pub(crate) fn start(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn_async().expect("bowline starts");
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take().expect("piped"));
        Self { child, stdin, stdout: BufReader::new(stdout), next_id: 0 }
    }

    /// Starts it and completes the handshake.
    pub(crate) async fn start_initialized(command: Command) -> Self {
        let mut host = Self::start(command);
        let answer = host.initialize().await;
        assert!(answer["result"]["serverInfo"].is_object(), "{answer}");
        host
    }

    pub(crate) async fn initialize(&mut self) -> Value {
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "plain-host", "version": "1"},
        });
        let answer = self.request("initialize", params).await;
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        answer
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id().expect("it runs")
    }

    pub(crate) async fn send(&mut self, message: &Value) {
        let stdin = self.stdin.as_mut().expect("open");
        stdin.write_all(format!("{message}\n").as_bytes()).await.expect("bowline reads");
    }

    /// Sends a request and returns the whole response, skipping notifications.
    pub(crate) async fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.send_request(method, params).await;
        self.wait_for_response(id).await
    }

    /// Sends a request and returns its id.
    pub(crate) async fn send_request(&mut self, method: &str, params: Value) -> u64 {
        self.next_id += 1;
        let id = self.next_id;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
        id
    }

    pub(crate) async fn wait_for_response(&mut self, id: u64) -> Value {
        loop {
            let message = self.next_message().await;
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
        }
    }

    /// Waits for the next message.
    pub(crate) async fn next_message(&mut self) -> Value {
        let mut line = String::new();
        let read =
            timeout(TEST_TIMEOUT, self.stdout.read_line(&mut line)).await.expect("bowline says something");
        assert!(read.expect("a pipe") > 0, "bowline closed its end");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    /// Calls a tool without arguments.
    pub(crate) async fn call(&mut self, tool: &str) -> Value {
        self.request("tools/call", json!({"name": tool, "arguments": {}})).await
    }

    /// Closes stdin and waits for the end.
    pub(crate) async fn close(mut self) -> HostExit {
        drop(self.stdin.take());
        self.wait().await
    }

    /// Closes stdin and keeps reading.
    pub(crate) fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// Disappears like a host that ends: both pipes are closed.
    pub(crate) async fn leave(self) -> ExitStatus {
        let Self { mut child, stdin, stdout, .. } = self;
        drop((stdin, stdout));
        timeout(TEST_TIMEOUT, child.wait()).await.expect("bowline ends").expect("it ends")
    }

    pub(crate) async fn wait(mut self) -> HostExit {
        let end = async {
            let (mut rest, mut stderr) = (String::new(), String::new());
            let mut errors = self.child.stderr.take().expect("piped");
            let (said, told, status) = tokio::join!(
                self.stdout.read_to_string(&mut rest),
                errors.read_to_string(&mut stderr),
                self.child.wait(),
            );
            said.expect("text");
            told.expect("text");
            // The rest of stdout must be protocol messages, too.
            for line in rest.lines() {
                serde_json::from_str::<Value>(line).unwrap_or_else(|error| panic!("{error}: {line}"));
            }
            HostExit { status: status.expect("it ends"), stderr }
        };
        timeout(TEST_TIMEOUT, end).await.expect("bowline ends")
    }
}

pub(crate) fn result_text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text in {answer}"))
}

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
        self.send_line(&message.to_string()).await;
    }

    /// Sends a line as it is.
    pub(crate) async fn send_line(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("open");
        stdin.write_all(format!("{line}\n").as_bytes()).await.expect("bowline reads");
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

    /// Opens a subscription of 2026-07-28 and returns its id, once it is acknowledged.
    pub(crate) async fn listen(&mut self, filter: Value) -> u64 {
        let id = self.send_request("subscriptions/listen", with_meta(json!({"notifications": filter}))).await;
        let acknowledged = self.next_message().await;
        assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged", "{acknowledged}");
        assert_eq!(acknowledged["params"]["_meta"][SUBSCRIPTION], id);
        id
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

/// The member of `_meta` that names the subscription which a notification belongs to.
pub(crate) const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// The params with what each request of a host of 2026-07-28 says about it.
pub(crate) fn with_meta(mut params: Value) -> Value {
    let meta = &mut params["_meta"];
    meta["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
    meta["io.modelcontextprotocol/clientCapabilities"] = json!({"elicitation": {"form": {}}});
    meta["io.modelcontextprotocol/clientInfo"] = json!({"name": "modern-host", "version": "1"});
    params
}

/// The params of a call of a host of 2026-07-28.
pub(crate) fn modern_call(tool: &str, arguments: Value) -> Value {
    with_meta(json!({"name": tool, "arguments": arguments}))
}

/// The params of the call of a tool without arguments that answers what was asked with a city.
pub(crate) fn retry_with_city(tool: &str, asked: &Value) -> Value {
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let key = asked["result"]["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    let mut retry = modern_call(tool, json!({}));
    retry["requestState"] = asked["result"]["requestState"].clone();
    retry["inputResponses"] = json!({key: {"action": "accept", "content": {"city": "Bergen"}}});
    retry
}

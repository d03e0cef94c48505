//! A host that never reads the stderr of `bowline connect` is served anyway.

use std::io::{ErrorKind, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::Duration;

use bowline_testkit as testkit;
use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::time::timeout;

use crate::context::{Context, to_pid};

const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Returns both ends of a full socket: a write to the second blocks forever.
fn full_socket_pair() -> (UnixStream, UnixStream) {
    let (reader, mut writer) = UnixStream::pair().unwrap();
    writer.set_nonblocking(true).unwrap();
    let error = loop {
        if let Err(error) = writer.write(b"x") {
            break error;
        }
    };
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    writer.set_nonblocking(false).unwrap();
    (reader, writer)
}

struct HostPipes {
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl HostPipes {
    async fn send(&mut self, message: Value) {
        self.stdin.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    /// Sends a request and returns its response, skipping other messages.
    async fn request(&mut self, id: u32, method: &str, params: Value) -> Value {
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
        loop {
            let mut line = String::new();
            let read = timeout(TEST_TIMEOUT, self.stdout.read_line(&mut line)).await;
            assert!(read.unwrap_or_else(|_| panic!("no answer to {method}")).unwrap() > 0, "closed");
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == id {
                return message;
            }
        }
    }
}

#[tokio::test]
async fn a_host_that_does_not_read_stderr_is_served() {
    for flags in [&[][..], &["--debug"]] {
        let context = Context::new();
        let server = testkit::server().legacy().tool("counter").run().await;
        let entry = format!("[servers.far]\nurl = '{}'\nreconnect_wait = '100ms'\n", server.url());
        context.user_config(&entry);
        let (_unread, stderr) = full_socket_pair();
        let mut command = context.bowline([&["connect", "far"], flags].concat());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(OwnedFd::from(stderr));
        let mut child = command.spawn_async().unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut host = HostPipes { stdin, stdout: BufReader::new(stdout) };
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "plain-host", "version": "1"},
        });
        let answer = host.request(1, "initialize", params).await;
        assert!(answer["result"]["serverInfo"].is_object(), "{answer}");
        host.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        // The lost server causes a note on stderr.
        server.stop().await;
        for id in 2..4 {
            let answer = host.request(id, "tools/call", json!({"name": "counter", "arguments": {}})).await;
            assert_eq!(answer["error"]["code"], -31050, "{answer}");
        }
        assert_eq!(host.request(4, "ping", json!({})).await["result"], json!({}));
        kill_process(to_pid(child.id().unwrap()), Signal::TERM).unwrap();
        let status = timeout(TEST_TIMEOUT, child.wait()).await.expect("SIGTERM is obeyed").unwrap();
        assert_eq!(status.code(), Some(0));
    }
}

/// Blocked error output does not keep the process from ending.
#[tokio::test]
async fn a_failure_with_unread_stderr_ends_the_process() {
    let context = Context::new();
    let (_unread, stderr) = full_socket_pair();
    let mut command = context.bowline(["connect", "nowhere"]);
    command.stderr(OwnedFd::from(stderr));
    let mut child = command.spawn_async().unwrap();
    let status = timeout(TEST_TIMEOUT, child.wait()).await.expect("it ends").unwrap();
    assert_eq!(status.code(), Some(2));
}

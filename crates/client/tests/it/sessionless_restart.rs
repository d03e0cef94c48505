//! A server without session ids that wants a handshake again after a restart.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bowline::config::Protocol;
use bowline::{Client, Server};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// A server that hands out no session id, and refuses everything until `initialize`.
#[derive(Clone)]
struct SessionlessServer {
    state: Arc<State>,
    /// The status and the error of a request before `initialize`. An id of `$id` is that of the request.
    refusal: (u16, Value),
}

#[derive(Default)]
struct State {
    is_initialized: AtomicBool,
    handshakes: AtomicU64,
    executions: AtomicU64,
}

impl SessionlessServer {
    /// Starts it, and returns its URL.
    async fn start(refusal: (u16, Value)) -> (Self, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let server = Self { state: Arc::default(), refusal };
        let accepting = server.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let server = accepting.clone();
                tokio::spawn(async move { server.serve(stream).await });
            }
        });
        (server, url)
    }

    fn restart(&self) {
        self.state.is_initialized.store(false, Ordering::SeqCst);
    }

    /// How many handshakes and executions there were.
    fn counts(&self) -> (u64, u64) {
        (self.state.handshakes.load(Ordering::SeqCst), self.state.executions.load(Ordering::SeqCst))
    }

    /// Serves one request, and closes the connection.
    async fn serve(&self, mut stream: TcpStream) -> Option<()> {
        let mut received = Vec::new();
        let (head, length) = loop {
            stream.read_buf(&mut received).await.ok().filter(|count| *count > 0)?;
            let text = String::from_utf8_lossy(&received).into_owned();
            if let Some((head, _)) = text.split_once("\r\n\r\n") {
                let head = head.to_ascii_lowercase();
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                break (head.clone(), length.and_then(|length| length.parse().ok()).unwrap_or(0));
            }
        };
        let start = head.len() + 4;
        while received.len() < start + length {
            stream.read_buf(&mut received).await.ok().filter(|count| *count > 0)?;
        }
        let (status, body) = match serde_json::from_slice(&received[start..]) {
            Ok(message) if head.starts_with("post") => self.answer(&message),
            _ => (405, Value::Null),
        };
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let reply = format!(
            "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(reply.as_bytes()).await.ok()
    }

    fn answer(&self, message: &Value) -> (u16, Value) {
        let result = |result: Value| (200, json!({"jsonrpc": "2.0", "id": message["id"], "result": result}));
        let method = message["method"].as_str().unwrap_or_default();
        if method == "initialize" {
            self.state.is_initialized.store(true, Ordering::SeqCst);
            self.state.handshakes.fetch_add(1, Ordering::SeqCst);
            let info = json!({"name": "sessionless", "version": "1"});
            let offer =
                json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info});
            return result(offer);
        }
        if !self.state.is_initialized.load(Ordering::SeqCst) {
            let (status, mut refusal) = self.refusal.clone();
            if refusal["id"] == "$id" {
                refusal["id"] = message["id"].clone();
            }
            return (status, refusal);
        }
        match method {
            "tools/list" => result(json!({"tools": [{"name": "count", "inputSchema": {"type": "object"}}]})),
            "tools/call" => {
                let count = self.state.executions.fetch_add(1, Ordering::SeqCst) + 1;
                result(json!({"content": [{"type": "text", "text": count.to_string()}]}))
            }
            _ if message.get("id").is_some() => result(json!({})),
            _ => (202, Value::Null),
        }
    }
}

/// HL-03: the handshake is made again in the call that finds it missing, and the call is executed once.
#[tokio::test]
async fn hl_03_a_server_without_sessions_is_initialized_again_in_the_same_call() {
    let refusal = |id: Value, code: i64, message: &str| json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}});
    for (status, refusal) in [
        (400, refusal(Value::Null, -32000, "Bad Request: Server not initialized")),
        (400, refusal(json!("$id"), -32002, "Server not initialized")),
        (200, refusal(json!("$id"), -32002, "Server not initialized")),
        (200, refusal(json!("$id"), -32602, "Received request before initialization was complete")),
    ] {
        let (server, url) = SessionlessServer::start((status, refusal.clone())).await;
        let entry = Server::http("s", url).build().unwrap().with_protocol(Protocol::Legacy);
        let client = Client::connect(entry).await.unwrap();
        assert_eq!(client.call_tool("count", &json!({})).await.unwrap().text(), "1");
        for restarts in 1..=2 {
            server.restart();
            let answer = client.call_tool("count", &json!({})).await;
            let answer = answer.unwrap_or_else(|error| panic!("{status} {refusal}: {error}"));
            assert_eq!(answer.text(), (restarts + 1).to_string());
            assert_eq!(server.counts(), (restarts + 1, restarts + 1), "{status} {refusal}");
        }
        client.close().await;
    }
}

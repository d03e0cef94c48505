//! A plain client: one connection per request unless told otherwise, without protocol knowledge
//! beyond the headers it is told to send.

use std::net::SocketAddr;
#[cfg(target_os = "linux")]
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;
#[cfg(target_os = "linux")]
use tokio::{
    net::{TcpListener, TcpSocket},
    task::JoinSet,
};

pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs a future that must complete within the timeout.
pub(crate) async fn within_timeout<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(TEST_TIMEOUT, future).await.expect("it ends soon")
}

pub(crate) struct Client {
    pub(crate) addr: SocketAddr,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
}

/// A complete response, or as much of it as arrived.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: hyper::HeaderMap,
    pub(crate) body: Vec<u8>,
    /// Whether the body broke off.
    pub(crate) broken: bool,
}

impl Client {
    pub(crate) fn new(addr: SocketAddr) -> Self {
        Self { addr, path: "/mcp".into(), headers: Vec::new() }
    }

    /// Returns a client that has completed the handshake.
    pub(crate) async fn legacy(addr: SocketAddr) -> Self {
        let mut client = Self::new(addr);
        let reply = client.post(&initialize("2025-11-25")).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        let version = reply.last()["result"]["protocolVersion"].as_str().unwrap().to_owned();
        client = client.with_header("mcp-protocol-version", &version);
        if let Some(session) = reply.header("mcp-session-id") {
            client = client.with_header("mcp-session-id", session);
        }
        let reply = client.post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        assert_eq!(reply.status, 202);
        client
    }

    pub(crate) fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    pub(crate) fn session(&self) -> &str {
        &self.headers.iter().find(|(name, _)| name == "mcp-session-id").unwrap().1
    }

    pub(crate) async fn connect(&self) -> std::io::Result<SendRequest<Full<Bytes>>> {
        let stream = TcpStream::connect(self.addr).await?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Ok(sender)
    }

    pub(crate) fn request(&self, method: &str, body: Vec<u8>) -> Request<Full<Bytes>> {
        let mut request = Request::builder().method(method).uri(&self.path).header("host", "localhost");
        let has = |name: &str| self.headers.iter().any(|(n, _)| n == name);
        if !has("accept") {
            request = request.header("accept", "application/json, text/event-stream");
        }
        if method == "POST" && !has("content-type") {
            request = request.header("content-type", "application/json");
        }
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        request.body(Full::from(body)).unwrap()
    }

    /// Sends a request, and returns as soon as the head of the response is there.
    pub(crate) async fn open(&self, method: &str, body: Vec<u8>) -> Result<Response<Incoming>, String> {
        let mut sender = self.connect().await.map_err(|e| format!("{e}"))?;
        sender.send_request(self.request(method, body)).await.map_err(|e| {
            format!("{e}: {}", std::error::Error::source(&e).map_or_else(String::new, ToString::to_string))
        })
    }

    pub(crate) async fn try_send(&self, method: &str, body: Vec<u8>) -> Result<Reply, String> {
        let response = within_timeout(self.open(method, body)).await?;
        Ok(within_timeout(read_reply(response)).await)
    }

    pub(crate) async fn post(&self, message: &Value) -> Reply {
        self.try_send("POST", message.to_string().into_bytes()).await.unwrap()
    }

    pub(crate) async fn try_post(&self, message: &Value) -> Result<Reply, String> {
        self.try_send("POST", message.to_string().into_bytes()).await
    }

    /// Returns the result of a request.
    pub(crate) async fn result(&self, method: &str, params: Value) -> Value {
        let reply = self.post(&request(7, method, params)).await;
        let message = reply.last();
        assert!(message.get("result").is_some(), "{method}: {} {message}", reply.status);
        message["result"].clone()
    }

    /// Returns the text a tool returned.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> String {
        let result = self.result("tools/call", json!({"name": tool, "arguments": arguments})).await;
        result["content"][0]["text"].as_str().unwrap().to_owned()
    }
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn is_sse(&self) -> bool {
        self.header("content-type") == Some("text/event-stream")
    }

    pub(crate) fn message(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.text()))
    }

    /// Returns the messages of a JSON or SSE response.
    pub(crate) fn messages(&self) -> Vec<Value> {
        if self.is_sse() { messages(&self.text()) } else { vec![self.message()] }
    }

    pub(crate) fn last(&self) -> Value {
        self.messages().pop().unwrap_or(Value::Null)
    }
}

pub(crate) async fn read_reply(response: Response<Incoming>) -> Reply {
    let (head, mut incoming) = response.into_parts();
    let mut reply =
        Reply { status: head.status.as_u16(), headers: head.headers, body: Vec::new(), broken: false };
    while let Some(frame) = incoming.frame().await {
        let Ok(frame) = frame else {
            reply.broken = true;
            break;
        };
        reply.body.extend_from_slice(&frame.into_data().unwrap_or_default());
    }
    reply
}

/// Returns the next chunk of a body as text; `None` at its end or break.
pub(crate) async fn next_chunk(body: &mut Incoming) -> Option<String> {
    let frame = within_timeout(body.frame()).await?.ok()?;
    Some(String::from_utf8_lossy(&frame.into_data().unwrap_or_default()).into_owned())
}

/// The messages of an event stream, one by one.
pub(crate) struct Events {
    body: Incoming,
    read: std::collections::VecDeque<Value>,
}

impl Events {
    pub(crate) async fn open(client: &Client, method: &str, message: &Value) -> Self {
        let body = if message.is_null() { Vec::new() } else { message.to_string().into_bytes() };
        let response = within_timeout(client.open(method, body)).await.unwrap();
        assert_eq!(response.headers()["content-type"], "text/event-stream", "{response:?}");
        Self { body: response.into_body(), read: std::collections::VecDeque::new() }
    }

    /// Returns the next message; null at the end.
    pub(crate) async fn next(&mut self) -> Value {
        while self.read.is_empty() {
            match next_chunk(&mut self.body).await {
                Some(text) => self.read.extend(messages(&text)),
                None => return Value::Null,
            }
        }
        self.read.pop_front().unwrap_or_default()
    }
}

pub(crate) fn messages(events: &str) -> Vec<Value> {
    events
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|data| serde_json::from_str(data).unwrap())
        .collect()
}

pub(crate) fn request(id: impl Into<Value>, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params})
}

pub(crate) fn initialize(version: &str) -> Value {
    request(
        0,
        "initialize",
        json!({
            "protocolVersion": version,
            "capabilities": {"roots": {}},
            "clientInfo": {"name": "plain", "version": "1"},
        }),
    )
}

/// Returns the `params` of a modern request, with `_meta`.
pub(crate) fn modern_params(mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
        "io.modelcontextprotocol/clientInfo": {"name": "plain", "version": "1"},
    });
    params
}

/// Returns a client with the headers of one modern request.
pub(crate) fn modern_client(addr: SocketAddr, method: &str, name: Option<&str>) -> Client {
    let client =
        Client::new(addr).with_header("mcp-protocol-version", "2026-07-28").with_header("mcp-method", method);
    match name {
        Some(name) => client.with_header("mcp-name", name),
        None => client,
    }
}

/// Contenders for ports on the machine: outgoing connections that come and go, and a thread that
/// binds one port whenever it is free, as such a connection could.
#[cfg(target_os = "linux")]
pub(crate) struct PortContenders {
    connections: JoinSet<()>,
    over: Arc<AtomicBool>,
    taker: std::thread::JoinHandle<usize>,
}

#[cfg(target_os = "linux")]
impl PortContenders {
    pub(crate) async fn contending_for(port: SocketAddr) -> Self {
        let elsewhere = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = elsewhere.local_addr().unwrap();
        let mut connections = JoinSet::new();
        connections.spawn(async move {
            loop {
                elsewhere.accept().await.unwrap();
            }
        });
        for _ in 0..16 {
            connections.spawn(async move {
                loop {
                    let stream = TcpStream::connect(target).await.unwrap();
                    assert_ne!(stream.local_addr().unwrap(), port);
                    // A reset frees the local port at once.
                    stream.set_zero_linger().unwrap();
                }
            });
        }
        let over = Arc::new(AtomicBool::new(false));
        let taker = std::thread::spawn({
            let over = over.clone();
            move || {
                let mut taken = 0;
                while !over.load(Ordering::Relaxed) {
                    taken += usize::from(TcpSocket::new_v4().unwrap().bind(port).is_ok());
                }
                taken
            }
        });
        Self { connections, over, taker }
    }

    /// Stops the contenders, and returns how often they got the port.
    pub(crate) fn times_taken(mut self) -> usize {
        self.over.store(true, Ordering::Relaxed);
        while let Some(ended) = self.connections.try_join_next() {
            ended.unwrap();
        }
        self.taker.join().unwrap()
    }
}

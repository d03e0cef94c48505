//! A gateway in front of hosts over HTTP that open no stream of their own.

use std::net::SocketAddr;
use std::time::Duration;

use bowline_gateway::{Gateway, HttpListener, HttpSettings};
use bowline_testkit as testkit;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::{at, gateway};
use crate::support::TEST_TIMEOUT;

/// A gateway on a socket, and one session with it.
struct HttpHost {
    session: RawSession,
    stop: Option<oneshot::Sender<()>>,
    serving: JoinHandle<()>,
}

/// A session of a host that does nothing by itself: one whose session is gone fails.
#[derive(Clone, Debug)]
pub(super) struct RawSession {
    pub(super) endpoint: RawEndpoint,
    pub(super) id: String,
}

/// A listener, to which messages are posted as they are.
#[derive(Clone, Copy, Debug)]
pub(super) struct RawEndpoint {
    pub(super) address: SocketAddr,
}

/// A response that is being read.
pub(super) struct Reply {
    pub(super) status: String,
    headers: Vec<String>,
    body: BufReader<TcpStream>,
}

/// A gateway on a port of this machine.
pub(super) struct ServedGateway {
    pub(super) address: SocketAddr,
    /// Stops it.
    pub(super) stop: oneshot::Sender<()>,
    /// Ends when it has ended in order.
    pub(super) serving: JoinHandle<()>,
}

/// Serves a gateway on a port of this machine.
pub(super) async fn serve_on_loopback(gateway: &Gateway, drain_timeout: Duration) -> ServedGateway {
    serve_with_settings(gateway, drain_timeout, HttpSettings::new()).await
}

/// Serves a gateway on a port of this machine with these settings.
pub(super) async fn serve_with_settings(
    gateway: &Gateway,
    drain_timeout: Duration,
    settings: HttpSettings,
) -> ServedGateway {
    let socket = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let listener = HttpListener::tcp(socket, settings);
    let address = listener.local_addr().expect("an address");
    let (stop, stopped) = oneshot::channel::<()>();
    let gateway = gateway.clone();
    let serving = tokio::spawn(async move {
        let stopped = async move {
            let _ = stopped.await;
        };
        gateway.serve_hosts(listener, drain_timeout, stopped).await;
    });
    ServedGateway { address, stop, serving }
}

impl HttpHost {
    async fn start(gateway: &Gateway, capabilities: Value) -> Self {
        let ServedGateway { address, stop, serving } = serve_on_loopback(gateway, TEST_TIMEOUT).await;
        let session = RawSession::begin(address, capabilities).await;
        Self { session, stop: Some(stop), serving }
    }

    async fn post(&self, message: &Value) -> Reply {
        self.session.post(message).await
    }

    /// Stops the gateway, which ends in order.
    async fn stop(mut self) {
        let _ = self.stop.take().map(|stop| stop.send(()));
        timeout(TEST_TIMEOUT, self.serving).await.expect("it ends").expect("no panic");
    }
}

impl RawSession {
    /// Begins a session of a host with these capabilities.
    pub(super) async fn begin(address: SocketAddr, capabilities: Value) -> Self {
        let endpoint = RawEndpoint { address };
        let params = json!({
            "protocolVersion": "2025-11-25", "capabilities": capabilities,
            "clientInfo": {"name": "http-host", "version": "1"},
        });
        let reply = endpoint.post(&request(0, "initialize", params), &[]).await;
        assert_eq!(reply.status, "HTTP/1.1 200 OK\r\n");
        let id = reply.headers.iter().find_map(|header| header.strip_prefix("mcp-session-id: "));
        let session = Self { endpoint, id: id.expect("a session").to_owned() };
        let ready = session.post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        assert_eq!(ready.status, "HTTP/1.1 202 Accepted\r\n");
        session
    }

    /// Returns a host with this session at another address.
    pub(super) fn at(&self, address: SocketAddr) -> Self {
        Self { endpoint: RawEndpoint { address }, id: self.id.clone() }
    }

    pub(super) async fn post(&self, message: &Value) -> Reply {
        self.endpoint.post(message, &[("mcp-session-id", &self.id)]).await
    }

    /// Calls a tool, and returns the response as it begins.
    pub(super) async fn begin_call(&self, id: u64, tool: &str, arguments: Value) -> Reply {
        self.post(&request(id, "tools/call", json!({"name": tool, "arguments": arguments}))).await
    }

    /// Calls a tool, and returns the whole response.
    pub(super) async fn call(&self, id: u64, tool: &str, arguments: Value) -> Value {
        self.begin_call(id, tool, arguments).await.answer().await
    }

    /// Comes back for what follows this event.
    pub(super) async fn resume(&self, last_event: &str) -> Reply {
        let headers = [("mcp-session-id", &*self.id), ("last-event-id", last_event)];
        self.endpoint.send(("GET", "/mcp"), "", &headers).await
    }
}

impl RawEndpoint {
    /// Posts a message on its own connection, with these headers in addition to the usual ones.
    pub(super) async fn post(&self, message: &Value, headers: &[(&str, &str)]) -> Reply {
        self.post_to("/mcp", message, headers).await
    }

    /// Posts a message to this path.
    pub(super) async fn post_to(&self, path: &str, message: &Value, headers: &[(&str, &str)]) -> Reply {
        self.send(("POST", path), &message.to_string(), headers).await
    }

    async fn send(&self, (verb, path): (&str, &str), body: &str, headers: &[(&str, &str)]) -> Reply {
        let headers: Vec<String> =
            headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let headers = headers.concat();
        let head = format!(
            "{verb} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-type: application/json\r\n\
             accept: application/json, text/event-stream\r\n{headers}content-length: {}\r\n\r\n{body}",
            self.address,
            body.len(),
        );
        let mut stream = TcpStream::connect(self.address).await.expect("it listens");
        stream.write_all(head.as_bytes()).await.expect("it reads");
        let mut body = BufReader::new(stream);
        let mut status = String::new();
        timeout(TEST_TIMEOUT, body.read_line(&mut status)).await.expect("in time").expect("text");
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            timeout(TEST_TIMEOUT, body.read_line(&mut line)).await.expect("in time").expect("text");
            match line.trim_end() {
                "" => break,
                header => headers.push(header.to_owned()),
            }
        }
        Reply { status, headers, body }
    }
}

impl Reply {
    /// The next message of an event stream.
    pub(super) async fn event(&mut self) -> Value {
        serde_json::from_str(&self.value_of("data: ").await).expect("JSON")
    }

    /// The id of the next event.
    pub(super) async fn event_id(&mut self) -> String {
        self.value_of("id: ").await
    }

    /// The rest of the next line that begins in this way.
    async fn value_of(&mut self, start: &str) -> String {
        loop {
            let line = self.line().await.expect("the stream goes on");
            if let Some(value) = line.strip_prefix(start) {
                return value.to_owned();
            }
        }
    }

    /// The next line of the body. `None` at its end.
    async fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = timeout(TEST_TIMEOUT, self.body.read_line(&mut line)).await.expect("in time");
        (read.expect("text") > 0).then(|| line.trim_end().to_owned())
    }

    /// The response to a request, which is the message of the body or of its last event.
    pub(super) async fn answer(mut self) -> Value {
        if !self.headers.iter().any(|header| header == "content-type: text/event-stream") {
            return self.message().await;
        }
        loop {
            let message = self.event().await;
            if message.get("method").is_none() {
                while let Some(line) = self.line().await {
                    assert!(!line.starts_with("data: "), "more after the response: {line}");
                }
                return message;
            }
        }
    }

    /// The message of a response that is no event stream.
    pub(super) async fn message(mut self) -> Value {
        let mut text = String::new();
        timeout(TEST_TIMEOUT, self.body.read_to_string(&mut text)).await.expect("in time").expect("text");
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }
}

fn request(id: u64, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// PR-02: progress is on the stream of the call, before its response.
#[tokio::test]
async fn pr_02_progress_is_on_the_stream_of_its_call() {
    let server = testkit::server().legacy().tool("slow").run().await;
    let host = HttpHost::start(&gateway([at("one", &server)]), json!({})).await;
    let params = json!({"name": "slow", "arguments": {"ms": 20, "steps": 3}, "_meta": {"progressToken": 7}});
    let mut reply = host.post(&request(1, "tools/call", params)).await;
    assert!(reply.headers.contains(&"content-type: text/event-stream".to_owned()), "{:?}", reply.headers);
    for _ in 0..3 {
        let progress = reply.event().await;
        assert_eq!(
            (&progress["method"], &progress["params"]["progressToken"]),
            (&json!("notifications/progress"), &json!(7))
        );
    }
    loop {
        let message = reply.event().await;
        if message["id"] == 1 {
            assert!(message["result"].is_object(), "{message}");
            break;
        }
        assert_eq!(message["method"], "notifications/progress");
    }
    // Without a token there is nothing to say before the response.
    let quiet = host.post(&request(2, "tools/call", json!({"name": "slow", "arguments": {"ms": 1}}))).await;
    assert!(quiet.headers.contains(&"content-type: application/json".to_owned()), "{:?}", quiet.headers);
    assert!(quiet.message().await["result"].is_object());
    host.stop().await;
}

/// GW-15: a question is on the stream of the call that caused it.
#[tokio::test]
async fn gw_15_a_question_is_on_the_stream_of_its_call() {
    for script in [testkit::server().legacy(), testkit::server().modern()] {
        let server = script.tool("ask").run().await;
        let host = HttpHost::start(&gateway([at("one", &server)]), json!({"roots": {}})).await;
        let call = json!({"name": "ask", "arguments": {"method": "roots/list", "params": {}}});
        let mut reply = host.post(&request(1, "tools/call", call)).await;
        let question = reply.event().await;
        assert_eq!(question["method"], "roots/list");
        let roots = json!({"roots": [{"uri": "file:///a"}]});
        let answered = host.post(&json!({"jsonrpc": "2.0", "id": question["id"], "result": roots})).await;
        assert_eq!(answered.status, "HTTP/1.1 202 Accepted\r\n");
        let answer = reply.event().await;
        assert_eq!(answer["id"], 1);
        assert!(
            answer["result"]["content"][0]["text"].as_str().expect("a text").contains("file:///a"),
            "{answer}"
        );
        host.stop().await;
        assert_eq!(server.sessions().len(), 0, "its session was ended");
    }
}

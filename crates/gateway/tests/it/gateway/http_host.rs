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
    endpoint: RawEndpoint,
    session: Option<String>,
    stop: Option<oneshot::Sender<()>>,
    serving: JoinHandle<()>,
}

/// A listener, to which messages are posted as they are.
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
        let mut host = Self { endpoint: RawEndpoint { address }, session: None, stop: Some(stop), serving };
        let params = json!({
            "protocolVersion": "2025-11-25", "capabilities": capabilities,
            "clientInfo": {"name": "http-host", "version": "1"},
        });
        let reply = host.post(&request(0, "initialize", params)).await;
        assert_eq!(reply.status, "HTTP/1.1 200 OK\r\n");
        let id = reply.headers.iter().find_map(|header| header.strip_prefix("mcp-session-id: "));
        host.session = Some(id.expect("a session").to_owned());
        let ready = host.post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        assert_eq!(ready.status, "HTTP/1.1 202 Accepted\r\n");
        host
    }

    async fn post(&self, message: &Value) -> Reply {
        let session = self.session.as_ref().map(|id| ("mcp-session-id", id.as_str()));
        self.endpoint.post(message, session.as_slice()).await
    }

    /// Stops the gateway, which ends in order.
    async fn stop(mut self) {
        let _ = self.stop.take().map(|stop| stop.send(()));
        timeout(TEST_TIMEOUT, self.serving).await.expect("it ends").expect("no panic");
    }
}

impl RawEndpoint {
    /// Posts a message on its own connection, with these headers in addition to the usual ones.
    pub(super) async fn post(&self, message: &Value, headers: &[(&str, &str)]) -> Reply {
        self.post_to("/mcp", message, headers).await
    }

    /// Posts a message to this path.
    pub(super) async fn post_to(&self, path: &str, message: &Value, headers: &[(&str, &str)]) -> Reply {
        let body = message.to_string();
        let headers: Vec<String> =
            headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let headers = headers.concat();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-type: application/json\r\n\
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
        loop {
            let mut line = String::new();
            let read = timeout(TEST_TIMEOUT, self.body.read_line(&mut line)).await.expect("in time");
            assert!(read.expect("text") > 0, "the stream has ended");
            if let Some(data) = line.strip_prefix("data: ") {
                return serde_json::from_str(data).expect("JSON");
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

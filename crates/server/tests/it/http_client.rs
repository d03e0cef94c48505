//! A plain HTTP client for tests: a connection per request, and nothing added to what is asked for.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bowline_proto::frame::sse;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{HeaderMap, Request};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio::time::timeout;

/// Timeout for anything that should happen.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Waits for something that should happen.
pub(crate) async fn soon<F: Future>(what: F) -> F::Output {
    timeout(TEST_TIMEOUT, what).await.expect("it happens in time")
}

/// Sends requests to one listener, with some headers on each.
#[derive(Clone)]
pub(crate) struct HttpClient {
    addr: SocketAddr,
    headers: Vec<(String, String)>,
}

/// A response whose body was not read yet. Dropping it closes its connection.
pub(crate) struct TestReply {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    body: Incoming,
    connection: AbortHandle,
}

/// The events of a response.
pub(crate) struct EventReader {
    reply: TestReply,
    decoder: sse::Decoder,
    comments: VecDeque<String>,
}

/// An event with an id, and its message.
#[derive(Debug, PartialEq)]
pub(crate) struct TestEvent {
    pub(crate) id: String,
    /// Null if the event has no data.
    pub(crate) message: Value,
}

impl HttpClient {
    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    pub(crate) fn new(addr: SocketAddr) -> Self {
        Self { addr, headers: Vec::new() }
    }

    /// A client with the headers of this one, for another listener.
    pub(crate) fn at(&self, addr: SocketAddr) -> Self {
        Self { addr, headers: self.headers.clone() }
    }

    /// Adds a header to each request, in place of one with the same name.
    pub(crate) fn with(&self, name: &str, value: &str) -> Self {
        let mut client = self.without(name);
        client.headers.push((name.to_owned(), value.to_owned()));
        client
    }

    pub(crate) fn without(&self, name: &str) -> Self {
        let mut client = self.clone();
        client.headers.retain(|(other, _)| other != name);
        client
    }

    pub(crate) async fn post(&self, message: &Value) -> TestReply {
        self.post_text(&message.to_string()).await
    }

    pub(crate) async fn post_text(&self, body: &str) -> TestReply {
        self.send("POST", "/mcp", body).await
    }

    pub(crate) async fn get(&self) -> TestReply {
        self.send("GET", "/mcp", "").await
    }

    pub(crate) async fn delete(&self) -> TestReply {
        self.send("DELETE", "/mcp", "").await
    }

    pub(crate) async fn send(&self, method: &str, path: &str, body: &str) -> TestReply {
        let stream = soon(TcpStream::connect(self.addr)).await.expect("the listener accepts");
        self.send_on(stream, method, path, body).await
    }

    /// Sends a request on its own connection.
    pub(crate) async fn send_on(
        &self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        method: &str,
        path: &str,
        body: &str,
    ) -> TestReply {
        let mut request = Request::builder().method(method).uri(path);
        if !self.headers.iter().any(|(name, _)| name == "host") {
            request = request.header("host", "localhost");
        }
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(Bytes::from(body.to_owned()))).expect("a valid request");
        let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream));
        let (mut sender, connection) = soon(handshake).await.expect("a new connection");
        let connection = tokio::spawn(connection).abort_handle();
        let reply = soon(sender.send_request(request)).await.expect("a response");
        let (head, body) = reply.into_parts();
        TestReply { status: head.status.as_u16(), headers: head.headers, body, connection }
    }
}

impl TestReply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().expect("a visible value"))
    }

    /// The whole body.
    pub(crate) async fn text(mut self) -> String {
        let mut text = Vec::new();
        while let Some(frame) = soon(self.body.frame()).await {
            text.extend(frame.expect("a whole body").into_data().expect("no trailers"));
        }
        String::from_utf8(text).expect("UTF-8")
    }

    pub(crate) async fn json(self) -> Value {
        let text = self.text().await;
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// Checks status and media type, and returns the message.
    pub(crate) async fn expect_json(self, status: u16) -> Value {
        assert_eq!(self.status, status);
        assert_eq!(self.header("content-type"), Some("application/json"));
        self.json().await
    }

    /// Checks that it has no body.
    pub(crate) async fn expect_empty(self, status: u16) {
        assert_eq!((self.status, self.header("content-type")), (status, None));
        assert_eq!(self.text().await, "");
    }

    /// Checks that it is an event stream.
    pub(crate) fn expect_events(self) -> EventReader {
        assert_eq!(self.status, 200);
        assert_eq!(self.header("content-type"), Some("text/event-stream"));
        assert_eq!(self.header("cache-control"), Some("no-cache, no-transform"));
        assert_eq!(self.header("x-accel-buffering"), Some("no"));
        EventReader { reply: self, decoder: sse::Decoder::new(), comments: VecDeque::new() }
    }
}

impl Drop for TestReply {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

impl EventReader {
    /// The next event. `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<TestEvent> {
        // Comments do not count as something that happens.
        soon(self.read_event()).await
    }

    async fn read_event(&mut self) -> Option<TestEvent> {
        loop {
            if let Some(event) = self.decoder.next() {
                let event = event.expect("a small event");
                let id: Option<Arc<str>> = event.id;
                let message = match &event.data[..] {
                    b"" => Value::Null,
                    data => serde_json::from_slice(data).expect("a message"),
                };
                return Some(TestEvent { id: id.expect("each event has an id").to_string(), message });
            }
            self.read_chunk().await?;
        }
    }

    /// The data of the next event, which must be named `endpoint`.
    pub(crate) async fn endpoint(&mut self) -> String {
        loop {
            if let Some(event) = self.decoder.next() {
                let event = event.expect("a small event");
                assert_eq!(event.name.as_deref(), Some("endpoint"));
                return String::from_utf8(event.data.to_vec()).expect("UTF-8");
            }
            self.read_chunk().await.expect("the stream goes on");
        }
    }

    /// The message of the next event.
    pub(crate) async fn message(&mut self) -> Value {
        self.next().await.expect("the stream goes on").message
    }

    /// The next comment.
    pub(crate) async fn comment(&mut self) -> String {
        loop {
            if let Some(comment) = self.comments.pop_front() {
                return comment;
            }
            self.read_chunk().await.expect("the stream goes on");
        }
    }

    /// The rest of the stream as text.
    pub(crate) async fn text(self) -> String {
        self.reply.text().await
    }

    /// Waits for the end, and checks that nothing comes before.
    pub(crate) async fn expect_end(mut self) {
        assert_eq!(self.next().await, None);
    }

    async fn read_chunk(&mut self) -> Option<()> {
        let frame = soon(self.reply.body.frame()).await?.ok()?;
        let chunk = frame.into_data().expect("no trailers");
        if chunk.starts_with(b":") {
            self.comments.push_back(String::from_utf8(chunk.to_vec()).expect("UTF-8"));
        }
        self.decoder.push(chunk);
        Some(())
    }
}

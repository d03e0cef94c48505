//! A host over HTTP: one session of 2025-11-25, and as many connections as it has calls in flight.

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use memchr::memmem;
use tokio::net::TcpStream;

use super::messages::{Tool, call_body};
use crate::client::floor_http::{INITIALIZE, INITIALIZED, TOOLS_LIST};
use crate::client::lanes::Lane;

/// A session of a host. Clones are the same session.
#[derive(Clone)]
pub(super) struct HttpHost {
    authority: String,
    path: Uri,
    headers: HeaderMap,
}

/// One connection, which carries one exchange at a time.
pub(super) struct HostConnection {
    sender: SendRequest<Full<Bytes>>,
    host: HttpHost,
}

/// Calls a tool again and again over a connection of its own.
pub(super) struct HttpLane {
    connection: HostConnection,
    tool: Tool,
    next_id: u64,
}

// === impl HttpHost ===

impl HttpHost {
    /// Opens a session.
    pub(super) async fn open(url: &str, token: Option<&str>) -> anyhow::Result<Self> {
        let connection = Self::without_session(url, token)?.connect().await?;
        Ok(connection.open_session().await?.host)
    }

    /// Returns a host that has no session yet.
    pub(super) fn without_session(url: &str, token: Option<&str>) -> anyhow::Result<Self> {
        let url: Uri = url.parse()?;
        let authority = url.authority().context("a URL with a host")?.to_string();
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_str(&authority)?);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        if let Some(token) = token {
            headers.insert(AUTHORIZATION, HeaderValue::from_str(&format!("Bearer {token}"))?);
        }
        Ok(Self { authority, path: url.path().parse()?, headers })
    }

    /// Opens a connection.
    pub(super) async fn connect(&self) -> anyhow::Result<HostConnection> {
        let stream = TcpStream::connect(&self.authority).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(HostConnection { sender, host: self.clone() })
    }

    /// Returns lanes for this many calls in flight. `first_id` is the id of the first call: an id is
    /// used once in a session.
    pub(super) async fn lanes(
        &self,
        tool: Tool,
        count: usize,
        first_id: u64,
    ) -> anyhow::Result<Vec<HttpLane>> {
        let mut lanes = Vec::with_capacity(count);
        for number in 0..count as u64 {
            let connection = self.connect().await?;
            lanes.push(HttpLane { connection, tool, next_id: first_id + number * IDS_PER_LANE });
        }
        Ok(lanes)
    }
}

// === impl HostConnection ===

impl HostConnection {
    /// Opens a session, which later requests of this connection belong to.
    pub(super) async fn open_session(mut self) -> anyhow::Result<Self> {
        for name in ["mcp-session-id", "mcp-protocol-version"] {
            self.host.headers.remove(name);
        }
        let response = self.send(Method::POST, Bytes::from_static(INITIALIZE)).await?;
        // A gateway may do without sessions.
        let session = response.headers().get("mcp-session-id").cloned();
        check_result(&response.into_body().collect().await?.to_bytes())?;
        self.host.headers.extend(session.map(|id| (http::HeaderName::from_static("mcp-session-id"), id)));
        self.host.headers.insert("mcp-protocol-version", HeaderValue::from_static("2025-11-25"));
        self.send(Method::POST, Bytes::from_static(INITIALIZED)).await?.into_body().collect().await?;
        Ok(self)
    }

    /// Returns the session of this connection.
    pub(super) fn host(&self) -> &HttpHost {
        &self.host
    }

    /// Whether the gateway has closed the connection, as it may while it is idle.
    pub(super) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Calls a tool.
    pub(super) async fn call(&mut self, tool: &str, id: u64) -> anyhow::Result<()> {
        let body = self.send(Method::POST, call_body(tool, id).into()).await?.into_body();
        check_result(&body.collect().await?.to_bytes())
    }

    /// Fetches the tool list, and returns how many tools it has.
    pub(super) async fn count_tools(&mut self) -> anyhow::Result<usize> {
        let body = self.send(Method::POST, Bytes::from_static(TOOLS_LIST)).await?.into_body();
        let body = body.collect().await?.to_bytes();
        check_result(&body)?;
        Ok(memmem::find_iter(&body, b"\"inputSchema\"").count())
    }

    /// Opens the stream for messages that belong to no request.
    pub(super) async fn open_stream(&mut self) -> anyhow::Result<Response<Incoming>> {
        self.send(Method::GET, Bytes::new()).await
    }

    async fn send(&mut self, method: Method, body: Bytes) -> anyhow::Result<Response<Incoming>> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = self.host.path.clone();
        *request.headers_mut() = self.host.headers.clone();
        self.sender.ready().await?;
        let response = self.sender.send_request(request).await?;
        ensure!(response.status().is_success(), "status {}", response.status());
        Ok(response)
    }
}

impl Lane for HttpLane {
    async fn call(&mut self) -> anyhow::Result<()> {
        self.next_id += 1;
        self.connection.call(self.tool.name(), self.next_id).await
    }
}

/// Refuses a body that is an error. Nothing else in it is looked at.
fn check_result(body: &[u8]) -> anyhow::Result<()> {
    let is_result =
        memmem::find(body, b"\"result\"").is_some() && memmem::find(body, b"\"isError\":true").is_none();
    ensure!(is_result, "{}", String::from_utf8_lossy(&body[..body.len().min(200)]));
    Ok(())
}

/// More calls than a lane makes in a sample.
pub(super) const IDS_PER_LANE: u64 = 1_000_000;

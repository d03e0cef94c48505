//! The floor over HTTP: hyper's own client and a prebuilt body. It checks the status, reads the
//! whole response and looks at nothing in it.
//!
//! One exception: at start-up it splits each list into its tools. A start-up ends when the tools
//! are available one by one, and unparsed bytes are no list yet. It does the minimum that counts:
//! one pass over the JSON, each tool kept as its text, nothing typed.

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST};
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::net::TcpStream;

use super::lanes::Lane;

/// One connection with its session.
pub(super) struct RawConnection {
    sender: SendRequest<Full<Bytes>>,
    path: Uri,
    headers: HeaderMap,
}

/// Calls `payload`.
pub(super) struct RawCaller {
    raw: RawConnection,
    body: Bytes,
}

/// Fetches the tool list.
pub(super) struct RawLister {
    raw: RawConnection,
}

// === impl Raw ===

impl RawConnection {
    /// Connects and does the handshake of a 2025-11-25 client.
    pub(super) async fn open(url: &str) -> anyhow::Result<Self> {
        let url: Uri = url.parse()?;
        let authority = url.authority().context("a URL with a host")?;
        let stream = TcpStream::connect(authority.as_str()).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_str(authority.as_str())?);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        let mut raw = Self { sender, path: url.path().parse()?, headers };

        let answer = raw.post(Bytes::from_static(INITIALIZE)).await?;
        let session = answer.headers().get("mcp-session-id").context("a session id")?.clone();
        drain(answer).await?;
        raw.headers.insert("mcp-session-id", session);
        raw.headers.insert("mcp-protocol-version", HeaderValue::from_static("2025-11-25"));
        let answer = raw.post(Bytes::from_static(INITIALIZED)).await?;
        drain(answer).await?;
        Ok(raw)
    }

    /// Fetches the tool list as bytes.
    pub(super) async fn fetch_list(&mut self) -> anyhow::Result<Vec<u8>> {
        let mut answer = self.post(Bytes::from_static(TOOLS_LIST)).await?.into_body();
        let expected = http_body::Body::size_hint(&answer).exact().unwrap_or(0);
        let mut bytes = Vec::with_capacity(usize::try_from(expected)?);
        while let Some(frame) = answer.frame().await {
            if let Ok(data) = frame?.into_data() {
                bytes.extend_from_slice(&data);
            }
        }
        Ok(bytes)
    }

    /// Fetches the tools one by one, each as its text.
    pub(super) async fn fetch_tools(&mut self) -> anyhow::Result<Vec<Box<RawValue>>> {
        let bytes = self.fetch_list().await?;
        let answer: ListResponse = serde_json::from_slice(&bytes).context("an answer with tools")?;
        Ok(answer.result.tools)
    }

    async fn post(&mut self, body: Bytes) -> anyhow::Result<Response<Incoming>> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.path.clone();
        *request.headers_mut() = self.headers.clone();
        self.sender.ready().await?;
        let answer = self.sender.send_request(request).await?;
        ensure!(answer.status().is_success(), "status {}", answer.status());
        Ok(answer)
    }
}

/// The parts of a `tools/list` response that a list of tools needs.
#[derive(Deserialize)]
struct ListResponse {
    result: ListResult,
}

#[derive(Deserialize)]
struct ListResult {
    tools: Vec<Box<RawValue>>,
}

async fn drain(answer: Response<Incoming>) -> anyhow::Result<()> {
    let mut body = answer.into_body();
    while let Some(frame) = body.frame().await {
        frame?;
    }
    Ok(())
}

// === impl Caller ===

impl RawCaller {
    pub(super) fn new(raw: RawConnection, bytes: usize) -> Self {
        Self { raw, body: call_body(bytes).into() }
    }
}

impl Lane for RawCaller {
    async fn call(&mut self) -> anyhow::Result<()> {
        let answer = self.raw.post(self.body.clone()).await?;
        drain(answer).await
    }
}

// === impl Lister ===

impl RawLister {
    pub(super) fn new(raw: RawConnection) -> Self {
        Self { raw }
    }
}

impl Lane for RawLister {
    async fn call(&mut self) -> anyhow::Result<()> {
        self.raw.fetch_list().await.map(drop)
    }
}

/// Returns the body of a call of `payload`.
pub(super) fn call_body(bytes: usize) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{{"name":"payload","arguments":{{"bytes":{bytes}}}}}}}"#
    )
}

pub(crate) const INITIALIZE: &[u8] = br#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"floor","version":"0"}}}"#;
pub(crate) const INITIALIZED: &[u8] = br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
pub(crate) const TOOLS_LIST: &[u8] = br#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#;

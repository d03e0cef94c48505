//! The server over Streamable HTTP.
//!
//! | path      | replies                    | tools | revisions            |
//! |-----------|----------------------------|-------|----------------------|
//! | `/json`   | one JSON body              | few   | both eras            |
//! | `/sse`    | one event, chunked         | few   | both eras            |
//! | `/ten`    | one JSON body              | 10    | both eras            |
//! | `/hundred` | one JSON body            | 100   | both eras            |
//! | `/list`   | one JSON body              | 830   | both eras            |
//! | `/legacy` | one JSON body              | few   | with a handshake     |
//! | `/modern` | one JSON body              | few   | without a handshake  |
//!
//! POST only. Requests of the handshake era need the session id that `initialize` gave out; on
//! `/legacy` every request is of that era, and on `/modern` requests of that era are refused.

use std::convert::Infallible;
use std::io::Write as _;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use anyhow::Context as _;
use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use super::response::{RequestKind, Responder, ServerReply};
use super::tools::ToolList;

/// The header that carries the session id.
const SESSION_HEADER: &str = "mcp-session-id";
/// The path that speaks only revisions with a handshake.
const LEGACY_PATH: &str = "/legacy";
/// The path that speaks only the revision without a handshake.
const MODERN_PATH: &str = "/modern";
/// The largest accepted request; those of this benchmark are far smaller.
const MAX_REQUEST_BYTES: usize = 64 * 1024;
/// Up to this size, copying into one buffer is cheaper than sending segments.
const MAX_MERGED_BYTES: usize = 16 * 1024;

/// Serves on this many ports until stdin closes, which it does when the runner exits.
pub(crate) fn serve(ports: usize) -> anyhow::Result<()> {
    super::exit_with_stdin();
    // One thread, so that the server takes the same share of the machine from every client.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let server = Arc::new(Server { responder: Responder::new(), sessions: AtomicU64::new(0) });
        let mut origins = Vec::new();
        let mut loops = Vec::new();
        for _ in 0..ports {
            let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
            writeln!(origins, "http://{}", listener.local_addr()?)?;
            loops.push(tokio::spawn(accept(listener, Arc::clone(&server))));
        }
        std::io::stdout().write_all(&origins)?;
        std::io::stdout().flush()?;
        for each in loops {
            each.await??;
        }
        Ok(())
    })
}

struct Server {
    responder: Responder,
    sessions: AtomicU64,
}

async fn accept(listener: TcpListener, server: Arc<Server>) -> anyhow::Result<()> {
    loop {
        let (stream, _) = listener.accept().await.context("accept")?;
        stream.set_nodelay(true)?;
        let server = Arc::clone(&server);
        tokio::spawn(async move {
            let service = service_fn(|request| {
                let server = Arc::clone(&server);
                async move { Ok::<_, Infallible>(server.handle(request).await) }
            });
            // A client that hangs up only ends its own connection.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

// === impl Server ===

impl Server {
    async fn handle(&self, request: Request<Incoming>) -> Response<SegmentedBody> {
        match *request.method() {
            Method::POST => {}
            Method::DELETE => return empty_response(StatusCode::NO_CONTENT),
            _ => return empty_response(StatusCode::METHOD_NOT_ALLOWED),
        }
        let (framing, catalog) = match request.uri().path() {
            "/json" => (Framing::Json, ToolList::Small),
            "/sse" => (Framing::Sse, ToolList::Small),
            "/ten" => (Framing::Json, ToolList::Medium),
            "/hundred" => (Framing::Json, ToolList::Hundred),
            "/list" => (Framing::Json, ToolList::Large),
            LEGACY_PATH | MODERN_PATH => (Framing::Json, ToolList::Small),
            _ => return empty_response(StatusCode::NOT_FOUND),
        };
        let (parts, body) = request.into_parts();
        let Ok(body) = Limited::new(body, MAX_REQUEST_BYTES).collect().await else {
            return empty_response(StatusCode::PAYLOAD_TOO_LARGE);
        };
        match self.responder.respond(&body.to_bytes(), catalog) {
            Err(_) => empty_response(StatusCode::BAD_REQUEST),
            Ok(ServerReply::Nothing) => empty_response(StatusCode::ACCEPTED),
            Ok(ServerReply::Message { kind, .. })
                if kind != RequestKind::Modern && parts.uri.path() == MODERN_PATH =>
            {
                empty_response(StatusCode::BAD_REQUEST)
            }
            Ok(ServerReply::Message { kind, .. })
                if needs_session(kind, parts.uri.path()) && !parts.headers.contains_key(SESSION_HEADER) =>
            {
                empty_response(StatusCode::BAD_REQUEST)
            }
            Ok(ServerReply::Message { head, tail, kind }) => {
                let mut response = Response::new(SegmentedBody::new(head, tail, framing));
                let headers = response.headers_mut();
                headers.insert(CONTENT_TYPE, HeaderValue::from_static(framing.content_type()));
                if kind == RequestKind::Initialize {
                    let session = self.sessions.fetch_add(1, Ordering::Relaxed);
                    headers.insert(SESSION_HEADER, HeaderValue::from(session));
                }
                response
            }
        }
    }
}

fn needs_session(kind: RequestKind, path: &str) -> bool {
    match kind {
        RequestKind::Initialize => false,
        RequestKind::Legacy => true,
        // A legacy server treats a request without a session id as one whose session is missing.
        RequestKind::Modern => path == LEGACY_PATH,
    }
}

fn empty_response(status: StatusCode) -> Response<SegmentedBody> {
    let mut response = Response::new(SegmentedBody::new(Bytes::new(), Bytes::new(), Framing::Json));
    *response.status_mut() = status;
    response
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Framing {
    Json,
    Sse,
}

impl Framing {
    fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Sse => "text/event-stream",
        }
    }

    /// Returns the bytes before and after a message.
    fn delimiters(self) -> (&'static [u8], &'static [u8]) {
        match self {
            Self::Json => (b"", b""),
            Self::Sse => (b"event: message\ndata: ", b"\n\n"),
        }
    }
}

/// A body of shared segments: a large result is sent without being copied.
struct SegmentedBody {
    rest: std::array::IntoIter<Bytes, 3>,
    framing: Framing,
}

// === impl Pieces ===

impl SegmentedBody {
    fn new(head: Bytes, tail: Bytes, framing: Framing) -> Self {
        let (before, after) = framing.delimiters();
        let whole = before.len() + head.len() + tail.len() + after.len();
        let start = if whole < MAX_MERGED_BYTES { whole } else { before.len() + head.len() };
        let mut first = BytesMut::with_capacity(start);
        first.extend_from_slice(before);
        first.extend_from_slice(&head);
        let pieces = if whole < MAX_MERGED_BYTES {
            first.extend_from_slice(&tail);
            first.extend_from_slice(after);
            [first.freeze(), Bytes::new(), Bytes::new()]
        } else {
            [first.freeze(), tail, Bytes::from_static(after)]
        };
        Self { rest: pieces.into_iter(), framing }
    }
}

impl Body for SegmentedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = self.rest.find(|piece| !piece.is_empty());
        Poll::Ready(next.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.as_slice().iter().all(Bytes::is_empty)
    }

    /// An event stream has no length known in advance, so it is sent chunked, as real servers do.
    fn size_hint(&self) -> SizeHint {
        match self.framing {
            Framing::Json => {
                SizeHint::with_exact(self.rest.as_slice().iter().map(|piece| piece.len() as u64).sum())
            }
            Framing::Sse => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn text(pieces: SegmentedBody) -> Vec<u8> {
        pieces.collect().await.expect("infallible").to_bytes().to_vec()
    }

    #[tokio::test]
    async fn an_event_frames_the_whole_message_whatever_its_size() {
        for size in [10, MAX_MERGED_BYTES * 2] {
            let tail = Bytes::from(vec![b'x'; size]);
            let body = text(SegmentedBody::new(Bytes::from_static(b"{"), tail.clone(), Framing::Sse)).await;
            assert_eq!(body, [b"event: message\ndata: {", tail.as_ref(), b"\n\n"].concat());
        }
    }

    #[tokio::test]
    async fn a_json_body_announces_its_length() {
        let pieces = SegmentedBody::new(Bytes::from_static(b"{"), Bytes::from_static(b"}"), Framing::Json);
        assert_eq!(pieces.size_hint().exact(), Some(2));
        assert_eq!(text(pieces).await, b"{}");
    }
}

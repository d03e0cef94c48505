//! HTTP servers on loopback for the tests: a real one, and one that writes what it is told.

pub(crate) mod closing;
pub(crate) mod frames;
pub(crate) mod proxy;
pub(crate) mod raw;
pub(crate) mod tls;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bowline_config::{Http, Secret};
use bowline_testkit::with;
use bowline_transport::http::{HttpLink, HttpResponse, Limits, Proxies, ResponseBody};
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, Uri, Version};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body as HyperBody, Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

/// A server that runs until it is dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) connections: Arc<AtomicUsize>,
    seen: Arc<Mutex<Vec<RecordedRequest>>>,
    task: AbortHandle,
}

/// A request as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct RecordedRequest {
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) version: Version,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

pub(crate) type Reply = Response<ReplyBody>;

/// A body of known length, or one that is sent piece by piece.
pub(crate) enum ReplyBody {
    Whole(Full<Bytes>),
    Stream(mpsc::Receiver<Bytes>),
}

impl Server {
    pub(crate) async fn start<F, R>(handler: F) -> Self
    where
        F: Fn(RecordedRequest) -> R + Send + Sync + 'static,
        R: Future<Output = Reply> + Send + 'static,
    {
        Self::start_with(None, handler).await
    }

    pub(crate) async fn start_with<F, R>(tls: Option<TlsAcceptor>, handler: F) -> Self
    where
        F: Fn(RecordedRequest) -> R + Send + Sync + 'static,
        R: Future<Output = Reply> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (connections, seen) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
        let counter = Arc::clone(&connections);
        let (handler, log) = (Arc::new(handler), Arc::clone(&seen));
        let task = tokio::spawn(async move {
            // Ends with this task, and ends its own with it.
            let mut tasks = JoinSet::new();
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                counter.fetch_add(1, Ordering::SeqCst);
                let (handler, log, tls) = (Arc::clone(&handler), Arc::clone(&log), tls.clone());
                tasks.spawn(async move { connection(socket, tls, handler, log).await });
            }
        });
        Self { address, connections, seen, task: task.abort_handle() }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    pub(crate) fn link(&self) -> HttpLink {
        link(&self.url())
    }

    pub(crate) fn seen(&self) -> Vec<RecordedRequest> {
        self.seen.lock().clone()
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn connection<F, R>(
    socket: TcpStream,
    tls: Option<TlsAcceptor>,
    handler: Arc<F>,
    log: Arc<Mutex<Vec<RecordedRequest>>>,
) where
    F: Fn(RecordedRequest) -> R + Send + Sync + 'static,
    R: Future<Output = Reply> + Send + 'static,
{
    let service = service_fn(move |request: Request<Incoming>| {
        let (handler, log) = (Arc::clone(&handler), Arc::clone(&log));
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await?.to_bytes();
            let http::request::Parts { method, uri, version, headers, .. } = head;
            let seen = RecordedRequest { method, uri, version, headers, body };
            log.lock().push(seen.clone());
            Ok::<_, hyper::Error>(handler(seen).await)
        }
    });
    // A client that leaves early is part of many tests.
    let server = auto::Builder::new(TokioExecutor::new());
    match tls {
        None => drop(server.serve_connection(TokioIo::new(socket), service).await),
        Some(tls) => {
            if let Ok(socket) = tls.accept(socket).await {
                drop(server.serve_connection(TokioIo::new(socket), service).await);
            }
        }
    }
}

impl HyperBody for ReplyBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Whole(body) => Pin::new(body).poll_frame(cx),
            Self::Stream(pieces) => {
                pieces.poll_recv(cx).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
            }
        }
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        match self {
            Self::Whole(body) => body.size_hint(),
            Self::Stream(_) => hyper::body::SizeHint::default(),
        }
    }
}

/// A reply with a body of known length.
pub(crate) fn reply(status: u16, media: &str, body: impl Into<Bytes>) -> Reply {
    let builder = Response::builder().status(status);
    let builder = if media.is_empty() { builder } else { builder.header("content-type", media) };
    builder.body(ReplyBody::Whole(Full::new(body.into()))).unwrap()
}

pub(crate) fn json(body: impl Into<Bytes>) -> Reply {
    reply(200, "application/json", body)
}

/// A reply whose body the test sends.
pub(crate) fn stream(status: u16, media: &str) -> (mpsc::Sender<Bytes>, Reply) {
    let (sender, pieces) = mpsc::channel(1);
    let reply = Response::builder().status(status).header("content-type", media);
    (sender, reply.body(ReplyBody::Stream(pieces)).unwrap())
}

/// Adds a header to a reply.
pub(crate) fn with(mut reply: Reply, name: &'static str, value: &str) -> Reply {
    reply.headers_mut().append(name, value.parse().unwrap());
    reply
}

pub(crate) fn config(url: &str) -> Http {
    Http::from_url(url.parse().unwrap())
}

pub(crate) fn config_with(url: &str, headers: &[(&str, &str)]) -> Http {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), Secret::from(*value))).collect();
    with!(config(url), headers: headers)
}

/// A link without proxies.
pub(crate) fn link(url: &str) -> HttpLink {
    link_to(&config(url))
}

pub(crate) fn link_to(config: &Http) -> HttpLink {
    HttpLink::with_proxies(config, Limits::default(), &Proxies::Direct).unwrap()
}

/// Posts `{}`.
pub(crate) async fn post(link: &HttpLink) -> Result<HttpResponse, bowline_proto::fault::Fault> {
    link.post(Bytes::from_static(b"{}"), &HeaderMap::new()).await
}

#[track_caller]
pub(crate) fn body_json(answer: HttpResponse) -> Bytes {
    match answer.body {
        ResponseBody::Json(body) => body,
        other => panic!("not JSON: {other:?}"),
    }
}

#[track_caller]
pub(crate) fn body_events(answer: HttpResponse) -> bowline_transport::http::EventStream {
    match answer.body {
        ResponseBody::Events(events) => events,
        other => panic!("not an event stream: {other:?}"),
    }
}

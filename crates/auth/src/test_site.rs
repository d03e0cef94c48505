//! An HTTP server for tests on this machine: it sends scripted responses and records the requests.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::sync::Arc;

use bowline_config::AuthSettings;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use url::Url;

use crate::context::AuthContext;
use crate::testing;

pub(crate) struct TestSite {
    origin: String,
    inner: Arc<Mutex<Inner>>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Inner {
    /// Scripted responses by path. The last one of a path is repeated.
    responses: HashMap<String, VecDeque<(u16, String)>>,
    requests: Vec<ReceivedRequest>,
}

/// A request that the site received.
#[derive(Clone, Debug)]
pub(crate) struct ReceivedRequest {
    /// The request line, such as `GET /path?query`.
    pub(crate) line: String,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: String,
}

impl ReceivedRequest {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

impl TestSite {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let inner: Arc<Mutex<Inner>> = Arc::default();
        let task = tokio::spawn(serve(listener, inner.clone()));
        Self { origin, inner, task }
    }

    pub(crate) fn origin(&self) -> &str {
        &self.origin
    }

    pub(crate) fn url(&self, path: &str) -> Url {
        format!("{}{path}", self.origin).parse().unwrap()
    }

    /// Queues a response for a path. Paths without one get 404. The body of a redirect is its target.
    pub(crate) fn respond(&self, path: &str, status: u16, body: impl ToString) {
        let mut inner = self.inner.lock();
        inner.responses.entry(path.to_owned()).or_default().push_back((status, body.to_string()));
    }

    /// Sends only this response for a path, instead of the queued ones.
    pub(crate) fn respond_only(&self, path: &str, status: u16, body: impl ToString) {
        self.inner.lock().responses.remove(path);
        self.respond(path, status, body);
    }

    pub(crate) fn requests(&self) -> Vec<ReceivedRequest> {
        self.inner.lock().requests.clone()
    }

    pub(crate) fn request_lines(&self) -> Vec<String> {
        self.requests().into_iter().map(|asked| asked.line).collect()
    }

    /// The context of a server at a path of this site, with an empty store.
    pub(crate) fn ctx(&self, path: &str, auth: AuthSettings) -> AuthContext {
        testing::ctx_at(self.url(path), auth)
    }
}

impl Drop for TestSite {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, inner: Arc<Mutex<Inner>>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { return };
        let inner = inner.clone();
        let service = service_fn(move |request| answer(inner.clone(), request));
        tokio::spawn(
            hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service),
        );
    }
}

async fn answer(
    inner: Arc<Mutex<Inner>>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let body = String::from_utf8_lossy(&body).into_owned();
    let line = format!("{} {}", head.method, head.uri);
    let mut inner = inner.lock();
    inner.requests.push(ReceivedRequest { line, headers: head.headers, body });
    let (status, text) = match inner.responses.get_mut(head.uri.path()) {
        Some(answers) if answers.len() > 1 => answers.pop_front().unwrap(),
        Some(answers) => answers[0].clone(),
        None => (404, "{\"error\":\"not found\"}".to_owned()),
    };
    let mut response = Response::builder().status(status).header("content-type", "application/json");
    if (300..400).contains(&status) {
        response = response.header("location", &text);
    }
    Ok(response.body(Full::new(Bytes::from(text))).unwrap())
}

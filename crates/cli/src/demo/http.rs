//! Owns the endpoint:
//!
//! | request | answer |
//! |---|---|
//! | `POST /mcp` with a request | JSON, or an event stream where there is progress to report |
//! | `POST /mcp` with a notification | 202 |
//! | `DELETE /mcp` | ends the session |
//! | anything else | 404 or 405 |

use std::collections::HashSet;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http_body_util::channel::{Channel, Sender};
use http_body_util::{BodyExt as _, Either, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue, ORIGIN};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::knots::{self, Reply};

/// A running server. Dropping it stops it.
pub(crate) struct DemoServer {
    addr: SocketAddr,
    sessions: Sessions,
    task: JoinHandle<()>,
}

type Sessions = Arc<Mutex<HashSet<String>>>;
type Body = Either<Full<Bytes>, Channel<Bytes>>;

const SESSION: &str = "mcp-session-id";
/// More than any request of the demo has.
const LARGEST_BODY: usize = 64 * 1024;

impl DemoServer {
    /// Listens on a free loopback port.
    pub(crate) async fn start() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let addr = listener.local_addr()?;
        let sessions = Sessions::default();
        let task = tokio::spawn(accept(listener, Arc::clone(&sessions)));
        Ok(Self { addr, sessions, task })
    }

    /// The endpoint.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/mcp", self.addr)
    }

    /// How many sessions are open.
    pub(crate) fn open_sessions(&self) -> usize {
        lock(&self.sessions).len()
    }
}

impl Drop for DemoServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, sessions: Sessions) {
    while let Ok((stream, _)) = listener.accept().await {
        let sessions = Arc::clone(&sessions);
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let sessions = Arc::clone(&sessions);
                async move { Ok::<_, std::convert::Infallible>(serve(request, &sessions).await) }
            });
            let connection = hyper::server::conn::http1::Builder::new();
            // A client that goes away is no matter here.
            let _ = connection.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn serve(request: Request<Incoming>, sessions: &Sessions) -> Response<Body> {
    // A page in a browser has no business here, and always says where it comes from.
    if request.headers().contains_key(ORIGIN) {
        return empty(StatusCode::FORBIDDEN);
    }
    if request.uri().path() != "/mcp" {
        return empty(StatusCode::NOT_FOUND);
    }
    let session = request.headers().get(SESSION).and_then(|id| id.to_str().ok()).map(String::from);
    match *request.method() {
        Method::POST => {}
        Method::DELETE => {
            let known = session.is_some_and(|id| lock(sessions).remove(&id));
            return empty(if known { StatusCode::OK } else { StatusCode::NOT_FOUND });
        }
        _ => {
            let mut response = empty(StatusCode::METHOD_NOT_ALLOWED);
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST, DELETE"));
            return response;
        }
    }
    let Ok(body) = Limited::new(request.into_body(), LARGEST_BODY).collect().await else {
        return empty(StatusCode::PAYLOAD_TOO_LARGE);
    };
    let Ok(message) = serde_json::from_slice::<Value>(&body.to_bytes()) else {
        return failed(StatusCode::BAD_REQUEST, &Value::Null, -32700, "not JSON");
    };
    let method = message["method"].as_str().unwrap_or_default();
    let Some(id) = message.get("id").cloned() else { return empty(StatusCode::ACCEPTED) };
    match method {
        "initialize" => return open(&id, sessions),
        // What tells a client of today that this server is of the years before.
        "server/discover" => return failed(StatusCode::OK, &id, -32601, "method not found"),
        _ => {}
    }
    if !session.is_some_and(|id| lock(sessions).contains(&id)) {
        return failed(StatusCode::NOT_FOUND, &id, -32001, "session not found");
    }
    match knots::answer(method, &message["params"]) {
        Reply::Result(result) => {
            json_response(StatusCode::OK, &json!({"jsonrpc": "2.0", "id": id, "result": result}))
        }
        Reply::Error(code, text) => failed(StatusCode::OK, &id, code, &text),
        Reply::Tie(token) => stream(id, token),
    }
}

/// A new session.
fn open(id: &Value, sessions: &Sessions) -> Response<Body> {
    let session = {
        let mut sessions = lock(sessions);
        let session = format!("demo-{}", sessions.len() + 1);
        sessions.insert(session.clone());
        session
    };
    let result = knots::initialize();
    let mut response = json_response(StatusCode::OK, &json!({"jsonrpc": "2.0", "id": id, "result": result}));
    let session = HeaderValue::from_str(&session).expect("letters and digits");
    response.headers_mut().insert(SESSION, session);
    response
}

/// An event stream: the steps as progress, then the result.
fn stream(id: Value, token: Value) -> Response<Body> {
    let (mut sender, body) = Channel::new(8);
    tokio::spawn(async move {
        // The only way to fail is that nobody reads any more.
        let _ = tie(&mut sender, id, token).await;
    });
    response(StatusCode::OK, "text/event-stream", Either::Right(body))
}

async fn tie(sender: &mut Sender<Bytes>, id: Value, token: Value) -> Result<(), ()> {
    let steps = knots::STEPS.len();
    for (index, step) in knots::STEPS.iter().enumerate() {
        tokio::time::sleep(knots::STEP_TIME).await;
        if !token.is_null() {
            let params =
                json!({"progressToken": token, "progress": index + 1, "total": steps, "message": step});
            event(sender, &json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}))
                .await?;
        }
    }
    event(sender, &json!({"jsonrpc": "2.0", "id": id, "result": knots::tied()})).await
}

async fn event(sender: &mut Sender<Bytes>, message: &Value) -> Result<(), ()> {
    sender.send_data(format!("event: message\ndata: {message}\n\n").into()).await.map_err(|_| ())
}

fn failed(status: StatusCode, id: &Value, code: i64, message: &str) -> Response<Body> {
    json_response(status, &json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}))
}

fn json_response(status: StatusCode, body: &Value) -> Response<Body> {
    response(status, "application/json", Either::Left(Full::from(body.to_string())))
}

fn empty(status: StatusCode) -> Response<Body> {
    response(status, "text/plain", Either::Left(Full::default()))
}

fn response(status: StatusCode, content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

fn lock(sessions: &Sessions) -> std::sync::MutexGuard<'_, HashSet<String>> {
    sessions.lock().unwrap_or_else(PoisonError::into_inner)
}

//! Serves the endpoint of the demo server:
//!
//! | request | response |
//! |---|---|
//! | `POST /mcp` with a request | JSON, or an event stream where there is progress to report |
//! | `POST /mcp` with a notification | 202 |
//! | `GET /mcp` | a stream for notifications, or the rest of one that was cut |
//! | `DELETE /mcp` | ends the session |
//! | anything in a forgotten session | the error of the signature in use |
//! | anything else | 404 or 405 |
//!
//! When it stops, requests that have reached it are answered first, and their connections then
//! closed.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::channel::{Channel, Sender};
use http_body_util::{BodyExt as _, Either, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONNECTION, CONTENT_TYPE, HeaderMap, HeaderValue, ORIGIN};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};

use super::knots::{self, Reply, STEPS, Tool};
use super::signature::SIGNATURES;
use super::state::{Cut, State, Story, UnderWay};

/// The demo server, which may be down for a moment. Dropping it stops it.
pub(crate) struct DemoServer {
    addr: SocketAddr,
    state: State,
    running: Option<Running>,
}

struct Running {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

/// Sends to an open stream.
pub(super) type Outlet = Sender<Bytes, Severed>;
type Body = Either<Full<Bytes>, Channel<Bytes, Severed>>;

/// Aborts a connection in the middle of a response.
#[derive(Debug)]
pub(super) struct Severed;

const SESSION: &str = "mcp-session-id";
const LAST_EVENT: &str = "last-event-id";
/// Larger than any request of the demo.
const LARGEST_BODY: usize = 64 * 1024;
/// Delay before a client resumes a stream that was cut.
const RETRY_MILLIS: u64 = 250;
/// The step after which a stream is cut.
const CUT_AFTER: usize = 2;

// === impl DemoServer ===

impl DemoServer {
    /// Listens on a free loopback port.
    pub(crate) async fn start() -> io::Result<Self> {
        let state = State::new();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let addr = listener.local_addr()?;
        let running = Some(Running::new(listener, &state));
        Ok(Self { addr, state, running })
    }

    /// Returns the URL of the endpoint.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/mcp", self.addr)
    }

    /// Returns the state of the server.
    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    /// Stops listening, answers requests that have reached it, closes all connections and forgets
    /// all sessions.
    pub(super) async fn stop(&mut self) {
        let Some(Running { stop, task }) = self.running.take() else { return };
        // Stops between two calls: the system resets connections that are not accepted yet, with
        // the requests on them.
        let begun = Instant::now();
        while !self.state.is_quiet(PAUSE) && begun.elapsed() < LONGEST_DRAIN {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        // The listener can only have ended already.
        let _ = stop.send(());
        let _ = task.await;
        let mut memory = self.state.lock();
        memory.draining = false;
        memory.sessions.clear();
    }

    /// Listens again on the same port.
    pub(super) async fn come_back(&mut self) -> io::Result<()> {
        let listener = TcpListener::bind(self.addr).await?;
        self.running = Some(Running::new(listener, &self.state));
        Ok(())
    }
}

impl Drop for DemoServer {
    fn drop(&mut self) {
        if let Some(running) = &self.running {
            running.task.abort();
        }
    }
}

impl Running {
    fn new(listener: TcpListener, state: &State) -> Self {
        let (stop, stopped) = oneshot::channel();
        Self { stop, task: tokio::spawn(listen(listener, state.clone(), stopped)) }
    }
}

async fn listen(listener: TcpListener, state: State, mut stopped: oneshot::Receiver<()>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            _ = &mut stopped => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { continue };
                let state = state.clone();
                connections.spawn(async move {
                    let service = service_fn(|request| serve(request, &state));
                    let connection = hyper::server::conn::http1::Builder::new();
                    // Clients that disconnect, or are cut off, do not matter here.
                    let _ = connection.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        }
    }
    drop(listener);
    {
        let mut memory = state.lock();
        memory.draining = true;
        memory.streams.clear();
    }
    // Closing a connection while a request may be on its way would leave its sender in doubt
    // whether it was executed. So each connection that is used again is closed with the response,
    // and the others once everybody has noticed that nothing listens here any more.
    let begun = Instant::now();
    while !connections.is_empty() && !state.is_quiet(QUIET) && begun.elapsed() < LONGEST_DRAIN {
        let _ = tokio::time::timeout(LOOK_AGAIN, connections.join_next()).await;
    }
}

/// More than twice the time between two calls.
const QUIET: Duration = Duration::from_millis(250);
/// Many times what the longest call takes.
const LONGEST_DRAIN: Duration = Duration::from_secs(2);
/// Less than the time between two calls.
const PAUSE: Duration = Duration::from_millis(30);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Answers a request, or cuts its connection.
async fn serve(request: Request<Incoming>, state: &State) -> Result<Response<Body>, Severed> {
    let under_way = state.begin();
    let mut response = answer(request, state, under_way).await?;
    if state.lock().draining {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(response)
}

async fn answer(
    request: Request<Incoming>,
    state: &State,
    under_way: UnderWay,
) -> Result<Response<Body>, Severed> {
    // Pages in a browser are refused; they always send an origin.
    if request.headers().contains_key(ORIGIN) {
        return Ok(empty(StatusCode::FORBIDDEN));
    }
    if request.uri().path() != "/mcp" {
        return Ok(empty(StatusCode::NOT_FOUND));
    }
    let session = header(request.headers(), SESSION).map(String::from);
    match *request.method() {
        Method::POST => post(request, session, state, under_way).await,
        Method::GET => Ok(get(request.headers(), session, state, under_way)),
        Method::DELETE => {
            let known = session.is_some_and(|id| state.lock().sessions.remove(&id));
            Ok(empty(if known { StatusCode::OK } else { StatusCode::NOT_FOUND }))
        }
        _ => {
            let mut response = empty(StatusCode::METHOD_NOT_ALLOWED);
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, POST, DELETE"));
            Ok(response)
        }
    }
}

async fn post(
    request: Request<Incoming>,
    session: Option<String>,
    state: &State,
    under_way: UnderWay,
) -> Result<Response<Body>, Severed> {
    let Ok(body) = Limited::new(request.into_body(), LARGEST_BODY).collect().await else {
        return Ok(empty(StatusCode::PAYLOAD_TOO_LARGE));
    };
    let Ok(message) = serde_json::from_slice::<Value>(&body.to_bytes()) else {
        return Ok(failed(&Value::Null, -32700, "not JSON"));
    };
    let method = message["method"].as_str().unwrap_or_default();
    let Some(id) = message.get("id").cloned() else { return Ok(empty(StatusCode::ACCEPTED)) };
    // While stopping, only calls are accepted, from clients that do not know yet.
    if method != "tools/call" && state.lock().draining {
        return Ok(leaving());
    }
    match method {
        "initialize" => return Ok(open(&id, state)),
        // This error tells a client that the server is legacy.
        "server/discover" => return Ok(failed(&id, -32601, "method not found")),
        _ => {}
    }
    if !is_known(session, state) {
        return Ok(refused(&id, state));
    }
    match knots::answer(method, &message["params"]) {
        Reply::Result(result) => Ok(found(&id, &result)),
        Reply::Error(code, text) => Ok(failed(&id, code, text)),
        Reply::Call(tool) => call(tool, id, &message["params"], state, under_way).await,
    }
}

async fn call(
    tool: Tool,
    id: Value,
    params: &Value,
    state: &State,
    under_way: UnderWay,
) -> Result<Response<Body>, Severed> {
    let arguments = &params["arguments"];
    let ticket = arguments["ticket"].as_u64();
    let result = tool.result(arguments);
    if tool == Tool::Tie {
        state.lock().run(ticket, tool);
        let story = Story { id, token: params["_meta"]["progressToken"].clone(), result };
        return Ok(stream(Telling { story, ticket, from: 0 }, state, under_way));
    }
    let cut = state.lock().take_cut(ticket, tool);
    if cut == Some(Cut::Before) {
        return Err(Severed);
    }
    tokio::time::sleep(knots::WORK_TIME).await;
    state.lock().run(ticket, tool);
    match cut {
        Some(Cut::After) => Err(Severed),
        Some(Cut::Halfway) => Ok(half(&id, &result)),
        _ => {
            state.lock().answered(ticket);
            Ok(found(&id, &result))
        }
    }
}

/// Opens a stream for notifications, of which there are none, or resumes one that was cut.
fn get(headers: &HeaderMap, session: Option<String>, state: &State, under_way: UnderWay) -> Response<Body> {
    if state.lock().draining {
        return leaving();
    }
    if !is_known(session, state) {
        return refused(&Value::Null, state);
    }
    if let Some((ticket, step)) = header(headers, LAST_EVENT).and_then(place) {
        let mut memory = state.lock();
        let Some(story) = memory.untold.remove(&ticket) else { return empty(StatusCode::NOT_FOUND) };
        memory.done.resumed += 1;
        drop(memory);
        return stream(Telling { story, ticket: Some(ticket), from: step }, state, under_way);
    }
    let (sender, body) = Channel::new(1);
    let mut memory = state.lock();
    // There is one client, so an older stream belongs to a lost session.
    memory.streams = vec![sender];
    response(StatusCode::OK, "text/event-stream", Either::Right(body))
}

/// Opens a new session.
fn open(id: &Value, state: &State) -> Response<Body> {
    let session = state.lock().open();
    let mut response = found(id, &knots::initialize());
    response.headers_mut().insert(SESSION, HeaderValue::from_str(&session).expect("letters and digits"));
    response
}

/// A streamed call, and the step to continue from.
struct Telling {
    story: Story,
    ticket: Option<u64>,
    from: usize,
}

/// Returns an event stream: the steps as progress, then the result.
fn stream(telling: Telling, state: &State, under_way: UnderWay) -> Response<Body> {
    let (sender, body) = Channel::new(8);
    let state = state.clone();
    tokio::spawn(async move {
        let _under_way = under_way;
        // It fails only if the client has disconnected.
        let _ = tell(sender, telling, &state).await;
    });
    response(StatusCode::OK, "text/event-stream", Either::Right(body))
}

async fn tell(mut sender: Outlet, telling: Telling, state: &State) -> Result<(), Gone> {
    let Telling { story, ticket, from } = telling;
    let place = |step: usize| ticket.map(|ticket| format!("id: {ticket}-{step}\n")).unwrap_or_default();
    let cut = ticket.is_some_and(|ticket| from == 0 && state.lock().take_stream_cut(ticket, &story));
    if from == 0 {
        // An event id to resume from, before there is progress.
        send(&mut sender, format!("{}retry: {RETRY_MILLIS}\ndata:\n\n", place(0))).await?;
    }
    for (index, step) in STEPS.iter().enumerate().skip(from) {
        tokio::time::sleep(knots::STEP_TIME).await;
        if cut && index == CUT_AFTER {
            sender.abort(Severed);
            return Ok(());
        }
        let params = json!({"progressToken": story.token, "progress": index + 1, "total": STEPS.len(), "message": step});
        let progress = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
        send(&mut sender, format!("{}data: {progress}\n\n", place(index + 1))).await?;
    }
    let result = json!({"jsonrpc": "2.0", "id": story.id, "result": story.result});
    send(&mut sender, format!("data: {result}\n\n")).await?;
    state.lock().answered(ticket);
    Ok(())
}

/// The client has disconnected.
struct Gone;

async fn send(sender: &mut Outlet, event: String) -> Result<(), Gone> {
    sender.send_data(event.into()).await.map_err(|_| Gone)
}

/// Returns half a response, and then cuts the connection.
fn half(id: &Value, result: &Value) -> Response<Body> {
    let whole = json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
    let (mut sender, body) = Channel::new(1);
    tokio::spawn(async move {
        let _ = send(&mut sender, whole[..whole.len() / 2].to_owned()).await;
        tokio::time::sleep(knots::WORK_TIME).await;
        sender.abort(Severed);
    });
    response(StatusCode::OK, "application/json", Either::Right(body))
}

/// Parses the ticket and the step of an event id.
fn place(id: &str) -> Option<(u64, usize)> {
    let (ticket, step) = id.split_once('-')?;
    Some((ticket.parse().ok()?, step.parse().ok()?))
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

fn is_known(session: Option<String>, state: &State) -> bool {
    session.is_some_and(|id| state.lock().sessions.contains(&id))
}

/// Returns the error for an unknown session, in the form of the signature in use.
fn refused(id: &Value, state: &State) -> Response<Body> {
    let signature = &SIGNATURES[state.signature()];
    let (media, body) = signature.body(id);
    let status = StatusCode::from_u16(signature.status).expect("a status");
    response(status, media, Either::Left(Full::from(body)))
}

fn leaving() -> Response<Body> {
    let body = Full::from("shutting down");
    response(StatusCode::SERVICE_UNAVAILABLE, "text/plain", Either::Left(body))
}

fn found(id: &Value, result: &Value) -> Response<Body> {
    json_response(&json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

fn failed(id: &Value, code: i64, message: &str) -> Response<Body> {
    json_response(&json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}))
}

fn json_response(body: &Value) -> Response<Body> {
    response(StatusCode::OK, "application/json", Either::Left(Full::from(body.to_string())))
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

impl fmt::Display for Severed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cut on purpose")
    }
}

impl std::error::Error for Severed {}

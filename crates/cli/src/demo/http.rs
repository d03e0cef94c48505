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

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bowline::Id;
use bowline::types::method;
use bowline_proto::wire::outgoing::Frame;
use bowline_proto::wire::{Message, parse_one};
use bytes::Bytes;
use http_body_util::channel::Channel;
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

use super::host_session::{HostRequest, HostSession, Reaction};
use super::signature::SIGNATURES;
use super::state::{ConnectionCut, CutPoint, DemoState, EventSender, RequestGuard, StreamedCall};
use super::tools::{self, Reply, STEPS, Tool};

/// The demo server, which may be down for a moment. Dropping it stops it.
pub(crate) struct DemoServer {
    addr: SocketAddr,
    pub(crate) state: DemoState,
    running: Option<ListenerTask>,
}

struct ListenerTask {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

type Body = Either<Full<Bytes>, Channel<Bytes, ConnectionCut>>;

const SESSION_HEADER: &str = "mcp-session-id";
const LAST_EVENT_HEADER: &str = "last-event-id";
/// Larger than any request of the demo.
const MAX_BODY_BYTES: usize = 64 * 1024;
/// Delay before a client resumes a stream that was cut.
const RETRY_MILLIS: u64 = 250;
/// The step after which a stream is cut.
const CUT_AFTER_STEP: usize = 2;

// === impl DemoServer ===

impl DemoServer {
    /// Listens on a free loopback port.
    pub(crate) async fn start() -> io::Result<Self> {
        let state = DemoState::default();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let addr = listener.local_addr()?;
        let running = Some(ListenerTask::new(listener, &state));
        Ok(Self { addr, state, running })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/mcp", self.addr)
    }

    /// Stops listening, answers requests that have reached it, closes all connections and forgets
    /// all sessions.
    pub(super) async fn stop(&mut self) {
        let Some(ListenerTask { stop, task }) = self.running.take() else { return };
        // Stops between two calls: the system resets connections that are not accepted yet, with
        // the requests on them.
        let begun = Instant::now();
        while !self.state.is_quiet(CALL_GAP) && begun.elapsed() < DRAIN_TIMEOUT {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        // The listener can only have ended already.
        let _ = stop.send(());
        let _ = task.await;
        let mut memory = self.state.lock();
        memory.draining = false;
        memory.sessions.clear();
    }

    /// Listens again on the same port.
    pub(super) async fn restart(&mut self) -> io::Result<()> {
        let listener = TcpListener::bind(self.addr).await?;
        self.running = Some(ListenerTask::new(listener, &self.state));
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

impl ListenerTask {
    fn new(listener: TcpListener, state: &DemoState) -> Self {
        let (stop, stopped) = oneshot::channel();
        Self { stop, task: tokio::spawn(listen(listener, state.clone(), stopped)) }
    }
}

async fn listen(listener: TcpListener, state: DemoState, mut stopped: oneshot::Receiver<()>) {
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
    while !connections.is_empty() && !state.is_quiet(QUIET_PERIOD) && begun.elapsed() < DRAIN_TIMEOUT {
        let _ = tokio::time::timeout(POLL_INTERVAL, connections.join_next()).await;
    }
}

/// More than twice the time between two calls.
const QUIET_PERIOD: Duration = Duration::from_millis(250);
/// Many times what the longest call takes.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);
/// Less than the time between two calls.
const CALL_GAP: Duration = Duration::from_millis(30);
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Answers a request, or cuts its connection.
async fn serve(request: Request<Incoming>, state: &DemoState) -> Result<Response<Body>, ConnectionCut> {
    let under_way = state.begin_request();
    let mut response = handle_request(request, state, under_way).await?;
    if state.lock().draining {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(response)
}

async fn handle_request(
    request: Request<Incoming>,
    state: &DemoState,
    under_way: RequestGuard,
) -> Result<Response<Body>, ConnectionCut> {
    // Pages in a browser are refused; they always send an origin.
    if request.headers().contains_key(ORIGIN) {
        return Ok(empty_response(StatusCode::FORBIDDEN));
    }
    if request.uri().path() != "/mcp" {
        return Ok(empty_response(StatusCode::NOT_FOUND));
    }
    let session = header(request.headers(), SESSION_HEADER).map(String::from);
    match *request.method() {
        Method::POST => post(request, session, state, under_way).await,
        Method::GET => Ok(get(request.headers(), session, state, under_way)),
        Method::DELETE => {
            let known = session.is_some_and(|id| state.lock().sessions.remove(&id).is_some());
            Ok(empty_response(if known { StatusCode::OK } else { StatusCode::NOT_FOUND }))
        }
        _ => {
            let mut response = empty_response(StatusCode::METHOD_NOT_ALLOWED);
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, POST, DELETE"));
            Ok(response)
        }
    }
}

async fn post(
    request: Request<Incoming>,
    session: Option<String>,
    state: &DemoState,
    under_way: RequestGuard,
) -> Result<Response<Body>, ConnectionCut> {
    let Ok(body) = Limited::new(request.into_body(), MAX_BODY_BYTES).collect().await else {
        return Ok(empty_response(StatusCode::PAYLOAD_TOO_LARGE));
    };
    let message = parse_one(&body.to_bytes());
    let Ok(Message::Request { id, method, .. }) = &message else {
        if let Some(host) = find_session(session, state) {
            host.handle(message);
        }
        return Ok(empty_response(StatusCode::ACCEPTED));
    };
    // While stopping, only calls are accepted, from clients that do not know yet.
    if **method != *method::TOOLS_CALL && state.lock().draining {
        return Ok(shutdown_response());
    }
    if matches!(&**method, method::INITIALIZE | method::DISCOVER) {
        let (host, opens_session) = (HostSession::default(), **method == *method::INITIALIZE);
        let mut response = reaction_response(host.handle(message));
        if opens_session {
            let session = state.lock().add_session(host);
            let session = HeaderValue::from_str(&session).expect("letters and digits");
            response.headers_mut().insert(SESSION_HEADER, session);
        }
        return Ok(response);
    }
    let Some(host) = find_session(session, state) else { return Ok(session_lost_response(Some(id), state)) };
    match host.handle(message) {
        Reaction::Serve { request, method, params } => match tools::answer_request(&method, &params) {
            Reply::Result(result) => Ok(frame_response(request.respond_with(&result))),
            Reply::Error(error) => Ok(frame_response(request.respond(Err(&error)))),
            Reply::Call(tool) => call(tool, request, &params, state, under_way).await,
        },
        reaction => Ok(reaction_response(reaction)),
    }
}

async fn call(
    tool: Tool,
    request: HostRequest,
    params: &Value,
    state: &DemoState,
    under_way: RequestGuard,
) -> Result<Response<Body>, ConnectionCut> {
    let arguments = &params["arguments"];
    let ticket = arguments["ticket"].as_u64();
    let result = tool.result(arguments);
    if tool == Tool::Tie {
        state.lock().record_run(ticket, tool);
        let progress_token = params["_meta"]["progressToken"].clone();
        let call = StreamedCall { request: Arc::new(request), progress_token, result };
        return Ok(stream_response(StreamPosition { call, ticket, first_step: 0 }, state, under_way));
    }
    let cut = state.lock().take_cut(ticket, tool);
    if cut == Some(CutPoint::Before) {
        return Err(ConnectionCut);
    }
    tokio::time::sleep(tools::WORK_TIME).await;
    state.lock().record_run(ticket, tool);
    match cut {
        Some(CutPoint::After) => Err(ConnectionCut),
        Some(CutPoint::Halfway) => Ok(half_response(request.respond_with(&result))),
        _ => {
            state.lock().record_answer(ticket);
            Ok(frame_response(request.respond_with(&result)))
        }
    }
}

/// Opens a stream for notifications, of which there are none, or resumes one that was cut.
fn get(
    headers: &HeaderMap,
    session: Option<String>,
    state: &DemoState,
    under_way: RequestGuard,
) -> Response<Body> {
    if state.lock().draining {
        return shutdown_response();
    }
    if find_session(session, state).is_none() {
        return session_lost_response(None, state);
    }
    if let Some((ticket, step)) = header(headers, LAST_EVENT_HEADER).and_then(parse_event_id) {
        let mut memory = state.lock();
        let Some(call) = memory.resumable_calls.remove(&ticket) else {
            return empty_response(StatusCode::NOT_FOUND);
        };
        memory.counters.resumed += 1;
        drop(memory);
        return stream_response(
            StreamPosition { call, ticket: Some(ticket), first_step: step },
            state,
            under_way,
        );
    }
    let (sender, body) = Channel::new(1);
    let mut memory = state.lock();
    // There is one client, so an older stream belongs to a lost session.
    memory.streams = vec![sender];
    build_response(StatusCode::OK, "text/event-stream", Either::Right(body))
}

/// A streamed call, and the step to continue from.
struct StreamPosition {
    call: StreamedCall,
    ticket: Option<u64>,
    first_step: usize,
}

/// Returns an event stream: the steps as progress, then the result.
fn stream_response(position: StreamPosition, state: &DemoState, under_way: RequestGuard) -> Response<Body> {
    let (sender, body) = Channel::new(8);
    let state = state.clone();
    tokio::spawn(async move {
        let _under_way = under_way;
        // It fails only if the client has disconnected.
        let _ = send_steps(sender, position, &state).await;
    });
    build_response(StatusCode::OK, "text/event-stream", Either::Right(body))
}

async fn send_steps(
    mut sender: EventSender,
    position: StreamPosition,
    state: &DemoState,
) -> Result<(), ReaderGone> {
    let StreamPosition { call, ticket, first_step: from } = position;
    let place = |step: usize| ticket.map(|ticket| format!("id: {ticket}-{step}\n")).unwrap_or_default();
    let cut = ticket.is_some_and(|ticket| from == 0 && state.lock().take_stream_cut(ticket, &call));
    if from == 0 {
        // An event id to resume from, before there is progress.
        send(&mut sender, format!("{}retry: {RETRY_MILLIS}\ndata:\n\n", place(0))).await?;
    }
    for (index, step) in STEPS.iter().enumerate().skip(from) {
        tokio::time::sleep(tools::STEP_TIME).await;
        if cut && index == CUT_AFTER_STEP {
            sender.abort(ConnectionCut);
            return Ok(());
        }
        let params = json!({"progressToken": call.progress_token, "progress": index + 1, "total": STEPS.len(), "message": step});
        let progress = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
        send(&mut sender, format!("{}data: {progress}\n\n", place(index + 1))).await?;
    }
    if let Some(result) = call.request.respond_with(&call.result) {
        send(&mut sender, format!("data: {}\n\n", String::from_utf8_lossy(&result.body()))).await?;
    }
    state.lock().record_answer(ticket);
    Ok(())
}

/// The client has disconnected.
struct ReaderGone;

async fn send(sender: &mut EventSender, event: String) -> Result<(), ReaderGone> {
    sender.send_data(event.into()).await.map_err(|_| ReaderGone)
}

/// Returns half a response, and then cuts the connection.
fn half_response(whole: Option<Frame>) -> Response<Body> {
    let Some(whole) = whole else { return frame_response(None) };
    let mut half = whole.body();
    half.truncate(half.len() / 2);
    let (mut sender, body) = Channel::new(1);
    tokio::spawn(async move {
        // It fails only if the client has disconnected.
        let _ = sender.send_data(half).await;
        tokio::time::sleep(tools::WORK_TIME).await;
        sender.abort(ConnectionCut);
    });
    build_response(StatusCode::OK, "application/json", Either::Right(body))
}

/// Parses the ticket and the step of an event id.
fn parse_event_id(id: &str) -> Option<(u64, usize)> {
    let (ticket, step) = id.split_once('-')?;
    Some((ticket.parse().ok()?, step.parse().ok()?))
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

fn find_session(session: Option<String>, state: &DemoState) -> Option<HostSession> {
    state.lock().sessions.get(&session?).cloned()
}

/// Returns the error for an unknown session, in the form of the signature in use.
fn session_lost_response(id: Option<&Id>, state: &DemoState) -> Response<Body> {
    let signature = &SIGNATURES[state.signature()];
    let id = id.and_then(|id| serde_json::from_str(&id.to_string()).ok()).unwrap_or(Value::Null);
    let (media, body) = signature.body(&id);
    let status = StatusCode::from_u16(signature.status).expect("a status");
    build_response(status, media, Either::Left(Full::from(body)))
}

fn shutdown_response() -> Response<Body> {
    let body = Full::from("shutting down");
    build_response(StatusCode::SERVICE_UNAVAILABLE, "text/plain", Either::Left(body))
}

fn reaction_response(reaction: Reaction) -> Response<Body> {
    match reaction {
        Reaction::Respond(frame) => frame_response(Some(frame)),
        Reaction::Serve { .. } | Reaction::Accept => empty_response(StatusCode::ACCEPTED),
    }
}

/// Returns a JSON-RPC response, or nothing for a request that the client has canceled.
fn frame_response(frame: Option<Frame>) -> Response<Body> {
    match frame {
        Some(frame) => {
            build_response(StatusCode::OK, "application/json", Either::Left(Full::from(frame.body())))
        }
        None => empty_response(StatusCode::ACCEPTED),
    }
}

fn empty_response(status: StatusCode) -> Response<Body> {
    build_response(status, "text/plain", Either::Left(Full::default()))
}

fn build_response(status: StatusCode, content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

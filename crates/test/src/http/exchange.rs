//! One HTTP exchange: which status a request gets, and whether its response is JSON or an event
//! stream.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body, Frame, Incoming};
use hyper::{Method, Request, Response as HttpResponse, StatusCode, header};
use serde_json::Value;
use tokio::sync::mpsc;

use crate::engine::{CallInProgress, Engine, Response};
use crate::fake_server::FakeEra;
use crate::listeners::{Audience, Notifications};
use crate::request_outcome::{INVALID_REQUEST, METHOD_NOT_FOUND, RequestOutcome, UNSUPPORTED_VERSION};

type ResponseBody = UnsyncBoxBody<Bytes, Infallible>;

/// Ends the connection without a response.
#[derive(Debug)]
pub(super) struct ConnectionCut;

pub(super) async fn serve_request(
    engine: Arc<Engine>,
    request: Request<Incoming>,
) -> Result<HttpResponse<ResponseBody>, ConnectionCut> {
    let header = request.headers().get(SESSION_HEADER).and_then(|session| session.to_str().ok());
    let session = header.map(str::to_owned);
    match *request.method() {
        Method::POST => {}
        Method::DELETE => {
            let was_open = session.is_some_and(|session| engine.end_session(&session));
            return Ok(empty(if was_open { StatusCode::OK } else { StatusCode::NOT_FOUND }));
        }
        Method::GET if engine.script.era == FakeEra::Legacy => {
            return Ok(open_standalone_stream(&engine, session));
        }
        _ => return Ok(empty(StatusCode::METHOD_NOT_ALLOWED)),
    }
    let body = request.into_body().collect().await.map_err(|_| ConnectionCut)?.to_bytes();
    let Ok(message) = serde_json::from_slice::<Value>(&body) else {
        return Ok(empty(StatusCode::BAD_REQUEST));
    };
    let faults = engine.receive(&message);
    if faults.cut {
        return Err(ConnectionCut);
    }
    if faults.unauthorized {
        let mut response = empty(StatusCode::UNAUTHORIZED);
        let challenge = header::HeaderValue::from_static("Bearer");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        return Ok(response);
    }
    if let Some(delay) = faults.delay {
        tokio::time::sleep(delay).await;
    }
    Ok(answer(&engine, session, message))
}

fn answer(engine: &Arc<Engine>, session: Option<String>, message: Value) -> HttpResponse<ResponseBody> {
    let id = &message["id"];
    if message["method"] == "initialize" {
        return open_session(engine, &message);
    }
    if engine.script.era == FakeEra::Legacy {
        let Some(session) = &session else {
            let refused = RequestOutcome::error(INVALID_REQUEST, "Bad Request: no session");
            return respond(StatusCode::BAD_REQUEST, &refused.into_message(id));
        };
        if !engine.has_session(session) {
            let refused = RequestOutcome::error(SESSION_NOT_FOUND, "Session not found");
            return respond(StatusCode::NOT_FOUND, &refused.into_message(id));
        }
    }
    if message["method"].is_null() {
        engine.handle_response(&message);
        return empty(StatusCode::ACCEPTED);
    }
    if id.is_null() {
        return empty(StatusCode::ACCEPTED);
    }
    match engine.start(session.as_deref().unwrap_or_default(), &message) {
        Response::Ready(answer) => {
            let status = match &answer {
                RequestOutcome::Error { code: UNSUPPORTED_VERSION, .. } => StatusCode::BAD_REQUEST,
                RequestOutcome::Error { code: METHOD_NOT_FOUND, .. }
                    if engine.script.era == FakeEra::Modern =>
                {
                    StatusCode::NOT_FOUND
                }
                _ => StatusCode::OK,
            };
            respond(status, &answer.into_message(id))
        }
        Response::Running(call) => stream_call(Arc::clone(engine), call, id.clone()),
        Response::Subscription(acknowledged, notifications) => {
            let (events, body) = event_stream();
            events.send(&acknowledged);
            forward(notifications, events);
            body
        }
    }
}

/// Opens the stream on which a legacy session gets its notifications.
fn open_standalone_stream(engine: &Engine, session: Option<String>) -> HttpResponse<ResponseBody> {
    let Some(session) = session else { return empty(StatusCode::BAD_REQUEST) };
    if !engine.has_session(&session) {
        return empty(StatusCode::NOT_FOUND);
    }
    let (events, body) = event_stream();
    let notifications = engine.state.lock().listeners.listen(Audience::Session(session));
    forward(notifications, events);
    body
}

/// Sends notifications until the client leaves or the server restarts.
fn forward(mut notifications: Notifications, events: EventSender) {
    tokio::spawn(async move {
        loop {
            tokio::select! {
                message = notifications.recv() => match message {
                    Some(message) => events.send(&message),
                    None => return,
                },
                () = events.0.closed() => return,
            }
        }
    });
}

fn open_session(engine: &Engine, message: &Value) -> HttpResponse<ResponseBody> {
    let session = format!("session-{}", engine.next_number());
    let answer = engine.initialize(&session, &message["params"]);
    let is_refused = matches!(answer, RequestOutcome::Error { .. });
    let status = if is_refused { StatusCode::BAD_REQUEST } else { StatusCode::OK };
    let mut response = respond(status, &answer.into_message(&message["id"]));
    if !is_refused {
        let session = session.try_into().expect("a session id is a header value");
        response.headers_mut().insert(SESSION_HEADER, session);
    }
    response
}

/// Answers a call with an event stream, which ends with the response.
fn stream_call(engine: Arc<Engine>, call: CallInProgress, id: Value) -> HttpResponse<ResponseBody> {
    let (events, body) = event_stream();
    tokio::spawn(async move {
        let finished = engine.finish(call, |message| events.send(&message));
        tokio::select! {
            // A call that was canceled must not be parked.
            biased;
            // The client left, which cancels a modern call; a legacy one cannot be resumed here.
            () = events.0.closed() => {}
            answer = finished => events.send(&answer.into_message(&id)),
        }
    });
    body
}

/// The sending half of an event stream.
struct EventSender(mpsc::UnboundedSender<Bytes>);

impl EventSender {
    /// Sends a message, unless the client has left.
    fn send(&self, message: &Value) {
        let _ = self.0.send(format!("event: message\ndata: {message}\n\n").into());
    }
}

struct EventBody(mpsc::UnboundedReceiver<Bytes>);

impl Body for EventBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|event| event.map(|bytes| Ok(Frame::data(bytes))))
    }
}

fn event_stream() -> (EventSender, HttpResponse<ResponseBody>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let mut response = HttpResponse::new(EventBody(receiver).boxed_unsync());
    let media = header::HeaderValue::from_static("text/event-stream");
    response.headers_mut().insert(header::CONTENT_TYPE, media);
    (EventSender(sender), response)
}

fn respond(status: StatusCode, message: &Value) -> HttpResponse<ResponseBody> {
    let mut response = HttpResponse::new(Full::from(message.to_string()).boxed_unsync());
    *response.status_mut() = status;
    let media = header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, media);
    response
}

fn empty(status: StatusCode) -> HttpResponse<ResponseBody> {
    let mut response = HttpResponse::new(Full::default().boxed_unsync());
    *response.status_mut() = status;
    response
}

impl fmt::Display for ConnectionCut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the connection is cut")
    }
}

impl std::error::Error for ConnectionCut {}

const SESSION_HEADER: &str = "mcp-session-id";
const SESSION_NOT_FOUND: i64 = -32001;

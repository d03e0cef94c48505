//! One HTTP request to the MCP server from its arrival to its response, with the faults that strike
//! it.
//!
//! | request | response |
//! |---|---|
//! | `POST /mcp` | the JSON-RPC response as JSON or as an event stream; 202 if there is none |
//! | `GET /mcp` | the session's event stream, or the rest of another one (`Last-Event-ID`) |
//! | `DELETE /mcp` | the end of the session |

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::{HeaderMap, Method, Request, Response};
use serde_json::Value;

use super::conn::{Conn, CutBody};
use super::header_checks;
use super::reply;
use super::site::HttpSite;
use super::stream::{EventStream, StreamReader};
use crate::armed_faults::MatchedFaults;
use crate::auth_server::{self, PortOwner, Protection};
use crate::canned_response::CannedResponse;
use crate::engine::{Era, PendingResponse, ResponsePlan, StreamKind};
use crate::fault::FaultKind;
use crate::message_log::{ReceivedMessage, called_tool};
use crate::rpc::{self, INVALID_REQUEST, PARSE_ERROR};
use crate::script::Eras;
use crate::sync::pause;

pub(super) type ResponseBody = UnsyncBoxBody<Bytes, Infallible>;
pub(crate) type HttpResponse = Response<ResponseBody>;

/// The maximum size of a request body in bytes; no test sends more.
const MAX_BODY_BYTES: usize = 64 << 20;

/// The context of one request.
pub(super) struct Exchange {
    pub(super) site: Arc<HttpSite>,
    pub(super) conn: Arc<Conn>,
    pub(super) faults: MatchedFaults<FaultKind>,
    /// The JSON-RPC id of the request.
    pub(super) id: Value,
}

pub(super) async fn serve_request(
    site: Arc<HttpSite>,
    conn: Arc<Conn>,
    request: Request<Incoming>,
) -> HttpResponse {
    let (head, body) = request.into_parts();
    let body = match Limited::new(body, MAX_BODY_BYTES).collect().await {
        Ok(body) => body.to_bytes(),
        Err(_) => return full_response(&CannedResponse::new(413), &Value::Null),
    };
    let message: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let method = match (&message["method"], &head.method) {
        (Value::String(method), &Method::POST) => method.clone(),
        (_, &Method::POST) if message.is_object() => "response".to_owned(),
        (_, http) => http.to_string(),
    };
    let script = site.engine.script();
    let sse_legacy = script.http.sse_legacy;
    let protected = script.http.protected.as_ref();
    let oauth_endpoints = protected.filter(|_| Protection::owns_path(head.uri.path()));
    let known_path = (head.uri.path() == "/mcp" || sse_legacy) && oauth_endpoints.is_none();
    let refusal = protected.filter(|_| known_path).and_then(|protected| protected.refusal(&head, &message));
    // Faults are taken before the request is recorded: a fault that a test arms when it sees a
    // request is meant for the next one.
    let faults = if known_path && refusal.is_none() {
        site.engine.armed.take_matching(&[&method], called_tool(&message))
    } else {
        MatchedFaults::default()
    };
    site.engine.message_log.record(ReceivedMessage {
        seq: 0,
        run: 0,
        connection: conn.number,
        http_method: head.method.to_string(),
        path: head.uri.path_and_query().map_or_else(String::new, ToString::to_string),
        headers: head
            .headers
            .iter()
            .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
            .collect(),
        session: header_checks::header_text(&head.headers, "mcp-session-id").map(str::to_owned),
        method,
        body: message.clone(),
    });
    if let Some(protected) = oauth_endpoints {
        return auth_server::serve_request(PortOwner::McpServer(protected), &conn, &head, &body).await;
    }
    if let Some(refusal) = refusal {
        return full_response(&refusal, &message["id"]);
    }
    if !known_path {
        return full_response(&CannedResponse::new(404), &Value::Null);
    }
    let id = message["id"].clone();
    let exchange = Exchange { site, conn, faults, id };
    if exchange.faults.drops_sessions() {
        exchange.site.engine.drop_sessions();
    }
    pause(exchange.faults.delay(false)).await;
    match exchange.faults.before_execution() {
        // Over HTTP+SSE an error arrives on the stream, like any other response.
        Some(FaultKind::Error(error)) if !sse_legacy => {
            return reply::respond_when_done(&exchange, None, exchange.error_response(error)).await;
        }
        None | Some(FaultKind::Error(_)) => {}
        Some(fault) => return exchange.fail_response(fault).await,
    }
    if sse_legacy {
        return exchange.handle_sse_legacy(&head, &message).await;
    }
    match head.method {
        Method::POST => exchange.handle_post(&head.headers, &message).await,
        Method::GET => exchange.handle_get(&head.headers).await,
        Method::DELETE => exchange.handle_delete(&head.headers).await,
        _ => full_response(&CannedResponse::new(405).header("allow", "POST, GET, DELETE"), &Value::Null),
    }
}

impl Exchange {
    async fn handle_post(&self, headers: &HeaderMap, message: &Value) -> HttpResponse {
        let engine = &self.site.engine;
        let version = header_checks::header_text(headers, "mcp-protocol-version");
        let era = engine.message_era(message, version);
        let method = message["method"].as_str().unwrap_or("response");
        let admitted = header_checks::check_content_types(headers).and_then(|()| match era {
            Era::Legacy => header_checks::check_session(engine, headers, method),
            Era::Modern => header_checks::check_mirrored_headers(engine, headers, message).map(|()| None),
        });
        let session = match admitted {
            Ok(session) => session,
            Err(answer) => return self.respond(&answer).await,
        };
        match message {
            Value::Object(_) => {
                let plan = engine.handle_message(era, session.as_deref(), message);
                reply::respond_to_plan(self, session.as_deref(), plan).await
            }
            Value::Array(batch) => self.handle_batch(session.as_deref(), batch).await,
            Value::Null => {
                self.respond(&header_checks::error_response(400, PARSE_ERROR, "Parse error")).await
            }
            _ => self.respond(&header_checks::error_response(400, INVALID_REQUEST, "Invalid Request")).await,
        }
    }

    // BM-01
    /// Handles a batch, which only 2025-03-26 allows.
    async fn handle_batch(&self, session: Option<&str>, batch: &[Value]) -> HttpResponse {
        let engine = &self.site.engine;
        let version = engine.with_session(session, |session| session.version.clone());
        if version.as_deref() != Some("2025-03-26") {
            engine.message_log.record_violation("a batch outside 2025-03-26");
            return self
                .respond(&header_checks::error_response(400, INVALID_REQUEST, "Batches are not supported"))
                .await;
        }
        let mut answers = Vec::new();
        for message in batch {
            if let ResponsePlan::Work(work) = engine.handle_message(Era::Legacy, session, message) {
                let outlet = Arc::new(reply::SessionStreamOutlet::new(self, session));
                answers.push(engine.run_steps(work, outlet).await);
            }
        }
        if answers.is_empty() {
            return self.respond(&CannedResponse::new(202)).await;
        }
        self.respond(&CannedResponse::new(200).json(&Value::Array(answers))).await
    }

    async fn handle_get(&self, headers: &HeaderMap) -> HttpResponse {
        let engine = &self.site.engine;
        let script = engine.script();
        if script.eras == Eras::Modern || !script.http.get_stream {
            return self.respond(&CannedResponse::new(405).header("allow", "POST, DELETE")).await;
        }
        let accept = header_checks::header_text(headers, "accept").unwrap_or_default();
        if !accept.contains("text/event-stream") {
            return self
                .respond(&header_checks::error_response(406, -32000, "Client must accept text/event-stream"))
                .await;
        }
        let session = match header_checks::check_session(engine, headers, "GET") {
            Ok(session) => session,
            Err(answer) => return self.respond(&answer).await,
        };
        // HL-07: any stream of the session can be resumed, whatever request opened it.
        if let Some((number, next)) =
            header_checks::header_text(headers, "last-event-id").and_then(EventStream::parse_id)
            && let Some(stream) = self.site.find_stream(session.as_deref(), number)
        {
            return self.respond_with_stream(stream.open_reader(next)).await;
        }
        let stream = self.site.open_stream(session.as_deref());
        let reader = stream.open_reader(0);
        engine.register_outlet(StreamKind::Get, session.as_deref(), stream);
        self.respond_with_stream(reader).await
    }

    async fn handle_delete(&self, headers: &HeaderMap) -> HttpResponse {
        let engine = &self.site.engine;
        let script = engine.script();
        if script.eras == Eras::Modern || !script.http.delete || !script.http.sessions {
            return self.respond(&CannedResponse::new(405).header("allow", "POST, GET")).await;
        }
        match header_checks::check_session(engine, headers, "DELETE") {
            Ok(session) => {
                let id = session.unwrap_or_default();
                engine.close_session(&id);
                self.site.close_session_streams(&id);
                self.respond(&CannedResponse::new(200)).await
            }
            Err(answer) => self.respond(&answer).await,
        }
    }

    /// Returns an error in place of the response, without executing anything.
    pub(super) fn error_response(&self, error: &Value) -> PendingResponse {
        let response = serde_json::json!({"jsonrpc": "2.0", "id": self.id, "error": error});
        PendingResponse::ready(Era::Legacy, &self.id, response)
    }

    /// Responds with an event stream.
    pub(super) async fn respond_with_stream(&self, mut reader: StreamReader) -> HttpResponse {
        if let Some(FaultKind::EndAfter(events)) = self.faults.after_execution() {
            reader.events_left = *events;
        }
        let answer = CannedResponse::new(200)
            .header("content-type", "text/event-stream")
            .header("cache-control", "no-cache")
            .header("x-accel-buffering", "no");
        self.finish_response(&answer, reader).await
    }

    /// Responds with a body of known length.
    pub(super) async fn respond(&self, answer: &CannedResponse) -> HttpResponse {
        self.finish_response(answer, Full::from(answer.body_for(&self.id))).await
    }

    /// Applies the faults that strike after the request was executed, and builds the response.
    async fn finish_response<B>(&self, answer: &CannedResponse, body: B) -> HttpResponse
    where
        B: http_body::Body<Data = Bytes, Error = Infallible> + Unpin + Send + 'static,
    {
        pause(self.faults.delay(true)).await;
        match self.faults.after_execution() {
            Some(FaultKind::CutAfter(bytes)) => {
                let body = CutBody { body, left: *bytes, conn: self.conn.clone() };
                build_response(answer, UnsyncBoxBody::new(body))
            }
            Some(FaultKind::EndAfter(_) | FaultKind::Reply(_) | FaultKind::Error(_)) | None => {
                build_response(answer, UnsyncBoxBody::new(body))
            }
            Some(fault) => self.fail_response(fault).await,
        }
    }

    /// Applies a fault that leaves nothing of the response.
    async fn fail_response(&self, fault: &FaultKind) -> HttpResponse {
        match fault {
            FaultKind::Answer(answer) => return full_response(answer, &self.id),
            FaultKind::Raw { bytes, content_type } => {
                let answer =
                    CannedResponse::new(200).header("content-type", content_type).body(bytes.clone());
                return full_response(&answer, &self.id);
            }
            FaultKind::Reset => self.conn.reset(),
            FaultKind::Close => self.conn.close(),
            // Silence; faults of stdio are rejected when they are armed.
            _ => {}
        }
        pending().await
    }
}

/// Builds a response that no further fault changes. `id` is the JSON-RPC id of the request.
pub(crate) fn full_response(answer: &CannedResponse, id: &Value) -> HttpResponse {
    build_response(answer, UnsyncBoxBody::new(Full::from(answer.body_for(id))))
}

fn build_response(answer: &CannedResponse, body: ResponseBody) -> HttpResponse {
    let mut response = Response::builder().status(answer.status);
    for (name, value) in &answer.headers {
        response = response.header(name, value);
    }
    response.body(body).expect("a test dictates a valid status and valid headers")
}

/// Replaces the result or error of a response if a fault says so.
pub(super) fn apply_response_fault(fault: Option<&FaultKind>, response: Value) -> Value {
    match fault {
        Some(FaultKind::Reply(result)) => rpc::result(&response["id"], result.clone()),
        Some(FaultKind::Error(error)) => {
            serde_json::json!({"jsonrpc": "2.0", "id": response["id"], "error": error})
        }
        _ => response,
    }
}

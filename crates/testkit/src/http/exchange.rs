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

use super::conn::{Conn, Cut};
use super::gate;
use super::reply;
use super::site::Site;
use super::stream::{Reader, Stream};
use crate::answer::Answer;
use crate::auth_server::{self, Ground};
use crate::engine::{Era, Plan, Via, Work};
use crate::fault::{Kind, Struck};
use crate::ledger::{Received, tool_of};
use crate::rpc::{self, INVALID_REQUEST, PARSE_ERROR};
use crate::script::Eras;
use crate::sync::pause;

pub(super) type ResponseBody = UnsyncBoxBody<Bytes, Infallible>;
pub(super) type HttpResponse = Response<ResponseBody>;

/// The maximum size of a request body in bytes; no test sends more.
const BODY_LIMIT: usize = 64 << 20;

/// The context of one request.
pub(super) struct Exchange {
    pub(super) site: Arc<Site>,
    pub(super) conn: Arc<Conn>,
    pub(super) struck: Struck,
    /// The JSON-RPC id of the request.
    pub(super) id: Value,
}

pub(super) async fn serve(site: Arc<Site>, conn: Arc<Conn>, request: Request<Incoming>) -> HttpResponse {
    let (head, body) = request.into_parts();
    let body = match Limited::new(body, BODY_LIMIT).collect().await {
        Ok(body) => body.to_bytes(),
        Err(_) => return whole(&Answer::new(413), &Value::Null),
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
    let beside = protected.filter(|protected| protected.has(head.uri.path()));
    let known_path = (head.uri.path() == "/mcp" || sse_legacy) && beside.is_none();
    let refusal = protected.filter(|_| known_path).and_then(|protected| protected.refusal(&head, &message));
    // Faults are taken before the request is recorded: a fault that a test arms when it sees a
    // request is meant for the next one.
    let struck = if known_path && refusal.is_none() {
        site.engine.armed.take(&method, tool_of(&message))
    } else {
        Struck::default()
    };
    site.engine.ledger.record(Received {
        seq: 0,
        run: 0,
        connection: conn.number,
        http: head.method.to_string(),
        path: head.uri.path_and_query().map_or_else(String::new, ToString::to_string),
        headers: head
            .headers
            .iter()
            .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
            .collect(),
        session: gate::text(&head.headers, "mcp-session-id").map(str::to_owned),
        method,
        body: message.clone(),
    });
    if let Some(protected) = beside {
        return auth_server::serve(Ground::Beside(protected), &conn, &head, &body).await;
    }
    if let Some(refusal) = refusal {
        return whole(&refusal, &message["id"]);
    }
    if !known_path {
        return whole(&Answer::new(404), &Value::Null);
    }
    let id = message["id"].clone();
    let exchange = Exchange { site, conn, struck, id };
    if exchange.struck.drops_sessions() {
        exchange.site.engine.drop_sessions();
    }
    pause(exchange.struck.delay(false)).await;
    match exchange.struck.before() {
        // Over HTTP+SSE an error arrives on the stream, like any other response.
        Some(Kind::Error(error)) if !sse_legacy => {
            return reply::work(&exchange, None, exchange.error(error)).await;
        }
        None | Some(Kind::Error(_)) => {}
        Some(fault) => return exchange.fail(fault).await,
    }
    if sse_legacy {
        return exchange.sse_legacy(&head, &message).await;
    }
    match head.method {
        Method::POST => exchange.post(&head.headers, &message).await,
        Method::GET => exchange.get(&head.headers).await,
        Method::DELETE => exchange.delete(&head.headers).await,
        _ => whole(&Answer::new(405).header("allow", "POST, GET, DELETE"), &Value::Null),
    }
}

impl Exchange {
    async fn post(&self, headers: &HeaderMap, message: &Value) -> HttpResponse {
        let engine = &self.site.engine;
        let version = gate::text(headers, "mcp-protocol-version");
        let era = engine.era(message, version);
        let method = message["method"].as_str().unwrap_or("response");
        let admitted = gate::content(headers).and_then(|()| match era {
            Era::Legacy => gate::session(engine, headers, method),
            Era::Modern => gate::mirrored(engine, headers, message).map(|()| None),
        });
        let session = match admitted {
            Ok(session) => session,
            Err(answer) => return self.answer(&answer).await,
        };
        match message {
            Value::Object(_) => {
                let plan = engine.handle(era, session.as_deref(), message);
                reply::plan(self, session.as_deref(), plan).await
            }
            Value::Array(batch) => self.batch(session.as_deref(), batch).await,
            Value::Null => self.answer(&gate::refuse(400, PARSE_ERROR, "Parse error")).await,
            _ => self.answer(&gate::refuse(400, INVALID_REQUEST, "Invalid Request")).await,
        }
    }

    // BM-01
    /// Handles a batch, which only 2025-03-26 allows.
    async fn batch(&self, session: Option<&str>, batch: &[Value]) -> HttpResponse {
        let engine = &self.site.engine;
        let version = engine.with_session(session, |session| session.version.clone());
        if version.as_deref() != Some("2025-03-26") {
            engine.ledger.violation("a batch outside 2025-03-26");
            return self.answer(&gate::refuse(400, INVALID_REQUEST, "Batches are not supported")).await;
        }
        let mut answers = Vec::new();
        for message in batch {
            if let Plan::Work(work) = engine.handle(Era::Legacy, session, message) {
                let beside = Arc::new(reply::Beside::new(self, session));
                answers.push(engine.carry_out(work, beside).await);
            }
        }
        if answers.is_empty() {
            return self.answer(&Answer::new(202)).await;
        }
        self.answer(&Answer::new(200).json(&Value::Array(answers))).await
    }

    async fn get(&self, headers: &HeaderMap) -> HttpResponse {
        let engine = &self.site.engine;
        let script = engine.script();
        if script.eras == Eras::Modern || !script.http.get_stream {
            return self.answer(&Answer::new(405).header("allow", "POST, DELETE")).await;
        }
        let accept = gate::text(headers, "accept").unwrap_or_default();
        if !accept.contains("text/event-stream") {
            return self.answer(&gate::refuse(406, -32000, "Client must accept text/event-stream")).await;
        }
        let session = match gate::session(engine, headers, "GET") {
            Ok(session) => session,
            Err(answer) => return self.answer(&answer).await,
        };
        // HL-07: any stream of the session can be resumed, whatever request opened it.
        if let Some((number, next)) = gate::text(headers, "last-event-id").and_then(Stream::parse_id)
            && let Some(stream) = self.site.find_stream(session.as_deref(), number)
        {
            return self.stream(stream.reader(next)).await;
        }
        let stream = self.site.open_stream(session.as_deref());
        let reader = stream.reader(0);
        engine.register(Via::Get, session.as_deref(), stream);
        self.stream(reader).await
    }

    async fn delete(&self, headers: &HeaderMap) -> HttpResponse {
        let engine = &self.site.engine;
        let script = engine.script();
        if script.eras == Eras::Modern || !script.http.delete || !script.http.sessions {
            return self.answer(&Answer::new(405).header("allow", "POST, GET")).await;
        }
        match gate::session(engine, headers, "DELETE") {
            Ok(session) => {
                let id = session.unwrap_or_default();
                engine.close_session(&id);
                self.site.close_streams_of(&id);
                self.answer(&Answer::new(200)).await
            }
            Err(answer) => self.answer(&answer).await,
        }
    }

    /// Returns an error in place of the response, without executing anything.
    pub(super) fn error(&self, error: &Value) -> Work {
        let response = serde_json::json!({"jsonrpc": "2.0", "id": self.id, "error": error});
        Work::ready(Era::Legacy, &self.id, response)
    }

    /// Responds with an event stream.
    pub(super) async fn stream(&self, mut reader: Reader) -> HttpResponse {
        if let Some(Kind::EndAfter(events)) = self.struck.after() {
            reader.events_left = *events;
        }
        let answer = Answer::new(200)
            .header("content-type", "text/event-stream")
            .header("cache-control", "no-cache")
            .header("x-accel-buffering", "no");
        self.finish(&answer, reader).await
    }

    /// Responds with a body of known length.
    pub(super) async fn answer(&self, answer: &Answer) -> HttpResponse {
        self.finish(answer, Full::from(answer.body_for(&self.id))).await
    }

    /// Applies the faults that strike after the request was executed, and builds the response.
    async fn finish<B>(&self, answer: &Answer, body: B) -> HttpResponse
    where
        B: http_body::Body<Data = Bytes, Error = Infallible> + Unpin + Send + 'static,
    {
        pause(self.struck.delay(true)).await;
        let mut answer = answer.clone();
        answer.headers.extend(self.site.engine.script().http.reply_headers.iter().cloned());
        match self.struck.after() {
            Some(Kind::CutAfter(bytes)) => {
                let body = Cut { body, left: *bytes, conn: self.conn.clone() };
                respond(&answer, UnsyncBoxBody::new(body))
            }
            Some(Kind::EndAfter(_) | Kind::Reply(_) | Kind::Error(_)) | None => {
                respond(&answer, UnsyncBoxBody::new(body))
            }
            Some(fault) => self.fail(fault).await,
        }
    }

    /// Applies a fault that leaves nothing of the response.
    async fn fail(&self, fault: &Kind) -> HttpResponse {
        match fault {
            Kind::Answer(answer) => return whole(answer, &self.id),
            Kind::Raw { bytes, content_type } => {
                let answer = Answer::new(200).header("content-type", content_type).body(bytes.clone());
                return whole(&answer, &self.id);
            }
            Kind::Reset => self.conn.reset(),
            Kind::Close => self.conn.close(),
            // Silence; faults of stdio are rejected when they are armed.
            _ => {}
        }
        pending().await
    }
}

/// Builds a response that no further fault changes.
fn whole(answer: &Answer, id: &Value) -> HttpResponse {
    respond(answer, UnsyncBoxBody::new(Full::from(answer.body_for(id))))
}

fn respond(answer: &Answer, body: ResponseBody) -> HttpResponse {
    let mut response = Response::builder().status(answer.status);
    for (name, value) in &answer.headers {
        response = response.header(name, value);
    }
    response.body(body).expect("a test dictates a valid status and valid headers")
}

/// Replaces the result or error of a response if a fault says so.
pub(super) fn altered(fault: Option<&Kind>, response: Value) -> Value {
    match fault {
        Some(Kind::Reply(result)) => rpc::result(&response["id"], result.clone()),
        Some(Kind::Error(error)) => {
            serde_json::json!({"jsonrpc": "2.0", "id": response["id"], "error": error})
        }
        _ => response,
    }
}

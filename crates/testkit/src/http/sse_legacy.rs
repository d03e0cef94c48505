//! The HTTP+SSE transport of 2024-11-05: one event stream per session, which carries all responses.
//!
//! | request | response |
//! |---|---|
//! | `GET /mcp` | the stream, which begins with the `endpoint` event; its end ends the session |
//! | `POST` to the endpoint | 202; the JSON-RPC response is sent on the stream |
//! | `POST /mcp` without a session | 405, so that a client that tries Streamable HTTP first falls back |

use std::future::pending;
use std::sync::Arc;

use hyper::http::request::Parts;
use hyper::{HeaderMap, Method};
use serde_json::Value;

use super::exchange::{Exchange, HttpResponse, altered};
use super::gate;
use super::site::Site;
use super::stream::Stream;
use crate::answer::Answer;
use crate::engine::{Era, Outlet, Plan, Via, Work};
use crate::fault::Kind;
use crate::sync::pause;

const STREAM: &str = "/mcp";
const MESSAGES: &str = "/messages";

impl Exchange {
    /// Handles a request to a server that speaks only this transport.
    pub(super) async fn sse_legacy(&self, head: &Parts, message: &Value) -> HttpResponse {
        let session = session_of(head);
        match (&head.method, head.uri.path()) {
            (&Method::GET, STREAM) => self.sse_open(&head.headers).await,
            (&Method::POST, path) if path.starts_with(MESSAGES) || (path == STREAM && session.is_some()) => {
                self.check_headers(&head.headers);
                self.sse_post(session, message).await
            }
            (_, STREAM) => self.answer(&self.site.engine.script().http.sse.refusal).await,
            _ => self.answer(&Answer::new(404)).await,
        }
    }

    async fn sse_open(&self, headers: &HeaderMap) -> HttpResponse {
        let accept = gate::text(headers, "accept").unwrap_or_default();
        if !accept.contains("text/event-stream") {
            return self.answer(&Answer::new(406)).await;
        }
        let engine = &self.site.engine;
        let session = format!("sse-{}", engine.number());
        let stream = self.site.open_stream(Some(&session));
        // Through a proxy the client uses another origin than the server's own.
        let host = gate::text(headers, "host").map_or_else(|| self.site.addr.to_string(), str::to_owned);
        if let Some(event) = self.site.endpoint_event(&host, &session) {
            stream.push(event);
        }
        let mut reader = stream.reader(0);
        // HS-03
        let (site, ending) = (self.site.clone(), session.clone());
        reader.on_drop = Some(Box::new(move || {
            site.engine.close_session(&ending);
            site.engine.abandon_calls(&ending);
            site.close_streams_of(&ending);
        }));
        engine.register(Via::Any, Some(&session), stream);
        self.stream(reader).await
    }

    // HS-03
    /// Records the headers of Streamable HTTP, which do not exist in this transport.
    fn check_headers(&self, headers: &HeaderMap) {
        for name in ["mcp-session-id", "mcp-protocol-version"] {
            if headers.contains_key(name) {
                self.site.engine.ledger.violation(format!("{name} over HTTP+SSE"));
            }
        }
    }

    async fn sse_post(&self, session: Option<&str>, message: &Value) -> HttpResponse {
        let engine = &self.site.engine;
        let script = engine.script();
        let found = session.and_then(|session| Some((session, self.site.stream_of(session)?)));
        let Some((session, stream)) = found else {
            if script.http.sse.gone_silent {
                return pending().await;
            }
            return self.answer(&script.http.session_gone).await;
        };
        if !message.is_object() {
            return self.answer(&Answer::new(400).text("Could not parse message")).await;
        }
        let plan = match self.struck.before() {
            Some(Kind::Error(error)) => Plan::Work(self.error(error)),
            _ => engine.handle(Era::Legacy, Some(session), message),
        };
        match plan {
            Plan::Work(work) if script.http.sse.in_post => {
                let response = engine.carry_out(work, stream.clone()).await;
                let response = altered(self.struck.after(), response);
                return self.answer(&Answer::new(200).json(&response)).await;
            }
            Plan::Work(work) => self.answer_later(session, stream, work),
            Plan::Accepted | Plan::Listen { .. } => {}
        }
        self.answer(&script.http.sse.taken).await
    }

    /// Sends the response on the stream, unless a fault replaces it.
    fn answer_later(&self, session: &str, stream: Arc<Stream>, work: Work) {
        let fault = self.struck.after().cloned();
        let lost = matches!(
            fault,
            Some(Kind::Answer(_) | Kind::Raw { .. } | Kind::Reset | Kind::Close | Kind::Silent)
        );
        if lost {
            return;
        }
        let (engine, id, delay) = (self.site.engine.clone(), work.id.clone(), self.struck.delay(true));
        let (owner, call) = (session.to_owned(), id.clone());
        let task = self.site.tasks.spawn(async move {
            let response = engine.carry_out(work, stream.clone()).await;
            pause(delay).await;
            stream.say(altered(fault.as_ref(), response));
            engine.ended(Some(&owner), &call);
        });
        self.site.engine.began(Some(session), &id, task.abort_handle());
    }
}

impl Site {
    /// Returns the event that names the URL for POSTs, if the script has one.
    fn endpoint_event(&self, host: &str, session: &str) -> Option<String> {
        let script = self.engine.script();
        let endpoint = script.http.sse.endpoint.as_ref()?;
        let endpoint = endpoint.replace("$session", session).replace("$origin", &format!("http://{host}"));
        Some(format!("event: endpoint\ndata: {endpoint}\n\n"))
    }

    pub(super) fn repeat_endpoint(&self) -> usize {
        let streams = self.session_streams().into_iter().filter(|(_, stream)| stream.is_open());
        let said = streams.filter_map(|(session, stream)| {
            stream.push(self.endpoint_event(&self.addr.to_string(), &session)?);
            Some(())
        });
        said.count()
    }
}

fn session_of(head: &Parts) -> Option<&str> {
    let mut pairs = head.uri.query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
    match pairs.find(|(name, _)| matches!(*name, "session_id" | "sessionId")) {
        Some((_, session)) => Some(session),
        None => head.uri.path().strip_prefix(MESSAGES)?.strip_prefix('/').filter(|path| !path.is_empty()),
    }
}

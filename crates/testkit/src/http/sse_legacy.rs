//! The HTTP+SSE transport of 2024-11-05: one event stream per session, answers only on it.
//!
//! | request | answered with |
//! |---|---|
//! | `GET /mcp` | the stream, which begins with the `endpoint` event; its end ends the session |
//! | `POST /messages?session_id=…` | 202; the answer comes on the stream |
//! | `POST /mcp` | 405, so that a client that tries Streamable HTTP first falls back |

use std::sync::Arc;

use hyper::http::request::Parts;
use hyper::{HeaderMap, Method};
use serde_json::Value;

use super::exchange::{Exchange, HttpResponse, altered};
use super::gate;
use super::stream::Stream;
use crate::answer::Answer;
use crate::engine::{Era, Outlet, Plan, Via, Work};
use crate::fault::Kind;
use crate::sync::pause;

pub(super) const MESSAGES: &str = "/messages";

impl Exchange {
    /// One request to a server that speaks only this transport.
    pub(super) async fn sse_legacy(&self, head: &Parts, message: &Value) -> HttpResponse {
        match (&head.method, head.uri.path()) {
            (&Method::POST, MESSAGES) => self.sse_post(session_of(head), message).await,
            (&Method::GET, "/mcp") => self.sse_open(&head.headers).await,
            (_, "/mcp") => self.answer(&Answer::new(405).header("allow", "GET")).await,
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
        let endpoint = engine.script().http.sse_endpoint.replace("$session", &session);
        stream.push(format!("event: endpoint\ndata: {endpoint}\n\n"));
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

    async fn sse_post(&self, session: Option<&str>, message: &Value) -> HttpResponse {
        let engine = &self.site.engine;
        let found = session.and_then(|session| Some((session, self.site.stream_of(session)?)));
        let Some((session, stream)) = found else {
            return self.answer(&engine.script().http.session_gone).await;
        };
        if !message.is_object() {
            return self.answer(&Answer::new(400).text("Could not parse message")).await;
        }
        if let Plan::Work(work) = engine.handle(Era::Legacy, Some(session), message) {
            self.answer_later(session, stream, work);
        }
        self.answer(&Answer::new(202).text("Accepted")).await
    }

    /// Answers on the stream, unless a fault takes the place of the answer.
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
            let response = engine.carry_out(work, &*stream).await;
            pause(delay).await;
            stream.say(altered(fault.as_ref(), response));
            engine.ended(Some(&owner), &call);
        });
        self.site.engine.began(Some(session), &id, task.abort_handle());
    }
}

fn session_of(head: &Parts) -> Option<&str> {
    head.uri.query()?.split('&').find_map(|pair| pair.strip_prefix("session_id="))
}

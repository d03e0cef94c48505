//! The HTTP+SSE transport of 2024-11-05: one event stream per session, which carries all responses.
//!
//! | request | response |
//! |---|---|
//! | `GET /mcp` | the stream, which begins with the `endpoint` event; its end ends the session |
//! | `POST` to the endpoint | 202; the JSON-RPC response is sent on the stream |
//! | `POST /mcp` without a session | 405, so that a client that tries Streamable HTTP first falls back |

use std::sync::Arc;

use hyper::http::request::Parts;
use hyper::{HeaderMap, Method};
use serde_json::Value;

use super::exchange::{Exchange, HttpResponse, apply_response_fault};
use super::header_checks;
use super::site::HttpSite;
use super::stream::EventStream;
use crate::canned_response::CannedResponse;
use crate::engine::{Era, Outlet, PendingResponse, ResponsePlan, StreamKind};
use crate::fault::FaultKind;
use crate::sync::pause;

const STREAM_PATH: &str = "/mcp";
const MESSAGES_PATH: &str = "/messages";

impl Exchange {
    /// Handles a request to a server that speaks only this transport.
    pub(super) async fn handle_sse_legacy(&self, head: &Parts, message: &Value) -> HttpResponse {
        let session = session_in_uri(head);
        match (&head.method, head.uri.path()) {
            (&Method::GET, STREAM_PATH) => self.open_sse_stream(&head.headers).await,
            (&Method::POST, path)
                if path.starts_with(MESSAGES_PATH) || (path == STREAM_PATH && session.is_some()) =>
            {
                self.check_streamable_headers(&head.headers);
                self.handle_sse_post(session, message).await
            }
            (_, STREAM_PATH) => self.respond(&self.site.engine.script().http.sse.refusal).await,
            _ => self.respond(&CannedResponse::new(404)).await,
        }
    }

    async fn open_sse_stream(&self, headers: &HeaderMap) -> HttpResponse {
        let accept = header_checks::header_text(headers, "accept").unwrap_or_default();
        if !accept.contains("text/event-stream") {
            return self.respond(&CannedResponse::new(406)).await;
        }
        let engine = &self.site.engine;
        let session = format!("sse-{}", engine.next_number());
        let stream = self.site.open_stream(Some(&session));
        // Through a proxy the client uses another origin than the server's own.
        let host = header_checks::header_text(headers, "host")
            .map_or_else(|| self.site.port.addr().to_string(), str::to_owned);
        stream.push(self.site.endpoint_event(&host, &session));
        let mut reader = stream.open_reader(0);
        // HS-03
        let (site, ending) = (self.site.clone(), session.clone());
        reader.on_drop = Some(Box::new(move || {
            site.engine.close_session(&ending);
            site.engine.abort_session_calls(&ending);
            site.close_session_streams(&ending);
        }));
        engine.register_outlet(StreamKind::Any, Some(&session), stream);
        self.respond_with_stream(reader).await
    }

    // HS-03
    /// Records the headers of Streamable HTTP, which do not exist in this transport.
    fn check_streamable_headers(&self, headers: &HeaderMap) {
        for name in ["mcp-session-id", "mcp-protocol-version"] {
            if headers.contains_key(name) {
                self.site.engine.message_log.record_violation(format!("{name} over HTTP+SSE"));
            }
        }
    }

    async fn handle_sse_post(&self, session: Option<&str>, message: &Value) -> HttpResponse {
        let engine = &self.site.engine;
        let script = engine.script();
        let found = session.and_then(|session| Some((session, self.site.session_stream(session)?)));
        let Some((session, stream)) = found else {
            return self.respond(&script.http.session_gone).await;
        };
        if !message.is_object() {
            return self.respond(&CannedResponse::new(400).text("Could not parse message")).await;
        }
        let plan = match self.faults.before_execution() {
            Some(FaultKind::Error(error)) => ResponsePlan::Work(self.error_response(error)),
            _ => engine.handle_message(Era::Legacy, Some(session), message),
        };
        match plan {
            ResponsePlan::Work(work) => self.respond_on_stream(session, stream, work),
            ResponsePlan::Accepted | ResponsePlan::Subscribe { .. } => {}
        }
        self.respond(&CannedResponse::new(202).text("Accepted")).await
    }

    /// Sends the response on the stream, unless a fault replaces it.
    fn respond_on_stream(&self, session: &str, stream: Arc<EventStream>, work: PendingResponse) {
        let fault = self.faults.after_execution().cloned();
        let lost = matches!(
            fault,
            Some(
                FaultKind::Answer(_)
                    | FaultKind::Raw { .. }
                    | FaultKind::Reset
                    | FaultKind::Close
                    | FaultKind::Silent
            )
        );
        if lost {
            return;
        }
        let (engine, id, delay) = (self.site.engine.clone(), work.id.clone(), self.faults.delay(true));
        let (owner, call) = (session.to_owned(), id.clone());
        let task = self.site.spawner.spawn(async move {
            let response = engine.run_steps(work, stream.clone()).await;
            pause(delay).await;
            stream.send(apply_response_fault(fault.as_ref(), response));
            engine.unregister_call(Some(&owner), &call);
        });
        self.site.engine.register_call(Some(session), &id, task.abort_handle());
    }
}

impl HttpSite {
    /// Returns the event that names the URL for POSTs.
    fn endpoint_event(&self, host: &str, session: &str) -> String {
        let script = self.engine.script();
        let endpoint = &script.http.sse.endpoint;
        let endpoint = endpoint.replace("$session", session).replace("$origin", &format!("http://{host}"));
        format!("event: endpoint\ndata: {endpoint}\n\n")
    }

    pub(super) fn repeat_endpoint(&self) -> usize {
        let streams = self.session_streams().into_iter().filter(|(_, stream)| stream.is_open());
        let said = streams.inspect(|(session, stream)| {
            stream.push(self.endpoint_event(&self.port.addr().to_string(), session));
        });
        said.count()
    }
}

fn session_in_uri(head: &Parts) -> Option<&str> {
    let mut pairs = head.uri.query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
    match pairs.find(|(name, _)| matches!(*name, "session_id" | "sessionId")) {
        Some((_, session)) => Some(session),
        None => {
            head.uri.path().strip_prefix(MESSAGES_PATH)?.strip_prefix('/').filter(|path| !path.is_empty())
        }
    }
}

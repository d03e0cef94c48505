//! Execution of a response plan over HTTP: as JSON, as an event stream, or as a subscription.

use std::sync::Arc;

use serde_json::Value;
use tokio::task::AbortHandle;

use super::exchange::{Exchange, HttpResponse, apply_response_fault};
use super::stream::EventStream;
use crate::canned_response::CannedResponse;
use crate::engine::{Engine, Era, Outlet, PendingResponse, ResponsePlan, Step, StreamKind};
use crate::fault::FaultKind;
use crate::script::ReplyFormat;

pub(super) async fn respond_to_plan(
    exchange: &Exchange,
    session: Option<&str>,
    plan: ResponsePlan,
) -> HttpResponse {
    match plan {
        ResponsePlan::Accepted => exchange.respond(&CannedResponse::new(202)).await,
        ResponsePlan::Work(work) => respond_when_done(exchange, session, work).await,
        ResponsePlan::Subscribe { listening, acknowledged } => {
            let stream = exchange.site.open_stream(None);
            let mut reader = stream.open_reader(0);
            // HM-12: closing the response ends the subscription.
            let (closing, engine, listen) =
                (stream.clone(), exchange.site.engine.clone(), listening.id.clone());
            reader.on_drop = Some(Box::new(move || {
                if !closing.is_finished() {
                    closing.finish();
                    engine.message_log.record_cancellation(listen);
                }
            }));
            stream.send(acknowledged);
            exchange.site.engine.register_subscription(None, listening, stream);
            exchange.respond_with_stream(reader).await
        }
    }
}

pub(super) async fn respond_when_done(
    exchange: &Exchange,
    session: Option<&str>,
    work: PendingResponse,
) -> HttpResponse {
    let script = exchange.site.engine.script();
    let has_messages = work.steps.iter().any(|step| !matches!(step, Step::Pause(_)));
    let as_stream = match script.reply {
        _ if work.status != 200 => false,
        _ if matches!(exchange.faults.after_execution(), Some(FaultKind::EndAfter(_))) => true,
        ReplyFormat::Auto => has_messages,
        ReplyFormat::Json => false,
        ReplyFormat::Sse => true,
    };
    // The session id of `initialize` goes into a header, which an event stream has as well.
    if as_stream {
        respond_sse(exchange, session, work).await
    } else {
        respond_json(exchange, session, work).await
    }
}

async fn respond_json(exchange: &Exchange, session: Option<&str>, work: PendingResponse) -> HttpResponse {
    let engine = exchange.site.engine.clone();
    let outlet = Arc::new(SessionStreamOutlet::new(exchange, session));
    let answer = with_session_header(CannedResponse::new(work.status), &work);
    let (era, id, at_once) = (work.era, work.id.clone(), work.steps.is_empty());
    let response = if at_once {
        Some(engine.run_steps(work, outlet).await)
    } else {
        // In its own task: when a legacy client disconnects, the call continues (HL-10).
        let task = {
            let engine = engine.clone();
            exchange.site.spawner.spawn(async move { engine.run_steps(work, outlet).await })
        };
        engine.register_call(session, &id, task.abort_handle());
        let guard = (era == Era::Modern).then(|| CancelOnDrop::new(&engine, &id, task.abort_handle()));
        let response = task.await.ok().flatten();
        if let Some(guard) = guard {
            guard.disarm();
        }
        engine.unregister_call(session, &id);
        response
    };
    match response {
        Some(response) => {
            exchange
                .respond(&answer.json(&apply_response_fault(exchange.faults.after_execution(), response)))
                .await
        }
        // Canceled: no response is due.
        None => exchange.respond(&CannedResponse::new(202)).await,
    }
}

async fn respond_sse(exchange: &Exchange, session: Option<&str>, work: PendingResponse) -> HttpResponse {
    let engine = exchange.site.engine.clone();
    let stream = exchange.site.open_stream(work.opened_session.as_deref().or(session));
    let mut reader = stream.open_reader(0);
    engine.register_outlet(StreamKind::Post, session, stream.clone());
    let headers = with_session_header(CannedResponse::new(work.status), &work).headers;
    let (era, id) = (work.era, work.id.clone());
    let (owner, call) = (session.map(str::to_owned), id.clone());
    let task = {
        let (engine, stream, fault) =
            (engine.clone(), stream.clone(), exchange.faults.after_execution().cloned());
        exchange.site.spawner.spawn(async move {
            let _end = FinishOnDrop(stream.clone());
            let response = engine.run_steps(work, stream.clone()).await;
            let response = apply_response_fault(fault.as_ref(), response);
            stream.send(response);
            engine.unregister_call(owner.as_deref(), &call);
        })
    };
    engine.register_call(session, &id, task.abort_handle());
    if era == Era::Modern {
        let abandon = CancelOnDrop::new(&engine, &id, task.abort_handle());
        reader.on_drop = Some(Box::new(move || abandon.cancel_unless_done()));
    }
    let mut response = exchange.respond_with_stream(reader).await;
    for (name, value) in headers {
        let name: hyper::header::HeaderName = name.parse().expect("our own header");
        response.headers_mut().insert(name, value.parse().expect("our own value"));
    }
    response
}

fn with_session_header(answer: CannedResponse, work: &PendingResponse) -> CannedResponse {
    match &work.opened_session {
        Some(id) if !id.is_empty() => answer.header("mcp-session-id", id),
        _ => answer,
    }
}

/// The outlet for messages that accompany a JSON response: the session's GET stream.
pub(super) struct SessionStreamOutlet {
    engine: Arc<Engine>,
    session: Option<String>,
}

impl SessionStreamOutlet {
    pub(super) fn new(exchange: &Exchange, session: Option<&str>) -> Self {
        Self { engine: exchange.site.engine.clone(), session: session.map(str::to_owned) }
    }
}

impl Outlet for SessionStreamOutlet {
    fn send(&self, message: Value) -> bool {
        self.engine.send_in_session(self.session.as_deref(), &message)
    }

    fn is_open(&self) -> bool {
        true
    }
}

// HM-12
/// Cancels a modern request if its HTTP response is dropped before it is complete.
struct CancelOnDrop {
    engine: Arc<Engine>,
    id: Value,
    task: AbortHandle,
    armed: bool,
}

impl CancelOnDrop {
    fn new(engine: &Arc<Engine>, id: &Value, task: AbortHandle) -> Self {
        Self { engine: engine.clone(), id: id.clone(), task, armed: true }
    }

    fn disarm(mut self) {
        self.armed = false;
    }

    fn cancel_unless_done(mut self) {
        self.armed = !self.task.is_finished();
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if self.armed {
            self.task.abort();
            self.engine.cancel_call(None, &self.id);
        }
    }
}

struct FinishOnDrop(Arc<EventStream>);

impl Drop for FinishOnDrop {
    fn drop(&mut self) {
        self.0.finish();
        self.0.notify_waiters();
    }
}

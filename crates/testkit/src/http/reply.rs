//! Execution of a response plan over HTTP: as JSON, as an event stream, or as a subscription.

use std::sync::Arc;

use serde_json::Value;
use tokio::task::AbortHandle;

use super::exchange::{Exchange, HttpResponse, altered};
use super::stream::Stream;
use crate::answer::Answer;
use crate::engine::{Engine, Era, Outlet, Plan, Step, Via, Work};
use crate::fault::Kind;
use crate::script::ReplyAs;

pub(super) async fn plan(exchange: &Exchange, session: Option<&str>, plan: Plan) -> HttpResponse {
    match plan {
        Plan::Accepted => exchange.answer(&Answer::new(202)).await,
        Plan::Work(work) => self::work(exchange, session, work).await,
        Plan::Listen { listening, acknowledged } => {
            let stream = exchange.site.open_stream(None);
            let mut reader = stream.reader(0);
            // HM-12: closing the response ends the subscription.
            let (closing, engine, listen) =
                (stream.clone(), exchange.site.engine.clone(), listening.id.clone());
            reader.on_drop = Some(Box::new(move || {
                if !closing.is_finished() {
                    closing.finish();
                    engine.ledger.cancelled(listen);
                }
            }));
            stream.say(acknowledged);
            exchange.site.engine.register_listener(None, listening, stream);
            exchange.stream(reader).await
        }
    }
}

pub(super) async fn work(exchange: &Exchange, session: Option<&str>, work: Work) -> HttpResponse {
    let script = exchange.site.engine.script();
    let company = work.steps.iter().any(|step| !matches!(step, Step::Pause(_)));
    let as_stream = match script.reply {
        _ if work.status != 200 => false,
        _ if matches!(exchange.struck.after(), Some(Kind::EndAfter(_))) => true,
        ReplyAs::Auto => company,
        ReplyAs::Json => false,
        ReplyAs::Sse => true,
    };
    // The session id of `initialize` goes into a header, which an event stream has as well.
    if as_stream { stream(exchange, session, work).await } else { json(exchange, session, work).await }
}

async fn json(exchange: &Exchange, session: Option<&str>, work: Work) -> HttpResponse {
    let engine = exchange.site.engine.clone();
    let beside = Arc::new(Beside::new(exchange, session));
    let answer = with_session(Answer::new(work.status), &work);
    let (era, id, at_once) = (work.era, work.id.clone(), work.steps.is_empty());
    let response = if at_once {
        Some(engine.carry_out(work, beside).await)
    } else {
        // In its own task: when a legacy client disconnects, the call continues (HL-10).
        let task = {
            let engine = engine.clone();
            exchange.site.tasks.spawn(async move { engine.carry_out(work, beside).await })
        };
        engine.began(session, &id, task.abort_handle());
        let guard = (era == Era::Modern).then(|| Abandon::new(&engine, &id, task.abort_handle()));
        let response = task.await.ok().flatten();
        if let Some(guard) = guard {
            guard.disarm();
        }
        engine.ended(session, &id);
        response
    };
    match response {
        Some(response) => exchange.answer(&answer.json(&altered(exchange.struck.after(), response))).await,
        // Canceled: no response is due.
        None => exchange.answer(&Answer::new(202)).await,
    }
}

async fn stream(exchange: &Exchange, session: Option<&str>, work: Work) -> HttpResponse {
    let engine = exchange.site.engine.clone();
    let stream = exchange.site.open_stream(work.opened.as_deref().or(session));
    let mut reader = stream.reader(0);
    engine.register(Via::Post, session, stream.clone());
    let headers = with_session(Answer::new(work.status), &work).headers;
    let (era, id) = (work.era, work.id.clone());
    let (owner, call) = (session.map(str::to_owned), id.clone());
    let task = {
        let (engine, stream, struck) = (engine.clone(), stream.clone(), exchange.struck.after().cloned());
        exchange.site.tasks.spawn(async move {
            let _end = FinishOnDrop(stream.clone());
            let response = engine.carry_out(work, stream.clone()).await;
            let response = altered(struck.as_ref(), response);
            stream.say(response);
            engine.ended(owner.as_deref(), &call);
        })
    };
    engine.began(session, &id, task.abort_handle());
    if era == Era::Modern {
        let abandon = Abandon::new(&engine, &id, task.abort_handle());
        reader.on_drop = Some(Box::new(move || abandon.unless_done()));
    }
    let mut response = exchange.stream(reader).await;
    for (name, value) in headers {
        let name: hyper::header::HeaderName = name.parse().expect("our own header");
        response.headers_mut().insert(name, value.parse().expect("our own value"));
    }
    response
}

fn with_session(answer: Answer, work: &Work) -> Answer {
    match &work.opened {
        Some(id) if !id.is_empty() => answer.header("mcp-session-id", id),
        _ => answer,
    }
}

/// The outlet for messages that accompany a JSON response: the session's GET stream.
pub(super) struct Beside {
    engine: Arc<Engine>,
    session: Option<String>,
}

impl Beside {
    pub(super) fn new(exchange: &Exchange, session: Option<&str>) -> Self {
        Self { engine: exchange.site.engine.clone(), session: session.map(str::to_owned) }
    }
}

impl Outlet for Beside {
    fn say(&self, message: Value) -> bool {
        self.engine.send_in(self.session.as_deref(), &message)
    }

    fn is_open(&self) -> bool {
        true
    }
}

// HM-12
/// Cancels a modern request if its HTTP response is dropped before it is complete.
struct Abandon {
    engine: Arc<Engine>,
    id: Value,
    task: AbortHandle,
    armed: bool,
}

impl Abandon {
    fn new(engine: &Arc<Engine>, id: &Value, task: AbortHandle) -> Self {
        Self { engine: engine.clone(), id: id.clone(), task, armed: true }
    }

    fn disarm(mut self) {
        self.armed = false;
    }

    fn unless_done(mut self) {
        self.armed = !self.task.is_finished();
    }
}

impl Drop for Abandon {
    fn drop(&mut self) {
        if self.armed {
            self.task.abort();
            self.engine.cancel(None, &self.id);
        }
    }
}

struct FinishOnDrop(Arc<Stream>);

impl Drop for FinishOnDrop {
    fn drop(&mut self) {
        self.0.finish();
    }
}

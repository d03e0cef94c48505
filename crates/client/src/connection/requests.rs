//! Requests that the server makes of us: ping, and whatever the handler declared.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Instant;

use bowline_proto::revision::Revision;
use bowline_proto::wire::object::Edit;
use bowline_proto::wire::view::Answer as Reply;
use bowline_proto::wire::{Id, Json, RpcError, code, meta, method, mirror, outgoing};
use bowline_transport::http::Refusal;

use super::{News, Shared, Wire};
use crate::handler::{Answer, ServerRequest, capability_of, refusal};
use tokio::task::AbortHandle;

/// More handlers at once than any host needs; beyond that a server is refused, not queued.
const MAX_SERVING: usize = 64;

impl Shared {
    /// `during`: the call on whose stream the request came, where that is known.
    pub(super) fn handle_request(
        self: &Arc<Self>,
        wire: &Wire,
        during: Option<u64>,
        id: Id,
        method: Box<str>,
        params: Option<Json>,
    ) {
        // BM-06: on a modern connection the server has no business asking, and gets no answer.
        if self.is_modern() {
            tracing::warn!(server = %self.name, %method, "a modern server sent a request; ignored");
            return;
        }
        // PG-01: at once, at any phase.
        if *method == *method::PING {
            self.answer(wire.clone(), id, Ok(Json::empty_object()));
            return;
        }
        if !self.declared(&method) {
            self.answer(wire.clone(), id, Err(refusal(&method)));
            return;
        }
        // Held until the entry is in, so that a quick handler cannot take it out before.
        let mut serving = self.serving();
        let key = id.to_string();
        if serving.contains_key(&key) {
            tracing::warn!(server = %self.name, %method, "a request with the id of one under way was ignored");
            return;
        }
        if serving.len() >= MAX_SERVING {
            let busy = RpcError {
                code: code::INTERNAL_ERROR,
                message: "too many requests at once".into(),
                data: None,
            };
            self.answer(wire.clone(), id, Err(busy));
            return;
        }
        let (shared, wire) = (Arc::clone(self), wire.clone());
        // Before the handler can run: it may be done at once.
        let pause = may_ask_a_person(&method).then(|| Pause::begin(self));
        let roots_request = (*method == *method::ROOTS_LIST).then(|| self.roots_requests.begin());
        let entry = ServedEntry { shared: Arc::clone(self), key: key.clone(), _pause: pause };
        let task = self.errands.serve_session(async move {
            let task = params.as_ref().and_then(related_task);
            let answer = shared.ask_handler(method, params, None).await;
            let answer = answer.map(|result| relate(result, task.as_ref()));
            drop(entry);
            shared.send_answer(&wire, &id, answer).await;
            drop(roots_request);
        });
        serving.insert(key, ServedRequest { task, during });
        self.serving_count.store(serving.len(), Ordering::Relaxed);
    }

    /// A call has ended, and with it what the server asked on its stream.
    pub(super) fn stop_serving_during(&self, call: u64) {
        // Nearly always nothing is asked, and every call ends here.
        if self.serving_count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let serving = self.serving();
        let asked: Vec<_> = serving
            .values()
            .filter(|served| served.during == Some(call))
            .map(|served| served.task.clone())
            .collect();
        drop(serving);
        for task in asked {
            task.abort();
        }
    }

    /// Asks the handler, for either era.
    pub(super) async fn ask_handler(
        &self,
        method: Box<str>,
        params: Option<Json>,
        during: Option<Arc<str>>,
    ) -> Answer {
        let params = params.unwrap_or_else(Json::empty_object);
        // Without a link it is asked within a call that has lost it, or by a server that has not chosen yet.
        let revision = match (self.live(), &during) {
            (Some(live), _) => live.peer.revision,
            (None, Some(_)) => Revision::NEWEST_MODERN,
            (None, None) => Revision::V2024_11_05,
        };
        let server = Arc::clone(&self.name);
        if let Err(refusal) = self.page_guard.check(&method, &params).await {
            let Refusal { host, why } = refusal;
            tracing::warn!(%server, host, %why, "a page was declined");
            return Ok(Reply::Decline.to_json());
        }
        self.handler.handle(ServerRequest { server, revision, method, params, during }).await
    }

    /// Whether the host said that it serves this (LC-05, MR-07).
    pub(super) fn declared(&self, method: &str) -> bool {
        capability_of(method)
            .is_some_and(|capability| self.identity.capabilities.member(capability).is_some())
    }

    /// CN-04: the server no longer wants an answer; stop working on it and send none.
    pub(super) fn stop_serving(&self, request: &Id) {
        // Taken out first: the task takes itself out when it is dropped, and wants the lock.
        let task = self.serving().get(&request.to_string()).map(|served| served.task.clone());
        if let Some(task) = task {
            task.abort();
        }
    }

    fn answer(self: &Arc<Self>, wire: Wire, id: Id, answer: Answer) {
        let shared = Arc::clone(self);
        self.errands.send(async move { shared.send_answer(&wire, &id, answer).await });
    }

    async fn send_answer(&self, wire: &Wire, id: &Id, answer: Answer) {
        let frame = outgoing::answer(id, answer.as_ref());
        if let Err(fault) = self.say(wire, &frame).await {
            tracing::debug!(server = %self.name, %fault, "an answer to the server was not delivered");
        }
    }

    fn serving(&self) -> MutexGuard<'_, HashMap<String, ServedRequest>> {
        self.serving.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A handler at work for a request of the server.
pub(super) struct ServedRequest {
    task: AbortHandle,
    /// The call on whose stream the request came, where that is known.
    during: Option<u64>,
}

/// Whether the handler may bring the request to a person, whose time is nobody else's.
fn may_ask_a_person(method: &str) -> bool {
    matches!(method, method::ELICIT | method::SAMPLING)
}

/// TA-04: the task that a request belongs to, as the server wrote it.
fn related_task(params: &Json) -> Option<Json> {
    params.member("_meta")?.member(meta::RELATED_TASK)
}

/// The answer, which belongs to the same task.
fn relate(result: Json, task: Option<&Json>) -> Json {
    let Some(task) = task else { return result };
    let old = result.member("_meta").filter(Json::is_object);
    let related = Edit::new().set(meta::RELATED_TASK, task).apply(old.as_ref());
    let related = related.and_then(|meta| Edit::new().set("_meta", &meta).apply(Some(&result)));
    related.unwrap_or(result)
}

/// What a request of ours is for, in words for a person: its method, and what it names.
pub(crate) fn purpose(method: &str, params: Option<&Json>) -> Arc<str> {
    let named = mirror::name_param(method).and_then(|member| params?.member(member)?.decode::<String>().ok());
    match named {
        Some(name) => format!("{method} {}", name.chars().take(LONGEST_NAME).collect::<String>()).into(),
        None => method.into(),
    }
}

/// Of a name that is shown to a person.
const LONGEST_NAME: usize = 200;

/// Takes a request out of those that are served however its handler ends: with an answer, by a panic, or because the
/// server or the session gave it up.
struct ServedEntry {
    shared: Arc<Shared>,
    key: String,
    _pause: Option<Pause>,
}

impl Drop for ServedEntry {
    fn drop(&mut self) {
        let mut serving = self.shared.serving();
        serving.remove(&self.key);
        self.shared.serving_count.store(serving.len(), Ordering::Relaxed);
    }
}

/// Stops the clocks of the calls that are open, until it is dropped: while a person is asked, they are not the server's
/// to hurry with. It resumes just those that it paused.
struct Pause {
    shared: Arc<Shared>,
    calls: Vec<u64>,
}

impl Pause {
    fn begin(shared: &Arc<Shared>) -> Self {
        let mut core = shared.core();
        let (now, ids) = (Instant::now(), core.calls.ids().collect::<Vec<_>>());
        let calls = ids.into_iter().filter(|id| core.calls.pause(now, *id)).collect();
        drop(core);
        Self { shared: Arc::clone(shared), calls }
    }
}

impl Drop for Pause {
    fn drop(&mut self) {
        let mut core = self.shared.core();
        let now = Instant::now();
        for id in &self.calls {
            core.calls.resume(now, *id);
        }
        // The driver looks at the clocks anew: it may have seen that none runs.
        core.watched = Some(now);
        drop(core);
        let _ = self.shared.news.send(News::Deadline);
    }
}

//! Requests that the server makes of us: ping, and whatever the handler declared.

use std::sync::Arc;
use std::time::Instant;

use bowline_proto::wire::{Id, Json, RpcError, code, method, outgoing};

use super::{Shared, Wire};
use crate::handler::{Answer, ServerRequest, capability_of, refusal};

/// More handlers at once than any host needs; beyond that a server is refused, not queued.
const MAX_SERVING: usize = 64;

impl Shared {
    pub(super) fn handle_request(
        self: &Arc<Self>,
        wire: &Wire,
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
        let (shared, wire, entry) = (Arc::clone(self), wire.clone(), Entry(Arc::clone(self), key.clone()));
        let task = self.errands.serve(async move {
            let answer = shared.ask_handler(method, params).await;
            drop(entry);
            shared.send_answer(&wire, &id, answer).await;
        });
        serving.insert(key, task);
        drop(serving);
        self.pause_calls();
    }

    /// While a person is asked, the calls under way are not the server's to hurry with.
    fn pause_calls(&self) {
        let mut core = self.core();
        let (now, ids) = (Instant::now(), core.calls.ids().collect::<Vec<_>>());
        for id in ids {
            core.calls.pause(now, id);
        }
    }

    fn resume_calls(&self) {
        let mut core = self.core();
        let (now, ids) = (Instant::now(), core.calls.ids().collect::<Vec<_>>());
        for id in ids {
            core.calls.resume(now, id);
        }
    }

    /// Asks the handler, for either era.
    pub(super) async fn ask_handler(&self, method: Box<str>, params: Option<Json>) -> Answer {
        let params = params.unwrap_or_else(Json::empty_object);
        let request = ServerRequest { server: Arc::clone(&self.name), method, params };
        self.handler.handle(request).await
    }

    /// Whether the host said that it serves this (LC-05, MR-07).
    pub(super) fn declared(&self, method: &str) -> bool {
        capability_of(method)
            .is_some_and(|capability| self.identity.capabilities.member(capability).is_some())
    }

    /// CN-04: the server no longer wants an answer; stop working on it and send none.
    pub(super) fn stop_serving(&self, params: Option<Json>) {
        let Some(id) = params.and_then(|params| params.member("requestId")) else { return };
        // Taken out first: the task takes itself out when it is dropped, and wants the lock.
        let task = self.serving().get(id.as_str()).cloned();
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
        if let Err(fault) = wire.send(&frame).await {
            tracing::debug!(server = %self.name, %fault, "an answer to the server was not delivered");
        }
    }

    fn serving(
        &self,
    ) -> std::sync::MutexGuard<'_, std::collections::HashMap<String, tokio::task::AbortHandle>> {
        self.serving.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// A request that is being served. Takes itself out however its handler ends: with an answer, by a panic,
/// or because the server or the link gave it up.
struct Entry(Arc<Shared>, String);

impl Drop for Entry {
    fn drop(&mut self) {
        let mut serving = self.0.serving();
        serving.remove(&self.1);
        let idle = serving.is_empty();
        drop(serving);
        if idle {
            self.0.resume_calls();
        }
    }
}

//! Serves the server's requests to us: ping, and whatever the handler declared.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

use bowline_proto::revision::Revision;
use bowline_proto::wire::object::Edit;
use bowline_proto::wire::view::ElicitResult as Reply;
use bowline_proto::wire::{Id, Json, RpcError, code, meta, method, outgoing};
use bowline_transport::http::AddressRefusal;

use super::Inbound;
use crate::connection::{Connection, Wire};
use crate::handler::{Handler, HandlerResult, ServerRequest, undeclared_error};
use tokio::task::AbortHandle;

/// Maximum number of handlers that run at once. Further requests are refused, not queued.
const MAX_SERVER_REQUESTS: usize = 64;

/// What a server asks, in either era.
pub(crate) struct ServerQuestion {
    pub(crate) method: Box<str>,
    pub(crate) params: Option<Json>,
    /// Our request that needs it, if that is known.
    pub(crate) purpose: Option<Arc<str>>,
    /// The key under which a modern server asks.
    pub(crate) key: Option<Box<str>>,
}

impl Connection {
    /// Handles a server request. `call` is the call on whose stream it arrived, if known.
    pub(crate) fn handle_request(
        self: &Arc<Self>,
        wire: &Wire,
        call: Option<u64>,
        id: Id,
        method: Box<str>,
        params: Option<Json>,
    ) {
        // BM-06: a modern server must not send requests, and gets no response.
        if self.links.is_modern() {
            tracing::warn!(server = %self.server.name, %method, "a modern server sent a request; ignored");
            return;
        }
        // PG-01: answered at once, in any phase.
        if *method == *method::PING {
            self.spawn_response(wire.clone(), id, Ok(Json::empty_object()));
            return;
        }
        // The stream may belong to no call, as that of HTTP+SSE, but a tool that asks is running.
        if call.is_none() {
            self.engine.record_message_about_any();
        }
        if !self.server.declaration.allows(&method) {
            self.spawn_response(wire.clone(), id, Err(undeclared_error(&method)));
            return;
        }
        let own_handler = call.and_then(|call| self.engine.handler_of_call(call));
        // Hold the lock until the handler is registered, so that a quick one cannot remove itself
        // before.
        let mut serving = self.inbound.running.lock();
        let key = id.to_string();
        if serving.contains_key(&key) {
            tracing::warn!(server = %self.server.name, %method, "a request with the id of one under way was ignored");
            return;
        }
        if serving.len() >= MAX_SERVER_REQUESTS {
            let busy = RpcError {
                code: code::INTERNAL_ERROR,
                message: "too many requests at once".into(),
                data: None,
            };
            self.spawn_response(wire.clone(), id, Err(busy));
            return;
        }
        let (connection, wire) = (Arc::clone(self), wire.clone());
        // Pause before the handler can run, since it may finish at once.
        let paused_calls = may_prompt_person(&method).then(|| {
            // The person of one call does not prompt for the others.
            self.engine.pause_calls(call.filter(|_| own_handler.is_some()))
        });
        let roots_request = (*method == *method::ROOTS_LIST).then(|| self.inbound.roots_requests.start());
        let entry =
            RunningHandlerGuard { connection: Arc::clone(self), key: Some(key.clone()), paused_calls };
        let task = self.background.spawn_for_session(async move {
            let task = params.as_ref().and_then(related_task);
            let question = ServerQuestion { method, params, purpose: None, key: None };
            let answer = connection.call_handler(own_handler.as_ref(), question).await;
            let answer = answer.map(|result| with_related_task(result, task.as_ref()));
            if entry.remove() == HandlerEnd::ResponseExpected {
                connection.send_response(&wire, &id, answer).await;
            }
            drop(roots_request);
        });
        serving.insert(key, RunningHandler { task, call, is_canceled: false });
        self.inbound.running_count.store(serving.len(), Ordering::Relaxed);
    }

    /// Calls the handler of a call, or that of the client if the call has none, for both eras.
    pub(crate) async fn call_handler(
        &self,
        own_handler: Option<&Arc<dyn Handler>>,
        question: ServerQuestion,
    ) -> HandlerResult {
        let ServerQuestion { method, params, purpose, key } = question;
        let params = params.unwrap_or_else(Json::empty_object);
        // Without a link the request belongs to a call that has lost it, or to a server that has
        // not negotiated yet.
        let revision = match (self.links.live(), &purpose) {
            (Some(live), _) => live.peer.revision,
            (None, Some(_)) => Revision::NEWEST_MODERN,
            (None, None) => Revision::V2024_11_05,
        };
        let server = Arc::clone(&self.server.name);
        let request = ServerRequest { server, revision, method, params, purpose, key };
        self.inbound.call_handler(own_handler.unwrap_or(&self.inbound.handler), request).await
    }

    fn spawn_response(self: &Arc<Self>, wire: Wire, id: Id, answer: HandlerResult) {
        let connection = Arc::clone(self);
        self.background.spawn_send(async move { connection.send_response(&wire, &id, answer).await });
    }

    async fn send_response(&self, wire: &Wire, id: &Id, answer: HandlerResult) {
        let frame = outgoing::response(id, answer.as_ref());
        if let Err(fault) = wire.send_one_way(&self.login, &frame).await {
            tracing::debug!(server = %self.server.name, %fault, "an answer to the server was not delivered");
        }
    }
}

impl Inbound {
    /// Calls a handler, unless the request sends a person to a URL that the server may not name.
    async fn call_handler(&self, handler: &Arc<dyn Handler>, request: ServerRequest) -> HandlerResult {
        if let Err(refusal) = self.url_guard.check(&request.method, &request.params).await {
            let AddressRefusal { host, reason: why } = refusal;
            tracing::warn!(server = %request.server, host, %why, "a page was declined");
            return Ok(Reply::Decline.to_json());
        }
        let (server, method) = (Arc::clone(&request.server), request.method.clone());
        catch_panic(async { handler.handle(request).await }).await.unwrap_or_else(|()| {
            tracing::error!(%server, %method, "the host's handler panicked");
            Err(RpcError { code: code::INTERNAL_ERROR, message: "the host failed".into(), data: None })
        })
    }

    /// Cancels the server requests that arrived on the stream of a call, which has ended.
    pub(crate) fn cancel_requests_of_call(&self, call: u64) {
        // Every call ends here, and there are nearly never server requests.
        if self.running_count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut serving = self.running.lock();
        let asked: Vec<_> = serving
            .values_mut()
            .filter(|served| served.call == Some(call))
            .map(RunningHandler::cancel)
            .collect();
        drop(serving);
        for task in asked {
            task.abort();
        }
    }

    /// Cancels the handler of a request that the server has canceled; no response is sent (CN-04).
    pub(crate) fn cancel_request(&self, request: &Id) {
        // Release the lock first: the canceled task needs it to remove itself.
        let task = self.running.lock().get_mut(&request.to_string()).map(RunningHandler::cancel);
        if let Some(task) = task {
            task.abort();
        }
    }

    /// Whether a handler is working on a server request.
    pub(crate) fn is_serving_requests(&self) -> bool {
        !self.running.lock().is_empty()
    }
}

/// Runs a future of the host to its end, or until it panics. The server has to be answered either
/// way, and the panic has been reported by the panic hook.
async fn catch_panic<T>(future: impl Future<Output = T>) -> Result<T, ()> {
    let mut future = pin!(future);
    // The future is not polled again after a panic, and nothing else sees what it left behind.
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
        Ok(polled) => polled.map(Ok),
        Err(_) => Poll::Ready(Err(())),
    })
    .await
}

/// A handler that is working on a server request.
pub(crate) struct RunningHandler {
    task: AbortHandle,
    /// The call on whose stream the request arrived, if known.
    call: Option<u64>,
    /// Whether no response is wanted. Aborting a task does not stop it before its next await, and
    /// the handler may finish before that.
    is_canceled: bool,
}

impl RunningHandler {
    /// Marks the handler as canceled. Returns its task, which is aborted without the lock.
    fn cancel(&mut self) -> AbortHandle {
        self.is_canceled = true;
        self.task.clone()
    }
}

/// What remains to be done when a handler has finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HandlerEnd {
    ResponseExpected,
    Canceled,
}

/// Whether the handler may prompt a person, whose time must not count against calls.
fn may_prompt_person(method: &str) -> bool {
    matches!(method, method::ELICIT | method::SAMPLING)
}

/// The task that a request belongs to, as the server wrote it (TA-04).
fn related_task(params: &Json) -> Option<Json> {
    params.member("_meta")?.member(meta::RELATED_TASK)
}

/// Marks a result as belonging to the task of its request.
fn with_related_task(result: Json, task: Option<&Json>) -> Json {
    let Some(task) = task else { return result };
    let old = result.member("_meta").filter(Json::is_object);
    let related = Edit::new().set(meta::RELATED_TASK, task).apply(old.as_ref());
    let related = related.and_then(|meta| Edit::new().set("_meta", &meta).apply(Some(&result)));
    related.unwrap_or(result)
}

/// Removes a handler from the table however it ends: with a result, by a panic, or canceled by the
/// server or the session.
struct RunningHandlerGuard {
    connection: Arc<Connection>,
    /// Its key in the table, until it is removed.
    key: Option<String>,
    /// Calls whose deadlines are paused until the handler ends; `None` if it prompts no person.
    paused_calls: Option<Vec<u64>>,
}

impl RunningHandlerGuard {
    /// Removes the handler. From then on the server can no longer cancel its request.
    fn remove(mut self) -> HandlerEnd {
        match self.take_entry() {
            Some(RunningHandler { is_canceled: false, .. }) => HandlerEnd::ResponseExpected,
            _ => HandlerEnd::Canceled,
        }
    }

    fn take_entry(&mut self) -> Option<RunningHandler> {
        let key = self.key.take()?;
        let Inbound { running, running_count, .. } = &self.connection.inbound;
        let mut serving = running.lock();
        let entry = serving.remove(&key);
        running_count.store(serving.len(), Ordering::Relaxed);
        entry
    }
}

impl Drop for RunningHandlerGuard {
    fn drop(&mut self) {
        self.take_entry();
        if let Some(calls) = &self.paused_calls {
            self.connection.engine.resume_calls(calls);
        }
    }
}

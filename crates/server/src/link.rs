//! Server requests that we forward to the host. Their ids and progress tokens are ours, so that
//! those of the server and those of the host cannot collide.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bowline::HandlerResult;
use bowline::wire::object::Edit;
use bowline::wire::outgoing::{self, ProgressMode, RequestMeta};
use bowline::wire::{Id, Json, RpcError, code, meta, method};
use bowline_transport::pipe::Urgency;
use tokio::sync::oneshot;

use super::HostLink;

/// Server requests that the host has not answered yet.
#[derive(Debug, Default)]
pub(super) struct PendingServerRequests(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    next: u64,
    pending: HashMap<u64, PendingServerRequest>,
    /// Set when the host will not respond any more.
    is_closed: bool,
}

/// One server request that waits for the host.
#[derive(Debug)]
struct PendingServerRequest {
    response: oneshot::Sender<HandlerResult>,
    /// Progress token that the server gave the request.
    progress_token: Option<Json>,
}

impl HostLink {
    /// Sends a request to the host and waits for its response.
    ///
    /// Dropping the future cancels the request at the host.
    pub(crate) async fn send_request(&self, method: &str, params: &Json) -> HandlerResult {
        let token = params.member("_meta").and_then(|meta| meta.member(meta::PROGRESS_TOKEN));
        // The progress token of a request is its id, in either direction.
        let progress = if token.is_some() { ProgressMode::Wanted } else { ProgressMode::Unwanted };
        let Some((id, answer)) = self.0.server_requests.register(token) else {
            return Err(host_gone_error());
        };
        let open = CancelOnDrop { link: self, id };
        let Ok(frame) = outgoing::request(id, method, Some(params), &RequestMeta::none(), progress) else {
            self.0.server_requests.take(id);
            let message = "params and their _meta must be objects".to_owned();
            return Err(RpcError { code: code::INVALID_PARAMS, message, data: None });
        };
        self.send(&frame).await;
        let answer = answer.await.unwrap_or_else(|_| Err(host_gone_error()));
        drop(open);
        answer
    }

    /// Delivers a response of the host. One that nobody waits for is dropped.
    pub(crate) fn handle_response(&self, id: Option<&Id>, answer: HandlerResult) {
        let Some(ask) = id.and_then(Id::as_request_number).and_then(|id| self.0.server_requests.take(id))
        else {
            return tracing::debug!("an answer of the host to no open request was dropped");
        };
        // The waiter may have been dropped at this very moment.
        let _ = ask.response.send(answer);
    }

    /// Replaces our progress token in progress of the host by that of the server. `None` if the
    /// request is over.
    pub(crate) fn translate_progress(&self, params: &Json) -> Option<Json> {
        let ours: u64 = params.member(meta::PROGRESS_TOKEN)?.decode().ok()?;
        let token = self.0.server_requests.table().pending.get(&ours)?.progress_token.clone()?;
        Edit::new().set(meta::PROGRESS_TOKEN, &token).apply(Some(params)).ok()
    }
}

impl PendingServerRequests {
    fn register(&self, token: Option<Json>) -> Option<(u64, oneshot::Receiver<HandlerResult>)> {
        let (answer, receiver) = oneshot::channel();
        let mut table = self.table();
        if table.is_closed {
            return None;
        }
        let id = table.next;
        table.next += 1;
        table.pending.insert(id, PendingServerRequest { response: answer, progress_token: token });
        Some((id, receiver))
    }

    fn take(&self, id: u64) -> Option<PendingServerRequest> {
        self.table().pending.remove(&id)
    }

    /// Fails all open requests and accepts no more.
    pub(super) fn close(&self) {
        let mut table = self.table();
        table.is_closed = true;
        table.pending.clear();
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Cancels the request at the host if it is still open when this is dropped.
struct CancelOnDrop<'a> {
    link: &'a HostLink,
    id: u64,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if self.link.0.server_requests.take(self.id).is_none() {
            return;
        }
        let params = Edit::new().set_int("requestId", self.id).apply(None);
        let frame = outgoing::notification(method::CANCELLED, params.ok().as_ref());
        // If the queue is full the host is not notified: its response will find no waiter.
        let _ = self.link.0.writer.try_send(&frame, Urgency::Immediate);
    }
}

fn host_gone_error() -> RpcError {
    RpcError { code: code::INTERNAL_ERROR, message: "the host has left".into(), data: None }
}

//! [`OpenRequest`]: one request of the host, served by a task that can be canceled. The host is
//! read all the while, so that its cancellations and responses are never stuck behind its requests.

use std::future::Future;
use std::sync::{Arc, OnceLock};

use bowline_proto::server::event_streams::EventKind;
use bowline_proto::server::requests::{RequestKey, Turn};
use bowline_proto::wire::outgoing::{self, Frame};
use bowline_proto::wire::{Id, Json, RpcError};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::admission::RequestSlot;
use crate::http::{CancelFlag, PostTicket};
use crate::link::{HostLink, stream_of};

/// A request of the host that has no response yet. Dropping it ends it without one.
#[derive(Debug)]
pub struct OpenRequest {
    link: HostLink,
    key: RequestKey,
    id: Id,
    /// Over HTTP, the POST that waits for the response.
    post: Option<PostTicket>,
    /// Its place among the requests that the host may have open.
    slot: Option<RequestSlot>,
    /// Held until it has its response, which a graceful stop waits for.
    drain: Option<TaskTrackerToken>,
    cancel_reason: CancelReason,
}

/// Why the host has canceled a request, from the moment that it has. Clones share the reason.
#[derive(Clone, Debug, Default)]
pub struct CancelReason(Arc<OnceLock<String>>);

/// A request of the host for which there is no room, to be answered with an error.
#[derive(Debug)]
pub struct RefusedRequest {
    link: HostLink,
    id: Id,
    post: Option<PostTicket>,
}

/// The task that serves a request.
#[derive(Debug)]
pub(crate) struct RequestTask {
    abort: AbortHandle,
    /// Starts the task, if it waits for its turn.
    start: Option<oneshot::Sender<()>>,
    /// Tells the POST of the request that the host has canceled it.
    cancel_flag: Option<CancelFlag>,
    cancel_reason: CancelReason,
}

impl CancelReason {
    /// The words of the host, at most 1,000 characters. `None` if it has not canceled the request, or gave no reason.
    pub fn get(&self) -> Option<&str> {
        self.0.get().map(String::as_str)
    }
}

impl OpenRequest {
    pub(crate) fn new(link: HostLink, key: RequestKey, id: Id, post: Option<PostTicket>) -> Self {
        Self { link, key, id, post, slot: None, drain: None, cancel_reason: CancelReason::default() }
    }

    /// Has a graceful stop wait for the end of the request.
    pub(crate) fn with_drain_token(mut self, drain: Option<TaskTrackerToken>) -> Self {
        self.drain = drain;
        self
    }

    /// Holds this place until the request has ended.
    pub(crate) fn with_slot(mut self, slot: Option<RequestSlot>) -> Self {
        self.slot = slot;
        self
    }

    /// Sends the response. Only the first one is sent, and none after a cancellation.
    pub async fn respond(&self, outcome: Result<&Json, &RpcError>) {
        if let Err(error) = outcome {
            self.link.record_error(error);
        }
        if let Some(frame) = self.link.with_session(|session| session.respond(self.key, &self.id, outcome)) {
            self.link.send(&frame, EventKind::Response, self.post.as_ref()).await;
        }
    }

    /// Sends a notification that belongs to this request, such as its progress. Over HTTP it goes
    /// onto the event stream of the request, and reaches nobody after the response.
    pub async fn notify(&self, method: &str, params: Option<&Json>) {
        self.send_notification(&outgoing::notification(method, params)).await;
    }

    /// Sends a notification that belongs to this request, as [`OpenRequest::notify`] does.
    pub async fn send_notification(&self, notification: &Frame) {
        self.link.send(notification, EventKind::Notification, self.post.as_ref()).await;
    }

    /// Sends a notification that belongs to this request if the host reads fast enough. Otherwise
    /// the notification is dropped.
    pub fn try_notify(&self, method: &str, params: Option<&Json>) {
        let frame = outgoing::notification(method, params);
        self.link.try_send(&frame, EventKind::Notification, stream_of(self.post.as_ref()));
    }

    /// Sends a request that belongs to this one to the host, and waits for its response. Over HTTP
    /// it goes onto the event stream of this request, or onto that of the session if the host
    /// cannot read the former any more.
    ///
    /// Dropping the future cancels the request at the host.
    pub async fn send_request(&self, method: &str, params: &Json) -> Result<Json, RpcError> {
        self.link.request(method, params, self.post.as_ref()).await
    }

    /// Records the request, which may have effects, before it is executed. If this process ends before
    /// the response is sent, the next one knows that the request may have been executed, and the host
    /// gets its response when it comes back. Over HTTP with
    /// [`HttpSettings::with_session_store`](crate::HttpSettings::with_session_store); otherwise this
    /// does nothing.
    pub async fn record(&self) {
        if let Some(post) = &self.post {
            post.record().await;
        }
    }

    /// Records that the request has created the task with this id, so that the next process knows whose
    /// it is. Without a store this does nothing.
    pub async fn record_task(&self, id: &str) {
        if let Some(journal) = self.post.as_ref().and_then(PostTicket::journal) {
            journal.note_task(id);
            journal.flush().await;
        }
    }

    /// Waits until the store knows what the host wants of its session: resources that it is subscribed
    /// to, and the level of log messages. A response that comes after this holds for the next process,
    /// too. Without a store this does nothing.
    pub async fn wait_until_session_is_recorded(&self) {
        if let Some(journal) = self.post.as_ref().and_then(PostTicket::journal) {
            journal.flush().await;
        }
    }

    /// Waits until nobody waits for the response any more, though the request was not canceled: over HTTP, the
    /// connection of the host is closed, and it cannot resume the stream or has not done so for a minute. On a pipe
    /// this never returns. For requests that wait for long and can be made again without harm.
    pub async fn wait_until_abandoned(&self) {
        match &self.post {
            Some(post) => post.wait_until_abandoned().await,
            None => std::future::pending().await,
        }
    }

    /// Why the host has canceled the request. It is known before the task that serves the request is aborted.
    pub fn cancel_reason(&self) -> CancelReason {
        self.cancel_reason.clone()
    }

    /// Whether an earlier process has accepted the request and did not answer it, so that it may have
    /// been executed.
    pub fn is_repeated(&self) -> bool {
        self.post.as_ref().is_some_and(PostTicket::is_repeated)
    }

    /// Whether the host did not send the request now, but an earlier process knew of it.
    pub fn is_restored(&self) -> bool {
        self.post.as_ref().is_some_and(PostTicket::is_restored)
    }

    /// Spawns the task that serves the request: now, or when there is room for it. The task holds
    /// the request, and is aborted when the host cancels it.
    pub fn spawn<F>(self, serve: impl FnOnce(Self) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.spawner().spawn(serve(self));
    }

    pub(crate) fn spawner(&self) -> RequestSpawner {
        let cancel_flag = self.post.as_ref().map(PostTicket::cancel_flag);
        let cancel_reason = self.cancel_reason.clone();
        RequestSpawner { link: self.link.clone(), key: self.key, cancel_flag, cancel_reason }
    }

    pub(crate) fn link(&self) -> &HostLink {
        &self.link
    }
}

/// Spawns the task of one request.
pub(crate) struct RequestSpawner {
    link: HostLink,
    key: RequestKey,
    cancel_flag: Option<CancelFlag>,
    cancel_reason: CancelReason,
}

impl RequestSpawner {
    /// Spawns `serving`, which holds the request.
    pub(crate) fn spawn(self, serving: impl Future<Output = ()> + Send + 'static) {
        let Self { link, key, cancel_flag, cancel_reason } = self;
        let waits = link.with_session(|session| session.turn(key)) == Some(Turn::Waiting);
        let (start, turn) = waits.then(oneshot::channel).unzip();
        let task = link.tasks().spawn(async move {
            if let Some(turn) = turn
                && turn.await.is_err()
            {
                // It was canceled.
                return;
            }
            serving.await;
        });
        let task = RequestTask { abort: task.abort_handle(), start, cancel_flag, cancel_reason };
        // Its turn may have come in between.
        let start = link.with_session(|session| session.attach(key, task).and_then(|task| task.start.take()));
        send_start(start);
    }
}

fn send_start(start: Option<oneshot::Sender<()>>) {
    if let Some(start) = start {
        // The task may have been aborted at this very moment.
        let _ = start.send(());
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        let start = self
            .link
            .with_session(|session| session.end_request(self.key).and_then(|next| next.start.take()));
        send_start(start);
        // From here on the host may have another one.
        drop((self.slot.take(), self.drain.take()));
    }
}

impl RefusedRequest {
    pub(crate) fn new(link: HostLink, id: Id, post: Option<PostTicket>) -> Self {
        Self { link, id, post }
    }

    /// Sends the error.
    pub async fn respond(self, error: &RpcError) {
        let frame = outgoing::response(&self.id, Err(error));
        self.link.send(&frame, EventKind::Response, self.post.as_ref()).await;
    }
}

impl RequestTask {
    /// Aborts the task, because the host has canceled its request, perhaps for this reason. Not while the
    /// session is locked: what the task holds needs it.
    pub(crate) fn cancel(self, reason: Option<String>) {
        if let Some(reason) = reason {
            // A request is canceled once.
            let _ = self.cancel_reason.0.set(reason);
        }
        if let Some(flag) = &self.cancel_flag {
            flag.set();
        }
        self.abort();
    }

    /// Aborts the task. Not while the session is locked: what the task holds needs it.
    pub(crate) fn abort(self) {
        self.abort.abort();
    }
}

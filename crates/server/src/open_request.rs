//! [`OpenRequest`]: one request of the host, served by a task that can be canceled. The host is
//! read all the while, so that its cancellations and responses are never stuck behind its requests.

use std::future::Future;

use bowline_proto::server::requests::{RequestKey, Turn};
use bowline_proto::wire::outgoing;
use bowline_proto::wire::{Id, Json, RpcError};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use crate::link::HostLink;

/// A request of the host that has no response yet. Dropping it ends it without one.
#[derive(Debug)]
pub struct OpenRequest {
    link: HostLink,
    key: RequestKey,
    id: Id,
}

/// A request of the host for which there is no room, to be answered with an error.
#[derive(Debug)]
pub struct RefusedRequest {
    link: HostLink,
    id: Id,
}

/// The task that serves a request.
#[derive(Debug)]
pub(crate) struct RequestTask {
    abort: AbortHandle,
    /// Starts the task, if it waits for its turn.
    start: Option<oneshot::Sender<()>>,
}

impl OpenRequest {
    pub(crate) fn new(link: HostLink, key: RequestKey, id: Id) -> Self {
        Self { link, key, id }
    }

    /// Sends the response. Only the first one is sent, and none after a cancellation.
    pub async fn respond(&self, outcome: Result<&Json, &RpcError>) {
        if let Some(frame) = self.link.with_session(|session| session.respond(self.key, &self.id, outcome)) {
            self.link.send(&frame).await;
        }
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
        RequestSpawner { link: self.link.clone(), key: self.key }
    }

    pub(crate) fn link(&self) -> &HostLink {
        &self.link
    }
}

/// Spawns the task of one request.
pub(crate) struct RequestSpawner {
    link: HostLink,
    key: RequestKey,
}

impl RequestSpawner {
    /// Spawns `serving`, which holds the request.
    pub(crate) fn spawn(self, serving: impl Future<Output = ()> + Send + 'static) {
        let Self { link, key } = self;
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
        let task = RequestTask { abort: task.abort_handle(), start };
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
    }
}

impl RefusedRequest {
    pub(crate) fn new(link: HostLink, id: Id) -> Self {
        Self { link, id }
    }

    /// Sends the error.
    pub async fn respond(self, error: &RpcError) {
        self.link.send(&outgoing::response(&self.id, Err(error))).await;
    }
}

impl RequestTask {
    /// Aborts the task. Not while the session is locked: what the task holds needs it.
    pub(crate) fn abort(self) {
        self.abort.abort();
    }
}

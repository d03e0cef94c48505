//! [`InitializeRequest`]: the `initialize` of a host, and [`Handshake`] for those who wait for what
//! comes of it.

use std::future::Future;

use bowline_proto::server::handshake::InitializeParams;
use bowline_proto::server::session::{Attempt, HandshakeState, HandshakeStatus};
use bowline_proto::wire::{Json, RpcError};
use tokio::sync::watch;

use crate::open_request::OpenRequest;

/// The `initialize` of a host. Dropping it refuses it, unless it was accepted.
#[derive(Debug)]
pub struct InitializeRequest {
    request: OpenRequest,
    attempt: Attempt,
    params: InitializeParams,
}

/// Tells what has come of one `initialize`.
#[derive(Clone, Debug)]
pub struct Handshake {
    attempt: Attempt,
    state: watch::Receiver<HandshakeState>,
}

impl InitializeRequest {
    pub(crate) fn new(request: OpenRequest, attempt: Attempt, params: InitializeParams) -> Self {
        Self { request, attempt, params }
    }

    /// What the host said.
    pub fn params(&self) -> &InitializeParams {
        &self.params
    }

    /// Tells others what has come of it.
    pub fn handshake(&self) -> Handshake {
        Handshake { attempt: self.attempt, state: self.request.link().watch_handshake() }
    }

    /// Spawns the task that answers the request. It is aborted when the host cancels the request.
    pub fn spawn<F>(self, serve: impl FnOnce(Self) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.request.spawner().spawn(serve(self));
    }

    /// Sends the response. An error refuses the request.
    pub async fn respond(&self, outcome: Result<&Json, &RpcError>) {
        match outcome {
            Ok(result) => self.request.link().record_offer(result).await,
            // A host that reads the error may send another `initialize` at once.
            Err(_) => self.refuse(),
        }
        self.request.respond(outcome).await;
    }

    /// Begins the session. The result must have been sent, since everything else comes after it.
    pub fn accept(&self) {
        self.request.link().with_session(|session| session.accept(self.attempt));
    }

    /// Allows another `initialize`.
    fn refuse(&self) {
        self.request.link().with_session(|session| session.refuse(self.attempt));
    }
}

impl Drop for InitializeRequest {
    fn drop(&mut self) {
        self.refuse();
    }
}

impl Handshake {
    /// Waits until `initialize` was accepted or refused. Returns whether it was accepted.
    pub async fn wait_until_answered(&self) -> bool {
        self.wait_for(|status| status != HandshakeStatus::Pending).await
    }

    /// Waits until the host may be sent requests and notifications. `false` if it never may.
    pub async fn wait_until_ready(&self) -> bool {
        self.wait_for(|status| matches!(status, HandshakeStatus::Ready | HandshakeStatus::Refused)).await
    }

    /// Whether the host may be sent requests and notifications.
    pub fn is_ready(&self) -> bool {
        self.state.borrow().status(self.attempt) == HandshakeStatus::Ready
    }

    async fn wait_for(&self, condition: impl Fn(HandshakeStatus) -> bool) -> bool {
        let mut state = self.state.clone();
        let settled = state.wait_for(|state| condition(state.status(self.attempt))).await;
        settled.is_ok_and(|state| state.status(self.attempt) != HandshakeStatus::Refused)
    }
}

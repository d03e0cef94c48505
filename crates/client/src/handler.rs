//! What the host can do for a server: answer its requests, and say beforehand which.
//!
//! One handler serves both eras. A legacy server sends a request of its own; a modern one returns
//! `input_required`, and the answers travel with the retry. Neither the handler nor the caller sees which.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bowline_proto::revision::Revision;
use bowline_proto::wire::{Json, RpcError, code};
use tokio::sync::watch;

/// A request that a server makes of the host: `elicitation/create`, `sampling/createMessage`, `roots/list`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerRequest {
    /// The configured name of the server, not what it calls itself.
    pub server: Arc<str>,
    /// What the connection speaks: some answers are written differently in each revision.
    pub revision: Revision,
    /// The method.
    pub method: Box<str>,
    /// Untrusted. An empty object where the server gave none.
    pub params: Json,
    /// What of ours the server needs it for, such as `tools/call search`, so that a person can be told (MR-08).
    /// `None` where the server does not say.
    pub during: Option<Arc<str>>,
}

impl ServerRequest {
    /// A request as a server would make it.
    pub fn new(server: impl Into<Arc<str>>, revision: Revision, method: &str, params: Json) -> Self {
        Self { server: server.into(), revision, method: method.into(), params, during: None }
    }

    /// Says what it is needed for.
    #[must_use]
    pub fn during(mut self, during: impl Into<Arc<str>>) -> Self {
        self.during = Some(during.into());
        self
    }
}

/// The answer to a [`ServerRequest`].
pub type Answer = Result<Json, RpcError>;

/// Answers requests of servers.
pub trait Handler: Send + Sync + 'static {
    /// The `ClientCapabilities` object to declare. Declare only what [`Handler::handle`] answers: servers
    /// are refused what was not declared (LC-05, MR-07).
    fn capabilities(&self) -> Json;

    /// Answers one request. Dropping the future means that the server no longer wants the answer.
    fn handle(&self, request: ServerRequest) -> Pin<Box<dyn Future<Output = Answer> + Send + '_>>;

    /// Changes whenever `roots/list` is to be answered differently. Legacy servers are told so (RT-03).
    fn roots_changed(&self) -> Option<watch::Receiver<u64>> {
        None
    }

    /// How long calls wait for a server to ask for `roots/list` once the handshake is done. A server that works in the
    /// roots it is given would else carry out the first call without them. Zero, the default: not at all, as for a
    /// handler that has to ask somebody else for them.
    fn roots_request_wait(&self) -> Duration {
        Duration::ZERO
    }

    /// The server says that what it wanted of a person at a page is done. The id may be one that nobody was
    /// asked about (EL-11).
    fn page_completed(&self, server: &str, elicitation_id: &str) {
        let _ = (server, elicitation_id);
    }

    /// A call waits until the server says that a person is done at these pages. A host can let the person say
    /// so, or give up (EL-10); many servers say nothing.
    fn await_page(
        &self,
        server: Arc<str>,
        elicitation_ids: Vec<Box<str>>,
    ) -> Pin<Box<dyn Future<Output = Onward> + Send + '_>> {
        let _ = (server, elicitation_ids);
        Box::pin(std::future::pending())
    }
}

/// How a call that waits for a person at a page goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Onward {
    /// The person is done: once more.
    Retry,
    /// The person does not want it any more.
    GiveUp,
}

/// Declares nothing and refuses everything.
#[derive(Debug, Default)]
pub struct NoHandler;

impl Handler for NoHandler {
    fn capabilities(&self) -> Json {
        Json::empty_object()
    }

    fn handle(&self, request: ServerRequest) -> Pin<Box<dyn Future<Output = Answer> + Send + '_>> {
        Box::pin(async move { Err(refusal(&request.method)) })
    }
}

/// The refusal of a method that was not declared.
pub(crate) fn refusal(method: &str) -> RpcError {
    RpcError { code: code::METHOD_NOT_FOUND, message: format!("{method} is not offered here"), data: None }
}

/// The capability that a method of the server needs.
pub(crate) fn capability_of(method: &str) -> Option<&'static str> {
    use bowline_proto::wire::method;
    match method {
        method::ELICIT => Some("elicitation"),
        method::SAMPLING => Some("sampling"),
        method::ROOTS_LIST => Some("roots"),
        _ => None,
    }
}

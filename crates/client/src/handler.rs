//! [`Handler`]: answers server requests, and declares beforehand which.
//!
//! One handler serves both eras. A legacy server sends a request; a modern one returns
//! `input_required`, and the responses travel with the retry. Neither the handler nor the caller
//! sees the difference.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bowline_proto::revision::Revision;
use bowline_proto::wire::{Json, RpcError, code};
use futures_core::Stream;

/// A server request: `elicitation/create`, `sampling/createMessage` or `roots/list`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerRequest {
    /// The configured name of the server, not what it calls itself.
    pub server: Arc<str>,
    /// Revision of the connection: some results are written differently in each.
    pub revision: Revision,
    /// The method.
    pub method: Box<str>,
    /// The params, untrusted. An empty object if the server gave none.
    pub params: Json,
    /// Our request that needs it, such as `tools/call search`, to be shown to a person. `None` if
    /// the server does not say.
    // MR-08
    pub purpose: Option<Arc<str>>,
    /// The key under which a modern server asks, by which it tells what it asks together apart. `None`
    /// for a legacy server.
    // MR-02
    pub key: Option<Box<str>>,
}

impl ServerRequest {
    /// Creates a request as a server would send it.
    pub fn new(server: impl Into<Arc<str>>, revision: Revision, method: &str, params: Json) -> Self {
        Self { server: server.into(), revision, method: method.into(), params, purpose: None, key: None }
    }

    /// Sets our request that needs it.
    #[must_use]
    pub fn with_purpose(mut self, during: impl Into<Arc<str>>) -> Self {
        self.purpose = Some(during.into());
        self
    }
}

/// The result of a [`ServerRequest`].
pub type HandlerResult = Result<Json, RpcError>;

/// Has an item for each change of the roots; see [`Handler::roots_changed`].
pub type RootChanges = Pin<Box<dyn Stream<Item = ()> + Send>>;

/// Answers server requests.
pub trait Handler: Send + Sync + 'static {
    /// The `ClientCapabilities` object to declare. Declare only what [`Handler::handle`] answers:
    /// other requests are refused.
    // LC-05, MR-07
    fn capabilities(&self) -> Json;

    /// Answers one request. The future is dropped when the server no longer wants the answer.
    fn handle(&self, request: ServerRequest) -> Pin<Box<dyn Future<Output = HandlerResult> + Send + '_>>;

    /// A stream with an item whenever `roots/list` has a new result. Legacy servers are notified.
    // RT-03
    fn roots_changed(&self) -> Option<RootChanges> {
        None
    }

    /// How long calls wait for a server to request `roots/list` once the handshake is done. A
    /// server that works in its roots would otherwise run the first call without them. Zero, the
    /// default, disables the wait, for handlers that must ask someone else for the roots.
    fn roots_request_wait(&self) -> Duration {
        Duration::ZERO
    }

    /// Called when the server reports that a URL elicitation is complete. The id may be unknown.
    // EL-11
    fn url_elicitation_completed(&self, server: &str, elicitation_id: &str) {
        let _ = (server, elicitation_id);
    }

    /// Waits while a call is blocked on these URL elicitations. A host can let the person confirm
    /// or give up, since many servers never report completion.
    // EL-10
    fn await_url_elicitation(
        &self,
        server: Arc<str>,
        elicitation_ids: Vec<Box<str>>,
    ) -> Pin<Box<dyn Future<Output = UrlElicitationOutcome> + Send + '_>> {
        let _ = (server, elicitation_ids);
        Box::pin(std::future::pending())
    }
}

/// How a call continues that is blocked on URL elicitations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UrlElicitationOutcome {
    /// The person is done: send the request again.
    Retry,
    /// The person has given up.
    GiveUp,
}

/// A handler that declares nothing and refuses everything.
#[derive(Debug, Default)]
pub struct NoHandler;

impl Handler for NoHandler {
    fn capabilities(&self) -> Json {
        Json::empty_object()
    }

    fn handle(&self, request: ServerRequest) -> Pin<Box<dyn Future<Output = HandlerResult> + Send + '_>> {
        Box::pin(async move { Err(undeclared_error(&request.method)) })
    }
}

/// The error for a method that was not declared.
pub(crate) fn undeclared_error(method: &str) -> RpcError {
    RpcError { code: code::METHOD_NOT_FOUND, message: format!("{method} is not offered here"), data: None }
}

/// The capability that a server request needs.
pub(crate) fn required_capability(method: &str) -> Option<&'static str> {
    use bowline_proto::wire::method;
    match method {
        method::ELICIT => Some("elicitation"),
        method::SAMPLING => Some("sampling"),
        method::ROOTS_LIST => Some("roots"),
        _ => None,
    }
}

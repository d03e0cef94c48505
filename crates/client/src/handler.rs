//! What the host can do for a server: answer its requests, and say beforehand which.
//!
//! One handler serves both eras. A legacy server sends a request of its own; a modern one returns
//! `input_required`, and the answers travel with the retry. Neither the handler nor the caller sees which.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bowline_proto::wire::{Json, RpcError, code};

/// A request that a server makes of the host: `elicitation/create`, `sampling/createMessage`, `roots/list`.
#[derive(Clone, Debug)]
pub struct ServerRequest {
    /// The configured name of the server, not what it calls itself.
    pub server: Arc<str>,
    /// The method.
    pub method: Box<str>,
    /// Untrusted. An empty object where the server gave none.
    pub params: Json,
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

//! [`Layer`]: sees each outgoing request, and how it ended.

use std::fmt;
use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;

use bowline_proto::wire::Json;

use crate::connection::tool_name;
use crate::report::CallReport;

/// Sees each request of a caller before it is sent, may change or refuse it, and sees how it ended.
/// For approval, redaction, metrics and audit.
///
/// # Behavior
/// - Layers see a request in the order of their registration, and its end in reverse.
/// - Every request that a layer has seen ends exactly once for it, also if that layer or a later
///   one refuses it, or the caller drops the call.
/// - A list that is fetched in pages is one request for each page. A request that is retried is
///   seen once. A result that is taken from the cache is no request.
/// - Requests that no caller waits for are not seen: probes, polls of tasks, refreshed lists and
///   the restoration of a session. Neither are notifications.
/// - The time limits of a call begin after the layers, so a layer may ask a person.
///
/// ```
/// use bowline::{Layer, LayerFuture, OutgoingRequest, Refusal};
///
/// /// Refuses every tool that deletes.
/// struct NoDeletion;
///
/// impl Layer for NoDeletion {
///     fn on_request<'a>(&'a self, request: &'a mut OutgoingRequest) -> LayerFuture<'a> {
///         Box::pin(async move {
///             match request.tool() {
///                 Some(tool) if tool.starts_with("delete") => Err(Refusal::new("nothing is deleted here")),
///                 _ => Ok(()),
///             }
///         })
///     }
/// }
/// ```
pub trait Layer: Send + Sync + 'static {
    /// Called before a request is sent. An error refuses it: nothing is sent, and the call ends with
    /// [`ErrorKind::LayerRefused`](crate::ErrorKind::LayerRefused).
    ///
    /// The future is dropped with the call, and when the client is closed.
    fn on_request<'a>(&'a self, request: &'a mut OutgoingRequest) -> LayerFuture<'a> {
        let _ = request;
        Box::pin(ready(Ok(())))
    }

    /// Called once when a request has ended. It runs where the call ends, which may be the drop of
    /// its future, so it must not block.
    fn on_end(&self, request: &OutgoingRequest, report: &CallReport) {
        let _ = (request, report);
    }
}

/// The decision of a layer about a request.
pub type LayerFuture<'a> = Pin<Box<dyn Future<Output = Result<(), Refusal>> + Send + 'a>>;

/// Why a layer refuses a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    reason: String,
}

/// A request that is about to be sent.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OutgoingRequest {
    server: Arc<str>,
    method: Box<str>,
    tool: Option<Box<str>>,
    params: Option<Json>,
    is_changed: bool,
}

/// The layers of a connection, in the order of their registration.
pub(crate) type Layers = Arc<[Arc<dyn Layer>]>;

// === impl Refusal ===

impl Refusal {
    /// Creates a refusal with a reason, which the caller sees.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into() }
    }

    /// The reason.
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

// === impl OutgoingRequest ===

impl OutgoingRequest {
    pub(crate) fn new(server: &Arc<str>, method: &str, params: Option<&Json>) -> Self {
        Self {
            server: Arc::clone(server),
            method: method.into(),
            tool: tool_name(method, params),
            params: params.cloned(),
            is_changed: false,
        }
    }

    /// The configured name of the server.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// The method, such as `tools/call`.
    pub fn method(&self) -> &str {
        &self.method
    }

    /// The name of the tool, if a tool is called.
    pub fn tool(&self) -> Option<&str> {
        self.tool.as_deref()
    }

    /// The params, without what the protocol adds to `_meta`. `None` if the request has none.
    pub fn params(&self) -> Option<&Json> {
        self.params.as_ref()
    }

    /// Replaces the params, which must be an object. The caller's own value does not change.
    pub fn set_params(&mut self, params: Json) {
        self.tool = tool_name(&self.method, Some(&params));
        self.params = Some(params);
        self.is_changed = true;
    }

    /// The params to send, if a layer changed them.
    pub(crate) fn changed_params(&self) -> Option<&Json> {
        self.params.as_ref().filter(|_| self.is_changed)
    }
}

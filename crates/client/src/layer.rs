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
/// `examples/layers.rs` is a program with two layers of its own, and its test shows how to test them.
///
/// # Approval
/// A layer that asks a person before a tool is called:
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # async fn is_approved(tool: &str) -> bool { !tool.starts_with("delete") }
/// # let fake = bowline_test::FakeServer::new().tool("delete_all", |_| "gone").serve_http().await?;
/// # let url = fake.url();
/// use bowline::{Client, Layer, LayerFuture, Outcome, OutgoingRequest, Refusal, Server};
///
/// struct Approval;
///
/// impl Layer for Approval {
///     fn observes(&self, method: &str) -> bool {
///         method == "tools/call"
///     }
///
///     fn on_request<'a>(&'a self, request: &'a mut OutgoingRequest) -> LayerFuture<'a> {
///         Box::pin(async move {
///             match request.tool() {
///                 Some(tool) if is_approved(tool).await => Ok(()),
///                 _ => Err(Refusal::new("the user refused")),
///             }
///         })
///     }
/// }
///
/// let client = Client::builder(Server::http("files", url)).layer(Approval).connect().await?;
/// let refused = client.call_tool("delete_all", &()).await.unwrap_err();
/// assert_eq!(refused.report().map(|report| report.outcome), Some(Outcome::Declined));
/// # fake.assert_called("delete_all", 0);
/// # Ok(())
/// # }
/// ```
///
/// # Redaction
/// A layer that removes a member of every tool's arguments:
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let fake = bowline_test::FakeServer::new()
/// #     .tool("echo", |args| args.to_string())
/// #     .serve_http()
/// #     .await?;
/// # let url = fake.url();
/// use bowline::{Client, Json, Layer, LayerFuture, OutgoingRequest, Server};
/// use serde_json::{Value, json};
///
/// struct Redaction;
///
/// impl Layer for Redaction {
///     fn on_request<'a>(&'a self, request: &'a mut OutgoingRequest) -> LayerFuture<'a> {
///         Box::pin(async move {
///             let params = request.params().and_then(|params| params.decode::<Value>().ok());
///             if let Some(mut params) = params
///                 && let Some(arguments) = params.get_mut("arguments").and_then(Value::as_object_mut)
///                 && arguments.remove("email").is_some()
///             {
///                 request.set_params(Json::encode(&params).expect("an object"));
///             }
///             Ok(())
///         })
///     }
/// }
///
/// let client = Client::builder(Server::http("mail", url)).layer(Redaction).connect().await?;
/// let echoed = client.call_tool("echo", &json!({ "email": "a@b.example", "id": 7 })).await?;
/// assert_eq!(echoed.text(), r#"{"id":7}"#);
/// # Ok(())
/// # }
/// ```
///
/// # Metrics
/// A layer that counts attempts. The type of a counter is up to the host:
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let fake = bowline_test::FakeServer::new().tool("echo", |_| "echo").serve_http().await?;
/// # let url = fake.url();
/// use std::collections::BTreeMap;
/// use std::sync::{Arc, Mutex};
///
/// use bowline::{CallReport, Client, Layer, OutgoingRequest, Server};
///
/// /// Number of attempts, by method and outcome.
/// #[derive(Clone, Default)]
/// struct Metrics(Arc<Mutex<BTreeMap<(String, &'static str), u32>>>);
///
/// impl Layer for Metrics {
///     fn on_end(&self, request: &OutgoingRequest, report: &CallReport) {
///         let key = (request.method().to_owned(), report.outcome.as_str());
///         *self.0.lock().unwrap().entry(key).or_default() += report.attempts;
///     }
/// }
///
/// let metrics = Metrics::default();
/// let client = Client::builder(Server::http("echo", url)).layer(metrics.clone()).connect().await?;
/// client.call_tool("echo", &()).await?;
/// assert_eq!(metrics.0.lock().unwrap()[&("tools/call".to_owned(), "done")], 1);
/// # Ok(())
/// # }
/// ```
pub trait Layer: Send + Sync + 'static {
    /// Whether the layer sees requests of this method. A layer that returns false costs nothing for
    /// that call, and neither [`Layer::on_request`] nor [`Layer::on_end`] is called for it. It is
    /// called at the start of each call, so it must be fast and give the same answer twice in a row.
    fn observes(&self, method: &str) -> bool {
        let _ = method;
        true
    }

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
    /// Creates a request, for the unit test of a layer. The params are an object, if there are any.
    pub fn new(server: &str, method: &str, params: Option<Json>) -> Self {
        Self::for_call(&Arc::from(server), method, params.as_ref())
    }

    pub(crate) fn for_call(server: &Arc<str>, method: &str, params: Option<&Json>) -> Self {
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

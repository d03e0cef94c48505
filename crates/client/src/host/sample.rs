//! Sampling: which requests are put to a model, and what may be sent as the answer (group SA).

use std::sync::Arc;
use std::time::Duration;

use bowline_proto::wire::view::{IncludeContext, SamplingRequest, SamplingResult};
use bowline_proto::wire::{RpcError, code};

use super::{HostFuture, internal_error, invalid_params};
use crate::handler::{HandlerResult, ServerRequest};

/// Asks a model. Unless the user configured otherwise, a person sees the request before it is sent
/// and the answer before the server gets it.
// SA-02
pub trait Sample: Send + Sync + 'static {
    /// Whether the model can use tools. Otherwise requests with tools are refused without asking.
    // SA-04
    fn tools(&self) -> bool {
        false
    }

    /// Whether [`SamplingRequest::include_context`] is honored. Otherwise it is always
    /// [`IncludeContext::None`].
    fn context(&self) -> bool {
        false
    }

    /// Asks the model. The answer must not exceed [`SamplingRequest::max_tokens`], and nothing of
    /// it may be kept for the next request.
    // SA-03, SA-07
    fn sample(&self, request: SampleRequest) -> HostFuture<'_, Result<SamplingResult, SamplingRefusal>>;
}

/// A request to a model.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SampleRequest {
    /// The configured name of the server.
    pub server: Arc<str>,
    /// Our request that needs it, such as `tools/call search`.
    pub purpose: Option<Arc<str>>,
    /// The request, with text of the server.
    pub request: SamplingRequest,
}

impl SampleRequest {
    /// Creates a request that belongs to none of ours.
    pub fn new(server: impl Into<Arc<str>>, request: SamplingRequest) -> Self {
        Self { server: server.into(), purpose: None, request }
    }
}

/// Why there is no answer. A legacy server is told; with a modern one the call that needed it fails
/// here, and the server learns nothing.
// SA-07
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SamplingRefusal {
    /// A person or a policy refused.
    Declined,
    /// A limit was exceeded. The text is sent to the server.
    Limited(String),
    /// The model could not be asked. The text is sent to the server.
    Failed(String),
}

/// Handles `sampling/createMessage`.
pub(super) async fn handle_sample(
    sample: &dyn Sample,
    timeout: Duration,
    request: ServerRequest,
) -> HandlerResult {
    let ServerRequest { server, revision, params, purpose: during, .. } = request;
    let mut request = SamplingRequest::decode(&params).map_err(invalid_params)?;
    if request.uses_tools() && !sample.tools() {
        return Err(invalid_params("sampling with tools is not offered here"));
    }
    request.check_turns().map_err(invalid_params)?;
    if !sample.context() {
        request.include_context = IncludeContext::None;
    }
    let asked = sample.sample(SampleRequest { server: Arc::clone(&server), purpose: during, request });
    let Ok(answered) = tokio::time::timeout(timeout, asked).await else {
        return Err(internal_error("the model took too long"));
    };
    answered?.to_json(revision).ok_or_else(|| {
        tracing::warn!(%server, %revision, "the model's answer cannot be written in this revision");
        internal_error("the model's answer has no form in this revision")
    })
}

impl From<SamplingRefusal> for RpcError {
    fn from(refusal: SamplingRefusal) -> Self {
        match refusal {
            SamplingRefusal::Declined => Self {
                code: code::USER_REJECTED,
                message: "User rejected sampling request".into(),
                data: None,
            },
            SamplingRefusal::Limited(why) | SamplingRefusal::Failed(why) => internal_error(why),
        }
    }
}

//! [`Approve`]: a person's approval of each request to a model and of each answer (SA-02).

use bowline_proto::wire::view::{SamplingRequest, SamplingResult};

use crate::host::{HostFuture, SampleRequest};

/// Asks a person twice for each request. It is called for one question at a time.
///
/// Whatever is shown must be closed when the future is dropped: the server has canceled its
/// request.
pub trait Approve: Send + Sync + 'static {
    /// Shows the request of a server and where it would be sent. The person may change it.
    fn request<'a>(
        &'a self,
        request: &'a SampleRequest,
        plan: &'a SamplingPlan,
    ) -> HostFuture<'a, Decision<SamplingRequest>>;

    /// Shows the model's answer before the server gets it. The person may change it.
    fn result<'a>(
        &'a self,
        request: &'a SampleRequest,
        result: &'a SamplingResult,
    ) -> HostFuture<'a, Decision<SamplingResult>>;
}

/// A person's decision.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decision<T> {
    /// Accept it as it is.
    Accept,
    /// Accept this in its place.
    Replace(Box<T>),
    /// Refuse it.
    Refuse,
}

/// How a request would be carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SamplingPlan {
    /// The model that would be asked.
    pub model: Box<str>,
    /// Maximum number of tokens of the answer.
    pub max_tokens: u64,
    /// Origin of the endpoint that the conversation would be sent to.
    pub endpoint: Box<str>,
}

impl SamplingPlan {
    /// Creates a plan, for the unit test of an approver.
    pub fn new(model: impl Into<Box<str>>, max_tokens: u64, endpoint: impl Into<Box<str>>) -> Self {
        Self { model: model.into(), max_tokens, endpoint: endpoint.into() }
    }
}

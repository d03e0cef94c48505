//! [`Approve`]: the person without whom no model is asked and no answer is sent (SA-02).

use bowline_proto::wire::view::{SamplingRequest, SamplingResult};

use crate::host::{Asked, SampleRequest};

/// Asks a person, twice for each request. One question at a time is asked of it.
///
/// Whatever is shown must go when the future is dropped: the server has taken its request back.
pub trait Approve: Send + Sync + 'static {
    /// Shows what a server wants to have asked, and where that would go. The person may change it: the answer
    /// is then that to the changed request.
    fn request<'a>(
        &'a self,
        request: &'a SampleRequest,
        plan: &'a Plan,
    ) -> Asked<'a, Verdict<SamplingRequest>>;

    /// Shows what the model said, before the server sees it. The person may change it.
    fn result<'a>(
        &'a self,
        request: &'a SampleRequest,
        result: &'a SamplingResult,
    ) -> Asked<'a, Verdict<SamplingResult>>;
}

/// What a person says to something that is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict<T> {
    /// As it is.
    Accept,
    /// Like this.
    Replace(Box<T>),
    /// No.
    Refuse,
}

/// What would be done.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Plan {
    /// Which model would be asked.
    pub model: Box<str>,
    /// How many tokens the answer could have at most.
    pub max_tokens: u64,
    /// Where the conversation would be sent: the origin of the endpoint.
    pub endpoint: Box<str>,
}

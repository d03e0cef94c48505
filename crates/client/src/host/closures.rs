//! Closures as the parts of a [`Host`], for hosts that need no type of their own.

use std::sync::Arc;

use bowline_proto::wire::view::{ElicitResult, SamplingResult};

use super::elicit::{Elicit, FormRequest, Modes, UrlRequest};
use super::roots::{Root, Roots};
use super::sample::{Sample, SampleRequest, SamplingRefusal};
use super::{Host, HostFuture};

type AskForm = dyn Fn(FormRequest) -> HostFuture<'static, ElicitResult> + Send + Sync;
pub(super) type ListRoots = dyn Fn() -> HostFuture<'static, Vec<Root>> + Send + Sync;
type AskUrl = dyn Fn(UrlRequest) -> HostFuture<'static, ElicitResult> + Send + Sync;

/// The closures that ask a person.
#[derive(Clone, Default)]
pub(super) struct ElicitClosures {
    form: Option<Arc<AskForm>>,
    url: Option<Arc<AskUrl>>,
}

struct SampleClosure<F>(F);

impl Host {
    /// Sets the closure that shows a form, and declares elicitation by form. Replaces the part of
    /// [`Host::elicitation`].
    ///
    /// ```
    /// use bowline::host::Host;
    /// use serde_json::json;
    ///
    /// let host = Host::new().on_form(async |request| request.accept(json!({ "size": "large" })));
    /// ```
    #[must_use]
    pub fn on_form<F>(mut self, ask: impl Fn(FormRequest) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ElicitResult> + Send + 'static,
    {
        self.elicit_closures.form = Some(Arc::new(move |request| Box::pin(ask(request))));
        self.use_elicit_closures()
    }

    /// Sets the closure that asks whether a URL may be opened and opens it if so, and declares
    /// elicitation by URL. Replaces the part of [`Host::elicitation`]. See [`Elicit::url`].
    #[must_use]
    pub fn on_url<F>(mut self, ask: impl Fn(UrlRequest) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ElicitResult> + Send + 'static,
    {
        self.elicit_closures.url = Some(Arc::new(move |request| Box::pin(ask(request))));
        self.use_elicit_closures()
    }

    /// Sets the closure that asks a model, and declares sampling without tools. Replaces the part
    /// of [`Host::sampling`]. See [`Sample::sample`].
    #[must_use]
    pub fn on_sampling<F>(self, ask: impl Fn(SampleRequest) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<SamplingResult, SamplingRefusal>> + Send + 'static,
    {
        self.sampling(SampleClosure(ask))
    }

    /// Sets the closure that lists the folders that servers should work in, and declares roots. It is
    /// called for each request of a server. Replaces the list of [`Host::roots`].
    ///
    /// Changes are not announced: a legacy server that keeps the list learns of a change when it
    /// asks again. Use [`Host::roots`] with [`Roots`] for a list whose changes are
    /// announced.
    ///
    /// ```
    /// use bowline::host::{Host, Root};
    ///
    /// let host = Host::new().on_roots(async || Root::folder(".").into_iter().collect());
    /// ```
    #[must_use]
    pub fn on_roots<F>(mut self, list: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Vec<Root>> + Send + 'static,
    {
        self.roots = Some(Roots::new([]));
        self.roots_closure = Some(Arc::new(move || Box::pin(list())));
        self
    }

    fn use_elicit_closures(mut self) -> Self {
        self.elicit = Some(Arc::new(self.elicit_closures.clone()));
        self
    }
}

impl Elicit for ElicitClosures {
    fn modes(&self) -> Modes {
        Modes { form: self.form.is_some(), url: self.url.is_some() }
    }

    fn form(&self, request: FormRequest) -> HostFuture<'_, ElicitResult> {
        match &self.form {
            Some(ask) => ask(request),
            None => Box::pin(std::future::ready(ElicitResult::Decline)),
        }
    }

    fn url(&self, request: UrlRequest) -> HostFuture<'_, ElicitResult> {
        match &self.url {
            Some(ask) => ask(request),
            None => Box::pin(std::future::ready(ElicitResult::Decline)),
        }
    }
}

impl<F, A> Sample for SampleClosure<A>
where
    A: Fn(SampleRequest) -> F + Send + Sync + 'static,
    F: Future<Output = Result<SamplingResult, SamplingRefusal>> + Send + 'static,
{
    fn sample(&self, request: SampleRequest) -> HostFuture<'_, Result<SamplingResult, SamplingRefusal>> {
        Box::pin((self.0)(request))
    }
}

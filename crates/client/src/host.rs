//! [`Host`]: a [`Handler`] that is composed of parts for elicitation, sampling and roots.
//!
//! It checks server requests: whether they were declared, whether they are valid, how often a
//! person may be asked, and what may be sent as an answer. The parts ([`Elicit`], [`Sample`],
//! [`Roots`]) only see requests that passed, and are the same for servers of both eras.
//!
//! ```no_run
//! # async fn run(dialogs: impl bowline::host::Elicit) -> Result<(), Box<dyn std::error::Error>> {
//! use bowline::host::{Host, Root, Roots};
//! use bowline::{Client, Server};
//!
//! let roots = Roots::new([Root::folder(std::env::current_dir()?)?]);
//! let host = Host::new().roots(roots.clone()).elicitation(dialogs);
//! let server = Server::stdio("files", "my-mcp-server").build().unwrap();
//! let client = Client::builder(server).handler(host).connect().await?;
//! roots.set([]); // legacy servers are told
//! # client.close().await;
//! # Ok(())
//! # }
//! ```

mod closures;
mod elicit;
pub(crate) mod fair_queue;
mod from_config;
mod pending_urls;
mod question_queue;
mod roots;
mod sample;
pub mod url_preview;

#[cfg(test)]
mod tests;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bowline_proto::wire::object::Edit;
use bowline_proto::wire::{Json, RpcError, code, method};

pub use bowline_proto::form::{FormError, check_field, check_form, fill_defaults, parse_field};
pub use elicit::{DeclinedRequest, Elicit, FormRequest, Modes, UrlRequest};
pub use from_config::HostConfigError;
pub use question_queue::QuestionLimits;
pub use roots::{Root, RootError, Roots};
pub use sample::{Sample, SampleRequest, SamplingRefusal};

use crate::handler::{
    Handler, HandlerResult, RootChanges, ServerRequest, UrlElicitationOutcome, undeclared_error,
};
use crate::status::WatchChanges;
use closures::ElicitClosures;
use pending_urls::PendingUrls;
use question_queue::QuestionQueue;

/// The future returned by an [`Elicit`] or [`Sample`]. It is dropped when the server no longer
/// wants the answer; whatever is shown to a person must then be closed.
// CN-04
pub type HostFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A [`Handler`] that is composed of parts. Requests without a part are not declared, and refused.
///
/// # Behavior
/// - A person is asked one question at a time; servers take turns, within the [`QuestionLimits`].
/// - A question that is not answered in time counts as dismissed.
/// - Invalid form content is never sent, and untouched defaults are.
/// - `task` in a request is ignored: no tasks are declared, and the request is answered directly.
/// - Clones share their parts and the queue of questions: give one to each client.
// EL-06, EL-07, TA-06
#[derive(Clone, Default)]
pub struct Host {
    roots: Option<Roots>,
    /// Fills `roots` for each request; see [`Host::on_roots`].
    roots_closure: Option<Arc<closures::ListRoots>>,
    /// See [`Host::roots_wait`]; `None` is the default.
    roots_wait: Option<Duration>,
    elicit: Option<Arc<dyn Elicit>>,
    elicit_closures: ElicitClosures,
    sample: Option<Arc<dyn Sample>>,
    extensions: Vec<(Box<str>, Json)>,
    question_queue: Arc<QuestionQueue>,
    pending_urls: Arc<PendingUrls>,
}

impl Host {
    /// Creates a host that declares nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the folders that servers should work in: a list, or [`Roots`] that can be changed
    /// later. This is guidance, not protection; a server
    /// that was started with folders of its own may use these instead.
    #[must_use]
    pub fn roots(mut self, roots: impl Into<Roots>) -> Self {
        self.roots = Some(roots.into());
        self.roots_closure = None;
        self
    }

    /// Sets how long calls wait, after the handshake with a legacy server, for the server to
    /// request the roots (default 300 ms). Calls proceed at once when it has them, or if it cannot
    /// ask. A server that did not ask in its first session is not waited for in later ones.
    #[must_use]
    pub fn roots_wait(mut self, wait: Duration) -> Self {
        self.roots_wait = Some(wait);
        self
    }

    /// Sets the part that asks a person.
    #[must_use]
    pub fn elicitation(mut self, elicit: impl Elicit) -> Self {
        self.elicit = Some(Arc::new(elicit));
        self
    }

    /// Sets the part that asks a model.
    #[must_use]
    pub fn sampling(mut self, sample: impl Sample) -> Self {
        self.sample = Some(Arc::new(sample));
        self
    }

    /// Declares an extension with its settings. Settings other than an object count as `{}`.
    #[must_use]
    pub fn extension(mut self, id: &str, settings: Json) -> Self {
        let settings = if settings.is_object() { settings } else { Json::empty_object() };
        self.extensions.push((id.into(), settings));
        self
    }

    /// Sets the limits for questions to a person. Call it before cloning: earlier clones keep their
    /// own queue.
    #[must_use]
    pub fn questions(mut self, questions: QuestionLimits) -> Self {
        self.question_queue = Arc::new(QuestionQueue::new(questions));
        self
    }

    async fn handle_request(&self, request: ServerRequest) -> HandlerResult {
        match &*request.method {
            method::ROOTS_LIST => match &self.roots {
                Some(roots) => {
                    if let Some(list) = &self.roots_closure {
                        roots.set(list().await);
                    }
                    roots.list_result(&request.server).await
                }
                None => Err(undeclared_error(&request.method)),
            },
            method::ELICIT => match self.elicit.as_deref().filter(|elicit| elicit.modes().supports_any()) {
                Some(elicit) => {
                    elicit::handle_elicit(elicit, &self.question_queue, &self.pending_urls, request).await
                }
                None => Err(undeclared_error(&request.method)),
            },
            method::SAMPLING => match &self.sample {
                Some(sample) => {
                    sample::handle_sample(&**sample, self.question_queue.answer_timeout(), request).await
                }
                None => Err(undeclared_error(&request.method)),
            },
            _ => Err(undeclared_error(&request.method)),
        }
    }
}

impl Handler for Host {
    fn capabilities(&self) -> Json {
        let mut edit = Edit::new();
        // Nobody says when the list of a closure changes.
        let is_announced = self.roots_closure.is_none();
        let roots = json_object([("listChanged", Json::parse("true").ok().filter(|_| is_announced))]);
        if self.roots.is_some() {
            edit = edit.set("roots", &roots);
        }
        // SA-01: flags are empty objects.
        let flag = |set: bool| set.then(Json::empty_object);
        let sampling = self.sample.as_ref().map(|sample| {
            json_object([("tools", flag(sample.tools())), ("context", flag(sample.context()))])
        });
        if let Some(sampling) = &sampling {
            edit = edit.set("sampling", sampling);
        }
        // EL-01: without a supported mode there is nothing to declare.
        let modes = self.elicit.as_ref().map(|elicit| elicit.modes()).filter(|modes| modes.supports_any());
        let modes = modes.map(|modes| json_object([("form", flag(modes.form)), ("url", flag(modes.url))]));
        if let Some(modes) = &modes {
            edit = edit.set("elicitation", modes);
        }
        let extensions = self.extensions.iter().map(|(id, settings)| (&**id, Some(settings.clone())));
        let extensions = json_object(extensions);
        if !self.extensions.is_empty() {
            edit = edit.set("extensions", &extensions);
        }
        edit.apply(None).unwrap_or_else(|_| Json::empty_object())
    }

    fn handle(&self, request: ServerRequest) -> Pin<Box<dyn Future<Output = HandlerResult> + Send + '_>> {
        Box::pin(self.handle_request(request))
    }

    fn roots_changed(&self) -> Option<RootChanges> {
        let announced = self.roots.as_ref().filter(|_| self.roots_closure.is_none());
        announced.map(|roots| Box::pin(WatchChanges::new(roots.subscribe())) as RootChanges)
    }

    fn roots_request_wait(&self) -> Duration {
        self.roots.as_ref().map_or(Duration::ZERO, |_| self.roots_wait.unwrap_or(DEFAULT_ROOTS_WAIT))
    }

    fn url_elicitation_completed(&self, server: &str, elicitation_id: &str) {
        let known = self.pending_urls.remove(server, elicitation_id);
        // EL-11: an unknown completion is ignored.
        if let Some(elicit) = self.elicit.as_ref().filter(|_| known) {
            elicit.url_completed(server, elicitation_id);
        }
    }

    fn await_url_elicitation(
        &self,
        server: Arc<str>,
        elicitation_ids: Vec<Box<str>>,
    ) -> Pin<Box<dyn Future<Output = UrlElicitationOutcome> + Send + '_>> {
        match &self.elicit {
            Some(elicit) => elicit.await_url(server, elicitation_ids),
            None => Box::pin(std::future::pending()),
        }
    }
}

/// Default roots wait: longer than a server needs that asks at once, and shorter than a person
/// notices.
const DEFAULT_ROOTS_WAIT: Duration = Duration::from_millis(300);

/// Builds an object of the members that are set.
fn json_object<'a>(members: impl IntoIterator<Item = (&'a str, Option<Json>)>) -> Json {
    let members: Vec<(&str, Json)> =
        members.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    let edit = members.iter().fold(Edit::new(), |edit, (name, value)| edit.set(name, value));
    edit.apply(None).unwrap_or_else(|_| Json::empty_object())
}

fn invalid_params(reason: impl ToString) -> RpcError {
    RpcError { code: code::INVALID_PARAMS, message: reason.to_string(), data: None }
}

/// The error for a failure on our side.
fn internal_error(message: impl Into<String>) -> RpcError {
    RpcError { code: code::INTERNAL_ERROR, message: message.into(), data: None }
}

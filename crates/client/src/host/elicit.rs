//! Elicitation: which questions are put to a person, and what may be sent as the answer (group EL).

use std::sync::Arc;

use bowline_proto::form;
use bowline_proto::wire::Json;
use bowline_proto::wire::view::{ElicitResult as Reply, Elicitation, Form, UrlElicitation};

use super::pending_urls::PendingUrls;
use super::question_queue::QuestionQueue;
use super::url_preview::UrlPreview;
use super::{HostFuture, internal_error, invalid_params};
use crate::handler::{HandlerResult, ServerRequest, UrlElicitationOutcome};

/// Asks a person. A dialog names the server, and offers to decline and to dismiss.
///
/// Whatever is shown must be closed when the future is dropped: the server has canceled its
/// request, or the time is up.
// EL-03, CN-04
pub trait Elicit: Send + Sync + 'static {
    /// The supported modes. Called when the client connects, and again for every question.
    fn modes(&self) -> Modes {
        Modes::BOTH
    }

    /// Shows a form. Accepted content is checked before it is sent, and invalid content is an error
    /// on our side, so a dialog should call [`check_form`](super::check_form) while the person can still correct it.
    fn form(&self, request: FormRequest) -> HostFuture<'_, Reply>;

    /// Asks whether a URL may be opened, and opens it if so. Nothing may be fetched from it, before
    /// or after: it is between the person and the server. [`UrlPreview`] says what to show and to
    /// warn of.
    // EL-09
    fn url(&self, request: UrlRequest) -> HostFuture<'_, Reply>;

    /// Called when a question was declined without asking: a URL that must not be opened, or a form
    /// that cannot be filled in. Showing it explains to a person why a call failed.
    // EL-04, EL-09
    fn declined(&self, declined: DeclinedRequest) {
        let _ = declined;
    }

    /// Called when the server reports that an accepted URL elicitation is complete.
    // EL-11
    fn url_completed(&self, server: &str, id: &str) {
        let _ = (server, id);
    }

    /// Waits while a call is blocked on these URL elicitations. The person can confirm before the
    /// server does, or give up.
    // EL-10
    fn await_url(&self, server: Arc<str>, ids: Vec<Box<str>>) -> HostFuture<'_, UrlElicitationOutcome> {
        let _ = (server, ids);
        Box::pin(std::future::pending())
    }
}

/// A form to be shown.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FormRequest {
    /// The configured name of the server.
    pub server: Arc<str>,
    /// Our request that needs it, such as `tools/call search`.
    pub purpose: Option<Arc<str>>,
    /// The form, with text of the server.
    pub form: Form,
}

impl FormRequest {
    /// Creates a request that belongs to none of ours.
    pub fn new(server: impl Into<Arc<str>>, form: Form) -> Self {
        Self { server: server.into(), purpose: None, form }
    }

    /// The reply of a person who filled in the form with this content.
    pub fn accept(&self, content: serde_json::Value) -> Reply {
        // A value is always JSON.
        Reply::Accept(Json::encode(&content).ok())
    }
}

/// A URL to be opened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct UrlRequest {
    /// The configured name of the server.
    pub server: Arc<str>,
    /// Our request that needs it, such as `tools/call search`.
    pub purpose: Option<Arc<str>>,
    /// The URL and the reason, with text of the server. The URL is one that [`UrlPreview`] accepts.
    pub elicitation: UrlElicitation,
}

impl UrlRequest {
    /// Creates a request that belongs to none of ours.
    pub fn new(server: impl Into<Arc<str>>, elicitation: UrlElicitation) -> Self {
        Self { server: server.into(), purpose: None, elicitation }
    }
}

/// A question that was declined without asking a person.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DeclinedRequest {
    /// The configured name of the server.
    pub server: Arc<str>,
    /// Our request that needs it, such as `tools/call search`.
    pub purpose: Option<Arc<str>>,
    /// The server's message to the person.
    pub message: Box<str>,
    /// The URL to be opened; `None` for a form.
    pub url: Option<Box<str>>,
    /// Why it was declined, in a sentence without a period.
    pub reason: String,
}

impl DeclinedRequest {
    /// Creates a declined form without a purpose, for tests of an [`Elicit`]. Its fields can be set.
    pub fn new(server: impl Into<Arc<str>>, message: impl Into<Box<str>>, reason: impl Into<String>) -> Self {
        Self {
            server: server.into(),
            purpose: None,
            message: message.into(),
            url: None,
            reason: reason.into(),
        }
    }
}

/// The modes in which a person can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Modes {
    /// Forms.
    pub form: bool,
    /// URLs.
    pub url: bool,
}

impl Modes {
    /// Both modes.
    pub const BOTH: Self = Self { form: true, url: true };
    /// Forms only.
    pub const FORM: Self = Self { form: true, url: false };
    /// URLs only.
    pub const URL: Self = Self { form: false, url: true };

    pub(super) fn supports_any(self) -> bool {
        self.form || self.url
    }
}

/// Handles `elicitation/create`.
pub(super) async fn handle_elicit(
    elicit: &dyn Elicit,
    turns: &QuestionQueue,
    pages: &Arc<PendingUrls>,
    request: ServerRequest,
) -> HandlerResult {
    let ServerRequest { server, params, purpose: during, .. } = request;
    // Limits apply to all questions, since declining one also costs work.
    let ticket = turns.admit(&server)?;
    let modes = elicit.modes();
    // EL-12: check the mode first; the other params depend on it.
    if is_url_mode(&params) && !modes.url {
        return Err(invalid_params("elicitation by URL is not offered here"));
    }
    let decline = |message, url, why: String| {
        tracing::warn!(%server, why, "a question was declined, as it cannot be put to anybody");
        let (server, during) = (Arc::clone(&server), during.clone());
        elicit.declined(DeclinedRequest { server, purpose: during, message, url, reason: why });
        Ok(Reply::Decline.to_json())
    };
    let asked = match Elicitation::decode(&params) {
        Ok(asked) => asked,
        // EL-04: an unsupported schema is declined; it is not an invalid request.
        Err(error) if error.path.starts_with("requestedSchema.") && modes.form => {
            let message = params.member("message").and_then(|message| message.decode().ok());
            let why = format!("its form is of a kind that cannot be shown ({error})");
            return decline(message.unwrap_or_default(), None, why);
        }
        Err(error) => return Err(invalid_params(error)),
    };
    let reply = match asked {
        Elicitation::Form(_) if !modes.form => {
            return Err(invalid_params("elicitation by form is not offered here"));
        }
        Elicitation::Form(form) if form.fields.len() > MAX_FORM_FIELDS => {
            let why = format!("nobody can fill in a form of {} fields", form.fields.len());
            return decline(form.message, None, why);
        }
        Elicitation::Form(form) => {
            let shown = FormRequest { server: Arc::clone(&server), purpose: during, form: form.clone() };
            let reply = turns.ask(ticket, || elicit.form(shown)).await;
            check_accepted(&server, &form, reply)?
        }
        Elicitation::Url(page) => {
            if let Err(error) = UrlPreview::parse(&page.url) {
                return decline(page.message, Some(page.url), error.to_string());
            }
            let entry = page.id.clone().map(|id| pages.insert(&server, id));
            let reply = turns
                .ask(ticket, || elicit.url(UrlRequest { server, purpose: during, elicitation: page }))
                .await;
            // EL-10: only the consent is sent.
            match reply {
                Reply::Accept(_) => {
                    if let Some(entry) = entry {
                        entry.confirm();
                    }
                    Reply::Accept(None)
                }
                other => other,
            }
        }
        _ => return Err(invalid_params("this kind of elicitation is not offered here")),
    };
    Ok(reply.to_json())
}

/// Completes accepted content with the untouched defaults and checks it (EL-06, EL-07).
fn check_accepted(server: &str, form: &Form, reply: Reply) -> Result<Reply, bowline_proto::wire::RpcError> {
    let Reply::Accept(content) = reply else { return Ok(reply) };
    let content = form::fill_defaults(form, &content.unwrap_or_else(Json::empty_object));
    if let Err(errors) = form::check_form(form, &content) {
        // The values are private; only the errors are logged.
        let errors: Vec<String> = errors.iter().take(MAX_LOGGED_ERRORS).map(ToString::to_string).collect();
        tracing::error!(%server, errors = errors.join("; "), "an accepted form does not fit and was not sent");
        return Err(internal_error("the form was not filled in as asked"));
    }
    Ok(Reply::Accept(Some(content)))
}

fn is_url_mode(params: &Json) -> bool {
    params.member("mode").is_some_and(|mode| mode.decode::<String>().is_ok_and(|mode| mode == "url"))
}

/// Maximum number of form errors in one log line.
const MAX_LOGGED_ERRORS: usize = 8;

/// Maximum number of fields of a form that is shown.
const MAX_FORM_FIELDS: usize = 500;

//! Questions to a person: which may be asked, and what may leave as their answer (group EL).

use std::sync::Arc;

use bowline_proto::form;
use bowline_proto::wire::Json;
use bowline_proto::wire::view::{Answer as Reply, Elicitation, Form, UrlElicitation};

use super::page::Look;
use super::pages::Pages;
use super::turns::Turns;
use super::{Asked, internal, invalid};
use crate::handler::{Answer, Onward, ServerRequest};

/// Asks a person. A dialog names the server, and offers to decline and to dismiss (EL-03).
///
/// Whatever is shown must go when the future is dropped: the server has taken its question back, or nobody
/// answered in time (CN-04).
pub trait Elicit: Send + Sync + 'static {
    /// What it can show. Asked when the client connects, and again for every question.
    fn modes(&self) -> Modes {
        Modes::BOTH
    }

    /// Shows a form. What is accepted is checked before it is sent: content that does not fit is an error on
    /// our side, so a dialog asks [`form::check`] itself while there is somebody to correct it.
    fn form(&self, request: FormRequest) -> Asked<'_, Reply>;

    /// Asks whether a page may be opened, and opens it if so. Nothing may be fetched from it, before or after:
    /// it is between the person and the server (EL-09). [`Look`] says what to show and warn of.
    fn page(&self, request: PageRequest) -> Asked<'_, Reply>;

    /// A question was declined without being put to anybody, as it cannot be: a page that must not be opened (EL-09), or
    /// a form that nobody can fill in (EL-04). A person who hears of it understands why a call came to nothing.
    fn declined(&self, declined: DeclinedRequest) {
        let _ = declined;
    }

    /// The server says that a page that was agreed to is done with (EL-11).
    fn page_completed(&self, server: &str, id: &str) {
        let _ = (server, id);
    }

    /// A call waits until the server says that the person is done at these pages. Here the person can say so
    /// first, or give up (EL-10).
    fn await_page(&self, server: Arc<str>, ids: Vec<Box<str>>) -> Asked<'_, Onward> {
        let _ = (server, ids);
        Box::pin(std::future::pending())
    }
}

/// A form to be shown.
#[derive(Clone, Debug)]
pub struct FormRequest {
    /// Who asks: the configured name.
    pub server: Arc<str>,
    /// What of ours the server needs it for, such as `tools/call search`.
    pub during: Option<Arc<str>>,
    /// What is asked. Its words are the server's.
    pub form: Form,
}

/// A page to be opened.
#[derive(Clone, Debug)]
pub struct PageRequest {
    /// Who asks: the configured name.
    pub server: Arc<str>,
    /// What of ours the server needs it for, such as `tools/call search`.
    pub during: Option<Arc<str>>,
    /// Where to, and why. Its words are the server's; its URL is one that [`Look`] takes.
    pub page: UrlElicitation,
}

/// A question that was not put to anybody.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DeclinedRequest {
    /// Who asks: the configured name.
    pub server: Arc<str>,
    /// What of ours the server needs it for, such as `tools/call search`.
    pub during: Option<Arc<str>>,
    /// The server's words to the person.
    pub message: Box<str>,
    /// Where a page was to be opened; `None` for a form.
    pub url: Option<Box<str>>,
    /// Why it cannot be put to anybody, in a sentence without a full stop.
    pub why: String,
}

/// The ways in which a person can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Modes {
    /// By a form.
    pub form: bool,
    /// By a page.
    pub url: bool,
}

impl Modes {
    /// Both.
    pub const BOTH: Self = Self { form: true, url: true };
    /// Forms only.
    pub const FORM: Self = Self { form: true, url: false };
    /// Pages only.
    pub const URL: Self = Self { form: false, url: true };

    pub(super) fn any(self) -> bool {
        self.form || self.url
    }
}

/// Answers `elicitation/create`.
pub(super) async fn answer(
    elicit: &dyn Elicit,
    turns: &Turns,
    pages: &Arc<Pages>,
    request: ServerRequest,
) -> Answer {
    let ServerRequest { server, params, during, .. } = request;
    // A server that asks too much is refused whatever it asks: what cannot be shown costs work too.
    let ticket = turns.take(&server)?;
    let modes = elicit.modes();
    // EL-12: the mode is judged before what it asks, which only that mode can make sense of.
    if mode_is_url(&params) && !modes.url {
        return Err(invalid("elicitation by URL is not offered here"));
    }
    let decline = |message, url, why: String| {
        tracing::warn!(%server, why, "a question was declined, as it cannot be put to anybody");
        let (server, during) = (Arc::clone(&server), during.clone());
        elicit.declined(DeclinedRequest { server, during, message, url, why });
        Ok(Reply::Decline.to_json())
    };
    let asked = match Elicitation::decode(&params) {
        Ok(asked) => asked,
        // EL-04: a schema of another kind is a question that cannot be put, not a broken request.
        Err(error) if error.path.starts_with("requestedSchema.") && modes.form => {
            let message = params.member("message").and_then(|message| message.decode().ok());
            let why = format!("its form is of a kind that cannot be shown ({error})");
            return decline(message.unwrap_or_default(), None, why);
        }
        Err(error) => return Err(invalid(error)),
    };
    let reply = match asked {
        Elicitation::Form(_) if !modes.form => {
            return Err(invalid("elicitation by form is not offered here"));
        }
        Elicitation::Form(form) if form.fields.len() > MOST_FIELDS => {
            let why = format!("nobody can fill in a form of {} fields", form.fields.len());
            return decline(form.message, None, why);
        }
        Elicitation::Form(form) => {
            let shown = FormRequest { server: Arc::clone(&server), during, form: form.clone() };
            let reply = turns.ask(ticket, || elicit.form(shown)).await;
            accepted(&server, &form, reply)?
        }
        Elicitation::Url(page) => {
            if let Err(error) = Look::at(&page.url) {
                return decline(page.message, Some(page.url), error.to_string());
            }
            let entry = page.id.clone().map(|id| pages.begin(&server, id));
            let reply = turns.ask(ticket, || elicit.page(PageRequest { server, during, page })).await;
            // EL-10: consent is all that is said.
            match reply {
                Reply::Accept(_) => {
                    if let Some(entry) = entry {
                        entry.keep();
                    }
                    Reply::Accept(None)
                }
                other => other,
            }
        }
    };
    Ok(reply.to_json())
}

/// EL-06, EL-07: what is sent holds the defaults that were left alone, and fits.
fn accepted(server: &str, form: &Form, reply: Reply) -> Result<Reply, bowline_proto::wire::RpcError> {
    let Reply::Accept(content) = reply else { return Ok(reply) };
    let content = form::complete(form, &content.unwrap_or_else(Json::empty_object));
    if let Err(errors) = form::check(form, &content) {
        // The values are the person's; the log gets only what is wrong with them.
        let errors: Vec<String> = errors.iter().take(MOST_LOGGED).map(ToString::to_string).collect();
        tracing::error!(%server, errors = errors.join("; "), "an accepted form does not fit and was not sent");
        return Err(internal("the form was not filled in as asked"));
    }
    Ok(Reply::Accept(Some(content)))
}

fn mode_is_url(params: &Json) -> bool {
    params.member("mode").is_some_and(|mode| mode.decode::<String>().is_ok_and(|mode| mode == "url"))
}

/// More complaints about one form help nobody.
const MOST_LOGGED: usize = 8;

/// A form of more fields is not one that a person would fill in.
const MOST_FIELDS: usize = 500;

//! Validates the authorization response that a browser or a person brings back (AF-03, AF-05,
//! AF-06).
//!
//! The order matters: first `state`, which ties the response to this login; then `iss`, which names
//! the sender; only then the code or error.

use bowline_config::Secret;
use ring::digest::{SHA256, digest};
use url::form_urlencoded;

use crate::error::{AuthError, AuthErrorKind, sanitize, sanitize_url};

use Field::{Once, Twice};

/// What the response to a running login must contain (AF-04).
#[derive(Clone, Debug)]
pub(crate) struct ExpectedResponse {
    /// The issuer of the authorization request, verbatim.
    pub(crate) issuer: String,
    /// The `state` parameter of this login.
    pub(crate) state: Secret,
    /// Whether the issuer announced that responses carry `iss` (RFC 9207).
    pub(crate) iss_required: bool,
}

/// The meaning of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CallbackOutcome {
    /// A code that may be exchanged at the issuer.
    Code(Secret),
    /// The response does not belong to this login. The right one may still arrive.
    NotThisLogin,
}

/// Longer input is ignored, in bytes.
const MAX_RESPONSE_LENGTH: usize = 64 * 1024;

/// Parses a response that must belong to this login.
pub(crate) fn require_code(brought: &str, expected: &ExpectedResponse) -> Result<Secret, AuthError> {
    match parse(brought, expected)? {
        CallbackOutcome::Code(code) => Ok(code),
        CallbackOutcome::NotThisLogin => {
            let what = "the pasted URL does not belong to this login";
            Err(AuthError::new(AuthErrorKind::Untrusted, what)
                .hint("paste the whole URL that the browser was redirected to in the end"))
        }
    }
}

/// Parses a response that may belong to another login.
///
/// It is the address of the redirect, or its query. A person may also bring the bare code, unless
/// the issuer announced `iss`; without `state`, the person vouches for it.
pub(crate) fn parse(brought: &str, expected: &ExpectedResponse) -> Result<CallbackOutcome, AuthError> {
    let Some(text) = trimmed(brought) else { return Ok(CallbackOutcome::NotThisLogin) };
    let Some(query) = query_of(&text) else {
        return if expected.iss_required {
            let what = "a code alone does not identify its issuer";
            Err(AuthError::new(AuthErrorKind::Untrusted, what)
                .hint("give the whole URL that the browser was redirected to"))
        } else {
            Ok(CallbackOutcome::Code(Secret::new(text)))
        };
    };
    let fields = Fields::of(query);
    // AF-03
    match &fields.state {
        Once(Some(state)) if is_same(state, expected.state.expose()) => {}
        _ => return Ok(CallbackOutcome::NotThisLogin),
    }
    // AF-05, AF-06: before anything else is read, and also for an error response.
    match &fields.iss {
        Twice => return Err(untrusted("the login response has `iss` twice")),
        Once(Some(iss)) if *iss != expected.issuer => {
            let (from, issuer) = (sanitize_url(iss), sanitize_url(&expected.issuer));
            return Err(untrusted(format!(
                "the login response is from {from}, but the login was started at {issuer}"
            )));
        }
        Once(None) if expected.iss_required => {
            let issuer = sanitize_url(&expected.issuer);
            return Err(untrusted(format!("the login response does not name its issuer, {issuer}")));
        }
        Once(_) => {}
    }
    match (fields.error, fields.code) {
        (Once(Some(error)), _) => Err(authorization_error(&error, fields.description.as_deref())),
        (Once(None), Once(Some(code))) if !code.is_empty() => Ok(CallbackOutcome::Code(Secret::new(code))),
        (Once(None), Once(_)) => Ok(CallbackOutcome::NotThisLogin),
        (Twice, _) | (_, Twice) => Err(untrusted("the login response has a parameter twice")),
    }
}

/// Whether the input is neither an address nor a query, so at most a code.
pub(crate) fn is_bare_code(brought: &str) -> bool {
    trimmed(brought).is_some_and(|text| query_of(&text).is_none())
}

/// A parameter, which may occur at most once (RFC 6749 §3.1).
enum Field {
    Once(Option<String>),
    Twice,
}

struct Fields {
    state: Field,
    iss: Field,
    code: Field,
    error: Field,
    description: Option<String>,
}

impl Fields {
    fn of(query: &str) -> Self {
        let mut fields = Self {
            state: Once(None),
            iss: Once(None),
            code: Once(None),
            error: Once(None),
            description: None,
        };
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                "state" => fields.state.add(value.into_owned()),
                "iss" => fields.iss.add(value.into_owned()),
                "code" => fields.code.add(value.into_owned()),
                "error" => fields.error.add(value.into_owned()),
                "error_description" => fields.description = Some(value.into_owned()),
                _ => {}
            }
        }
        fields
    }
}

impl Field {
    fn add(&mut self, value: String) {
        *self = match self {
            Once(None) => Once(Some(value)),
            Once(Some(_)) | Twice => Twice,
        };
    }
}

/// Removes whitespace and surrounding quotes that come with copying. A response contains none.
fn trimmed(brought: &str) -> Option<String> {
    if brought.len() > MAX_RESPONSE_LENGTH {
        return None;
    }
    let text: String = brought.chars().filter(|c| !c.is_whitespace()).collect();
    let text = text.trim_matches(['"', '\'', '`', '<', '>']);
    (!text.is_empty()).then(|| text.to_owned())
}

/// The query of an address, or a bare query. Returns `None` for anything else, which counts as a
/// code.
fn query_of(text: &str) -> Option<&str> {
    let text = text.split_once('#').map_or(text, |(text, _)| text);
    match text.split_once('?') {
        Some((_, query)) => Some(query),
        None if text.contains("://") => Some(""),
        // Some codes end in `=`, like base64. A query has a known parameter.
        None => {
            let named = |name: &str| text.split('&').any(|field| field.split('=').next() == Some(name));
            (text.contains('=') && ["code", "state", "error"].into_iter().any(named)).then_some(text)
        }
    }
}

/// Compares digests, so that the time does not reveal where the values differ.
fn is_same(given: &str, expected: &str) -> bool {
    digest(&SHA256, given.as_bytes()).as_ref() == digest(&SHA256, expected.as_bytes()).as_ref()
}

fn authorization_error(error: &str, description: Option<&str>) -> AuthError {
    let kind = match error {
        "access_denied" => AuthErrorKind::Declined,
        "unauthorized_client" | "invalid_client" => AuthErrorKind::InvalidClient,
        "server_error" | "temporarily_unavailable" => AuthErrorKind::Unavailable,
        _ => AuthErrorKind::Refused,
    };
    let description = description.map(sanitize).filter(|text| !text.is_empty());
    let said = sanitize(error);
    AuthError::new(
        kind,
        match description {
            Some(description) => format!("the login was refused: {said} ({description})"),
            None => format!("the login was refused: {said}"),
        },
    )
}

fn untrusted(what: impl Into<String>) -> AuthError {
    AuthError::new(AuthErrorKind::Untrusted, what)
}

#[cfg(test)]
mod tests;

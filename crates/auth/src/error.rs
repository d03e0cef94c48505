//! Owns the kinds of ways in which an authorization can fail, and what each means for who waits.

use std::fmt;

/// Why there is no token, or none that is good.
///
/// Nothing in it is secret: what servers say is bounded and kept apart from what we sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthError {
    /// What it means.
    pub kind: AuthErrorKind,
    /// What happened, in a sentence without a full stop.
    pub what: String,
    /// What a person can do about it, if there is something.
    pub hint: Option<String>,
}

/// What a failure means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AuthErrorKind {
    /// A person has to log in.
    LoginNeeded,
    /// The person, or whoever was asked in their place, said no.
    Declined,
    /// Somebody could not be reached, or is overloaded: later it may work, and nothing was forgotten.
    Unavailable,
    /// `invalid_grant`: what was exchanged is not good, or not any more.
    InvalidGrant,
    /// `invalid_client`, or `unauthorized_client`: the authorization server does not know us, or not so.
    InvalidClient,
    /// The authorization server refused for another reason.
    Refused,
    /// A rule of the protocol was broken, and it would not be safe to go on.
    Untrusted,
    /// The configuration does not say enough, or not what is possible.
    Setup,
    /// The server wants more than logins can give: it refused again after each.
    Insufficient,
    /// What is remembered could not be read or written.
    Store,
    /// The program that makes headers failed.
    Command,
    /// What proves who we are would go over plain `http` to another machine, which the configuration does not allow.
    PlainHttp,
    /// The server lets everybody in: a login would be of no use.
    NotNeeded,
}

impl AuthError {
    /// A failure of a kind.
    pub fn new(kind: AuthErrorKind, what: impl Into<String>) -> Self {
        Self { kind, what: what.into(), hint: None }
    }

    /// With what a person can do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Whether it can be gone in a while without anybody's doing.
    pub fn is_transient(&self) -> bool {
        matches!(self.kind, AuthErrorKind::Unavailable)
    }
}

impl fmt::Display for AuthError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for AuthError {}

impl From<bowline_store::StoreError> for AuthError {
    fn from(error: bowline_store::StoreError) -> Self {
        Self::new(AuthErrorKind::Store, error.to_string())
    }
}

/// What somebody else said, fit for an error: bounded, on one line, and nothing that moves a cursor.
pub(crate) fn said(text: &str) -> String {
    const MOST: usize = 200;
    let clean = |c: char| if c.is_control() || c.is_whitespace() { ' ' } else { c };
    let text: String = text.trim().chars().take(MOST).map(clean).collect();
    text.trim_end().to_owned()
}

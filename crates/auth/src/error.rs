//! Owns the kinds of authorization failures, and what each means for the caller.

use std::fmt;

use bowline_transport::describe_url_text;

/// Why there is no valid token.
///
/// Contains no secret: text from servers is bounded, and what was sent is redacted from it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuthError {
    /// The kind of failure.
    pub kind: AuthErrorKind,
    /// What happened, as a sentence without a full stop.
    pub what: String,
    /// What a person can do about it, if anything.
    pub hint: Option<String>,
}

/// The kind of an authorization failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AuthErrorKind {
    /// A person has to log in.
    LoginNeeded,
    /// The person, or the program that answered for them, declined.
    Declined,
    /// A server is unreachable or overloaded. A later attempt may succeed; nothing stored has
    /// changed.
    Unavailable,
    /// `invalid_grant`: the code, refresh token or assertion is not valid, or no longer.
    InvalidGrant,
    /// `invalid_client` or `unauthorized_client`: the authorization server does not accept the
    /// client.
    InvalidClient,
    /// The authorization server refused for another reason.
    Refused,
    /// A rule of the protocol was violated, and it would not be safe to continue.
    Untrusted,
    /// The configuration is incomplete or not possible.
    Setup,
    /// The server keeps asking for more scopes than logins obtain.
    Insufficient,
    /// The store could not be read or written.
    Store,
    /// The headers command failed.
    Command,
    /// Credentials would be sent over plain `http` to another machine, which the configuration does
    /// not allow.
    PlainHttp,
    /// The server accepts requests without a login.
    NotNeeded,
}

impl AuthError {
    /// Creates an error without a hint.
    pub fn new(kind: AuthErrorKind, what: impl Into<String>) -> Self {
        Self { kind, what: what.into(), hint: None }
    }

    /// Adds what a person can do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Whether a later attempt may succeed without any change.
    pub fn is_transient(&self) -> bool {
        matches!(self.kind, AuthErrorKind::Unavailable)
    }

    /// Whether the failure may go away by itself, and nothing has changed.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(self.kind, AuthErrorKind::Unavailable | AuthErrorKind::Store)
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

/// Makes text from others fit for an error message: bounded, on one line, without control
/// characters.
pub(crate) fn sanitize(text: &str) -> String {
    const MAX_LENGTH: usize = 200;
    let clean = |c: char| if c.is_control() || c.is_whitespace() { ' ' } else { c };
    let text: String = text.trim().chars().take(MAX_LENGTH).map(clean).collect();
    text.trim_end().to_owned()
}

/// Makes a URL from others fit for an error message, without what may be a key.
pub(crate) fn sanitize_url(text: &str) -> String {
    sanitize(&describe_url_text(text))
}

//! [`TokenVerifier`]: decides whether an access token of a host is valid, and whose it is.

use std::collections::BTreeSet;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::SystemTime;

/// The future of [`TokenVerifier::verify`].
pub type TokenVerifierFuture<'a> =
    Pin<Box<dyn Future<Output = Result<TokenIdentity, TokenRefusal>> + Send + 'a>>;

/// Verifies the access tokens that hosts send to a
/// [`ResourceServer`](crate::ResourceServer): by their signature, or by asking whoever issued them.
///
/// An implementation checks that the token was issued by an accepted issuer, for this resource, and
/// that it has not expired. It is called for every request with a token, so it caches what it can;
/// the listener waits 30 s at most. What it returns must not contain the token.
pub trait TokenVerifier: fmt::Debug + Send + Sync + 'static {
    /// Verifies a token. Dropping the future must not leave anything behind.
    fn verify<'a>(&'a self, token: &'a str) -> TokenVerifierFuture<'a>;
}

/// Whom a token was issued to, and what for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenIdentity {
    issuer: String,
    subject: String,
    scopes: BTreeSet<String>,
    expiry: Option<SystemTime>,
}

/// Why a token opens nothing. The reason is for the log, and must not contain the token.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenRefusal {
    /// The token is not valid: the host is answered with 401.
    Invalid(String),
    /// It cannot be decided now, because the issuer is unreachable: the host is answered with 503.
    Unavailable(String),
}

impl TokenIdentity {
    /// Names the holder of a token by its issuer and by the subject, whom the issuer names in the same
    /// way in every token. A session is bound to both.
    pub fn new(
        issuer: impl Into<String>,
        subject: impl Into<String>,
        scopes: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        Self {
            issuer: issuer.into(),
            subject: subject.into(),
            scopes: scopes.into_iter().map(Into::into).collect(),
            expiry: None,
        }
    }

    /// Sets until when the token is accepted (default: for as long as the verifier accepts it). Event streams that
    /// were opened with it end then.
    #[must_use]
    pub fn with_expiry(mut self, expiry: SystemTime) -> Self {
        self.expiry = Some(expiry);
        self
    }

    /// Until when the token is accepted, if that is known.
    pub fn expiry(&self) -> Option<SystemTime> {
        self.expiry
    }

    /// Who issued the token.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// Whom it was issued to.
    pub fn subject(&self) -> &str {
        &self.subject
    }

    /// What it was issued for.
    pub fn scopes(&self) -> &BTreeSet<String> {
        &self.scopes
    }
}

impl fmt::Display for TokenRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(reason) | Self::Unavailable(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for TokenRefusal {}

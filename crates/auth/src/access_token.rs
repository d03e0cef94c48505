//! Verifies access tokens that others present to us: JWTs of configured issuers (RFC 9068, RFC 8725).

mod claims;
mod compact;
mod issuer_keys;
mod jwks;
mod verification_key;

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use bowline_transport::http::Proxies;

use crate::error::{AuthError, sanitize_url};
use crate::jwt::unix_seconds;
use claims::Claims;
use compact::{CompactToken, SignatureCheck};
use issuer_keys::{IssuerKeys, IssuerUnavailable};
use jwks::JwksSource;

/// Verifies access tokens of some issuers for one resource. It is for a resource server: tokens that we
/// have of our own are opaque to us.
///
/// # Behavior
/// - A token is a JWT that is signed by RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384 or
///   EdDSA, and has at most 16 KiB. Its key is one that its issuer publishes, which may limit the key
///   to one algorithm.
/// - `iss` is one of the issuers, `aud` contains the resource, `exp` has not passed, and neither `nbf`
///   nor `iat` is in the future. Clocks may differ by a minute. `sub` is required. A token that is bound
///   to a key of its holder (`cnf`) is refused, since no proof of that key is checked.
/// - The keys of an issuer are fetched when they are first needed, through its metadata (RFC 8414 or
///   OpenID Connect Discovery), and again after 10 minutes. A token with an unknown key has them
///   fetched at once, every 30 s at most, whoever sends such tokens. Redirects to another origin are not followed. While an issuer is unreachable,
///   its last keys are used, for 24 h at most.
/// - Dropping the future of a verification does not end a fetch, which others may wait for.
pub struct AccessTokenVerifier {
    resource: String,
    issuers: Vec<Arc<IssuerKeys>>,
}

/// What a valid access token says.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerifiedToken {
    /// Who issued it, as configured.
    pub issuer: String,
    /// Whom it was issued to (`sub`).
    pub subject: String,
    /// Its scopes, from `scope` or `scp`.
    pub scopes: Vec<String>,
    /// Until when it is accepted, by which clocks may differ included.
    pub accepted_until: SystemTime,
}

/// Why an access token is not accepted. Contains nothing of the token.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenRejection {
    /// The token is not valid.
    Invalid(TokenDefect),
    /// Its issuer is unreachable, so that its signature cannot be checked now.
    IssuerUnavailable {
        /// The issuer, as configured.
        issuer: String,
    },
}

/// What is wrong with an access token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TokenDefect {
    /// It is longer than 16 KiB.
    TooLong,
    /// It is no JWT, or one that cannot be read.
    Malformed,
    /// It is signed by an algorithm that is not accepted, or not at all.
    Algorithm,
    /// Its type says that it is another kind of token.
    Type,
    /// It has an extension that has to be understood.
    Critical,
    /// Its issuer is not accepted.
    Issuer,
    /// It was issued for another resource.
    Audience,
    /// It has expired, or does not say when it will.
    Expired,
    /// It is not valid yet.
    NotYetValid,
    /// It does not say whom it was issued to.
    Subject,
    /// It is bound to a key of its holder.
    Bound,
    /// Its issuer has no such key.
    UnknownKey,
    /// Its signature is wrong.
    Signature,
}

impl AccessTokenVerifier {
    /// Creates a verifier, without sending a request. Issuers and resource are compared to the letter.
    /// Fails if an issuer is no `https` URL and not on this machine.
    pub fn new(
        resource: impl Into<String>,
        issuers: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<Self, AuthError> {
        let keys = |issuer: String| {
            let source = JwksSource::new(&issuer, Proxies::System)?;
            Ok(Arc::new(IssuerKeys::new(issuer, source)))
        };
        let issuers = issuers.into_iter().map(|issuer| keys(issuer.into()));
        Ok(Self { resource: resource.into(), issuers: issuers.collect::<Result<_, AuthError>>()? })
    }

    /// Verifies a token. Dropping the future does not stop a fetch of the issuer's keys that has started.
    pub async fn verify(&self, token: &str) -> Result<VerifiedToken, TokenRejection> {
        self.verify_at(token, unix_seconds(SystemTime::now())).await
    }

    async fn verify_at(&self, token: &str, now: u64) -> Result<VerifiedToken, TokenRejection> {
        let token = CompactToken::parse(token)?;
        let claims = Claims::parse(&token.claims)?;
        let issuer = self.issuers.iter().find(|known| known.issuer() == claims.iss);
        let issuer = issuer.ok_or(TokenDefect::Issuer)?;
        // Before the signature, so that nothing is fetched because of a token that is of no use.
        let verified = claims.check(&self.resource, now)?;
        let keys = issuer.current_keys().await?;
        match token.check_signature(&keys) {
            SignatureCheck::Valid => Ok(verified),
            SignatureCheck::Wrong => Err(TokenDefect::Signature.into()),
            SignatureCheck::UnknownKey => {
                let newer = issuer.keys_after(&keys).await?.ok_or(TokenDefect::UnknownKey)?;
                match token.check_signature(&newer) {
                    SignatureCheck::Valid => Ok(verified),
                    SignatureCheck::Wrong => Err(TokenDefect::Signature.into()),
                    SignatureCheck::UnknownKey => Err(TokenDefect::UnknownKey.into()),
                }
            }
        }
    }
}

impl fmt::Debug for AccessTokenVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let issuers: Vec<_> = self.issuers.iter().map(|keys| keys.issuer()).collect();
        f.debug_struct("AccessTokenVerifier")
            .field("resource", &self.resource)
            .field("issuers", &issuers)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for TokenRejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(defect) => defect.fmt(f),
            Self::IssuerUnavailable { issuer } => {
                write!(f, "the keys of {} cannot be fetched", sanitize_url(issuer))
            }
        }
    }
}

impl std::error::Error for TokenRejection {}

impl fmt::Display for TokenDefect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLong => "the token is too long",
            Self::Malformed => "the token is not a JWT",
            Self::Algorithm => "the algorithm of the token is not accepted",
            Self::Type => "the token is not an access token",
            Self::Critical => "the token has an unknown critical extension",
            Self::Issuer => "the issuer of the token is not accepted",
            Self::Audience => "the token is for another resource",
            Self::Expired => "the token has expired",
            Self::NotYetValid => "the token is not valid yet",
            Self::Subject => "the token has no subject",
            Self::Bound => "the token is bound to a key",
            Self::UnknownKey => "the token is signed with an unknown key",
            Self::Signature => "the signature of the token is wrong",
        })
    }
}

impl From<TokenDefect> for TokenRejection {
    fn from(defect: TokenDefect) -> Self {
        Self::Invalid(defect)
    }
}

impl From<IssuerUnavailable> for TokenRejection {
    fn from(IssuerUnavailable { issuer }: IssuerUnavailable) -> Self {
        Self::IssuerUnavailable { issuer }
    }
}

#[cfg(test)]
mod tests;

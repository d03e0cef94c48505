//! Owns what the claims of an access token must say.

use std::time::{Duration, UNIX_EPOCH};

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::{TokenDefect, VerifiedToken};
use crate::challenge::parse_scopes;

/// The claims that are read. A claim that is given twice, or has another type, makes the token
/// malformed.
#[derive(Deserialize)]
pub(super) struct Claims {
    #[serde(default)]
    pub(super) iss: String,
    #[serde(default)]
    sub: String,
    aud: Option<Texts>,
    exp: Option<f64>,
    nbf: Option<f64>,
    iat: Option<f64>,
    scope: Option<Texts>,
    /// The scopes, as some issuers write them.
    scp: Option<Texts>,
    cnf: Option<IgnoredAny>,
}

/// One text, or several.
#[derive(Deserialize)]
#[serde(untagged)]
enum Texts {
    One(String),
    Several(Vec<String>),
}

/// By how much clocks may differ, in seconds.
const LEEWAY: f64 = 60.0;
/// The latest end of a token that is told apart from never, in seconds since the epoch: in the year 5138.
const MAX_END: f64 = 1e11;
/// The longest subject, in bytes.
const MAX_SUBJECT_LENGTH: usize = 1024;

impl Claims {
    pub(super) fn parse(json: &[u8]) -> Result<Self, TokenDefect> {
        serde_json::from_slice(json).map_err(|_| TokenDefect::Malformed)
    }

    /// Checks the claims of a token of a known issuer, at `now` in seconds since the epoch.
    pub(super) fn check(self, resource: &str, now: u64) -> Result<VerifiedToken, TokenDefect> {
        #[expect(clippy::cast_precision_loss, reason = "seconds of this century are exact")]
        let now = now as f64;
        if !self.aud.is_some_and(|aud| aud.as_slice().iter().any(|aud| aud == resource)) {
            return Err(TokenDefect::Audience);
        }
        let Some(end) = self.exp.map(|exp| exp + LEEWAY).filter(|end| *end > now) else {
            return Err(TokenDefect::Expired);
        };
        if [self.nbf, self.iat].into_iter().flatten().any(|time| time - LEEWAY > now) {
            return Err(TokenDefect::NotYetValid);
        }
        // RFC 9449 §7.2: a bound token is not accepted without a proof.
        if self.cnf.is_some() {
            return Err(TokenDefect::Bound);
        }
        if self.sub.is_empty() || self.sub.len() > MAX_SUBJECT_LENGTH {
            return Err(TokenDefect::Subject);
        }
        let scopes = self.scope.or(self.scp).map(|scopes| parse_scopes(&scopes.as_slice().join(" ")));
        let accepted_until = UNIX_EPOCH + Duration::from_secs_f64(end.min(MAX_END));
        let scopes = scopes.unwrap_or_default();
        Ok(VerifiedToken { issuer: self.iss, subject: self.sub, scopes, accepted_until })
    }
}

impl Texts {
    fn as_slice(&self) -> &[String] {
        match self {
            Self::One(text) => std::slice::from_ref(text),
            Self::Several(texts) => texts,
        }
    }
}

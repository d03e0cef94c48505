//! Owns the tokens that a token endpoint issued.

use std::time::SystemTime;

use bowline_config::Secret;

/// A token response, with absolute times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tokens {
    /// The access token.
    pub access: Secret,
    /// How the access token is sent.
    pub scheme: Scheme,
    /// The refresh token.
    pub refresh: Option<Secret>,
    /// When the access token expires, by our clock; `None` if unknown.
    pub expires_at: Option<SystemTime>,
    /// The granted scopes, if the response names them.
    pub scopes: Option<Vec<String>>,
    /// The OpenID Connect ID token; for display only.
    pub id_token: Option<Secret>,
}

/// How an access token is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Scheme {
    /// As a bearer token: whoever has it can use it.
    Bearer,
    /// With a proof of possession of its key (RFC 9449).
    Dpop,
}

//! Owns what a token endpoint has given.

use std::time::SystemTime;

use bowline_config::Secret;

/// What a token endpoint has given, in absolute terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tokens {
    /// What is shown to the server.
    pub access: Secret,
    /// How it is shown.
    pub scheme: Scheme,
    /// What the next one is had for.
    pub refresh: Option<Secret>,
    /// When it ends, by our clock; `None` is not known.
    pub expires_at: Option<SystemTime>,
    /// What it is good for, if that was said.
    pub scopes: Option<Vec<String>>,
    /// Who logged in (OpenID Connect); for display only.
    pub id_token: Option<Secret>,
}

/// How a token is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scheme {
    /// Whoever has it may use it.
    Bearer,
    /// Only with a proof of its key (RFC 9449).
    Dpop,
}

//! Owns the description of an OAuth client at one authorization server.

use bowline_config::{Secret, SigningKey, TokenAuth};
use url::Url;

/// An OAuth client at one authorization server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OAuthClient {
    /// `client_id`.
    pub id: String,
    /// `client_secret`.
    pub secret: Option<Secret>,
    /// How the client authenticates at the token endpoint.
    pub method: TokenAuth,
    /// The key that signs its assertions.
    pub key: Option<SigningKey>,
    /// The audience of its assertions, if it is not the issuer.
    pub audience: Option<String>,
    /// The issuer that the client belongs to. It is never sent to another one.
    // AR-04
    pub issuer: String,
    /// Where the client comes from.
    pub origin: ClientOrigin,
    /// The registered redirect, if it differs from the requested one: `localhost` instead of an IP
    /// address.
    pub registered_redirect: Option<Url>,
}

/// Where a client comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ClientOrigin {
    /// Registered by hand and configured. It is never changed or forgotten.
    Configured,
    /// Identified by a Client ID Metadata Document.
    Document,
    /// Registered dynamically; can be registered again.
    Registered,
}

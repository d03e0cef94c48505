//! Owns what a client is at an authorization server.

use bowline_config::{Secret, SigningKey, TokenAuth};
use url::Url;

/// A client, as one authorization server knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OAuthClient {
    /// `client_id`.
    pub id: String,
    /// `client_secret`.
    pub secret: Option<Secret>,
    /// How it proves itself.
    pub method: TokenAuth,
    /// What it signs assertions with.
    pub key: Option<SigningKey>,
    /// The audience of assertions, where it is not the issuer.
    pub audience: Option<String>,
    /// The issuer it is known to. Nobody else is ever shown it (AR-04).
    pub issuer: String,
    /// Where it comes from.
    pub origin: ClientOrigin,
    /// Where it may be sent back to, if that was registered in another way than was wanted: by name, not by address.
    pub redirect: Option<Url>,
}

/// Where a client comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClientOrigin {
    /// Somebody registered it by hand. It is never touched.
    Configured,
    /// A document says who it is.
    Document,
    /// We registered it, and can do so again.
    Registered,
}

//! Owns what is known of the place that gives out tokens for a server, after it was checked.

use url::Url;

use crate::error::{AuthError, AuthErrorKind, said};

/// Who gives out tokens for a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// `resource` of the server's metadata, to the letter (AF-02).
    pub resource: Option<String>,
    /// `scopes_supported` of the server's metadata.
    pub scopes: Option<Vec<String>>,
    /// Whether the server takes bound tokens only, or says that it can take them (RFC 9728).
    pub wants_dpop: bool,
    /// The authorization server. Its `issuer` was checked, to the letter (AD-06).
    pub metadata: Metadata,
    /// How it was found.
    pub kind: PlaceKind,
}

/// How a place was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PlaceKind {
    /// The server described itself (RFC 9728), or the configuration says what it does not.
    Described,
    /// The server is of 2025-03-26: its own origin is the authorization server, which described itself (AD-07).
    Origin,
    /// The same, and nothing was described: the addresses are the ones by default (AD-07).
    Default,
}

/// What an authorization server says of itself (RFC 8414). Every address was checked: `https`, or this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct Metadata {
    /// To the letter.
    pub issuer: String,
    /// Where people log in.
    pub authorization_endpoint: Option<Url>,
    /// Where tokens are had.
    pub token_endpoint: Option<Url>,
    /// Where clients register.
    pub registration_endpoint: Option<Url>,
    /// Where codes for other devices are had.
    pub device_authorization_endpoint: Option<Url>,
    /// Where tokens are ended.
    pub revocation_endpoint: Option<Url>,
    /// The scopes it knows.
    pub scopes_supported: Option<Vec<String>>,
    /// The ways of PKCE it knows.
    pub code_challenge_methods_supported: Option<Vec<String>>,
    /// How clients may prove themselves at the token endpoint.
    pub token_endpoint_auth_methods_supported: Option<Vec<String>>,
    /// By which algorithms.
    pub token_endpoint_auth_signing_alg_values_supported: Option<Vec<String>>,
    /// The grants it knows.
    pub grant_types_supported: Option<Vec<String>>,
    /// `authorization_grant_profiles_supported`.
    pub grant_profiles_supported: Option<Vec<String>>,
    /// The algorithms of DPoP it knows.
    pub dpop_signing_alg_values_supported: Option<Vec<String>>,
    /// Whether it takes the URL of a document as `client_id`.
    pub client_id_metadata_document_supported: bool,
    /// Whether it says who it is in what a browser brings back (RFC 9207).
    pub authorization_response_iss_parameter_supported: bool,
}

impl Place {
    /// Whether a client that acts for itself may show there what proves it. Nobody looks on who could be surprised, so
    /// that an address that is only guessed is not enough.
    pub(crate) fn check_described(&self, server: &str) -> Result<(), AuthError> {
        if self.kind != PlaceKind::Default {
            return Ok(());
        }
        let what = format!(
            "{server} does not say who gives out its tokens, and {} does not say that it does: nothing was sent there",
            said(&self.metadata.issuer)
        );
        Err(AuthError::new(AuthErrorKind::Setup, what)
            .hint("set `issuer` in the server's `auth` to its authorization server"))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A place that says nothing but who it is.
    pub(crate) fn place() -> Place {
        let issuer = "https://as.example".to_owned();
        Place {
            resource: None,
            scopes: None,
            wants_dpop: false,
            metadata: Metadata { issuer, ..Metadata::default() },
            kind: PlaceKind::Described,
        }
    }
}

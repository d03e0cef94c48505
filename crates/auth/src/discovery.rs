//! Owns the result of discovery: which authorization server issues tokens for a server, after all
//! checks.

use url::Url;

use crate::error::{AuthError, AuthErrorKind, sanitize_url};

/// The authorization server of a server, and what the server's own metadata says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Discovery {
    /// `resource` of the server's metadata, verbatim.
    // AF-02
    pub resource: Option<String>,
    /// `scopes_supported` of the server's metadata.
    pub scopes: Option<Vec<String>>,
    /// Whether the server requires DPoP-bound tokens, or announces that it accepts them (RFC 9728).
    pub wants_dpop: bool,
    /// The authorization server. Its `issuer` matched exactly.
    // AD-06
    pub metadata: Metadata,
    /// How the authorization server was found.
    pub kind: DiscoveryKind,
}

/// How an authorization server was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DiscoveryKind {
    /// By the server's metadata (RFC 9728), or by the configured issuer.
    Described,
    /// A server of 2025-03-26: its own origin is the authorization server and publishes metadata.
    // AD-07
    Origin,
    /// A server of 2025-03-26 without metadata: default endpoints at its origin are assumed.
    // AD-07
    DefaultEndpoints,
}

/// Authorization server metadata (RFC 8414). Every URL was checked: `https`, or loopback.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct Metadata {
    /// The issuer, verbatim.
    pub issuer: String,
    /// Where people log in.
    pub authorization_endpoint: Option<Url>,
    /// Where tokens are requested.
    pub token_endpoint: Option<Url>,
    /// Where clients register.
    pub registration_endpoint: Option<Url>,
    /// Where device codes are requested.
    pub device_authorization_endpoint: Option<Url>,
    /// Where tokens are revoked.
    pub revocation_endpoint: Option<Url>,
    /// The supported scopes.
    pub scopes_supported: Option<Vec<String>>,
    /// The supported PKCE methods.
    pub code_challenge_methods_supported: Option<Vec<String>>,
    /// How clients may authenticate at the token endpoint.
    pub token_endpoint_auth_methods_supported: Option<Vec<String>>,
    /// The signing algorithms for client assertions.
    pub token_endpoint_auth_signing_alg_values_supported: Option<Vec<String>>,
    /// The supported grants.
    pub grant_types_supported: Option<Vec<String>>,
    /// `authorization_grant_profiles_supported`.
    pub grant_profiles_supported: Option<Vec<String>>,
    /// The signing algorithms for DPoP proofs.
    pub dpop_signing_alg_values_supported: Option<Vec<String>>,
    /// Whether the URL of a Client ID Metadata Document is accepted as `client_id`.
    pub client_id_metadata_document_supported: bool,
    /// Whether authorization responses carry `iss` (RFC 9207).
    pub authorization_response_iss_parameter_supported: bool,
}

impl Discovery {
    /// Fails if the endpoints are only assumed. A client without a person must not send its
    /// credentials there, because nobody would notice a wrong guess.
    pub(crate) fn check_not_guessed(&self, server: &str) -> Result<(), AuthError> {
        if self.kind != DiscoveryKind::DefaultEndpoints {
            return Ok(());
        }
        let what = format!(
            "{server} names no authorization server, and {} publishes no metadata of one: no credentials were sent there",
            sanitize_url(&self.metadata.issuer)
        );
        Err(AuthError::new(AuthErrorKind::Setup, what)
            .hint("set `issuer` in the server's `auth` to its authorization server"))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A discovery result with nothing but an issuer.
    pub(crate) fn bare_discovery() -> Discovery {
        let issuer = "https://as.example".to_owned();
        Discovery {
            resource: None,
            scopes: None,
            wants_dpop: false,
            metadata: Metadata { issuer, ..Metadata::default() },
            kind: DiscoveryKind::Described,
        }
    }
}

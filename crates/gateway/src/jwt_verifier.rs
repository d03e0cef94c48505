//! [`JwtVerifier`]: verifies access tokens of hosts by the keys that their issuers publish.

use bowline::auth::AuthError;
use bowline_auth::{AccessTokenVerifier, TokenRejection};
use bowline_server::{TokenIdentity, TokenRefusal, TokenVerifier, TokenVerifierFuture};

/// Verifies access tokens that are JWTs, for a [`ResourceServer`](crate::ResourceServer).
/// [`AccessTokenVerifier`] says which tokens are accepted, and when keys are fetched.
///
/// ```no_run
/// # fn settings() -> Result<bowline_gateway::HttpSettings, Box<dyn std::error::Error>> {
/// use std::sync::Arc;
///
/// use bowline_gateway::{HttpSettings, JwtVerifier, ResourceServer};
///
/// let (resource, issuers) = ("https://gateway.example.com/mcp", ["https://login.example.com"]);
/// let verifier = JwtVerifier::new(resource, issuers)?;
/// let oauth = ResourceServer::new(resource, issuers, Arc::new(verifier)).with_scopes(["mcp"]);
/// let settings = HttpSettings::new().with_allowed_hosts(["gateway.example.com"]);
/// # Ok(
/// settings.with_resource_server(oauth)
/// # )
/// # }
/// ```
#[derive(Debug)]
pub struct JwtVerifier {
    verifier: AccessTokenVerifier,
}

impl JwtVerifier {
    /// Accepts tokens of these issuers for this resource; both are compared to the letter. Sends no
    /// request. Fails if an issuer is no `https` URL and not on this machine.
    pub fn new(
        resource: impl Into<String>,
        issuers: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<Self, AuthError> {
        Ok(Self { verifier: AccessTokenVerifier::new(resource, issuers)? })
    }
}

impl TokenVerifier for JwtVerifier {
    fn verify<'a>(&'a self, token: &'a str) -> TokenVerifierFuture<'a> {
        Box::pin(async move {
            match self.verifier.verify(token).await {
                Ok(verified) => {
                    let identity = TokenIdentity::new(verified.issuer, verified.subject, verified.scopes);
                    Ok(identity.with_expiry(verified.accepted_until))
                }
                Err(rejection @ TokenRejection::IssuerUnavailable { .. }) => {
                    Err(TokenRefusal::Unavailable(rejection.to_string()))
                }
                Err(rejection) => Err(TokenRefusal::Invalid(rejection.to_string())),
            }
        })
    }
}

//! Owns how tokens are requested at a token endpoint: the parameters of each grant, for any kind of
//! client.
//!
//! | file | the decision it owns |
//! |---|---|
//! | `client_auth` | how a client authenticates, and which methods are tried |
//! | `form_post` | how a form is sent, and what an error response means |
//! | `token_response` | validation of a token response |
//! | `device` | device authorization grant |
//! | `enterprise` | tokens by way of an organization's identity provider |
//! | `workload` | tokens for an assertion of the platform |
//! | `token_source` | where an externally issued token is read from |

mod client_auth;
mod device;
mod enterprise;
mod form_post;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod token_response;
mod token_source;
mod workload;

use std::time::SystemTime;

use bowline_config::{Dpop, Grant, Secret};
use bowline_transport::http::SendFence;
use url::Url;

use crate::client::OAuthClient;
use crate::context::AuthContext;
use crate::discovery::Metadata;
use crate::dpop;
use crate::error::{AuthError, AuthErrorKind};
use crate::tokens::{Scheme, Tokens};

use form_post::TokenEndpointError;

pub(crate) use client_auth::ClientSender;
pub(crate) use device::{poll_device_tokens, request_device_code};
pub(crate) use enterprise::request_tokens_by_idp;
pub(crate) use form_post::PostForm;
pub(crate) use workload::request_tokens_by_assertion;

/// The grant type for assertions (RFC 7523).
const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";

/// The parameters that all token requests share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokenRequest<'a> {
    pub(crate) ctx: &'a AuthContext,
    pub(crate) metadata: &'a Metadata,
    /// The client that sends the request; `None` if the assertion identifies the sender (AX-08).
    pub(crate) client: Option<&'a OAuthClient>,
    pub(crate) scopes: &'a [String],
    /// The `resource` parameter, verbatim (AF-02).
    pub(crate) resource: Option<&'a str>,
    /// The key that the tokens are to be bound to.
    pub(crate) dpop: Option<&'a dpop::Key>,
}

impl<'a> TokenRequest<'a> {
    fn sender(&self) -> ClientSender<'a> {
        ClientSender { ctx: self.ctx, metadata: self.metadata, client: self.client }
    }
}

/// What is exchanged for tokens.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TokenGrant<'a> {
    /// An authorization code.
    Code { code: &'a Secret, verifier: &'a Secret, redirect: &'a Url },
    /// A refresh token, sent when the fence opens. Scopes are omitted, so they stay as they are.
    Refresh { token: &'a Secret, fence: &'a SendFence },
    /// Nothing: the client acts for itself (AX-01).
    ClientCredentials,
    /// A device code (RFC 8628).
    Device { device_code: &'a Secret },
    /// An assertion by a third party (RFC 7523).
    JwtBearer { assertion: &'a Secret },
}

/// Exchanges a grant for tokens. Sends one request, one more if a DPoP nonce was missing, and one
/// for each further authentication method of the client while the previous one is refused.
pub(crate) async fn request_tokens(
    ask: &TokenRequest<'_>,
    request: TokenGrant<'_>,
) -> Result<Tokens, AuthError> {
    exchange_grant(ask, request).await.map_err(TokenEndpointError::into_error)
}

/// Requests tokens by the configured grant, which must need no person.
pub(crate) async fn request_tokens_without_person(ask: &TokenRequest<'_>) -> Result<Tokens, AuthError> {
    match &ask.ctx.auth.grant {
        Grant::ClientCredentials => request_tokens(ask, TokenGrant::ClientCredentials).await,
        Grant::Enterprise(idp) => request_tokens_by_idp(ask, idp).await,
        Grant::Workload(statement) => request_tokens_by_assertion(ask, statement).await,
        Grant::Person | Grant::Device | Grant::Off => {
            Err(AuthError::new(AuthErrorKind::LoginNeeded, "this server supports interactive login only"))
        }
    }
}

async fn exchange_grant(
    ask: &TokenRequest<'_>,
    request: TokenGrant<'_>,
) -> Result<Tokens, TokenEndpointError> {
    let endpoint = token_endpoint(ask.metadata)?;
    let mut form = PostForm::default();
    let with_scopes = match request {
        TokenGrant::Code { code, verifier, redirect } => {
            form.add("grant_type", "authorization_code");
            form.add("code", code.expose());
            form.add("redirect_uri", redirect.as_str());
            form.add("code_verifier", verifier.expose());
            false
        }
        TokenGrant::Refresh { token, fence } => {
            form.add("grant_type", "refresh_token");
            form.add("refresh_token", token.expose());
            form.send_after(fence);
            false
        }
        TokenGrant::ClientCredentials => {
            form.add("grant_type", "client_credentials");
            true
        }
        TokenGrant::Device { device_code } => {
            form.add("grant_type", "urn:ietf:params:oauth:grant-type:device_code");
            form.add("device_code", device_code.expose());
            false
        }
        TokenGrant::JwtBearer { assertion } => {
            form.add("grant_type", JWT_BEARER);
            form.add("assertion", assertion.expose());
            true
        }
    };
    if with_scopes && !ask.scopes.is_empty() {
        form.add("scope", &ask.scopes.join(" "));
    }
    if let Some(resource) = ask.resource {
        form.add("resource", resource);
    }
    // Before sending, because the transmission counts toward the token's lifetime.
    let asked_at = SystemTime::now();
    let body = ask.sender().post(endpoint, &form, ask.dpop).await?;
    let tokens = token_response::parse_tokens(&body, asked_at)?;
    check_scheme(ask, &tokens)?;
    Ok(tokens)
}

/// Checks the token type. A token bound to a key that was not sent is bound to someone else's key;
/// an unbound token is refused where binding is required.
fn check_scheme(ask: &TokenRequest<'_>, tokens: &Tokens) -> Result<(), AuthError> {
    let what = match (tokens.scheme, ask.dpop) {
        (Scheme::Dpop, None) => "the authorization server issued a DPoP token although no key was sent",
        (Scheme::Bearer, Some(_)) if ask.ctx.auth.dpop == Dpop::Always => {
            "the authorization server issued a bearer token although a DPoP key was sent"
        }
        _ => return Ok(()),
    };
    Err(AuthError::new(AuthErrorKind::Untrusted, what))
}

fn token_endpoint(metadata: &Metadata) -> Result<&Url, AuthError> {
    metadata.token_endpoint.as_ref().ok_or_else(|| {
        AuthError::new(AuthErrorKind::Untrusted, "the authorization server advertises no token endpoint")
    })
}

#[cfg(test)]
mod tests;

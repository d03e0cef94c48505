//! Owns how tokens are had at a token endpoint: what each kind of grant says, whatever kind of client says it.
//!
//! | file | the decision it owns |
//! |---|---|
//! | `prove` | how a client proves itself, and which proofs are tried |
//! | `post` | how a request is sent, with a proof of a key where tokens are bound to one, and what a refusal means |
//! | `answer` | what of an answer is believed |
//! | `device` | a login by a code on another device |
//! | `enterprise` | an organisation vouches for a person |
//! | `workload` | a platform vouches for a program |
//! | `supply` | where a token that somebody else makes comes from |

mod answer;
mod device;
mod enterprise;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod post;
mod prove;
mod supply;
mod workload;

use std::time::SystemTime;

use bowline_config::{Dpop, Secret};
use bowline_transport::http::Fence;
use url::Url;

use crate::client::OAuthClient;
use crate::ctx::Ctx;
use crate::dpop;
use crate::error::{AuthError, AuthErrorKind};
use crate::place::Metadata;
use crate::tokens::{Scheme, Tokens};

use post::{Form, Refusal};

pub(crate) use device::{authorize as device_code, poll as device_tokens};
pub(crate) use enterprise::enterprise;
pub(crate) use post::Form as PostForm;
pub(crate) use prove::ClientSender;
pub(crate) use workload::workload;

/// The grant by which what somebody else says of us is exchanged (RFC 7523).
const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";

/// What every request for tokens goes by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask<'a> {
    pub(crate) ctx: &'a Ctx,
    pub(crate) metadata: &'a Metadata,
    /// Which client asks; `None`: none, what is exchanged says it all (AX-08).
    pub(crate) client: Option<&'a OAuthClient>,
    pub(crate) scopes: &'a [String],
    /// To the letter (AF-02).
    pub(crate) resource: Option<&'a str>,
    /// What the tokens are to be bound to.
    pub(crate) dpop: Option<&'a dpop::Key>,
}

impl<'a> Ask<'a> {
    fn sender(&self) -> ClientSender<'a> {
        ClientSender { ctx: self.ctx, metadata: self.metadata, client: self.client }
    }
}

/// What is exchanged for tokens.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Request<'a> {
    /// What a browser brought back.
    Code { code: &'a Secret, verifier: &'a Secret, redirect: &'a Url },
    /// What came with the last tokens, sent when the fence opens. Scopes are not said: they stay as they are.
    Refresh { token: &'a Secret, fence: &'a Fence },
    /// Nothing: the client is its own account (AX-01).
    ClientCredentials,
    /// A code that a person confirms on another device (RFC 8628).
    Device { device_code: &'a Secret },
    /// What somebody else says of who we are (RFC 7523).
    JwtBearer { assertion: &'a Secret },
}

/// Exchanges something for tokens. One request; one more where a nonce was missing from a proof, and for each further
/// way in which the client is able to prove itself where the first is refused.
pub(crate) async fn tokens(ask: &Ask<'_>, request: Request<'_>) -> Result<Tokens, AuthError> {
    exchange(ask, request).await.map_err(Refusal::into_error)
}

async fn exchange(ask: &Ask<'_>, request: Request<'_>) -> Result<Tokens, Refusal> {
    let endpoint = token_endpoint(ask.metadata)?;
    let mut form = Form::default();
    let with_scopes = match request {
        Request::Code { code, verifier, redirect } => {
            form.add("grant_type", "authorization_code");
            form.add("code", code.expose());
            form.add("redirect_uri", redirect.as_str());
            form.add("code_verifier", verifier.expose());
            false
        }
        Request::Refresh { token, fence } => {
            form.add("grant_type", "refresh_token");
            form.add("refresh_token", token.expose());
            form.hold_back(fence);
            false
        }
        Request::ClientCredentials => {
            form.add("grant_type", "client_credentials");
            true
        }
        Request::Device { device_code } => {
            form.add("grant_type", "urn:ietf:params:oauth:grant-type:device_code");
            form.add("device_code", device_code.expose());
            false
        }
        Request::JwtBearer { assertion } => {
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
    // Before it is sent: what the way takes is of the token's time.
    let asked_at = SystemTime::now();
    let body = ask.sender().post(endpoint, &form, ask.dpop).await?;
    let tokens = answer::tokens(&body, asked_at)?;
    check_scheme(ask, &tokens)?;
    Ok(tokens)
}

/// A token is shown the way it was given. One that is bound to a key that we did not show is bound to somebody
/// else's; one that is not bound although it has to be is refused.
fn check_scheme(ask: &Ask<'_>, tokens: &Tokens) -> Result<(), AuthError> {
    let what = match (tokens.scheme, ask.dpop) {
        (Scheme::Dpop, None) => "the authorization server bound the token to a key, and was shown none",
        (Scheme::Bearer, Some(_)) if ask.ctx.auth.dpop == Dpop::Always => {
            "the authorization server was shown a key, and did not bind the token to it"
        }
        _ => return Ok(()),
    };
    Err(AuthError::new(AuthErrorKind::Untrusted, what))
}

fn token_endpoint(metadata: &Metadata) -> Result<&Url, AuthError> {
    metadata.token_endpoint.as_ref().ok_or_else(|| {
        AuthError::new(
            AuthErrorKind::Untrusted,
            "the authorization server names no address where tokens are had",
        )
    })
}

#[cfg(test)]
mod tests;

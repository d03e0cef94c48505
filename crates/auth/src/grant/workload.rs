//! Obtains tokens for an assertion of the platform that the program runs on (RFC 7523 §2.1), and
//! decides which authorization server may see that assertion.
//!
//! Whoever holds the assertion can act as the program until it expires. A server's choice of its
//! authorization server is therefore not enough: the configuration or the assertion itself has to
//! name the same one.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bowline_config::{Secret, TokenSource};
use serde_json::{Map, Value};

use super::{JWT_BEARER, TokenGrant, TokenRequest, request_tokens, token_source};
use crate::discovery::Metadata;
use crate::error::{AuthError, AuthErrorKind, sanitize_url};
use crate::tokens::Tokens;

/// Sends the platform's assertion to the authorization server. A refusal is final; no other grant
/// is tried (AX-09).
///
/// [`TokenRequest::client`] is `None` unless a client is configured, because the assertion
/// identifies the program (AX-08).
pub(crate) async fn request_tokens_by_assertion(
    ask: &TokenRequest<'_>,
    statement: &TokenSource,
) -> Result<Tokens, AuthError> {
    check_grant_supported(ask.metadata)?;
    let assertion = token_source::read_token(statement).await?;
    check_audience(ask, &assertion)?;
    request_tokens(ask, TokenGrant::JwtBearer { assertion: &assertion }).await
}

/// Fails if the authorization server lists its grants without this one.
pub(super) fn check_grant_supported(metadata: &Metadata) -> Result<(), AuthError> {
    if metadata.grant_types_supported.as_ref().is_none_or(|grants| grants.iter().any(|it| it == JWT_BEARER)) {
        return Ok(());
    }
    let what = format!("{} does not accept platform-issued JWTs", sanitize_url(&metadata.issuer));
    Err(AuthError::new(AuthErrorKind::Setup, what))
}

/// Fails unless the assertion is meant for this authorization server: by the configured issuer, or
/// else by an `aud` that equals its issuer or token endpoint.
fn check_audience(ask: &TokenRequest<'_>, assertion: &Secret) -> Result<(), AuthError> {
    let Metadata { issuer, token_endpoint, .. } = ask.metadata;
    let chosen = ask.ctx.auth.issuer.as_ref();
    let meant = match chosen {
        Some(chosen) => chosen == issuer,
        None => audience_claim(assertion)
            .is_some_and(|names| names.iter().any(|it| it == issuer || is_url(token_endpoint.as_ref(), it))),
    };
    if meant {
        return Ok(());
    }
    let by = if chosen.is_some() { "the configuration" } else { "the platform's JWT" };
    let what = format!(
        "{} names the authorization server {}, which {by} does not name: the JWT was not sent",
        ask.ctx.server,
        sanitize_url(issuer)
    );
    Err(AuthError::new(AuthErrorKind::Setup, what)
        .hint("set `issuer` in the server's `auth` to the authorization server that the JWT is for"))
}

fn is_url(address: Option<&url::Url>, name: &str) -> bool {
    address.is_some_and(|address| address.as_str() == name)
}

/// The `aud` claim. The assertion is our own, so its signature is not verified.
fn audience_claim(assertion: &Secret) -> Option<Vec<String>> {
    let payload = assertion.expose().split('.').nth(1)?;
    let payload = BASE64_URL_SAFE_NO_PAD.decode(payload.trim_end_matches('=')).ok()?;
    let claims: Map<String, Value> = serde_json::from_slice(&payload).ok()?;
    match claims.get("aud")? {
        Value::String(name) => Some(vec![name.clone()]),
        Value::Array(names) => Some(names.iter().filter_map(Value::as_str).map(str::to_owned).collect()),
        _ => None,
    }
}

//! Owns how a program for which its platform vouches gets tokens (RFC 7523 §2.1), and who is shown the statement.
//!
//! Whoever has the statement is the program until it ends. A server only says who its authorization server is, so that
//! is not enough: the configuration or the statement itself has to say the same.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bowline_config::{Secret, Supply};
use serde_json::{Map, Value};

use super::{Ask, JWT_BEARER, Request, supply, tokens};
use crate::error::{AuthError, AuthErrorKind, said};
use crate::place::Metadata;
use crate::tokens::Tokens;

/// Shows the platform's statement to the authorization server. One request: what it refuses is refused, and no other
/// kind of grant is tried in its place (AX-09).
///
/// [`Ask::client`] is `None` unless a client is configured: the statement says who we are (AX-08).
pub(crate) async fn workload(ask: &Ask<'_>, statement: &Supply) -> Result<Tokens, AuthError> {
    check_offer(ask.metadata)?;
    let assertion = supply::get(statement).await?;
    check_audience(ask, &assertion)?;
    tokens(ask, Request::JwtBearer { assertion: &assertion }).await
}

/// Whether the authorization server takes statements, if it says which grants it takes.
fn check_offer(metadata: &Metadata) -> Result<(), AuthError> {
    if metadata.grant_types_supported.as_ref().is_none_or(|grants| grants.iter().any(|it| it == JWT_BEARER)) {
        return Ok(());
    }
    let what = format!("{} takes no statement of a platform for tokens", said(&metadata.issuer));
    Err(AuthError::new(AuthErrorKind::Setup, what))
}

/// Whether the statement is for this authorization server: the configuration says so, or else the statement does, by
/// its issuer or by its token endpoint, to the letter.
fn check_audience(ask: &Ask<'_>, assertion: &Secret) -> Result<(), AuthError> {
    let Metadata { issuer, token_endpoint, .. } = ask.metadata;
    let chosen = ask.ctx.auth.issuer.as_ref();
    let meant = match chosen {
        Some(chosen) => chosen == issuer,
        None => audience(assertion)
            .is_some_and(|names| names.iter().any(|it| it == issuer || is(token_endpoint.as_ref(), it))),
    };
    if meant {
        return Ok(());
    }
    let by = if chosen.is_some() { "the configuration" } else { "the statement of the platform" };
    let what = format!(
        "{} names the authorization server {}, which {by} does not: the statement was not sent",
        ask.ctx.server,
        said(issuer)
    );
    Err(AuthError::new(AuthErrorKind::Setup, what)
        .hint("set `issuer` in the server's `auth` to the authorization server that the statement is for"))
}

fn is(address: Option<&url::Url>, name: &str) -> bool {
    address.is_some_and(|address| address.as_str() == name)
}

/// Whom a statement is for, by its own account. It is ours, so nothing of it is verified.
fn audience(assertion: &Secret) -> Option<Vec<String>> {
    let payload = assertion.expose().split('.').nth(1)?;
    let payload = BASE64_URL_SAFE_NO_PAD.decode(payload.trim_end_matches('=')).ok()?;
    let claims: Map<String, Value> = serde_json::from_slice(&payload).ok()?;
    match claims.get("aud")? {
        Value::String(name) => Some(vec![name.clone()]),
        Value::Array(names) => Some(names.iter().filter_map(Value::as_str).map(str::to_owned).collect()),
        _ => None,
    }
}

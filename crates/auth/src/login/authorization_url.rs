//! Builds the URL of the authorization request, with the secrets that tie the response to it.

use bowline_config::Secret;
use url::Url;

use super::LoginParams;
use crate::client::OAuthClient;
use crate::discovery::Discovery;
use crate::error::{AuthError, AuthErrorKind, sanitize, sanitize_url};
use crate::jwt::random_id;
use crate::metadata::is_https_or_loopback;
use crate::pkce;

/// The authorization URL, and the two secrets of this login.
#[derive(Clone, Debug)]
pub(super) struct AuthorizationUrl {
    pub(super) url: Url,
    pub(super) state: Secret,
    pub(super) verifier: Secret,
}

/// Parameters that only this module sets; a configured one of the same name would silently change
/// the request.
const RESERVED_PARAMS: [&str; 9] = [
    "response_type",
    "client_id",
    "redirect_uri",
    "scope",
    "state",
    "code_challenge",
    "code_challenge_method",
    "resource",
    "dpop_jkt",
];

/// Parameters that an endpoint's own query must not set either, because they could override the
/// request.
const FORBIDDEN_ENDPOINT_PARAMS: [&str; 3] = ["request", "request_uri", "response_mode"];

/// Builds the URL for a new login. Other parameters of the endpoint's own query are kept.
pub(super) fn build_authorization_url(
    login: &LoginParams<'_>,
    client: &OAuthClient,
    redirect: &Url,
) -> Result<AuthorizationUrl, AuthError> {
    let endpoint = authorization_endpoint(login.discovery)?;
    check_redirect(redirect)?;
    let auth = &login.ctx.auth;
    if let Some((name, _)) =
        auth.authorize_params.iter().find(|(name, _)| RESERVED_PARAMS.contains(&name.as_str()))
    {
        let what = format!("`authorize_params` cannot set {}", sanitize(name));
        return Err(AuthError::new(AuthErrorKind::Setup, what));
    }
    let verifier = pkce::new_verifier();
    let state = random_id();
    let mut url = endpoint.clone();
    let mut query = url.query_pairs_mut();
    query
        .append_pair("response_type", "code")
        .append_pair("client_id", &client.id)
        .append_pair("state", &state)
        .append_pair("code_challenge", &pkce::challenge(&verifier))
        .append_pair("code_challenge_method", "S256")
        .append_pair("redirect_uri", redirect.as_str());
    if !login.scopes.is_empty() {
        query.append_pair("scope", &login.scopes.join(" "));
    }
    if let Some(resource) = login.resource {
        query.append_pair("resource", resource);
    }
    if let Some(key) = login.dpop {
        // The code is then bound to this key too (RFC 9449 §10).
        query.append_pair("dpop_jkt", key.thumbprint());
    }
    query.extend_pairs(&auth.authorize_params);
    let hinted = auth.authorize_params.iter().any(|(name, _)| name == "login_hint");
    if let Some(account) = auth.account.as_deref().filter(|account| !hinted && is_login_hint(account)) {
        query.append_pair("login_hint", account);
    }
    if wants_consent(login) {
        query.append_pair("prompt", "consent");
    }
    drop(query);
    Ok(AuthorizationUrl { url, state: Secret::new(state), verifier: Secret::new(verifier) })
}

/// Whether to ask for consent again. Without it, OpenID Connect providers ignore `offline_access`
/// (OpenID Connect Core §11), and a login would be needed every hour. Entra tenants may forbid user
/// consent and then refuse such a request, but issue refresh tokens without it.
fn wants_consent(login: &LoginParams<'_>) -> bool {
    let configured = login.ctx.auth.authorize_params.iter().any(|(name, _)| name == "prompt");
    let issuer = Url::parse(&login.discovery.metadata.issuer).ok();
    let host = issuer.as_ref().and_then(Url::host_str).unwrap_or_default();
    let entra = ENTRA_DOMAINS.iter().any(|it| host == *it || host.ends_with(&format!(".{it}")));
    !configured && !entra && login.scopes.iter().any(|scope| scope == "offline_access")
}

const ENTRA_DOMAINS: [&str; 4] =
    ["microsoftonline.com", "microsoftonline.us", "windows.net", "ciamlogin.com"];

/// The authorization endpoint, if a person may be sent there and codes are safe there (SE-03,
/// AF-01).
pub(super) fn authorization_endpoint(discovery: &Discovery) -> Result<&Url, AuthError> {
    let issuer = sanitize_url(&discovery.metadata.issuer);
    let Some(endpoint) = &discovery.metadata.authorization_endpoint else {
        let what = format!("{issuer} has no login page (`authorization_endpoint`)");
        return Err(AuthError::new(AuthErrorKind::Setup, what));
    };
    if !is_https_or_loopback(endpoint) {
        let what = format!("the login page of {issuer} is neither https nor on this machine");
        return Err(AuthError::new(AuthErrorKind::Untrusted, what));
    }
    let reserved = |name: &str| {
        RESERVED_PARAMS.iter().chain(&FORBIDDEN_ENDPOINT_PARAMS).any(|it| name.eq_ignore_ascii_case(it))
    };
    if let Some((name, _)) = endpoint.query_pairs().find(|(name, _)| reserved(name)) {
        let what = format!(
            "the address of the login page of {issuer} sets {}, a parameter reserved for the client",
            sanitize(&name)
        );
        return Err(AuthError::new(AuthErrorKind::Untrusted, what));
    }
    pkce::check_supported(discovery)?;
    Ok(endpoint)
}

// AF-07: the redirect must be `https` or on this machine.
fn check_redirect(redirect: &Url) -> Result<(), AuthError> {
    if is_https_or_loopback(redirect) {
        return Ok(());
    }
    let what = "the configured redirect is neither https nor on this machine";
    Err(AuthError::new(AuthErrorKind::Setup, what)
        .hint("give an address such as http://127.0.0.1:8976/callback"))
}

/// Whether an account label could be a login name: an email address, or a name without spaces.
fn is_login_hint(label: &str) -> bool {
    label.len() <= 254 && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"@._%+-".contains(&byte))
}

#[cfg(test)]
mod tests;

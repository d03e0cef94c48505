//! Obtains tokens through an organization's identity provider: it exchanges the person's ID token
//! for a grant for one authorization server, which exchanges that for tokens. No page is opened
//! (AX-03, AX-04).

use bowline_config::{Idp, Secret};
use serde_json::Value;

use super::form_post::{PostForm, TokenEndpointError, post_to_configured};
use super::{TokenGrant, TokenRequest, client_auth, request_tokens, token_response, token_source};
use crate::error::{AuthError, AuthErrorKind, sanitize, sanitize_url};
use crate::metadata::is_https_or_loopback;
use crate::resource;
use crate::tokens::Tokens;

/// The token type of the grant; no other type is accepted.
const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";
/// The grant profile that an authorization server announces if it accepts such grants.
const ID_JAG_PROFILE: &str = "urn:ietf:params:oauth:grant-profile:id-jag";

/// Requests tokens with a new grant each time, because a grant can be used once (AX-05).
pub(crate) async fn request_tokens_by_idp(ask: &TokenRequest<'_>, idp: &Idp) -> Result<Tokens, AuthError> {
    if !is_https_or_loopback(&idp.token_endpoint) {
        let what = "the identity provider's `token_endpoint` is neither https nor on this machine";
        return Err(AuthError::new(AuthErrorKind::Setup, what));
    }
    // AX-04: some servers announce no profiles and accept the grant.
    let profiles = ask.metadata.grant_profiles_supported.as_ref();
    if profiles.is_some_and(|profiles| profiles.iter().all(|it| it != ID_JAG_PROFILE)) {
        let what = format!(
            "{} does not support enterprise-managed authorization",
            sanitize_url(&ask.metadata.issuer)
        );
        return Err(AuthError::new(AuthErrorKind::Setup, what));
    }
    let id_token = token_source::read_token(&idp.id_token).await?;
    let grant = exchange_id_token(ask, idp, &id_token).await?;
    request_tokens(ask, TokenGrant::JwtBearer { assertion: &grant }).await
}

/// Exchanges the person's ID token for a grant (RFC 8693).
async fn exchange_id_token(
    ask: &TokenRequest<'_>,
    idp: &Idp,
    id_token: &Secret,
) -> Result<Secret, AuthError> {
    let mut form = PostForm::default();
    form.add("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange");
    form.add("requested_token_type", ID_JAG);
    form.add("audience", &ask.metadata.issuer);
    // Earlier drafts require it, so it is always sent to the identity provider, even where the
    // authorization server gets none.
    match ask.resource {
        Some(resource) => form.add("resource", resource),
        None => form.add("resource", &resource::canonical(&ask.ctx.url)),
    }
    if !ask.scopes.is_empty() {
        form.add("scope", &ask.scopes.join(" "));
    }
    form.add("subject_token", id_token.expose());
    form.add("subject_token_type", "urn:ietf:params:oauth:token-type:id_token");
    form.add("client_id", &idp.client_id);
    if let Some(secret) = &idp.client_secret {
        form.authorize(client_auth::basic_authorization(&idp.client_id, secret));
    }
    let body = post_to_configured(ask.ctx, &idp.token_endpoint, &form)
        .await
        .map_err(TokenEndpointError::into_error)?;
    let kind = body.get("issued_token_type").and_then(Value::as_str).unwrap_or_default();
    if kind != ID_JAG {
        let what = if kind.is_empty() {
            "the identity provider's response has no `issued_token_type`".to_owned()
        } else {
            format!("the identity provider issued a token of type {}, which is not an ID-JAG", sanitize(kind))
        };
        return Err(AuthError::new(AuthErrorKind::Untrusted, what));
    }
    token_response::parse_token(&body, "access_token")?.ok_or_else(|| {
        AuthError::new(AuthErrorKind::Untrusted, "the identity provider's response has no `access_token`")
    })
}

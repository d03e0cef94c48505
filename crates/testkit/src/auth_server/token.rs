//! The token endpoint. Each grant is in [`grants`] or [`assertion`]; this file decides what is
//! issued.

mod assertion;
mod grants;

use std::time::Duration;

use serde_json::json;

use super::client::AuthClient;
use super::dpop::{self, ExpectedProof, ProofRejection};
use super::request::{AuthRequest, EndpointResponse};
use super::script::RefreshTokenPolicy;
use super::vault::{AccessToken, RefreshToken, TokenFamily, Vault};
use super::{AuthCore, authenticate, jwt};
use crate::canary::{self, SECRET_PREFIX};

pub(super) fn handle_token_request(core: &AuthCore, request: &AuthRequest) -> EndpointResponse {
    grant_tokens(core, request).unwrap_or_else(|refusal| {
        core.request_log.update_counts(|counts| counts.refused += 1);
        refusal
    })
}

fn grant_tokens(core: &AuthCore, auth_request: &AuthRequest) -> Result<EndpointResponse, EndpointResponse> {
    let mut vault = core.vault.lock();
    let client = authenticate::authenticate_client(core, auth_request, &mut vault)?;
    let key = check_dpop_proof(core, auth_request, &mut vault)?;
    let mut request =
        TokenRequest { core, request: auth_request, vault: &mut vault, client, key_thumbprint: key };
    match auth_request.grant() {
        Some("authorization_code") => request.redeem_code(),
        Some("refresh_token") => request.redeem_refresh_token(),
        Some("client_credentials") => request.grant_client_credentials(),
        Some("device_code") => request.redeem_device_code(),
        Some("jwt-bearer") => request.redeem_assertion(),
        Some("token-exchange") => request.exchange_token(),
        Some(other) => Err(EndpointResponse::error(400, "unsupported_grant_type", other)),
        None => Err(EndpointResponse::error(400, "invalid_request", "grant_type is missing")),
    }
}

/// Checks the DPoP proof and returns the key that the tokens are to be bound to.
fn check_dpop_proof(
    core: &AuthCore,
    request: &AuthRequest,
    vault: &mut Vault,
) -> Result<Option<String>, EndpointResponse> {
    let script = core.script();
    if !script.dpop {
        return Ok(None);
    }
    let (url, nonce) = (format!("{}{}", request.origin, request.path), vault.nonce.clone());
    let expected = ExpectedProof { method: &request.method, url: &url, token: None, nonce: nonce.as_deref() };
    match dpop::check_proof(&request.headers, &expected, vault) {
        Ok(None) if script.dpop_only => {
            Err(EndpointResponse::error(400, "invalid_dpop_proof", "a proof is needed"))
        }
        Ok(key) => Ok(key),
        Err(ProofRejection::WrongNonce) => {
            Err(EndpointResponse::error(400, "use_dpop_nonce", "a nonce is needed"))
        }
        Err(ProofRejection::InvalidProof(why)) => {
            Err(EndpointResponse::error(400, "invalid_dpop_proof", why))
        }
    }
}

/// A token request whose client is authenticated.
struct TokenRequest<'a> {
    core: &'a AuthCore,
    request: &'a AuthRequest,
    vault: &'a mut Vault,
    client: Option<AuthClient>,
    key_thumbprint: Option<String>,
}

/// The tokens to issue.
struct TokenSpec {
    family: usize,
    scope: String,
    resources: Vec<String>,
    refresh_token: Option<String>,
}

impl TokenRequest<'_> {
    fn client_id(&self) -> Option<&str> {
        self.client.as_ref().map(|client| client.id.as_str())
    }

    /// Creates a refresh token for a login, if the script's policy issues one.
    fn new_refresh_token(&mut self, family: usize, scope: &str) -> Option<String> {
        let script = self.core.script();
        let wanted = match script.refresh {
            RefreshTokenPolicy::Always => true,
            RefreshTokenPolicy::Offline => scope.split(' ').any(|scope| scope == "offline_access"),
            RefreshTokenPolicy::Never => false,
        };
        wanted.then(|| {
            let token = format!("{SECRET_PREFIX}refresh-{}", jwt::random_text());
            // RFC 9449 5: of public clients only.
            let public = self.client.as_ref().is_none_or(|client| client.method == "none");
            let key = self.key_thumbprint.clone().filter(|_| public);
            let refresh = RefreshToken { family, key_thumbprint: key, rotated: false };
            self.vault.refresh_tokens.insert(token.clone(), refresh);
            token
        })
    }

    fn issue_tokens(&mut self, issue: TokenSpec) -> EndpointResponse {
        let script = self.core.script();
        let lifetime =
            self.request.faults.lifetime_override().unwrap_or(Duration::from_millis(script.lifetime_ms));
        let issuer = self.core.issuer_at(&self.request.origin);
        let family = &self.vault.families[issue.family];
        let token = access_token(
            self.core,
            &issuer,
            family,
            &AccessClaims { scope: &issue.scope, resources: &issue.resources, lifetime },
        );
        let mut answer = json!({
            "access_token": token,
            "token_type": if self.key_thumbprint.is_some() { "DPoP" } else { "Bearer" },
            "expires_in": lifetime.as_secs(),
        });
        if !issue.scope.is_empty() {
            answer["scope"] = json!(issue.scope);
        }
        if let Some(refresh) = issue.refresh_token {
            answer["refresh_token"] = json!(refresh);
        }
        let is_login = matches!(self.request.grant(), Some("authorization_code" | "device_code"));
        if is_login && issue.scope.split(' ').any(|scope| scope == "openid") {
            answer["id_token"] = json!(self.id_token(issue.family));
        }
        let access = AccessToken {
            family: issue.family,
            scope: issue.scope,
            resources: issue.resources,
            expires_at: self.core.now() + lifetime,
            key_thumbprint: self.key_thumbprint.clone(),
            revoked: false,
        };
        self.vault.access_tokens.insert(token, access);
        EndpointResponse::ok(answer)
    }

    fn id_token(&self, family: usize) -> String {
        let family = &self.vault.families[family];
        let issuer = self.core.issuer_at(&self.request.origin);
        let client = family.client.clone().unwrap_or_default();
        id_token(self.core, &issuer, &family.account, &client, family.nonce.as_deref())
    }
}

/// What an access token is issued for.
pub(super) struct AccessClaims<'a> {
    pub(super) scope: &'a str,
    pub(super) resources: &'a [String],
    pub(super) lifetime: Duration,
}

/// Returns a new access token: a random text, or a signed one (RFC 9068) if the script says so.
pub(super) fn access_token(
    core: &AuthCore,
    issuer: &str,
    family: &TokenFamily,
    access: &AccessClaims<'_>,
) -> String {
    if !core.script().jwt_access_tokens {
        return format!("{SECRET_PREFIX}access-{}", jwt::random_text());
    }
    let (now, key) = (core.now().as_secs(), core.key());
    let mut claims = json!({
        "iss": issuer, "sub": family.account, "aud": access.resources, "client_id": family.client,
        "iat": now, "exp": now + access.lifetime.as_secs(), "jti": jwt::random_text(),
    });
    if !access.scope.is_empty() {
        claims["scope"] = json!(access.scope);
    }
    let token = key.sign(json!({"typ": "at+jwt", "kid": key.id()}), &claims);
    canary::record_secret(&token);
    token
}

/// Returns a signed ID token for an account.
pub(super) fn id_token(
    core: &AuthCore,
    issuer: &str,
    account: &str,
    client: &str,
    nonce: Option<&str>,
) -> String {
    let now = core.now().as_secs();
    let mut claims = json!({
        "iss": issuer, "sub": account, "aud": client, "iat": now, "exp": now + 3600,
        "name": account, "email": format!("{account}@example.com"),
        "jti": format!("{SECRET_PREFIX}jwt-{}", jwt::random_text()),
    });
    if let Some(nonce) = nonce {
        claims["nonce"] = json!(nonce);
    }
    core.key().sign(json!({"typ": "JWT"}), &claims)
}

/// Revokes a token. RFC 7009: unknown tokens are no error.
pub(super) fn handle_revocation(core: &AuthCore, request: &AuthRequest) -> EndpointResponse {
    let mut vault = core.vault.lock();
    if let Err(refusal) = authenticate::authenticate_client(core, request, &mut vault) {
        return refusal;
    }
    let Some(token) = request.field("token") else {
        return EndpointResponse::error(400, "invalid_request", "token is missing");
    };
    if let Some(access) = vault.access_tokens.get_mut(token) {
        access.revoked = true;
    } else if let Some(family) = vault.refresh_tokens.get(token).map(|refresh| refresh.family) {
        vault.revoke_family(family);
    }
    EndpointResponse::Empty(200)
}

pub(super) fn handle_userinfo(core: &AuthCore, request: &AuthRequest) -> EndpointResponse {
    let vault = core.vault.lock();
    let token = request
        .header("authorization")
        .and_then(|value| value.split_once(' '))
        .map_or("", |(_, token)| token);
    match vault.valid_access_token(token, core.now()) {
        None => EndpointResponse::error(401, "invalid_token", "not a token of this server"),
        Some((_, family)) => EndpointResponse::ok(json!({
            "sub": family.account, "name": family.account, "preferred_username": family.account,
            "email": format!("{}@example.com", family.account),
        })),
    }
}

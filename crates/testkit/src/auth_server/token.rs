//! The token endpoint. Each grant is in [`grants`] or [`assertion`]; this file decides what is
//! issued.

mod assertion;
mod grants;

use std::time::Duration;

use serde_json::json;

use super::ask::{Ask, Outcome};
use super::client::AuthClient;
use super::dpop::{self, Expected, Refused};
use super::script::RefreshTokens;
use super::vault::{Access, Refresh, Vault};
use super::{Core, authenticate, jwt};
use crate::SECRET;
use crate::sync::lock;

pub(super) fn token(core: &Core, ask: &Ask) -> Outcome {
    grant(core, ask).unwrap_or_else(|refusal| {
        core.log.count(|counts| counts.refused += 1);
        refusal
    })
}

fn grant(core: &Core, ask: &Ask) -> Result<Outcome, Outcome> {
    let mut vault = lock(&core.vault);
    let client = authenticate::client(core, ask, &mut vault)?;
    let key = proof(core, ask, &mut vault)?;
    let mut request = Request { core, ask, vault: &mut vault, client, key };
    match ask.grant() {
        Some("authorization_code") => request.code(),
        Some("refresh_token") => request.refresh(),
        Some("client_credentials") => request.client_credentials(),
        Some("device_code") => request.device(),
        Some("jwt-bearer") => request.assertion(),
        Some("token-exchange") => request.exchange(),
        Some(other) => Err(Outcome::error(400, "unsupported_grant_type", other)),
        None => Err(Outcome::error(400, "invalid_request", "grant_type is missing")),
    }
}

/// Checks the DPoP proof and returns the key that the tokens are to be bound to.
fn proof(core: &Core, ask: &Ask, vault: &mut Vault) -> Result<Option<String>, Outcome> {
    let script = core.script();
    if !script.dpop {
        return Ok(None);
    }
    let (url, nonce) = (format!("{}{}", ask.origin, ask.path), vault.nonce.clone());
    let expected = Expected { method: &ask.method, url: &url, token: None, nonce: nonce.as_deref() };
    match dpop::check(&ask.headers, &expected, vault) {
        Ok(None) if script.dpop_only => Err(Outcome::error(400, "invalid_dpop_proof", "a proof is needed")),
        Ok(key) => Ok(key),
        Err(Refused::Nonce) => Err(Outcome::error(400, "use_dpop_nonce", "a nonce is needed")),
        Err(Refused::Proof(why)) => Err(Outcome::error(400, "invalid_dpop_proof", why)),
    }
}

/// A token request whose client is authenticated.
struct Request<'a> {
    core: &'a Core,
    ask: &'a Ask,
    vault: &'a mut Vault,
    client: Option<AuthClient>,
    key: Option<String>,
}

/// The tokens to issue.
struct Issue {
    family: usize,
    scope: String,
    resources: Vec<String>,
    refresh: Option<String>,
}

impl Request<'_> {
    fn client_id(&self) -> Option<&str> {
        self.client.as_ref().map(|client| client.id.as_str())
    }

    /// Returns the scope that is granted when this one is requested.
    fn granted(&self, asked: &str) -> String {
        self.ask.struck.granted().unwrap_or(asked).to_owned()
    }

    /// Creates a refresh token for a login, if the script's policy issues one.
    fn new_refresh(&mut self, family: usize, scope: &str) -> Option<String> {
        let script = self.core.script();
        let wanted = match script.refresh {
            RefreshTokens::Always => true,
            RefreshTokens::Offline => scope.split(' ').any(|scope| scope == "offline_access"),
            RefreshTokens::Never => false,
        };
        wanted.then(|| {
            let token = format!("{SECRET}refresh-{}", jwt::random());
            let until = script.refresh_lifetime_ms.map(|ms| self.core.now() + Duration::from_millis(ms));
            // RFC 9449 5: of public clients only.
            let public = self.client.as_ref().is_none_or(|client| client.method == "none");
            let key = self.key.clone().filter(|_| public);
            self.vault.refresh.insert(token.clone(), Refresh { family, until, key, rotated: false });
            token
        })
    }

    fn issue(&mut self, issue: Issue) -> Outcome {
        let script = self.core.script();
        let lifetime = self.ask.struck.lifetime().unwrap_or(Duration::from_millis(script.lifetime_ms));
        let token = format!("{SECRET}access-{}", jwt::random());
        let mut resources = issue.resources;
        if resources.is_empty() {
            resources.extend(script.default_audience.clone());
        }
        let mut answer = json!({
            "access_token": token,
            "token_type": if self.key.is_some() { "DPoP" } else { "Bearer" },
            "expires_in": lifetime.as_secs(),
        });
        if !issue.scope.is_empty() {
            answer["scope"] = json!(issue.scope);
        }
        if let Some(refresh) = issue.refresh {
            answer["refresh_token"] = json!(refresh);
        }
        let is_login = matches!(self.ask.grant(), Some("authorization_code" | "device_code"));
        if is_login && issue.scope.split(' ').any(|scope| scope == "openid") {
            answer["id_token"] = json!(self.id_token(issue.family));
        }
        let access = Access {
            family: issue.family,
            scope: issue.scope,
            resources,
            until: self.core.now() + lifetime,
            key: self.key.clone(),
            revoked: false,
        };
        self.vault.access.insert(token, access);
        Outcome::ok(answer)
    }

    fn id_token(&self, family: usize) -> String {
        let family = &self.vault.families[family];
        let issuer = self.core.issuer_at(&self.ask.origin);
        let client = family.client.clone().unwrap_or_default();
        id_token(self.core, &issuer, &family.account, &client, family.nonce.as_deref())
    }
}

/// Returns a signed ID token for an account.
pub(super) fn id_token(
    core: &Core,
    issuer: &str,
    account: &str,
    client: &str,
    nonce: Option<&str>,
) -> String {
    let now = core.now().as_secs();
    let mut claims = json!({
        "iss": issuer, "sub": account, "aud": client, "iat": now, "exp": now + 3600,
        "name": account, "email": format!("{account}@example.com"),
        "jti": format!("{SECRET}jwt-{}", jwt::random()),
    });
    if let Some(nonce) = nonce {
        claims["nonce"] = json!(nonce);
    }
    core.key.sign(json!({"typ": "JWT"}), &claims)
}

/// Revokes a token. RFC 7009: unknown tokens are no error.
pub(super) fn revoke(core: &Core, ask: &Ask) -> Outcome {
    let mut vault = lock(&core.vault);
    if let Err(refusal) = authenticate::client(core, ask, &mut vault) {
        return refusal;
    }
    let Some(token) = ask.field("token") else {
        return Outcome::error(400, "invalid_request", "token is missing");
    };
    if let Some(access) = vault.access.get_mut(token) {
        access.revoked = true;
    } else if let Some(family) = vault.refresh.get(token).map(|refresh| refresh.family) {
        vault.revoke_family(family);
    }
    Outcome::Plain(200)
}

pub(super) fn userinfo(core: &Core, ask: &Ask) -> Outcome {
    let vault = lock(&core.vault);
    let token =
        ask.header("authorization").and_then(|value| value.split_once(' ')).map_or("", |(_, token)| token);
    match vault.good_access(token, core.now()) {
        None => Outcome::error(401, "invalid_token", "not a token of this server"),
        Some((_, family)) => Outcome::ok(json!({
            "sub": family.account, "name": family.account, "preferred_username": family.account,
            "email": format!("{}@example.com", family.account),
        })),
    }
}

//! The grants of RFC 6749 and RFC 8628: authorization code, refresh token, client credentials,
//! device code.

use super::super::authorize::split_words;
use super::super::device::{Device, DevicePollResult};
use super::super::jwt::sha256_base64url;
use super::super::request::EndpointResponse;
use super::super::vault::TokenFamily;
use super::{TokenRequest, TokenSpec};

type GrantResult = Result<EndpointResponse, EndpointResponse>;

impl TokenRequest<'_> {
    pub(super) fn redeem_code(&mut self) -> GrantResult {
        let refuse = |why: &str| Err(EndpointResponse::error(400, "invalid_grant", why));
        self.check_resource_present();
        let Some(code) = self.request.field("code").and_then(|code| self.vault.codes.get_mut(code)) else {
            return refuse("unknown code");
        };
        let family = code.family;
        if code.spent {
            // RFC 6749 4.1.2: the tokens issued for it are not to be trusted either.
            self.revoke_family(family);
            return refuse("the code was used before");
        }
        // Any attempt spends the code, so that it cannot be retried with another verifier.
        code.spent = true;
        if self.core.now() >= code.expires_at {
            return refuse("the code expired");
        }
        if self.request.field("redirect_uri") != Some(&code.redirect_uri) {
            return refuse("redirect_uri is another one than before");
        }
        match (&code.challenge, self.request.field("code_verifier")) {
            (Some(challenge), Some(verifier)) if *challenge == sha256_base64url(verifier) => {}
            (None, None) => {}
            _ => return refuse("the verifier is missing or wrong"),
        }
        let login = self.vault.families[family].clone();
        if login.client.as_deref() != self.client_id() {
            return refuse("the code belongs to another client");
        }
        let resources = self.granted_resources(&login)?;
        let scope = login.scope;
        let refresh = self.new_refresh_token(family, &scope);
        Ok(self.issue_tokens(TokenSpec { family, scope, resources, refresh_token: refresh }))
    }

    pub(super) fn redeem_refresh_token(&mut self) -> GrantResult {
        let refuse = |why: &str| Err(EndpointResponse::error(400, "invalid_grant", why));
        let script = self.core.script();
        self.check_resource_present();
        let Some(token) = self.request.field("refresh_token") else {
            return Err(EndpointResponse::error(400, "invalid_request", "refresh_token is missing"));
        };
        let Some(presented) = self.vault.refresh_tokens.get(token).cloned() else {
            return refuse("unknown refresh token");
        };
        let family = presented.family;
        let login = self.vault.families[family].clone();
        if login.client.as_deref() != self.client_id() {
            return refuse("the refresh token belongs to another client");
        }
        if presented.rotated {
            self.core.request_log.update_counts(|counts| counts.reuse_detected += 1);
            self.revoke_family(family);
            return refuse("the refresh token was used before; the login is over");
        }
        if login.revoked {
            return refuse("the login is over");
        }
        if presented.key_thumbprint.is_some() && presented.key_thumbprint != self.key_thumbprint {
            return Err(EndpointResponse::error(
                400,
                "invalid_dpop_proof",
                "the refresh token is bound to another key",
            ));
        }
        let asked = self.request.field("scope").unwrap_or(&login.scope);
        if asked.split(' ').any(|scope| !login.scope.split(' ').any(|had| had == scope)) {
            return Err(EndpointResponse::error(400, "invalid_scope", "a refresh cannot ask for more"));
        }
        let resources = self.granted_resources(&login)?;
        let scope = asked.to_owned();
        let keeps = self.request.faults.keeps_refresh_token().or((!script.rotation).then_some(false));
        let refresh = if let Some(mentioned) = keeps {
            mentioned.then(|| token.to_owned())
        } else {
            self.vault.refresh_tokens.entry(token.to_owned()).and_modify(|old| old.rotated = true);
            self.new_refresh_token(family, &login.scope)
        };
        self.core.request_log.update_counts(|counts| counts.refreshes += 1);
        Ok(self.issue_tokens(TokenSpec { family, scope, resources, refresh_token: refresh }))
    }

    pub(super) fn grant_client_credentials(&mut self) -> GrantResult {
        let Some(client) = self.client.clone().filter(|client| client.method != "none") else {
            return Err(EndpointResponse::error(
                400,
                "unauthorized_client",
                "only for clients that can prove who they are",
            ));
        };
        let account = client.id.clone();
        Ok(self.issue_without_login(Some(client.id), account, None, None))
    }

    pub(super) fn redeem_device_code(&mut self) -> GrantResult {
        let wait = |code: &str| Err(EndpointResponse::error(400, code, ""));
        let now = self.core.now();
        let client_id = self.client_id().map(str::to_owned);
        let asked = self.request.field("device_code");
        // Another client that presents the code must not poll with it, which could spend it.
        let owned = |device: &&mut Device| Some(device.code.as_str()) == asked && device.client == client_id;
        let Some(device) = self.vault.devices.iter_mut().find(owned) else {
            return wait("invalid_grant");
        };
        let (scope, resources, client) =
            (device.scope.clone(), device.resources.clone(), device.client.clone());
        let account = match device.poll(now) {
            DevicePollResult::Expired => return wait("expired_token"),
            DevicePollResult::TooSoon => return wait("slow_down"),
            DevicePollResult::Pending => return wait("authorization_pending"),
            DevicePollResult::Denied => return wait("access_denied"),
            DevicePollResult::Spent => return wait("invalid_grant"),
            DevicePollResult::Approved(account) => account,
        };
        let login =
            TokenFamily { client, account, scope: scope.clone(), resources, ..TokenFamily::default() };
        let resources = self.granted_resources(&login)?;
        let family = self.vault.add_family(login);
        let refresh = self.new_refresh_token(family, &scope);
        Ok(self.issue_tokens(TokenSpec { family, scope, resources, refresh_token: refresh }))
    }

    /// Issues tokens without a login. No refresh token comes with them.
    pub(super) fn issue_without_login(
        &mut self,
        client: Option<String>,
        account: String,
        scope: Option<&str>,
        resource: Option<&str>,
    ) -> EndpointResponse {
        let scope = self.request.field("scope").or(scope).unwrap_or_default().to_owned();
        let resources = self.request.field("resource").or(resource).map(split_words).unwrap_or_default();
        let family = self.vault.add_family(TokenFamily {
            client,
            account,
            scope: scope.clone(),
            resources: resources.clone(),
            ..TokenFamily::default()
        });
        self.issue_tokens(TokenSpec { family, scope, resources, refresh_token: None })
    }

    /// Returns the resources of the token (RFC 8707), which cannot exceed those of the login.
    fn granted_resources(&self, login: &TokenFamily) -> Result<Vec<String>, EndpointResponse> {
        let Some(asked) = self.request.field("resource").map(split_words) else {
            return Ok(login.resources.clone());
        };
        if !login.resources.is_empty() && asked.iter().any(|resource| !login.resources.contains(resource)) {
            return Err(EndpointResponse::error(400, "invalid_target", "the login is for another resource"));
        }
        Ok(asked)
    }

    fn check_resource_present(&self) {
        if self.request.field("resource").is_none() {
            let grant = self.request.grant().unwrap_or_default();
            self.core.request_log.record_violation(format!("AF-02: {grant} without resource"));
        }
    }

    fn revoke_family(&mut self, family: usize) {
        if self.vault.revoke_family(family) {
            self.core.request_log.update_counts(|counts| counts.families_revoked += 1);
        }
    }
}

//! The grants of RFC 6749 and RFC 8628: authorization code, refresh token, client credentials,
//! device code.

use super::super::ask::Outcome;
use super::super::authorize::words;
use super::super::device::Answered;
use super::super::jwt::sha256;
use super::super::script::Reuse;
use super::super::vault::Family;
use super::{Issue, Request};

type Granted = Result<Outcome, Outcome>;

impl Request<'_> {
    pub(super) fn code(&mut self) -> Granted {
        let refuse = |why: &str| Err(Outcome::error(400, "invalid_grant", why));
        self.wants_resource();
        let Some(code) = self.ask.field("code").and_then(|code| self.vault.codes.get_mut(code)) else {
            return refuse("unknown code");
        };
        let family = code.family;
        if code.spent {
            // RFC 6749 4.1.2: the tokens issued for it are not to be trusted either.
            self.end_family(family);
            return refuse("the code was used before");
        }
        // Any attempt spends the code, so that it cannot be retried with another verifier.
        code.spent = true;
        if self.core.now() >= code.until {
            return refuse("the code expired");
        }
        if self.ask.field("redirect_uri") != Some(&code.redirect) {
            return refuse("redirect_uri is another one than before");
        }
        match (&code.challenge, self.ask.field("code_verifier")) {
            (Some(challenge), Some(verifier)) if *challenge == sha256(verifier) => {}
            (None, None) => {}
            _ => return refuse("the verifier is missing or wrong"),
        }
        let login = self.vault.families[family].clone();
        if login.client.as_deref() != self.client_id() {
            return refuse("the code belongs to another client");
        }
        let resources = self.resources(&login)?;
        let scope = self.granted(&login.scope);
        self.vault.families[family].scope.clone_from(&scope);
        let refresh = self.new_refresh(family, &scope);
        Ok(self.issue(Issue { family, scope, resources, refresh }))
    }

    pub(super) fn refresh(&mut self) -> Granted {
        let refuse = |why: &str| Err(Outcome::error(400, "invalid_grant", why));
        let script = self.core.script();
        self.wants_resource();
        let Some(token) = self.ask.field("refresh_token") else {
            return Err(Outcome::error(400, "invalid_request", "refresh_token is missing"));
        };
        let Some(presented) = self.vault.refresh.get(token).cloned() else {
            return refuse("unknown refresh token");
        };
        let family = presented.family;
        let login = self.vault.families[family].clone();
        if login.client.as_deref() != self.client_id() {
            return refuse("the refresh token belongs to another client");
        }
        if presented.rotated {
            self.core.log.count(|counts| counts.reuse_detected += 1);
            match script.reuse {
                Reuse::RevokesFamily => {
                    self.end_family(family);
                    return refuse("the refresh token was used before; the login is over");
                }
                Reuse::Refused => return refuse("the refresh token was used before"),
                Reuse::Tolerated => {}
            }
        }
        if login.revoked {
            return refuse("the login is over");
        }
        if presented.until.is_some_and(|until| self.core.now() >= until) {
            return refuse("the refresh token expired");
        }
        if presented.key.is_some() && presented.key != self.key {
            return Err(Outcome::error(
                400,
                "invalid_dpop_proof",
                "the refresh token is bound to another key",
            ));
        }
        let asked = self.ask.field("scope").unwrap_or(&login.scope);
        if asked.split(' ').any(|scope| !login.scope.split(' ').any(|had| had == scope)) {
            return Err(Outcome::error(400, "invalid_scope", "a refresh cannot ask for more"));
        }
        let resources = self.resources(&login)?;
        let scope = self.granted(asked);
        let keeps = self.ask.struck.keeps().or((!script.rotation).then_some(false));
        let refresh = if let Some(mentioned) = keeps {
            mentioned.then(|| token.to_owned())
        } else {
            self.vault.refresh.entry(token.to_owned()).and_modify(|old| old.rotated = true);
            self.new_refresh(family, &login.scope)
        };
        self.core.log.count(|counts| counts.refreshes += 1);
        Ok(self.issue(Issue { family, scope, resources, refresh }))
    }

    pub(super) fn client_credentials(&mut self) -> Granted {
        let Some(client) = self.client.clone().filter(|client| client.method != "none") else {
            return Err(Outcome::error(
                400,
                "unauthorized_client",
                "only for clients that can prove who they are",
            ));
        };
        let account = client.id.clone();
        Ok(self.without_login(Some(client.id), account, None, None))
    }

    pub(super) fn device(&mut self) -> Granted {
        let wait = |code: &str| Err(Outcome::error(400, code, ""));
        let now = self.core.now();
        let asked = self.ask.field("device_code");
        let Some(device) = self.vault.devices.iter_mut().find(|device| Some(device.code.as_str()) == asked)
        else {
            return wait("invalid_grant");
        };
        let (scope, resources, client) =
            (device.scope.clone(), device.resources.clone(), device.client.clone());
        let account = match device.poll(now) {
            Answered::Expired => return wait("expired_token"),
            Answered::TooSoon => return wait("slow_down"),
            Answered::Pending => return wait("authorization_pending"),
            Answered::Denied => return wait("access_denied"),
            Answered::Spent => return wait("invalid_grant"),
            Answered::Approved(account) => account,
        };
        if client.as_deref() != self.client_id() {
            return wait("invalid_grant");
        }
        let scope = self.granted(&scope);
        let login = Family { client, account, scope: scope.clone(), resources, ..Family::default() };
        let resources = self.resources(&login)?;
        let family = self.vault.open_family(login);
        let refresh = self.new_refresh(family, &scope);
        Ok(self.issue(Issue { family, scope, resources, refresh }))
    }

    /// Issues tokens without a login. No refresh token comes with them.
    pub(super) fn without_login(
        &mut self,
        client: Option<String>,
        account: String,
        scope: Option<&str>,
        resource: Option<&str>,
    ) -> Outcome {
        let script = self.core.script();
        let scope = self.granted(self.ask.field("scope").or(scope).unwrap_or(&script.default_scope));
        let resources = self.ask.field("resource").or(resource).map(words).unwrap_or_default();
        let family = self.vault.open_family(Family {
            client,
            account,
            scope: scope.clone(),
            resources: resources.clone(),
            ..Family::default()
        });
        self.issue(Issue { family, scope, resources, refresh: None })
    }

    /// Returns the resources of the token (RFC 8707), which cannot exceed those of the login.
    fn resources(&self, login: &Family) -> Result<Vec<String>, Outcome> {
        let Some(asked) = self.ask.field("resource").map(words) else { return Ok(login.resources.clone()) };
        if !login.resources.is_empty() && asked.iter().any(|resource| !login.resources.contains(resource)) {
            return Err(Outcome::error(400, "invalid_target", "the login is for another resource"));
        }
        Ok(asked)
    }

    fn wants_resource(&self) {
        if self.ask.field("resource").is_none() {
            let grant = self.ask.grant().unwrap_or_default();
            self.core.log.violation(format!("AF-02: {grant} without resource"));
        }
    }

    fn end_family(&mut self, family: usize) {
        if self.vault.revoke_family(family) {
            self.core.log.count(|counts| counts.families_revoked += 1);
        }
    }
}

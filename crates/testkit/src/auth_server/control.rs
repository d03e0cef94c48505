//! [`AuthControl`]: what a test can do with a running authorization server.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::fault::AuthFault;
use super::jwt::SigningKey;
use super::request_log::{AuthCounts, ReceivedAuthRequest};
use super::script::AuthScript;
use super::token::AccessClaims;
use super::vault::{AccessToken, RefreshToken, TokenFamily};
use super::{AuthCore, jwt, token};
use crate::canary::{self, SECRET_PREFIX};

/// A handle to a running authorization server: it arms faults, moves the clock, revokes tokens, and
/// returns what was received. Cheap to clone; [`AuthServer`](super::AuthServer) dereferences to it.
#[derive(Clone)]
pub struct AuthControl {
    pub(super) core: Arc<AuthCore>,
}

/// Tokens issued without a login, see [`AuthControl::issue`].
#[derive(Clone, Debug)]
pub struct IssuedTokens {
    /// The access token.
    pub access_token: String,
    /// The refresh token.
    pub refresh_token: String,
    /// The seconds until the access token expires.
    pub expires_in: u64,
}

/// Identity, script and faults.
impl AuthControl {
    /// Returns the issuer identifier.
    pub fn issuer(&self) -> String {
        self.core.issuer_at(&self.core.origin)
    }

    /// Returns the origin, `http://127.0.0.1:port`.
    pub fn origin(&self) -> &str {
        &self.core.origin
    }

    /// Returns the URL of an endpoint, such as `token`.
    pub fn endpoint(&self, name: &str) -> String {
        format!("{}{}/{name}", self.core.origin, self.core.script().path)
    }

    /// Returns the public key of its tokens and assertions, with its name.
    pub fn jwk(&self) -> Value {
        self.core.key().published_jwk()
    }

    /// Signs a token with the current key and names that key, whatever the token says. Tests use it for
    /// tokens that the server itself would not issue.
    pub fn sign_token(&self, mut header: Value, claims: &Value) -> String {
        let key = self.core.key();
        header["kid"] = key.id().into();
        let token = key.sign(header, claims);
        canary::record_secret(&token);
        token
    }

    /// Replaces the key that signs. The old one is no longer published.
    pub fn rotate_key(&self) {
        *self.core.key.lock() = Arc::new(SigningKey::generate());
    }

    /// Changes the script while the server runs: `auth.edit(|s| s.account("bob"))`.
    pub fn edit(&self, change: impl FnOnce(AuthScript) -> AuthScript) {
        self.core.edit_script(change);
    }

    /// Arms a fault. Panics if it could never strike.
    pub fn arm(&self, fault: AuthFault) {
        fault.assert_possible();
        self.core.faults.add(fault);
    }

    /// Removes all armed faults.
    pub fn disarm(&self) {
        self.core.faults.clear();
    }

    /// Returns the armed faults that have strikes left. A test that ends with some left did not
    /// test what it meant to.
    pub fn armed_faults(&self) -> Vec<AuthFault> {
        self.core.faults.remaining()
    }
}

/// Clock, tokens, clients and devices.
impl AuthControl {
    /// Moves the server's clock ahead: tokens and codes expire without waiting. The clocks of
    /// clients stay behind, as with clock skew.
    pub fn advance_clock(&self, by: Duration) {
        self.core.advance_clock(by);
    }

    /// Revokes every access token. Refresh tokens stay valid.
    pub fn revoke_all_access(&self) {
        self.core.vault.lock().access_tokens.values_mut().for_each(|access| access.revoked = true);
        self.core.request_log.notify_waiters();
    }

    /// Revokes every login: access and refresh tokens.
    pub fn revoke_all(&self) {
        self.core.vault.lock().families.iter_mut().for_each(|family| family.revoked = true);
        self.core.request_log.notify_waiters();
    }

    /// Forgets every client that registered itself.
    pub fn forget_registered_clients(&self) {
        self.core.vault.lock().clients.clear();
        self.core.request_log.notify_waiters();
    }

    /// Replaces the DPoP nonces, here and at the MCP server, where any are required.
    pub fn rotate_nonces(&self) {
        let mut vault = self.core.vault.lock();
        let vault = &mut *vault;
        for nonce in [&mut vault.nonce, &mut vault.resource_nonce].into_iter().flatten() {
            *nonce = jwt::random_text();
        }
    }

    /// Approves the device with this user code, as the script's account. Panics if no device waits
    /// with it.
    pub fn approve_device(&self, user_code: &str) {
        let account = self.core.script().account.clone();
        assert!(
            self.core.vault.lock().decide_device(user_code, Some(account)),
            "nobody waits with {user_code}"
        );
        self.core.request_log.notify_waiters();
    }

    /// Denies the device with this user code. Panics if no device waits with it.
    pub fn deny_device(&self, user_code: &str) {
        assert!(self.core.vault.lock().decide_device(user_code, None), "nobody waits with {user_code}");
        self.core.request_log.notify_waiters();
    }

    /// Returns the user codes issued to devices, oldest first.
    pub fn user_codes(&self) -> Vec<String> {
        self.core.vault.lock().devices.iter().map(|device| device.user_code.clone()).collect()
    }

    /// Issues tokens for this client, as if the script's account had logged in.
    pub fn issue(&self, client: &str, scope: &str, resource: &str) -> IssuedTokens {
        let script = self.core.script();
        let lifetime = Duration::from_millis(script.lifetime_ms);
        let mut vault = self.core.vault.lock();
        let resources = vec![resource.to_owned()];
        let family = TokenFamily {
            client: Some(client.into()),
            account: script.account.clone(),
            scope: scope.into(),
            resources: resources.clone(),
            ..TokenFamily::default()
        };
        let claims = AccessClaims { scope, resources: &resources, lifetime };
        let access_token = token::access_token(&self.core, &self.issuer(), &family, &claims);
        let family = vault.add_family(family);
        let refresh_token = format!("{SECRET_PREFIX}refresh-{}", jwt::random_text());
        let until = self.core.now() + lifetime;
        let access = AccessToken {
            family,
            scope: scope.into(),
            resources,
            expires_at: until,
            key_thumbprint: None,
            revoked: false,
        };
        vault.access_tokens.insert(access_token.clone(), access);
        let refresh = RefreshToken { family, key_thumbprint: None, rotated: false };
        vault.refresh_tokens.insert(refresh_token.clone(), refresh);
        IssuedTokens { access_token, refresh_token, expires_in: lifetime.as_secs() }
    }

    /// Returns an ID token for this account with this client as its audience.
    pub fn id_token(&self, account: &str, client: &str) -> String {
        token::id_token(&self.core, &self.issuer(), account, client, None)
    }

    /// Returns whether an access token is valid now.
    pub fn is_valid_access_token(&self, access_token: &str) -> bool {
        self.core.vault.lock().valid_access_token(access_token, self.core.now()).is_some()
    }
}

/// The record of requests.
impl AuthControl {
    /// Returns every request so far, in order.
    pub fn received(&self) -> Vec<ReceivedAuthRequest> {
        self.core.request_log.entries()
    }

    /// Returns the requests to this endpoint, or with this grant.
    pub fn received_at(&self, name: &str) -> Vec<ReceivedAuthRequest> {
        self.core
            .request_log
            .with_entries(|seen| seen.iter().filter(|seen| seen.matches(name)).cloned().collect())
    }

    /// Returns the number of requests to this endpoint, or with this grant.
    pub fn count(&self, name: &str) -> usize {
        self.core.request_log.with_entries(|seen| seen.iter().filter(|seen| seen.matches(name)).count())
    }

    /// Clears the record of requests, for runs so long that it would fill the memory. The counts
    /// stay.
    pub fn clear_received(&self) {
        self.core.request_log.clear_entries();
    }

    /// Returns the counts of what happened so far.
    pub fn counts(&self) -> AuthCounts {
        self.core.request_log.with_counts(AuthCounts::clone)
    }

    /// Returns the number of successful refreshes.
    pub fn refreshes(&self) -> u64 {
        self.counts().refreshes
    }

    /// Returns how often a rotated refresh token was presented again.
    pub fn reuse_detected(&self) -> u64 {
        self.counts().reuse_detected
    }

    /// Returns the number of codes issued.
    pub fn authorizations(&self) -> u64 {
        self.counts().authorizations
    }

    /// Returns the number of clients registered.
    pub fn registrations(&self) -> u64 {
        self.counts().registrations
    }

    /// Returns what the client did that it must not and a lenient server tolerates.
    pub fn violations(&self) -> Vec<String> {
        self.core.request_log.violations()
    }

    /// Waits for a matching request, including those received before the call. Panics with a
    /// summary of all requests if none arrives within `timeout`.
    pub async fn wait_for(
        &self,
        matches: impl Fn(&ReceivedAuthRequest) -> bool,
        timeout: Duration,
    ) -> ReceivedAuthRequest {
        let look =
            || self.core.request_log.with_entries(|seen| seen.iter().find(|seen| matches(seen)).cloned());
        self.core.request_log.expect_entry(look, timeout).await
    }

    /// Waits until the condition holds, testing it after every event. Panics with a summary of all
    /// requests after `timeout`.
    pub async fn wait_until(&self, holds: impl Fn(&Self) -> bool, timeout: Duration) {
        self.core.request_log.expect_condition(|| holds(self), timeout).await;
    }
}

//! Adds the credentials of the connection to its requests.

use std::fmt;
use std::sync::Arc;

use bowline_transport::Redactor;
use bowline_transport::http::Credentials;
use http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Method};
use url::Url;

use super::current::CurrentCredentials;
use super::policy::LoginPolicy;
use super::refusals::RefusalHistory;
use crate::context::AuthContext;
use crate::tokens::Scheme;

/// Signs the requests of one connection.
pub(super) struct IdentityCredentials {
    pub(super) ctx: AuthContext,
    pub(super) policy: LoginPolicy,
    pub(super) current: Arc<CurrentCredentials>,
    pub(super) refusals: Arc<RefusalHistory>,
}

impl Credentials for IdentityCredentials {
    fn sign(&self, method: &Method, url: &Url, headers: &mut HeaderMap) {
        // TK-02: a link stays within its origin. If it ever does not, it gets no credentials.
        if url.origin() != self.ctx.url.origin() || self.ctx.http_client.check_encrypted(url).is_err() {
            return;
        }
        for (name, value) in &*self.current.headers() {
            headers.insert(name, value.clone());
        }
        // Configured headers and command headers are never replaced.
        if !self.policy.uses_logins() || headers.contains_key(AUTHORIZATION) {
            return;
        }
        let Some(login) = self.current.login() else { return };
        if login.record.scheme == Scheme::Dpop {
            let Some(key) = &login.dpop_key else { return };
            let nonce = key.nonces().get(url);
            let proof = key.proof(method, url, Some(&login.record.access), nonce.as_deref());
            if let Ok(proof) = HeaderValue::try_from(proof) {
                headers.insert("dpop", proof);
            }
        }
        headers.insert(AUTHORIZATION, login.authorization.clone());
    }

    fn redactor(&self) -> Option<Arc<Redactor>> {
        Some(self.current.redactor())
    }

    fn observe_response(&self, url: &Url, headers: &HeaderMap) {
        // A refusal carries `WWW-Authenticate`; anything else counts as accepted.
        if !headers.contains_key(WWW_AUTHENTICATE) {
            self.refusals.add_accepted(self.current.generation());
        }
        if let Some(key) = self.current.login().and_then(|login| login.dpop_key.clone()) {
            key.nonces().learn(url, headers);
        }
    }
}

impl fmt::Debug for IdentityCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdentityCredentials").field("server", &self.ctx.server).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;

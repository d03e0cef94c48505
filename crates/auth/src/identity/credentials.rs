//! Adds the credentials of the connection to its requests.

use std::fmt;
use std::sync::Arc;

use bowline_transport::Redactor;
use bowline_transport::http::Credentials;
use http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Method};
use url::Url;

use super::Inner;
use crate::tokens::Scheme;

/// Signs the requests of one connection.
pub(super) struct IdentityCredentials(pub(super) Arc<Inner>);

impl Credentials for IdentityCredentials {
    fn sign(&self, method: &Method, url: &Url, headers: &mut HeaderMap) {
        let inner = &self.0;
        // TK-02: a link stays within its origin. If it ever does not, it gets no credentials.
        if url.origin() != inner.ctx.url.origin() || inner.ctx.http_client.check_encrypted(url).is_err() {
            return;
        }
        for (name, value) in &*inner.current.headers() {
            headers.insert(name, value.clone());
        }
        // Configured headers and command headers are never replaced.
        if !inner.uses_logins() || headers.contains_key(AUTHORIZATION) {
            return;
        }
        let Some(login) = inner.current.login() else { return };
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
        Some(self.0.current.redactor())
    }

    fn observe_response(&self, url: &Url, headers: &HeaderMap) {
        // A refusal carries `WWW-Authenticate`; anything else counts as accepted.
        if !headers.contains_key(WWW_AUTHENTICATE) {
            self.0.refusals.add_accepted(self.0.current.generation());
        }
        if let Some(key) = self.0.current.login().and_then(|login| login.dpop_key.clone()) {
            key.nonces().learn(url, headers);
        }
    }
}

impl fmt::Debug for IdentityCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer").field("server", &self.0.ctx.server).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;

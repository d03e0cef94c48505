//! Fetches the keys of an issuer: its metadata, and the key set that the metadata names.

use std::time::Duration;

use bowline_config::Http;
use bowline_transport::http::Proxies;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio::time::timeout;

use super::issuer_keys::KeySource;
use super::verification_key::VerificationKey;
use crate::discover::issuer_metadata_urls;
use crate::error::{AuthError, AuthErrorKind, sanitize_url};
use crate::http_client::AuthHttpClient;
use crate::metadata;

/// Fetches the keys of one issuer. The issuer was chosen by the user, so it may be anywhere; the
/// address of its keys is its own choice and is guarded. Neither the metadata nor the keys may be redirected to
/// another origin, where somebody else could have keys of their own.
#[derive(Clone, Debug)]
pub(super) struct JwksSource {
    issuer: String,
    http_client: AuthHttpClient,
}

/// Timeout for the metadata and the keys together.
const FETCH_TIMEOUT: Duration = Duration::from_secs(15);
/// How many keys of an issuer are used.
const MAX_KEYS: usize = 64;

impl JwksSource {
    pub(super) fn new(issuer: &str, proxies: Proxies) -> Result<Self, AuthError> {
        let url = metadata::parse_issuer(issuer)?;
        let http_client = AuthHttpClient::for_issuer(&Http::from_url(url), proxies);
        Ok(Self { issuer: issuer.to_owned(), http_client })
    }

    async fn fetch_unbounded(&self) -> Result<Vec<VerificationKey>, AuthError> {
        let address = self.find_address().await?;
        let url = metadata::parse_endpoint(&address, &format!("jwks_uri of {}", sanitize_url(&self.issuer)))?;
        let document = self.http_client.get_document(&url).await?;
        let keys = document.as_ref().and_then(|document| document.get("keys")?.as_array());
        let keys = keys.ok_or_else(|| self.untrusted("publishes no keys at its `jwks_uri`"))?;
        if keys.len() > MAX_KEYS {
            tracing::warn!(issuer = sanitize_url(&self.issuer), "only the first {MAX_KEYS} keys are used");
        }
        Ok(keys.iter().take(MAX_KEYS).filter_map(VerificationKey::from_jwk).collect())
    }

    /// Finds the address of the keys, in the first metadata that has one.
    async fn find_address(&self) -> Result<String, AuthError> {
        let mut failure = None;
        for url in issuer_metadata_urls(&metadata::parse_issuer(&self.issuer)?) {
            let document = match self.http_client.get_document(&url).await {
                Ok(Some(document)) => document,
                Ok(None) => continue,
                Err(error) => {
                    failure.get_or_insert(error);
                    continue;
                }
            };
            let text = |name: &str| document.get(name).and_then(Value::as_str);
            if let Some(address) = text("jwks_uri") {
                if text("issuer") != Some(&*self.issuer) {
                    return Err(self.untrusted("publishes the metadata of another issuer"));
                }
                return Ok(address.to_owned());
            }
        }
        Err(failure.unwrap_or_else(|| self.untrusted("publishes no metadata with a `jwks_uri`")))
    }

    fn untrusted(&self, what: &str) -> AuthError {
        AuthError::new(AuthErrorKind::Untrusted, format!("{} {what}", sanitize_url(&self.issuer)))
    }
}

impl KeySource for JwksSource {
    fn fetch(&self) -> BoxFuture<'static, Result<Vec<VerificationKey>, AuthError>> {
        let source = self.clone();
        let fetching = async move {
            let late = || AuthError::new(AuthErrorKind::Unavailable, "it took too long to fetch the keys");
            timeout(FETCH_TIMEOUT, source.fetch_unbounded()).await.unwrap_or_else(|_| Err(late()))
        };
        fetching.boxed()
    }
}

#[cfg(test)]
mod tests;

//! [`AuthClient`]: a client of the authorization server, and how it authenticates.

use serde_json::Value;
use url::Url;

/// A client that the authorization server knows. Those that register themselves have the same type.
#[must_use]
#[derive(Clone, Debug, PartialEq)]
pub struct AuthClient {
    pub(super) id: String,
    pub(super) secret: Option<String>,
    pub(super) method: String,
    pub(super) redirects: Vec<String>,
    /// The public JWK of `private_key_jwt`.
    pub(super) key: Option<Value>,
}

impl AuthClient {
    /// Returns a client without a secret.
    pub fn public(id: &str) -> Self {
        Self::with_method(id, "none")
    }

    /// Returns a client that sends its secret in the `Authorization` header.
    pub fn basic(id: &str, secret: &str) -> Self {
        Self { secret: Some(secret.into()), ..Self::with_method(id, "client_secret_basic") }
    }

    /// Returns a client that sends its secret in the form.
    pub fn post(id: &str, secret: &str) -> Self {
        Self { secret: Some(secret.into()), ..Self::with_method(id, "client_secret_post") }
    }

    /// Returns a client that signs assertions with the key whose public half is this JWK.
    pub fn key(id: &str, jwk: Value) -> Self {
        Self { key: Some(jwk), ..Self::with_method(id, "private_key_jwt") }
    }

    /// Adds a redirect URI. A client without any accepts all.
    pub fn redirect(mut self, uri: &str) -> Self {
        self.redirects.push(uri.into());
        self
    }

    fn with_method(id: &str, method: &str) -> Self {
        Self { id: id.into(), secret: None, method: method.into(), redirects: Vec::new(), key: None }
    }

    /// Returns whether the client may be redirected to this URI. RFC 8252 7.3: on a loopback
    /// address any port is accepted, unless the server is `exact`.
    pub(super) fn allows_redirect(&self, uri: &str, exact: bool) -> bool {
        self.redirects.is_empty()
            || self.redirects.iter().any(|registered| {
                registered == uri
                    || (!exact
                        && loopback_without_port(registered)
                            .is_some_and(|r| Some(r) == loopback_without_port(uri)))
            })
    }
}

/// Returns a loopback URL without its port, or `None` for other hosts.
fn loopback_without_port(uri: &str) -> Option<Url> {
    let mut url = Url::parse(uri).ok()?;
    if !matches!(url.host_str(), Some("127.0.0.1" | "[::1]" | "localhost")) {
        return None;
    }
    url.set_port(None).ok()?;
    Some(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_ports_are_free_unless_exact() {
        let client = AuthClient::public("a").redirect("http://127.0.0.1:1/callback");
        assert!(client.allows_redirect("http://127.0.0.1:2/callback", false));
        assert!(!client.allows_redirect("http://127.0.0.1:2/callback", true));
        assert!(!client.allows_redirect("http://127.0.0.1:2/other", false));
        assert!(!client.allows_redirect("http://localhost:1/callback", false));
        let client = AuthClient::public("a").redirect("https://app.example/cb");
        assert!(!client.allows_redirect("https://app.example:444/cb", false));
    }
}

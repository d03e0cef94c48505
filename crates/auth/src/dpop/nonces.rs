//! Owns which nonce the next DPoP proof for an origin carries.

use std::collections::HashMap;

use http::HeaderMap;
use parking_lot::Mutex;
use url::Url;

/// The last nonce of each origin (RFC 9449 §8).
#[derive(Debug, Default)]
pub(crate) struct Nonces {
    by_origin: Mutex<HashMap<String, String>>,
}

/// How many origins are remembered. A server has one, its authorization server another.
const MAX_ORIGINS: usize = 16;
/// The longest accepted nonce, in bytes.
const MAX_NONCE_LENGTH: usize = 1024;

impl Nonces {
    /// The nonce for the next proof to this URL.
    pub(crate) fn get(&self, url: &Url) -> Option<String> {
        let by_origin = self.by_origin.lock();
        by_origin.get(&url.origin().ascii_serialization()).cloned()
    }

    /// Stores the nonce of a response, whatever its status. Returns whether it is a new one.
    pub(crate) fn learn(&self, url: &Url, headers: &HeaderMap) -> bool {
        let Some(nonce) = headers.get("dpop-nonce").and_then(|value| value.to_str().ok()) else {
            return false;
        };
        if nonce.is_empty() || nonce.len() > MAX_NONCE_LENGTH {
            return false;
        }
        let origin = url.origin().ascii_serialization();
        let mut by_origin = self.by_origin.lock();
        if by_origin.len() >= MAX_ORIGINS && !by_origin.contains_key(&origin) {
            // Dropping all is fine: an origin without its nonce asks for one again.
            by_origin.clear();
        }
        by_origin.insert(origin, nonce.to_owned()).as_deref() != Some(nonce)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(nonce: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert("DPoP-Nonce", nonce.parse().unwrap());
        headers
    }

    fn url(text: &str) -> Url {
        text.parse().unwrap()
    }

    // AX-07
    #[test]
    fn each_origin_has_its_own() {
        let nonces = Nonces::default();
        assert!(nonces.learn(&url("https://as.example/token"), &headers("one")));
        assert!(nonces.learn(&url("https://rs.example/mcp"), &headers("two")));
        assert_eq!(nonces.get(&url("https://as.example/revoke")).as_deref(), Some("one"));
        assert_eq!(nonces.get(&url("https://rs.example/mcp")).as_deref(), Some("two"));
        assert_eq!(nonces.get(&url("https://rs.example:8443/mcp")), None);
    }

    #[test]
    fn the_last_one_counts_and_the_same_one_is_no_news() {
        let nonces = Nonces::default();
        let at = url("https://as.example/token");
        assert!(nonces.learn(&at, &headers("one")));
        assert!(!nonces.learn(&at, &headers("one")));
        assert!(nonces.learn(&at, &headers("two")));
        assert!(!nonces.learn(&at, &HeaderMap::new()));
        assert_eq!(nonces.get(&at).as_deref(), Some("two"));
    }

    #[test]
    fn a_hostile_server_cannot_fill_the_memory() {
        let nonces = Nonces::default();
        assert!(!nonces.learn(&url("https://as.example/"), &headers(&"n".repeat(MAX_NONCE_LENGTH + 1))));
        for n in 0..1000 {
            nonces.learn(&url(&format!("https://h{n}.example/")), &headers("n"));
        }
        assert!(nonces.by_origin.lock().len() <= MAX_ORIGINS);
    }
}

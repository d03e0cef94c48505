//! Owns what is asked of whoever proves who we are.

use std::fmt;
use std::sync::Arc;

use http::{HeaderMap, Method};
use url::Url;

use crate::redact::Redactor;

/// Proves who we are, on every request of a link: each method, each redirect and each resumption (TK-01).
///
/// A link stays within one origin, so what is added here reaches nobody else (TK-02).
pub trait Credentials: fmt::Debug + Send + Sync + 'static {
    /// Adds to the headers of a request that is about to be sent. Called for each sending, from the future of the
    /// request: it must not block. Headers that the configuration sets are in `headers` already.
    fn sign(&self, method: &Method, url: &Url, headers: &mut HeaderMap);

    /// What keeps the secrets that prove who we are out of what the server says. Asked for with each message: it must
    /// not block.
    fn redactor(&self) -> Option<Arc<Redactor>> {
        None
    }

    /// Looks at the headers of an answer, whatever its status, redirects included.
    fn learn(&self, url: &Url, headers: &HeaderMap) {
        let _ = (url, headers);
    }
}

//! The interface through which the authorization layer signs requests.

use std::fmt;
use std::sync::Arc;

use http::{HeaderMap, Method};
use url::Url;

use crate::redact::Redactor;

/// Signs every request of a link: each method, each redirect and each resumption.
///
/// A link stays within one origin, so added headers reach no other server.
pub trait Credentials: fmt::Debug + Send + Sync + 'static {
    /// Adds headers to a request that is about to be sent. Called for each sending, in the future
    /// of the request, so it must not block. Configured headers are in `headers` already.
    fn sign(&self, method: &Method, url: &Url, headers: &mut HeaderMap);

    /// Returns the redactor that removes the current credentials from messages of the server.
    /// Called for each message, so it must not block.
    fn redactor(&self) -> Option<Arc<Redactor>> {
        None
    }

    /// Called with the headers of every response, whatever its status, redirects included.
    fn observe_response(&self, url: &Url, headers: &HeaderMap) {
        let _ = (url, headers);
    }
}

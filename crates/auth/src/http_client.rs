//! Owns which addresses are requested during authorization, with which headers, and which responses
//! are accepted.

use std::sync::Arc;

use bowline_config::Http;
use bowline_proto::fault::{Cause, Fault, Misbehavior};
use bowline_transport::http::{
    AddressRefusal, AddressSource, FetchError, Fetcher, Proxies, RefusalReason, Zone, is_this_machine,
};
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Response};
use parking_lot::RwLock;
use serde_json::Value;
use url::Url;

use crate::error::{AuthError, AuthErrorKind, sanitize_url};

/// Sends the authorization requests of one server. Cheap to clone; clones share headers.
///
/// Only requests to the server's own origin carry its configured headers and its client
/// certificate.
#[derive(Clone, Debug)]
pub struct AuthHttpClient {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    fetch: Fetcher,
    server: Url,
    /// The configured authorization server.
    issuer: Option<Url>,
    /// Whether the configuration allows credentials over plain `http` to another machine.
    allow_http: bool,
    /// Headers from the configuration.
    configured_headers: HeaderMap,
    /// Headers that the headers command printed.
    command_headers: RwLock<HeaderMap>,
}

impl AuthHttpClient {
    /// Creates a client for one server, without sending a request.
    pub fn new(server: &Http, proxies: Proxies) -> Self {
        Self::with_fetch(Fetcher::new(server.tls.clone(), proxies), server)
    }

    /// Creates a client for the documents of an issuer, which are trusted because of where they are: a redirect to
    /// another origin is refused.
    pub(crate) fn for_issuer(issuer: &Http, proxies: Proxies) -> Self {
        Self::with_fetch(Fetcher::new(issuer.tls.clone(), proxies).within_origin(), issuer)
    }

    fn with_fetch(fetch: Fetcher, server: &Http) -> Self {
        let fetch = fetch.with_certificate_for(&server.url);
        let mut configured_headers = HeaderMap::new();
        for (name, value) in &server.headers {
            // The connection reports headers that cannot be sent.
            if let Ok(name) = HeaderName::from_bytes(name.as_bytes())
                && let Ok(mut value) = HeaderValue::from_bytes(value.expose().as_bytes())
            {
                value.set_sensitive(true);
                configured_headers.insert(name, value);
            }
        }
        let issuer = server.auth.issuer.as_deref().and_then(|issuer| Url::parse(issuer).ok());
        Self {
            shared: Arc::new(Shared {
                fetch,
                server: server.url.clone(),
                issuer,
                // Nobody else can read what goes over a socket.
                allow_http: server.allow_http || server.socket.is_some(),
                configured_headers,
                command_headers: RwLock::default(),
            }),
        }
    }

    /// Replaces the headers of the headers command. They take precedence over configured ones.
    pub fn set_headers(&self, mut headers: HeaderMap) {
        headers.values_mut().for_each(|value| value.set_sensitive(true));
        *self.shared.command_headers.write() = headers;
    }

    /// Sends a request to an address that a server or authorization server named. Plain `http` is
    /// allowed to this machine only, and addresses that are less public than the server are
    /// refused. Every status is returned as a response.
    ///
    /// The origins of the server and of the configured issuer were chosen by the user, so they may
    /// be anywhere. GET requests to them may use plain `http` if the configuration allows that.
    ///
    /// Dropping the future ends the request; what was sent of it may have been carried out.
    // SE-01
    pub async fn request_discovered(&self, request: Request<Bytes>) -> Result<Response<Bytes>, AuthError> {
        let url = request_url(&request)?;
        let chosen = self.is_configured_origin(&url);
        if chosen {
            self.check_encrypted(&url)?;
        }
        let guard = if chosen && (url.scheme() == "https" || request.method() == Method::GET) {
            AddressSource::User
        } else {
            match self.server_zone().await? {
                // The request stays on this machine, also if the host is spelled in a way that is
                // otherwise refused.
                Zone::Loopback if url.origin() == self.shared.server.origin() => AddressSource::User,
                zone => AddressSource::Server(zone),
            }
        };
        self.send(request, &url, guard).await
    }

    /// Sends a request to a configured address.
    ///
    /// Dropping the future ends the request; what was sent of it may have been carried out.
    pub async fn request_configured(&self, request: Request<Bytes>) -> Result<Response<Bytes>, AuthError> {
        let url = request_url(&request)?;
        self.check_encrypted(&url)?;
        self.send(request, &url, AddressSource::User).await
    }

    /// Fails if credentials must not be sent to this URL: it must be `https`, on this machine, or
    /// allowed by the configuration.
    pub(crate) fn check_encrypted(&self, url: &Url) -> Result<(), AuthError> {
        if url.scheme() == "https" || self.shared.allow_http || is_this_machine(url) {
            return Ok(());
        }
        let at = url.origin().ascii_serialization();
        let what =
            format!("{at} is another machine and not https: anyone on the network could read what is sent");
        let hint = "use https, or set `allow_http = true` in the server's entry";
        Err(AuthError::new(AuthErrorKind::PlainHttp, what).hint(hint))
    }

    /// Fetches a JSON document that a server named. Returns `None` for any 4xx and for HTML pages,
    /// because many sites answer every path with one. Dropping the future ends the request.
    pub async fn get_document(&self, url: &Url) -> Result<Option<Value>, AuthError> {
        self.get_document_with_headers(url, &HeaderMap::new()).await
    }

    /// Fetches a JSON document with extra headers, such as `MCP-Protocol-Version`. Dropping the future
    /// ends the request.
    // AD-07
    pub async fn get_document_with_headers(
        &self,
        url: &Url,
        headers: &HeaderMap,
    ) -> Result<Option<Value>, AuthError> {
        let mut request = Request::new(Bytes::new());
        *request.uri_mut() = url.as_str().parse().map_err(|_| unusable_url_error())?;
        request.headers_mut().clone_from(headers);
        request.headers_mut().entry(ACCEPT).or_insert(HeaderValue::from_static("application/json"));
        let response = self.request_discovered(request).await?;
        let at = url.origin().ascii_serialization();
        match response.status().as_u16() {
            200 => {}
            // The server is too busy to say whether there is one.
            code @ (408 | 425 | 429) => return Err(unavailable(format!("{at} answered with status {code}"))),
            400..=499 => return Ok(None),
            code => return Err(unavailable(format!("{at} answered with status {code}"))),
        }
        let body = response.body().strip_prefix(b"\xef\xbb\xbf").unwrap_or(response.body());
        match serde_json::from_slice(body) {
            Ok(document @ Value::Object(_)) => Ok(Some(document)),
            Err(_) if !is_json(response.headers()) => Ok(None),
            Ok(_) => Err(untrusted(format!("{} is JSON, but not an object", sanitize_url(url.as_str())))),
            Err(_) => Err(untrusted(format!("{} is not valid JSON", sanitize_url(url.as_str())))),
        }
    }

    /// Fails if a person must not be sent to this page: it must not be less public than the server
    /// (SE-01), unless it is at an origin that the user configured.
    pub(crate) async fn check_page(&self, page: &Url) -> Result<(), AuthError> {
        if self.is_configured_origin(page) {
            return Ok(());
        }
        let zone = self.server_zone().await?;
        self.shared.fetch.check_browser_url(page, zone).await.map_err(|AddressRefusal { host, reason }| {
            let what = format!("the page at {host} is not opened: {reason}");
            untrusted(what).hint(NAME_ISSUER_HINT)
        })
    }

    /// Whether the URL is at the origin of the server or of the configured issuer.
    fn is_configured_origin(&self, url: &Url) -> bool {
        let Shared { server, issuer, .. } = &*self.shared;
        [Some(server), issuer.as_ref()].into_iter().flatten().any(|named| named.origin() == url.origin())
    }

    /// The network zone of the server. Determined each time: it can turn out to be more public than
    /// before, never less.
    async fn server_zone(&self) -> Result<Zone, AuthError> {
        let Shared { fetch, server, .. } = &*self.shared;
        fetch.find_zone(server).await.map_err(|fault| fault_error(server, &fault))
    }

    async fn send(
        &self,
        mut request: Request<Bytes>,
        url: &Url,
        guard: AddressSource,
    ) -> Result<Response<Bytes>, AuthError> {
        if url.origin() == self.shared.server.origin() {
            self.add_headers(request.headers_mut());
        }
        self.shared.fetch.send(request, guard).await.map_err(|error| match error {
            FetchError::Refused(refusal) => refusal_error(&refusal),
            FetchError::Failed(fault) => fault_error(url, &fault),
        })
    }

    /// Headers that the request sets itself take precedence.
    fn add_headers(&self, headers: &mut HeaderMap) {
        let command_headers = self.shared.command_headers.read();
        for (name, value) in command_headers.iter().chain(&self.shared.configured_headers) {
            headers.entry(name).or_insert_with(|| value.clone());
        }
    }
}

fn request_url(request: &Request<Bytes>) -> Result<Url, AuthError> {
    Url::parse(&request.uri().to_string()).map_err(|_| unusable_url_error())
}

fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    let essence = value.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
    essence.to_ascii_lowercase().ends_with(b"json")
}

fn refusal_error(refusal: &AddressRefusal) -> AuthError {
    let error = untrusted(refusal.to_string());
    match refusal.reason {
        RefusalReason::TooPrivate(_) => error.hint(NAME_ISSUER_HINT),
        _ => error,
    }
}

const NAME_ISSUER_HINT: &str =
    "if this authorization server is yours, name it as `issuer` in the server's `auth`";

fn fault_error(url: &Url, fault: &Fault) -> AuthError {
    let what = format!("{}: {fault}", url.origin().ascii_serialization());
    match fault.cause {
        Cause::Redirect { .. } | Cause::Protocol(Misbehavior::TooLarge { .. }) => untrusted(what),
        _ => unavailable(what),
    }
}

fn unusable_url_error() -> AuthError {
    untrusted("the address cannot be used for a request")
}

fn untrusted(what: impl Into<String>) -> AuthError {
    AuthError::new(AuthErrorKind::Untrusted, what)
}

fn unavailable(what: impl Into<String>) -> AuthError {
    AuthError::new(AuthErrorKind::Unavailable, what)
}

#[cfg(test)]
mod tests;

//! Owns whom we ask, with what, and what of the answer is believed.

use std::sync::{Arc, PoisonError, RwLock};

use bowline_config::Http;
use bowline_proto::fault::{Cause, Fault, Misbehaviour};
use bowline_transport::http::{Fetch, FetchError, Guard, Proxies, Refusal, Why, Zone, is_this_machine};
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Response};
use serde_json::Value;
use url::Url;

use crate::error::{AuthError, AuthErrorKind};

/// The way to everything that is asked on behalf of one server. Cheap to clone; clones share headers.
///
/// Requests to the server's own origin carry its configured headers and show its client certificate; others do
/// neither.
#[derive(Clone, Debug)]
pub struct Net {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    fetch: Fetch,
    server: Url,
    /// The authorization server that the configuration names.
    issuer: Option<Url>,
    /// Whether the configuration allows credentials over plain `http` to another machine.
    allow_http: bool,
    /// Those that the configuration names.
    fixed: HeaderMap,
    /// Those that a program made.
    made: RwLock<HeaderMap>,
}

impl Net {
    /// For one server. Nobody is asked yet.
    pub fn new(server: &Http, proxies: Proxies) -> Self {
        Self::over(Fetch::new(server.tls.clone(), proxies), server)
    }

    fn over(fetch: Fetch, server: &Http) -> Self {
        let fetch = fetch.certified_at(&server.url);
        let mut fixed = HeaderMap::new();
        for (name, value) in &server.headers {
            // A header that cannot be sent is an error of the connection, which is told there.
            if let Ok(name) = HeaderName::from_bytes(name.as_bytes())
                && let Ok(mut value) = HeaderValue::from_bytes(value.expose().as_bytes())
            {
                value.set_sensitive(true);
                fixed.insert(name, value);
            }
        }
        let made = RwLock::default();
        let issuer = server.auth.issuer.as_deref().and_then(|issuer| Url::parse(issuer).ok());
        let (url, allow_http) = (server.url.clone(), server.allow_http);
        Self { shared: Arc::new(Shared { fetch, server: url, issuer, allow_http, fixed, made }) }
    }

    /// Replaces the headers that a program made for the server. They are stronger than the configured ones.
    pub fn set_headers(&self, mut headers: HeaderMap) {
        headers.values_mut().for_each(|value| value.set_sensitive(true));
        *self.shared.made.write().unwrap_or_else(PoisonError::into_inner) = headers;
    }

    /// Asks an address that a server or an authorization server named. `http` is for this machine only; other
    /// addresses that are less public than the server are refused (SE-01). Every status is an answer.
    ///
    /// The origins of the server, and of the issuer that the configuration names, were the person's choice: they
    /// may be anywhere. GETs to them may be plain `http` if the configuration allows that.
    pub async fn told(&self, request: Request<Bytes>) -> Result<Response<Bytes>, AuthError> {
        let url = url_of(&request)?;
        let chosen = self.is_chosen(&url);
        if chosen {
            self.check_encrypted(&url)?;
        }
        let guard = if chosen && (url.scheme() == "https" || request.method() == Method::GET) {
            Guard::Chosen
        } else {
            match self.zone().await? {
                // Nothing leaves this machine, also where its address is written in a way that others may not use.
                Zone::Loopback if url.origin() == self.shared.server.origin() => Guard::Chosen,
                zone => Guard::Told(zone),
            }
        };
        self.send(request, &url, guard).await
    }

    /// Asks an address that the configuration names.
    pub async fn chosen(&self, request: Request<Bytes>) -> Result<Response<Bytes>, AuthError> {
        let url = url_of(&request)?;
        self.check_encrypted(&url)?;
        self.send(request, &url, Guard::Chosen).await
    }

    /// Whether what proves who we are may be sent to an address: over `https`, to this machine, or where the
    /// configuration allows it.
    pub(crate) fn check_encrypted(&self, url: &Url) -> Result<(), AuthError> {
        if url.scheme() == "https" || self.shared.allow_http || is_this_machine(url) {
            return Ok(());
        }
        let at = url.origin().ascii_serialization();
        let what =
            format!("{at} is another machine and not https: everybody on the way could read what is sent");
        let hint = "use https, or set `allow_http = true` in the server's entry";
        Err(AuthError::new(AuthErrorKind::PlainHttp, what).hint(hint))
    }

    /// GETs a JSON document that a server named. `None`: there is none. That is what any 4xx says, and also a page
    /// for people: many sites answer every address with one.
    pub async fn document(&self, url: &Url) -> Result<Option<Value>, AuthError> {
        self.document_with(url, &HeaderMap::new()).await
    }

    /// The same, with headers of the request, such as `MCP-Protocol-Version` (AD-07).
    pub async fn document_with(&self, url: &Url, headers: &HeaderMap) -> Result<Option<Value>, AuthError> {
        let mut request = Request::new(Bytes::new());
        *request.uri_mut() = url.as_str().parse().map_err(|_| unusable())?;
        request.headers_mut().clone_from(headers);
        request.headers_mut().entry(ACCEPT).or_insert(HeaderValue::from_static("application/json"));
        let response = self.told(request).await?;
        let at = url.origin().ascii_serialization();
        match response.status().as_u16() {
            200 => {}
            // It is too busy to say.
            code @ (408 | 425 | 429) => return Err(unavailable(format!("{at} answered with status {code}"))),
            400..=499 => return Ok(None),
            code => return Err(unavailable(format!("{at} answered with status {code}"))),
        }
        let body = response.body().strip_prefix(b"\xef\xbb\xbf").unwrap_or(response.body());
        match serde_json::from_slice(body) {
            Ok(document @ Value::Object(_)) => Ok(Some(document)),
            Err(_) if !says_json(response.headers()) => Ok(None),
            Ok(_) => Err(untrusted(format!("{at}{} is JSON, but no object", shown_path(url)))),
            Err(_) => Err(untrusted(format!("{at}{} is not valid JSON", shown_path(url)))),
        }
    }

    /// Whether the server, or an authorization server that it named, may send a person to a page. It may not be nearer
    /// than the server (SE-01), unless it is of an origin that was the person's choice.
    pub(crate) async fn check_page(&self, page: &Url) -> Result<(), AuthError> {
        if self.is_chosen(page) {
            return Ok(());
        }
        let zone = self.zone().await?;
        self.shared.fetch.check_page(page, zone).await.map_err(|Refusal { host, why }| {
            let what = format!("nobody is sent to a page at {host}: {why}");
            untrusted(what).hint(NAME_ISSUER)
        })
    }

    /// Whether an address is of an origin that the configuration names.
    fn is_chosen(&self, url: &Url) -> bool {
        let Shared { server, issuer, .. } = &*self.shared;
        [Some(server), issuer.as_ref()].into_iter().flatten().any(|named| named.origin() == url.origin())
    }

    /// Where the server is, each time anew: it can turn out to be farther away than it looked, and never comes nearer.
    async fn zone(&self) -> Result<Zone, AuthError> {
        let Shared { fetch, server, .. } = &*self.shared;
        fetch.zone(server).await.map_err(|fault| failed(server, &fault))
    }

    async fn send(
        &self,
        mut request: Request<Bytes>,
        url: &Url,
        guard: Guard,
    ) -> Result<Response<Bytes>, AuthError> {
        if url.origin() == self.shared.server.origin() {
            self.add_headers(request.headers_mut());
        }
        self.shared.fetch.send(request, guard).await.map_err(|error| match error {
            FetchError::Refused(refusal) => refused(&refusal),
            FetchError::Failed(fault) => failed(url, &fault),
        })
    }

    /// What the request says itself is stronger.
    fn add_headers(&self, headers: &mut HeaderMap) {
        let made = self.shared.made.read().unwrap_or_else(PoisonError::into_inner);
        for (name, value) in made.iter().chain(&self.shared.fixed) {
            headers.entry(name).or_insert_with(|| value.clone());
        }
    }
}

fn url_of(request: &Request<Bytes>) -> Result<Url, AuthError> {
    Url::parse(&request.uri().to_string()).map_err(|_| unusable())
}

fn says_json(headers: &HeaderMap) -> bool {
    let value = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    let essence = value.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
    essence.to_ascii_lowercase().ends_with(b"json")
}

fn shown_path(url: &Url) -> String {
    url.path().chars().take(120).collect()
}

fn refused(refusal: &Refusal) -> AuthError {
    let error = untrusted(refusal.to_string());
    match refusal.why {
        Why::TooNear(_) => error.hint(NAME_ISSUER),
        _ => error,
    }
}

const NAME_ISSUER: &str = "if this authorization server is yours, name it as `issuer` in the server's `auth`";

fn failed(url: &Url, fault: &Fault) -> AuthError {
    let what = format!("{}: {fault}", url.origin().ascii_serialization());
    match fault.cause {
        Cause::Redirect { .. } | Cause::Protocol(Misbehaviour::TooLarge { .. }) => untrusted(what),
        _ => unavailable(what),
    }
}

fn unusable() -> AuthError {
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

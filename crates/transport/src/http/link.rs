//! Builds the requests of a link, and follows redirects: within the origin, with the same method
//! and body, and a bounded number of times.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bowline_config::Http;
use bowline_proto::fault::{Cause, Execution, Fault};
use bowline_proto::frame::DEFAULT_MESSAGE_LIMIT;
use bytes::Bytes;
use http::header::{AUTHORIZATION, HOST, HeaderMap, LOCATION, PROXY_AUTHORIZATION};
use http::{Method, Request, StatusCode};

use super::cookies::CookieJar;
use super::credentials::Credentials;
use super::dial::{Dialer, ResolverConfig};
use super::exchange::{self, BodyStream, HttpVersion};
use super::header_redaction;
use super::headers::BaseHeaders;
use super::payload::Payload;
use super::pool::Pool;
use super::proxy::{Proxies, Route};
use super::response::{HttpResponse, ResponseBody};
use super::response_redactor::{self, ResponseRedactor};
use super::target::{self, Target};
use super::tls::{OfferedVersions, TlsSettings};
use crate::redact::Redactor;

/// Limits for one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How long making a connection may take: name, TCP, proxy and TLS together. Default 30 s.
    pub connect: Duration,
    /// The largest JSON body in bytes, decompressed. Default 64 MiB.
    pub body: usize,
    /// The largest event of a stream in bytes, decompressed. Default 64 MiB.
    pub event: usize,
}

/// A link to one server. Cheap to clone; clones share connections and cookies.
///
/// # Behavior
///
/// - Connections are kept and reused. Before a request is written to a kept one, the system is
///   queried whether the server has closed it; if so, it is replaced unnoticed.
/// - Only making a connection has a time limit. How long a request may take is up to the caller,
///   who ends it by dropping its future.
/// - Dropping the future of a request ends the exchange: over HTTP/1.1 its connection is closed,
///   over HTTP/2 its stream is reset.
/// - A request is sent once. If that fails, the [`Fault`] says whether the server can have executed
///   it.
#[derive(Clone)]
pub struct HttpLink {
    shared: Arc<Shared>,
    target: Arc<Target>,
    credentials: Option<Arc<dyn Credentials>>,
}

struct Shared {
    pool: Arc<Pool>,
    base_headers: BaseHeaders,
    /// Removes configured credentials from responses.
    redactor: Arc<Redactor>,
    cookies: CookieJar,
    limits: Limits,
    /// Whether a proxy forwards requests, so that it needs the whole URL.
    is_forwarded: bool,
}

/// A request as the caller sees it. The connection and the redirects decide the rest.
struct Draft<'a> {
    method: Method,
    base: &'a HeaderMap,
    extra: &'a HeaderMap,
    body: Bytes,
}

// === impl HttpLink ===

impl HttpLink {
    /// Creates a link to a configured server, through the proxies of the system. Sends nothing and
    /// reads no file.
    pub fn new(config: &Http, limits: Limits) -> Result<Self, Fault> {
        Self::with_proxies(config, limits, &Proxies::System)
    }

    /// Creates a link through the given proxies.
    pub fn with_proxies(config: &Http, limits: Limits, proxies: &Proxies) -> Result<Self, Fault> {
        let target = Target::new(config.url.clone())?;
        let mut bases = BaseHeaders::new(config, &target.host)?;
        let route = match config.socket {
            None => proxies.route(&target.absolute),
            // A socket is a file of this machine.
            Some(_) => Route::Direct,
        };
        let forwarded = matches!(route, Route::Forward(_));
        if let Route::Forward(proxy) = &route
            && let Some(auth) = proxy.basic_auth()
        {
            bases.insert(&PROXY_AUTHORIZATION, auth);
        }
        // Over HTTP/2 the host is part of the URL, and cannot differ as it can in a header.
        let named = config.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host"));
        let versions = if named { OfferedVersions::Http1 } else { OfferedVersions::Any };
        let trust = Arc::new(TlsSettings::new(config.tls.clone(), versions));
        let dialer = Dialer::new(&target, route, trust, ResolverConfig::default())?
            .with_unix_socket(config.socket.as_deref());
        let pool = Arc::new(Pool::new(dialer, limits.connect));
        let redactor = Arc::new(response_redactor::redactor_for_headers(&config.headers));
        let shared = Shared {
            pool,
            base_headers: bases,
            redactor,
            cookies: CookieJar::default(),
            limits,
            is_forwarded: forwarded,
        };
        Ok(Self { shared: Arc::new(shared), target: Arc::new(target), credentials: None })
    }

    /// Returns a link whose every request is signed: each method, each redirect and each
    /// resumption, also on links derived by [`HttpLink::join_url`]. Connections and cookies stay
    /// shared with this link.
    #[must_use]
    pub fn with_credentials(&self, credentials: Arc<dyn Credentials>) -> Self {
        Self { credentials: Some(credentials), ..self.clone() }
    }

    /// Returns a link to another URL of the same server, which may be relative; refuses another
    /// origin.
    pub fn join_url(&self, reference: &str) -> Result<Self, Fault> {
        let target = Arc::new(self.target.resolve(reference)?);
        Ok(Self { target, ..self.clone() })
    }

    /// Posts a message. `headers` are added to those that every request carries.
    pub async fn post(&self, body: Bytes, headers: &HeaderMap) -> Result<HttpResponse, Fault> {
        let draft =
            Draft { method: Method::POST, base: &self.shared.base_headers.post, extra: headers, body };
        self.exchange(draft).await
    }

    /// Requests an event stream.
    pub async fn get(&self, headers: &HeaderMap) -> Result<HttpResponse, Fault> {
        let body = Bytes::new();
        let draft = Draft { method: Method::GET, base: &self.shared.base_headers.get, extra: headers, body };
        self.exchange(draft).await
    }

    /// Ends a session, and returns the status of the response.
    pub async fn delete(&self, headers: &HeaderMap) -> Result<u16, Fault> {
        let body = Bytes::new();
        let draft =
            Draft { method: Method::DELETE, base: &self.shared.base_headers.delete, extra: headers, body };
        let (status, _, flow) = self.send(draft).await?;
        flow.discard().await;
        Ok(status.as_u16())
    }

    /// Uses new connections from now on. Exchanges that are under way continue.
    pub fn forget_connections(&self) {
        self.shared.pool.forget_connections();
    }

    /// Aborts everything that is under way on this link and its clones: requests and event streams
    /// fail with [`Cause::Cut`], and the outcome of a request that was written is unknown. Later
    /// requests make new connections.
    ///
    /// Meant for the moment after the machine was suspended: the connections may be dead by then,
    /// and nobody would notice before a call times out.
    pub fn abort_in_flight(&self) {
        self.shared.pool.abort();
    }

    /// Waits until the server has closed, or reset, a connection that is kept for later requests.
    ///
    /// A server that dies closes its connections within milliseconds, so this is the quickest sign
    /// of it. It is only a sign: a healthy server closes kept connections too, after its keep-alive
    /// timeout, and an HTTP/2 connection even while it is in use. So the caller has to probe the
    /// server. It never resolves without a kept connection, nor because of anything done on our
    /// side.
    ///
    /// Nothing runs in the background for this. A close that nobody waited for is reported to the
    /// next waiter, unless a request found it first.
    ///
    /// # Cancel safety
    ///
    /// May be dropped at any point and called again.
    pub async fn wait_for_idle_close(&self) {
        self.shared.pool.wait_for_idle_close().await;
    }

    /// Drops all cookies: they belong to a session.
    pub fn clear_cookies(&self) {
        self.shared.cookies.clear();
    }

    pub(super) fn url(&self) -> &url::Url {
        &self.target.url
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.shared.limits
    }

    async fn exchange(&self, draft: Draft<'_>) -> Result<HttpResponse, Fault> {
        let method = draft.method.clone();
        let redactors = self.response_redactor();
        let (status, headers, flow) =
            self.send(draft).await.map_err(|fault| redactors.redact_fault(fault))?;
        let mut answer = HttpResponse::read(status, headers, flow, &self.shared.limits)
            .await
            .map_err(|fault| redactors.redact_fault(fault))?;
        redactors.redact_response(&mut answer);
        if !status.is_success()
            && let ResponseBody::Json(body) | ResponseBody::Other(body) = &mut answer.body
        {
            // Error bodies are shown to people and written to logs, and some servers repeat in them
            // what they were sent.
            *body =
                header_redaction::redact_header_values(std::mem::take(body), &self.secret_headers(&method));
        }
        Ok(answer)
    }

    /// The redactor for responses: the configured secrets, and the current credentials.
    fn response_redactor(&self) -> ResponseRedactor {
        ResponseRedactor {
            configured: Arc::clone(&self.shared.redactor),
            credentials: self.credentials.clone(),
        }
    }

    /// The headers of a request whose values are secret.
    fn secret_headers(&self, method: &Method) -> HeaderMap {
        let mut signed = HeaderMap::new();
        if let Some(credentials) = &self.credentials {
            credentials.sign(method, &self.target.url, &mut signed);
        }
        let configured = self.shared.base_headers.delete.iter().filter(|(_, value)| value.is_sensitive());
        for (name, value) in configured {
            signed.append(name, value.clone());
        }
        signed
    }

    async fn send(&self, draft: Draft<'_>) -> Result<(StatusCode, HeaderMap, BodyStream), Fault> {
        let mut moved = None;
        let mut redirects = 0;
        loop {
            let target = moved.as_ref().unwrap_or(&*self.target);
            // Signed for each sending: a proof that was used once may not be valid again.
            let request = |form| self.build_request(form, target, &draft);
            let (status, headers, flow) = exchange::send_request(&self.shared.pool, request).await?;
            self.shared.cookies.store_cookies(&target.url, &headers);
            if let Some(credentials) = &self.credentials {
                credentials.observe_response(&target.url, &headers);
            }
            let Some(next) = redirect_target(target, &draft.method, status, &headers)? else {
                return Ok((status, headers, flow));
            };
            redirects += 1;
            if redirects > MAX_REDIRECTS {
                return Err(redirect_fault(&next.url, status).with_note("one redirect too many"));
            }
            flow.discard().await;
            moved = Some(next);
        }
    }

    fn build_request(&self, form: HttpVersion, target: &Target, draft: &Draft<'_>) -> Request<Payload> {
        let mut request = Request::new(Payload::new(draft.body.clone()));
        *request.method_mut() = draft.method.clone();
        let mut headers = self.shared.base_headers.merge(draft.base, draft.extra);
        self.shared.cookies.apply(&target.url, &mut headers);
        if let Some(credentials) = &self.credentials {
            credentials.sign(&draft.method, &target.url, &mut headers);
            if let Some(token) = headers.get_mut(AUTHORIZATION) {
                token.set_sensitive(true);
            }
        }
        if form == HttpVersion::Http2 {
            // Over HTTP/2 the host is part of the URL.
            headers.remove(HOST);
        }
        *request.headers_mut() = headers;
        let whole = form == HttpVersion::Http2 || self.shared.is_forwarded;
        *request.uri_mut() = if whole { target.absolute.clone() } else { target.path.clone() };
        request
    }
}

impl fmt::Debug for HttpLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The path and the query may contain a key.
        let origin = self.target.url.origin().ascii_serialization();
        f.debug_struct("HttpLink")
            .field("origin", &origin)
            .field("pool", &self.shared.pool)
            .finish_non_exhaustive()
    }
}

const MAX_REDIRECTS: usize = 3;

// === impl Limits ===

impl Default for Limits {
    fn default() -> Self {
        Self { connect: Duration::from_secs(30), body: DEFAULT_MESSAGE_LIMIT, event: DEFAULT_MESSAGE_LIMIT }
    }
}

/// The target of a redirect, if the response is one that may be followed.
fn redirect_target(
    target: &Target,
    method: &Method,
    status: StatusCode,
    headers: &HeaderMap,
) -> Result<Option<Target>, Fault> {
    if !matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let Some(location) = headers.get(LOCATION) else { return Ok(None) };
    let next = target
        .resolve(&String::from_utf8_lossy(location.as_bytes()))
        .map_err(|fault| fault.with_execution(redirect_execution(status)))?;
    if *method != Method::GET && matches!(status.as_u16(), 301..=303) {
        let note = format!("status {status} would turn the {method} into a GET");
        return Err(redirect_fault(&next.url, status).with_note(note));
    }
    Ok(Some(next))
}

fn redirect_fault(location: &url::Url, status: StatusCode) -> Fault {
    let cause = Cause::Redirect { location: target::display_url(location) };
    Fault::new(cause).with_execution(redirect_execution(status))
}

/// 307 and 308 send the request elsewhere. The others may point to the result of an executed
/// request.
fn redirect_execution(status: StatusCode) -> Execution {
    if matches!(status.as_u16(), 307 | 308) { Execution::NotExecuted } else { Execution::Unknown }
}

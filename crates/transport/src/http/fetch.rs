//! Sends single requests to addresses that somebody else may have chosen, and bounds what they cost
//! and where they are redirected.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bowline_config::Tls;
use bowline_proto::fault::{Cause, Fault, Limit};
use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use tokio::time::timeout;
use url::{Origin, Url};

use super::address_guard::{self, AddressRefusal, AddressSource, Zone};
use super::coding::Chunks;
use super::dial::{Dialer, ResolverConfig};
use super::exchange::{self, BodyStream, HttpVersion};
use super::fence::{SendFence, SendWindow};
use super::headers::{ACCEPTED_CODINGS, USER_AGENT};
use super::media::ContentCoding;
use super::payload::Payload;
use super::pool::{ConnectionLease, DEFAULT_KEEP_ALIVE, Pool};
use super::proxy::{Proxies, Route};
use super::resolve::{AddressFilter, AddressLookup, Lookup};
use super::response;
use super::target::{self, Target};
use super::tls::{OfferedVersions, TlsSettings};

/// Sends single requests to any address, each over its own connection. Cheap to clone.
///
/// # Behavior
///
/// - A GET is redirected at most three times, each hop under the guard. Other methods are never
///   redirected: the response is then the redirect itself.
/// - A redirect to another origin carries no header that could identify us.
/// - Every status is a response. Of a non-2xx response, the first 64 KiB of the body are read.
/// - Where a proxy resolves names, addresses in the URL are guarded, and names that are known to
///   belong to this machine, a private network or the metadata service of a cloud. The address of
///   the proxy itself is the choice of the user and is not guarded.
/// - Dropping the future ends the exchange.
#[derive(Clone)]
pub struct Fetcher {
    /// TLS settings without a client certificate.
    trust: Arc<TlsSettings>,
    certificate_origin: Option<CertificateOrigin>,
    tls: Tls,
    proxies: Proxies,
    lookup: AddressLookup,
    limits: FetchLimits,
    redirects: RedirectRule,
}

/// Which redirects are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RedirectRule {
    /// Those to an address that the guard allows.
    Guarded,
    /// Those within the origin.
    SameOrigin,
}

/// Limits of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchLimits {
    /// How long making a connection may take. Default 10 s.
    pub connect: Duration,
    /// How long everything together may take, redirects included. Default 20 s.
    pub total: Duration,
    /// The largest body in bytes, decompressed. Default 256 KiB.
    pub body: usize,
}

/// Why there is no response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FetchError {
    /// The address, or one that it redirected to, is not allowed. It was not contacted.
    Refused(AddressRefusal),
    /// The request failed, or broke off.
    Failed(Fault),
}

/// The origin that is shown the client certificate.
#[derive(Clone)]
struct CertificateOrigin {
    origin: Origin,
    trust: Arc<TlsSettings>,
}

/// A request as the caller sees it.
struct Draft {
    method: Method,
    headers: HeaderMap,
    body: Bytes,
    fence: Option<SendFence>,
}

// === impl Fetch ===

impl Fetcher {
    /// Creates a fetcher. `tls` extends the trust of the system; its client certificate is shown to
    /// nobody yet.
    pub fn new(tls: Tls, proxies: Proxies) -> Self {
        let trust = Arc::new(TlsSettings::new(tls.without_client_certificate(), OfferedVersions::Any));
        Self {
            trust,
            certificate_origin: None,
            tls,
            proxies,
            lookup: AddressLookup::System,
            limits: FetchLimits::default(),
            redirects: RedirectRule::Guarded,
        }
    }

    /// Follows no redirect to another origin, for documents that are trusted because of where they are.
    #[must_use]
    pub fn within_origin(self) -> Self {
        Self { redirects: RedirectRule::SameOrigin, ..self }
    }

    /// Shows the client certificate to the origin of this URL.
    #[must_use]
    pub fn with_certificate_for(self, url: &Url) -> Self {
        let trust = Arc::new(TlsSettings::new(self.tls.clone(), OfferedVersions::Any));
        Self { certificate_origin: Some(CertificateOrigin { origin: url.origin(), trust }), ..self }
    }

    /// Sets the limits.
    #[must_use]
    pub fn limits(self, limits: FetchLimits) -> Self {
        Self { limits, ..self }
    }

    /// Resolves names with `lookup` in place of the system.
    #[must_use]
    pub fn with_lookup(self, lookup: Arc<dyn Lookup>) -> Self {
        Self { lookup: AddressLookup::custom(lookup), ..self }
    }

    /// Finds the zone of an address that the user chose. If only a proxy can resolve it, it counts
    /// as public. A name other than `localhost` never counts as this machine, and as private only
    /// if it is so now and was never public before, neither here nor for a connection: its owner
    /// can change where it points between two lookups.
    pub async fn find_zone(&self, url: &Url) -> Result<Zone, Fault> {
        if address_guard::is_this_machine(url) {
            return Ok(Zone::Loopback);
        }
        if let Some(ip) = address_guard::literal_ip(url) {
            return Ok(Zone::of_ip(ip).unwrap_or(Zone::Public));
        }
        let target = Target::new(url.clone())?;
        if self.proxies.route(&target.absolute).proxy().is_some() {
            return Ok(Zone::Public);
        }
        let name = url.host_str().unwrap_or_default();
        let unknown = |why: String| Fault::before_sending(Cause::Dns).with_note(why);
        let found = timeout(self.limits.connect, self.lookup.resolve(name)).await;
        let found = found
            .unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()))
            .map_err(|error| unknown(error.to_string()))?;
        self.lookup.farthest_zone(name, &found).ok_or_else(|| unknown("the name has no address".to_owned()))
    }

    /// Whether a server in `zone` may send a person to `page` in a browser: by the rule for
    /// addresses that a server has us contact, except that encryption is not required. All
    /// addresses of the name must be allowed, because a browser chooses one by itself. A name that
    /// a proxy resolves, or that has no address here, is judged by its spelling.
    pub async fn check_browser_url(&self, page: &Url, zone: Zone) -> Result<(), AddressRefusal> {
        let reach = address_guard::check_host(page, zone)?;
        if zone == Zone::Loopback || address_guard::literal_ip(page).is_some() {
            return Ok(());
        }
        let route = Target::new(page.clone()).map(|target| self.proxies.route(&target.absolute));
        let found = match route {
            Ok(Route::Direct) => {
                let name = page.host_str().unwrap_or_default();
                let found = timeout(self.limits.connect, self.lookup.resolve(name)).await;
                found.ok().and_then(Result::ok).unwrap_or_default()
            }
            _ => Vec::new(),
        };
        if found.is_empty() {
            return AddressSource::Server(zone).check_unresolved(page);
        }
        let refused = |why| AddressRefusal { host: address_guard::display_host(page), reason: why };
        found.iter().try_for_each(|address| reach.admit(address.ip()).map_err(refused))
    }

    /// Sends a request. With a [`SendFence`] among its extensions, it is sent when the fence opens,
    /// and its response is awaited for as long as the fence says.
    pub async fn send(
        &self,
        request: Request<Bytes>,
        guard: AddressSource,
    ) -> Result<Response<Bytes>, FetchError> {
        let total = request.extensions().get().map_or(self.limits.total, SendFence::response_timeout);
        let exchange = Box::pin(self.send_following_redirects(request, guard));
        timeout(total, exchange).await.unwrap_or_else(|_| {
            let note = format!("no whole answer within {total:?}");
            Err(Fault::new(Cause::Timeout(Limit::Idle)).with_note(note).into())
        })
    }

    async fn send_following_redirects(
        &self,
        request: Request<Bytes>,
        mut guard: AddressSource,
    ) -> Result<Response<Bytes>, FetchError> {
        let (mut head, body) = request.into_parts();
        let fence = head.extensions.remove();
        let mut draft = Draft { method: head.method, headers: head.headers, body, fence };
        let mut url = Url::parse(&head.uri.to_string()).map_err(|error| {
            Fault::before_sending(Cause::Closed).with_note(format!("the address cannot be used: {error}"))
        })?;
        let mut redirects = 0;
        loop {
            let (status, headers, flow) = self.exchange(&url, &draft, guard).await?;
            let Some(next) = redirect_target(&url, &draft.method, status, &headers)? else {
                return Ok(self.read_response(status, headers, flow).await?);
            };
            drop(flow);
            redirects += 1;
            if redirects > MAX_REDIRECTS {
                let location = target::display_url(&next);
                return Err(Fault::new(Cause::Redirect { location })
                    .with_note("one redirect too many")
                    .into());
            }
            if next.origin() != url.origin() {
                if self.redirects == RedirectRule::SameOrigin {
                    let location = target::display_url(&next);
                    let note = "what is trusted because of where it is has to be there";
                    return Err(Fault::new(Cause::Redirect { location }).with_note(note).into());
                }
                draft.drop_origin_headers();
                if guard == AddressSource::User {
                    guard = AddressSource::Server(self.find_zone(&url).await?);
                }
            }
            url = next;
        }
    }

    async fn exchange(
        &self,
        url: &Url,
        draft: &Draft,
        guard: AddressSource,
    ) -> Result<(StatusCode, HeaderMap, BodyStream), FetchError> {
        let pass = Arc::new(AddressFilter::new(guard.check(url)?));
        let target = Target::new(url.clone())?;
        let route = self.proxies.route(&target.absolute);
        if route.proxy().is_some() {
            guard.check_unresolved(url)?;
        }
        let mut headers = draft.headers(&target.host);
        let forwarded = matches!(route, Route::Forward(_));
        if let Route::Forward(proxy) = &route
            && let Some(auth) = proxy.basic_auth()
        {
            headers.insert(header::PROXY_AUTHORIZATION, auth.clone());
        }
        let naming = ResolverConfig { lookup: self.lookup.clone(), filter: Some(Arc::clone(&pass)) };
        let dialer = Dialer::new(&target, route, self.trust(url, draft), naming)?;
        let pool = Arc::new(Pool::new(dialer, self.limits.connect));
        let sent = exchange_fenced(&pool, draft, |form, window| {
            draft.build_request(form, &target, &headers, forwarded, window)
        });
        sent.await.map_err(|fault| match pass.refused() {
            Some(why) => {
                FetchError::Refused(AddressRefusal { host: address_guard::display_host(url), reason: why })
            }
            None => FetchError::Failed(fault),
        })
    }

    fn trust(&self, url: &Url, draft: &Draft) -> Arc<TlsSettings> {
        let own = self.certificate_origin.as_ref().filter(|own| own.origin == url.origin());
        if draft.headers.contains_key(header::HOST) {
            // Over HTTP/2 the host is part of the URL, and cannot differ as it can in a header.
            let tls = if own.is_some() { self.tls.clone() } else { self.tls.without_client_certificate() };
            return Arc::new(TlsSettings::new(tls, OfferedVersions::Http1));
        }
        Arc::clone(own.map_or(&self.trust, |own| &own.trust))
    }

    async fn read_response(
        &self,
        status: StatusCode,
        mut headers: HeaderMap,
        flow: BodyStream,
    ) -> Result<Response<Bytes>, Fault> {
        let chunks = Chunks::new(flow, ContentCoding::from_headers(&headers));
        let body = if status.is_success() {
            response::read_whole(chunks?, self.limits.body).await.map_err(|mut fault| {
                // The body may contain a token.
                fault.evidence.body = None;
                fault
            })?
        } else {
            // A status is a response, whatever became of its body.
            match chunks {
                Ok(chunks) => response::read_head(chunks).await.0,
                Err(_) => Bytes::new(),
            }
        };
        for said_of_the_wire in [header::CONTENT_ENCODING, header::CONTENT_LENGTH, header::TRANSFER_ENCODING]
        {
            headers.remove(said_of_the_wire);
        }
        let mut response = Response::new(body);
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        Ok(response)
    }
}

impl fmt::Debug for Fetcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { proxies, lookup: names, limits, .. } = self;
        f.debug_struct("Fetch")
            .field("proxies", proxies)
            .field("names", names)
            .field("limits", limits)
            .finish_non_exhaustive()
    }
}

const MAX_REDIRECTS: usize = 3;

/// Sends a request through its fence, if it has one. The connection is made first, so that only the
/// write is left to do when the fence opens.
async fn exchange_fenced(
    pool: &Arc<Pool>,
    draft: &Draft,
    request: impl Fn(HttpVersion, Option<SendWindow>) -> Request<Payload>,
) -> Result<(StatusCode, HeaderMap, BodyStream), Fault> {
    let Some(fence) = &draft.fence else {
        return exchange::send_request(pool, |form| request(form, None)).await;
    };
    if let ConnectionLease::Exclusive(line) = pool.lease().await? {
        pool.put(line, DEFAULT_KEEP_ALIVE);
    }
    let window = fence.wait_until_open().await?;
    exchange::send_request(pool, |form| request(form, Some(window))).await
}

/// The target of a redirected GET, if the response is a redirect.
fn redirect_target(
    url: &Url,
    method: &Method,
    status: StatusCode,
    headers: &HeaderMap,
) -> Result<Option<Url>, FetchError> {
    if *method != Method::GET || !matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let Some(location) = headers.get(header::LOCATION) else { return Ok(None) };
    let mut next = url.join(&String::from_utf8_lossy(location.as_bytes())).map_err(|_| {
        let location = target::NO_ADDRESS.to_owned();
        Fault::new(Cause::Redirect { location })
    })?;
    next.set_fragment(None);
    Ok(Some(next))
}

// === impl Draft ===

impl Draft {
    /// Removes every header that could identify us: what a caller set for one origin is for that
    /// origin.
    fn drop_origin_headers(&mut self) {
        let mut kept = HeaderMap::new();
        for name in [header::ACCEPT, HeaderName::from_static("mcp-protocol-version")] {
            if let Some(value) = self.headers.remove(&name) {
                kept.insert(name, value);
            }
        }
        self.headers = kept;
    }

    fn headers(&self, host: &HeaderValue) -> HeaderMap {
        let mut headers = self.headers.clone();
        headers.entry(header::HOST).or_insert_with(|| host.clone());
        headers.entry(header::USER_AGENT).or_insert(HeaderValue::from_static(USER_AGENT));
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(ACCEPTED_CODINGS));
        headers
    }

    fn build_request(
        &self,
        form: HttpVersion,
        target: &Target,
        headers: &HeaderMap,
        forwarded: bool,
        window: Option<SendWindow>,
    ) -> Request<Payload> {
        let mut payload = Payload::new(self.body.clone());
        if let (Some(fence), Some(window)) = (&self.fence, window) {
            payload = payload.with_fence(fence, window);
        }
        let mut request = Request::new(payload);
        *request.method_mut() = self.method.clone();
        *request.headers_mut() = headers.clone();
        if form == HttpVersion::Http2 {
            request.headers_mut().remove(header::HOST);
        } else {
            request.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        let whole = form == HttpVersion::Http2 || forwarded;
        *request.uri_mut() = if whole { target.absolute.clone() } else { target.path.clone() };
        request
    }
}

// === impl FetchLimits ===

impl Default for FetchLimits {
    fn default() -> Self {
        Self { connect: Duration::from_secs(10), total: Duration::from_secs(20), body: 256 * 1024 }
    }
}

// === impl FetchError ===

impl fmt::Display for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => refusal.fmt(f),
            Self::Failed(fault) => fault.fmt(f),
        }
    }
}

impl std::error::Error for FetchError {}

impl From<Fault> for FetchError {
    fn from(fault: Fault) -> Self {
        Self::Failed(fault)
    }
}

impl From<AddressRefusal> for FetchError {
    fn from(refusal: AddressRefusal) -> Self {
        Self::Refused(refusal)
    }
}

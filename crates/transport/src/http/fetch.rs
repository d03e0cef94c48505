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

use super::answer;
use super::coding::Chunks;
use super::dial::{Dialer, Naming};
use super::fence::{Fence, Window};
use super::flow::{self, Flow, Form};
use super::guard::{self, Guard, Refusal, Zone};
use super::headers::{CODINGS, USER_AGENT};
use super::media::Coding;
use super::payload::Payload;
use super::pool::{KEEP, Lease, Pool};
use super::proxy::{Proxies, Route};
use super::resolve::{Lookup, Names, Pass};
use super::target::{self, Target};
use super::tls::{Trust, Versions};

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
pub struct Fetch {
    /// TLS settings without a client certificate.
    trust: Arc<Trust>,
    own: Option<Own>,
    tls: Tls,
    proxies: Proxies,
    names: Names,
    limits: FetchLimits,
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
    Refused(Refusal),
    /// The request failed, or broke off.
    Failed(Fault),
}

/// The origin that is shown the client certificate.
#[derive(Clone)]
struct Own {
    origin: Origin,
    trust: Arc<Trust>,
}

/// A request as the caller sees it.
struct Draft {
    method: Method,
    headers: HeaderMap,
    body: Bytes,
    fence: Option<Fence>,
}

// === impl Fetch ===

impl Fetch {
    /// Creates a fetcher. `tls` extends the trust of the system; its client certificate is shown to
    /// nobody yet.
    pub fn new(tls: Tls, proxies: Proxies) -> Self {
        let trust = Arc::new(Trust::new(without_certificate(&tls), Versions::Any));
        Self { trust, own: None, tls, proxies, names: Names::System, limits: FetchLimits::default() }
    }

    /// Shows the client certificate to the origin of this URL.
    #[must_use]
    pub fn certified_at(self, url: &Url) -> Self {
        let trust = Arc::new(Trust::new(self.tls.clone(), Versions::Any));
        Self { own: Some(Own { origin: url.origin(), trust }), ..self }
    }

    /// Sets the limits.
    #[must_use]
    pub fn limits(self, limits: FetchLimits) -> Self {
        Self { limits, ..self }
    }

    /// Resolves names with `lookup` in place of the system.
    #[must_use]
    pub fn lookup(self, lookup: Arc<dyn Lookup>) -> Self {
        Self { names: Names::given(lookup), ..self }
    }

    /// Finds the zone of an address that the user chose. If only a proxy can resolve it, it counts
    /// as public. A name other than `localhost` never counts as this machine, and as private only
    /// if it is so now and was never public before, neither here nor for a connection: its owner
    /// can change where it points between two lookups.
    pub async fn zone(&self, url: &Url) -> Result<Zone, Fault> {
        if guard::is_this_machine(url) {
            return Ok(Zone::Loopback);
        }
        if let Some(ip) = guard::literal(url) {
            return Ok(Zone::of(ip).unwrap_or(Zone::Public));
        }
        let target = Target::new(url.clone())?;
        if self.proxies.route(&target.absolute).proxy().is_some() {
            return Ok(Zone::Public);
        }
        let name = url.host_str().unwrap_or_default();
        let unknown = |why: String| Fault::before_sending(Cause::Dns).with_note(why);
        let found = timeout(self.limits.connect, self.names.addresses(name)).await;
        let found = found
            .unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()))
            .map_err(|error| unknown(error.to_string()))?;
        self.names.farthest(name, &found).ok_or_else(|| unknown("the name has no address".to_owned()))
    }

    /// Whether a server in `zone` may send a person to `page` in a browser: by the rule for
    /// addresses that a server has us contact, except that encryption is not required. All
    /// addresses of the name must be allowed, because a browser chooses one by itself. A name that
    /// a proxy resolves, or that has no address here, is judged by its spelling.
    pub async fn check_page(&self, page: &Url, zone: Zone) -> Result<(), Refusal> {
        let reach = guard::check_host(page, zone)?;
        if zone == Zone::Loopback || guard::literal(page).is_some() {
            return Ok(());
        }
        let route = Target::new(page.clone()).map(|target| self.proxies.route(&target.absolute));
        let found = match route {
            Ok(Route::Direct) => {
                let name = page.host_str().unwrap_or_default();
                let found = timeout(self.limits.connect, self.names.addresses(name)).await;
                found.ok().and_then(Result::ok).unwrap_or_default()
            }
            _ => Vec::new(),
        };
        if found.is_empty() {
            return Guard::Told(zone).check_unseen(page);
        }
        let refused = |why| Refusal { host: guard::shown_host(page), why };
        found.iter().try_for_each(|address| reach.admit(address.ip()).map_err(refused))
    }

    /// Sends a request. With a [`SendFence`] among its extensions, it is sent when the fence opens,
    /// and its response is awaited for as long as the fence says.
    pub async fn send(&self, request: Request<Bytes>, guard: Guard) -> Result<Response<Bytes>, FetchError> {
        let total = request.extensions().get().map_or(self.limits.total, Fence::patience);
        let exchange = Box::pin(self.follow(request, guard));
        timeout(total, exchange).await.unwrap_or_else(|_| {
            let note = format!("no whole answer within {total:?}");
            Err(Fault::new(Cause::Timeout(Limit::Idle)).with_note(note).into())
        })
    }

    async fn follow(&self, request: Request<Bytes>, mut guard: Guard) -> Result<Response<Bytes>, FetchError> {
        let (mut head, body) = request.into_parts();
        let fence = head.extensions.remove();
        let mut draft = Draft { method: head.method, headers: head.headers, body, fence };
        let mut url = Url::parse(&head.uri.to_string()).map_err(|error| {
            Fault::before_sending(Cause::Closed).with_note(format!("the address cannot be used: {error}"))
        })?;
        let mut redirects = 0;
        loop {
            let (status, headers, flow) = self.exchange(&url, &draft, guard).await?;
            let Some(next) = redirect(&url, &draft.method, status, &headers)? else {
                return Ok(self.answer(status, headers, flow).await?);
            };
            drop(flow);
            redirects += 1;
            if redirects > MOST_REDIRECTS {
                let location = target::shown(&next);
                return Err(Fault::new(Cause::Redirect { location })
                    .with_note("one redirect too many")
                    .into());
            }
            if next.origin() != url.origin() {
                draft.leave_origin();
                if guard == Guard::Chosen {
                    guard = Guard::Told(self.zone(&url).await?);
                }
            }
            url = next;
        }
    }

    async fn exchange(
        &self,
        url: &Url,
        draft: &Draft,
        guard: Guard,
    ) -> Result<(StatusCode, HeaderMap, Flow), FetchError> {
        let pass = Arc::new(Pass::new(guard.check(url)?));
        let target = Target::new(url.clone())?;
        let route = self.proxies.route(&target.absolute);
        if route.proxy().is_some() {
            guard.check_unseen(url)?;
        }
        let mut headers = draft.headers(&target.host);
        let forwarded = matches!(route, Route::Forward(_));
        if let Route::Forward(proxy) = &route
            && let Some(auth) = proxy.basic_auth()
        {
            headers.insert(header::PROXY_AUTHORIZATION, auth.clone());
        }
        let naming = Naming { names: self.names.clone(), pass: Some(Arc::clone(&pass)) };
        let dialer = Dialer::new(&target, route, self.trust(url, draft), naming)?;
        let pool = Arc::new(Pool::new(dialer, self.limits.connect));
        let sent = exchange_over(&pool, draft, |form, window| {
            draft.request(form, &target, &headers, forwarded, window)
        });
        sent.await.map_err(|fault| match pass.refused() {
            Some(why) => FetchError::Refused(Refusal { host: guard::shown_host(url), why }),
            None => FetchError::Failed(fault),
        })
    }

    fn trust(&self, url: &Url, draft: &Draft) -> Arc<Trust> {
        let own = self.own.as_ref().filter(|own| own.origin == url.origin());
        if draft.headers.contains_key(header::HOST) {
            // Over HTTP/2 the host is part of the URL, and cannot differ as it can in a header.
            let tls = if own.is_some() { self.tls.clone() } else { without_certificate(&self.tls) };
            return Arc::new(Trust::new(tls, Versions::Http1));
        }
        Arc::clone(own.map_or(&self.trust, |own| &own.trust))
    }

    async fn answer(
        &self,
        status: StatusCode,
        mut headers: HeaderMap,
        flow: Flow,
    ) -> Result<Response<Bytes>, Fault> {
        let chunks = Chunks::new(flow, Coding::of(&headers));
        let body = if status.is_success() {
            answer::whole(chunks?, self.limits.body).await.map_err(|mut fault| {
                // The body may contain a token.
                fault.evidence.body = None;
                fault
            })?
        } else {
            // A status is a response, whatever became of its body.
            match chunks {
                Ok(chunks) => answer::head(chunks).await.0,
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

impl fmt::Debug for Fetch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { proxies, names, limits, .. } = self;
        f.debug_struct("Fetch")
            .field("proxies", proxies)
            .field("names", names)
            .field("limits", limits)
            .finish_non_exhaustive()
    }
}

const MOST_REDIRECTS: usize = 3;

/// Sends a request through its fence, if it has one. The connection is made first, so that only the
/// write is left to do when the fence opens.
async fn exchange_over(
    pool: &Arc<Pool>,
    draft: &Draft,
    request: impl Fn(Form, Option<Window>) -> Request<Payload>,
) -> Result<(StatusCode, HeaderMap, Flow), Fault> {
    let Some(fence) = &draft.fence else {
        return flow::exchange(pool, |form| request(form, None)).await;
    };
    if let Lease::Own(line) = pool.lease().await? {
        pool.put(line, KEEP);
    }
    let window = fence.pass().await?;
    flow::exchange(pool, |form| request(form, Some(window))).await
}

fn without_certificate(tls: &Tls) -> Tls {
    Tls { client_cert: None, client_key: None, ..tls.clone() }
}

/// The target of a redirected GET, if the response is a redirect.
fn redirect(
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
        let location = "an address that is none".to_owned();
        Fault::new(Cause::Redirect { location })
    })?;
    next.set_fragment(None);
    Ok(Some(next))
}

// === impl Draft ===

impl Draft {
    /// Removes every header that could identify us: what a caller set for one origin is for that
    /// origin.
    fn leave_origin(&mut self) {
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
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(CODINGS));
        headers
    }

    fn request(
        &self,
        form: Form,
        target: &Target,
        headers: &HeaderMap,
        forwarded: bool,
        window: Option<Window>,
    ) -> Request<Payload> {
        let mut payload = Payload::new(self.body.clone());
        if let (Some(fence), Some(window)) = (&self.fence, window) {
            payload = payload.fenced(fence, window);
        }
        let mut request = Request::new(payload);
        *request.method_mut() = self.method.clone();
        *request.headers_mut() = headers.clone();
        if form == Form::Http2 {
            request.headers_mut().remove(header::HOST);
        } else {
            request.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        let whole = form == Form::Http2 || forwarded;
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

impl From<Refusal> for FetchError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

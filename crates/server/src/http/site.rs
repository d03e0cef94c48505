//! [`Site`]: what all connections of a listener share, and which request goes where.

use std::fmt;
use std::sync::{Arc, OnceLock};

use bowline_proto::server::http::{GuardRefusal, PostRefusal, check_version};
use bowline_proto::via::{VIA_HEADER, Via};
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, AUTHORIZATION, HOST, HeaderValue, ORIGIN, VARY,
};
use http::{HeaderMap, Method, Request, StatusCode};
use hyper::body::Incoming;
use parking_lot::{Mutex, RwLock};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::endpoint::{Endpoint, EndpointKind};
use super::journal::Journal;
use super::refusal::Refusal;
use super::reply::{self, PROTOCOL_VERSION, Reply, SESSION_ID};
use super::request_body::body_budget;
use super::restore::{Restorations, find_or_restore};
use super::session::HttpSession;
use super::sessions::Sessions;
use super::settings::HttpSettings;
use super::{delete, get, post, sse};
use crate::audience::Audience;
use crate::host::Host;
use crate::stateless::StatelessRequest;

/// What all connections of a listener share.
pub(crate) struct Site {
    settings: RwLock<Arc<HttpSettings>>,
    pub(crate) sessions: Arc<Sessions>,
    /// New sessions, for whoever accepts them.
    pub(crate) hosts: mpsc::Sender<Host>,
    /// Canceled when hosts are accepted, so that it is known which.
    pub(crate) started: CancellationToken,
    /// Canceled when no more sessions are accepted.
    pub(crate) draining: CancellationToken,
    /// A token is held by each POST until it has its response.
    pub(crate) open_posts: TaskTracker,
    pub(crate) body_budget: Arc<Semaphore>,
    /// Requests of hosts without a session, for whoever accepts them. `None`: such hosts are not
    /// served.
    pub(crate) stateless: Mutex<Option<mpsc::Sender<StatelessRequest>>>,
    /// A permit is a request of a host without a session.
    pub(crate) stateless_permits: Arc<Semaphore>,
    /// Where sessions are recorded.
    pub(crate) journal: Option<Journal>,
    /// The sessions that are being restored.
    pub(crate) restorations: Restorations,
    /// A permit is a stream whose recorded responses are being loaded.
    pub(crate) response_loads: Semaphore,
    /// What is said at `/status`, if anything is.
    pub(crate) status_report: OnceLock<Box<StatusReport>>,
    checks_host: bool,
}

/// How many streams have their recorded responses loaded at once: a journal may have 8 MiB.
const MAX_RESPONSE_LOADS: usize = 4;

/// Returns what whoever serves the hosts says of its state: a JSON text.
pub(crate) type StatusReport = dyn Fn() -> String + Send + Sync;

impl Site {
    pub(crate) fn new(mut settings: HttpSettings, checks_host: bool, hosts: mpsc::Sender<Host>) -> Self {
        if !checks_host {
            settings.guard.allow_any_host();
        }
        let lifetime = settings.idle_timeout;
        let journal = settings.session_store.clone().map(|store| Journal::new(store, lifetime));
        let sessions = Arc::new(Sessions::new(&settings));
        Self {
            journal,
            restorations: Restorations::default(),
            response_loads: Semaphore::new(MAX_RESPONSE_LOADS),
            status_report: OnceLock::new(),
            body_budget: body_budget(&settings),
            stateless: Mutex::default(),
            stateless_permits: Arc::new(Semaphore::new(
                settings.max_stateless_requests.min(Semaphore::MAX_PERMITS),
            )),
            settings: RwLock::new(Arc::new(settings)),
            sessions,
            hosts,
            started: CancellationToken::new(),
            draining: CancellationToken::new(),
            open_posts: TaskTracker::new(),
            checks_host,
        }
    }

    /// The settings at this moment.
    pub(crate) fn settings(&self) -> Arc<HttpSettings> {
        Arc::clone(&self.settings.read())
    }

    /// Takes over the settings that can be changed while hosts are served. Sessions of views that are gone
    /// end, unless pipes are relayed: the gateway tells their hosts.
    pub(crate) fn reload(&self, next: HttpSettings) {
        self.sessions.admission().limits().set(next.host_limits);
        let next = Arc::new(self.settings().with_reloaded(next, self.checks_host));
        *self.settings.write() = Arc::clone(&next);
        if !next.relays_pipes {
            let is_gone = |view: &str| !next.views.contains_key(view);
            self.sessions.end_where(|audience| audience.view().is_some_and(is_gone));
        }
    }

    /// Responds to a request.
    pub(crate) async fn respond(self: Arc<Self>, request: Request<Incoming>) -> Reply {
        // Read once, since all connections share it: each further look at it would wait for other threads.
        let settings = self.settings();
        if let Err(refusal) = self.check_sender(&settings, &request) {
            tracing::warn!(%refusal, "a request was refused");
            return Refusal::from(refusal).into();
        }
        let origin = request.headers().get(ORIGIN).cloned();
        let mut reply = self.route(&settings, request).await;
        if let Some(origin) = origin {
            let headers = reply.headers_mut();
            headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED_HEADERS));
            headers.insert(VARY, HeaderValue::from_static("Origin"));
        }
        reply
    }

    /// Checks by which name the listener is addressed, and from which web page.
    // SE-10
    fn check_sender(&self, settings: &HttpSettings, request: &Request<Incoming>) -> Result<(), GuardRefusal> {
        let guard = &settings.guard;
        if self.checks_host {
            // HTTP/2 has the name in the URI. What cannot be read is no allowed name.
            let in_uri = request.uri().authority().map(http::uri::Authority::as_str);
            let in_headers = request.headers().get_all(HOST).iter().map(text_of);
            guard.check_host(in_uri.into_iter().chain(in_headers))?;
        }
        // More than one is not what a browser sends.
        request
            .headers()
            .get_all(ORIGIN)
            .iter()
            .try_for_each(|origin| guard.check_origin(Some(text_of(origin))))
    }

    async fn route(self: Arc<Self>, settings: &HttpSettings, request: Request<Incoming>) -> Reply {
        let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
        let path = request.uri().path().to_owned();
        if let Some(endpoint) = Endpoint::find(settings, &path) {
            let served = Arc::clone(&self).serve_endpoint(settings, endpoint, request).await;
            return served.unwrap_or_else(Reply::from);
        }
        let is_endpoint = |path: &str| Endpoint::find(settings, path).is_some();
        if let Some(oauth) = &settings.resource_server
            && oauth.has_metadata_at(&path, is_endpoint)
        {
            return match *request.method() {
                Method::OPTIONS if request.headers().contains_key(ORIGIN) => preflight(),
                _ if is_read => reply::json(StatusCode::OK, oauth.metadata()),
                _ => Refusal::Method("GET, HEAD").into(),
            };
        }
        match (&*path, self.status_report.get().filter(|_| self.is_private())) {
            ("/status", Some(report)) if is_read => reply::json(StatusCode::OK, report().into()),
            ("/status", Some(_)) | ("/healthz" | "/readyz", _) if !is_read => {
                Refusal::Method("GET, HEAD").into()
            }
            ("/readyz", _) if self.draining.is_cancelled() => {
                reply::text(StatusCode::SERVICE_UNAVAILABLE, "draining")
            }
            ("/healthz" | "/readyz", _) => reply::text(StatusCode::OK, "ok"),
            _ => reply::text(StatusCode::NOT_FOUND, "not found"),
        }
    }

    /// Whether only programs of the user of this process can connect: it is a Unix socket.
    fn is_private(&self) -> bool {
        !self.checks_host
    }

    async fn serve_endpoint(
        self: Arc<Self>,
        settings: &HttpSettings,
        endpoint: Endpoint<'_>,
        request: Request<Incoming>,
    ) -> Result<Reply, Refusal> {
        let headers = request.headers();
        // A preflight carries no credentials.
        if request.method() == Method::OPTIONS && headers.contains_key(ORIGIN) {
            return Ok(preflight());
        }
        // With two of them, a proxy in front may have checked the other one.
        let mut given = headers.get_all(AUTHORIZATION).iter();
        let authorization = given.next().filter(|_| given.next().is_none()).map(HeaderValue::as_bytes);
        let audience = endpoint.authorize(settings, authorization).await?;
        let via = headers.get(VIA_HEADER).map(text_of).map(Via::parse).unwrap_or_default();
        let audience = audience.with_via(via);
        match (endpoint.kind, request.method()) {
            (EndpointKind::SseStream, &Method::GET) => sse::serve_stream(&self, &audience, headers).await,
            (EndpointKind::SseStream, _) => Err(Refusal::Method("GET")),
            (EndpointKind::SseMessages, &Method::POST) => {
                sse::serve_messages(&self, &audience, request).await
            }
            (EndpointKind::SseMessages, _) => Err(Refusal::Method("POST")),
            (EndpointKind::Streamable, &Method::POST) => {
                post::serve_post(self, settings, audience, request).await
            }
            (EndpointKind::Streamable, &Method::GET) => get::serve_get(&self, &audience, headers).await,
            (EndpointKind::Streamable, &Method::DELETE) => {
                delete::serve_delete(&self, &audience, headers).await
            }
            (EndpointKind::Streamable, _) => Err(Refusal::Method(ENDPOINT_METHODS)),
        }
    }

    /// Finds the session that the headers name, if it is one of this audience.
    // HL-01, HL-02, HL-03
    pub(crate) async fn find_session(
        &self,
        audience: &Audience,
        headers: &HeaderMap,
    ) -> Result<Arc<HttpSession>, Refusal> {
        let id = headers.get(SESSION_ID).ok_or(PostRefusal::MissingSession)?;
        let id = self.sessions.verify_id(text_of(id))?;
        let session = find_or_restore(self, &id, audience).await?;
        check_version(headers.get(PROTOCOL_VERSION).map(text_of), session.revision())?;
        Ok(session)
    }
}

impl fmt::Debug for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Site").field("settings", &self.settings()).finish_non_exhaustive()
    }
}

/// The value of a header, or an empty text if it is not ASCII, which is no valid value of any header
/// that is read here.
pub(crate) fn text_of(value: &HeaderValue) -> &str {
    value.to_str().unwrap_or_default()
}

/// The headers of a response that scripts of a web page can read.
const EXPOSED_HEADERS: &str = "Mcp-Session-Id, WWW-Authenticate";
const ENDPOINT_METHODS: &str = "GET, POST, DELETE";

fn preflight() -> Reply {
    let mut reply = reply::empty(StatusCode::NO_CONTENT);
    let headers = reply.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(ENDPOINT_METHODS));
    let allowed = "Accept, Authorization, Content-Type, Last-Event-ID, Mcp-Method, Mcp-Name, \
                   Mcp-Protocol-Version, Mcp-Session-Id";
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(allowed));
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    reply
}

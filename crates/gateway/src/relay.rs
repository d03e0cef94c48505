//! Relays one host to one server. The session of the host lasts as long as its pipe; the session of
//! the server belongs to the client, which opens a new one whenever it has to.

mod call;
mod exposed;
mod forward;
mod modern_host;
mod stateless;
mod upstream;

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bowline::auth::Auth;
use bowline::negotiation::NegotiationCache;
use bowline::{ConnectionEvent, Fault, RpcError, Server};
use bowline_proto::via::Via;
use bowline_server::{Host, HostEvent, HostLink, InitializeRequest};
use parking_lot::Mutex;
use tokio::time::{sleep, timeout};

use crate::catalog::CatalogCache;
use crate::error_response;
use crate::task_id::TaskKey;
use modern_host::ModernHost;
use upstream::Upstream;

/// Connects one host to one server.
///
/// # Behavior
/// - The server is connected when the host sends `initialize`, and with the identity of that host:
///   the server sees its name and capabilities.
/// - A fault of the server never ends the session of the host. Calls are retried where that is
///   safe; others are answered with an error of code [`UNREACHABLE`](crate::UNREACHABLE) that says
///   whether the server can have executed them.
/// - A host that stops reading is no longer read. Every queue is bounded: 512 requests run at once,
///   some thousands wait, and further ones are refused with code
///   [`UNREACHABLE`](crate::UNREACHABLE). Cancellations and responses of the host are never stuck
///   behind its own requests.
/// - Notifications of the server reach the host in the order in which they were sent, progress of
///   calls included, and progress of a call comes before its result.
/// - A host of 2026-07-28 on a pipe needs no handshake. Its requests are served as by a
///   [`Gateway`](crate::Gateway) with this one server, with the names and URIs of the server. Lists are complete, in one
///   page, and are there also while the server is down.
#[must_use]
#[derive(Clone)]
pub struct Relay {
    server: Server,
    initialize_timeout: Duration,
    drain_timeout: Duration,
    resume_wait: Option<Duration>,
    observer: ConnectionObserver,
    records: Option<PathBuf>,
    negotiations: Option<Arc<dyn NegotiationCache>>,
    auth: Option<Auth>,
    login_command: Option<Arc<error_response::LoginCommand<'static>>>,
    on_denied: DeniedCallback,
    on_reachability: Option<ReachabilityObserver>,
    catalog: Option<Arc<dyn CatalogCache>>,
    task_key: Option<TaskKey>,
    via: Via,
    hang_check: Option<HangCheck>,
    /// What a person can raise for calls to wait longer, if there is such a setting.
    reconnect_setting: Option<&'static str>,
}

/// Finds out whether the server hangs.
type HangCheck = Arc<dyn Fn() -> Pin<Box<dyn Future<Output = bool> + Send>> + Send + Sync>;

/// Called for each call that was refused for lack of authorization.
type DeniedCallback = Arc<dyn Fn(&Fault) + Send + Sync>;

/// Called with whether the server was reached by a request of a host of 2026-07-28.
type ReachabilityObserver = Arc<dyn Fn(bool) + Send + Sync>;

/// Called when the connection to the server changes.
type ConnectionObserver = Arc<dyn Fn(&ConnectionEvent) + Send + Sync>;

impl Relay {
    /// Creates a relay in front of `server`, with default timeouts.
    pub fn new(server: Server) -> Self {
        Self {
            server,
            initialize_timeout: INITIALIZE_TIMEOUT,
            drain_timeout: DRAIN_TIMEOUT,
            resume_wait: None,
            observer: Arc::new(|_: &ConnectionEvent| {}),
            records: None,
            negotiations: None,
            auth: None,
            login_command: None,
            on_denied: Arc::new(|_: &Fault| {}),
            on_reachability: None,
            catalog: None,
            task_key: None,
            via: Via::default(),
            hang_check: None,
            reconnect_setting: Some("--reconnect-wait, or reconnect_wait in its entry,"),
        }
    }

    /// Sets how long the host waits for the result of its `initialize` while the server is being
    /// connected (default 4 s). After that it is answered without the server.
    pub fn with_initialize_timeout(mut self, initialize_timeout: Duration) -> Self {
        self.initialize_timeout = initialize_timeout;
        self
    }

    /// Sets how long requests that are open when the host closes its end may still be answered
    /// (default 30 s).
    pub fn with_drain_timeout(mut self, drain_timeout: Duration) -> Self {
        self.drain_timeout = drain_timeout;
        self
    }

    /// Sets how long the response to a call, whose connection broke, is resumed while the server cannot be
    /// reached or sends nothing new of it (default: as long as the call may take). After that the host is
    /// told that the server may have executed the call, unless it can be sent again.
    pub fn with_resume_wait(mut self, resume_wait: Duration) -> Self {
        self.resume_wait = Some(resume_wait);
        self
    }

    /// Asks `is_hung` now and then, while a request is open, whether the server hangs: it is there, and does not
    /// answer anything (default: nobody is asked, and a request takes as long as it may). If it does, the request is
    /// answered with an error of code [`UNREACHABLE`](crate::UNREACHABLE), which says that the server may have
    /// executed it, and is not sent again.
    pub fn with_hang_check<F>(mut self, is_hung: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = bool> + Send + 'static,
    {
        self.hang_check = Some(Arc::new(move || Box::pin(is_hung())));
        self
    }

    /// Says that nobody has configured how long calls wait for the server, so that hosts are not told to have it
    /// raised.
    pub fn without_reconnect_setting(mut self) -> Self {
        self.reconnect_setting = None;
        self
    }

    /// Waits until the server is found to hang.
    async fn wait_for_hang(&self) {
        let Some(is_hung) = &self.hang_check else { return std::future::pending().await };
        loop {
            sleep(HANG_CHECK_INTERVAL).await;
            if is_hung().await {
                return;
            }
        }
    }

    /// Calls `observer` when the connection to the server changes. It must not block.
    pub fn on_connection_event(
        mut self,
        observer: impl Fn(&ConnectionEvent) + Send + Sync + 'static,
    ) -> Self {
        self.observer = Arc::new(observer);
        self
    }

    /// Writes a record of the server process into this folder; see [`bowline::ClientBuilder::records`].
    pub fn records(mut self, folder: impl Into<PathBuf>) -> Self {
        self.records = Some(folder.into());
        self
    }

    /// Uses this negotiation cache; see [`bowline::ClientBuilder::negotiation_cache`].
    pub fn negotiation_cache(mut self, cache: Arc<dyn NegotiationCache>) -> Self {
        self.negotiations = Some(cache);
        self
    }

    /// Sets the authorization for a server that requires a login; see [`bowline::ClientBuilder::auth`].
    pub fn auth(mut self, auth: Auth) -> Self {
        self.auth = Some(auth);
        self
    }

    /// Sets the command that a person runs to log in with these scopes in addition to the granted
    /// ones. The host is told of it when that would help.
    pub fn login_command(mut self, command: impl Fn(&[String]) -> String + Send + Sync + 'static) -> Self {
        self.login_command = Some(Arc::new(move |scopes: &[String]| Some(command(scopes))));
        self
    }

    /// Calls `observer` for each call that another login would help, while the server is connected.
    /// It must not block.
    pub fn on_denied(mut self, observer: impl Fn(&Fault) + Send + Sync + 'static) -> Self {
        self.on_denied = Arc::new(observer);
        self
    }

    /// Keeps the lists of the server here between runs, for hosts of 2026-07-28.
    pub fn catalog_cache(mut self, cache: impl CatalogCache) -> Self {
        self.catalog = Some(Arc::new(cache));
        self
    }

    /// Seals the ids of tasks of hosts of 2026-07-28 with this key, so that they are found by the next process. Without
    /// it, ids are valid as long as this one lives.
    pub fn task_key(mut self, key: TaskKey) -> Self {
        self.task_key = Some(key);
        self
    }

    /// Passes the requests of a host of 2026-07-28 on to the server as they are (default: they are served here). The
    /// server must be a [`Gateway`](crate::Gateway) over HTTP, in the same trust as this process, that accepts
    /// [relayed pipes](crate::HttpSettings::with_relayed_pipes): it decides everything about them. `observer` is told
    /// whether the server was reached, at each request; it must not block.
    ///
    /// # Behavior
    /// - A request that was not executed because the server cannot be reached waits for it, and is sent
    ///   again. So is one that may have been executed and is harmless. Any other is answered with an
    ///   error of code [`UNREACHABLE`](crate::UNREACHABLE).
    /// - A subscription outlives the server. The host is told of everything that may have changed
    ///   meanwhile.
    pub fn relay_stateless_requests(mut self, observer: impl Fn(bool) + Send + Sync + 'static) -> Self {
        self.on_reachability = Some(Arc::new(observer));
        self
    }

    /// Tells the server which gateways the host has passed, so that one behind it notices that it is among its own
    /// servers.
    pub fn via(mut self, via: Via) -> Self {
        self.via = via;
        self
    }

    /// Serves the host until it closes its end and has its responses, or until it can no longer be
    /// written to, or until `stop` resolves. Then everything is shut down in good order: open calls
    /// are canceled, the session is ended on the server, its process is shut down.
    ///
    /// Dropping the future leaves the shutdown to continue in the background.
    pub async fn run(self, mut host: Host, stop: impl Future<Output = ()>) {
        let modern = ModernHost::new(&self);
        if modern.is_some() {
            host = host.with_stateless_requests().with_via(self.via.clone());
        }
        let link = host.link().clone();
        let session = Arc::new(HostSession { relay: self, link, upstream: Mutex::default(), modern });
        tokio::select! {
            () = session.serve_host(&mut host) => {}
            () = session.link.wait_for_disconnect() => {}
            () = stop => session.give_up_requests().await,
        }
        session.shut_down().await;
    }
}

impl std::fmt::Debug for Relay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Relay").field("server", &self.server.name).finish_non_exhaustive()
    }
}

/// The state of one host session, shared by its requests.
struct HostSession {
    relay: Relay,
    link: HostLink,
    /// Set by the `initialize` of the host.
    upstream: Mutex<Option<Arc<Upstream>>>,
    /// Serves the requests of a host of 2026-07-28.
    modern: Option<ModernHost>,
}

impl HostSession {
    /// Serves the host until it closes its end, then waits for its open requests.
    async fn serve_host(self: &Arc<Self>, host: &mut Host) {
        // Everything that waits for the server runs in its own task; this loop waits only for the
        // host to read.
        while let Some(event) = host.next().await {
            self.handle(event).await;
        }
        self.link.fail_sent_requests();
        if let Some(modern) = &self.modern {
            // They would never end by themselves.
            modern.end_subscriptions().await;
        }
        tokio::select! {
            () = self.link.drain_requests(self.relay.drain_timeout) => {}
            () = host.wait_for_output_close() => tracing::debug!("the host has left"),
        }
    }

    async fn handle(self: &Arc<Self>, event: HostEvent) {
        let upstream = self.upstream.lock().clone();
        match event {
            HostEvent::Initialize(request) => self.initialize(request).await,
            HostEvent::Request { request, method, params } => match upstream {
                Some(upstream) => {
                    let session = Arc::clone(self);
                    request.spawn(|request| session.serve_request(upstream, request, method, params));
                }
                None => request.respond(Err(&error_response::initialize_failed())).await,
            },
            HostEvent::Stateless(request) => match &self.modern {
                Some(modern) => modern.serve(*request).await,
                None => request.request.respond(Err(&error_response::initialize_failed())).await,
            },
            HostEvent::Overload(request) => {
                request.respond(&error_response::too_many_requests(&self.relay.server.name)).await;
            }
            HostEvent::Notification { method, params } => {
                if let Some(upstream) = upstream {
                    upstream.forward_notification(method, params);
                }
            }
        }
    }

    /// Connects to the server with the identity of the host, and answers when the result is known.
    async fn initialize(self: &Arc<Self>, request: InitializeRequest) {
        if let Some(modern) = &self.modern {
            modern.leave();
        }
        match self.open_upstream(&request) {
            Ok(upstream) => {
                let session = Arc::clone(self);
                request.spawn(|request| session.answer_initialize(upstream, request));
            }
            Err(refusal) => request.respond(Err(&refusal)).await,
        }
    }

    fn open_upstream(&self, request: &InitializeRequest) -> Result<Arc<Upstream>, RpcError> {
        let params = request.params();
        tracing::info!(host = params.client_info.as_str(), revision = %params.revision, "a host is here");
        let upstream = Upstream::open(&self.relay, &self.link, request)?;
        *self.upstream.lock() = Some(Arc::clone(&upstream));
        Ok(upstream)
    }

    /// Answers everything that is open, since the process was asked to end: who sends a signal may still read, and must
    /// not wait for what will not come.
    async fn give_up_requests(&self) {
        if let Some(modern) = &self.modern {
            modern.end_subscriptions().await;
        }
        self.link.give_up_requests(FLUSH_TIMEOUT).await;
    }

    async fn shut_down(&self) {
        // Dropping a call cancels it on the server.
        self.link.abort_requests().await;
        if let Some(modern) = &self.modern {
            modern.close(CLOSE_TIMEOUT).await;
        }
        let upstream = self.upstream.lock().take();
        if let Some(upstream) = upstream
            && timeout(CLOSE_TIMEOUT, upstream.close()).await.is_err()
        {
            tracing::warn!("the server did not let itself be closed in time");
        }
        self.link.close(FLUSH_TIMEOUT).await;
    }
}

/// How long a request is open before it is checked whether the server hangs, and between two such checks.
const HANG_CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// Shorter than the shortest handshake timeout of widely used hosts: opencode 5 s, Codex 10 s,
/// Claude Code 30 s. A later answer reaches nobody.
const INITIALIZE_TIMEOUT: Duration = Duration::from_secs(4);
/// `printf … | bowline connect` needs its responses. A host that wants to leave closes its other
/// end too, or sends a signal.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(30);
/// Longer than the shutdown of a process takes: stdin closed, then TERM, then KILL.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(15);
/// For messages that were queued for the host.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

//! Relays one host to one server. The session of the host lasts as long as its pipe; the session of
//! the server belongs to the client, which opens a new one whenever it has to.

mod call;
mod first_connection;
mod forward;
mod queue;
mod trace;
mod upstream;

use std::future::Future;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline::auth::Auth;
use bowline::fault::Fault;
use bowline::negotiation::NegotiationCache;
use bowline::wire::{Id, Json, Message, ParseResult, RpcError, method};
use bowline::{ConnectionEvent, Server};
use tokio::time::timeout;

use crate::error_response;
use crate::handshake::InitializeParams;
use crate::host::{Host, HostLink, HostRequests, RequestRefusal};
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
#[derive(Clone)]
pub struct Relay {
    server: Server,
    initialize_timeout: Duration,
    drain_timeout: Duration,
    observer: ConnectionObserver,
    records: Option<PathBuf>,
    negotiations: Option<Arc<dyn NegotiationCache>>,
    auth: Option<Auth>,
    login_command: Option<Arc<error_response::LoginCommand>>,
    on_denied: DeniedCallback,
}

/// Called for each call that was refused for lack of authorization.
type DeniedCallback = Arc<dyn Fn(&Fault) + Send + Sync>;

/// Called when the connection to the server changes.
type ConnectionObserver = Arc<dyn Fn(&ConnectionEvent) + Send + Sync>;

impl Relay {
    /// Creates a relay in front of `server`, with default timeouts.
    pub fn new(server: Server) -> Self {
        Self {
            server,
            initialize_timeout: INITIALIZE_TIMEOUT,
            drain_timeout: DRAIN_TIMEOUT,
            observer: Arc::new(|_: &ConnectionEvent| {}),
            records: None,
            negotiations: None,
            auth: None,
            login_command: None,
            on_denied: Arc::new(|_: &Fault| {}),
        }
    }

    /// Sets how long the host waits for the result of its `initialize` while the server is being
    /// connected (default 4 s). After that it is answered without the server.
    #[must_use]
    pub fn with_initialize_timeout(mut self, initialize_timeout: Duration) -> Self {
        self.initialize_timeout = initialize_timeout;
        self
    }

    /// Sets how long requests that are open when the host closes its end may still be answered
    /// (default 30 s).
    #[must_use]
    pub fn with_drain_timeout(mut self, drain_timeout: Duration) -> Self {
        self.drain_timeout = drain_timeout;
        self
    }

    /// Calls `observer` when the connection to the server changes. It must not block.
    #[must_use]
    pub fn on_connection_event(
        mut self,
        observer: impl Fn(&ConnectionEvent) + Send + Sync + 'static,
    ) -> Self {
        self.observer = Arc::new(observer);
        self
    }

    /// Writes a record of the server process into this folder; see [`bowline::Builder::records`].
    #[must_use]
    pub fn records(mut self, folder: impl Into<PathBuf>) -> Self {
        self.records = Some(folder.into());
        self
    }

    /// Uses this negotiation cache; see [`bowline::Builder::negotiation_cache`].
    #[must_use]
    pub fn negotiation_cache(mut self, cache: Arc<dyn NegotiationCache>) -> Self {
        self.negotiations = Some(cache);
        self
    }

    /// Sets the authorization for a server that requires a login; see [`bowline::Builder::auth`].
    #[must_use]
    pub fn auth(mut self, auth: Auth) -> Self {
        self.auth = Some(auth);
        self
    }

    /// Sets the command that a person runs to log in with these scopes in addition to the granted
    /// ones. The host is told of it when that would help.
    #[must_use]
    pub fn login_command(mut self, command: impl Fn(&[String]) -> String + Send + Sync + 'static) -> Self {
        self.login_command = Some(Arc::new(command));
        self
    }

    /// Calls `observer` for each call that another login would help, while the server is connected.
    /// It must not block.
    #[must_use]
    pub fn on_denied(mut self, observer: impl Fn(&Fault) + Send + Sync + 'static) -> Self {
        self.on_denied = Arc::new(observer);
        self
    }

    /// Serves the host until it closes its end and has its responses, or until it can no longer be
    /// written to, or until `stop` resolves. Then everything is shut down in good order: open calls
    /// are canceled, the session is ended on the server, its process is shut down.
    ///
    /// Dropping the future leaves the shutdown to continue in the background.
    pub async fn run(self, mut host: Host, stop: impl Future<Output = ()>) {
        let link = host.link.clone();
        let session = Arc::new(HostSession {
            relay: self,
            link,
            requests: HostRequests::default(),
            upstream: Mutex::default(),
        });
        tokio::select! {
            () = session.serve_host(&mut host) => {}
            () = session.link.wait_for_disconnect() => {}
            () = stop => {}
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
    requests: HostRequests,
    /// Set by the `initialize` of the host.
    upstream: Mutex<Option<Arc<Upstream>>>,
}

impl HostSession {
    /// Handles the messages of the host until it closes its end, then waits for its open requests.
    async fn serve_host(self: &Arc<Self>, host: &mut Host) {
        self.read_messages(host).await;
        self.link.fail_server_requests();
        tokio::select! {
            () = self.requests.drain(self.relay.drain_timeout) => {}
            () = host.wait_for_output_close() => tracing::debug!("the host has left"),
        }
    }

    /// Handles the messages of the host until it closes its end. Everything that waits for the
    /// server runs in its own task; this loop waits only for the host to read.
    async fn read_messages(self: &Arc<Self>, host: &mut Host) {
        while let Some(messages) = host.next().await {
            for message in messages {
                self.handle(message).await;
            }
        }
    }

    async fn handle(self: &Arc<Self>, message: ParseResult) {
        match message {
            Ok(Message::Request { id, method, params }) => self.handle_request(id, method, params).await,
            Ok(Message::Notification { method, params }) => self.handle_notification(method, params),
            Ok(Message::Result { id, result }) => self.link.handle_response(Some(&id), Ok(result)),
            Ok(Message::Error { id, error }) => self.link.handle_response(id.as_ref(), Err(error)),
            Err(malformed) => self.link.respond_malformed(malformed).await,
        }
    }

    async fn handle_request(self: &Arc<Self>, id: Id, method: Box<str>, params: Option<Json>) {
        let refused = match &*method {
            // PG-01: answered at once, in any phase. A ping does not ask whether the server lives.
            method::PING => return self.link.respond(&id, &Ok(Json::empty_object())).await,
            // This is how a host of both eras learns that it has to send `initialize`.
            method::DISCOVER => {
                error_response::unknown_method("server/discover is not known here: use initialize")
            }
            method::INITIALIZE => match self.initialize(&id, params) {
                Ok(()) => return,
                Err(refused) => refused,
            },
            _ => match self.spawn_request(&id, method, params) {
                Ok(()) => return,
                Err(refused) => refused,
            },
        };
        self.link.respond(&id, &Err(refused)).await;
    }

    fn spawn_request(
        self: &Arc<Self>,
        id: &Id,
        method: Box<str>,
        params: Option<Json>,
    ) -> Result<(), RpcError> {
        let Some(upstream) = self.upstream().clone() else {
            return Err(error_response::out_of_order("the first request must be initialize"));
        };
        let size = params.as_ref().map_or(0, |params| params.as_bytes().len());
        self.spawn(id, size, Arc::clone(self).serve_request(upstream, id.clone(), method, params))
    }

    fn spawn(
        &self,
        id: &Id,
        size: usize,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), RpcError> {
        match self.requests.spawn(id, size, work) {
            Ok(()) => Ok(()),
            Err(RequestRefusal::DuplicateId) => {
                tracing::warn!(%id, "a request of the host with the id of one under way was ignored");
                Ok(())
            }
            Err(RequestRefusal::Full) => {
                tracing::warn!(%id, "a request of the host was refused: too many are under way");
                Err(error_response::too_many_requests(&self.relay.server.name))
            }
        }
    }

    /// Connects to the server with the identity of the host, and answers when the result is known.
    fn initialize(self: &Arc<Self>, id: &Id, params: Option<Json>) -> Result<(), RpcError> {
        let host_params = InitializeParams::parse(params.as_ref());
        let upstream = self.open_upstream(&host_params)?;
        self.spawn(id, 0, Arc::clone(self).answer_initialize(upstream, id.clone(), host_params))
    }

    fn open_upstream(&self, host_params: &InitializeParams) -> Result<Arc<Upstream>, RpcError> {
        let mut slot = self.upstream();
        if slot.is_some() {
            return Err(error_response::out_of_order("initialize was said before"));
        }
        tracing::info!(host = host_params.client_info.as_str(), revision = %host_params.revision, "a host is here");
        let upstream = Upstream::open(&self.relay, &self.link, host_params)?;
        Ok(Arc::clone(slot.insert(upstream)))
    }

    fn handle_notification(&self, method: Box<str>, params: Option<Json>) {
        if *method == *method::CANCELLED {
            return self.requests.cancel(params.as_ref());
        }
        let Some(upstream) = self.upstream().clone() else { return };
        match &*method {
            // The client sends its own `initialized` to the server.
            method::INITIALIZED => upstream.mark_host_ready(),
            method::PROGRESS => {
                if let Some(params) = params.and_then(|params| self.link.translate_progress(&params)) {
                    upstream.forward_notification(method, Some(params));
                }
            }
            _ => upstream.forward_notification(method, params),
        }
    }

    async fn shut_down(&self) {
        // Dropping a call cancels it on the server.
        self.requests.abort_all().await;
        let upstream = self.upstream().take();
        if let Some(upstream) = upstream
            && timeout(CLOSE_TIMEOUT, upstream.close()).await.is_err()
        {
            tracing::warn!("the server did not let itself be closed in time");
        }
        self.link.close(FLUSH_TIMEOUT).await;
    }

    fn upstream(&self) -> MutexGuard<'_, Option<Arc<Upstream>>> {
        self.upstream.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

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

//! Relays one host to one server. The session of the host lasts as long as its pipe; the session of
//! the server belongs to the client, which opens a new one whenever it has to.

mod arrival;
mod call;
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

use crate::greeting::Hello;
use crate::host::{Host, HostLink, Refused, Requests};
use crate::refusal;
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
    greeting: Duration,
    settling: Duration,
    observer: Observer,
    records: Option<PathBuf>,
    negotiations: Option<Arc<dyn NegotiationCache>>,
    auth: Option<Auth>,
    login: Option<Arc<refusal::LoginCommand>>,
    on_denied: Denied,
}

/// Called for each call that was refused for lack of authorization.
type Denied = Arc<dyn Fn(&Fault) + Send + Sync>;

/// Called when the connection to the server changes.
type Observer = Arc<dyn Fn(&ConnectionEvent) + Send + Sync>;

impl Relay {
    /// Creates a relay in front of `server`, with default timeouts.
    pub fn new(server: Server) -> Self {
        Self {
            server,
            greeting: GREETING,
            settling: SETTLING,
            observer: Arc::new(|_: &ConnectionEvent| {}),
            records: None,
            negotiations: None,
            auth: None,
            login: None,
            on_denied: Arc::new(|_: &Fault| {}),
        }
    }

    /// Sets how long the host waits for the result of its `initialize` while the server is being
    /// connected (default 4 s). After that it is answered without the server.
    #[must_use]
    pub fn with_greeting(mut self, greeting: Duration) -> Self {
        self.greeting = greeting;
        self
    }

    /// Sets how long requests that are open when the host closes its end may still be answered
    /// (default 30 s).
    #[must_use]
    pub fn with_settling(mut self, settling: Duration) -> Self {
        self.settling = settling;
        self
    }

    /// Calls `observer` when the connection to the server changes. It must not block.
    #[must_use]
    pub fn on_life(mut self, observer: impl Fn(&ConnectionEvent) + Send + Sync + 'static) -> Self {
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
        self.login = Some(Arc::new(command));
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
        let session = Arc::new(Session {
            relay: self,
            link,
            requests: Requests::default(),
            upstream: Mutex::default(),
        });
        tokio::select! {
            () = session.serve_host(&mut host) => {}
            () = session.link.gone() => {}
            () = stop => {}
        }
        session.end().await;
    }
}

impl std::fmt::Debug for Relay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Relay").field("server", &self.server.name).finish_non_exhaustive()
    }
}

/// The state of one host session, shared by its requests.
struct Session {
    relay: Relay,
    link: HostLink,
    requests: Requests,
    /// Set by the `initialize` of the host.
    upstream: Mutex<Option<Arc<Upstream>>>,
}

impl Session {
    /// Handles the messages of the host until it closes its end, then waits for its open requests.
    async fn serve_host(self: &Arc<Self>, host: &mut Host) {
        self.read(host).await;
        self.link.no_more_answers();
        tokio::select! {
            () = self.requests.settle(self.relay.settling) => {}
            () = host.left() => tracing::debug!("the host has left"),
        }
    }

    /// Handles the messages of the host until it closes its end. Everything that waits for the
    /// server runs in its own task; this loop waits only for the host to read.
    async fn read(self: &Arc<Self>, host: &mut Host) {
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
            Ok(Message::Result { id, result }) => self.link.answered(Some(&id), Ok(result)),
            Ok(Message::Error { id, error }) => self.link.answered(id.as_ref(), Err(error)),
            Err(malformed) => self.link.refuse(malformed).await,
        }
    }

    async fn handle_request(self: &Arc<Self>, id: Id, method: Box<str>, params: Option<Json>) {
        let refused = match &*method {
            // PG-01: answered at once, in any phase. A ping does not ask whether the server lives.
            method::PING => return self.link.answer(&id, &Ok(Json::empty_object())).await,
            // This is how a host of both eras learns that it has to send `initialize`.
            method::DISCOVER => refusal::unknown_method("server/discover is not known here: use initialize"),
            method::INITIALIZE => match self.initialize(&id, params) {
                Ok(()) => return,
                Err(refused) => refused,
            },
            _ => match self.serve_later(&id, method, params) {
                Ok(()) => return,
                Err(refused) => refused,
            },
        };
        self.link.answer(&id, &Err(refused)).await;
    }

    fn serve_later(
        self: &Arc<Self>,
        id: &Id,
        method: Box<str>,
        params: Option<Json>,
    ) -> Result<(), RpcError> {
        let Some(upstream) = self.upstream().clone() else {
            return Err(refusal::out_of_order("the first request must be initialize"));
        };
        let size = params.as_ref().map_or(0, |params| params.as_bytes().len());
        self.begin(id, size, Arc::clone(self).serve(upstream, id.clone(), method, params))
    }

    fn begin(
        &self,
        id: &Id,
        size: usize,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), RpcError> {
        match self.requests.begin(id, size, work) {
            Ok(()) => Ok(()),
            Err(Refused::DuplicateId) => {
                tracing::warn!(%id, "a request of the host with the id of one under way was ignored");
                Ok(())
            }
            Err(Refused::Full) => {
                tracing::warn!(%id, "a request of the host was refused: too many are under way");
                Err(refusal::too_many(&self.relay.server.name))
            }
        }
    }

    /// Connects to the server with the identity of the host, and answers when the result is known.
    fn initialize(self: &Arc<Self>, id: &Id, params: Option<Json>) -> Result<(), RpcError> {
        let hello = Hello::of(params.as_ref());
        let upstream = self.open(&hello)?;
        self.begin(id, 0, Arc::clone(self).greet(upstream, id.clone(), hello))
    }

    fn open(&self, hello: &Hello) -> Result<Arc<Upstream>, RpcError> {
        let mut slot = self.upstream();
        if slot.is_some() {
            return Err(refusal::out_of_order("initialize was said before"));
        }
        tracing::info!(host = hello.client.as_str(), revision = %hello.revision, "a host is here");
        let upstream = Upstream::open(&self.relay, &self.link, hello)?;
        Ok(Arc::clone(slot.insert(upstream)))
    }

    fn handle_notification(&self, method: Box<str>, params: Option<Json>) {
        if *method == *method::CANCELLED {
            return self.requests.cancel(params.as_ref());
        }
        let Some(upstream) = self.upstream().clone() else { return };
        match &*method {
            // The client sends its own `initialized` to the server.
            method::INITIALIZED => upstream.host_is_ready(),
            method::PROGRESS => {
                if let Some(params) = params.and_then(|params| self.link.asker_progress(&params)) {
                    upstream.pass(method, Some(params));
                }
            }
            _ => upstream.pass(method, params),
        }
    }

    async fn end(&self) {
        // Dropping a call cancels it on the server.
        self.requests.end().await;
        let upstream = self.upstream().take();
        if let Some(upstream) = upstream
            && timeout(CLOSING, upstream.close()).await.is_err()
        {
            tracing::warn!("the server did not let itself be closed in time");
        }
        self.link.close(FLUSHING).await;
    }

    fn upstream(&self) -> MutexGuard<'_, Option<Arc<Upstream>>> {
        self.upstream.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Shorter than the shortest handshake timeout of widely used hosts: opencode 5 s, Codex 10 s,
/// Claude Code 30 s. A later answer reaches nobody.
const GREETING: Duration = Duration::from_secs(4);
/// `printf … | bowline connect` needs its responses. A host that wants to leave closes its other
/// end too, or sends a signal.
const SETTLING: Duration = Duration::from_secs(30);
/// Longer than the shutdown of a process takes: stdin closed, then TERM, then KILL.
const CLOSING: Duration = Duration::from_secs(15);
/// For messages that were queued for the host.
const FLUSHING: Duration = Duration::from_secs(1);

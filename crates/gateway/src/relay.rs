//! One host, one server. The host's session is ours and lasts as long as its pipe; the server's is the
//! client's, which opens a new one whenever it has to.

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
use bowline::wire::{Id, Json, Message, Parsed, RpcError, method};
use bowline::{Life, Server};
use tokio::time::timeout;

use crate::greeting::Hello;
use crate::host::{Host, HostLink, Refused, Requests};
use crate::refusal;
use upstream::Upstream;

/// Joins one host to one server.
///
/// # Behaviour
/// - The server is connected to when the host says who it is, and as that host: the server sees its name
///   and what it can do.
/// - A fault of the server's is never one of the host's session. Calls are saved where they can be; one
///   that cannot be is answered with an error of code [`UNREACHABLE`](crate::UNREACHABLE) that says whether
///   the server can have executed it.
/// - A host that stops reading stops being read. Nothing is queued without a bound: 512 requests run at once, some
///   thousands wait, and one beyond that is refused with code [`UNREACHABLE`](crate::UNREACHABLE). What the host
///   cancels or answers is never behind its own requests.
/// - What the server says unasked reaches the host in the order in which it was said, progress of calls included, and
///   progress of a call comes before its result.
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

/// Is told of calls that were refused for who we are.
type Denied = Arc<dyn Fn(&Fault) + Send + Sync>;

/// Is told how the connection to the server fares.
type Observer = Arc<dyn Fn(&Life) + Send + Sync>;

impl Relay {
    /// In front of `server`.
    pub fn new(server: Server) -> Self {
        Self {
            server,
            greeting: GREETING,
            settling: SETTLING,
            observer: Arc::new(|_: &Life| {}),
            records: None,
            negotiations: None,
            auth: None,
            login: None,
            on_denied: Arc::new(|_: &Fault| {}),
        }
    }

    /// How long the host waits for the answer to its `initialize` while the server is being reached
    /// (default 4 s). Then it is answered without the server.
    #[must_use]
    pub fn with_greeting(mut self, greeting: Duration) -> Self {
        self.greeting = greeting;
        self
    }

    /// How long requests that are open when the host closes its end may still be answered (default 30 s).
    #[must_use]
    pub fn with_settling(mut self, settling: Duration) -> Self {
        self.settling = settling;
        self
    }

    /// Is told how the connection to the server fares. It must not block.
    #[must_use]
    pub fn on_life(mut self, observer: impl Fn(&Life) + Send + Sync + 'static) -> Self {
        self.observer = Arc::new(observer);
        self
    }

    /// Keeps a record of the server's process in this folder; see [`bowline::Builder::records`].
    #[must_use]
    pub fn records(mut self, folder: impl Into<PathBuf>) -> Self {
        self.records = Some(folder.into());
        self
    }

    /// Keeps what the server is found to speak in this cache; see [`bowline::Builder::negotiation_cache`].
    #[must_use]
    pub fn negotiation_cache(mut self, cache: Arc<dyn NegotiationCache>) -> Self {
        self.negotiations = Some(cache);
        self
    }

    /// Who we are to a server that wants a login; see [`bowline::Builder::auth`].
    #[must_use]
    pub fn auth(mut self, auth: Auth) -> Self {
        self.auth = Some(auth);
        self
    }

    /// What a person runs to be logged in with these scopes beside those that they have. The host is told when that
    /// would help.
    #[must_use]
    pub fn login_command(mut self, command: impl Fn(&[String]) -> String + Send + Sync + 'static) -> Self {
        self.login = Some(Arc::new(command));
        self
    }

    /// Is told of each call that another login would help, while the server is there all the same. It must not block.
    #[must_use]
    pub fn on_denied(mut self, observer: impl Fn(&Fault) + Send + Sync + 'static) -> Self {
        self.on_denied = Arc::new(observer);
        self
    }

    /// Serves the host until it closes its end and has its answers, or until it can no longer be written to,
    /// or until `stop`. Then everything is ended in good order: open calls are cancelled, a session is ended
    /// on the server, a process is shut down.
    ///
    /// Dropping the future leaves the ending to go on in the background.
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

/// What is shared by the requests of one host.
struct Session {
    relay: Relay,
    link: HostLink,
    requests: Requests,
    /// There from the host's `initialize` on.
    upstream: Mutex<Option<Arc<Upstream>>>,
}

impl Session {
    /// Takes what the host says until it closes its end, and then lets it have its answers.
    async fn serve_host(self: &Arc<Self>, host: &mut Host) {
        self.read(host).await;
        self.link.no_more_answers();
        tokio::select! {
            () = self.requests.settle(self.relay.settling) => {}
            () = host.left() => tracing::debug!("the host has left"),
        }
    }

    /// Takes what the host says until it closes its end. Whatever waits for a server is done in a task of
    /// its own; what is waited for here is that the host reads.
    async fn read(self: &Arc<Self>, host: &mut Host) {
        while let Some(messages) = host.next().await {
            for message in messages {
                self.handle(message).await;
            }
        }
    }

    async fn handle(self: &Arc<Self>, message: Parsed) {
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
            // PG-01: at once, at any phase. Whether the server lives is not what is asked.
            method::PING => return self.link.answer(&id, &Ok(Json::empty_object())).await,
            // That is how a host of both eras learns that it has to shake hands.
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

    /// Opens the connection to the server on behalf of the host, and answers when it is known.
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
            // The server was told when its own handshake was done.
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

/// Shorter than the shortest limit that hosts in wide use set themselves for a handshake: opencode 5 s, Codex
/// 10 s, Claude Code 30 s. Whoever is answered after that has left.
const GREETING: Duration = Duration::from_secs(4);
/// `printf … | bowline connect` wants its answers. A host that wants to leave closes its other end too, or
/// sends a signal.
const SETTLING: Duration = Duration::from_secs(30);
/// Longer than a process is given to end: stdin closed, then TERM, then KILL.
const CLOSING: Duration = Duration::from_secs(15);
/// For what was said to the host before it left.
const FLUSHING: Duration = Duration::from_secs(1);

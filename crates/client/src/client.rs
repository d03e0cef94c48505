//! [`Client`]: the handle.

use std::path::PathBuf;
use std::sync::Arc;

use bowline_config::Server;
use bowline_proto::era::Peer;
use bowline_proto::fault::{Cause, Fault};
use bowline_proto::revision::Era;
use bowline_proto::session::{Command, Status};
use bowline_proto::trace::TraceContext;
use bowline_proto::wire::object::Edit;
use bowline_proto::wire::view::Level;
use bowline_proto::wire::{Json, method};
use bowline_transport::memory;
use serde::Serialize;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::auth::{self, Auth};
use crate::connection::{Asking, CallOptions, Driver, Identity, Live, Setup, Shared, Target, Tracer};
use crate::declared;
use crate::error::{Error, ErrorKind, Result};
use crate::events::{Event, EventReceiver};
use crate::handler::{Handler, NoHandler};
use crate::negotiation::{Cache, NegotiationCache};
use crate::saved::SavedSession;
use crate::status::Health;

/// A connection to one MCP server. Cheap to clone; all clones are the same connection.
///
/// # Behaviour
/// - The era and revision are negotiated when the client connects, and again after each loss.
/// - When a process ends, its open calls end with what is known about them, and it is started again with
///   growing waits. A call that comes in meanwhile waits for it, within its own time.
/// - Every call ends once: with a result, with the server's error, or with a fault that says whether
///   the request can have been executed.
/// - Dropping the future of a call cancels it on the server.
/// - Dropping the last clone closes the connection in the background; [`Client::close`] waits for it.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    shared: Arc<Shared>,
    /// When the driver has ended, and all that it had to end.
    ended: CancellationToken,
}

/// How to connect, where the defaults do not fit.
pub struct Builder {
    server: Server,
    client_info: Json,
    handler: Arc<dyn Handler>,
    records: Option<PathBuf>,
    era: Option<Era>,
    cache: Cache,
    tracer: Option<Tracer>,
    tasks: bool,
    session: Option<SavedSession>,
    auth: Option<Auth>,
}

impl Client {
    /// Connects to a server: starts it or reaches it, and finds out what it speaks.
    ///
    /// Dropping the future closes what was opened so far.
    pub async fn connect(server: Server) -> Result<Self> {
        Self::builder(server).connect().await
    }

    /// Connects with a handler or an identity of the host's own.
    pub fn builder(server: Server) -> Builder {
        Builder {
            server,
            client_info: own_identity(),
            handler: Arc::new(NoHandler),
            records: None,
            era: None,
            cache: Cache::default(),
            tracer: None,
            tasks: true,
            session: None,
            auth: None,
        }
    }

    /// Sends any request and gives its result as it came.
    ///
    /// Dropping the future cancels the request on the server.
    pub async fn request<P: Serialize + ?Sized>(&self, method: &str, params: &P) -> Result<Json> {
        self.request_with(method, params, &CallOptions::new()).await
    }

    /// [`Client::request`] with other limits, or with progress.
    pub async fn request_with<P: Serialize + ?Sized>(
        &self,
        method: &str,
        params: &P,
        options: &CallOptions,
    ) -> Result<Json> {
        let params = self.params(method, params)?;
        let result = self.shared().request(method, params.as_ref(), options).await?;
        self.shared().note_list(method, params.as_ref(), &result);
        Ok(result)
    }

    /// Sends a notification, on the connection there is. It is not kept for a later one: what it says would
    /// be out of date by then.
    ///
    /// Dropping the future may leave it unsent.
    pub async fn notify<P: Serialize + ?Sized>(&self, method: &str, params: &P) -> Result<()> {
        let params = self.params(method, params)?;
        let live = self.live(method).await?;
        let sent = self.shared().notify(&live, method, params.as_ref()).await;
        sent.map_err(|fault| self.shared().fault(method, fault))
    }

    /// Asks the server for a sign of life.
    ///
    /// Modern servers know no `ping`; they are asked for their discovery document (LC-14). Dropping the
    /// future cancels it.
    pub async fn ping(&self) -> Result<()> {
        let live = self.live(method::PING).await?;
        let method = match live.peer.era() {
            Era::Legacy => method::PING,
            Era::Modern => method::DISCOVER,
        };
        self.shared().request_on(&live, method, None, &CallOptions::new()).await.map(drop)
    }

    /// What is known of the server: revision, capabilities, name, instructions.
    ///
    /// Waits while the connection is being made. Dropping the future does nothing.
    pub async fn server(&self) -> Result<Arc<Peer>> {
        self.live("server").await.map(|live| Arc::clone(&live.peer))
    }

    /// Waits for the outcome of the attempt that is under way: what is known of the server, or why it could
    /// not be reached. After a failure the connection may still come about, if it is one that is tried again.
    ///
    /// Dropping the future does nothing.
    pub async fn ready(&self) -> Result<Arc<Peer>> {
        let mut status = self.status();
        let settled = status
            .wait_for(|status| !matches!(status, Status::Idle | Status::Connecting | Status::LoggingIn(_)))
            .await;
        let fault = match settled.as_deref() {
            Ok(Status::Ready(peer)) => return Ok(Arc::clone(peer)),
            Ok(Status::BackingOff { cause, .. } | Status::NeedsLogin(cause) | Status::Failed(cause)) => {
                cause.clone().not_executed()
            }
            Ok(Status::Idle | Status::Connecting | Status::LoggingIn(_) | Status::Closed) | Err(_) => {
                Fault::before_sending(Cause::Closed)
            }
        };
        Err(self.shared().fault(CONNECT, fault))
    }

    async fn or_close(self) -> Result<Self> {
        match self.ready().await {
            Ok(_) => Ok(self),
            // Whoever connects wants to know now; to wait is their choice.
            Err(error) => {
                self.close().await;
                Err(error)
            }
        }
    }

    /// The configured name of the server.
    pub fn name(&self) -> &str {
        &self.shared().name
    }

    /// How the server is reached: `stdio`, `http` or `sse`. As it is configured, or what was fallen back to.
    pub fn transport(&self) -> &'static str {
        self.shared().transport()
    }

    /// Looks at the server's tools from now on: on every new connection, and whenever the server says that they
    /// changed. What changed is told as an [`Event`]. Without it only the lists are compared that somebody has
    /// asked for, when they are asked for again.
    ///
    /// Must be called within a tokio runtime.
    pub fn track_tools(&self) {
        self.shared().track_tools();
    }

    /// [`Client::track_tools`] for all lists: tools, prompts, resources and templates.
    ///
    /// Must be called within a tokio runtime.
    pub fn track_lists(&self) {
        self.shared().track_lists();
    }

    /// Asks for the server's log lines, from this level up. They come as events (LG-01, LG-02).
    ///
    /// A legacy server is told now, and after every new start; one that has no logging is an error. A modern
    /// server is told with every call, and says only what concerns that call.
    ///
    /// Dropping the future may leave a legacy server untold.
    pub async fn set_log_level(&self, level: Level) -> Result<()> {
        let method = method::SET_LEVEL;
        let live = self.live(method).await?;
        if live.peer.era() == Era::Legacy && !live.peer.capabilities.logging {
            return Err(Error::new(ErrorKind::NotOffered("logging"), &self.shared().name, method));
        }
        // For whatever era the server comes back in.
        self.shared().set_log_level(level);
        if live.peer.era() == Era::Legacy {
            let params = Edit::new().set_str("level", level.as_str()).apply(None).expect("a string is JSON");
            self.shared().request_on(&live, method, Some(&params), &CallOptions::new()).await?;
        }
        Ok(())
    }

    /// The state of the connection, now and whenever it changes.
    pub fn status(&self) -> watch::Receiver<Status> {
        self.shared().status()
    }

    /// How the connection has fared so far.
    pub fn health(&self) -> Health {
        self.shared().health()
    }

    /// What the server says unasked and how the connection fares, in order, from now on. A receiver that falls far behind is told
    /// how many it missed.
    ///
    /// A modern server speaks unasked only to those who subscribe: from the first call on, its lists are
    /// subscribed to.
    pub fn events(&self) -> EventReceiver<Event> {
        self.shared().events()
    }

    /// [`Client::close`], without ending the session on the server, so that what the server keeps in it stays. Gives
    /// what [`Builder::resume`] needs to go on with it; `None` where there is no session that could be.
    ///
    /// Dropping the future leaves the closing to go on in the background.
    pub async fn leave(self) -> Option<SavedSession> {
        let saved = self.shared().leave_session();
        self.close().await;
        saved
    }

    /// Closes the connection: open calls end, a session is ended on the server, a process is shut down.
    ///
    /// Dropping the future leaves the closing to go on in the background.
    pub async fn close(self) {
        self.shared().command(Command::Close);
        self.inner.ended.cancelled().await;
    }

    /// Waits for a renewal of the login that is under way, and lets no other begin; then goes on trying to write down
    /// what could not be, for five minutes at most. [`Client::close`] does so too, for 25 seconds at most; this is for a
    /// program that ends. What the authorization server gives is lost with it, and the login too, and it may take minutes
    /// to answer.
    ///
    /// `Ok`: everything is written down, or there is no login. Dropping the future does not end the renewal, and lets
    /// none begin all the same.
    pub async fn settle_login(&self) -> std::result::Result<(), auth::AuthError> {
        self.shared().settle_login().await
    }

    /// Who we are to the server; `None` for one that wants no login, or whose host said nothing of one.
    pub fn identity(&self) -> Option<&auth::Identity> {
        self.shared().identity()
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.inner.shared
    }

    pub(crate) async fn live(&self, method: &str) -> Result<Arc<Live>> {
        self.live_for(method, &CallOptions::new()).await
    }

    pub(crate) async fn live_for(&self, method: &str, options: &CallOptions) -> Result<Arc<Live>> {
        if let Some(live) = self.shared().live() {
            return Ok(live);
        }
        // Rare, and large: kept out of the future of every call.
        let ready = Box::pin(self.shared().ready(self.shared().patience(options))).await;
        ready.map_err(|failure| self.shared().error(method, failure))
    }

    /// `params` as JSON; `null` means none.
    pub(crate) fn params<P: Serialize + ?Sized>(&self, method: &str, params: &P) -> Result<Option<Json>> {
        let json = Json::of(params).map_err(|error| self.usage(method, error.to_string()))?;
        if json.is_object() {
            Ok(Some(json))
        } else if json.is_null() {
            Ok(None)
        } else {
            Err(self.usage(method, "params must be an object".to_owned()))
        }
    }

    pub(crate) fn usage(&self, method: &str, what: String) -> Error {
        Error::new(ErrorKind::Usage(what), &self.shared().name, method)
    }
}

impl Builder {
    /// Who the host is, as servers see it.
    #[must_use]
    pub fn client_info(mut self, name: &str, version: &str) -> Self {
        self.client_info = identity(name, version);
        self
    }

    /// Who the host is, as the whole `Implementation` object: with a title, a website, icons.
    #[must_use]
    pub fn implementation(mut self, implementation: Json) -> Self {
        self.client_info = implementation;
        self
    }

    /// Begins with this era, where the configuration leaves it open. For hosts that know what the server spoke
    /// last time, or that have more use for one era of a server that speaks both.
    #[must_use]
    pub fn begin_with(mut self, era: Era) -> Self {
        self.era = Some(era);
        self
    }

    /// Keeps what the server is found to speak in this cache, and begins with what is known there. The default is a cache
    /// in memory that all connections of the process share; a [`FolderCache`](crate::negotiation::FolderCache) serves
    /// later processes too.
    #[must_use]
    pub fn negotiation_cache(mut self, cache: Arc<dyn NegotiationCache>) -> Self {
        self.cache = Cache::Given(cache);
        self
    }

    /// Neither uses nor keeps what servers were found to speak: each connection asks for the modern era first, or begins
    /// as [`Builder::begin_with`] says.
    #[must_use]
    pub fn without_negotiation_cache(mut self) -> Self {
        self.cache = Cache::Off;
        self
    }

    /// Does not tell modern servers that calls may become tasks, which is the default: then a call that takes
    /// long is waited for on one connection, or fails.
    #[must_use]
    pub fn without_tasks(mut self) -> Self {
        self.tasks = false;
        self
    }

    /// Goes on with a session that was left with [`Client::leave`]. If the server no longer knows it, a new one is
    /// opened. It means nothing to a server of the modern era, or to one that is started as a process.
    #[must_use]
    pub fn resume(mut self, session: SavedSession) -> Self {
        self.session = Some(session);
        self
    }

    /// Who the host is to servers that want a login. Without it only those have tokens whose entry says how to
    /// have them without a person.
    #[must_use]
    pub fn auth(mut self, auth: Auth) -> Self {
        self.auth = Some(auth);
        self
    }

    /// What the host does for the server.
    #[must_use]
    pub fn handler(mut self, handler: impl Handler) -> Self {
        self.handler = Arc::new(handler);
        self
    }

    /// Keeps a record of the server's process in this folder, so that others can list it and, should this
    /// program be killed together with what watches over its children, end it. The folder is made if it is
    /// not there.
    #[must_use]
    pub fn records(mut self, folder: impl Into<PathBuf>) -> Self {
        self.records = Some(folder.into());
        self
    }

    /// Asks this for the trace that each request belongs to (OT-01). It is called within the caller's own task,
    /// so that the current span is the caller's.
    #[must_use]
    pub fn trace(mut self, tracer: impl Fn() -> Option<TraceContext> + Send + Sync + 'static) -> Self {
        self.tracer = Some(Arc::new(tracer));
        self
    }

    /// Connects, and waits until calls can go.
    ///
    /// Dropping the future closes what was opened so far, in the background.
    pub async fn connect(self) -> Result<Client> {
        self.open()?.or_close().await
    }

    /// Begins to connect and gives the handle at once: for hosts that do not want to wait, or want to be
    /// able to close while it is being made. [`Client::ready`] waits for the outcome.
    ///
    /// Must be called within a tokio runtime.
    pub fn open(self) -> Result<Client> {
        let asking = Arc::new(Asking::default());
        let auth = match &self.auth {
            Some(auth) => auth.timed(&self.server, &asking),
            None => auth::unaided(&self.server),
        };
        let target = Target::of(&self.server, auth.as_ref())
            .map_err(|fault| Error::new(ErrorKind::Fault(fault), &Arc::from(&*self.server.name), CONNECT))?;
        Ok(self.start(target, auth, asking))
    }

    /// Connects to a server in this process, over one end of a [`memory::pair`].
    pub async fn connect_memory(self, end: memory::End) -> Result<Client> {
        // What its entry says of a command or a URL is not where it is.
        self.without_negotiation_cache()
            .start(Target::Memory(Some(end)), None, Arc::default())
            .or_close()
            .await
    }

    fn start(self, target: Target, auth: Option<auth::Identity>, asking: Arc<Asking>) -> Client {
        let Self { server, client_info, handler, records, era, cache, tracer, tasks, session, auth: _ } =
            self;
        let capabilities = handler.capabilities();
        let modern = declared::modern(&capabilities, tasks);
        let identity = Identity { client_info, capabilities, modern };
        let (shared, driver) = Driver::new(Setup {
            server,
            target,
            records,
            era,
            cache,
            identity,
            handler,
            tracer,
            session,
            auth,
            asking,
        });
        let ended = CancellationToken::new();
        let guard = ended.clone().drop_guard();
        tokio::spawn(async move {
            driver.run().await;
            drop(guard);
        });
        if let Some(changes) = shared.handler.roots_changed() {
            let (watching, ended) = (Box::pin(Arc::clone(&shared).watch_roots(changes)), ended.clone());
            tokio::spawn(async move { ended.run_until_cancelled(watching).await });
        }
        let client = Client { inner: Arc::new(Inner { shared, ended }) };
        client.shared().command(Command::Connect);
        client
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shared.command(Command::Close);
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("name", &self.shared().name).finish_non_exhaustive()
    }
}

const CONNECT: &str = "connect";

fn own_identity() -> Json {
    identity("bowline", env!("CARGO_PKG_VERSION"))
}

fn identity(name: &str, version: &str) -> Json {
    Json::of(&serde_json::json!({ "name": name, "version": version })).expect("an object is JSON")
}

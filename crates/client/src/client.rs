//! [`Client`], the handle of one connection, and its [`ClientBuilder`].

mod start;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bowline_config::{IntoServer, Server};
use bowline_proto::client::negotiation::Peer;
use bowline_proto::client::session::{Command, Status};
use bowline_proto::fault::{Cause, Fault};
use bowline_proto::revision::Era;
use bowline_proto::trace::TraceContext;
use bowline_proto::via::Via;
use bowline_proto::wire::object::Edit;
use bowline_proto::wire::view::LogLevel;
use bowline_proto::wire::{Json, method};
use bowline_transport::pipe::pipe;
use serde::Serialize;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use crate::auth::Auth;
use crate::connection::{
    AttachedStreams, CallMeter, CallOptions, Connection, DEFAULT_LIST_CHANGE_DELAY, LiveLink, Target, Tracer,
};
use crate::error::{Error, ErrorKind, Result};
use crate::events::{Event, EventReceiver};
use crate::handler::{Handler, NoHandler};
use crate::layer::Layer;
use crate::negotiation::{CacheChoice, NegotiationCache};
use crate::saved_session::SavedSession;
use crate::status::{Health, StatusWatch};

/// A connection to one MCP server. Cheap to clone; all clones are the same connection.
///
/// # Behavior
/// - The era and revision are negotiated when the client connects, and again after each loss.
/// - When a process ends, its open calls end with what is known about them, and it is restarted
///   with growing waits. A call that comes in meanwhile waits for it, within its own time.
/// - Every call ends once: with a result, with the server's error, or with a fault that says
///   whether the request can have been executed.
/// - Dropping the future of a call cancels it on the server.
/// - Dropping the last clone closes the connection in the background; [`Client::close`] waits for
///   it.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    connection: Arc<Connection>,
    /// Canceled when the driver has ended and everything is shut down.
    ended: CancellationToken,
}

/// Configures and opens a connection.
pub struct ClientBuilder {
    /// The server, or why it cannot be used.
    server: Result<Server>,
    client_info: Json,
    handler: Arc<dyn Handler>,
    records: Option<PathBuf>,
    watchdog: bool,
    exit_wait: Duration,
    era: Option<Era>,
    cache: CacheChoice,
    tracer: Option<Tracer>,
    layers: Vec<Arc<dyn Layer>>,
    list_change_delay: Duration,
    tasks: bool,
    session: Option<SavedSession>,
    auth: Option<Auth>,
    via: Via,
    attached: Option<AttachedStreams>,
}

/// How long a process may take to end by itself.
const DEFAULT_EXIT_WAIT: Duration = Duration::from_secs(2);

impl Client {
    /// Connects to a server: starts or reaches it, and negotiates the protocol.
    ///
    /// Dropping the future closes what was opened so far.
    pub async fn connect(server: impl IntoServer) -> Result<Self> {
        Self::builder(server).connect().await
    }

    /// Returns a builder, for a connection with a handler or other settings.
    /// A value of the server that cannot be used, such as a malformed URL, is an error when the
    /// connection is opened.
    pub fn builder(server: impl IntoServer) -> ClientBuilder {
        let (name, server) = server.into_parts();
        let invalid = |error: bowline_config::InvalidValue| {
            Error::new(ErrorKind::Usage(error.to_string()), &Arc::from(name), CONNECT)
        };
        ClientBuilder {
            server: server.map_err(invalid),
            client_info: client_info("bowline", env!("CARGO_PKG_VERSION")),
            handler: Arc::new(NoHandler),
            records: None,
            watchdog: true,
            exit_wait: DEFAULT_EXIT_WAIT,
            era: None,
            cache: CacheChoice::default(),
            tracer: None,
            layers: Vec::new(),
            list_change_delay: DEFAULT_LIST_CHANGE_DELAY,
            tasks: true,
            session: None,
            auth: None,
            via: Via::default(),
            attached: None,
        }
    }

    /// Sends any request and returns its raw result.
    ///
    /// Dropping the future cancels the request on the server.
    pub async fn request<P: Serialize + ?Sized>(&self, method: &str, params: &P) -> Result<Json> {
        self.request_with(method, params, &CallOptions::new()).await
    }

    /// [`Client::request`] with other timeouts, or with progress.
    ///
    /// Dropping the future cancels the request on the server.
    pub async fn request_with<P: Serialize + ?Sized>(
        &self,
        method: &str,
        params: &P,
        options: &CallOptions,
    ) -> Result<Json> {
        let params = self.params(method, params)?;
        let result = self.connection().request(method, params.as_ref(), options).await?;
        self.connection().lists.record_list_page(&self.connection().events, method, params.as_ref(), &result);
        Ok(result)
    }

    /// Sends a notification on the current connection. It is not queued for a later one, where it
    /// would be out of date. A notification has no answer, so one that the server refuses is no error;
    /// but if the server forgot the session, that is noticed, and the session is restored.
    ///
    /// Dropping the future may leave it unsent.
    pub async fn notify<P: Serialize + ?Sized>(&self, method: &str, params: &P) -> Result<()> {
        let params = self.params(method, params)?;
        let live = self.live_link(method).await?;
        let sent = self.connection().notify(&live, method, params.as_ref()).await;
        sent.map_err(|fault| self.connection().server.fault_error(method, fault))
    }

    /// Checks that the server responds.
    ///
    /// Modern servers have no `ping`; `server/discover` is sent instead. Dropping the future
    /// cancels it.
    // LC-14
    pub async fn ping(&self) -> Result<()> {
        let live = self.live_link(method::PING).await?;
        let method = match live.peer.era() {
            Era::Legacy => method::PING,
            Era::Modern => method::DISCOVER,
        };
        self.connection().request_on(&live, method, None, &CallOptions::new()).await.map(drop)
    }

    /// What the server declared: revision, capabilities, name, instructions.
    ///
    /// Waits while the connection is being made. Dropping the future has no effect.
    pub async fn peer(&self) -> Result<Arc<Peer>> {
        self.live_link("peer").await.map(|live| Arc::clone(&live.peer))
    }

    /// Waits for the outcome of the current connection attempt. A failed attempt is retried in the
    /// background if the fault permits it.
    ///
    /// Dropping the future has no effect.
    pub async fn ready(&self) -> Result<Arc<Peer>> {
        let mut status = self.status();
        let settled = status
            .wait_for(|status| !matches!(status, Status::Idle | Status::Connecting | Status::LoggingIn(_)))
            .await;
        let fault = match settled {
            Some(Status::Ready(peer)) => return Ok(peer),
            Some(Status::BackingOff { cause, .. } | Status::NeedsLogin(cause) | Status::Failed(cause)) => {
                cause.not_executed()
            }
            _ => Fault::before_sending(Cause::Closed),
        };
        Err(self.connection().server.fault_error(CONNECT, fault))
    }

    async fn ready_or_close(self) -> Result<Self> {
        match self.ready().await {
            Ok(_) => Ok(self),
            // `connect` reports a failure at once instead of retrying.
            Err(error) => {
                self.close().await;
                Err(error)
            }
        }
    }

    /// The configured name of the server.
    pub fn name(&self) -> &str {
        &self.connection().server.name
    }

    /// How the server is reached: `stdio`, `http` or `sse`. As configured, or the transport that
    /// was fallen back to.
    pub fn transport(&self) -> &'static str {
        self.connection().transport()
    }

    /// Fetches the server's tools on every new connection and whenever the server announces a
    /// change, and emits what changed as an [`Event`]. Otherwise a list is compared only when a
    /// caller fetches it again.
    ///
    /// After an announcement it is fetched with a short delay; see [`ClientBuilder::list_change_delay`].
    ///
    /// Must be called within a tokio runtime.
    pub fn track_tools(&self) {
        self.connection().track_tools();
    }

    /// [`Client::track_tools`] for all lists: tools, prompts, resources and templates.
    ///
    /// Must be called within a tokio runtime.
    pub fn track_lists(&self) {
        self.connection().track_lists();
    }

    /// Has the server announce changes of its lists, which arrive as [`Event::Notification`]. Unlike
    /// [`Client::track_lists`] this fetches nothing. Legacy servers announce them in any case.
    pub fn listen_for_list_changes(&self) {
        self.connection().session.subscriptions.demand_lists();
    }

    /// Emits [`Event::CallEnded`] for each request of a caller that ends from now on. Without this,
    /// requests end silently, and a report costs nothing.
    pub fn report_calls(&self) {
        self.connection().events.report_calls();
    }

    /// Emits [`Event::Stderr`] for each line that the server's process writes to stderr from now
    /// on, also after it was restarted, and at first for the last 50 lines that it has written
    /// before. Has no effect on servers that are reached by URL.
    ///
    /// Lines are left out while more than 255 events wait to be received, so that a server that
    /// writes without end displaces no other event; the next line says how many. Whether or not
    /// this was called, the last lines before a failure are in its [`Fault`], and all lines are
    /// logged with the `tracing` target `bowline::stderr` at level `DEBUG`.
    pub fn report_stderr(&self) {
        self.connection().events.report_stderr();
    }

    /// Requests the server's log messages, from this level up. They arrive as events.
    ///
    /// A legacy server is told now and after every restart; one without logging is an error. A
    /// modern server is told with every call, and reports only on that call.
    ///
    /// Dropping the future may leave a legacy server untold.
    // LG-01, LG-02
    pub async fn set_log_level(&self, level: LogLevel) -> Result<()> {
        let method = method::SET_LEVEL;
        let live = self.live_link(method).await?;
        if live.peer.era() == Era::Legacy && !live.peer.capabilities.logging {
            return Err(self.connection().server.not_offered("logging", method));
        }
        // Recorded for whatever era the server has after a reconnect.
        self.connection().session.set_log_level(level);
        if live.peer.era() == Era::Legacy {
            let params = Edit::new().set_str("level", level.as_str()).apply(None).expect("a string is JSON");
            self.connection().request_on(&live, method, Some(&params), &CallOptions::new()).await?;
        }
        Ok(())
    }

    /// The state of the connection, now and whenever it changes.
    pub fn status(&self) -> StatusWatch {
        self.connection().links.watch_status()
    }

    /// Statistics of the connection.
    pub fn health(&self) -> Health {
        self.connection().events.health()
    }

    /// Notifications of the server and changes of the connection, in order, from now on. A receiver
    /// that falls far behind is told how many it missed: [`Event::Missed`]. The stream ends when the
    /// connection is closed.
    ///
    /// A modern server notifies only subscribers, so this subscribes to its lists.
    pub fn events(&self) -> EventReceiver<Event> {
        self.connection().subscribe_events()
    }

    /// Closes the connection without ending the session, so that the server keeps its state.
    /// Returns what [`ClientBuilder::resume`] needs; `None` if there is no session that could be resumed.
    ///
    /// Dropping the future leaves the closing to go on in the background.
    pub async fn leave(&self) -> Option<SavedSession> {
        let saved = self.connection().detach_session();
        self.close().await;
        saved
    }

    /// Closes the connection: fails open calls, ends the session on the server, shuts down the
    /// process.
    ///
    /// Dropping the future leaves the closing to go on in the background.
    pub async fn close(&self) {
        self.connection().engine.send_command(Command::Close);
        self.inner.ended.cancelled().await;
    }

    /// Waits for a token refresh in progress and prevents new ones; then retries storing what could
    /// not be stored, for at most five minutes. For a program that is about to end: tokens that are
    /// not stored are lost, and the login with them. [`Client::close`] does this too, for at most
    /// 25 seconds.
    ///
    /// `Ok` means that everything is stored, or that there is no login. Dropping the future does
    /// not stop the refresh, and new ones stay prevented.
    #[cfg(feature = "auth")]
    pub async fn settle_login(&self) -> std::result::Result<(), crate::auth::AuthError> {
        self.connection().login.settle().await
    }

    /// The login identity used with this server; `None` if it needs no login or none was
    /// configured.
    #[cfg(feature = "auth")]
    pub fn identity(&self) -> Option<&crate::auth::Identity> {
        self.connection().login.identity()
    }

    pub(crate) fn connection(&self) -> &Arc<Connection> {
        &self.inner.connection
    }

    pub(crate) async fn live_link(&self, method: &str) -> Result<Arc<LiveLink>> {
        self.live_link_for(method, &CallOptions::new()).await
    }

    pub(crate) async fn live_link_for(&self, method: &str, options: &CallOptions) -> Result<Arc<LiveLink>> {
        self.connection().link_for_call(method, options, &CallMeter::start()).await.map(|(live, _)| live)
    }

    /// Converts `params` to JSON; `null` means none.
    pub(crate) fn params<P: Serialize + ?Sized>(&self, method: &str, params: &P) -> Result<Option<Json>> {
        let json = Json::encode(params).map_err(|error| self.usage_error(method, error.to_string()))?;
        if json.is_object() {
            Ok(Some(json))
        } else if json.is_null() {
            Ok(None)
        } else {
            Err(self.usage_error(method, "params must be an object".to_owned()))
        }
    }

    pub(crate) fn usage_error(&self, method: &str, what: String) -> Error {
        Error::new(ErrorKind::Usage(what), &self.connection().server.name, method)
    }
}

impl ClientBuilder {
    /// Sets the name and version that the host declares to servers.
    #[must_use]
    pub fn client_info(mut self, name: &str, version: &str) -> Self {
        self.client_info = client_info(name, version);
        self
    }

    /// Sets the whole `Implementation` object that the host declares, with title, website and
    /// icons.
    #[must_use]
    pub fn implementation(mut self, implementation: Json) -> Self {
        self.client_info = implementation;
        self
    }

    /// Sets the era to negotiate first, unless the configuration fixes one. For hosts that know
    /// what the server spoke last time, or prefer one era of a server that speaks both.
    #[must_use]
    pub fn begin_with(mut self, era: Era) -> Self {
        self.era = Some(era);
        self
    }

    /// Sets the cache for negotiation outcomes. The default is a cache in memory that all
    /// connections of the process share; a [`FolderCache`](crate::negotiation::FolderCache) also
    /// serves later processes.
    #[must_use]
    pub fn negotiation_cache(mut self, cache: Arc<dyn NegotiationCache>) -> Self {
        self.cache = CacheChoice::Custom(cache);
        self
    }

    /// Disables the cache for negotiation outcomes: each connection tries the modern era first, or
    /// the one set with [`ClientBuilder::begin_with`].
    #[must_use]
    pub fn without_negotiation_cache(mut self) -> Self {
        self.cache = CacheChoice::Off;
        self
    }

    /// Does not declare to modern servers that calls may become tasks, which is the default. A long
    /// call then occupies one connection, or fails.
    #[must_use]
    pub fn without_tasks(mut self) -> Self {
        self.tasks = false;
        self
    }

    /// Resumes a session that was kept with [`Client::leave`]. If the server no longer knows it, a
    /// new one is opened. Has no effect with modern servers and processes.
    #[must_use]
    pub fn resume(mut self, session: SavedSession) -> Self {
        self.session = Some(session);
        self
    }

    /// Sets the host's logins. Without them, only servers whose configuration needs no person get
    /// tokens.
    #[must_use]
    #[cfg(feature = "auth")]
    pub fn auth(mut self, auth: Auth) -> Self {
        self.auth = Some(auth);
        self
    }

    /// Sets the handler of server requests.
    #[must_use]
    pub fn handler(mut self, handler: impl Handler) -> Self {
        self.handler = Arc::new(handler);
        self
    }

    /// Sets a handler that other clients have as well.
    pub(crate) fn shared_handler(mut self, handler: Arc<dyn Handler>) -> Self {
        self.handler = handler;
        self
    }

    /// Records the server's process in this folder, so that others can list it and can end it
    /// should this program and its watchdog be killed. The folder is created if needed.
    #[must_use]
    pub fn records(mut self, folder: impl Into<PathBuf>) -> Self {
        self.records = Some(folder.into());
        self
    }

    /// Starts no watchdog for the server's process, for hosts that have their own. Without one, the
    /// process outlives a host that is killed, unless it ends when its input does. By default a
    /// small shell, one for all servers, ends them then. Has no effect on Windows, where the system
    /// does it.
    #[must_use]
    pub fn without_watchdog(mut self) -> Self {
        self.watchdog = false;
        self
    }

    /// Sets how long the server's process may take to end by itself after the connection was closed,
    /// before it gets SIGTERM. Default 2 s. Some servers do not end when their input does.
    #[must_use]
    pub fn exit_wait(mut self, wait: Duration) -> Self {
        self.exit_wait = wait;
        self
    }

    /// Sets a function that returns the trace context of each request. It is called within the
    /// caller's own task, so that the current span is the caller's.
    // OT-01
    #[must_use]
    pub fn trace(mut self, tracer: impl Fn() -> Option<TraceContext> + Send + Sync + 'static) -> Self {
        self.tracer = Some(Arc::new(tracer));
        self
    }

    /// Adds a layer, which sees each request and may change or refuse it. Layers see a request in
    /// the order in which they were added.
    #[must_use]
    pub fn layer(mut self, layer: impl Layer) -> Self {
        self.layers.push(Arc::new(layer));
        self
    }

    /// Sets the time between the announcement of a change and the fetch of a tracked list (default
    /// 200 ms): a server that changes many elements often announces each, and all announcements
    /// within this time cost one fetch. It only delays [`Event::ListChanged`]; the notification
    /// itself is an event at once. With zero the list is fetched at once, and announcements during a
    /// fetch still cost one more fetch together. See [`Client::track_tools`].
    #[must_use]
    pub fn list_change_delay(mut self, delay: Duration) -> Self {
        self.list_change_delay = delay;
        self
    }

    /// Tells the server which gateways its host has passed, in a header of every HTTP request or in a variable of
    /// its environment, so that a gateway notices that it is among its own servers. Programs that are no gateways
    /// do not need it.
    #[doc(hidden)]
    #[must_use]
    pub fn via(mut self, via: Via) -> Self {
        self.via = via;
        self
    }

    /// Uses a process of the server that another program keeps, over a pair of byte streams whose form
    /// `bowline_transport::process::attach` knows. It is used for the first link; when that is lost, the process is
    /// started as configured. Has no effect on servers that are not processes.
    #[doc(hidden)]
    #[must_use]
    pub fn attached(
        mut self,
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        self.attached = Some((Box::new(reader), Box::new(writer)));
        self
    }

    /// Adds layers that see a request before the other ones.
    pub(crate) fn outer_layers(mut self, layers: &[Arc<dyn Layer>]) -> Self {
        self.layers.splice(..0, layers.iter().cloned());
        self
    }

    /// Connects and waits until the server is ready.
    ///
    /// Dropping the future closes what was opened so far, in the background.
    pub async fn connect(self) -> Result<Client> {
        self.open()?.ready_or_close().await
    }

    /// Starts connecting and returns the handle at once, for hosts that do not want to wait or want
    /// to be able to close meanwhile. [`Client::ready`] waits for the outcome.
    ///
    /// Must be called within a tokio runtime.
    pub fn open(self) -> Result<Client> {
        Ok(self.create_client()?.begin())
    }

    /// Starts connecting like [`open`](Self::open), and returns the events from the first one on. A later call of
    /// [`Client::events`] misses those that were sent before it.
    ///
    /// Must be called within a tokio runtime.
    pub fn open_with_events(self) -> Result<(Client, EventReceiver<Event>)> {
        let client = self.create_client()?;
        let events = client.events();
        Ok((client.begin(), events))
    }

    /// Connects over two byte streams that carry one JSON-RPC message per line, such as the halves
    /// of a socket or of a [`tokio::io::duplex`]. Name and limits are those of the builder's
    /// server; its command or URL is not used.
    ///
    /// The streams cannot be opened again. When the server's one ends, the status becomes
    /// [`Status::Failed`], and open and later calls fail with [`Cause::Exited`]. `writer` must not buffer: bytes that it accepts count as sent. It is shut
    /// down when the connection is closed.
    ///
    /// Dropping the future closes both streams.
    pub async fn connect_io(
        self,
        reader: impl AsyncRead + Send + 'static,
        writer: impl AsyncWrite + Send + 'static,
    ) -> Result<Client> {
        // A server that is not valid is refused below.
        let limit = self.server.as_ref().map_or(0, |server| server.message_limit);
        let streams = pipe(Box::pin(reader), Box::pin(writer), limit);
        // The configured command or URL does not identify the server behind the streams.
        self.without_negotiation_cache()
            .create_client_for(Target::Io(Some(streams)), None, Arc::default())?
            .begin()
            .ready_or_close()
            .await
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.connection.engine.send_command(Command::Close);
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("name", &self.connection().server.name).finish_non_exhaustive()
    }
}

const CONNECT: &str = "connect";

fn client_info(name: &str, version: &str) -> Json {
    Json::encode(&serde_json::json!({ "name": name, "version": version })).expect("an object is JSON")
}

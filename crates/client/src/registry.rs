//! [`Registry`]: connections to many servers, none of which waits for another.

mod feed;
mod slot;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bowline_config::{Diff, Server};
use bowline_proto::client::negotiation::Peer;
use bowline_proto::client::session::Status;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use self::slot::Slot;
use crate::client::{Client, ClientBuilder};
use crate::events::{Event, EventItem, EventReceiver, EventSender};
use crate::handler::Handler;
use crate::layer::Layer;
use crate::status::Health;

pub(crate) use feed::Feed;

/// Connections to many servers.
///
/// Cheap to clone; all clones are the same registry. Dropping the last one closes all connections
/// in the background.
///
/// # Behavior
/// - All enabled servers are connected from the start, a limited number at a time
///   ([`RegistryBuilder::max_concurrent`]). Each then reconnects by itself; see [`Client`].
/// - A slow server gives up its turn after a moment ([`RegistryBuilder::turn_duration`]) and
///   continues on its own. A server that is requested with [`Registry::get`] connects at once.
/// - The hooks of a server run for its events ([`hooks`](crate::hooks)).
#[derive(Clone)]
pub struct Registry {
    inner: Arc<Inner>,
}

/// Configures a registry.
pub struct RegistryBuilder {
    concurrency: usize,
    turn_limit: Duration,
    client_factory: Box<ClientFactory>,
    handler: Option<Arc<dyn Handler>>,
    track_tools: bool,
    report_calls: bool,
    report_stderr: bool,
    layers: Vec<Arc<dyn Layer>>,
    events: EventSender<ServerEvent>,
}

/// An event of one of many servers.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ServerEvent {
    /// The name of the server. Empty for [`Event::Missed`] if the receiver itself fell behind:
    /// the events that it missed may be of any server.
    pub server: Arc<str>,
    /// What happened.
    pub event: Event,
}

impl ServerEvent {
    /// Creates an event of the server of this name, for the unit test of a host.
    pub fn new(server: impl Into<Arc<str>>, event: Event) -> Self {
        Self { server: server.into(), event }
    }
}

/// The status of one of many servers.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ServerStatus {
    /// The configured name.
    pub name: Arc<str>,
    /// How it is reached: `stdio`, `http` or `sse`. As configured, or the transport that was fallen
    /// back to.
    pub transport: &'static str,
    /// Its current state.
    pub state: ServerState,
    /// What the server declared, while it is ready: era, revision, name.
    pub peer: Option<Arc<Peer>>,
    /// When the next attempt is made, while backing off.
    pub next_attempt: Option<Instant>,
    /// Statistics of its connection.
    pub health: Health,
}

impl ServerStatus {
    /// Creates the status of the server of this name, for the unit test of a host. It has no peer, no
    /// next attempt and no statistics; set the fields where it has.
    pub fn new(name: impl Into<Arc<str>>, transport: &'static str, state: ServerState) -> Self {
        let (peer, next_attempt, health) = (None, None, Health::default());
        Self { name: name.into(), transport, state, peer, next_attempt, health }
    }
}

/// The state of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ServerState {
    /// It is disabled in the configuration.
    Disabled,
    /// Its turn to connect has not come.
    Waiting,
    /// It is connecting.
    Connecting,
    /// It is ready for calls.
    Ready,
    /// It waits for the next attempt.
    BackingOff,
    /// A login is in progress.
    LoggingIn,
    /// A person must log in.
    NeedsLogin,
    /// Retrying cannot help.
    Failed,
    /// It was closed.
    Closed,
}

struct Inner {
    /// In configured order.
    slots: Mutex<Vec<Arc<Slot>>>,
    common: Arc<RegistryContext>,
    /// Held while a new configuration is applied.
    applying: tokio::sync::Mutex<()>,
    /// Cancels the tasks that wait for their turn.
    _stop: DropGuard,
}

/// What all servers of a registry share.
struct RegistryContext {
    client_factory: Box<ClientFactory>,
    handler: Option<Arc<dyn Handler>>,
    track_tools: bool,
    report_calls: bool,
    report_stderr: bool,
    layers: Vec<Arc<dyn Layer>>,
    connect_permits: Semaphore,
    turn_duration: Duration,
    events: EventSender<ServerEvent>,
    /// The tasks that forward the events of clients.
    forwarders: TaskTracker,
    stop: CancellationToken,
}

type ClientFactory = dyn Fn(Server) -> ClientBuilder + Send + Sync;

// === impl Registry ===

impl Registry {
    /// Starts connecting to all servers, such as those of a `&Config`. Of two with the same name,
    /// the later counts.
    ///
    /// Must be called within a tokio runtime.
    pub fn open(servers: impl IntoIterator<Item = Server>) -> Self {
        Self::builder().open(servers)
    }

    /// Returns a builder, for other limits or a handler.
    pub fn builder() -> RegistryBuilder {
        RegistryBuilder {
            concurrency: DEFAULT_MAX_CONCURRENT,
            turn_limit: DEFAULT_TURN_DURATION,
            client_factory: Box::new(Client::builder),
            handler: None,
            track_tools: false,
            report_calls: false,
            report_stderr: false,
            layers: Vec::new(),
            events: EventSender::new(EVENT_BUFFER),
        }
    }

    /// The client of a server. `None` if there is no enabled server of that name, or if it is being
    /// replaced or closed.
    pub fn get(&self, name: &str) -> Option<Client> {
        let slot = self.slots().iter().find(|slot| &*slot.name == name).cloned()?;
        slot.open(&self.inner.common)
    }

    /// The names of all servers, including disabled ones, in configured order.
    pub fn names(&self) -> Vec<Arc<str>> {
        self.slots().iter().map(|slot| Arc::clone(&slot.name)).collect()
    }

    /// The status of all servers, in configured order.
    pub fn statuses(&self) -> Vec<ServerStatus> {
        self.slots().iter().map(|slot| slot.status()).collect()
    }

    /// The events of all servers, in order for each server, from now on. A receiver that falls far
    /// behind is told how many it missed. The stream ends when the registry is closed.
    pub fn events(&self) -> EventReceiver<ServerEvent> {
        self.inner.common.events.subscribe()
    }

    /// Waits until no server is connecting, so that it is known which can be reached.
    ///
    /// Dropping the future has no effect.
    pub async fn settled(&self) {
        let slots = self.slots().clone();
        for slot in slots {
            slot.settled().await;
        }
    }

    /// Replaces the servers. Unchanged ones are not touched, and where only hooks changed, only the
    /// hooks are replaced. Removed and changed servers are closed; new and changed ones are
    /// connected, a changed one only after its predecessor has ended.
    ///
    /// Returns what changed. Dropping the future leaves it to go on in the background.
    pub async fn apply(&self, servers: impl IntoIterator<Item = Server>) -> Diff {
        let (inner, servers) = (Arc::clone(&self.inner), unique(servers));
        let applying = tokio::spawn(async move { inner.apply(servers).await });
        match applying.await {
            Ok(diff) => diff,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }

    /// Closes all connections at the same time and waits for it: open calls fail, sessions are
    /// ended on their servers, processes are shut down, hooks receive their pending events. Takes
    /// at most fifteen seconds; the rest goes on in the background.
    ///
    /// Dropping the future leaves it to go on in the background.
    pub async fn close(&self) {
        self.inner.common.stop.cancel();
        // Spawned tasks go on if this future is dropped.
        let slots = self.slots().clone();
        let closing: Vec<_> =
            slots.into_iter().map(|slot| tokio::spawn(async move { slot.close().await })).collect();
        for one in closing {
            // A task that panicked has nothing left to close.
            let _ = one.await;
        }
        // What the clients said last is received before the end.
        let common = &self.inner.common;
        common.forwarders.close();
        let _ = timeout(FORWARD_TIMEOUT, common.forwarders.wait()).await;
        common.events.close();
    }

    fn slots(&self) -> MutexGuard<'_, Vec<Arc<Slot>>> {
        self.inner.slots.lock()
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry").field("names", &self.names()).finish_non_exhaustive()
    }
}

/// Maximum time to forward the last events of clients that were closed.
const FORWARD_TIMEOUT: Duration = Duration::from_secs(1);
/// Default number of servers that connect at once. Starting processes is the main cost.
const DEFAULT_MAX_CONCURRENT: usize = 16;
/// Default length of a turn. Most servers are ready, or refuse, sooner.
const DEFAULT_TURN_DURATION: Duration = Duration::from_secs(1);
/// Number of events that a slow subscriber may fall behind.
const EVENT_BUFFER: usize = 4096;

// === impl RegistryBuilder ===

impl RegistryBuilder {
    /// Sets how many servers connect at the same time (default 16, at least 1).
    #[must_use]
    pub fn max_concurrent(mut self, servers: usize) -> Self {
        self.concurrency = servers.clamp(1, Semaphore::MAX_PERMITS);
        self
    }

    /// Sets the length of a turn (default 1 s). A server that is not ready by then continues
    /// without it. HTTP servers have a quarter of it, since waiting for a response costs less than
    /// starting a process.
    #[must_use]
    pub fn turn_duration(mut self, patience: Duration) -> Self {
        self.turn_limit = patience;
        self
    }

    /// Sets the handler of the requests of all servers, which replaces any other that
    /// [`RegistryBuilder::client_builder`] sets. [`ServerRequest::server`] says which server asks.
    ///
    /// [`ServerRequest::server`]: crate::ServerRequest::server
    #[must_use]
    pub fn handler(mut self, handler: impl Handler) -> Self {
        self.handler = Some(Arc::new(handler));
        self
    }

    /// Sets how the client of each server is built, such as with logins. It must not use the
    /// registry.
    #[must_use]
    pub fn client_builder(
        mut self,
        connect: impl Fn(Server) -> ClientBuilder + Send + Sync + 'static,
    ) -> Self {
        self.client_factory = Box::new(connect);
        self
    }

    /// Tracks the tools of all servers; see [`Client::track_tools`]. Otherwise only servers with a
    /// hook for it are tracked.
    #[must_use]
    pub fn track_tools(mut self) -> Self {
        self.track_tools = true;
        self
    }

    /// Emits [`Event::CallEnded`] for each request that ends, of all servers; see
    /// [`Client::report_calls`].
    #[must_use]
    pub fn report_calls(mut self) -> Self {
        self.report_calls = true;
        self
    }

    /// Emits [`Event::Stderr`] for each line that a server's process writes to stderr, of all
    /// servers; see [`Client::report_stderr`]. Lines are left out while more than 1,023 events of
    /// the registry wait to be received.
    #[must_use]
    pub fn report_stderr(mut self) -> Self {
        self.report_stderr = true;
        self
    }

    /// Adds a layer to the clients of all servers, which sees a request before the layers of
    /// [`RegistryBuilder::client_builder`]; see [`Layer`].
    #[must_use]
    pub fn layer(mut self, layer: impl Layer) -> Self {
        self.layers.push(Arc::new(layer));
        self
    }

    /// The events from the very first one on; see [`Registry::events`].
    pub fn events(&self) -> EventReceiver<ServerEvent> {
        self.events.subscribe()
    }

    /// Starts connecting to all servers. Of two with the same name, the later counts.
    ///
    /// Must be called within a tokio runtime.
    pub fn open(self, servers: impl IntoIterator<Item = Server>) -> Registry {
        let stop = CancellationToken::new();
        let common = Arc::new(RegistryContext {
            client_factory: self.client_factory,
            handler: self.handler,
            track_tools: self.track_tools,
            report_calls: self.report_calls,
            report_stderr: self.report_stderr,
            layers: self.layers,
            connect_permits: Semaphore::new(self.concurrency),
            turn_duration: self.turn_limit,
            events: self.events,
            forwarders: TaskTracker::new(),
            stop: stop.clone(),
        });
        let slots: Vec<_> = unique(servers).into_iter().map(Slot::new).map(Arc::new).collect();
        for slot in &slots {
            tokio::spawn(connect_in_turn(Arc::clone(slot), Arc::clone(&common)));
        }
        let inner = Inner {
            slots: Mutex::new(slots),
            common,
            applying: tokio::sync::Mutex::default(),
            _stop: stop.drop_guard(),
        };
        Registry { inner: Arc::new(inner) }
    }
}

impl fmt::Debug for RegistryBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { concurrency: at_once, turn_limit: patience, track_tools, .. } = self;
        f.debug_struct("RegistryBuilder")
            .field("at_once", at_once)
            .field("patience", patience)
            .field("track_tools", track_tools)
            .finish_non_exhaustive()
    }
}

// === impl Inner ===

impl Inner {
    async fn apply(&self, servers: Vec<Server>) -> Diff {
        let _one = self.applying.lock().await;
        let mut diff = Diff::default();
        if self.common.stop.is_cancelled() {
            return diff;
        }
        let mut work = JoinSet::new();
        {
            let mut slots = self.slots.lock();
            let mut old = std::mem::take(&mut *slots);
            for server in servers {
                let at = old.iter().position(|slot| *slot.name == *server.name);
                let slot = if let Some(slot) = at.map(|at| old.remove(at)) {
                    if let Some(change) = slot.replace_server(server, &self.common) {
                        diff.changed.push(slot.name.to_string());
                        work.spawn(change);
                    }
                    slot
                } else {
                    diff.added.push(server.name.clone());
                    let slot = Arc::new(Slot::new(server));
                    tokio::spawn(connect_in_turn(Arc::clone(&slot), Arc::clone(&self.common)));
                    slot
                };
                slots.push(slot);
            }
            for slot in old {
                diff.removed.push(slot.name.to_string());
                work.spawn(async move { slot.close().await });
            }
        }
        while work.join_next().await.is_some() {}
        for names in [&mut diff.added, &mut diff.removed, &mut diff.changed] {
            names.sort_unstable();
        }
        diff
    }
}

/// Connects to a server when its turn comes. The turn ends when the outcome is known, or after its
/// time is up, so that a server that hangs does not hold up the others.
async fn connect_in_turn(slot: Arc<Slot>, common: Arc<RegistryContext>) {
    let turn = tokio::select! {
        turn = common.connect_permits.acquire() => turn,
        () = common.stop.cancelled() => return,
    };
    let Ok(_turn) = turn else { return };
    let Some(mut status) = slot.open(&common).map(|client| client.status()) else { return };
    let patience = if slot.is_process() { common.turn_duration } else { common.turn_duration / 4 };
    // Hold no client while waiting, so that dropping the registry drops its clients.
    drop(slot);
    let settled = status.wait_for(|status| !matches!(status, Status::Idle | Status::Connecting));
    tokio::select! {
        _ = timeout(patience, settled) => {}
        () = common.stop.cancelled() => {}
    }
}

/// Removes duplicate names: keeps the last server of a name, at the position of the first.
fn unique(servers: impl IntoIterator<Item = Server>) -> Vec<Server> {
    let mut unique: Vec<Server> = Vec::new();
    let mut places = HashMap::new();
    for server in servers {
        let place = *places.entry(server.name.clone()).or_insert(unique.len());
        if place < unique.len() {
            unique[place] = server;
        } else {
            unique.push(server);
        }
    }
    unique
}

// === impl ServerEvent ===

impl EventItem for ServerEvent {
    fn missed(count: u64) -> Self {
        Self { server: Arc::from(""), event: Event::Missed(count) }
    }
}

// === impl ServerState ===

impl ServerState {
    /// The name of the state, as shown and written to JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Disabled => "disabled",
            Self::Waiting => "waiting",
            Self::Connecting => "connecting",
            Self::Ready => "ready",
            Self::BackingOff => "backing off",
            Self::LoggingIn => "logging in",
            Self::NeedsLogin => "needs login",
            Self::Failed => "failed",
            Self::Closed => "closed",
        }
    }
}

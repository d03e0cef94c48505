//! [`Registry`]: many servers, none of which waits for another.

mod feed;
mod slot;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bowline_config::{Diff, Server};
use bowline_proto::era::Peer;
use bowline_proto::session::Status;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};

use self::slot::Slot;
use crate::client::{Builder, Client};
use crate::events::{Event, EventReceiver, EventSender};
use crate::status::Health;

pub(crate) use feed::{Fed, Feed};

/// Connections to many servers.
///
/// Cheap to clone; all clones are the same registry. Dropping the last one closes all connections in the
/// background.
///
/// # Behaviour
/// - All enabled servers are connected to from the start, so many at a time
///   ([`RegistryBuilder::at_once`]). Each then keeps itself connected; see [`Client`].
/// - A server that is slow gives way: after a moment ([`RegistryBuilder::patience`]) it goes on by itself,
///   and the next takes its turn. One that is asked for with [`Registry::get`] takes its turn at once.
/// - The hooks of a server are run on what happens to it ([`hooks`](crate::hooks)).
#[derive(Clone)]
pub struct Registry {
    inner: Arc<Inner>,
}

/// How to connect to many servers, where the defaults do not fit.
pub struct RegistryBuilder {
    at_once: usize,
    patience: Duration,
    connect: Box<Connect>,
    track_tools: bool,
    events: EventSender<Named>,
}

/// Something that happened to one of many servers.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Named {
    /// The name of the server.
    pub server: Arc<str>,
    /// What happened.
    pub event: Event,
    /// How many events of this server were lost before this one, because it said too much at once.
    pub missed: u64,
}

/// How one of many servers fares.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ServerStatus {
    /// Its name.
    pub name: Arc<str>,
    /// How it is reached: `stdio`, `http` or `sse`. As it is configured, or what was fallen back to.
    pub transport: &'static str,
    /// What it is doing.
    pub state: State,
    /// What is known of it, while it is ready: era, revision, name.
    pub peer: Option<Arc<Peer>>,
    /// When it is tried again, while it is waited for.
    pub next_attempt: Option<Instant>,
    /// How it has fared so far.
    pub health: Health,
}

/// What a server is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum State {
    /// It is not to be connected to.
    Disabled,
    /// Its turn has not come.
    Waiting,
    /// It is being connected to.
    Connecting,
    /// Calls go.
    Ready,
    /// The next attempt is waited for.
    BackingOff,
    /// A login is being had.
    LoggingIn,
    /// A person is waited for.
    NeedsLogin,
    /// Trying again cannot help.
    Failed,
    /// It was closed.
    Closed,
}

struct Inner {
    /// In configured order.
    slots: Mutex<Vec<Arc<Slot>>>,
    common: Arc<Common>,
    /// One configuration after the other.
    applying: tokio::sync::Mutex<()>,
    /// Those who wait for their turn need not any more.
    _stop: DropGuard,
}

/// What all servers share.
struct Common {
    connect: Box<Connect>,
    track_tools: bool,
    gate: Semaphore,
    patience: Duration,
    events: EventSender<Named>,
    stop: CancellationToken,
}

type Connect = dyn Fn(Server) -> Builder + Send + Sync;

// === impl Registry ===

impl Registry {
    /// Begins to connect to all of them. Of two with the same name, the later counts.
    ///
    /// Must be called within a tokio runtime.
    pub fn open(servers: impl IntoIterator<Item = Server>) -> Self {
        Self::builder().open(servers)
    }

    /// The same with other limits, a handler, or an identity of the host's own.
    pub fn builder() -> RegistryBuilder {
        RegistryBuilder {
            at_once: AT_ONCE,
            patience: PATIENCE,
            connect: Box::new(Client::builder),
            track_tools: false,
            events: EventSender::new(EVENT_BUFFER),
        }
    }

    /// The connection to a server. `None`: there is no enabled server of that name, or it is just being
    /// replaced or closed.
    pub fn get(&self, name: &str) -> Option<Client> {
        let slot = self.slots().iter().find(|slot| &*slot.name == name).cloned()?;
        slot.open(&self.inner.common)
    }

    /// The names of all servers, also of disabled ones, in configured order.
    pub fn names(&self) -> Vec<Arc<str>> {
        self.slots().iter().map(|slot| Arc::clone(&slot.name)).collect()
    }

    /// How all servers fare, in configured order.
    pub fn statuses(&self) -> Vec<ServerStatus> {
        self.slots().iter().map(|slot| slot.status()).collect()
    }

    /// What happens to any of them, in the order it happened to each, from now on. A receiver that falls far
    /// behind is told how many it missed.
    pub fn events(&self) -> EventReceiver<Named> {
        self.inner.common.events.subscribe()
    }

    /// Waits until it is known of every server whether it can be reached: none is at its first attempt any
    /// more. A server that is lost and being connected to again is waited for too.
    ///
    /// Dropping the future does nothing.
    pub async fn settled(&self) {
        let slots = self.slots().clone();
        for slot in slots {
            slot.settled().await;
        }
    }

    /// Makes these the servers. What did not change is not touched, and where only hooks changed, only they
    /// are replaced. What is gone or changed is closed, and its process ended; what is new or changed is
    /// connected to, a changed one only after its predecessor has ended.
    ///
    /// Gives what had to be touched. Dropping the future leaves it to go on in the background.
    pub async fn apply(&self, servers: impl IntoIterator<Item = Server>) -> Diff {
        let (inner, servers) = (Arc::clone(&self.inner), unique(servers));
        let applying = tokio::spawn(async move { inner.apply(servers).await });
        match applying.await {
            Ok(diff) => diff,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }

    /// Closes all connections at the same time, and waits for it: calls end, sessions are ended on their
    /// servers, processes are shut down, hooks are told what they were not told yet. Takes no longer than
    /// fifteen seconds; what is not done by then goes on in the background.
    ///
    /// Dropping the future leaves it to go on in the background.
    pub async fn close(&self) {
        self.inner.common.stop.cancel();
        // Not a set of tasks that ends with us: whoever drops the future does not want less to be closed.
        let slots = self.slots().clone();
        let closing: Vec<_> =
            slots.into_iter().map(|slot| tokio::spawn(async move { slot.close().await })).collect();
        for one in closing {
            // One that panicked has nothing left to close.
            let _ = one.await;
        }
    }

    fn slots(&self) -> MutexGuard<'_, Vec<Arc<Slot>>> {
        self.inner.slots()
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry").field("names", &self.names()).finish_non_exhaustive()
    }
}

/// How many are connected to at once. Starting processes is what costs most.
const AT_ONCE: usize = 16;
/// Most servers are ready, or refuse, sooner than this.
const PATIENCE: Duration = Duration::from_secs(1);
/// How many events a slow subscriber may fall behind.
const EVENT_BUFFER: usize = 4096;

// === impl RegistryBuilder ===

impl RegistryBuilder {
    /// How many servers have their turn at the same time (default 16, at least 1).
    #[must_use]
    pub fn at_once(mut self, servers: usize) -> Self {
        self.at_once = servers.clamp(1, Semaphore::MAX_PERMITS);
        self
    }

    /// How long a turn is (default 1 s). A server that is not ready by then goes on without it. To wait for
    /// an answer over HTTP costs less than to start a process: those turns are a quarter as long.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// How the client of each server is made, such as with a handler. It must not use the registry.
    #[must_use]
    pub fn each(mut self, connect: impl Fn(Server) -> Builder + Send + Sync + 'static) -> Self {
        self.connect = Box::new(connect);
        self
    }

    /// Looks at the tools of all servers; see [`Client::track_tools`]. Without it only those servers are
    /// looked at that have a hook for it.
    #[must_use]
    pub fn track_tools(mut self) -> Self {
        self.track_tools = true;
        self
    }

    /// What will happen, from the very first event on; see [`Registry::events`].
    pub fn events(&self) -> EventReceiver<Named> {
        self.events.subscribe()
    }

    /// Begins to connect to all of them. Of two with the same name, the later counts.
    ///
    /// Must be called within a tokio runtime.
    pub fn open(self, servers: impl IntoIterator<Item = Server>) -> Registry {
        let stop = CancellationToken::new();
        let common = Arc::new(Common {
            connect: self.connect,
            track_tools: self.track_tools,
            gate: Semaphore::new(self.at_once),
            patience: self.patience,
            events: self.events,
            stop: stop.clone(),
        });
        let slots: Vec<_> = unique(servers).into_iter().map(Slot::new).map(Arc::new).collect();
        for slot in &slots {
            tokio::spawn(take_turn(Arc::clone(slot), Arc::clone(&common)));
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
        let Self { at_once, patience, connect: _, track_tools, events: _ } = self;
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
            let mut slots = self.slots();
            let mut old = std::mem::take(&mut *slots);
            for server in servers {
                let at = old.iter().position(|slot| *slot.name == *server.name);
                let slot = if let Some(slot) = at.map(|at| old.remove(at)) {
                    if let Some(change) = slot.change(server, &self.common) {
                        diff.changed.push(slot.name.to_string());
                        work.spawn(change);
                    }
                    slot
                } else {
                    diff.added.push(server.name.clone());
                    let slot = Arc::new(Slot::new(server));
                    tokio::spawn(take_turn(Arc::clone(&slot), Arc::clone(&self.common)));
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

    fn slots(&self) -> MutexGuard<'_, Vec<Arc<Slot>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Connects to a server when its turn comes. The turn is over when the outcome of the attempt is known, or
/// when it has lasted long enough: a server that hangs must not hold up those behind it.
async fn take_turn(slot: Arc<Slot>, common: Arc<Common>) {
    let turn = tokio::select! {
        turn = common.gate.acquire() => turn,
        () = common.stop.cancelled() => return,
    };
    let Ok(_turn) = turn else { return };
    let Some(mut status) = slot.open(&common).map(|client| client.status()) else { return };
    let patience = if slot.is_process() { common.patience } else { common.patience / 4 };
    // Whoever waits here holds nothing: a registry that is dropped drops its clients.
    drop(slot);
    let settled = status.wait_for(|status| !matches!(status, Status::Idle | Status::Connecting));
    tokio::select! {
        _ = timeout(patience, settled) => {}
        () = common.stop.cancelled() => {}
    }
}

/// Each name once: the last of that name, at the place of the first.
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

// === impl State ===

impl State {
    /// In a word or two, as it is shown and written to JSON.
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

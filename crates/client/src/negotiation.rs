//! What servers were found to speak, kept for later connections (DE-09).
//!
//! A client that knows nothing of a server asks for the modern era first, which costs a legacy server a request, and
//! one of the HTTP+SSE transport three. A [`NegotiationCache`] saves that for every connection but the first. It
//! decides nothing: where a finding is out of date, the same attempt goes on as if there were none, and no call is
//! sent, or sent again, because of it.
//!
//! By default, findings are shared by all connections of the process and end with it. A [`FolderCache`] shares them
//! with other processes, and later ones.

mod folder;
mod key;
mod process;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_config::Server;
use tokio_util::task::TaskTracker;

pub use bowline_proto::session::{Carrier, Finding};
pub use folder::FolderCache;
pub use key::ServerKey;
use process::ProcessCache;

/// Keeps what was found out about servers.
///
/// A finding is kept for [`MAX_AGE`] at the most, counted from when the server was asked. After that it is asked anew, so
/// that a server which has learned the modern era is spoken to in it.
pub trait NegotiationCache: Send + Sync + 'static {
    /// What is known of a server. Called while a client is built, in the thread that builds it, so it should be quick.
    fn recall(&self, server: &ServerKey) -> Option<Finding>;

    /// Keeps what was found out, in place of what was known. Called where blocking is allowed. That it cannot be kept
    /// is no error of the connection, so there is nobody to tell.
    fn record(&self, server: &ServerKey, finding: Finding);

    /// Forgets a server: what was known of it has proved wrong. Called where blocking is allowed.
    fn forget(&self, server: &ServerKey);
}

/// How long a finding is believed.
pub const MAX_AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// How many servers a cache of this crate knows at the most.
const MAX_SERVERS: usize = 1024;

/// Which cache a connection uses.
#[derive(Clone, Default)]
pub(crate) enum Cache {
    /// That of the process.
    #[default]
    Process,
    /// That of the host.
    Given(Arc<dyn NegotiationCache>),
    /// None.
    Off,
}

/// The place of one server in the cache of its connection.
pub(crate) struct CacheEntry {
    cache: Cache,
    server: ServerKey,
    pending: Arc<Pending>,
}

/// What a cache of the host is still to be told.
#[derive(Default)]
struct Pending {
    change: Mutex<Option<Change>>,
    /// Held while the cache is told, so that of two changes the later one counts.
    applying: Mutex<()>,
}

/// The new finding; `None`, what was known is forgotten.
type Change = Option<Finding>;

impl CacheEntry {
    pub(crate) fn new(cache: Cache, server: &Server) -> Self {
        Self { cache, server: ServerKey::of(server), pending: Arc::default() }
    }

    pub(crate) fn recall(&self) -> Option<Finding> {
        match &self.cache {
            Cache::Process => ProcessCache::shared().recall(&self.server),
            Cache::Given(cache) => cache.recall(&self.server),
            Cache::Off => None,
        }
    }

    /// Keeps a finding, or forgets what was known. A cache of the host may take a while, so it gets a thread, which
    /// `tracker` waits for.
    pub(crate) fn change(&self, tracker: &TaskTracker, change: Change) {
        match &self.cache {
            Cache::Process => apply(ProcessCache::shared(), &self.server, change),
            Cache::Given(cache) => {
                *lock(&self.pending.change) = Some(change);
                let (cache, server, pending) = (Arc::clone(cache), self.server, Arc::clone(&self.pending));
                tracker.spawn_blocking(move || {
                    let _applying = lock(&pending.applying);
                    let change = lock(&pending.change).take();
                    if let Some(change) = change {
                        apply(&*cache, &server, change);
                    }
                });
            }
            Cache::Off => {}
        }
    }
}

fn apply(cache: &dyn NegotiationCache, server: &ServerKey, change: Change) {
    match change {
        Some(finding) => cache.record(server, finding),
        None => cache.forget(server),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

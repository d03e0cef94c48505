//! Caches what servers speak, for later connections.
//!
//! Without a record, a client tries the modern era first, which costs a legacy server one request,
//! and an HTTP+SSE server three. A [`NegotiationCache`] saves that for every connection but the
//! first. It decides nothing: with an outdated record the same attempt continues as if there were
//! none, and no call is sent or repeated because of it.
//!
//! By default, records are shared by all connections of the process. A [`FolderCache`] shares them
//! with other and later processes.
// DE-09

#[cfg(feature = "disk-cache")]
mod folder;
mod key;
mod process;

use std::sync::Arc;
use std::time::Duration;

use bowline_config::Server;
use parking_lot::Mutex;
use tokio_util::task::TaskTracker;

pub use bowline_proto::client::session::{NegotiationRecord, TransportKind};
#[cfg(feature = "disk-cache")]
pub use folder::FolderCache;
pub use key::ServerKey;
use process::ProcessCache;

/// Stores negotiation records of servers.
///
/// A record is kept for at most [`MAX_AGE`] since the server was probed. After that it is probed
/// again, so that an upgraded server is spoken to in the modern era.
pub trait NegotiationCache: Send + Sync + 'static {
    /// Returns the record of a server. Called in the thread that builds a client, so it should be
    /// quick.
    fn recall(&self, server: &ServerKey) -> Option<NegotiationRecord>;

    /// Stores a record in place of an earlier one. Called where blocking is allowed. A failure does
    /// not affect the connection, so it is not reported.
    fn record(&self, server: &ServerKey, finding: NegotiationRecord);

    /// Removes a record that has proved wrong. Called where blocking is allowed.
    fn forget(&self, server: &ServerKey);
}

/// Maximum age of a record.
pub const MAX_AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// Maximum number of servers in a cache of this crate.
const MAX_SERVERS: usize = 1024;

/// Which cache a connection uses.
#[derive(Clone, Default)]
pub(crate) enum CacheChoice {
    /// The cache of the process.
    #[default]
    Process,
    /// A cache of the host.
    Custom(Arc<dyn NegotiationCache>),
    /// No cache.
    Off,
}

/// The cache of a connection, for its server.
pub(crate) struct ServerCache {
    cache: CacheChoice,
    server: ServerKey,
    pending: Arc<PendingUpdate>,
}

/// The update that a cache of the host has not received yet.
#[derive(Default)]
struct PendingUpdate {
    update: Mutex<Option<CacheUpdate>>,
    /// Held while the cache is updated, so that the latest update wins.
    applying: Mutex<()>,
}

/// The new record, or `None` to remove it.
type CacheUpdate = Option<NegotiationRecord>;

impl ServerCache {
    pub(crate) fn new(cache: CacheChoice, server: &Server) -> Self {
        Self { cache, server: ServerKey::from_server(server), pending: Arc::default() }
    }

    pub(crate) fn recall(&self) -> Option<NegotiationRecord> {
        match &self.cache {
            CacheChoice::Process => ProcessCache::shared().recall(&self.server),
            CacheChoice::Custom(cache) => cache.recall(&self.server),
            CacheChoice::Off => None,
        }
    }

    /// Stores or removes a record. A cache of the host may block, so it is called on its own
    /// thread, which `tracker` waits for.
    pub(crate) fn update(&self, tracker: &TaskTracker, change: CacheUpdate) {
        match &self.cache {
            CacheChoice::Process => apply_update(ProcessCache::shared(), &self.server, change),
            CacheChoice::Custom(cache) => {
                *self.pending.update.lock() = Some(change);
                let (cache, server, pending) = (Arc::clone(cache), self.server, Arc::clone(&self.pending));
                tracker.spawn_blocking(move || {
                    let _applying = pending.applying.lock();
                    let change = pending.update.lock().take();
                    if let Some(change) = change {
                        apply_update(&*cache, &server, change);
                    }
                });
            }
            CacheChoice::Off => {}
        }
    }
}

fn apply_update(cache: &dyn NegotiationCache, server: &ServerKey, change: CacheUpdate) {
    match change {
        Some(finding) => cache.record(server, finding),
        None => cache.forget(server),
    }
}

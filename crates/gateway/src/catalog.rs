//! [`Catalog`]: what the servers offer, as last fetched, merged into the lists that hosts get.
//!
//! The lists of a server stay in the catalog while it is down, and come from a [`CatalogCache`]
//! when the gateway starts. So hosts are answered at once, whatever state the servers are in.

mod cache;
mod feed;
mod names;
mod profiles;
mod snapshot;
mod uris;

use std::sync::Arc;
use std::time::Duration;

use bowline::Server;
use bowline::negotiation::ServerKey;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::timeout;

pub use cache::{CatalogCache, CatalogKey, FolderCatalog};
pub(crate) use feed::feed;
pub use names::Naming;
pub(crate) use profiles::Catalogs;
pub use profiles::Profile;
pub(crate) use snapshot::{Snapshot, Target};

use bowline::Json;
use serde::{Deserialize, Serialize};

/// One of the lists that a host can request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ListKind {
    Tools,
    Prompts,
    Resources,
    Templates,
}

impl ListKind {
    /// Every list, in the order of their index.
    pub(crate) const ALL: [Self; 4] = [Self::Tools, Self::Prompts, Self::Resources, Self::Templates];

    pub(crate) fn index(self) -> usize {
        match self {
            Self::Tools => 0,
            Self::Prompts => 1,
            Self::Resources => 2,
            Self::Templates => 3,
        }
    }
}

/// What one server offers, as last fetched. Everything in it is untrusted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerLists {
    /// Its instructions for the model.
    #[serde(default)]
    pub instructions: Option<String>,
    /// Its tools, as it wrote them.
    pub tools: Vec<Json>,
    /// Its prompts, as it wrote them.
    pub prompts: Vec<Json>,
    /// Its resources, as it wrote them.
    pub resources: Vec<Json>,
    /// Its resource templates, as it wrote them.
    pub templates: Vec<Json>,
}

impl ServerLists {
    fn list(&self, kind: ListKind) -> &[Json] {
        match kind {
            ListKind::Tools => &self.tools,
            ListKind::Prompts => &self.prompts,
            ListKind::Resources => &self.resources,
            ListKind::Templates => &self.templates,
        }
    }
}

/// Whether the lists of a server are those that it has now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Freshness {
    /// They were fetched over the connection that stands.
    Fresh,
    /// The server is being connected, or its lists are being fetched.
    Pending,
    /// They could not be fetched, for this reason.
    Stale(Box<str>),
}

/// The lists of all servers.
#[derive(Debug)]
pub(crate) struct Catalog {
    naming: Naming,
    cache: Option<Arc<dyn CatalogCache>>,
    state: Mutex<State>,
    /// Counts changes of any kind, for those who wait for one.
    changes: watch::Sender<u64>,
}

#[derive(Debug)]
struct State {
    servers: Vec<Entry>,
    snapshot: Arc<Snapshot>,
    /// Whether a server's lists have changed since the snapshot was made.
    is_outdated: bool,
}

#[derive(Debug)]
struct Entry {
    name: Arc<str>,
    key: CatalogKey,
    /// `None` until the lists were fetched for the first time.
    lists: Option<Arc<ServerLists>>,
    freshness: Freshness,
    /// Held by the one connection to the server that keeps its lists up to date.
    feed_lock: Arc<tokio::sync::Mutex<()>>,
}

impl Catalog {
    /// Creates the catalog of these servers for hosts with this profile, with what the cache has of
    /// them.
    pub(crate) fn new(
        servers: &[Server],
        profile: Profile,
        naming: Naming,
        cache: Option<Arc<dyn CatalogCache>>,
    ) -> Self {
        let servers = servers.iter().map(|server| {
            let key = CatalogKey { server: ServerKey::from_server(server), profile };
            Entry {
                name: server.name.as_str().into(),
                key,
                lists: cache.as_ref().and_then(|cache| cache.load(&key)).map(Arc::new),
                freshness: Freshness::Pending,
                feed_lock: Arc::default(),
            }
        });
        let state = State { servers: servers.collect(), snapshot: Arc::default(), is_outdated: true };
        Self { naming, cache, state: Mutex::new(state), changes: watch::Sender::default() }
    }

    /// A catalog with these lists, as if they had been fetched.
    #[cfg(test)]
    pub(crate) fn with_lists(servers: &[(&str, serde_json::Value)], naming: Naming) -> Self {
        let configured: Vec<_> =
            servers.iter().map(|(name, _)| Server::stdio(*name, *name).build().unwrap()).collect();
        let catalog = Self::new(&configured, Profile::default(), naming, None);
        for (name, lists) in servers {
            catalog.replace(name, serde_json::from_str(&lists.to_string()).unwrap());
        }
        catalog
    }

    /// The merged lists, as of now.
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        let mut state = self.state.lock();
        if state.is_outdated {
            let servers: Vec<_> = state
                .servers
                .iter()
                .filter_map(|entry| Some((Arc::clone(&entry.name), Arc::clone(entry.lists.as_ref()?))))
                .collect();
            state.snapshot = Arc::new(Snapshot::build(&servers, self.naming, &state.snapshot));
            state.is_outdated = false;
        }
        Arc::clone(&state.snapshot)
    }

    /// The servers whose lists are not fresh, and why; all of them are in the configured order.
    pub(crate) fn stale_servers(&self) -> Vec<(Arc<str>, Freshness)> {
        let state = self.state.lock();
        let outdated = state.servers.iter().filter(|entry| entry.freshness != Freshness::Fresh);
        outdated.map(|entry| (Arc::clone(&entry.name), entry.freshness.clone())).collect()
    }

    /// Waits at most `limit` until each server's lists are known, from the cache or the server, or
    /// the server turned out to be down.
    pub(crate) async fn wait_until_known(&self, limit: Duration) {
        let mut changes = self.changes.subscribe();
        let known = async {
            loop {
                changes.borrow_and_update();
                let is_known =
                    |entry: &Entry| entry.lists.is_some() || matches!(entry.freshness, Freshness::Stale(_));
                if self.state.lock().servers.iter().all(is_known) || changes.changed().await.is_err() {
                    return;
                }
            }
        };
        let _ = timeout(limit, known).await;
    }

    /// Tells of every change of a list or of its freshness.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// The lock of the connection that keeps the lists of a server up to date.
    fn feed_lock(&self, server: &str) -> Option<Arc<tokio::sync::Mutex<()>>> {
        let state = self.state.lock();
        state.servers.iter().find(|entry| *entry.name == *server).map(|entry| Arc::clone(&entry.feed_lock))
    }

    /// Replaces the lists of a server, which are fresh.
    fn replace(&self, server: &str, lists: ServerLists) {
        let saved = self.with_entry(server, |entry| {
            entry.freshness = Freshness::Fresh;
            if entry.lists.as_deref() == Some(&lists) {
                return (None, false);
            }
            let lists = Arc::new(lists);
            entry.lists = Some(Arc::clone(&lists));
            (Some((entry.key, lists)), true)
        });
        if let (Some(cache), Some(Some((key, lists)))) = (&self.cache, saved) {
            let cache = Arc::clone(cache);
            tokio::task::spawn_blocking(move || cache.save(&key, &lists));
        }
    }

    fn set_freshness(&self, server: &str, freshness: Freshness) {
        self.with_entry(server, |entry| {
            entry.freshness = freshness;
            ((), false)
        });
    }

    /// Edits one entry. The closure also returns whether the lists have changed.
    fn with_entry<T>(&self, server: &str, edit: impl FnOnce(&mut Entry) -> (T, bool)) -> Option<T> {
        let mut state = self.state.lock();
        let entry = state.servers.iter_mut().find(|entry| *entry.name == *server)?;
        let (value, has_changed) = edit(entry);
        state.is_outdated |= has_changed;
        drop(state);
        self.changes.send_modify(|count| *count += 1);
        Some(value)
    }
}

//! [`KnownLists`]: what the servers offered to earlier sessions, and what sessions can share.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bowline::Server;
use bowline::negotiation::ServerKey;
use parking_lot::Mutex;

use super::exposed_lists::ExposedLists;
use super::{CatalogCache, CatalogKey, NameOwners, Naming, Profile, ServerLists, Snapshot};
use crate::view::HostView;

/// What the servers offered to earlier sessions, by the kind of host.
#[derive(Debug)]
pub(crate) struct KnownLists {
    servers: Vec<Server>,
    naming: Naming,
    cache: Option<Arc<dyn CatalogCache>>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    lists: HashMap<(usize, Profile), Arc<ServerLists>>,
    /// The servers that have asked a host of a kind something.
    asking: HashSet<(usize, Profile)>,
    /// Which tool had which plain name.
    owners: NameOwners,
    /// The latest snapshot of each view, by its name, and what it was made of: sessions that see the
    /// same share it.
    latest: HashMap<Box<str>, (Vec<NamedLists>, Arc<Snapshot>)>,
}

/// The lists of a server, with its name.
type NamedLists = (Arc<str>, Arc<ServerLists>);

/// Most lists in memory. Each is that of one server for one kind of host.
const MAX_LISTS: usize = 1_000;

impl KnownLists {
    /// Begins with what the cache has.
    pub(crate) fn new(servers: Vec<Server>, naming: Naming, cache: Option<Arc<dyn CatalogCache>>) -> Self {
        let owners = cache.as_ref().map(|cache| cache.load_names()).unwrap_or_default();
        let state = State { lists: HashMap::new(), asking: HashSet::new(), owners, latest: HashMap::new() };
        Self { servers, naming, cache, state: Mutex::new(state) }
    }

    /// The servers, in the configured order.
    pub(crate) fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// What the server at this position offered to the last host of this kind.
    pub(super) fn get(&self, at: usize, profile: Profile) -> Option<Arc<ServerLists>> {
        let known = self.state.lock().lists.get(&(at, profile)).cloned();
        known.or_else(|| {
            let lists = Arc::new(self.cache.as_ref()?.load(&self.key(at, profile))?);
            self.state.lock().insert(at, profile, Arc::clone(&lists));
            Some(lists)
        })
    }

    /// Remembers what a server offers, and returns the same lists, shared with other sessions if
    /// they have them.
    pub(super) fn remember(&self, at: usize, profile: Profile, lists: Arc<ServerLists>) -> Arc<ServerLists> {
        let mut state = self.state.lock();
        let mut lists = lists;
        if state.asking.contains(&(at, profile)) {
            Arc::make_mut(&mut lists).has_asked = true;
        }
        if let Some(known) = state.lists.get(&(at, profile)) {
            if known.has_asked && !lists.has_asked {
                Arc::make_mut(&mut lists).has_asked = true;
            }
            if **known == *lists {
                return Arc::clone(known);
            }
        }
        state.insert(at, profile, Arc::clone(&lists));
        drop(state);
        self.save(at, profile, &lists);
        lists
    }

    /// Remembers that a server has asked a host of this kind something.
    pub(crate) fn remember_question(&self, at: usize, profile: Profile) {
        let mut state = self.state.lock();
        if !state.asking.insert((at, profile)) {
            return;
        }
        let Some(known) = state.lists.get_mut(&(at, profile)).filter(|known| !known.has_asked) else {
            return;
        };
        Arc::make_mut(known).has_asked = true;
        let lists = Arc::clone(known);
        drop(state);
        self.save(at, profile, &lists);
    }

    fn save(&self, at: usize, profile: Profile, lists: &Arc<ServerLists>) {
        if let Some(cache) = self.cache.clone() {
            let (key, lists) = (self.key(at, profile), Arc::clone(lists));
            tokio::task::spawn_blocking(move || cache.save(&key, &lists));
        }
    }

    /// The merged lists of these servers, as far as the view shows them. Sessions with the same lists
    /// and view get the same snapshot.
    pub(super) fn snapshot(&self, servers: &[NamedLists], view: &HostView) -> Arc<Snapshot> {
        let mut state = self.state.lock();
        if let Some((made_of, snapshot)) = state.latest.get(view.name())
            && made_of.len() == servers.len()
            && made_of.iter().zip(servers).all(|(old, new)| old.0 == new.0 && Arc::ptr_eq(&old.1, &new.1))
        {
            return Arc::clone(snapshot);
        }
        let configured: Vec<_> = self.servers.iter().map(|server| server.name.as_str()).collect();
        let exposed: Vec<_> = servers
            .iter()
            .filter_map(|(name, lists)| {
                let server = self.servers.iter().find(|server| *server.name == **name)?;
                Some(ExposedLists::new(name, lists, &server.exposure))
            })
            .collect();
        let before = state.owners.len();
        let naming = (self.naming, &mut state.owners);
        let snapshot = Arc::new(Snapshot::build(&exposed, &configured, naming, view));
        state.latest.insert(view.name().into(), (servers.to_vec(), Arc::clone(&snapshot)));
        let new_owners = (state.owners.len() > before).then(|| state.owners.clone());
        drop(state);
        if let (Some(cache), Some(owners)) = (self.cache.clone(), new_owners) {
            tokio::task::spawn_blocking(move || cache.save_names(&owners));
        }
        snapshot
    }

    fn key(&self, at: usize, profile: Profile) -> CatalogKey {
        CatalogKey { server: ServerKey::from_server(&self.servers[at]), profile }
    }
}

impl State {
    fn insert(&mut self, at: usize, profile: Profile, lists: Arc<ServerLists>) {
        if self.lists.len() >= MAX_LISTS {
            // They can be read from the cache again.
            self.lists.clear();
        }
        self.lists.insert((at, profile), lists);
    }
}

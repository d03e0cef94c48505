//! [`KnownLists`]: what the servers offered to earlier sessions, and what sessions can share.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bowline::Server;
use bowline::negotiation::ServerKey;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::cache_writer::CacheWriter;
use super::exposed_lists::ExposedLists;
use super::{CatalogCache, CatalogKey, ListKind, NameOwners, Naming, Profile, ServerLists, Snapshot};
use crate::fleet::{Fleet, FleetServer, Reload, ServerId, ServerIds};
use crate::view::HostView;

/// The configured servers, and what they offered to earlier sessions, by the kind of host.
#[derive(Debug)]
pub(crate) struct KnownLists {
    /// Changed only while `state` is locked.
    fleet: watch::Sender<Arc<Fleet>>,
    naming: Naming,
    cache: Option<CacheWriter>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    ids: ServerIds,
    /// Of servers of the fleet only.
    lists: HashMap<(ServerId, Profile), Arc<ServerLists>>,
    /// The servers of the fleet that have asked a host of a kind something.
    asking: HashSet<(ServerId, Profile)>,
    /// Which tool had which plain name. A reload forgets nothing of it.
    owners: NameOwners,
    /// The latest snapshot of each view, by its name: sessions that see the same share it.
    latest: HashMap<Box<str>, LatestSnapshot>,
}

#[derive(Debug)]
struct LatestSnapshot {
    fleet: Arc<Fleet>,
    view: Arc<HostView>,
    made_of: Vec<OfferedLists>,
    snapshot: Arc<Snapshot>,
}

/// A server, and its lists.
pub(super) type OfferedLists = (Arc<FleetServer>, Arc<ServerLists>);

/// Most lists in memory. Each is that of one server for one kind of host.
const MAX_LISTS: usize = 1_000;

impl KnownLists {
    /// Begins with what the cache has.
    pub(crate) fn new(servers: Vec<Server>, naming: Naming, cache: Option<Arc<dyn CatalogCache>>) -> Self {
        let mut ids = ServerIds::default();
        let fleet = Arc::new(Fleet::default().reload(servers, &mut ids).fleet);
        let owners = cache.as_deref().map(CatalogCache::load_names).unwrap_or_default();
        let cache = cache.map(CacheWriter::new);
        let state =
            State { ids, lists: HashMap::new(), asking: HashSet::new(), owners, latest: HashMap::new() };
        Self { fleet: watch::Sender::new(fleet), naming, cache, state: Mutex::new(state) }
    }

    /// How tools and prompts are named.
    pub(crate) fn naming(&self) -> Naming {
        self.naming
    }

    /// The configured servers.
    pub(crate) fn fleet(&self) -> Arc<Fleet> {
        Arc::clone(&self.fleet.borrow())
    }

    /// Tells of every other fleet.
    pub(crate) fn watch_fleet(&self) -> watch::Receiver<Arc<Fleet>> {
        self.fleet.subscribe()
    }

    /// Takes over these servers. Returns what has changed, and the ids that are no longer in use.
    pub(crate) fn reload(&self, servers: Vec<Server>) -> (Reload, Vec<ServerId>) {
        let mut state = self.state.lock();
        let before = self.fleet();
        let change = before.reload(servers, &mut state.ids);
        if !change.is_different {
            return (change.reload, Vec::new());
        }
        let fleet = Arc::new(change.fleet);
        for lost in &change.lost {
            // A server that is reached as before offers what it did, until it says otherwise.
            let successor = fleet.find(&lost.config.name).filter(|next| is_reached_alike(lost, next));
            state.hand_over(lost.id, successor.map(|next| next.id));
        }
        state.latest.clear();
        self.fleet.send_replace(fleet);
        (change.reload, change.lost.iter().map(|lost| lost.id).collect())
    }

    /// What a server offered to the last host of this kind.
    pub(crate) fn get(&self, server: &FleetServer, profile: Profile) -> Option<Arc<ServerLists>> {
        let known = self.state.lock().lists.get(&(server.id, profile)).cloned();
        known.or_else(|| {
            let lists = Arc::new(self.cache.as_ref()?.cache().load(&key(server, profile))?);
            let mut state = self.state.lock();
            // Remembered while the cache was read.
            if let Some(newer) = state.lists.get(&(server.id, profile)) {
                return Some(Arc::clone(newer));
            }
            if self.fleet.borrow().contains(server.id) {
                state.insert(server.id, profile, Arc::clone(&lists));
            }
            Some(lists)
        })
    }

    /// Remembers these kinds of lists that a server offers. Those of other kinds stay as they were known. Returns what is
    /// known then, shared with other sessions if they have the same.
    pub(super) fn remember(
        &self,
        server: &FleetServer,
        profile: Profile,
        lists: Arc<ServerLists>,
        kinds: &[ListKind],
    ) -> Arc<ServerLists> {
        let of = (server.id, profile);
        let is_whole = ListKind::ALL.iter().all(|kind| kinds.contains(kind));
        // Read from the cache, if need be, before the lock.
        let cached = if is_whole { None } else { self.get(server, profile) };
        let mut state = self.state.lock();
        let mut lists = if is_whole {
            lists
        } else {
            let known = state.lists.get(&of).or(cached.as_ref());
            Arc::new(merge_known_lists(&lists, kinds, known.map(|known| &**known)))
        };
        if !self.fleet.borrow().contains(server.id) {
            return lists;
        }
        if state.asking.contains(&of) {
            Arc::make_mut(&mut lists).has_asked = true;
        }
        if let Some(known) = state.lists.get(&of) {
            if known.has_asked && !lists.has_asked {
                Arc::make_mut(&mut lists).has_asked = true;
            }
            if **known == *lists {
                return Arc::clone(known);
            }
        }
        state.insert(server.id, profile, Arc::clone(&lists));
        // While the state is locked: saves are queued in the order of the changes.
        self.save(server, profile, &lists);
        lists
    }

    /// Remembers that a server has asked a host of this kind something.
    pub(crate) fn remember_question(&self, server: &FleetServer, profile: Profile) {
        let of = (server.id, profile);
        let mut state = self.state.lock();
        if !self.fleet.borrow().contains(server.id) || !state.asking.insert(of) {
            return;
        }
        let Some(known) = state.lists.get_mut(&of).filter(|known| !known.has_asked) else {
            return;
        };
        Arc::make_mut(known).has_asked = true;
        let lists = Arc::clone(known);
        self.save(server, profile, &lists);
    }

    fn save(&self, server: &FleetServer, profile: Profile, lists: &Arc<ServerLists>) {
        if let Some(cache) = &self.cache {
            cache.save(key(server, profile), Arc::clone(lists));
        }
    }

    /// The merged lists of these servers of a fleet, as far as the view shows them. Sessions with the
    /// same lists and view get the same snapshot.
    pub(super) fn snapshot(
        &self,
        fleet: &Arc<Fleet>,
        servers: &[OfferedLists],
        view: &Arc<HostView>,
    ) -> Arc<Snapshot> {
        let mut state = self.state.lock();
        if let Some(latest) = state.latest.get(view.name())
            && Arc::ptr_eq(&latest.view, view)
            && latest.is_made_of(fleet, servers)
        {
            return Arc::clone(&latest.snapshot);
        }
        let configured: Vec<_> = fleet.iter().map(|server| server.config.name.as_str()).collect();
        let exposed: Vec<_> = servers
            .iter()
            .map(|(server, lists)| {
                ExposedLists::new(&server.config.name.as_str().into(), lists, &server.config.exposure)
            })
            .collect();
        let before = state.owners.len();
        let naming = (self.naming, &mut state.owners);
        let snapshot = Arc::new(Snapshot::build(&exposed, &configured, naming, view));
        let (fleet, made_of) = (Arc::clone(fleet), servers.to_vec());
        let latest =
            LatestSnapshot { fleet, view: Arc::clone(view), made_of, snapshot: Arc::clone(&snapshot) };
        state.latest.insert(view.name().into(), latest);
        let new_owners = (state.owners.len() > before).then(|| state.owners.clone());
        drop(state);
        if let (Some(cache), Some(owners)) = (&self.cache, new_owners) {
            cache.save_names(owners);
        }
        snapshot
    }
}

impl State {
    fn insert(&mut self, server: ServerId, profile: Profile, lists: Arc<ServerLists>) {
        if self.lists.len() >= MAX_LISTS {
            // They can be read from the cache again.
            self.lists.clear();
        }
        self.lists.insert((server, profile), lists);
    }

    /// Forgets a server that is no longer configured, or remembers all of it as that of its
    /// successor.
    fn hand_over(&mut self, lost: ServerId, successor: Option<ServerId>) {
        let lists: Vec<_> = self.lists.extract_if(|(server, _), _| *server == lost).collect();
        let asking: Vec<_> = self.asking.extract_if(|(server, _)| *server == lost).collect();
        if let Some(successor) = successor {
            self.lists.extend(lists.into_iter().map(|((_, profile), lists)| ((successor, profile), lists)));
            self.asking.extend(asking.into_iter().map(|(_, profile)| (successor, profile)));
        }
    }
}

impl LatestSnapshot {
    fn is_made_of(&self, fleet: &Arc<Fleet>, servers: &[OfferedLists]) -> bool {
        let is_same =
            |old: &OfferedLists, new: &OfferedLists| old.0.id == new.0.id && Arc::ptr_eq(&old.1, &new.1);
        Arc::ptr_eq(&self.fleet, fleet)
            && self.made_of.len() == servers.len()
            && self.made_of.iter().zip(servers).all(|(old, new)| is_same(old, new))
    }
}

/// These kinds of `lists`, and the other kinds as far as they are in `known`.
fn merge_known_lists(lists: &ServerLists, kinds: &[ListKind], known: Option<&ServerLists>) -> ServerLists {
    let mut merged = lists.clone();
    for kind in ListKind::ALL.into_iter().filter(|kind| !kinds.contains(kind)) {
        merged.set_list(kind, Vec::new());
    }
    merged.unfetched = ListKind::ALL.into_iter().filter(|kind| !kinds.contains(kind)).collect();
    if let Some(known) = known {
        merged.add_unfetched(known);
    }
    merged
}

fn key(server: &FleetServer, profile: Profile) -> CatalogKey {
    CatalogKey { server: ServerKey::from_server(&server.config), profile }
}

/// Whether two configurations of a server lead to the same endpoint or command.
fn is_reached_alike(one: &FleetServer, other: &FleetServer) -> bool {
    ServerKey::from_server(&one.config) == ServerKey::from_server(&other.config)
}

#[cfg(test)]
mod tests {
    use bowline::Json;
    use bowline_config::TransportSettings as _;

    use super::*;

    fn server(name: &str, url: &str) -> Server {
        Server::http(name, url).build().unwrap()
    }

    /// What is known of servers that are gone does not pile up, and what is known of a server that is
    /// reached as before is known at once.
    #[test]
    fn a_reload_keeps_what_is_known_of_the_same_endpoint() {
        let [one, two] = [server("one", "http://h/1"), server("two", "http://h/2")];
        let known = KnownLists::new(vec![one.clone(), two.clone()], Naming::default(), None);
        let profile = Profile::default();
        let before = known.fleet();
        let lists = Arc::new(ServerLists { instructions: Some("i".into()), ..ServerLists::default() });
        for server in before.iter() {
            known.remember(server, profile, Arc::clone(&lists), &ListKind::ALL);
            known.remember_question(server, profile);
        }
        let (reload, lost) =
            known.reload(vec![one.with_header("a", "b").unwrap(), server("two", "http://h/3")]);
        assert_eq!((reload.changed.len(), lost.len()), (2, 2));
        let after = known.fleet();
        let offered = |name: &str| known.get(after.find(name).unwrap(), profile);
        assert!(offered("one").is_some_and(|lists| lists.has_asked));
        assert_eq!(offered("two"), None);
        // News of a connection that ends is not remembered.
        let old = before.find("two").unwrap();
        known.remember(old, profile, Arc::clone(&lists), &ListKind::ALL);
        known.remember_question(old, profile);
        assert_eq!(known.get(old, profile), None);
        assert!(known.reload(Vec::new()).0.unchanged == 0);
        let state = known.state.lock();
        assert_eq!((state.lists.len(), state.asking.len()), (0, 0));
    }

    /// A session that is about to follow a reload does not pass its lists on to one that has followed.
    #[test]
    fn snapshots_are_shared_by_sessions_of_the_same_fleet() {
        let [one, files] = [server("one", "http://h/1"), server("files", "http://h/2")];
        let known = KnownLists::new(vec![one.clone()], Naming::default(), None);
        let tool = Json::parse(r#"{"name":"files__delete"}"#).unwrap();
        let lists = Arc::new(ServerLists { tools: vec![tool], ..ServerLists::default() });
        let before = known.fleet();
        let offered = [(Arc::clone(before.find("one").unwrap()), lists)];
        let view = Arc::<HostView>::default();
        let exposes =
            |fleet| known.snapshot(fleet, &offered, &view).named(ListKind::Tools, "files__delete").is_some();
        assert!(exposes(&before));
        assert!(Arc::ptr_eq(
            &known.snapshot(&before, &offered, &view),
            &known.snapshot(&before, &offered, &view)
        ));
        known.reload(vec![one, files]);
        assert!(exposes(&before));
        assert!(!exposes(&known.fleet()), "it looks like a tool of the new server");
    }

    #[test]
    fn a_reload_without_a_difference_is_no_news() {
        let known = KnownLists::new(vec![server("one", "http://h/1")], Naming::default(), None);
        let fleet = known.watch_fleet();
        let (reload, lost) = known.reload(vec![server("one", "http://h/1")]);
        assert!(reload.is_empty() && lost.is_empty());
        assert!(!fleet.has_changed().unwrap());
    }
}

//! [`Catalog`]: what the servers offer to one session of a host, merged into the lists that it gets.
//!
//! The lists of a server stay in the catalog while it is down, and are at first those that a host
//! of the same kind got when it connected last. So hosts are answered at once, whatever state the
//! servers are in.

mod cache;
mod cache_writer;
mod exposed_lists;
mod feed;
mod known_lists;
mod list_fetches;
mod list_writer;
mod name_owners;
mod names;
mod profile;
mod server_lists;
mod snapshot;
mod uris;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bowline::Json;
use bowline::config::ToolPattern;
use bowline::types::method;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

pub use cache::{CatalogCache, CatalogKey, FolderCatalog, SavedLists};
pub(crate) use feed::{FeedTarget, ServerFeed, feed};
pub(crate) use known_lists::KnownLists;
pub use name_owners::NameOwners;
pub use names::Naming;
pub use profile::Profile;
pub use server_lists::{ServerLists, TaskOffer};
pub(crate) use snapshot::{Snapshot, SoleServer, Target};

use crate::fleet::{Fleet, FleetServer, ServerId};
use crate::view::HostView;

/// One of the lists that a host can request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ListKind {
    /// `tools/list`.
    Tools,
    /// `prompts/list`.
    Prompts,
    /// `resources/list`.
    Resources,
    /// `resources/templates/list`.
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

    /// The method that requests it.
    pub(crate) fn method(self) -> &'static str {
        match self {
            Self::Tools => method::TOOLS_LIST,
            Self::Prompts => method::PROMPTS_LIST,
            Self::Resources => method::RESOURCES_LIST,
            Self::Templates => method::TEMPLATES_LIST,
        }
    }

    /// The list that a method requests, if it requests one.
    pub(crate) fn of_method(asked: &str) -> Option<Self> {
        Some(match asked {
            method::TOOLS_LIST => Self::Tools,
            method::PROMPTS_LIST => Self::Prompts,
            method::RESOURCES_LIST => Self::Resources,
            method::TEMPLATES_LIST => Self::Templates,
            _ => return None,
        })
    }

    /// What people call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
            Self::Templates => "templates",
        }
    }

    /// The capability of servers that have such a list.
    fn capability(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources | Self::Templates => "resources",
        }
    }

    /// Whether a server with these capabilities has such a list.
    pub(crate) fn is_declared(self, capabilities: &Json) -> bool {
        capabilities.member(self.capability()).is_some()
    }
}

/// Whether the lists of a server are those that it has now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Freshness {
    /// They were fetched over the connection that stands, or over one that was closed for being idle.
    Fresh,
    /// The server is being connected, or its lists are being fetched.
    #[default]
    Pending,
    /// The server is connected to when it is called, and was not yet.
    Dormant,
    /// This list is being fetched, while others of the server are there.
    Late,
    /// They could not be fetched, for this reason.
    Stale(Box<str>),
}

impl Freshness {
    /// Why a list of this kind may differ from the one that the server has now, as a sentence. `None` if it is that one.
    pub(crate) fn reason(&self, kind: ListKind) -> Option<Cow<'_, str>> {
        match self {
            Self::Fresh => None,
            Self::Pending => Some("it has not answered yet".into()),
            Self::Dormant => Some("it is not running; a call starts it".into()),
            Self::Late => Some(format!("`{}` has not been answered yet", kind.method()).into()),
            Self::Stale(why) => Some((&**why).into()),
        }
    }
}

/// The lists of all servers, for one session of a host.
#[derive(Debug)]
pub(crate) struct Catalog {
    known: Arc<KnownLists>,
    profile: Profile,
    /// How long the lists of the only server are waited for once it has answered.
    list_wait: Duration,
    state: Mutex<State>,
    /// Counts changes of any kind, for those who wait for one.
    changes: watch::Sender<u64>,
}

#[derive(Debug)]
struct State {
    /// The servers that are in the catalog.
    fleet: Arc<Fleet>,
    /// The part of the servers that the host sees.
    view: Arc<HostView>,
    /// In the configured order.
    servers: Vec<Entry>,
    snapshot: Arc<Snapshot>,
    /// Whether a server's lists have changed since the snapshot was made.
    is_outdated: bool,
}

#[derive(Debug)]
struct Entry {
    server: Arc<FleetServer>,
    /// Since when the server is in the catalog.
    since: Instant,
    /// When lists of a connection to the server came first.
    answered: Option<Instant>,
    /// `None` until lists were fetched for the first time.
    lists: Option<Arc<ServerLists>>,
    /// By [`ListKind::index`].
    freshness: [Freshness; 4],
    /// Since when each list is not fresh, if it is not, by [`ListKind::index`].
    stale_since: [SystemTime; 4],
    /// Whether `lists` are the empty ones of a loop: [`ServerFeed::is_loop`].
    is_loop: bool,
}

/// Lists that a host gets from the catalog, since their server cannot be asked or was not yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaleLists {
    /// The name of the server.
    pub server: String,
    /// Which of its lists: `tools`, `prompts`, `resources` or `templates`. None if nothing is known of the server.
    pub lists: Vec<&'static str>,
    /// Since when they come from the catalog.
    pub since: SystemTime,
    /// Why, as a sentence, or one for each of the lists.
    pub reason: Box<str>,
}

impl Catalog {
    /// Creates the catalog of a session with a host of this kind and view, without servers. What is
    /// known of servers that the view hides decides about names, and is not shown.
    pub(crate) fn new(known: &Arc<KnownLists>, profile: Profile, list_wait: Duration) -> Self {
        let state = State {
            fleet: Arc::default(),
            view: Arc::default(),
            servers: Vec::new(),
            snapshot: Arc::default(),
            is_outdated: true,
        };
        Self {
            known: Arc::clone(known),
            profile,
            list_wait,
            state: Mutex::new(state),
            changes: watch::Sender::default(),
        }
    }

    /// Takes over the servers of another fleet. What is known of a server that stays is kept. The
    /// lists of one whose configuration has changed stay until it offers others, so that a host does
    /// not hear of tools that go and come back.
    pub(crate) fn set_fleet(&self, fleet: &Arc<Fleet>, view: &Arc<HostView>) {
        let mut state = self.state.lock();
        let entries = std::mem::take(&mut state.servers).into_iter();
        let mut before: HashMap<ServerId, Entry> = entries.map(|entry| (entry.server.id, entry)).collect();
        let next: Vec<_> = fleet.iter().map(|server| (server, before.remove(&server.id))).collect();
        state.servers = next
            .into_iter()
            .map(|(server, entry)| {
                entry.unwrap_or_else(|| {
                    let is_earlier = |entry: &&Entry| {
                        entry.server.config.name == server.config.name && entry.lists.is_some()
                    };
                    let earlier = before.values().find(is_earlier);
                    let lists = earlier.and_then(|entry| entry.lists.clone());
                    Entry {
                        server: Arc::clone(server),
                        since: Instant::now(),
                        answered: None,
                        lists: lists.or_else(|| self.known.get(server, self.profile)),
                        freshness: ListKind::ALL.map(|_| Freshness::Pending),
                        stale_since: [SystemTime::now(); 4],
                        is_loop: earlier.is_some_and(|entry| entry.is_loop),
                    }
                })
            })
            .collect();
        state.fleet = Arc::clone(fleet);
        state.view = Arc::clone(view);
        state.is_outdated = true;
        drop(state);
        self.changes.send_modify(|count| *count += 1);
    }

    /// A catalog with these lists, as if they had been fetched.
    #[cfg(test)]
    pub(crate) fn with_lists(servers: &[(&str, serde_json::Value)], naming: Naming) -> Self {
        let configured =
            servers.iter().map(|(name, _)| bowline::Server::stdio(*name, *name).build().unwrap()).collect();
        let known = Arc::new(KnownLists::new(configured, naming, None));
        let catalog = Self::new(&known, Profile::default(), Duration::ZERO);
        catalog.set_fleet(&known.fleet(), &Arc::default());
        for (server, (_, lists)) in known.fleet().iter().zip(servers) {
            let lists = Some(Arc::new(serde_json::from_str(&lists.to_string()).unwrap()));
            catalog.update(server.id, ServerFeed::uniform(lists, Freshness::Fresh));
        }
        catalog
    }

    /// A catalog with the tools of one server, which was connected and is not any more.
    #[cfg(test)]
    pub(crate) fn with_stale_list(server: &str, why: &str) -> Self {
        let tools = serde_json::json!({
            "capabilities": {"tools": {}}, "tools": [{"name": "echo"}], "prompts": [], "resources": [], "templates": [],
        });
        let catalog = Self::with_lists(&[(server, tools)], Naming::default());
        let id = catalog.known.fleet().iter().next().expect("one server").id;
        catalog.update(id, ServerFeed::uniform(None, Freshness::Stale(why.into())));
        catalog
    }

    /// The merged lists, as of now, as far as the view shows them. Nothing else is found in them.
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        let mut state = self.state.lock();
        if state.is_outdated {
            let servers: Vec<_> = state
                .servers
                .iter()
                .filter_map(|entry| Some((Arc::clone(&entry.server), Arc::clone(entry.lists.as_ref()?))))
                .collect();
            state.snapshot = self.known.snapshot(&state.fleet, &servers, &state.view);
            state.is_outdated = false;
        }
        Arc::clone(&state.snapshot)
    }

    /// The names of the servers of the view of which a list is not fresh, and why, in the configured order.
    pub(crate) fn stale_servers(&self) -> Vec<(String, Box<str>)> {
        let state = self.state.lock();
        let lists = state.shown().filter_map(Entry::stale_lists);
        lists.map(|lists| (lists.server, lists.reason)).collect()
    }

    /// The lists of the view that come from the catalog, in the configured order of their servers.
    pub(crate) fn stale_lists(&self) -> Vec<StaleLists> {
        let state = self.state.lock();
        state.shown().filter_map(Entry::stale_lists).collect()
    }

    /// The name of the first server of the view whose list of this kind was never known and may be shown, and why it is
    /// not known. A server that still hangs counts as one that is down.
    pub(crate) fn unlisted_server(&self, kind: ListKind) -> Option<(String, Box<str>)> {
        let state = self.state.lock();
        let mut unlisted = state.shown().filter(|entry| !entry.knows(kind));
        unlisted.find_map(|entry| {
            let why =
                entry.freshness[kind.index()].reason(kind).filter(|_| state.may_show(&entry.server, kind))?;
            Some((entry.server.config.name.clone(), why.into_owned().into()))
        })
    }

    /// Waits until every list of each server of the view is known, from the server or, if any is, from an earlier session,
    /// or the server turned out to be down; for each at most until it is in the catalog for `limit`. A list that takes
    /// much longer than others of its server is not waited for.
    pub(crate) async fn wait_until_known(&self, limit: Duration) {
        self.wait(|entry| match (&entry.lists, entry.answered) {
            (None, _) => entry.is_awaited(&ListKind::ALL).then(|| entry.since + limit),
            (Some(_), None) => None,
            (Some(_), Some(answered)) => {
                entry.is_awaited(&ListKind::ALL).then(|| (entry.since + limit).min(answered + MAX_LIST_DELAY))
            }
        })
        .await;
    }

    /// Waits until these lists of each server of the view are known, as [`Catalog::wait_until_known`] does, however long
    /// other lists take. A host gives up on an only server that lists nothing, so one that has answered is given its
    /// time from then on.
    pub(crate) async fn wait_until_listed(&self, kinds: &[ListKind], limit: Duration) {
        let is_only = self.known.naming() == Naming::Unchanged;
        self.wait(|entry| {
            let until = entry.since + limit;
            let extended = entry.answered.filter(|_| is_only).map(|answered| answered + self.list_wait);
            entry.is_awaited(kinds).then(|| extended.map_or(until, |extended| until.max(extended)))
        })
        .await;
    }

    /// Waits until no server of the view has to be waited for. `until` says how long a server has to be, if at all.
    async fn wait(&self, until: impl Fn(&Entry) -> Option<Instant>) {
        let mut changes = self.changes.subscribe();
        loop {
            changes.borrow_and_update();
            let Some(until) = self.latest(&until) else { return };
            // Another server may have to be waited for when this one no longer is.
            if matches!(timeout_at(until, changes.changed()).await, Ok(Err(_))) {
                return;
            }
        }
    }

    /// When the last server need not be waited for any more, or `None` if none has to be.
    fn latest(&self, until: impl Fn(&Entry) -> Option<Instant>) -> Option<Instant> {
        let now = Instant::now();
        let state = self.state.lock();
        let until = state.shown().filter_map(until);
        until.filter(|until| *until > now).max()
    }

    /// Whether a server of the view offers tasks, or is not known to offer none. It waits for servers
    /// that were never connected, until they are in the catalog for `limit`.
    pub(crate) async fn offers_tasks(&self, limit: Duration) -> bool {
        self.wait(|entry| {
            let is_unknown = entry.lists.is_none() && entry.is_awaited(&ListKind::ALL);
            is_unknown.then(|| entry.since + limit)
        })
        .await;
        self.may_offer_tasks()
    }

    /// Whether a server of the view offers tasks, or it is not known yet that it does not.
    pub(crate) fn may_offer_tasks(&self) -> bool {
        let state = self.state.lock();
        state.shown().any(|entry| {
            let known = entry.lists.as_ref().and_then(|lists| lists.tasks);
            known.is_none_or(|tasks| tasks != TaskOffer::Nothing)
        })
    }

    /// Tells of every change of a list or of its freshness.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Takes over what a connection to a server offers, if the server is in the catalog.
    pub(crate) fn update(&self, server: ServerId, offered: ServerFeed) {
        let mut state = self.state.lock();
        let Some(entry) = state.find(server) else { return };
        for (kind, freshness) in ListKind::ALL.into_iter().zip(offered.freshness) {
            let current = &entry.freshness[kind.index()];
            let is_news = match freshness {
                // What was fetched over an earlier connection is not worse for that.
                Freshness::Pending => *current == Freshness::Dormant,
                Freshness::Late => *current != Freshness::Fresh,
                _ => true,
            };
            if is_news {
                entry.set_freshness(kind, freshness);
            }
        }
        if let Some(lists) = offered.lists {
            entry.answered.get_or_insert_with(Instant::now);
            let lists = entry.with_earlier_lists(lists, &offered.fetched);
            entry.is_loop = offered.is_loop;
            if entry.lists.as_ref() != Some(&lists) {
                entry.lists = Some(lists);
                state.is_outdated = true;
            }
        }
        drop(state);
        self.changes.send_modify(|count| *count += 1);
    }

    /// Says that a server is connected to when it is called.
    pub(crate) fn set_dormant(&self, server: ServerId) {
        if let Some(entry) = self.state.lock().find(server) {
            for kind in ListKind::ALL {
                entry.set_freshness(kind, Freshness::Dormant);
            }
        }
    }
}

impl Entry {
    fn set_freshness(&mut self, kind: ListKind, freshness: Freshness) {
        let current = &mut self.freshness[kind.index()];
        if *current == Freshness::Fresh && freshness != Freshness::Fresh {
            self.stale_since[kind.index()] = SystemTime::now();
        }
        *current = freshness;
    }

    fn knows(&self, kind: ListKind) -> bool {
        self.lists.as_ref().is_some_and(|lists| lists.knows(kind))
    }

    /// Whether one of these lists is not known and may come soon.
    fn is_awaited(&self, kinds: &[ListKind]) -> bool {
        let is_awaited = |kind: &ListKind| {
            !self.knows(*kind) && !matches!(self.freshness[kind.index()], Freshness::Stale(_))
        };
        kinds.iter().any(is_awaited)
    }

    /// The lists that a connection offers. Those that it has not fetched are the ones that the catalog has, if it has any.
    fn with_earlier_lists(&self, offered: Arc<ServerLists>, fetched: &[ListKind]) -> Arc<ServerLists> {
        // The empty lists of a loop are not those of the server.
        let Some(current) = self.lists.as_ref().filter(|_| !self.is_loop) else { return offered };
        let is_kept = |kind: &ListKind| {
            let is_other = || offered.unfetched.contains(kind) || current.list(*kind) != offered.list(*kind);
            !fetched.contains(kind) && !current.unfetched.contains(kind) && is_other()
        };
        let kept: Vec<_> = ListKind::ALL.into_iter().filter(is_kept).collect();
        if kept.is_empty() {
            return offered;
        }
        let mut lists = ServerLists::clone(&offered);
        for kind in kept {
            lists.set_list(kind, current.list(kind).to_vec());
        }
        Arc::new(lists)
    }

    /// What comes from the catalog, unless all lists are fresh.
    fn stale_lists(&self) -> Option<StaleLists> {
        let offered = |kind: &ListKind| self.lists.as_ref().is_none_or(|lists| lists.offers(*kind));
        let mut stale: Vec<_> = ListKind::ALL.into_iter().filter(offered).collect();
        if stale.is_empty() {
            // The server is down, though it has no list.
            stale = ListKind::ALL.to_vec();
        }
        stale.retain(|kind| self.freshness[kind.index()] != Freshness::Fresh);
        let mut reasons: Vec<Cow<'_, str>> = Vec::new();
        for kind in &stale {
            let reason = self.freshness[kind.index()].reason(*kind)?;
            if !reasons.contains(&reason) {
                reasons.push(reason);
            }
        }
        let is_known = |kind: &&ListKind| self.lists.as_ref().is_some_and(|lists| lists.offers(**kind));
        Some(StaleLists {
            server: self.server.config.name.clone(),
            lists: stale.iter().filter(is_known).map(|kind| kind.name()).collect(),
            since: stale.iter().map(|kind| self.stale_since[kind.index()]).min()?,
            reason: reasons.join("; ").into(),
        })
    }
}

/// How much longer than other lists of its server a list may take before it is not waited for.
const MAX_LIST_DELAY: Duration = Duration::from_secs(1);

impl State {
    /// The servers that a view shows.
    fn shown(&self) -> impl Iterator<Item = &Entry> {
        self.servers.iter().filter(|entry| self.view.shows_server(&entry.server.config.name))
    }

    /// Whether anything of this kind of a server can be shown, whatever the server offers.
    fn may_show(&self, server: &FleetServer, kind: ListKind) -> bool {
        let (name, exposure) = (&*server.config.name, &server.config.exposure);
        match kind {
            ListKind::Tools => {
                let is_empty = |patterns: &Vec<ToolPattern>| patterns.is_empty();
                let is_none_enabled = exposure.enabled_tools.as_ref().is_some_and(is_empty);
                let are_all_disabled = exposure.disabled_tools.contains(&ToolPattern::new("*"));
                let is_none_in_view = self.view.tools.get(name).is_some_and(is_empty);
                !is_none_enabled && !are_all_disabled && !is_none_in_view
            }
            ListKind::Prompts => exposure.prompts && self.view.shows_prompts(name),
            ListKind::Resources | ListKind::Templates => {
                exposure.resources && self.view.shows_resources(name)
            }
        }
    }

    fn find(&mut self, server: ServerId) -> Option<&mut Entry> {
        self.servers.iter_mut().find(|entry| entry.server.id == server)
    }
}

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
mod list_writer;
mod name_owners;
mod names;
mod profile;
mod snapshot;
mod uris;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bowline::config::ToolPattern;
use bowline::types::method;
use bowline::{Era, Json, Peer, Revision};
use bowline_proto::wire::extension;
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
pub(crate) use snapshot::{Snapshot, SoleServer, Target};

use crate::fleet::{Fleet, FleetServer, ServerId};
use crate::view::HostView;

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
}

/// What one server offers, as last fetched. Everything in it is untrusted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerLists {
    /// Its name and version: an `Implementation`, if it sent one.
    #[serde(default)]
    pub server_info: Option<Json>,
    /// Its capabilities, as it wrote them. `None` if they were not recorded.
    #[serde(default)]
    pub capabilities: Option<Json>,
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
    /// Whether it speaks a revision without sessions.
    #[serde(default)]
    pub is_stateless: bool,
    /// Whether it has asked a host of this kind anything, as far as is known.
    #[serde(default)]
    pub has_asked: bool,
    /// How its tools can be called as tasks. `None` if that was not recorded.
    #[serde(default)]
    pub tasks: Option<TaskOffer>,
}

/// How the tools of a server can be called as tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskOffer {
    /// They cannot.
    Nothing,
    /// As 2025-11-25 has it: each tool says whether it may be called as a task.
    Experiment,
    /// By the tasks extension of 2026-07-28: the server decides about each call.
    Extension,
}

impl TaskOffer {
    /// What a connected server offers.
    // TA-01, TN-10
    pub(crate) fn of(peer: &Peer) -> Self {
        let capabilities = &peer.capabilities;
        match peer.revision {
            Revision::V2025_11_25
                if capabilities.get_path(&["tasks", "requests", "tools", "call"]).is_some() =>
            {
                Self::Experiment
            }
            revision
                if revision.era() == Era::Modern && capabilities.extension(extension::TASKS).is_some() =>
            {
                Self::Extension
            }
            _ => Self::Nothing,
        }
    }
}

impl ServerLists {
    /// Whether the server has declared such a list, as far as is known.
    pub(crate) fn offers(&self, kind: ListKind) -> bool {
        self.capabilities.as_ref().is_none_or(|declared| declared.member(kind.capability()).is_some())
    }

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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Freshness {
    /// They were fetched over the connection that stands, or over one that was closed for being idle.
    Fresh,
    /// The server is being connected, or its lists are being fetched.
    #[default]
    Pending,
    /// The server is connected to when it is called, and was not yet.
    Dormant,
    /// They could not be fetched, for this reason.
    Stale(Box<str>),
}

impl Freshness {
    /// Why the lists may differ from those that the server has now, as a sentence. `None` if they are those.
    pub(crate) fn reason(&self) -> Option<&str> {
        match self {
            Self::Fresh => None,
            Self::Pending => Some("it has not answered yet"),
            Self::Dormant => Some("it is not running; a call starts it"),
            Self::Stale(why) => Some(why),
        }
    }
}

/// The lists of all servers, for one session of a host.
#[derive(Debug)]
pub(crate) struct Catalog {
    known: Arc<KnownLists>,
    profile: Profile,
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
    /// `None` until the lists were fetched for the first time.
    lists: Option<Arc<ServerLists>>,
    freshness: Freshness,
    /// Since when the lists are not fresh, if they are not.
    stale_since: SystemTime,
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
    /// Why, as a sentence.
    pub reason: Box<str>,
}

impl Catalog {
    /// Creates the catalog of a session with a host of this kind and view, without servers. What is
    /// known of servers that the view hides decides about names, and is not shown.
    pub(crate) fn new(known: &Arc<KnownLists>, profile: Profile) -> Self {
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
                    let mut earlier =
                        before.values().filter(|entry| entry.server.config.name == server.config.name);
                    let lists = earlier.find_map(|entry| entry.lists.clone());
                    Entry {
                        server: Arc::clone(server),
                        since: Instant::now(),
                        lists: lists.or_else(|| self.known.get(server, self.profile)),
                        freshness: Freshness::Pending,
                        stale_since: SystemTime::now(),
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
        let catalog = Self::new(&known, Profile::default());
        catalog.set_fleet(&known.fleet(), &Arc::default());
        for (server, (_, lists)) in known.fleet().iter().zip(servers) {
            let lists = Some(Arc::new(serde_json::from_str(&lists.to_string()).unwrap()));
            catalog.update(server.id, ServerFeed { lists, freshness: Freshness::Fresh });
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
        catalog.update(id, ServerFeed { lists: None, freshness: Freshness::Stale(why.into()) });
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

    /// The names of the servers of the view whose lists are not fresh, and why, in the configured order.
    pub(crate) fn stale_servers(&self) -> Vec<(String, Freshness)> {
        let state = self.state.lock();
        let outdated = state.shown().filter(|entry| entry.freshness != Freshness::Fresh);
        outdated.map(|entry| (entry.server.config.name.clone(), entry.freshness.clone())).collect()
    }

    /// The lists of the view that come from the catalog, in the configured order of their servers.
    pub(crate) fn stale_lists(&self) -> Vec<StaleLists> {
        let state = self.state.lock();
        state.shown().filter_map(Entry::stale_lists).collect()
    }

    /// The name of the first server of the view whose lists were never known and of which something of this kind may
    /// be shown, and why its lists are not known. A server that still hangs counts as one that is down.
    pub(crate) fn unlisted_server(&self, kind: ListKind) -> Option<(String, Box<str>)> {
        let state = self.state.lock();
        let mut unlisted = state.shown().filter(|entry| entry.lists.is_none());
        unlisted.find_map(|entry| {
            let why = entry.freshness.reason().filter(|_| state.may_show(&entry.server, kind))?;
            Some((entry.server.config.name.clone(), why.into()))
        })
    }

    /// Waits until the lists of each server of the view are known, from an earlier session or from the server, or
    /// the server turned out to be down; for each at most until it is in the catalog for `limit`.
    pub(crate) async fn wait_until_known(&self, limit: Duration) {
        let mut changes = self.changes.subscribe();
        loop {
            changes.borrow_and_update();
            let Some(until) = self.latest_unknown(limit) else { return };
            // Another server may have to be waited for when this one no longer is.
            if matches!(timeout_at(until, changes.changed()).await, Ok(Err(_))) {
                return;
            }
        }
    }

    /// When the last server need not be waited for any more, or `None` if none has to be.
    fn latest_unknown(&self, limit: Duration) -> Option<Instant> {
        let is_unknown =
            |entry: &&Entry| entry.lists.is_none() && !matches!(entry.freshness, Freshness::Stale(_));
        let now = Instant::now();
        let state = self.state.lock();
        let until = state.shown().filter(is_unknown).map(|entry| entry.since + limit);
        until.filter(|until| *until > now).max()
    }

    /// Whether a server of the view offers tasks, or is not known to offer none. It waits for servers
    /// that were never connected, as [`Catalog::wait_until_known`] does.
    pub(crate) async fn offers_tasks(&self, limit: Duration) -> bool {
        self.wait_until_known(limit).await;
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
        if offered.freshness == Freshness::Pending {
            // What was fetched over an earlier connection is not worse for that.
            if entry.freshness == Freshness::Dormant {
                entry.set_freshness(Freshness::Pending);
            }
        } else {
            entry.set_freshness(offered.freshness);
        }
        if let Some(lists) = offered.lists
            && entry.lists.as_ref() != Some(&lists)
        {
            entry.lists = Some(lists);
            state.is_outdated = true;
        }
        drop(state);
        self.changes.send_modify(|count| *count += 1);
    }

    /// Says that a server is connected to when it is called.
    pub(crate) fn set_dormant(&self, server: ServerId) {
        if let Some(entry) = self.state.lock().find(server) {
            entry.set_freshness(Freshness::Dormant);
        }
    }
}

impl Entry {
    fn set_freshness(&mut self, freshness: Freshness) {
        if self.freshness == Freshness::Fresh && freshness != Freshness::Fresh {
            self.stale_since = SystemTime::now();
        }
        self.freshness = freshness;
    }

    /// What comes from the catalog, unless the lists are fresh.
    fn stale_lists(&self) -> Option<StaleLists> {
        let reason = self.freshness.reason()?.into();
        let is_offered = |kind: &ListKind| self.lists.as_ref().is_some_and(|lists| lists.offers(*kind));
        Some(StaleLists {
            server: self.server.config.name.clone(),
            lists: ListKind::ALL.into_iter().filter(is_offered).map(ListKind::name).collect(),
            since: self.stale_since,
            reason,
        })
    }
}

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

//! Keeps the lists of one server up to date, for everybody who uses the same connection to it.

use std::sync::Arc;
use std::time::Duration;

use bowline::{Cause, Client, Era, ErrorKind, Event, Json, Peer, Result, Status, Topic};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::list_fetches::{ListFetches, fetch_list_or_empty};
use super::{Freshness, KnownLists, ListKind, Profile, ServerLists, TaskOffer};
use crate::fleet::FleetServer;

/// What a server offers over one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServerFeed {
    /// `None` until lists were fetched for the first time.
    pub(super) lists: Option<Arc<ServerLists>>,
    /// Which of the lists were fetched over this connection. The others are those of an earlier one, or empty.
    pub(super) fetched: Vec<ListKind>,
    /// By [`ListKind::index`].
    pub(super) freshness: [Freshness; 4],
    /// Whether the server is this gateway, or leads back to it. The lists are empty then, whatever it offers.
    pub(super) is_loop: bool,
}

impl ServerFeed {
    /// Lists that were all fetched over this connection, or none; all of the same freshness.
    pub(super) fn uniform(lists: Option<Arc<ServerLists>>, freshness: Freshness) -> Self {
        let fetched = if lists.is_some() { ListKind::ALL.to_vec() } else { Vec::new() };
        Self { lists, fetched, freshness: ListKind::ALL.map(|_| freshness.clone()), is_loop: false }
    }

    /// Whether the lists are those that the server has now.
    pub(crate) fn is_fresh(&self) -> bool {
        self.freshness.iter().all(|freshness| *freshness == Freshness::Fresh)
    }
}

/// Where what a server offers is written to.
pub(crate) struct FeedTarget {
    pub(crate) known: Arc<KnownLists>,
    pub(crate) server: Arc<FleetServer>,
    /// What the server may know of the host.
    pub(crate) profile: Profile,
    pub(crate) lists: watch::Sender<ServerFeed>,
}

/// Lists that have ended, fetched or failed, and are not published yet.
#[derive(Default)]
struct EndedLists {
    ended: Vec<(ListKind, Result<Vec<Json>>)>,
    /// When they are published at the latest, though others have not ended.
    publish_at: Option<Instant>,
}

impl FeedTarget {
    /// Whether the server has a list, most likely: it declares tools, or it declares another list in which there was
    /// something, over this connection or an earlier one. To deny such a list is a failure, also of a server that is not
    /// ready yet, or of a proxy in front of it.
    fn is_expected(&self, kind: ListKind, peer: &Peer) -> bool {
        if !kind.is_declared(&peer.capabilities.json) {
            return false;
        }
        // Many servers declare resources, and have no templates. None declares tools without having the list.
        if kind == ListKind::Tools {
            return true;
        }
        let is_filled = |lists: &ServerLists| !lists.list(kind).is_empty();
        let feed = self.lists.borrow();
        match &feed.lists {
            Some(lists) if !feed.is_loop && feed.fetched.contains(&kind) => is_filled(lists),
            _ => self.known.get(&self.server, self.profile).is_some_and(|known| is_filled(&known)),
        }
    }

    /// Publishes the lists that have ended. Of those in `awaited`, nothing is known since the server is connected.
    ///
    /// What a server offers first is remembered for the next connection. What it offers later may belong to this one
    /// alone.
    fn publish(&self, ended: EndedLists, awaited: &[ListKind], peer: &Peer, is_connected: bool) {
        let mut feed = self.lists.borrow().clone();
        if feed.is_loop {
            if !is_connected {
                // They were fetched before the server became a loop.
                return;
            }
            // The loop is resolved. Its empty lists are not those of the server.
            feed.is_loop = false;
            feed.lists = None;
            feed.fetched.clear();
        }
        let mut lists = feed.lists.as_deref().cloned().unwrap_or_else(ServerLists::unfetched);
        lists.describe(peer);
        let mut first_fetched = Vec::new();
        for (kind, list) in ended.ended {
            let freshness = &mut feed.freshness[kind.index()];
            match list {
                Ok(list) => {
                    lists.set_list(kind, list);
                    if !feed.fetched.contains(&kind) {
                        feed.fetched.push(kind);
                        first_fetched.push(kind);
                    }
                    if is_connected {
                        *freshness = Freshness::Fresh;
                    }
                }
                Err(error) => {
                    let (server, method) = (&self.server.config.name, kind.method());
                    tracing::warn!(server, method, %error, "a list of a server could not be fetched");
                    // Why the server is not connected says more.
                    if is_connected || !matches!(freshness, Freshness::Stale(_)) {
                        *freshness = Freshness::Stale(failure_reason(kind, &error));
                    }
                }
            }
        }
        for kind in awaited.iter().filter(|_| is_connected) {
            feed.freshness[kind.index()] = Freshness::Late;
        }
        let mut lists = Arc::new(lists);
        if first_fetched.iter().any(|kind| lists.offers(*kind)) || first_fetched.len() == ListKind::ALL.len()
        {
            let remembered =
                self.known.remember(&self.server, self.profile, Arc::clone(&lists), &first_fetched);
            let mut own = ServerLists::clone(&lists);
            own.has_asked = remembered.has_asked;
            own.add_unfetched(&remembered);
            lists = if own == *remembered { remembered } else { Arc::new(own) };
        }
        // Whoever has the same lists shares their memory.
        let earlier = feed.lists.take().filter(|earlier| **earlier == *lists);
        feed.lists = Some(earlier.unwrap_or(lists));
        self.lists.send_replace(feed);
    }

    /// Publishes that the server is this gateway, or leads back to it. It offers nothing to a host that would reach
    /// it on this way, whatever it offers to others: what is behind it is here already.
    fn set_loop(&self, why: Box<str>) {
        let feed = ServerFeed::uniform(Some(Arc::default()), Freshness::Stale(why));
        self.lists.send_replace(ServerFeed { is_loop: true, ..feed });
    }

    fn set_stale(&self, why: &str) {
        let stale = ListKind::ALL.map(|_| Freshness::Stale(why.into()));
        self.lists.send_modify(|feed| feed.freshness = stale);
    }

    /// Publishes why the server is not connected, if anything is known about that.
    fn set_disconnected(&self, status: &Status) {
        if let Status::BackingOff { cause, .. } | Status::NeedsLogin(cause) | Status::Failed(cause) = status {
            // The detail of a fault may be text of the server.
            let why = cause.cause.to_string();
            if cause.cause == Cause::Loop { self.set_loop(why.into()) } else { self.set_stale(&why) }
        }
    }
}

/// Keeps the lists of the server of `client` up to date, until the client is closed.
///
/// Each list stands for itself: one that cannot be fetched to its end does not replace the last one that could, and
/// the others are published without it.
pub(crate) async fn feed(client: &Client, target: FeedTarget) {
    client.listen_for_list_changes();
    let (mut events, mut status) = (client.events(), client.status());
    let mut fetches = ListFetches::new(client.clone());
    let mut ended = EndedLists::default();
    // The server that was connected last.
    let mut latest_peer: Option<Arc<Peer>> = None;
    // The lists of which nothing is known since the server is connected.
    let mut awaited = Vec::new();
    let mut is_connected = false;
    let mut current = status.current();
    let mut has_events = true;
    loop {
        match &current {
            Status::Ready(peer) => {
                // A status between two connections can be missed, but each session has its own peer.
                let is_same = latest_peer.as_ref().is_some_and(|latest| Arc::ptr_eq(latest, peer));
                if !is_connected || !is_same {
                    // It may be another server that comes back.
                    is_connected = true;
                    awaited = ListKind::ALL.to_vec();
                    ended = EndedLists::default();
                    fetches.restart();
                }
                latest_peer = Some(Arc::clone(peer));
            }
            Status::Closed => return,
            other => {
                is_connected = false;
                target.set_disconnected(other);
            }
        }
        // Until the status is another one.
        loop {
            let is_expected = |kind| latest_peer.as_ref().is_some_and(|peer| target.is_expected(kind, peer));
            let publish_at = ended.publish_at;
            let published = async {
                match publish_at {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                (kind, list) = fetches.next(is_connected, is_expected) => {
                    awaited.retain(|awaited| *awaited != kind);
                    let is_offered = latest_peer.as_ref().is_some_and(|peer| kind.is_declared(&peer.capabilities.json));
                    if is_offered {
                        ended.publish_at.get_or_insert_with(|| Instant::now() + COLLECT_DELAY);
                    }
                    ended.ended.push((kind, list));
                }
                event = events.next(), if has_events => match event {
                    Some(Event::Notification(said)) => fetches.request(match said.topic() {
                        Topic::ToolsChanged => &[ListKind::Tools][..],
                        Topic::PromptsChanged => &[ListKind::Prompts],
                        Topic::ResourcesChanged => &[ListKind::Resources, ListKind::Templates],
                        _ => &[],
                    }),
                    Some(Event::Missed(_)) => fetches.request(&ListKind::ALL),
                    Some(_) => {}
                    None => has_events = false,
                },
                seen = status.changed() => {
                    let Some(seen) = seen else { return };
                    current = seen;
                    break;
                }
                () = published => {}
            }
            let is_due = ended.publish_at.is_some_and(|at| at <= Instant::now());
            if !ended.ended.is_empty()
                && (is_due || fetches.is_idle())
                && let Some(peer) = &latest_peer
            {
                target.publish(std::mem::take(&mut ended), &awaited, peer, is_connected);
            }
        }
    }
}

/// Why a list of a connected server could not be fetched. The text of the server is left out.
fn failure_reason(kind: ListKind, error: &bowline::Error) -> Box<str> {
    let method = kind.method();
    let reason = match error.kind() {
        ErrorKind::Server(error) => format!("`{method}` failed: error {}", error.code),
        ErrorKind::Fault(fault) => format!("`{method}` failed: {}", fault.cause),
        _ => format!("`{method}` failed"),
    };
    reason.into()
}

impl ServerLists {
    /// Fetches all lists of a server.
    pub async fn fetch(client: &Client) -> Result<Self> {
        let peer = client.ready().await?;
        let mut lists = Self::default();
        lists.describe(&peer);
        for kind in ListKind::ALL {
            lists.set_list(kind, fetch_list_or_empty(client, kind).await?);
        }
        Ok(lists)
    }

    /// Takes over what the server says of itself.
    fn describe(&mut self, peer: &Peer) {
        self.server_info = peer.server.as_ref().map(|server| server.json.clone());
        self.capabilities = Some(peer.capabilities.json.clone());
        self.instructions.clone_from(&peer.instructions);
        self.is_stateless = peer.era() == Era::Modern;
        self.tasks = Some(TaskOffer::of(peer));
    }
}

/// How long lists are collected before they are published without those that take longer.
const COLLECT_DELAY: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use bowline::types::Capabilities;
    use bowline::{Revision, Server};

    use super::super::{Catalog, Naming};
    use super::*;

    /// The empty lists of a loop hide what the server offered, and are forgotten once it is reached.
    #[test]
    fn lists_are_unknown_after_a_loop_until_they_are_fetched() {
        let server = Server::http("one", "http://h/").build().unwrap();
        let known = Arc::new(KnownLists::new(vec![server], Naming::default(), None));
        let (fleet, profile) = (known.fleet(), Profile::default());
        let server = Arc::clone(fleet.iter().next().unwrap());
        let catalog = Catalog::new(&known, profile, Duration::ZERO);
        catalog.set_fleet(&fleet, &Arc::default());
        let (lists, feed) = watch::channel(ServerFeed::default());
        let target = FeedTarget { known, server: Arc::clone(&server), profile, lists };
        let declared = Json::parse(r#"{"tools":{},"prompts":{}}"#).unwrap();
        let peer = Peer::new(Revision::NEWEST_LEGACY, Capabilities::decode(&declared).unwrap());
        let fetched = || {
            let tools = vec![Json::parse(r#"{"name":"echo"}"#).unwrap()];
            EndedLists { ended: vec![(ListKind::Tools, Ok(tools))], publish_at: None }
        };
        let update = || {
            catalog.update(server.id, feed.borrow().clone());
            let unlisted = catalog.unlisted_server(ListKind::Prompts).is_some();
            (catalog.snapshot().named(ListKind::Tools, "echo").is_some(), unlisted)
        };

        target.set_loop("loop".into());
        assert_eq!(update(), (false, false));
        target.publish(fetched(), &[], &peer, false);
        assert_eq!(update(), (false, false), "fetched before the loop");
        target.publish(fetched(), &[ListKind::Prompts], &peer, true);
        assert_eq!(update(), (true, true), "the prompts are not fetched yet");
    }
}

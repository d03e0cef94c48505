//! Keeps the lists of one server up to date, for everybody who uses the same connection to it.

use std::sync::Arc;
use std::time::Duration;

use bowline::{Cause, Client, Era, Event, EventReceiver, Json, Peer, Result, Status, StatusWatch, Topic};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::{Freshness, KnownLists, ListKind, Profile, ServerLists, TaskOffer};
use crate::fleet::FleetServer;

/// What a server offers over one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServerFeed {
    /// `None` until the lists were fetched for the first time.
    pub(super) lists: Option<Arc<ServerLists>>,
    pub(super) freshness: Freshness,
}

impl ServerFeed {
    /// Whether the lists are those that the server has now.
    pub(crate) fn is_fresh(&self) -> bool {
        self.freshness == Freshness::Fresh
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

impl FeedTarget {
    /// Publishes lists, which are fresh. Returns the same lists, in the memory that others share.
    ///
    /// Those that a server offers first are remembered for the next connection. What it offers later
    /// may belong to this one alone.
    fn publish(&self, lists: ServerLists) -> Arc<ServerLists> {
        let earlier = self.lists.borrow().lists.clone();
        let lists = match earlier {
            Some(earlier) if *earlier == lists => earlier,
            Some(_) => Arc::new(lists),
            None => self.known.remember(&self.server, self.profile, Arc::new(lists)),
        };
        let published = Arc::clone(&lists);
        self.lists.send_replace(ServerFeed { lists: Some(lists), freshness: Freshness::Fresh });
        published
    }

    /// Publishes that the server is this gateway, or leads back to it. It offers nothing to a host that would reach
    /// it on this way, whatever it offers to others: what is behind it is here already.
    fn set_loop(&self, why: Box<str>) {
        self.lists.send_replace(ServerFeed { lists: Some(Arc::default()), freshness: Freshness::Stale(why) });
    }

    fn set_stale(&self, why: Box<str>) {
        self.lists.send_modify(|feed| feed.freshness = Freshness::Stale(why));
    }
}

/// Keeps the lists of the server of `client` up to date, until the client is closed.
///
/// A list that cannot be fetched to its end does not replace the last one that could.
pub(crate) async fn feed(client: &Client, target: FeedTarget) {
    client.listen_for_list_changes();
    let (mut events, mut status) = (client.events(), client.status());
    let mut lists = Arc::<ServerLists>::default();
    let mut outdated = ListKind::ALL.to_vec();
    let mut retry_delay = MIN_RETRY_DELAY;
    loop {
        match status.current() {
            // Boxed, since it is large and rarely runs.
            Status::Ready(peer) => match Box::pin(fetch(client, &peer, &outdated, &lists)).await {
                Ok(fetched) => {
                    lists = target.publish(fetched);
                    retry_delay = MIN_RETRY_DELAY;
                    outdated = wait_for_change(&mut events, &mut status).await;
                }
                Err(error) => {
                    tracing::warn!(server = client.name(), %error, "the lists of a server could not be fetched");
                    target.set_stale(NOT_FETCHED.into());
                    outdated = ListKind::ALL.to_vec();
                    // A server that recovers is asked again at once.
                    let _ = timeout(retry_delay, status.changed()).await;
                    retry_delay = (retry_delay * 2).min(MAX_RETRY_DELAY);
                }
            },
            Status::BackingOff { cause, .. } | Status::NeedsLogin(cause) | Status::Failed(cause) => {
                // The detail of a fault may be text of the server.
                let why = cause.cause.to_string().into();
                if cause.cause == Cause::Loop {
                    target.set_loop(why);
                } else {
                    target.set_stale(why);
                }
                if status.changed().await.is_none() {
                    return;
                }
            }
            Status::Closed => return,
            _ => {
                if status.changed().await.is_none() {
                    return;
                }
            }
        }
    }
}

/// Waits until lists may have changed, or the connection is another one. Returns which lists.
async fn wait_for_change(events: &mut EventReceiver<Event>, status: &mut StatusWatch) -> Vec<ListKind> {
    let mut outdated = Vec::new();
    loop {
        // A change of several lists is announced list by list.
        let settle = async {
            match &*outdated {
                [] => std::future::pending().await,
                _ => sleep(SETTLE_DELAY).await,
            }
        };
        tokio::select! {
            biased;
            event = events.next() => match event {
                Some(Event::Notification(said)) => outdated.extend(match said.topic() {
                    Topic::ToolsChanged => &[ListKind::Tools][..],
                    Topic::PromptsChanged => &[ListKind::Prompts],
                    Topic::ResourcesChanged => &[ListKind::Resources, ListKind::Templates],
                    _ => &[],
                }),
                Some(Event::Missed(_)) => return ListKind::ALL.to_vec(),
                Some(_) => {}
                None => return ListKind::ALL.to_vec(),
            },
            seen = status.changed() => if !matches!(seen, Some(Status::Ready(_))) {
                // It may be another server that comes back.
                return ListKind::ALL.to_vec();
            },
            () = settle => return outdated,
        }
    }
}

impl ServerLists {
    /// Fetches all lists of a server.
    pub async fn fetch(client: &Client) -> Result<Self> {
        let peer = client.ready().await?;
        fetch(client, &peer, &ListKind::ALL, &Self::default()).await
    }
}

/// Fetches some of the lists. The others are as before.
async fn fetch(
    client: &Client,
    peer: &Peer,
    kinds: &[ListKind],
    before: &ServerLists,
) -> Result<ServerLists> {
    let mut lists = before.clone();
    lists.server_info = peer.server.as_ref().map(|server| server.json.clone());
    lists.capabilities = Some(peer.capabilities.json.clone());
    lists.instructions.clone_from(&peer.instructions);
    lists.is_stateless = peer.era() == Era::Modern;
    lists.tasks = Some(TaskOffer::of(peer));
    for kind in ListKind::ALL.into_iter().filter(|kind| kinds.contains(kind)) {
        match kind {
            ListKind::Tools => lists.tools = jsons(client.list_tools().await?, |item| item.json),
            ListKind::Prompts => lists.prompts = jsons(client.list_prompts().await?, |item| item.json),
            ListKind::Resources => lists.resources = jsons(client.list_resources().await?, |item| item.json),
            ListKind::Templates => {
                lists.templates = jsons(client.list_resource_templates().await?, |item| item.json);
            }
        }
    }
    Ok(lists)
}

/// The elements of a list as the server wrote them. They take no more room than they need: collecting
/// them uses the memory of the larger elements again.
fn jsons<T>(items: Vec<T>, json: impl Fn(T) -> Json) -> Vec<Json> {
    let mut jsons: Vec<Json> = items.into_iter().map(json).collect();
    jsons.shrink_to_fit();
    jsons
}

/// Why the lists of a connected server are stale.
const NOT_FETCHED: &str = "its lists could not be fetched";
/// How long changes are collected before lists are fetched.
const SETTLE_DELAY: Duration = Duration::from_millis(20);
const MIN_RETRY_DELAY: Duration = Duration::from_secs(1);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(60);

//! What a new session must be told, because the one before it was; and what is looked up again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bowline_proto::revision::Era;
use bowline_proto::session::Event as SessionEvent;
use bowline_proto::wire::object::Edit;
use bowline_proto::wire::{Json, method, outgoing};

use super::headers::SESSION_ID;
use super::link::lock;
use super::{CallOptions, Failure, Live, Shared, Wire};
use crate::events::{Event, Notification};
use crate::saved::SavedSession;
use tokio::sync::watch;

/// What the server was told.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// The params of the last `logging/setLevel`.
    level: Option<Json>,
    /// The params of each `resources/subscribe` that was not taken back, by URI.
    subscriptions: BTreeMap<String, Json>,
}

impl Told {
    fn keep(&mut self, method: &str, params: &Json) {
        if method == method::SET_LEVEL {
            self.level = Some(params.clone());
            return;
        }
        let Some(Ok(uri)) = params.member("uri").map(|uri| uri.decode::<String>()) else { return };
        if method == method::RESOURCES_UNSUBSCRIBE {
            self.subscriptions.remove(&uri);
        } else if self.subscriptions.len() < MOST_SUBSCRIPTIONS {
            self.subscriptions.insert(uri, params.clone());
        }
    }
}

impl Shared {
    /// Keeps what a session is to be told again. Called for every request that a legacy server granted.
    pub(super) fn remember(self: &Arc<Self>, live: &Live, method: &str, params: Option<&Json>) {
        if !matches!(method, method::SET_LEVEL | method::RESOURCES_SUBSCRIBE | method::RESOURCES_UNSUBSCRIBE)
        {
            return;
        }
        let Some(params) = params else { return };
        lock(&self.told).keep(method, params);
        // The session was replaced while this was under way: the new one knows nothing of it.
        if self.core().session.attempt() != live.attempt {
            let (shared, method, params) = (Arc::clone(self), method.to_owned(), params.clone());
            self.errands.send(async move {
                if let Ok(live) = shared.ready(EACH).await {
                    let _ = shared.once(&live, &method, Some(&params), &CallOptions::quietly()).await;
                }
            });
        }
    }

    /// Nobody wants to hear of a resource any more. A modern server notices by the next subscription.
    pub(crate) fn unsubscribe(self: &Arc<Self>, uri: &str) {
        let (shared, uri) = (Arc::clone(self), uri.to_owned());
        self.errands.send(async move {
            let _turn = shared.resource_turn(&uri).await;
            // Somebody may have come while this waited for its turn.
            if shared.wants_resource(&uri) {
                return;
            }
            lock(&shared.told).subscriptions.remove(&uri);
            let params = uri_params(&uri);
            if let Some(live) = shared.live().filter(|live| live.peer.era() == Era::Legacy) {
                let _ = shared
                    .once(&live, method::RESOURCES_UNSUBSCRIBE, Some(&params), &CallOptions::quietly())
                    .await;
            }
        });
    }

    /// From now on the session is not ended when the connection is. Gives what is needed to go on with it.
    pub(crate) fn leave_session(&self) -> Option<SavedSession> {
        self.leaves_session.store(true, Ordering::Relaxed);
        let live = self.live().filter(|live| live.session)?;
        match &live.wire {
            Wire::Http { headers, .. } => SavedSession::of(&live.peer, headers.get(SESSION_ID)?),
            Wire::Pipe(_) | Wire::EventStream { .. } => None,
        }
    }

    pub(super) fn leaves_session(&self) -> bool {
        self.leaves_session.load(Ordering::Relaxed)
    }

    /// Whether a new session has anything to be told.
    pub(super) fn has_told(&self) -> bool {
        let told = lock(&self.told);
        told.level.is_some() || !told.subscriptions.is_empty() || !self.subscriptions.uris().is_empty()
    }

    /// Tells a new session what the old one knew, then lets the session go on. What is refused is logged:
    /// a server that no longer has a resource is still a server.
    pub(super) async fn restore(self: Arc<Self>, live: Arc<Live>) {
        let requests: Vec<(&str, Json)> = {
            let told = lock(&self.told);
            let level = told.level.iter().map(|params| (method::SET_LEVEL, params.clone()));
            let subscriptions = told.subscriptions.values().cloned();
            // What was wanted of a server that was modern then.
            let wanted = self.subscriptions.uris().into_iter();
            let wanted =
                wanted.filter(|uri| !told.subscriptions.contains_key(uri)).map(|uri| uri_params(&uri));
            let subscriptions =
                subscriptions.chain(wanted).map(|params| (method::RESOURCES_SUBSCRIBE, params));
            level.chain(subscriptions).collect()
        };
        let options = CallOptions::quietly().timeout(EACH).max_timeout(EACH);
        for (method, params) in requests {
            match self.once(&live, method, Some(&params), &options).await {
                Ok(_) => live.prove(),
                Err(failure @ Failure::Session(_)) if self.is_session_lost(&live, &failure).await => {
                    let fault = failure.into_loss();
                    self.report(live.attempt, SessionEvent::Forgotten { fault, proven: false });
                    return;
                }
                Err(Failure::Fault(fault)) if fault.is_outage() => {
                    self.report(live.attempt, SessionEvent::Lost(fault));
                    return;
                }
                Err(failure) => {
                    let error = self.error(method, failure);
                    tracing::warn!(server = %self.name, %error, "a new session could not be told");
                }
            }
        }
        self.report(live.attempt, SessionEvent::Restored);
    }

    /// Fetches again the lists that somebody has asked for, and announces those that changed as the server
    /// would have. A server that asks for roots is told to ask again.
    pub(super) async fn look_again(self: Arc<Self>, live: Arc<Live>) {
        self.say_roots_changed(&live).await;
        self.outdate_all();
        self.say_resources_changed();
        self.look(live).await;
    }

    /// RT-03: modern servers know no such thing.
    async fn say_roots_changed(&self, live: &Live) {
        if self.declares_roots_changed() && live.peer.era() == Era::Legacy {
            let _ = self.say(&live.wire, &outgoing::notification(method::ROOTS_CHANGED, None)).await;
        }
    }

    /// Tells the server whenever the host's roots change. One that is not there is told when it is.
    pub(crate) async fn watch_roots(self: Arc<Self>, mut changes: watch::Receiver<u64>) {
        changes.mark_unchanged();
        while changes.changed().await.is_ok() {
            if let Some(live) = self.live() {
                self.say_roots_changed(&live).await;
            }
        }
    }

    /// The resources that somebody wants to hear of.
    pub(super) fn watched_uris(&self) -> BTreeSet<String> {
        let told = lock(&self.told);
        told.subscriptions.keys().cloned().chain(self.subscriptions.uris()).collect()
    }

    /// The same on the first connection: nothing can have changed yet, but from now on it can.
    pub(super) async fn look(self: Arc<Self>, live: Arc<Live>) {
        for list in self.tracked_lists() {
            let changed = self.look_at(&live, list).await;
            let announce = match list {
                method::TOOLS_LIST => method::TOOLS_CHANGED,
                method::PROMPTS_LIST => method::PROMPTS_CHANGED,
                _ => method::RESOURCES_CHANGED,
            };
            if changed == Some(true) {
                let said = Notification { method: announce.into(), params: None, inferred: true };
                self.tell(Event::Notification(said));
            }
        }
    }

    fn declares_roots_changed(&self) -> bool {
        let roots = self.identity.capabilities.member("roots");
        roots.and_then(|roots| roots.member("listChanged")).is_some_and(|changed| changed.as_str() == "true")
    }
}

fn uri_params(uri: &str) -> Json {
    Edit::new().set_str("uri", uri).apply(None).expect("a string is JSON")
}

/// For one thing that a new session is told.
const EACH: Duration = Duration::from_secs(10);
/// More than any host watches; a bound for what is kept.
const MOST_SUBSCRIPTIONS: usize = 10_000;

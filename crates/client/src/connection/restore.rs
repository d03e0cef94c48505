//! What a new session must be told, because the one before it was; and what is looked up again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bowline_proto::loss::Verdict;
use bowline_proto::session::Event as SessionEvent;
use bowline_proto::wire::view::{Item, Prompt, Resource, ResourceTemplate};
use bowline_proto::wire::{Json, method, outgoing};

use super::catalog::Digest;
use super::link::lock;
use super::{CallOptions, Failure, Live, Shared};
use crate::events::{Event, Notification};
use crate::features::{lists, tools};

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
                    let _ = shared.once(&live, &method, Some(&params), &CallOptions::new()).await;
                }
            });
        }
    }

    /// Whether a new session has anything to be told.
    pub(super) fn has_told(&self) -> bool {
        let told = lock(&self.told);
        told.level.is_some() || !told.subscriptions.is_empty()
    }

    /// Tells a new session what the old one knew, then lets the session go on. What is refused is logged:
    /// a server that no longer has a resource is still a server.
    pub(super) async fn restore(self: Arc<Self>, live: Arc<Live>) {
        let requests: Vec<(&str, Json)> = {
            let told = lock(&self.told);
            let level = told.level.iter().map(|params| (method::SET_LEVEL, params.clone()));
            let subscriptions =
                told.subscriptions.values().map(|params| (method::RESOURCES_SUBSCRIBE, params.clone()));
            level.chain(subscriptions).collect()
        };
        let options = CallOptions::new().timeout(EACH).max_timeout(EACH);
        for (method, params) in requests {
            match self.once(&live, method, Some(&params), &options).await {
                Ok(_) => live.prove(),
                Err(Failure::Session(judged)) if judged.verdict == Verdict::Lost => {
                    let fault = judged.shown.as_loss();
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
        if self.declares_roots_changed() {
            let _ = live.wire.send(&outgoing::notification(method::ROOTS_CHANGED, None)).await;
        }
        self.look(live).await;
    }

    /// The same on the first connection: nothing can have changed yet, but from now on it can.
    pub(super) async fn look(self: Arc<Self>, live: Arc<Live>) {
        let mut lists = self.seen_lists();
        if self.tracks_tools() && !lists.contains(&method::TOOLS_LIST) {
            lists.push(method::TOOLS_LIST);
        }
        for list in lists {
            let changed = match list {
                method::TOOLS_LIST => self.changed_tools(&live).await,
                method::PROMPTS_LIST => self.changed::<Prompt>(&live, list).await,
                method::RESOURCES_LIST => self.changed::<Resource>(&live, list).await,
                method::TEMPLATES_LIST => self.changed::<ResourceTemplate>(&live, list).await,
                _ => None,
            };
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

    pub(super) fn tracks_tools(&self) -> bool {
        self.tracks_tools.load(Ordering::Relaxed)
    }

    pub(crate) fn track_tools(self: &Arc<Self>) {
        if !self.tracks_tools.swap(true, Ordering::Relaxed)
            && let Some(live) = self.live()
        {
            tokio::spawn(Arc::clone(self).look(live));
        }
    }

    async fn changed<T: Item>(self: &Arc<Self>, live: &Arc<Live>, list: &'static str) -> Option<bool> {
        let fetched = Box::pin(lists::all::<T>(self, live, list, &CallOptions::new())).await.ok()?;
        Some(self.keep_list(list, Digest::of(&fetched.items)))
    }

    async fn changed_tools(self: &Arc<Self>, live: &Arc<Live>) -> Option<bool> {
        let before = self.seen_list(method::TOOLS_LIST);
        Box::pin(tools::list(self, live, &CallOptions::new())).await.ok()?;
        Some(before.is_some() && before != self.seen_list(method::TOOLS_LIST))
    }

    fn declares_roots_changed(&self) -> bool {
        let roots = self.identity.capabilities.member("roots");
        roots.and_then(|roots| roots.member("listChanged")).is_some_and(|changed| changed.as_str() == "true")
    }
}

/// For one thing that a new session is told.
const EACH: Duration = Duration::from_secs(10);
/// More than any host watches; a bound for what is kept.
const MOST_SUBSCRIPTIONS: usize = 10_000;

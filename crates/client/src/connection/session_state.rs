//! The state that a new session must be given again, and the lists that are fetched again after a
//! gap.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bowline_proto::client::session::Event as SessionEvent;
use bowline_proto::revision::Era;
use bowline_proto::wire::object::Edit;
use bowline_proto::wire::{Json, method, outgoing};

use crate::connection::link::headers::SESSION_ID;
use crate::connection::{CallOptions, Failure, LiveLink, Shared, Wire};
use crate::events::{Event, Notification};
use crate::saved_session::SavedSession;
use crate::sync::lock;
use tokio::sync::watch;

/// Requests that the server granted and that a new session must be sent again.
#[derive(Debug, Default)]
pub(crate) struct ReplayState {
    /// Params of the last `logging/setLevel`.
    level: Option<Json>,
    /// Params of each active `resources/subscribe`, by URI.
    subscriptions: BTreeMap<String, Json>,
}

impl ReplayState {
    fn record(&mut self, method: &str, params: &Json) {
        if method == method::SET_LEVEL {
            self.level = Some(params.clone());
            return;
        }
        let Some(Ok(uri)) = params.member("uri").map(|uri| uri.decode::<String>()) else { return };
        if method == method::RESOURCES_UNSUBSCRIBE {
            self.subscriptions.remove(&uri);
        } else if self.subscriptions.len() < MAX_SUBSCRIPTIONS {
            self.subscriptions.insert(uri, params.clone());
        }
    }
}

impl Shared {
    /// Records a granted request for later sessions. Called for every request that a legacy server
    /// granted.
    pub(crate) fn record_replay_state(
        self: &Arc<Self>,
        live: &LiveLink,
        method: &str,
        params: Option<&Json>,
    ) {
        if !matches!(method, method::SET_LEVEL | method::RESOURCES_SUBSCRIBE | method::RESOURCES_UNSUBSCRIBE)
        {
            return;
        }
        let Some(params) = params else { return };
        lock(&self.replay_state).record(method, params);
        // The session was replaced meanwhile, so the new one must be told separately.
        if self.core().session.attempt() != live.attempt {
            let (shared, method, params) = (Arc::clone(self), method.to_owned(), params.clone());
            self.background.spawn_send(async move {
                if let Ok(live) = shared.wait_for_link(REPLAY_TIMEOUT).await {
                    let _ = shared.send_once(&live, &method, Some(&params), &CallOptions::background()).await;
                }
            });
        }
    }

    /// Unsubscribes from a resource in the background. A modern server is updated by the next
    /// subscription.
    pub(crate) fn unsubscribe(self: &Arc<Self>, uri: &str) {
        let (shared, uri) = (Arc::clone(self), uri.to_owned());
        self.background.spawn_send(async move {
            let _turn = shared.lock_resource(&uri).await;
            // Someone may have subscribed while this waited for the lock.
            if shared.is_resource_demanded(&uri) {
                return;
            }
            lock(&shared.replay_state).subscriptions.remove(&uri);
            let params = uri_params(&uri);
            if let Some(live) = shared.live().filter(|live| live.peer.era() == Era::Legacy) {
                let _ = shared
                    .send_once(
                        &live,
                        method::RESOURCES_UNSUBSCRIBE,
                        Some(&params),
                        &CallOptions::background(),
                    )
                    .await;
            }
        });
    }

    /// Keeps the session open on the server when the connection is closed. Returns what is needed
    /// to resume it.
    pub(crate) fn detach_session(&self) -> Option<SavedSession> {
        self.keeps_session.store(true, Ordering::Relaxed);
        let live = self.live().filter(|live| live.has_session)?;
        match &live.wire {
            Wire::Http { headers, .. } => SavedSession::from_peer(&live.peer, headers.get(SESSION_ID)?),
            Wire::Pipe(_) | Wire::EventStream { .. } => None,
        }
    }

    pub(crate) fn keeps_session(&self) -> bool {
        self.keeps_session.load(Ordering::Relaxed)
    }

    /// Whether a new session must be sent anything.
    pub(crate) fn has_replay_state(&self) -> bool {
        let told = lock(&self.replay_state);
        told.level.is_some() || !told.subscriptions.is_empty() || !self.subscriptions.uris().is_empty()
    }

    /// Sends a new session the recorded requests, then reports it as restored. Refused requests are
    /// logged: a server that lost a resource is still usable.
    pub(crate) async fn replay_session_state(self: Arc<Self>, live: Arc<LiveLink>) {
        let requests: Vec<(&str, Json)> = {
            let told = lock(&self.replay_state);
            let level = told.level.iter().map(|params| (method::SET_LEVEL, params.clone()));
            let subscriptions = told.subscriptions.values().cloned();
            // Subscriptions from when the server was modern.
            let wanted = self.subscriptions.uris().into_iter();
            let wanted =
                wanted.filter(|uri| !told.subscriptions.contains_key(uri)).map(|uri| uri_params(&uri));
            let subscriptions =
                subscriptions.chain(wanted).map(|params| (method::RESOURCES_SUBSCRIBE, params));
            level.chain(subscriptions).collect()
        };
        let options = CallOptions::background().timeout(REPLAY_TIMEOUT).max_timeout(REPLAY_TIMEOUT);
        for (method, params) in requests {
            match self.send_once(&live, method, Some(&params), &options).await {
                Ok(_) => live.mark_proven(),
                Err(failure @ Failure::Session(_)) if self.is_session_lost(&live, &failure).await => {
                    let fault = failure.into_loss();
                    self.report_link_event(live.attempt, SessionEvent::SessionLost { fault, proven: false });
                    return;
                }
                Err(Failure::Fault(fault)) if fault.is_outage() => {
                    self.report_link_event(live.attempt, SessionEvent::LinkLost(fault));
                    return;
                }
                Err(failure) => {
                    let error = self.request_error(method, failure);
                    tracing::warn!(server = %self.name, %error, "a new session could not be told");
                }
            }
        }
        self.report_link_event(live.attempt, SessionEvent::Restored);
    }

    /// Fetches the known lists again after notifications may have been missed, and emits the
    /// changes that the server would have announced. A server that uses roots is told to request
    /// them again.
    pub(crate) async fn refresh_after_gap(self: Arc<Self>, live: Arc<LiveLink>) {
        self.notify_roots_changed(&live).await;
        self.invalidate_all();
        self.emit_resources_updated();
        self.refresh_lists(live).await;
    }

    /// Sends `notifications/roots/list_changed`, which modern servers do not have (RT-03).
    async fn notify_roots_changed(&self, live: &LiveLink) {
        if self.declares_roots_changed() && live.peer.era() == Era::Legacy {
            let _ = self.send_one_way(&live.wire, &outgoing::notification(method::ROOTS_CHANGED, None)).await;
        }
    }

    /// Notifies the server whenever the host's roots change. A server that is down learns of it
    /// when it is back.
    pub(crate) async fn watch_roots(self: Arc<Self>, mut changes: watch::Receiver<u64>) {
        changes.mark_unchanged();
        while changes.changed().await.is_ok() {
            if let Some(live) = self.live() {
                self.notify_roots_changed(&live).await;
            }
        }
    }

    /// URIs of the resources that are subscribed to.
    pub(crate) fn subscribed_uris(&self) -> BTreeSet<String> {
        let told = lock(&self.replay_state);
        told.subscriptions.keys().cloned().chain(self.subscriptions.uris()).collect()
    }

    /// Fetches the known and tracked lists, and emits a notification for each that changed.
    pub(crate) async fn refresh_lists(self: Arc<Self>, live: Arc<LiveLink>) {
        for list in self.tracked_lists() {
            let changed = self.refetch_list(&live, list).await;
            let announce = match list {
                method::TOOLS_LIST => method::TOOLS_CHANGED,
                method::PROMPTS_LIST => method::PROMPTS_CHANGED,
                _ => method::RESOURCES_CHANGED,
            };
            if changed == Some(true) {
                let said = Notification { method: announce.into(), params: None, inferred: true };
                self.emit(Event::Notification(said));
            }
        }
    }

    fn declares_roots_changed(&self) -> bool {
        let roots = self.declaration.capabilities.member("roots");
        roots.and_then(|roots| roots.member("listChanged")).is_some_and(|changed| changed.as_str() == "true")
    }
}

fn uri_params(uri: &str) -> Json {
    Edit::new().set_str("uri", uri).apply(None).expect("a string is JSON")
}

/// Timeout for each request that is replayed.
const REPLAY_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of recorded subscriptions.
const MAX_SUBSCRIPTIONS: usize = 10_000;

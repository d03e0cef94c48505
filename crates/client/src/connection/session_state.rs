//! The state that a new session must be given again, and the lists that are fetched again after a
//! gap.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;

use bowline_proto::client::session::Event as SessionEvent;
use bowline_proto::revision::Era;
use bowline_proto::wire::object::Edit;
use bowline_proto::wire::view::LogLevel;
use bowline_proto::wire::{Json, method};
use http::HeaderValue;
use parking_lot::Mutex;

use super::failure::RequestOutcome;
use super::link::headers::SESSION_ID;
use super::listen::Subscriptions;
use super::{CallMeter, CallOptions, CallRequest, Connection, Failure, LiveLink, Wire};
use crate::events::{Event, Notification};
use crate::saved_session::SavedSession;

/// What the next session must be given, or is resumed with.
#[derive(Debug, Default)]
pub(crate) struct SessionState {
    /// Requests that a new session must be sent again.
    replay: Mutex<ReplayState>,
    /// Log level requested from modern servers, counted from one; zero means none.
    log_level: AtomicU8,
    /// Whether the session stays on the server when the connection is closed.
    is_kept: AtomicBool,
    /// The subscriptions of a modern server.
    pub(crate) subscriptions: Subscriptions,
    /// Session id and last event id of the standalone stream, for resuming it.
    pub(crate) stream_position: Mutex<Option<(HeaderValue, HeaderValue)>>,
}

/// Requests that the server granted and that a new session must be sent again.
#[derive(Debug, Default)]
struct ReplayState {
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

impl SessionState {
    /// The log level requested from modern servers with every call.
    pub(crate) fn log_level(&self) -> Option<LogLevel> {
        let place = self.log_level.load(Ordering::Relaxed);
        place.checked_sub(1).and_then(|place| LogLevel::ALL.get(usize::from(place)).copied())
    }

    pub(crate) fn set_log_level(&self, level: LogLevel) {
        self.log_level.store(level as u8 + 1, Ordering::Relaxed);
    }

    /// Whether the session stays on the server when the connection is closed.
    pub(crate) fn is_kept(&self) -> bool {
        self.is_kept.load(Ordering::Relaxed)
    }

    /// The last event id of the standalone stream of a session.
    pub(crate) fn stream_position(&self, session: &HeaderValue) -> Option<HeaderValue> {
        let position = self.stream_position.lock().clone();
        position.filter(|(of, _)| of == session).map(|(_, last)| last)
    }

    /// Whether a new session must be sent anything.
    pub(crate) fn has_replay_state(&self) -> bool {
        let replay = self.replay.lock();
        replay.level.is_some() || !replay.subscriptions.is_empty() || !self.subscriptions.uris().is_empty()
    }

    /// The requests that a new session must be sent.
    fn replay_requests(&self) -> Vec<(&'static str, Json)> {
        let replay = self.replay.lock();
        let level = replay.level.iter().map(|params| (method::SET_LEVEL, params.clone()));
        let subscriptions = replay.subscriptions.values().cloned();
        // Subscriptions from when the server was modern.
        let wanted = self.subscriptions.uris().into_iter();
        let wanted = wanted.filter(|uri| !replay.subscriptions.contains_key(uri)).map(|uri| uri_params(&uri));
        let subscriptions = subscriptions.chain(wanted).map(|params| (method::RESOURCES_SUBSCRIBE, params));
        level.chain(subscriptions).collect()
    }

    /// URIs of the resources that are subscribed to.
    fn subscribed_uris(&self) -> BTreeSet<String> {
        let replay = self.replay.lock();
        replay.subscriptions.keys().cloned().chain(self.subscriptions.uris()).collect()
    }
}

impl Connection {
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
        self.session.replay.lock().record(method, params);
        // The session was replaced meanwhile, so the new one must be told separately.
        if !self.engine.is_current(live) {
            let (connection, method, params) = (Arc::clone(self), method.to_owned(), params.clone());
            self.background.spawn_send(async move {
                if let Ok(live) = connection.wait_for_link(REPLAY_TIMEOUT).await {
                    connection
                        .send_in_background(&live, &method, &params, &CallOptions::background())
                        .await
                        .ok();
                }
            });
        }
    }

    /// Unsubscribes from a resource in the background. A modern server is updated by the next
    /// subscription.
    pub(crate) fn unsubscribe(self: &Arc<Self>, uri: &str) {
        let (connection, uri) = (Arc::clone(self), uri.to_owned());
        self.background.spawn_send(async move {
            let _turn = connection.session.subscriptions.lock_resource(&uri).await;
            // Someone may have subscribed while this waited for the lock.
            if connection.session.subscriptions.uris().contains(&uri) {
                return;
            }
            connection.session.replay.lock().subscriptions.remove(&uri);
            let params = uri_params(&uri);
            if let Some(live) = connection.links.live().filter(|live| live.peer.era() == Era::Legacy) {
                let method = method::RESOURCES_UNSUBSCRIBE;
                connection.send_in_background(&live, method, &params, &CallOptions::background()).await.ok();
            }
        });
    }

    /// Sends a request once that no caller waits for.
    async fn send_in_background(
        self: &Arc<Self>,
        live: &Arc<LiveLink>,
        method: &str,
        params: &Json,
        options: &CallOptions,
    ) -> RequestOutcome {
        let ask = CallRequest { method, params: Some(params), options, meter: &CallMeter::start() };
        self.send_once(live, ask).await
    }

    /// Keeps the session open on the server when the connection is closed. Returns what is needed
    /// to resume it.
    pub(crate) fn detach_session(&self) -> Option<SavedSession> {
        self.session.is_kept.store(true, Ordering::Relaxed);
        let live = self.links.live().filter(|live| live.has_session)?;
        match &live.wire {
            Wire::Http { headers, .. } => SavedSession::from_peer(&live.peer, headers.get(SESSION_ID)?),
            Wire::Pipe(_) | Wire::EventStream { .. } => None,
        }
    }

    /// Sends a new session the recorded requests, then reports it as restored. Refused requests are
    /// logged: a server that lost a resource is still usable.
    pub(crate) async fn replay_session_state(self: Arc<Self>, live: Arc<LiveLink>) {
        let options = CallOptions::background().idle_timeout(REPLAY_TIMEOUT).timeout(REPLAY_TIMEOUT);
        for (method, params) in self.session.replay_requests() {
            match self.send_in_background(&live, method, &params, &options).await {
                Ok(_) => live.mark_proven(),
                Err(failure @ Failure::Session(_)) if self.is_session_lost(&live, &failure).await => {
                    let fault = failure.into_loss();
                    self.engine
                        .report_link_event(live.attempt, SessionEvent::SessionLost { fault, proven: false });
                    return;
                }
                Err(Failure::Fault(fault)) if fault.is_outage() => {
                    self.engine.report_link_event(live.attempt, SessionEvent::LinkLost(fault));
                    return;
                }
                Err(failure) => {
                    let error = self.server.request_error(method, failure);
                    tracing::warn!(server = %self.server.name, %error, "a new session could not be told");
                }
            }
        }
        self.engine.report_link_event(live.attempt, SessionEvent::Restored);
    }

    /// Fetches the known lists again after notifications may have been missed, and emits the
    /// changes that the server would have announced. A server that uses roots is told to request
    /// them again.
    pub(crate) async fn refresh_after_gap(self: Arc<Self>, live: Arc<LiveLink>) {
        self.notify_roots_changed(&live).await;
        self.lists.invalidate_all();
        self.emit_resources_updated();
        self.refresh_lists(live).await;
    }

    /// Looks for what the server may have announced while its stream was not open and the session went on: of the
    /// lists, those whose changes it announces at all. Many gaps cause one fetch at a time, and one more after it.
    pub(crate) fn refresh_after_stream_gap(self: &Arc<Self>, live: &Arc<LiveLink>) {
        self.emit_resources_updated();
        let offered = &live.peer.capabilities;
        let features = [offered.tools, offered.prompts, offered.resources];
        if !features.into_iter().flatten().any(|feature| feature.list_changed) {
            return;
        }
        let Some(waiting) = self.lists.wait_to_refresh() else { return };
        let (connection, live) = (Arc::clone(self), Arc::clone(live));
        self.background.spawn(async move {
            let running = waiting.begin().await;
            connection.lists.invalidate_all();
            connection.refresh_lists(live).await;
            drop(running);
        });
    }

    /// Emits an inferred update for every subscribed resource, so that subscribers read them again.
    fn emit_resources_updated(&self) {
        for uri in self.session.subscribed_uris() {
            let said = Notification {
                method: method::RESOURCE_UPDATED.into(),
                params: Some(uri_params(&uri)),
                inferred: true,
            };
            self.events.emit(Event::Notification(said));
        }
    }
}

fn uri_params(uri: &str) -> Json {
    Edit::new().set_str("uri", uri).apply(None).expect("a string is JSON")
}

/// Timeout for each request that is replayed.
const REPLAY_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of recorded subscriptions.
const MAX_SUBSCRIPTIONS: usize = 10_000;

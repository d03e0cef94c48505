//! The connections of one session of a host, or of hosts without one: one client for each server.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bowline::types::{LogLevel, method};
use bowline::{Client, ConnectionEvent, Era, Event, Json, RpcError, Server, Status, Topic};
use bowline_server::{Handshake, HostLink};
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::Shared;
use super::shared_calls::{SharedCalls, SharedHandler};
use super::subscriptions::Subscriptions;
use crate::catalog::{Catalog, Profile, feed};
use crate::error_response::{self, ConnectionState, LoginCommand};
use crate::host_handler::HostHandler;
use crate::host_notifications::{MAX_QUEUED_NOTIFICATIONS, forward_to_server};
use crate::host_queue::{HostQueue, QueueItem, QueueReader};
use crate::open_calls::OpenCalls;

/// Who connections to servers are for.
pub(super) struct Identity {
    /// The name and version that servers are told: an `Implementation`.
    pub(super) client_info: Json,
    /// The capabilities that servers are told: an object.
    pub(super) capabilities: Json,
    /// The session of the host. `None` for hosts without one, which are asked only because of their
    /// calls, and are told nothing but the progress of those.
    pub(super) session: Option<SessionLink>,
}

/// A session of a host, as far as servers reach it.
#[derive(Clone)]
pub(super) struct SessionLink {
    pub(super) link: HostLink,
    pub(super) handshake: Handshake,
}

/// The connections of one session, or of hosts without one.
pub(super) struct Upstreams {
    /// What the servers offer to this host.
    pub(super) catalog: Arc<Catalog>,
    /// In the configured order.
    all: Vec<Arc<Upstream>>,
    by_name: HashMap<Arc<str>, usize>,
    session: Option<SessionLink>,
    pub(super) subscriptions: Subscriptions,
    log_level: watch::Sender<Option<LogLevel>>,
    tasks: Mutex<JoinSet<()>>,
    /// Canceled when the session is over.
    ended: CancellationToken,
}

/// The connection to one server.
pub(super) struct Upstream {
    pub(super) server: Server,
    /// The reason why there is no client is what each request is answered with.
    client: Result<Connected, RpcError>,
    login_command: Option<Arc<LoginCommand>>,
}

/// The client of a server, with its queues.
pub(super) struct Connected {
    pub(super) client: Client,
    /// The requests of the host that this server serves.
    pub(super) open_calls: Arc<OpenCalls>,
    /// The calls of hosts without a session that this server serves.
    pub(super) shared_calls: Arc<SharedCalls>,
    /// Notifications for the host, in order.
    pub(super) queue: Arc<HostQueue>,
    /// Notifications of the host, in order.
    notifications: mpsc::Sender<(Box<str>, Option<Json>)>,
    hooks: Mutex<Option<bowline::hooks::Hooks>>,
}

impl Upstreams {
    /// Starts to connect to every server with this identity.
    pub(super) fn open(gateway: &Arc<Shared>, identity: Identity) -> Arc<Self> {
        let profile = Profile::new(&identity.capabilities, &identity.client_info);
        let catalog = Arc::new(Catalog::new(&gateway.known, profile));
        let ended = CancellationToken::new();
        let (log_level, _) = watch::channel(None);
        let mut tasks = JoinSet::new();
        let mut upstreams = Vec::with_capacity(gateway.known.servers().len());
        for server in gateway.known.servers() {
            let client = Connected::open(gateway, server, &identity).map(|(connected, reader)| {
                let client = connected.client.clone();
                let (session, observer) = (identity.session.clone(), Arc::clone(&gateway.observer));
                tasks.spawn(deliver(reader, session, ended.clone(), move |event| observer(event)));
                let levels = log_level.subscribe();
                let catalog = Arc::clone(&catalog);
                let until_end = ended.clone().run_until_cancelled_owned(async move {
                    tokio::join!(feed(&catalog, &client), apply_log_level(&client, levels))
                });
                tasks.spawn(async move {
                    until_end.await;
                });
                connected
            });
            upstreams.push(Arc::new(Upstream {
                server: server.clone(),
                client,
                login_command: gateway.login_commands.get(&server.name).cloned(),
            }));
        }
        let by_name =
            upstreams.iter().enumerate().map(|(at, upstream)| (upstream.server.name.as_str().into(), at));
        Arc::new(Self {
            catalog,
            by_name: by_name.collect(),
            all: upstreams,
            session: identity.session,
            subscriptions: Subscriptions::default(),
            log_level,
            tasks: Mutex::new(tasks),
            ended,
        })
    }

    /// Waits until `initialize` of the host was accepted or refused. Returns whether the host is
    /// served, as hosts without a session always are.
    pub(super) async fn wait_until_accepted(&self) -> bool {
        match &self.session {
            Some(session) => session.handshake.wait_until_answered().await,
            None => true,
        }
    }

    /// The connection to a server.
    pub(super) fn get(&self, server: &str) -> Option<&Arc<Upstream>> {
        self.all.get(*self.by_name.get(server)?)
    }

    /// The connection to the only server, if there is one.
    pub(super) fn only(&self) -> Option<&Arc<Upstream>> {
        match &*self.all {
            [only] => Some(only),
            _ => None,
        }
    }

    /// Sets the level of log messages, on each server as soon as it is connected.
    pub(super) fn set_log_level(&self, level: LogLevel) {
        self.log_level.send_replace(Some(level));
    }

    /// Queues a notification of the host for every server.
    pub(super) fn forward_notification(&self, method: &str, params: Option<&Json>) {
        for connected in self.all.iter().filter_map(|upstream| upstream.client.as_ref().ok()) {
            if let Err(error) = connected.notifications.try_send((method.into(), params.cloned())) {
                tracing::warn!(%error, "a notification of the host was dropped");
            }
        }
    }

    /// Runs a task until the session is over.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let ended = self.ended.clone();
        self.tasks.lock().spawn(async move {
            ended.run_until_cancelled(task).await;
        });
    }

    /// Closes all connections at once. Events that were received until then still reach observers.
    pub(super) async fn close(&self) {
        self.subscriptions.clear();
        let mut closing = JoinSet::new();
        for upstream in &self.all {
            let upstream = Arc::clone(upstream);
            closing.spawn(async move { upstream.close().await });
        }
        while closing.join_next().await.is_some() {}
        self.ended.cancel();
        let mut tasks = std::mem::take(&mut *self.tasks.lock());
        while tasks.join_next().await.is_some() {}
    }
}

impl Upstream {
    /// The client, or the error for each request to this server.
    pub(super) fn connected(&self) -> Result<&Connected, RpcError> {
        self.client.as_ref().map_err(Clone::clone)
    }

    /// The error response for a request that failed.
    pub(super) fn error_response(&self, client: &Client, error: &bowline::Error) -> RpcError {
        tracing::info!(%error, "a request failed");
        let status = client.status().current();
        let login = self.login_command.as_deref();
        let state = ConnectionState::of(client, &status, self.server.reconnect_wait, login);
        error_response::from_error(error, &state)
    }

    async fn close(&self) {
        let Ok(connected) = &self.client else { return };
        connected.client.close().await;
        // Hooks get the last event too, within their timeout.
        let hooks = connected.hooks.lock().take();
        if let Some(hooks) = hooks {
            let _ = timeout(HOOKS_TIMEOUT, hooks.finished()).await;
        }
    }
}

impl Connected {
    fn open(gateway: &Shared, server: &Server, identity: &Identity) -> Result<(Self, QueueReader), RpcError> {
        let open_calls = Arc::<OpenCalls>::default();
        let shared_calls = Arc::<SharedCalls>::default();
        let builder = (gateway.client_builder)(server.clone()).implementation(identity.client_info.clone());
        let builder = match identity.session.clone() {
            Some(SessionLink { link, handshake }) => {
                let handler = HostHandler {
                    link,
                    open_calls: Arc::clone(&open_calls),
                    handshake,
                    capabilities: identity.capabilities.clone(),
                    response_timeout: server.timeouts.max,
                };
                // The host speaks a legacy revision. A server that speaks both eras offers it more
                // in the same era.
                builder.begin_with(Era::Legacy).handler(handler)
            }
            None => builder.handler(SharedHandler {
                calls: Arc::clone(&shared_calls),
                capabilities: identity.capabilities.clone(),
            }),
        };
        let client = builder
            .open()
            .map_err(|error| error_response::from_error(&error, &ConnectionState::unknown()))?;
        let (queue, reader) = HostQueue::new(client.events());
        let (notifications, outgoing) = mpsc::channel(MAX_QUEUED_NOTIFICATIONS);
        tokio::spawn(forward_to_server(outgoing, client.clone()));
        let hooks = bowline::hooks::spawn(&client, server.hooks.iter().cloned());
        let hooks = Mutex::new(Some(hooks));
        Ok((Self { client, open_calls, shared_calls, queue, notifications, hooks }, reader))
    }
}

/// Delivers what one server sends to the host.
async fn deliver(
    mut queue: QueueReader,
    session: Option<SessionLink>,
    ended: CancellationToken,
    observer: impl Fn(&ConnectionEvent),
) {
    loop {
        let item = tokio::select! {
            // Queued items first, then the end.
            biased;
            item = queue.next() => item,
            () = ended.cancelled() => return,
        };
        let Some(item) = item else { return };
        if let QueueItem::Event(Event::Connection(event)) = &item {
            tracing::info!(server = %event.server, turn = event.kind.as_str(), "a connection has changed");
            observer(event);
        }
        // A host that does not read must not delay the shutdown.
        ended.run_until_cancelled(deliver_item(item, session.as_ref())).await;
    }
}

async fn deliver_item(item: QueueItem, session: Option<&SessionLink>) {
    match item {
        QueueItem::Progress { call, params } => match (call.upgrade(), session) {
            // A call that the host canceled has no more progress.
            (None, _) => {}
            (Some(call), Some(_)) => call.request.notify(method::PROGRESS, Some(&params)).await,
            // One host must not delay the others that share the connection.
            (Some(call), None) => call.request.try_notify(method::PROGRESS, Some(&params)),
        },
        QueueItem::Event(Event::Notification(said)) => {
            // Lists are announced by the catalog, updates by their subscription, and a task is
            // followed for the host, which did not ask for it.
            let is_for_host = match said.topic() {
                Topic::Log(_) => true,
                Topic::Other => *said.method != *method::TASK,
                _ => false,
            };
            if is_for_host
                && let Some(SessionLink { link, handshake }) = session
                && handshake.wait_until_ready().await
            {
                link.notify(&said.method, said.params.as_ref()).await;
            }
        }
        QueueItem::Event(_) => {}
        QueueItem::Missed(missed) => {
            tracing::warn!(missed, "the host reads too slowly; notifications of a server were dropped");
        }
    }
}

/// Sets the level of log messages whenever the host has chosen one, once the server is connected.
/// The client restores it after a recovery.
async fn apply_log_level(client: &Client, mut levels: watch::Receiver<Option<LogLevel>>) {
    let mut status = client.status();
    while levels.changed().await.is_ok() {
        let Some(level) = *levels.borrow_and_update() else { continue };
        while !matches!(status.current(), Status::Ready(_)) {
            if status.changed().await.is_none() {
                return;
            }
        }
        if let Err(error) = client.set_log_level(level).await {
            tracing::debug!(server = client.name(), %error, "the level of log messages was not set");
        }
    }
}

/// How long the shutdown waits for hooks.
const HOOKS_TIMEOUT: Duration = Duration::from_secs(1);

//! [`Connection`]: a client of one server, for one session of a host or for several.

use std::sync::Arc;
use std::time::Duration;

use bowline::types::{LogLevel, method};
use bowline::{Client, ConnectionEvent, Era, Event, Json, Notification, RpcError, Status, Topic};
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::Shared;
use super::connections::Scope;
use super::members::{CallHandler, Members, MembersHandler, QuestionObserver, Recipient};
use super::shared_calls::{SharedCalls, SharedHandler};
use super::tasks::TaskOwners;
use super::upstream::{Identity, SessionLink};
use crate::catalog::{FeedTarget, Naming, ServerFeed, feed};
use crate::error_response::{self, ConnectionState};
use crate::first_connection::wait_for_first_connection;
use crate::fleet::FleetServer;
use crate::host_notifications::{MAX_QUEUED_NOTIFICATIONS, forward_to_server};
use crate::host_queue::{HostQueue, QueueItem, QueueReader};
use crate::open_calls::OpenCall;

/// A client of one server, with its queues.
pub(super) struct Connection {
    pub(super) server: Arc<FleetServer>,
    pub(super) client: Client,
    /// The hosts that use it.
    pub(super) members: Arc<Members>,
    /// The calls of hosts without a session.
    pub(super) shared_calls: Arc<SharedCalls>,
    /// The tasks that hosts know of.
    pub(super) task_owners: Arc<TaskOwners>,
    /// Notifications for hosts, in order.
    pub(super) queue: Arc<HostQueue>,
    /// What the server offers.
    pub(super) feed: watch::Receiver<ServerFeed>,
    /// Whether several sessions may use it.
    pub(super) is_shared: bool,
    /// Called for each request of the server, if hosts with sessions use it.
    on_question: Option<QuestionObserver>,
    /// Notifications of hosts, in order.
    notifications: mpsc::Sender<(Box<str>, Option<Json>)>,
    log_level: watch::Sender<Option<LogLevel>>,
    /// The level that the server was told.
    applied_log_level: watch::Receiver<Option<LogLevel>>,
    hooks: Mutex<Option<bowline::hooks::Hooks>>,
    tasks: Mutex<JoinSet<()>>,
    /// Canceled when the connection is closed.
    ended: CancellationToken,
    usage: Mutex<Usage>,
    /// Notified when a connection that is not used anew has lost its last user, or is being closed.
    released: Notify,
}

struct Usage {
    /// How many calls and subscriptions use it.
    users: usize,
    /// Since when none does.
    idle_since: Instant,
    state: UsageState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UsageState {
    Open,
    /// Its server is configured otherwise or not any more. It is closed after its last call.
    Retired,
    Closing,
}

/// A connection in use: it is not closed for being idle meanwhile.
pub(super) struct ConnectionUse(Arc<Connection>);

impl Connection {
    /// Starts to connect to a server with this identity.
    pub(super) fn open(
        gateway: &Arc<Shared>,
        server: &Arc<FleetServer>,
        identity: &Identity,
        scope: &Scope,
    ) -> Result<Arc<Self>, RpcError> {
        let config = &server.config;
        let is_shared = scope.is_shared();
        let members = Arc::new(Members::new(config.timeouts.total));
        let shared_calls = Arc::<SharedCalls>::default();
        let task_owners = Arc::<TaskOwners>::default();
        let builder = (gateway.client_builder)(config.clone()).implementation(identity.client_info.clone());
        let builder = builder.via(gateway.gateway_id.extend(&identity.via, config));
        let mut on_question = None;
        let builder = if identity.session.is_some() {
            let (known, asking) = (Arc::clone(&gateway.known), Arc::clone(server));
            let profile = identity.profile();
            let handler = MembersHandler {
                members: Arc::clone(&members),
                tasks: Arc::clone(&task_owners),
                capabilities: match scope {
                    Scope::Own(_) => identity.capabilities.clone(),
                    Scope::Shared { capabilities, .. } => capabilities.clone(),
                },
                response_timeout: config.timeouts.total,
                on_question: Arc::new(move || known.remember_question(&asking, profile)),
            };
            on_question = Some(Arc::clone(&handler.on_question));
            // The host speaks a legacy revision. A server that speaks both eras offers it more in the
            // same era.
            builder.begin_with(Era::Legacy).handler(handler)
        } else {
            let capabilities = identity.capabilities.clone();
            let (calls, tasks) = (Arc::clone(&shared_calls), Arc::clone(&task_owners));
            builder.handler(SharedHandler { calls, tasks, capabilities })
        };
        let (client, events) = builder
            .open_with_events()
            .map_err(|error| error_response::from_error(&error, &ConnectionState::unknown()))?;
        let (queue, reader) = HostQueue::new(events);
        let (notifications, outgoing) = mpsc::channel(MAX_QUEUED_NOTIFICATIONS);
        let (log_level, levels) = watch::channel(None);
        let (applied, applied_log_level) = watch::channel(None);
        let (lists, feed_receiver) = watch::channel(ServerFeed::default());
        let ended = CancellationToken::new();
        let hooks = bowline::hooks::spawn(&client, config.hooks.iter().cloned());
        let mut tasks = JoinSet::new();
        // Hosts without a session share it as well.
        let delivery = Delivery {
            members: Arc::clone(&members),
            shared_calls: Arc::clone(&shared_calls),
            task_owners: Arc::clone(&task_owners),
            has_many_hosts: is_shared || identity.session.is_none(),
        };
        let observer = Arc::clone(&gateway.observer);
        tasks.spawn(delivery.run(reader, ended.clone(), move |event| observer(event)));
        let (known, offering) = (Arc::clone(&gateway.known), Arc::clone(server));
        let target = FeedTarget { known, server: offering, profile: identity.profile(), lists };
        let feeding = client.clone();
        // Hosts wait for the only server.
        let is_waited_for = gateway.known.naming() == Naming::Unchanged;
        let until_end = ended.clone().run_until_cancelled_owned(async move {
            tokio::join!(
                feed(&feeding, target),
                apply_log_level(&feeding, levels, applied),
                forward_to_server(outgoing, feeding.clone()),
                async {
                    if is_waited_for {
                        wait_for_first_connection(feeding.clone()).await;
                    }
                }
            )
        });
        tasks.spawn(async move {
            until_end.await;
        });
        Ok(Arc::new(Self {
            server: Arc::clone(server),
            client,
            members,
            shared_calls,
            task_owners,
            queue,
            feed: feed_receiver,
            is_shared,
            on_question,
            notifications,
            log_level,
            applied_log_level,
            hooks: Mutex::new(Some(hooks)),
            tasks: Mutex::new(tasks),
            ended,
            usage: Mutex::new(Usage { users: 0, idle_since: Instant::now(), state: UsageState::Open }),
            released: Notify::new(),
        }))
    }

    /// The handler for what the server asks because of one call of a session, where the server says
    /// that. `None` if all calls are those of one session: then it does not matter.
    pub(super) fn call_handler(
        &self,
        call: &Arc<OpenCall>,
        session: Option<&SessionLink>,
        response_timeout: Duration,
    ) -> Option<CallHandler> {
        let (session, on_question) = (session?.clone(), self.on_question.clone()?);
        self.is_shared.then(|| CallHandler::new(call, session, on_question, response_timeout))
    }

    /// Called for each request of the server, if hosts with sessions use the connection.
    pub(super) fn question_observer(&self) -> Option<QuestionObserver> {
        self.on_question.clone()
    }

    /// Uses the connection. `None` if it is retired or being closed.
    pub(super) fn begin_use(self: &Arc<Self>) -> Option<ConnectionUse> {
        let mut usage = self.usage.lock();
        if usage.state != UsageState::Open {
            return None;
        }
        usage.users += 1;
        drop(usage);
        Some(ConnectionUse(Arc::clone(self)))
    }

    /// Decides to close the connection if nobody has used it since `before`. Returns whether it is to
    /// be closed now.
    pub(super) fn begin_close_if_idle(&self, before: Instant) -> bool {
        let mut usage = self.usage.lock();
        let is_idle = usage.users == 0 && usage.idle_since <= before && usage.state != UsageState::Closing;
        if is_idle {
            usage.state = UsageState::Closing;
            self.released.notify_one();
        }
        is_idle
    }

    /// Lets the open calls go on, and no others begin.
    pub(super) fn retire(&self) {
        let mut usage = self.usage.lock();
        if usage.state == UsageState::Open {
            usage.state = UsageState::Retired;
        }
    }

    /// Waits until nobody uses a connection that is retired, or it is being closed.
    pub(super) async fn wait_until_released(&self) {
        loop {
            {
                let usage = self.usage.lock();
                if usage.users == 0 || usage.state == UsageState::Closing {
                    return;
                }
            }
            self.released.notified().await;
        }
    }

    /// Whether the lists of the server were fetched, and no later ones are wanted.
    pub(super) fn has_lists(&self) -> bool {
        self.feed.borrow().is_fresh()
    }

    /// Applies the log level that its members want.
    pub(super) fn apply_log_level(&self) {
        let level = self.members.log_level();
        self.log_level.send_if_modified(|current| {
            let has_changed = level.is_some() && *current != level;
            if has_changed {
                *current = level;
            }
            has_changed
        });
    }

    /// Makes the server send log messages from this level up, if it does not yet. Hosts without a
    /// session want them for one call, but a legacy server has one level for all: it stays, and what
    /// nobody wants is dropped.
    // GW-16
    pub(super) async fn enable_logs(&self, level: LogLevel) {
        self.log_level.send_if_modified(|current| {
            let has_changed = current.is_none_or(|current| level < current);
            if has_changed {
                *current = Some(level);
            }
            has_changed
        });
        self.wait_for_log_level(LOG_LEVEL_WAIT).await;
    }

    /// Waits until the server knows which log messages are wanted, for a short time: one that is slow
    /// to set a level is no reason to delay calls.
    pub(super) async fn wait_for_log_level(&self, limit: Duration) {
        let wanted = *self.log_level.borrow();
        if *self.applied_log_level.borrow() == wanted {
            return;
        }
        let mut applied = self.applied_log_level.clone();
        let _ = timeout(limit, applied.wait_for(|applied| *applied == wanted)).await;
    }

    /// Whether the server is connected at the moment.
    pub(super) fn is_connected(&self) -> bool {
        matches!(self.client.status().current(), Status::Ready(_))
    }

    /// Queues a notification of a host. What it says about its roots is not for a shared server,
    /// which knows of none.
    pub(super) fn forward_notification(&self, method: &str, params: Option<&Json>) {
        if self.is_shared && *method == *method::ROOTS_CHANGED {
            return;
        }
        if let Err(error) = self.notifications.try_send((method.into(), params.cloned())) {
            tracing::warn!(%error, "a notification of the host was dropped");
        }
    }

    /// Waits a moment for the session that a server over HTTP is about to give us: without its id it could
    /// not be ended there.
    async fn wait_for_handshake(&self) {
        if self.server.config.transport.http().is_none() {
            return;
        }
        let _ = timeout(HANDSHAKE_GRACE, self.wait_for_attempt()).await;
    }

    /// Waits while a connection is being opened.
    pub(super) async fn wait_for_attempt(&self) {
        let mut status = self.client.status();
        while matches!(status.current(), Status::Connecting) && status.changed().await.is_some() {}
    }

    /// Closes the connection. Events that were received until then still reach observers.
    pub(super) async fn close(&self) {
        self.usage.lock().state = UsageState::Closing;
        self.released.notify_one();
        self.wait_for_handshake().await;
        self.client.close().await;
        // Hooks get the last event too, within their timeout.
        let hooks = self.hooks.lock().take();
        if let Some(hooks) = hooks {
            let _ = timeout(HOOKS_TIMEOUT, hooks.finished()).await;
        }
        self.ended.cancel();
        let mut tasks = std::mem::take(&mut *self.tasks.lock());
        while tasks.join_next().await.is_some() {}
    }
}

impl ConnectionUse {
    /// The connection, for what may outlive this use of it.
    pub(super) fn shared(&self) -> &Arc<Connection> {
        &self.0
    }
}

impl std::ops::Deref for ConnectionUse {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.0
    }
}

impl Drop for ConnectionUse {
    fn drop(&mut self) {
        let mut usage = self.0.usage.lock();
        usage.users -= 1;
        usage.idle_since = Instant::now();
        if usage.users == 0 && usage.state == UsageState::Retired {
            self.0.released.notify_one();
        }
    }
}

/// Delivers what one server sends to the hosts that it is for.
struct Delivery {
    members: Arc<Members>,
    shared_calls: Arc<SharedCalls>,
    task_owners: Arc<TaskOwners>,
    has_many_hosts: bool,
}

impl Delivery {
    async fn run(
        self,
        mut queue: QueueReader,
        ended: CancellationToken,
        observer: impl Fn(&ConnectionEvent),
    ) {
        while let Some(item) = queue.next_until(ended.cancelled()).await {
            if let QueueItem::Event(Event::Connection(event)) = &item {
                tracing::info!(server = %event.server, turn = event.kind.as_str(), "a connection has changed");
                observer(event);
            }
            // A host that does not read must not delay the shutdown.
            ended.run_until_cancelled(self.deliver(item)).await;
        }
    }

    async fn deliver(&self, item: QueueItem) {
        match item {
            QueueItem::Progress { call, params } => match call.upgrade() {
                // A call that the host canceled has no more progress.
                None => {}
                // One host must not delay the others that share the connection.
                Some(call) if self.has_many_hosts => call.request.try_notify(method::PROGRESS, Some(&params)),
                Some(call) => call.request.notify(method::PROGRESS, Some(&params)).await,
            },
            QueueItem::Event(Event::Notification(said)) => self.deliver_notification(&said).await,
            QueueItem::Event(_) => {}
            QueueItem::Missed(missed) => {
                tracing::warn!(missed, "the host reads too slowly; notifications of a server were dropped");
            }
        }
    }

    async fn deliver_notification(&self, said: &Notification) {
        if *said.method == *method::TASK_STATUS {
            return self.task_owners.report_state(said.params.as_ref());
        }
        // Lists are announced by the catalog, updates by their subscription, and a task of the extension
        // by whoever polls it.
        let level = match said.topic() {
            Topic::Log(params) => {
                let level: Option<String> = params.member("level").and_then(|level| level.decode().ok());
                LogLevel::ALL.into_iter().find(|known| level.as_deref() == Some(known.as_str()))
            }
            Topic::Other if *said.method != *method::TASK => None,
            _ => return,
        };
        if let (Topic::Log(params), Ok(host)) = (said.topic(), self.shared_calls.find_host()) {
            (host.logs)(params);
            return;
        }
        let Recipient::Session { session, log_level, .. } = self.members.recipient() else {
            tracing::debug!(method = %said.method, "a notification of a server is for no known host");
            return;
        };
        if !self.has_many_hosts {
            if session.handshake.wait_until_ready().await {
                session.link.notify(&said.method, said.params.as_ref()).await;
            }
            return;
        }
        // Another host may want more than this one.
        let is_wanted = level.zip(log_level).is_none_or(|(level, wanted)| level >= wanted);
        if is_wanted && session.handshake.is_ready() {
            session.link.try_notify(&said.method, said.params.as_ref());
        }
    }
}

/// Sets the level of log messages whenever it changes, once the server is connected. The client
/// restores it after a recovery.
async fn apply_log_level(
    client: &Client,
    mut levels: watch::Receiver<Option<LogLevel>>,
    applied: watch::Sender<Option<LogLevel>>,
) {
    let mut status = client.status();
    while levels.changed().await.is_ok() {
        let Some(level) = *levels.borrow_and_update() else { continue };
        while !matches!(status.current(), Status::Ready(_)) {
            if status.changed().await.is_none() {
                return;
            }
        }
        // Boxed, since it is large and rarely runs.
        if let Err(error) = Box::pin(client.set_log_level(level)).await {
            tracing::debug!(server = client.name(), %error, "the level of log messages was not set");
        }
        applied.send_replace(Some(level));
    }
}

/// How long a request waits until a server knows which log messages are wanted.
pub(super) const LOG_LEVEL_WAIT: Duration = Duration::from_secs(1);
/// How long the response to a host that sets the level waits for the same. What it calls next need not.
pub(super) const SET_LOG_LEVEL_WAIT: Duration = Duration::from_secs(5);
/// How long the end of a connection waits for a handshake that is under way.
const HANDSHAKE_GRACE: Duration = Duration::from_secs(2);
/// How long the shutdown waits for hooks.
const HOOKS_TIMEOUT: Duration = Duration::from_secs(1);

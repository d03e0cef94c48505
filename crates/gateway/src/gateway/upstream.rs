//! What one session of a host, or hosts without one, have of the servers: their lists, and a
//! connection to each of them while it is needed.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bowline::types::LogLevel;
use bowline::{Client, Json, RpcError, Server};
use bowline_proto::server::requests::MAX_RUNNING_REQUESTS;
use bowline_proto::wire::object::Edit;
use bowline_server::{Handshake, HostLink};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::Shared;
use super::connection::{Connection, ConnectionUse};
use super::connections::Scope;
use super::members::MemberId;
use super::subscriptions::Subscriptions;
use crate::catalog::{Catalog, Profile};
use crate::error_response::{self, ConnectionState, LoginCommand};
use crate::view::HostView;

/// Who connections to servers are for.
pub(super) struct Identity {
    /// The name and version that servers are told: an `Implementation`.
    pub(super) client_info: Json,
    /// The capabilities of the host, as far as servers are told: an object.
    pub(super) capabilities: Json,
    /// The servers that it sees, and what of them.
    pub(super) view: Arc<HostView>,
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

/// What one session, or hosts without one, have of all servers.
pub(super) struct Upstreams {
    /// What the servers offer to this host.
    pub(super) catalog: Arc<Catalog>,
    /// Of the servers that the host sees, in the configured order.
    all: Vec<Arc<Upstream>>,
    by_name: HashMap<Arc<str>, usize>,
    session: Option<SessionLink>,
    view: Arc<HostView>,
    pub(super) subscriptions: Subscriptions,
    tasks: Mutex<JoinSet<()>>,
    /// Canceled when the session is over.
    ended: CancellationToken,
}

/// What one session has of one server.
pub(super) struct Upstream {
    pub(super) server: Server,
    gateway: Arc<Shared>,
    at: usize,
    member: MemberId,
    identity: Arc<Identity>,
    scope: Scope,
    /// The connection, if there was need of one yet. It may have been closed for being idle.
    connection: watch::Sender<Option<Arc<Connection>>>,
    log_level: Mutex<Option<LogLevel>>,
    /// A permit is an open call. A server that hangs must not use up what all servers of a session
    /// share.
    calls: Semaphore,
}

impl Identity {
    /// What servers may know of the host when they list.
    pub(super) fn profile(&self) -> Profile {
        Profile::new(&self.capabilities, &self.client_info)
    }

    /// The capabilities that a server is told. Roots belong to one session, so a shared server is not
    /// told of any.
    pub(super) fn capabilities_for(&self, is_shared: bool) -> Json {
        let without_roots =
            is_shared.then(|| Edit::new().remove("roots").apply(Some(&self.capabilities)).ok());
        without_roots.flatten().unwrap_or_else(|| self.capabilities.clone())
    }
}

impl Upstreams {
    /// Starts to connect with this identity to every server that it sees and that is not to be
    /// started on call.
    pub(super) fn open(gateway: &Arc<Shared>, identity: Identity) -> Arc<Self> {
        let identity = Arc::new(identity);
        let catalog = Arc::new(Catalog::new(&gateway.known, identity.profile(), &identity.view));
        let member = MemberId(NEXT_MEMBER.fetch_add(1, Ordering::Relaxed));
        let ended = CancellationToken::new();
        let mut tasks = JoinSet::new();
        let mut upstreams = Vec::with_capacity(gateway.known.servers().len());
        for (at, server) in gateway.known.servers().iter().enumerate() {
            if !identity.view.shows_server(&server.name) {
                continue;
            }
            let lists = catalog.lists_of(at);
            let scope = Scope::decide(server.share, lists.as_deref(), member, &identity);
            let upstream = Arc::new(Upstream {
                server: server.clone(),
                gateway: Arc::clone(gateway),
                at,
                member,
                identity: Arc::clone(&identity),
                scope,
                connection: watch::Sender::default(),
                log_level: Mutex::default(),
                calls: Semaphore::new(MAX_CALLS_PER_SERVER),
            });
            let following = follow(Arc::clone(&catalog), at, upstream.connection.subscribe());
            let following = ended.clone().run_until_cancelled_owned(following);
            tasks.spawn(async move {
                following.await;
            });
            if server.idle_stop.is_some() && lists.is_some() {
                catalog.set_dormant(at);
            } else if let Err(error) = upstream.connected() {
                tracing::warn!(server = server.name, %error.message, "a server cannot be connected to");
            }
            upstreams.push(upstream);
        }
        let by_name =
            upstreams.iter().enumerate().map(|(at, upstream)| (upstream.server.name.as_str().into(), at));
        Arc::new(Self {
            catalog,
            by_name: by_name.collect(),
            all: upstreams,
            session: identity.session.clone(),
            view: Arc::clone(&identity.view),
            subscriptions: Subscriptions::default(),
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

    /// What there is of a server.
    pub(super) fn get(&self, server: &str) -> Option<&Arc<Upstream>> {
        self.all.get(*self.by_name.get(server)?)
    }

    /// What there is of the only server, if there is one and the view hides nothing of it. What an
    /// unknown method reaches is not known.
    pub(super) fn only(&self) -> Option<&Arc<Upstream>> {
        match &*self.all {
            [only] if self.view.shows_all_of(&only.server.name) => Some(only),
            _ => None,
        }
    }

    /// Sets the level of log messages, on each server as soon as it is connected.
    pub(super) fn set_log_level(&self, level: LogLevel) {
        for upstream in &self.all {
            upstream.set_log_level(level);
        }
    }

    /// Queues a notification of the host for every server that is connected.
    pub(super) fn forward_notification(&self, method: &str, params: Option<&Json>) {
        for upstream in &self.all {
            if let Some(connection) = &*upstream.connection.borrow() {
                connection.forward_notification(method, params);
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

    /// Gives up all connections at once. Those that nobody else can have are closed.
    pub(super) async fn close(&self) {
        self.subscriptions.clear();
        let mut closing = JoinSet::new();
        for upstream in &self.all {
            let upstream = Arc::clone(upstream);
            closing.spawn(async move {
                upstream.gateway.connections.leave(upstream.at, &upstream.scope, upstream.member).await;
            });
        }
        while closing.join_next().await.is_some() {}
        self.ended.cancel();
        let mut tasks = std::mem::take(&mut *self.tasks.lock());
        while tasks.join_next().await.is_some() {}
    }
}

impl Upstream {
    /// The connection, opened if need be; or the error for each request to this server.
    pub(super) fn connected(&self) -> Result<ConnectionUse, RpcError> {
        loop {
            let current = self.connection.borrow().clone();
            if let Some(in_use) = current.as_ref().and_then(Connection::begin_use) {
                return Ok(in_use);
            }
            let log_level = *self.log_level.lock();
            let connection = self.gateway.connections.join(
                &self.gateway,
                (self.at, &self.scope),
                (self.member, &self.identity, log_level),
            )?;
            self.connection.send_replace(Some(connection));
        }
    }

    /// The session, as the server knows it.
    pub(super) fn member(&self) -> MemberId {
        self.member
    }

    /// The link to the session of the host, if it has one.
    pub(super) fn session(&self) -> Option<&SessionLink> {
        self.identity.session.as_ref()
    }

    /// Counts a call while the permit lives. `None` if there are too many.
    pub(super) fn count_call(&self) -> Option<SemaphorePermit<'_>> {
        self.calls.try_acquire().ok()
    }

    /// The error response for a request that failed.
    pub(super) fn error_response(&self, client: &Client, error: &bowline::Error) -> RpcError {
        tracing::info!(%error, "a request failed");
        let status = client.status().current();
        let login: Option<&LoginCommand> =
            self.gateway.login_commands.get(&self.server.name).map(AsRef::as_ref);
        let state = ConnectionState::of(client, &status, self.server.reconnect_wait, login);
        error_response::from_error(error, &state)
    }

    fn set_log_level(&self, level: LogLevel) {
        *self.log_level.lock() = Some(level);
        if let Some(connection) = &*self.connection.borrow() {
            connection.members.set_log_level(self.member, level);
            connection.apply_log_level();
        }
    }
}

/// Copies what a server offers into the catalog, over one connection after the other.
async fn follow(catalog: Arc<Catalog>, at: usize, mut connection: watch::Receiver<Option<Arc<Connection>>>) {
    loop {
        let feed = connection.borrow_and_update().as_ref().map(|connection| connection.feed.clone());
        let following = async {
            if let Some(mut feed) = feed {
                loop {
                    let offered = feed.borrow_and_update().clone();
                    catalog.update(at, offered);
                    if feed.changed().await.is_err() {
                        break;
                    }
                }
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = following => {}
            changed = connection.changed() => if changed.is_err() {
                return;
            },
        }
    }
}

static NEXT_MEMBER: AtomicU64 = AtomicU64::new(0);

/// How many calls of one session, or of hosts that share a connection, a server may have open: three
/// quarters of what a session may have.
const MAX_CALLS_PER_SERVER: usize = MAX_RUNNING_REQUESTS / 4 * 3;

//! What one session of a host, or hosts without one, have of the servers: their lists, and a
//! connection to each of them while it is needed.

mod follow;

use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bowline::types::LogLevel;
use bowline::{Client, ErrorKind, Json, RpcError, Status};
use bowline_proto::server::requests::MAX_RUNNING_REQUESTS;
use bowline_proto::via::Via;
use bowline_proto::wire::object::Edit;
use bowline_server::{Handshake, HostLink};
use follow::{follow_lists, follow_reloads};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::Shared;
use super::connection::{Connection, ConnectionUse, SET_LOG_LEVEL_WAIT};
use super::connections::{ConnectError, Scope};
use super::members::MemberId;
use super::subscriptions::Subscriptions;
use crate::catalog::{Catalog, Profile, SoleServer};
use crate::error_response::{self, ConnectionState};
use crate::fleet::{Fleet, FleetServer, ServerId};
use crate::host_roots::HostRoots;
use crate::view::{HostView, ViewChoice};

/// Who connections to servers are for.
pub(super) struct Identity {
    /// On whose behalf the host acts. Nothing is shared with others.
    pub(super) principal: Option<Arc<str>>,
    /// The name and version that servers are told: an `Implementation`.
    pub(super) client_info: Json,
    /// The capabilities of the host, as far as servers are told: an object.
    pub(super) capabilities: Json,
    /// The servers that it sees, and what of them.
    pub(super) view: ViewChoice,
    /// Which tasks the host can be told of, whatever it requests.
    pub(super) tasks: HostTasks,
    /// The gateways that it has passed.
    pub(super) via: Via,
    /// The session of the host. `None` for hosts without one, which are asked only because of their
    /// calls, and are told nothing but the progress of those.
    pub(super) session: Option<SessionLink>,
}

/// Which tasks a host can be told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HostTasks {
    /// Those of 2025-11-25.
    Experiment,
    /// None, or those of the extension, which each request of the host declares anew.
    ByRequest,
}

/// A session of a host, as far as servers reach it.
#[derive(Clone)]
pub(super) struct SessionLink {
    pub(super) link: HostLink,
    pub(super) handshake: Handshake,
}

/// What one session, or hosts without one, have of all servers. When these are reloaded, it follows:
/// at once if it is used, and otherwise soon.
pub(super) struct Upstreams {
    this: Weak<Self>,
    /// Whether the view of the host has existed, in this process or in an earlier one.
    had_view: bool,
    gateway: Arc<Shared>,
    member: MemberId,
    identity: Arc<Identity>,
    /// What the servers offer to this host.
    catalog: Arc<Catalog>,
    current: Mutex<Current>,
    pub(super) subscriptions: Subscriptions,
    tasks: Mutex<JoinSet<()>>,
    /// Canceled when the session begins to give up its connections.
    closing: CancellationToken,
    /// Canceled when the session is over.
    ended: CancellationToken,
}

/// What changes while a session lives.
#[derive(Default)]
struct Current {
    set: Arc<UpstreamSet>,
    /// The least severe log messages that the host wants, if it said so.
    log_level: Option<LogLevel>,
    /// Whether the session is over. Then there are no servers for it.
    is_closed: bool,
}

/// What there is of each server of a fleet that the host sees.
#[derive(Default)]
struct UpstreamSet {
    fleet: Arc<Fleet>,
    /// The part of the servers that the host sees.
    view: Arc<HostView>,
    /// In the configured order.
    all: Vec<Arc<Upstream>>,
    by_name: HashMap<Arc<str>, usize>,
}

/// What one session has of one server.
pub(super) struct Upstream {
    pub(super) server: Arc<FleetServer>,
    gateway: Arc<Shared>,
    member: MemberId,
    identity: Arc<Identity>,
    scope: Scope,
    /// The connection, if there was need of one yet. It may have been closed for being idle.
    connection: watch::Sender<Option<Arc<Connection>>>,
    log_level: Mutex<Option<LogLevel>>,
    /// A permit is an open call. A server that hangs must not use up what all servers of a session
    /// share.
    calls: Semaphore,
    /// Canceled when the server is configured otherwise or not any more, and when the session is over.
    lost: CancellationToken,
}

/// What one session has of one server, with a connection that is in use.
pub(super) struct UpstreamUse {
    pub(super) upstream: Arc<Upstream>,
    pub(super) connection: ConnectionUse,
}

impl Identity {
    /// What servers may know of the host when they list.
    pub(super) fn profile(&self) -> Profile {
        Profile::new(&self.capabilities, &self.client_info)
    }

    /// The capabilities that a server with sessions is told if hosts share it: roots belong to one of
    /// them.
    pub(super) fn capabilities_without_roots(&self) -> Json {
        let without_roots = Edit::new().remove("roots").apply(Some(&self.capabilities));
        without_roots.unwrap_or_else(|_| self.capabilities.clone())
    }
}

impl Upstreams {
    /// Starts to connect with this identity to every server that it sees and that is not to be
    /// started on call.
    pub(super) fn open(gateway: &Arc<Shared>, identity: Identity) -> Arc<Self> {
        // A listener admits a host without its view only if the view was removed while nobody served the host.
        let was_admitted = identity.session.as_ref().is_some_and(|session| session.link.is_over_http());
        let upstreams = Arc::new_cyclic(|this| Self {
            this: Weak::clone(this),
            had_view: was_admitted || !gateway.views.current().is_missing(&identity.view),
            gateway: Arc::clone(gateway),
            member: MemberId(NEXT_MEMBER.fetch_add(1, Ordering::Relaxed)),
            catalog: Arc::new(Catalog::new(&gateway.known, identity.profile(), gateway.list_wait)),
            identity: Arc::new(identity),
            current: Mutex::default(),
            subscriptions: Subscriptions::default(),
            tasks: Mutex::default(),
            closing: CancellationToken::new(),
            ended: CancellationToken::new(),
        });
        gateway.host_catalogs.add(&upstreams.catalog);
        let reloads = (gateway.known.watch_fleet(), gateway.views.watch());
        upstreams.current_set();
        upstreams.spawn(follow_reloads(Arc::downgrade(&upstreams), reloads));
        upstreams
    }

    /// Waits until `initialize` of the host was accepted or refused. Returns whether the host is
    /// served, as hosts without a session always are.
    pub(super) async fn wait_until_accepted(&self) -> bool {
        match &self.identity.session {
            Some(session) => session.handshake.wait_until_answered().await,
            None => true,
        }
    }

    /// The folders of the host, if they decide its view.
    pub(super) fn roots(&self) -> Option<&HostRoots> {
        match &self.identity.view {
            ViewChoice::ByRoots(roots) if self.gateway.views.current().has_roots() => Some(roots),
            _ => None,
        }
    }

    /// The name of the view of the host, if it was removed.
    pub(super) fn removed_view(&self) -> Option<&str> {
        match &self.identity.view {
            ViewChoice::Named(name) if self.had_view => {
                self.gateway.views.current().is_missing(&self.identity.view).then_some(name)
            }
            _ => None,
        }
    }

    /// Takes over what is known of the roots of the host by now.
    pub(super) fn follow_roots(&self) {
        self.current_set();
    }

    /// Which tasks the host can be told of.
    pub(super) fn host_tasks(&self) -> HostTasks {
        self.identity.tasks
    }

    /// Whose tasks these are: the principal and the view of the host, in a text that no other pair has.
    // SE-09
    pub(super) fn audience(&self) -> String {
        // No name of a view has a slash in it, so the last slash ends the principal.
        let set = self.current_set();
        format!("{}/{}", self.identity.principal.as_deref().unwrap_or_default(), set.view.name())
    }

    /// What the servers offer to this host.
    pub(super) fn catalog(&self) -> &Arc<Catalog> {
        self.current_set();
        &self.catalog
    }

    /// What there is of a server.
    fn get(&self, server: &str) -> Option<Arc<Upstream>> {
        let set = self.current_set();
        set.all.get(*set.by_name.get(server)?).cloned()
    }

    /// Uses a server, which is connected to if need be. `None` if there is no such server; or the error
    /// for each request to it.
    pub(super) fn connect(&self, server: &str) -> Option<Result<UpstreamUse, RpcError>> {
        let mut lost = None;
        loop {
            let upstream = self.get(server).filter(|upstream| lost != Some(upstream.server.id))?;
            match upstream.connected() {
                Ok(connection) => return Some(Ok(UpstreamUse { upstream, connection })),
                Err(ConnectError::Refused(error)) => return Some(Err(error)),
                // The servers were reloaded a moment ago.
                Err(ConnectError::Lost) => lost = Some(upstream.server.id),
            }
        }
    }

    /// The name of the only server, if there is one and the view hides nothing of it. What an unknown
    /// method reaches is not known.
    pub(super) fn only(&self) -> Option<String> {
        let set = self.current_set();
        match &*set.all {
            [only] if set.view.shows_all_of(&only.server.config.name) => {
                Some(only.server.config.name.clone())
            }
            _ => None,
        }
    }

    /// Waits until the lists of a server that is not changed are known, for at most `limit`. Fails if the server
    /// cannot be used until a person helps.
    pub(super) async fn wait_for_sole_server(&self, limit: Duration) -> Result<(), RpcError> {
        let mut changes = self.catalog.changes();
        let known = async {
            loop {
                let snapshot = self.catalog().snapshot();
                let Some(SoleServer { name, lists: None }) = snapshot.sole() else { return Ok(()) };
                let Some(used) = self.connect(name) else { return Ok(()) };
                let UpstreamUse { upstream, connection } = used?;
                upstream.retry_unusable(&connection.client).await?;
                if changes.changed().await.is_err() {
                    return Ok(());
                }
            }
        };
        timeout(limit, known).await.unwrap_or(Ok(()))
    }

    /// Sets the level of log messages, on each server as soon as it is connected.
    pub(super) fn set_log_level(&self, level: LogLevel) {
        let set = {
            let mut current = self.current.lock();
            current.log_level = Some(level);
            Arc::clone(&current.set)
        };
        for upstream in &set.all {
            upstream.set_log_level(level);
        }
    }

    /// Waits until the servers that are connected know the level of log messages, for a short time.
    pub(super) async fn wait_for_log_level(&self) {
        let connections: Vec<_> = self
            .current_set()
            .all
            .iter()
            .filter_map(|upstream| upstream.connection.borrow().clone())
            .collect();
        let connected = connections.into_iter().filter(|connection| connection.is_connected());
        let mut waiting: JoinSet<()> = connected
            .map(|connection| async move { connection.wait_for_log_level(SET_LOG_LEVEL_WAIT).await })
            .collect();
        while waiting.join_next().await.is_some() {}
    }

    /// Queues a notification of the host for every server that is connected.
    pub(super) fn forward_notification(&self, method: &str, params: Option<&Json>) {
        for upstream in &self.current_set().all {
            if let Some(connection) = &*upstream.connection.borrow() {
                connection.forward_notification(method, params);
            }
        }
    }

    /// Runs a task until the session is over.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let ended = self.ended.clone();
        // Each layer around a future would have room for it twice.
        let task = Box::pin(task);
        let mut tasks = self.tasks.lock();
        while tasks.try_join_next().is_some() {}
        tasks.spawn(async move {
            ended.run_until_cancelled(task).await;
        });
    }

    /// Gives up all connections at once. Those that nobody else can have are closed.
    pub(super) async fn close(&self) {
        let set = {
            let mut current = self.current.lock();
            current.is_closed = true;
            Arc::clone(&current.set)
        };
        self.closing.cancel();
        self.subscriptions.clear();
        let mut closing = JoinSet::new();
        for upstream in &set.all {
            let upstream = Arc::clone(upstream);
            closing.spawn(async move {
                let connections = &upstream.gateway.connections;
                connections.leave(upstream.server.id, &upstream.scope, upstream.member).await;
            });
        }
        while closing.join_next().await.is_some() {}
        self.ended.cancel();
        let mut tasks = std::mem::take(&mut *self.tasks.lock());
        while tasks.join_next().await.is_some() {}
    }

    /// What there is of each server. If the servers were reloaded, those that are lost are given up,
    /// and new ones are connected to.
    fn current_set(&self) -> Arc<UpstreamSet> {
        let mut current = self.current.lock();
        if current.is_closed {
            return Arc::default();
        }
        let fleet = self.gateway.known.fleet();
        let view = self.gateway.views.resolve(&self.identity.view);
        if Arc::ptr_eq(&current.set.fleet, &fleet) && Arc::ptr_eq(&current.set.view, &view) {
            return Arc::clone(&current.set);
        }
        self.catalog.set_fleet(&fleet, &view);
        let before: HashMap<ServerId, _> =
            current.set.all.iter().map(|upstream| (upstream.server.id, upstream)).collect();
        let all: Vec<_> = fleet
            .iter()
            .filter(|server| view.shows_server(&server.config.name))
            .map(|server| match before.get(&server.id) {
                Some(upstream) => Arc::clone(upstream),
                None => self.open_upstream(server, current.log_level),
            })
            .collect();
        for upstream in before.into_values() {
            if !fleet.contains(upstream.server.id) {
                // Its open calls go on.
                upstream.lost.cancel();
            } else if !view.shows_server(&upstream.server.config.name) {
                self.leave_hidden(Arc::clone(upstream));
            }
        }
        let by_name = all.iter().enumerate();
        let by_name = by_name.map(|(at, upstream)| (upstream.server.config.name.as_str().into(), at));
        let by_name = by_name.collect();
        current.set = Arc::new(UpstreamSet { fleet, view, all, by_name });
        Arc::clone(&current.set)
    }

    /// Leaves the connection to a server that the view no longer shows, after the calls that are open, and at the
    /// latest when the session is closed, which waits for it.
    fn leave_hidden(&self, upstream: Arc<Upstream>) {
        upstream.lost.cancel();
        let (this, drain_timeout) = (Weak::clone(&self.this), self.gateway.drain_timeout);
        let closing = self.closing.clone();
        self.tasks.lock().spawn(async move {
            let all = u32::try_from(MAX_CALLS_PER_SERVER).expect("it is a small number");
            let drained = timeout(drain_timeout, upstream.calls.acquire_many(all));
            let _ = closing.run_until_cancelled(drained).await;
            // By now it may be shown again, and use the same connection.
            let is_shown = |this: Arc<Self>| this.get(&upstream.server.config.name).is_some();
            if !this.upgrade().is_some_and(is_shown) {
                let connections = &upstream.gateway.connections;
                connections.leave(upstream.server.id, &upstream.scope, upstream.member).await;
            }
        });
    }

    /// Connects to a server when it is its turn, unless it has been left by then.
    fn connect_in_turn(&self, upstream: Arc<Upstream>) {
        let (this, gateway) = (Weak::clone(&self.this), Arc::clone(&self.gateway));
        self.spawn(async move {
            let connect = || async move {
                // Whoever leaves the servers holds the lock as well, so none is joined after that.
                let connection = this.upgrade().and_then(|this| {
                    let current = this.current.lock();
                    let is_left = current.is_closed || upstream.lost.is_cancelled();
                    let in_use = if is_left { None } else { upstream.begin_connecting() };
                    // A connection that is retired or idle meanwhile is closed all the same.
                    in_use.map(|in_use| Arc::clone(in_use.shared()))
                });
                if let Some(connection) = connection {
                    connection.wait_for_attempt().await;
                }
            };
            gateway.connect_pacer.run(connect).await;
        });
    }

    /// Begins to use a server, and to connect to it unless it is to be started on call.
    fn open_upstream(&self, server: &Arc<FleetServer>, log_level: Option<LogLevel>) -> Arc<Upstream> {
        let config = &server.config;
        let lists = self.gateway.known.get(server, self.identity.profile());
        let upstream = Arc::new(Upstream {
            server: Arc::clone(server),
            gateway: Arc::clone(&self.gateway),
            member: self.member,
            identity: Arc::clone(&self.identity),
            scope: Scope::decide(config.share, lists.as_deref(), self.member, &self.identity),
            connection: watch::Sender::default(),
            log_level: Mutex::new(log_level),
            calls: Semaphore::new(MAX_CALLS_PER_SERVER),
            lost: self.ended.child_token(),
        });
        let following = follow_lists(Arc::clone(&self.catalog), server.id, upstream.connection.subscribe());
        let following = upstream.lost.clone().run_until_cancelled_owned(Box::pin(following));
        self.spawn(async move {
            following.await;
        });
        match lists {
            Some(lists) if config.idle_stop.is_some() && lists.is_complete() => {
                self.catalog.set_dormant(server.id);
            }
            // The host has lists from before. Its first call to the server does not wait for this.
            Some(lists) if lists.is_complete() => self.connect_in_turn(Arc::clone(&upstream)),
            _ => drop(upstream.begin_connecting()),
        }
        upstream
    }
}

impl Upstream {
    /// Begins to connect, if that is possible.
    fn begin_connecting(&self) -> Option<ConnectionUse> {
        match self.connected() {
            Ok(connection) => Some(connection),
            Err(ConnectError::Refused(error)) => {
                let server = &self.server.config.name;
                tracing::warn!(server, %error.message, "a server cannot be connected to");
                None
            }
            Err(ConnectError::Lost) => None,
        }
    }

    /// The connection, opened if need be.
    fn connected(&self) -> Result<ConnectionUse, ConnectError> {
        loop {
            let current = self.connection.borrow().clone();
            if let Some(in_use) = current.as_ref().and_then(Connection::begin_use) {
                return Ok(in_use);
            }
            let log_level = *self.log_level.lock();
            let connection = self.gateway.connections.join(
                &self.gateway,
                (&self.server, &self.scope),
                (self.member, &self.identity, log_level),
            )?;
            self.connection.send_replace(Some(Arc::clone(&connection)));
            // A level that was set meanwhile found no connection to be applied to.
            let current_level = *self.log_level.lock();
            if let Some(level) = current_level.filter(|_| current_level != log_level) {
                connection.members.set_log_level(self.member, level);
                connection.apply_log_level();
            }
        }
    }

    /// Waits until the server is configured otherwise or not any more, or the session is over.
    pub(super) async fn wait_until_lost(&self) {
        self.lost.cancelled().await;
    }

    /// The session, as the server knows it.
    pub(super) fn member(&self) -> MemberId {
        self.member
    }

    /// The link to the session of the host, if it has one.
    pub(super) fn session(&self) -> Option<&SessionLink> {
        self.identity.session.as_ref()
    }

    /// Which tasks the host can be told of.
    pub(super) fn host_tasks(&self) -> HostTasks {
        self.identity.tasks
    }

    /// Counts a call while the permit lives. `None` if there are too many.
    pub(super) fn count_call(&self) -> Option<SemaphorePermit<'_>> {
        self.calls.try_acquire().ok()
    }

    /// The error response for a request that failed.
    pub(super) fn error_response(&self, client: &Client, error: &bowline::Error) -> RpcError {
        tracing::info!(%error, "a request failed");
        let status = client.status().current();
        let config = &self.server.config;
        // Without a connection the missing login was reported when the connection was lost.
        if let (ErrorKind::Fault(fault), Status::Ready(_)) = (error.kind(), &status)
            && error_response::scopes_to_add(fault).is_some()
        {
            (self.gateway.on_denied)(config, fault);
        }
        let login = |scopes: &[String]| (self.gateway.login_command)(config, scopes);
        let wait = (config.reconnect_wait, Some(self.gateway.reconnect_setting));
        error_response::from_error(error, &ConnectionState::of(client, &status, wait, Some(&login)))
    }

    /// Tries a server again that cannot be used until a person helps, since somebody may have. Fails with the error
    /// for each request to it.
    async fn retry_unusable(&self, client: &Client) -> Result<(), RpcError> {
        let (Status::NeedsLogin(_) | Status::Failed(_)) = client.status().current() else { return Ok(()) };
        client.peer().await.map(drop).map_err(|error| self.error_response(client, &error))
    }

    fn set_log_level(&self, level: LogLevel) {
        *self.log_level.lock() = Some(level);
        if let Some(connection) = &*self.connection.borrow() {
            connection.members.set_log_level(self.member, level);
            connection.apply_log_level();
        }
    }
}

static NEXT_MEMBER: AtomicU64 = AtomicU64::new(0);

/// How many calls of one session, or of hosts that share a connection, a server may have open: three
/// quarters of what a session may have.
const MAX_CALLS_PER_SERVER: usize = MAX_RUNNING_REQUESTS / 4 * 3;

#[cfg(test)]
mod tests;

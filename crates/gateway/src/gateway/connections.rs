//! [`Connections`]: the connections to all servers, and which of them hosts share.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bowline::config::Share;
use bowline::types::LogLevel;
use bowline::{Json, RpcError};
use bowline_proto::via::Via;
use parking_lot::Mutex;
use tokio::time::{Instant, interval, timeout};
use tokio_util::task::TaskTracker;

use super::Shared;
use super::connection::Connection;
use super::members::MemberId;
use super::session::CLOSE_TIMEOUT;
use super::upstream::Identity;
use crate::catalog::ServerLists;
use crate::fleet::{FleetServer, ServerId};

/// The connections to all servers.
#[derive(Default)]
pub(super) struct Connections {
    state: Mutex<State>,
    /// The connections that are being closed.
    closing: TaskTracker,
}

#[derive(Default)]
struct State {
    open: HashMap<ConnectionKey, Arc<Connection>>,
    /// Connections of servers that are configured otherwise or not any more. Calls may be open on
    /// them, and no others begin.
    retired: HashMap<ConnectionKey, Arc<Connection>>,
    /// Whether a task looks for idle connections.
    is_swept: bool,
}

/// A connection is that of one configuration of a server.
type ConnectionKey = (ServerId, Scope);

/// Why there is no connection.
#[derive(Debug)]
pub(super) enum ConnectError {
    /// The server is configured otherwise by now, or not any more.
    Lost,
    /// It cannot be connected to. This is the error for each request to it.
    Refused(RpcError),
}

/// Who uses a connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Scope {
    /// One member.
    Own(MemberId),
    /// All members of this principal with this client info and these capabilities that have passed these
    /// gateways, all of which the server is told.
    Shared { principal: Option<Arc<str>>, client_info: Json, capabilities: Json, via: Via },
}

impl Scope {
    /// Decides who shares a connection to a server that offered these lists before.
    pub(super) fn decide(
        share: Share,
        lists: Option<&ServerLists>,
        member: MemberId,
        identity: &Identity,
    ) -> Self {
        let is_shared = match share {
            Share::All => true,
            Share::Auto => lists.is_some_and(keeps_nothing_for_a_host),
            _ => false,
        };
        // Hosts without a session share all their connections already.
        if !is_shared || identity.session.is_none() {
            return Self::Own(member);
        }
        // A server without sessions asks for roots because of one call, and gets those of its host.
        let is_stateless = lists.is_some_and(|lists| lists.is_stateless);
        let capabilities =
            if is_stateless { identity.capabilities.clone() } else { identity.capabilities_without_roots() };
        let (principal, client_info) = (identity.principal.clone(), identity.client_info.clone());
        Self::Shared { principal, client_info, capabilities, via: identity.via.clone() }
    }

    pub(super) fn is_shared(&self) -> bool {
        matches!(self, Self::Shared { .. })
    }
}

/// Whether a server keeps nothing that belongs to one host, as far as it has declared and shown.
fn keeps_nothing_for_a_host(lists: &ServerLists) -> bool {
    let only_reads = |tool: &Json| {
        let hint = tool.member("annotations").and_then(|annotations| annotations.member("readOnlyHint"));
        hint.and_then(|hint| hint.decode().ok()) == Some(true)
    };
    !lists.has_asked && (lists.is_stateless || !lists.tools.is_empty() && lists.tools.iter().all(only_reads))
}

impl Connections {
    /// Gives a member a connection to a server: an open one that it shares, or a new one.
    pub(super) fn join(
        self: &Arc<Self>,
        gateway: &Arc<Shared>,
        (server, scope): (&Arc<FleetServer>, &Scope),
        (member, identity, log_level): (MemberId, &Identity, Option<LogLevel>),
    ) -> Result<Arc<Connection>, ConnectError> {
        let mut state = self.state.lock();
        // The fleet is replaced before its lost servers are retired, which takes this lock: so none
        // of their connections is missed.
        if !gateway.known.fleet().contains(server.id) {
            return Err(ConnectError::Lost);
        }
        let key = (server.id, scope.clone());
        let open = state.open.get(&key).filter(|connection| connection.begin_use().is_some());
        let connection = if let Some(connection) = open {
            Arc::clone(connection)
        } else {
            let opened = Connection::open(gateway, server, identity, scope);
            let connection = opened.map_err(ConnectError::Refused)?;
            state.open.insert(key, Arc::clone(&connection));
            connection
        };
        connection.members.join(member, identity.session.clone(), log_level);
        let can_be_idle = scope.is_shared() || server.config.idle_stop.is_some();
        if can_be_idle && !std::mem::replace(&mut state.is_swept, true) {
            tokio::spawn(sweep(Arc::downgrade(self)));
        }
        drop(state);
        connection.apply_log_level();
        Ok(connection)
    }

    /// Takes the connection from a member. If nobody else can have it, it is closed, which is waited
    /// for.
    pub(super) async fn leave(&self, server: ServerId, scope: &Scope, member: MemberId) {
        let connection = {
            let mut state = self.state.lock();
            let key = (server, scope.clone());
            let Some(connection) = state.open.get(&key) else { return };
            let has_others = connection.members.leave(member);
            if has_others || scope.is_shared() {
                let connection = Arc::clone(connection);
                drop(state);
                // Others may want less.
                connection.apply_log_level();
                return;
            }
            state.open.remove(&key)
        };
        if let Some(connection) = connection {
            connection.close().await;
        }
    }

    /// Gives up the connections to servers that are configured otherwise or not any more. Open calls
    /// go on, and each connection is closed after its last one, at the latest after `limit`.
    pub(super) fn retire(self: &Arc<Self>, lost: &[ServerId], limit: Duration) {
        let mut state = self.state.lock();
        let retired: Vec<_> = state.open.extract_if(|(server, _), _| lost.contains(server)).collect();
        for (key, connection) in retired {
            connection.retire();
            state.retired.insert(key.clone(), Arc::clone(&connection));
            tokio::spawn(close_when_released(Arc::downgrade(self), key, connection, limit));
        }
    }

    /// Closes connections that nobody has used for too long: those that no member has, and those to
    /// servers that are to stop when they are idle.
    fn close_idle(&self, now: Instant) {
        let mut state = self.state.lock();
        let idle = state.open.extract_if(|_, connection| {
            let after = match connection.server.config.idle_stop {
                _ if connection.members.count() == 0 => LINGER,
                // Its lists are needed.
                Some(after) if connection.has_lists() => after,
                _ => return false,
            };
            now.checked_sub(after).is_some_and(|before| connection.begin_close_if_idle(before))
        });
        idle.for_each(|(_, connection)| self.spawn_close(connection));
    }

    /// Closes the connections that no member has or that are retired and have no call, and waits
    /// until all are closed that are being closed.
    pub(super) async fn close_unused(&self) {
        let now = Instant::now();
        {
            let mut state = self.state.lock();
            let State { open, retired, .. } = &mut *state;
            let unused = open.extract_if(|_, connection| {
                connection.members.count() == 0 && connection.begin_close_if_idle(now)
            });
            let released = retired.extract_if(|_, connection| connection.begin_close_if_idle(now));
            unused.chain(released).for_each(|(_, connection)| self.spawn_close(connection));
        }
        self.closing.close();
        self.closing.wait().await;
        self.closing.reopen();
    }

    fn spawn_close(&self, connection: Arc<Connection>) {
        self.closing.spawn(async move {
            if timeout(CLOSE_TIMEOUT, connection.close()).await.is_err() {
                tracing::warn!("a server did not let itself be closed in time");
            }
        });
    }
}

/// Closes a retired connection after its last call, at the latest after `limit`.
async fn close_when_released(
    connections: Weak<Connections>,
    key: ConnectionKey,
    connection: Arc<Connection>,
    limit: Duration,
) {
    if timeout(limit, connection.wait_until_released()).await.is_err() {
        let server = &connection.server.config.name;
        tracing::warn!(server, "calls are canceled: the configuration of their server has changed");
    }
    let Some(connections) = connections.upgrade() else { return connection.close().await };
    // The lock is held meanwhile, so that whoever waits for all to be closed waits for it too.
    let mut state = connections.state.lock();
    // Otherwise somebody else closes it.
    if state.retired.remove(&key).is_some() {
        connections.spawn_close(connection);
    }
}

async fn sweep(connections: Weak<Connections>) {
    let mut ticks = interval(SWEEP_INTERVAL);
    loop {
        ticks.tick().await;
        let Some(connections) = connections.upgrade() else { return };
        connections.close_idle(Instant::now());
    }
}

/// How long a shared connection that no session has is kept for the next one.
const LINGER: Duration = Duration::from_secs(60);
/// How often idle connections are looked for.
const SWEEP_INTERVAL: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests;

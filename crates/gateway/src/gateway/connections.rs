//! [`Connections`]: the connections to all servers, and which of them hosts share.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bowline::config::Share;
use bowline::types::LogLevel;
use bowline::{Json, RpcError};
use parking_lot::Mutex;
use tokio::time::{Instant, interval, timeout};
use tokio_util::task::TaskTracker;

use super::Shared;
use super::connection::Connection;
use super::members::MemberId;
use super::session::CLOSE_TIMEOUT;
use super::upstream::Identity;
use crate::catalog::ServerLists;

/// The connections to all servers.
#[derive(Default)]
pub(super) struct Connections {
    state: Mutex<State>,
    /// The connections that are being closed.
    closing: TaskTracker,
}

#[derive(Default)]
struct State {
    open: HashMap<(usize, Scope), Arc<Connection>>,
    /// Whether a task looks for idle connections.
    is_swept: bool,
}

/// Who uses a connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Scope {
    /// One member.
    Own(MemberId),
    /// All members with this client info and these capabilities.
    Shared(Box<str>),
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
            Share::Session => false,
            Share::All => true,
            Share::Auto => lists.is_some_and(keeps_nothing_for_a_host),
        };
        // Hosts without a session share all their connections already.
        if !is_shared || identity.session.is_none() {
            return Self::Own(member);
        }
        let capabilities = identity.capabilities_for(true);
        Self::Shared(format!("{}\n{capabilities}", identity.client_info).into())
    }

    fn is_shared(&self) -> bool {
        matches!(self, Self::Shared(_))
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
    /// Gives a member a connection to the server at this position: an open one that it shares, or a
    /// new one.
    pub(super) fn join(
        self: &Arc<Self>,
        gateway: &Arc<Shared>,
        (at, scope): (usize, &Scope),
        (member, identity, log_level): (MemberId, &Identity, Option<LogLevel>),
    ) -> Result<Arc<Connection>, RpcError> {
        let mut state = self.state.lock();
        let key = (at, scope.clone());
        let open = state.open.get(&key).filter(|connection| connection.begin_use().is_some());
        let connection = if let Some(connection) = open {
            Arc::clone(connection)
        } else {
            let connection = Connection::open(gateway, at, identity, scope.is_shared())?;
            state.open.insert(key, Arc::clone(&connection));
            connection
        };
        connection.members.join(member, identity.session.clone(), log_level);
        let can_be_idle = scope.is_shared() || gateway.known.servers()[at].idle_stop.is_some();
        if can_be_idle && !std::mem::replace(&mut state.is_swept, true) {
            tokio::spawn(sweep(Arc::downgrade(self), Arc::downgrade(gateway)));
        }
        drop(state);
        connection.apply_log_level();
        Ok(connection)
    }

    /// Takes the connection from a member. If nobody else can have it, it is closed, which is waited
    /// for.
    pub(super) async fn leave(&self, at: usize, scope: &Scope, member: MemberId) {
        let connection = {
            let mut state = self.state.lock();
            let key = (at, scope.clone());
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

    /// Closes connections that nobody has used for too long: those that no member has, and those to
    /// servers that are to stop when they are idle.
    fn close_idle(&self, gateway: &Shared, now: Instant) {
        self.close_where(|at, connection| {
            let after = match gateway.known.servers()[at].idle_stop {
                _ if connection.members.count() == 0 => LINGER,
                // Its lists are needed.
                Some(after) if connection.has_lists() => after,
                _ => return false,
            };
            now.checked_sub(after).is_some_and(|before| connection.begin_close_if_idle(before))
        });
    }

    /// Closes the connections that no member has, and waits until all are closed that are being
    /// closed.
    pub(super) async fn close_unused(&self) {
        let now = Instant::now();
        self.close_where(|_, connection| {
            connection.members.count() == 0 && connection.begin_close_if_idle(now)
        });
        self.closing.close();
        self.closing.wait().await;
        self.closing.reopen();
    }

    fn close_where(&self, condition: impl Fn(usize, &Connection) -> bool) {
        let mut state = self.state.lock();
        for (_, connection) in state.open.extract_if(|(at, _), connection| condition(*at, connection)) {
            self.closing.spawn(async move {
                if timeout(CLOSE_TIMEOUT, connection.close()).await.is_err() {
                    tracing::warn!("a server did not let itself be closed in time");
                }
            });
        }
    }
}

async fn sweep(connections: Weak<Connections>, gateway: Weak<Shared>) {
    let mut ticks = interval(SWEEP_INTERVAL);
    loop {
        ticks.tick().await;
        let (Some(connections), Some(gateway)) = (connections.upgrade(), gateway.upgrade()) else { return };
        connections.close_idle(&gateway, Instant::now());
    }
}

/// How long a shared connection that no session has is kept for the next one.
const LINGER: Duration = Duration::from_secs(60);
/// How often idle connections are looked for.
const SWEEP_INTERVAL: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests;

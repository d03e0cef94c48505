//! Connections that hosts without a session share, by their principal, the name, version and
//! capabilities that they declare, and their view of the servers.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use bowline::Json;
use bowline_proto::server::modern::input::forwarded_capabilities;
use bowline_proto::server::modern::request::ModernRequest;
use bowline_proto::via::Via;
use bowline_server::Audience;
use parking_lot::Mutex;
use tokio::time::{Instant, interval, timeout};
use tokio_util::task::TaskTracker;

use super::Shared;
use super::handshake::server_info;
use super::session::CLOSE_TIMEOUT;
use super::upstream::{HostTasks, Identity, Upstreams};
use crate::handshake::with_apps;
use crate::view::ViewChoice;

/// The shared connections, opened when they are first needed and closed when they are idle.
pub(super) struct SharedUpstreams {
    gateway: Arc<Shared>,
    by_client: Mutex<HashMap<ClientKey, Entry>>,
    /// The connections that are being closed.
    closing: TaskTracker,
}

/// What hosts that share connections have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ClientKey {
    /// On whose behalf they act. What a server says about the calls of one must not reach another.
    principal: Option<Box<str>>,
    /// The text of their `Implementation`.
    client_info: Box<str>,
    /// The capabilities that servers are told.
    capabilities: Box<str>,
    /// The name of their view.
    view: Box<str>,
    /// The gateways that they have passed.
    via: Via,
}

/// Whose a request is, and where it comes from.
#[derive(Clone, Copy)]
struct HostScope<'a> {
    principal: Option<&'a str>,
    view: Option<&'a str>,
    via: &'a Via,
}

struct Entry {
    upstreams: Arc<Upstreams>,
    /// How many requests use them.
    users: usize,
    /// Since when none does.
    idle_since: Instant,
}

/// Shared connections in use by one request.
pub(super) struct UpstreamLease {
    shared: Arc<SharedUpstreams>,
    client: ClientKey,
    upstreams: Arc<Upstreams>,
}

/// Most kinds of hosts of a principal for which servers are connected to at a time. A host can declare
/// anything; hosts beyond that share connections in the name of the gateway, by their capabilities alone, which
/// have few values.
const MAX_CLIENTS: usize = 32;
/// Longest name and version that servers are told, in bytes.
const MAX_CLIENT_INFO_BYTES: usize = 4 * 1024;
/// After how long without a request connections are closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(5 * 60);
/// How often idle connections are looked for.
const SWEEP_INTERVAL: Duration = Duration::from_secs(30);

impl SharedUpstreams {
    pub(super) fn new(gateway: Arc<Shared>) -> Arc<Self> {
        Arc::new(Self { gateway, by_client: Mutex::default(), closing: TaskTracker::new() })
    }

    /// The connections for the host of a request.
    // GW-15
    pub(super) fn lease(self: &Arc<Self>, client: &ModernRequest, audience: &Audience) -> UpstreamLease {
        let declared = &client.client_capabilities;
        let capabilities = with_apps(forwarded_capabilities(declared), declared);
        let scope = HostScope { principal: audience.principal(), view: audience.view(), via: audience.via() };
        self.lease_for(client.client_info.as_ref(), capabilities, scope)
    }

    /// The connections for hosts of this principal that declare this name and version, an
    /// `Implementation`, and these capabilities, and have this view.
    fn lease_for(
        self: &Arc<Self>,
        client_info: Option<&Json>,
        capabilities: Json,
        HostScope { principal, view, via }: HostScope<'_>,
    ) -> UpstreamLease {
        let key = |client_info: &Json| ClientKey {
            principal: principal.map(Box::from),
            client_info: client_info.as_str().into(),
            capabilities: capabilities.as_str().into(),
            view: view.unwrap_or_default().into(),
            via: via.clone(),
        };
        let mut by_client = self.by_client.lock();
        let declared = client_info.filter(|info| info.as_bytes().len() <= MAX_CLIENT_INFO_BYTES);
        let declared = declared.filter(|info| {
            let is_known = by_client.contains_key(&key(info));
            let own = by_client.keys().filter(|client| client.principal.as_deref() == principal);
            is_known || own.count() < MAX_CLIENTS || self.close_longest_idle(&mut by_client, principal)
        });
        let client_info = declared.cloned().unwrap_or_else(server_info);
        let client = key(&client_info);
        let entry = by_client.entry(client.clone()).or_insert_with(|| Entry {
            upstreams: Upstreams::open(
                &self.gateway,
                Identity {
                    principal: principal.map(Arc::from),
                    client_info,
                    capabilities,
                    view: ViewChoice::selected(view),
                    tasks: HostTasks::ByRequest,
                    via: via.clone(),
                    session: None,
                },
            ),
            users: 0,
            idle_since: Instant::now(),
        });
        entry.users += 1;
        UpstreamLease { shared: Arc::clone(self), client, upstreams: Arc::clone(&entry.upstreams) }
    }

    /// Closes connections that are idle for too long. Never returns.
    pub(super) async fn close_idle(&self) {
        let mut ticks = interval(SWEEP_INTERVAL);
        loop {
            ticks.tick().await;
            self.close_idle_at(Instant::now());
        }
    }

    fn close_idle_at(&self, now: Instant) {
        let is_idle = |entry: &Entry| now.saturating_duration_since(entry.idle_since) >= IDLE_TIMEOUT;
        self.close_where(|entry| entry.users == 0 && is_idle(entry));
    }

    /// Closes all connections, and waits until they are closed.
    pub(super) async fn close(&self) {
        self.close_where(|_| true);
        self.closing.close();
        self.closing.wait().await;
    }

    fn close_where(&self, condition: impl Fn(&Entry) -> bool) {
        let mut by_client = self.by_client.lock();
        for (_, entry) in by_client.extract_if(|_, entry| condition(entry)) {
            self.spawn_close(entry.upstreams);
        }
    }

    /// Closes the connections of a principal that are unused for the longest time. `false` if all are in
    /// use.
    fn close_longest_idle(&self, by_client: &mut HashMap<ClientKey, Entry>, principal: Option<&str>) -> bool {
        let own = by_client.iter().filter(|(client, _)| client.principal.as_deref() == principal);
        let idle = own.filter(|(_, entry)| entry.users == 0);
        let longest = idle.min_by_key(|(_, entry)| entry.idle_since).map(|(client, _)| client.clone());
        let Some(entry) = longest.and_then(|client| by_client.remove(&client)) else { return false };
        self.spawn_close(entry.upstreams);
        true
    }

    fn spawn_close(&self, upstreams: Arc<Upstreams>) {
        self.closing.spawn(async move {
            if timeout(CLOSE_TIMEOUT, upstreams.close()).await.is_err() {
                tracing::warn!("a server did not let itself be closed in time");
            }
        });
    }
}

impl UpstreamLease {
    /// What the hosts that share the connections have of the servers.
    pub(super) fn upstreams(&self) -> Arc<Upstreams> {
        Arc::clone(&self.upstreams)
    }
}

impl Clone for UpstreamLease {
    fn clone(&self) -> Self {
        if let Some(entry) = self.shared.by_client.lock().get_mut(&self.client) {
            entry.users += 1;
        }
        Self {
            shared: Arc::clone(&self.shared),
            client: self.client.clone(),
            upstreams: Arc::clone(&self.upstreams),
        }
    }
}

impl Deref for UpstreamLease {
    type Target = Upstreams;

    fn deref(&self) -> &Upstreams {
        &self.upstreams
    }
}

impl Drop for UpstreamLease {
    fn drop(&mut self) {
        if let Some(entry) = self.shared.by_client.lock().get_mut(&self.client) {
            entry.users = entry.users.saturating_sub(1);
            entry.idle_since = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use bowline::config::View;
    use bowline_proto::server::handshake::implementation;

    use super::super::Gateway;
    use super::*;

    fn scope<'a>(principal: Option<&'a str>, view: Option<&'a str>) -> HostScope<'a> {
        static NO_GATEWAY: LazyLock<Via> = LazyLock::new(Via::default);
        HostScope { principal, view, via: &NO_GATEWAY }
    }

    fn shared() -> Arc<SharedUpstreams> {
        SharedUpstreams::new(Gateway::builder([]).build().0)
    }

    fn lease(shared: &Arc<SharedUpstreams>, name: &str) -> UpstreamLease {
        shared.lease_for(Some(&implementation(name, "1")), Json::empty_object(), scope(None, None))
    }

    fn names(shared: &SharedUpstreams) -> usize {
        shared.by_client.lock().len()
    }

    /// Nobody hears what is meant for another, and nobody uses up what is meant for another.
    #[tokio::test]
    async fn principals_share_nothing() {
        let shared = shared();
        let lease_of = |principal, name: &str| {
            shared.lease_for(Some(&implementation(name, "1")), Json::empty_object(), scope(principal, None))
        };
        let many: Vec<_> =
            (0..=MAX_CLIENTS).map(|number| lease_of(Some("one"), &number.to_string())).collect();
        let beyond = lease_of(Some("one"), "x");
        assert!(Arc::ptr_eq(&many[MAX_CLIENTS].upstreams, &beyond.upstreams));
        let other = lease_of(Some("two"), "x");
        assert_eq!(*other.client.client_info, *implementation("x", "1").as_str());
        for one in many.iter().chain([&beyond]) {
            assert!(!Arc::ptr_eq(&one.upstreams, &other.upstreams));
        }
        assert!(Arc::ptr_eq(&other.upstreams, &lease_of(Some("two"), "x").upstreams));
    }

    #[tokio::test]
    async fn the_number_of_names_is_bounded() {
        let shared = shared();
        let mut held: Vec<_> = (0..MAX_CLIENTS).map(|number| lease(&shared, &number.to_string())).collect();
        // All are in use, so others share the connections of the gateway itself.
        let (first, second) = (lease(&shared, "x"), lease(&shared, "y"));
        assert!(Arc::ptr_eq(&first.upstreams, &second.upstreams));
        assert_eq!(*first.client.client_info, *server_info().as_str());
        let anonymous = shared.lease_for(None, Json::empty_object(), scope(None, None));
        let large = lease(&shared, &"z".repeat(MAX_CLIENT_INFO_BYTES));
        for other in [&anonymous, &large] {
            assert!(Arc::ptr_eq(&first.upstreams, &other.upstreams));
        }
        assert_eq!(names(&shared), MAX_CLIENTS + 1);
        let known = lease(&shared, "0");
        assert!(Arc::ptr_eq(&known.upstreams, &held[0].upstreams));
        // The name that is unused for the longest time makes room.
        drop(held.pop());
        drop(held.pop());
        drop([first, second, anonymous, large]);
        let next = lease(&shared, "x");
        assert_eq!(*next.client.client_info, *implementation("x", "1").as_str());
        let oldest = implementation(&(MAX_CLIENTS - 1).to_string(), "1");
        let is_oldest = |client: &ClientKey| *client.client_info == *oldest.as_str();
        assert!(!shared.by_client.lock().keys().any(is_oldest));
        assert_eq!(names(&shared), MAX_CLIENTS + 1);
    }

    // GW-15
    #[tokio::test]
    async fn hosts_with_other_capabilities_have_other_connections() {
        let shared = shared();
        let host = implementation("host", "1");
        let lease = |capabilities: &str| {
            shared.lease_for(Some(&host), Json::try_from(capabilities).unwrap(), scope(None, None))
        };
        let (none, roots, again) = (lease("{}"), lease(r#"{"roots":{}}"#), lease(r#"{"roots":{}}"#));
        assert!(!Arc::ptr_eq(&none.upstreams, &roots.upstreams));
        assert!(Arc::ptr_eq(&roots.upstreams, &again.upstreams));
        assert_eq!(names(&shared), 2);
    }

    #[tokio::test]
    async fn hosts_with_another_view_have_other_connections() {
        let gateway = Gateway::builder([]).view("a", View::default()).view("b", View::default()).build();
        let shared = SharedUpstreams::new(gateway.0);
        let host = implementation("host", "1");
        let in_view = |view| shared.lease_for(Some(&host), Json::empty_object(), scope(None, view));
        let (none, a) = (in_view(None), in_view(Some("a")));
        let (b, again) = (in_view(Some("b")), in_view(Some("a")));
        assert!(!Arc::ptr_eq(&none.upstreams, &a.upstreams) && !Arc::ptr_eq(&a.upstreams, &b.upstreams));
        assert!(Arc::ptr_eq(&a.upstreams, &again.upstreams));
        // Hosts of all kinds beyond the bound share connections, but never those of another view.
        let _held: Vec<_> = (0..MAX_CLIENTS).map(|number| lease(&shared, &number.to_string())).collect();
        let beyond = implementation("x", "1");
        let beyond = |view| shared.lease_for(Some(&beyond), Json::empty_object(), scope(None, view));
        assert!(!Arc::ptr_eq(&beyond(Some("a")).upstreams, &beyond(Some("b")).upstreams));
    }

    #[tokio::test]
    async fn the_next_request_after_a_reload_sees_it() {
        let server = |name: &str| bowline::Server::stdio(name, "nowhere").build().unwrap();
        let gateway = Gateway::builder([server("a")]).build();
        let shared = SharedUpstreams::new(Arc::clone(&gateway.0));
        let lease = lease(&shared, "host");
        let listed = || lease.catalog().stale_servers().into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        assert_eq!(listed(), ["a"]);
        // Nothing is waited for in between, so that no other task can have run.
        gateway.reload([server("b"), server("c")]);
        assert_eq!(listed(), ["b", "c"]);
        gateway.reload([server("c")]);
        assert!(lease.connect("b").is_none() && lease.connect("c").is_some());
        gateway.reload([server("d")]);
        assert_eq!(lease.only().as_deref(), Some("d"));
        shared.close().await;
        assert!(lease.connect("d").is_none(), "the connections are closed");
    }

    #[tokio::test]
    async fn connections_are_closed_when_nobody_has_used_them_for_long() {
        let shared = shared();
        let (used, idle) = (lease(&shared, "used"), lease(&shared, "idle"));
        drop(idle);
        let now = Instant::now();
        shared.close_idle_at(now);
        assert_eq!(names(&shared), 2);
        shared.close_idle_at(now + IDLE_TIMEOUT);
        assert_eq!(names(&shared), 1);
        assert!(Arc::ptr_eq(&lease(&shared, "used").upstreams, &used.upstreams));
        drop(used);
        shared.close().await;
        assert_eq!(names(&shared), 0);
    }
}

//! [`Gateway`]: one endpoint for hosts, in front of many servers.

mod announce;
mod connect_pacer;
mod connection;
mod connections;
mod handshake;
mod host_catalogs;
mod lists;
mod loops;
mod members;
mod questions;
mod request;
mod route;
mod session;
mod session_roots;
mod shared_calls;
mod shared_upstreams;
mod stateless;
mod subscriptions;
mod tasks;
mod upstream;

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bowline::config::View;
use bowline::{Client, ClientBuilder, ConnectionEvent, Fault, Server};
use bowline_server::{Host, HttpListener};
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use crate::catalog::{CatalogCache, KnownLists, Naming, StaleLists};
use crate::fleet::Reload;
use crate::task_id::TaskKey;
use crate::view::Views;
use connect_pacer::ConnectPacer;
use connections::Connections;
use host_catalogs::HostCatalogs;
use loops::GatewayId;
use session::HostSession;
use tasks::Tasks;

pub(crate) use handshake::server_info;
pub use lists::STALE_SERVERS;
pub(crate) use stateless::StatelessHosts;

/// One endpoint for hosts, in front of many servers. Clones share everything.
///
/// # Behavior
/// - A host is answered at once: what the servers offer comes from the catalog, which outlives the
///   process if there is a cache. A host is told of a change when a server turns out to offer
///   something else.
/// - A server that is down keeps its place in the lists. Their `_meta` says which servers could not
///   be asked, and why.
/// - A fault of a server never ends the session of a host, and never reaches another server. Calls
///   are retried where that is safe; others are answered with an error of code
///   [`UNREACHABLE`](crate::UNREACHABLE) that says whether the server can have executed them.
/// - Servers are connected to with the name and capabilities of the host. Sessions share connections
///   as [`Share`](bowline::config::Share) says; what a server asks or announces reaches only the host
///   that it is meant for.
/// - A connection that is idle is closed if [`Server::idle_stop`] says so, and opened by the next
///   call. What the server offers stays listed.
/// - Hosts of revision 2026-07-28 have no session. Those of the same name, version and capabilities
///   share connections. What a server asks because of a call is the `input_required` result of that
///   call, which goes on when the host sends its answers.
/// - Hosts create tasks and ask about them in the way of their revision, at servers of either kind of
///   tasks. An id of a task is of use to the hosts of one principal and view only, and holds after a
///   restart if there is a key ([`GatewayBuilder::task_key`]).
/// - The servers can be replaced by others while hosts are served; see [`Gateway::reload`].
/// - A host with a view ([`GatewayBuilder::view`]) sees a part of the servers, and reaches nothing
///   else. Only those servers are connected to for it.
/// - A server that is this gateway itself, or leads back to it, is not connected to: it fails with
///   [`Cause::Loop`](bowline::Cause::Loop). Gateways in a chain work.
/// - Names of tools and prompts are unique and valid for every model; see [`Naming`].
#[derive(Clone, Debug)]
pub struct Gateway(Arc<Shared>);

/// Settings of a [`Gateway`].
#[must_use]
pub struct GatewayBuilder {
    servers: Vec<Server>,
    views: BTreeMap<Box<str>, View>,
    naming: Naming,
    cache: Option<Arc<dyn CatalogCache>>,
    list_wait: Duration,
    drain_timeout: Duration,
    input_timeout: Duration,
    client_builder: Arc<ClientFactory>,
    observer: Arc<Observer>,
    on_denied: Arc<DenialObserver>,
    login_command: Arc<LoginCommands>,
    reconnect_setting: &'static str,
    task_key: Option<TaskKey>,
    fingerprint: Option<String>,
}

type ClientFactory = dyn Fn(Server) -> ClientBuilder + Send + Sync;
type Observer = dyn Fn(&ConnectionEvent) + Send + Sync;
type DenialObserver = dyn Fn(&Server, &Fault) + Send + Sync;
type LoginCommands = dyn Fn(&Server, &[String]) -> Option<String> + Send + Sync;

struct Shared {
    known: Arc<KnownLists>,
    views: Views,
    connections: Arc<Connections>,
    connect_pacer: ConnectPacer,
    host_catalogs: HostCatalogs,
    list_wait: Duration,
    drain_timeout: Duration,
    input_timeout: Duration,
    client_builder: Arc<ClientFactory>,
    observer: Arc<Observer>,
    on_denied: Arc<DenialObserver>,
    login_command: Arc<LoginCommands>,
    /// What a person can raise for calls to wait longer for a server.
    reconnect_setting: &'static str,
    tasks: Tasks,
    gateway_id: GatewayId,
}

impl Gateway {
    /// Begins a gateway in front of these servers. Disabled ones are left out.
    pub fn builder(servers: impl IntoIterator<Item = Server>) -> GatewayBuilder {
        GatewayBuilder {
            servers: servers.into_iter().collect(),
            views: BTreeMap::new(),
            naming: Naming::default(),
            cache: None,
            list_wait: LIST_WAIT,
            drain_timeout: DRAIN_TIMEOUT,
            input_timeout: INPUT_TIMEOUT,
            client_builder: Arc::new(|server: Server| Client::builder(server)),
            observer: Arc::new(|_: &ConnectionEvent| {}),
            on_denied: Arc::new(|_: &Server, _: &Fault| {}),
            login_command: Arc::new(|_: &Server, _: &[String]| None),
            reconnect_setting: "reconnect_wait in its entry",
            task_key: None,
            fingerprint: None,
        }
    }

    /// Takes over another set of servers while hosts are served. Disabled servers are left out.
    ///
    /// # Behavior
    /// - A server that is equal to one of before stays as it is: its connections, lists,
    ///   subscriptions and calls go on, and it is sent nothing.
    /// - A server that is new or has changed is connected to, for each session as at its beginning.
    ///   Subscriptions of hosts to one that has changed are restored. Hosts are told of the lists
    ///   that differ.
    /// - Calls that are open on a server that has changed or was removed go on over the old
    ///   connection, which is closed after its last call, at the latest after
    ///   [`GatewayBuilder::drain_timeout`]. Calls that come later go to the server as it is
    ///   configured now.
    /// - No tool or prompt ever gets a name that another one had.
    ///
    /// It returns at once, and requests that arrive from then on see the new servers. It must be
    /// called within the runtime that serves the hosts.
    pub fn reload(&self, servers: impl IntoIterator<Item = Server>) -> Reload {
        let (reload, lost) = self.0.known.reload(servers.into_iter().collect());
        self.0.connections.retire(&lost, self.0.drain_timeout);
        reload
    }

    /// Takes over another set of views while hosts are served.
    ///
    /// # Behavior
    /// - A host whose view is as before is not touched.
    /// - A host whose view has changed is told of the lists that differ, if it sees a difference. What its
    ///   view no longer shows it cannot reach any more; calls that are open end.
    /// - A host whose view was removed sees nothing, and its requests are answered with an error.
    ///
    /// It must be called within the runtime that serves the hosts.
    ///
    /// # Panics
    /// If [`View::is_valid_name`] does not allow a name.
    pub fn reload_views<'a>(&self, views: impl IntoIterator<Item = (&'a str, View)>) {
        self.0.views.replace(views.into_iter().map(|(name, view)| {
            assert!(View::is_valid_name(name), "{name:?} is not a name of a view");
            (name.into(), view)
        }));
    }

    /// Returns which lists some host gets from the catalog at this moment, since when and why, ordered by the names of
    /// the servers. A server that is not in it can be asked, as far as is known; so can all while there is no host.
    pub fn stale_lists(&self) -> Vec<StaleLists> {
        self.0.host_catalogs.stale_lists()
    }

    /// Serves requests of hosts of 2026-07-28 that come from elsewhere.
    pub(crate) fn stateless_hosts(&self) -> StatelessHosts {
        StatelessHosts::new(Arc::clone(&self.0))
    }

    /// Serves a host until it ends its session and has its responses, or until it can no longer be
    /// reached, or until `stop` resolves. Then everything of the session is shut down in good order:
    /// open calls are canceled, and its connections to servers are closed.
    ///
    /// Dropping the future leaves the shutdown to continue in the background.
    pub async fn serve(&self, host: Host, stop: impl Future<Output = ()>) {
        HostSession::run(Arc::clone(&self.0), host, stop).await;
        self.0.connections.close_unused().await;
    }

    /// Serves every host that `listener` accepts until `stop` resolves: those that begin a session,
    /// and those of revision 2026-07-28, which have none. Then no more are accepted, open
    /// requests get at most `drain_timeout` for their responses, and everything is shut down as in
    /// [`Gateway::serve`].
    ///
    /// On a Unix socket, `GET /status` says what [`Gateway::stale_lists`] does.
    ///
    /// Dropping the future leaves the shutdown to continue in the background.
    pub async fn serve_hosts(
        &self,
        mut listener: HttpListener,
        drain_timeout: Duration,
        stop: impl Future<Output = ()>,
    ) {
        let reported = Arc::downgrade(&self.0);
        listener.report_status(move || {
            let stale = reported.upgrade().map(|gateway| gateway.host_catalogs.stale_lists());
            host_catalogs::status_report(&stale.unwrap_or_default())
        });
        let mut requests = listener.accept_stateless();
        let stateless = StatelessHosts::new(Arc::clone(&self.0));
        let sessions = TaskTracker::new();
        let serves = stateless.clone();
        // A task, since the thread that waits for this function may be none of the runtime, and would have to be
        // woken for each request.
        let mut accept_stateless = AbortOnDropHandle::new(tokio::spawn(async move {
            while let Some(request) = requests.next().await {
                serves.serve(request);
            }
        }));
        let accept = async {
            while let Some(host) = listener.accept().await {
                let gateway = Arc::clone(&self.0);
                sessions.spawn(HostSession::run(gateway, host, std::future::pending()));
            }
        };
        tokio::select! {
            _ = async { tokio::join!(accept, &mut accept_stateless) } => {}
            () = stateless.close_idle() => {}
            () = stop => {}
        }
        stateless.end_subscriptions();
        self.0.tasks.stop_following();
        if !accept_stateless.is_finished() {
            // From here on further requests are refused, and all others are counted.
            accept_stateless.abort();
            let _ = accept_stateless.await;
        }
        // This ends the sessions, and with each of them what serves it.
        listener.shut_down(drain_timeout).await;
        sessions.close();
        sessions.wait().await;
        stateless.close().await;
        self.0.connections.close_unused().await;
    }
}

impl GatewayBuilder {
    /// Sets when the names of servers are put before the names of their tools.
    pub fn naming(mut self, naming: Naming) -> Self {
        self.naming = naming;
        self
    }

    /// Adds a view of the servers, for hosts that select it by this name: over HTTP as
    /// [`HttpSettings::with_view`](crate::HttpSettings::with_view) says, otherwise with
    /// [`Host::with_view`]. Names of tools and resources do not depend on the view.
    ///
    /// # Panics
    /// If [`View::is_valid_name`] does not allow the name.
    pub fn view(mut self, name: &str, view: View) -> Self {
        assert!(View::is_valid_name(name), "{name:?} is not a name of a view");
        self.views.insert(name.into(), view);
        self
    }

    /// Keeps the lists of the servers here between runs.
    pub fn catalog_cache(mut self, cache: impl CatalogCache) -> Self {
        self.cache = Some(Arc::new(cache));
        self
    }

    /// Sets how long a list waits for servers whose lists were never fetched (default 4 s).
    pub fn list_wait(mut self, wait: Duration) -> Self {
        self.list_wait = wait;
        self
    }

    /// Sets how long requests that are open when the host closes its end may still be answered, and
    /// those that are open on a server when [`Gateway::reload`] changes or removes it (default 30 s).
    pub fn drain_timeout(mut self, timeout: Duration) -> Self {
        self.drain_timeout = timeout;
        self
    }

    /// Sets how long a call of a host of revision 2026-07-28 waits for the answers to what its server
    /// asks (default 5 min). Then the call is canceled.
    pub fn input_timeout(mut self, timeout: Duration) -> Self {
        self.input_timeout = timeout;
        self
    }

    /// Builds clients with this function, which sets logins, caches and records. The identity and
    /// the handler of the host are set afterward.
    pub fn client_builder(
        mut self,
        builder: impl Fn(Server) -> ClientBuilder + Send + Sync + 'static,
    ) -> Self {
        self.client_builder = Arc::new(builder);
        self
    }

    /// Calls `observer` when the connection to a server changes. It must not block.
    pub fn on_connection_event(
        mut self,
        observer: impl Fn(&ConnectionEvent) + Send + Sync + 'static,
    ) -> Self {
        self.observer = Arc::new(observer);
        self
    }

    /// Calls `observer` for each call that another login would help, while its server is connected. It
    /// must not block.
    pub fn on_denied(mut self, observer: impl Fn(&Server, &Fault) + Send + Sync + 'static) -> Self {
        self.on_denied = Arc::new(observer);
        self
    }

    /// Sets what hosts are told to have raised for calls to wait longer for a server (default
    /// `reconnect_wait` in its entry).
    pub fn reconnect_setting(mut self, setting: &'static str) -> Self {
        self.reconnect_setting = setting;
        self
    }

    /// Sets the function that returns the command which a person runs to log in to a server with
    /// these scopes in addition to the granted ones, or `None` if a login cannot help. The host is
    /// told of it when that would help.
    pub fn login_command(
        mut self,
        command: impl Fn(&Server, &[String]) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.login_command = Arc::new(command);
        self
    }

    /// Seals the ids of tasks with this key, so that hosts find their tasks after a restart. Without
    /// it, ids are valid as long as the gateway lives.
    pub fn task_key(mut self, key: TaskKey) -> Self {
        self.task_key = Some(key);
        self
    }

    /// Says what all processes with this configuration have in common, in letters, digits and dashes. A process that
    /// this gateway starts, and that is a gateway of the same fingerprint for its host on stdin and stdout, would
    /// start itself again and again: it refuses its host.
    ///
    /// # Panics
    /// [`GatewayBuilder::build`] panics if it is not of 1 to 64 such characters.
    pub fn fingerprint(mut self, fingerprint: impl Into<String>) -> Self {
        self.fingerprint = Some(fingerprint.into());
        self
    }

    /// Creates the gateway. It connects to nothing before a host comes.
    ///
    /// # Panics
    /// If no key for the ids of tasks was set, and the system has no random numbers.
    pub fn build(self) -> Gateway {
        let task_key = self.task_key.unwrap_or_else(|| TaskKey::generate().expect("random numbers"));
        Gateway(Arc::new(Shared {
            known: Arc::new(KnownLists::new(self.servers, self.naming, self.cache)),
            views: Views::new(self.views),
            connections: Arc::default(),
            connect_pacer: ConnectPacer::default(),
            host_catalogs: HostCatalogs::default(),
            list_wait: self.list_wait,
            drain_timeout: self.drain_timeout,
            input_timeout: self.input_timeout,
            client_builder: self.client_builder,
            observer: self.observer,
            on_denied: self.on_denied,
            login_command: self.login_command,
            reconnect_setting: self.reconnect_setting,
            tasks: Tasks::new(task_key),
            gateway_id: GatewayId::new(self.fingerprint),
        }))
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway").field("servers", &self.known.fleet().iter().len()).finish_non_exhaustive()
    }
}

impl fmt::Debug for GatewayBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GatewayBuilder").field("servers", &self.servers.len()).finish_non_exhaustive()
    }
}

/// Shorter than the shortest list timeout of widely used hosts, which is 5 s.
const LIST_WAIT: Duration = Duration::from_secs(4);
/// A person may be away from the screen, but not forever.
const INPUT_TIMEOUT: Duration = Duration::from_secs(5 * 60);
/// `printf … | bowline serve --stdio` needs its responses.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(30);

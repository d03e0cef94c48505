//! [`ModernHost`]: serves a host of 2026-07-28 on a pipe, whose requests stand on their own. In front of a gateway they
//! are passed on to it; in front of any other server they are served by a gateway with that one server, which changes
//! nothing of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bowline::types::method;
use bowline::{Client, ClientBuilder, RpcError, Server};
use bowline_server::StatelessRequest;
use parking_lot::Mutex;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use super::stateless::StatelessRelay;
use super::{FLUSH_TIMEOUT, Relay, exposed};
use crate::catalog::Naming;
use crate::error_response;
use crate::gateway::{Gateway, StatelessHosts};

/// What serves the requests of a host of 2026-07-28.
pub(super) enum ModernHost {
    /// The gateway behind the relay.
    Relayed(StatelessRelay),
    /// This process.
    Served(Box<ServedHost>),
}

/// A host that is served here.
pub(super) struct ServedHost {
    relay: Relay,
    /// Set by the first request. A host of both eras may use the handshake all the same.
    hosts: Mutex<Option<StatelessHosts>>,
    /// Closes what a host has left that uses the handshake.
    closing: TaskTracker,
    /// Whether the host was told to use the handshake.
    was_refused: AtomicBool,
}

impl ModernHost {
    /// `None` if such a host cannot be served.
    pub(super) fn new(relay: &Relay) -> Option<Self> {
        if relay.on_reachability.is_some() {
            return StatelessRelay::new(relay).map(Self::Relayed);
        }
        let relay = relay.clone();
        Some(Self::Served(Box::new(ServedHost {
            relay,
            hosts: Mutex::default(),
            closing: TaskTracker::new(),
            was_refused: AtomicBool::new(false),
        })))
    }

    /// Serves a request in its own task, which ends when the host cancels the request.
    pub(super) async fn serve(&self, request: StatelessRequest) {
        match self {
            Self::Relayed(relay) => relay.serve(request),
            Self::Served(host) => match host.refuse(&request) {
                Some(error) => request.request.respond(Err(&error)).await,
                None => host.hosts().serve(host.limit_to_exposed(request)),
            },
        }
    }

    /// Ends all subscriptions of the host with a result.
    pub(super) async fn end_subscriptions(&self) {
        match self {
            Self::Relayed(relay) => relay.end_subscriptions().await,
            Self::Served(host) => host.end_subscriptions().await,
        }
    }

    /// Gives up what was opened for `server/discover`: the host uses the handshake.
    pub(super) fn leave(&self) {
        if let Self::Served(host) = self
            && let Some(hosts) = host.hosts.lock().take()
        {
            host.closing.spawn(async move { hosts.close().await });
        }
    }

    /// Closes all connections to the server, for at most `limit`.
    pub(super) async fn close(&self, limit: Duration) {
        let Self::Served(host) = self else { return };
        let hosts = host.hosts.lock().take();
        host.closing.close();
        let close = async {
            if let Some(hosts) = hosts {
                hosts.close().await;
            }
            host.closing.wait().await;
        };
        if timeout(limit, close).await.is_err() {
            tracing::warn!("the server did not let itself be closed in time");
        }
    }
}

impl ServedHost {
    /// Refuses what is not exposed, and the probe of a host that has roots: a server may ask for them at any time, which
    /// only a session can pass on. Such a host knows the handshake, which is as old as roots are; one that probes again
    /// does not, and is served.
    fn refuse(&self, request: &StatelessRequest) -> Option<RpcError> {
        let has_roots =
            || request.client.client_capabilities.member("roots").is_some_and(|it| it.is_object());
        if *request.method == *method::DISCOVER
            && has_roots()
            && !self.was_refused.swap(true, Ordering::Relaxed)
        {
            let why = "a server asks for roots at any time, which is only possible after `initialize`";
            return Some(error_response::handshake_required(why));
        }
        exposed::refuse(&self.relay.server.exposure, &request.method, request.params.as_ref())
    }

    /// Leaves out of a request what is not exposed.
    fn limit_to_exposed(&self, mut request: StatelessRequest) -> StatelessRequest {
        let exposure = &self.relay.server.exposure;
        request.params = exposed::filter_listen(exposure, &request.method, request.params.take());
        request
    }

    fn hosts(&self) -> StatelessHosts {
        let mut hosts = self.hosts.lock();
        let hosts = hosts.get_or_insert_with(|| {
            tracing::info!("a host of 2026-07-28 is here");
            gateway_of(&self.relay).stateless_hosts()
        });
        hosts.clone()
    }

    async fn end_subscriptions(&self) {
        let Some(hosts) = self.hosts.lock().clone() else { return };
        hosts.end_subscriptions();
        if timeout(FLUSH_TIMEOUT, hosts.wait_for_subscriptions()).await.is_err() {
            tracing::debug!("the host does not read that its subscriptions have ended");
        }
    }
}

/// The gateway in front of the server of a relay. What only a gateway with many servers does is switched off, as for
/// hosts that use the handshake: nothing is renamed, and the server is not stopped while the host is there.
fn gateway_of(relay: &Relay) -> Gateway {
    let mut server = relay.server.clone();
    server.enabled = true;
    server.exposure.tool_names.clear();
    server.exposure.tool_descriptions.clear();
    server.idle_stop = None;
    let (observer, on_denied) = (Arc::clone(&relay.observer), Arc::clone(&relay.on_denied));
    let login_command = relay.login_command.clone();
    let client_settings = relay.clone();
    let mut gateway = Gateway::builder([server])
        .naming(Naming::Unchanged)
        .drain_timeout(relay.drain_timeout)
        .on_connection_event(move |event| observer(event))
        .on_denied(move |_, fault| on_denied(fault))
        .login_command(move |_, scopes| login_command.as_ref().and_then(|command| command(scopes)))
        .client_builder(move |server| client_builder(&client_settings, server));
    if let Some(setting) = relay.reconnect_setting {
        gateway = gateway.reconnect_setting(setting);
    }
    if let Some(cache) = &relay.catalog {
        gateway = gateway.catalog_cache(Arc::clone(cache));
    }
    if let Some(key) = &relay.task_key {
        gateway = gateway.task_key(key.clone());
    }
    gateway.build()
}

/// A client with the settings of a relay.
pub(super) fn client_builder(relay: &Relay, server: Server) -> ClientBuilder {
    let mut builder = Client::builder(server);
    if let Some(folder) = &relay.records {
        builder = builder.records(folder);
    }
    if let Some(cache) = &relay.negotiations {
        builder = builder.negotiation_cache(Arc::clone(cache));
    }
    if let Some(auth) = &relay.auth {
        builder = builder.auth(auth.clone());
    }
    builder
}

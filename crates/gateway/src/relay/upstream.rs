//! The upstream connection for one host: opened with the identity of that host; and when the host
//! may receive what.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bowline::{Cause, Client, Era, Fault, Json, Peer, RpcError, Status};
use bowline_server::{Handshake, HostLink, InitializeRequest};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::modern_host::client_builder;
use super::{HostSession, Relay, forward};
use crate::error_response::{self, ConnectionState};
use crate::first_connection::wait_for_first_connection;
use crate::handshake::{self, RelayOffer};
use crate::host_handler::HostHandler;
use crate::host_notifications::{MAX_QUEUED_NOTIFICATIONS, forward_to_server};
use crate::host_queue::HostQueue;
use crate::open_calls::OpenCalls;

/// The upstream connection for one host.
pub(super) struct Upstream {
    pub(super) client: Client,
    /// The requests of the host that are being served.
    pub(super) open_calls: Arc<OpenCalls>,
    /// Whether the host polls tasks of 2026-07-28 itself.
    pub(super) host_declares_tasks: bool,
    hooks: Mutex<Option<bowline::hooks::Hooks>>,
    readiness: HostReadiness,
    /// Notifications of the host, in order.
    notifications: mpsc::Sender<(Box<str>, Option<Json>)>,
    /// Notifications for the host, in order.
    pub(super) queue: Arc<HostQueue>,
    /// Tasks that forward messages from the server to the host.
    host_tasks: Mutex<JoinSet<()>>,
    /// Tasks that forward messages to the server, and wait for its first connection.
    _server_tasks: JoinSet<()>,
}

/// Decides when the host may receive server messages.
#[derive(Clone, Debug)]
pub(super) struct HostReadiness {
    handshake: Handshake,
    /// What the host was offered, set before its `initialize` counts as accepted.
    offer: Arc<OnceLock<RelayOffer>>,
    /// Canceled when the server was connected for the first time.
    server_seen: CancellationToken,
    /// Canceled when the session of the host is over.
    ended: CancellationToken,
}

/// Whether the server is available when the host has to be answered.
enum ServerAvailability {
    Ready(Arc<Peer>),
    /// Not connected, and retried.
    NotYet(Option<Fault>),
    /// Retrying cannot help.
    Never(Fault),
}

/// How long the shutdown waits for hooks.
const HOOKS_TIMEOUT: Duration = Duration::from_secs(1);

impl Upstream {
    /// Starts to connect with the identity of the host that sent `request`.
    pub(super) fn open(
        relay: &Relay,
        link: &HostLink,
        request: &InitializeRequest,
    ) -> Result<Arc<Self>, RpcError> {
        let host_params = request.params();
        let readiness = HostReadiness::new(request.handshake());
        let open_calls = Arc::<OpenCalls>::default();
        let handler = HostHandler {
            link: link.clone(),
            open_calls: Arc::clone(&open_calls),
            handshake: request.handshake(),
            capabilities: handshake::forwarded_capabilities(host_params),
            response_timeout: relay.server.timeouts.total,
        };
        let builder = client_builder(relay, relay.server.clone())
            .implementation(host_params.client_info.clone())
            // The host speaks a legacy revision. A server that speaks both eras offers it more in
            // the same era: change notifications, log levels, subscriptions.
            .begin_with(Era::Legacy)
            .via(relay.via.joined(&host_params.via))
            .handler(handler);
        let (client, events) = builder
            .open_with_events()
            .map_err(|error| error_response::from_error(&error, &ConnectionState::unknown()))?;
        let (notifications, outgoing) = mpsc::channel(MAX_QUEUED_NOTIFICATIONS);
        let (queue, reader) = HostQueue::new(events);
        let (mut host_tasks, mut server_tasks) = (JoinSet::new(), JoinSet::new());
        let observer = Arc::clone(&relay.observer);
        host_tasks.spawn(forward::forward_to_host(reader, link.clone(), readiness.clone(), observer));
        server_tasks.spawn(forward_to_server(outgoing, client.clone()));
        server_tasks.spawn(wait_for_first_connection(client.clone()));
        let hooks = bowline::hooks::spawn(&client, relay.server.hooks.iter().cloned());
        Ok(Arc::new(Self {
            client,
            open_calls,
            host_declares_tasks: host_params.declares_tasks(),
            hooks: Mutex::new(Some(hooks)),
            readiness,
            notifications,
            queue,
            host_tasks: Mutex::new(host_tasks),
            _server_tasks: server_tasks,
        }))
    }

    /// Waits until `initialize` was answered. `None` if it was refused.
    pub(super) async fn wait_for_initialize(&self) -> Option<RelayOffer> {
        self.readiness.wait_for_initialize().await
    }

    /// Whether the server was connected since the host came.
    pub(super) fn has_connected(&self) -> bool {
        // The status changes before the event arrives.
        self.readiness.server_seen.is_cancelled()
            || matches!(self.client.status().current(), Status::Ready(_))
    }

    /// Tells the host that every offered list may have changed.
    pub(super) async fn announce_list_changes(&self, link: &HostLink) {
        forward::announce_list_changes(link, &self.readiness).await;
    }

    /// Waits until the host was sent everything that the server has sent by now. That takes as long
    /// as the host takes to read it, for which a response would have to wait as well.
    pub(super) async fn wait_until_delivered(&self) {
        self.queue.wait_until_delivered().await;
    }

    /// State of the connection, for a call that failed.
    pub(super) fn connection_state<'a>(&self, relay: &'a Relay, status: &'a Status) -> ConnectionState<'a> {
        let wait = (relay.server.reconnect_wait, relay.reconnect_setting);
        ConnectionState::of(&self.client, status, wait, relay.login_command.as_deref())
    }

    /// Queues a notification of the host for the server.
    pub(super) fn forward_notification(&self, method: Box<str>, params: Option<Json>) {
        if let Err(error) = self.notifications.try_send((method, params)) {
            tracing::warn!(%error, "a notification of the host was dropped");
        }
    }

    /// Closes the connection. Events that were received until then still reach the observers.
    pub(super) async fn close(&self) {
        self.client.clone().close().await;
        self.readiness.ended.cancel();
        let mut host_tasks = std::mem::take(&mut *self.host_tasks.lock());
        while host_tasks.join_next().await.is_some() {}
        // Hooks get the last event too, within their timeout.
        let hooks = self.hooks.lock().take();
        if let Some(hooks) = hooks {
            let _ = timeout(HOOKS_TIMEOUT, hooks.finished()).await;
        }
    }

    /// Waits for the server: during the first attempt as long as the host can wait; once the server
    /// is known to be down, as long as any call would wait for it.
    async fn wait_for_server(&self, relay: &Relay) -> ServerAvailability {
        let mut status = self.client.status();
        let mut until = Instant::now() + relay.initialize_timeout;
        let (mut down, mut cause) = (None, None);
        loop {
            let seen = status.current();
            match seen {
                Status::Ready(peer) => return ServerAvailability::Ready(peer),
                Status::NeedsLogin(fault) | Status::Failed(fault) => return ServerAvailability::Never(fault),
                Status::Closed => return ServerAvailability::Never(Fault::before_sending(Cause::Closed)),
                Status::BackingOff { cause: fault, .. } => {
                    let down = *down.get_or_insert_with(Instant::now);
                    until = until.min(down + relay.server.reconnect_wait);
                    cause = Some(fault);
                }
                _ => {}
            }
            match timeout_at(until.into(), status.changed()).await {
                Ok(Some(_)) => {}
                Ok(None) => return ServerAvailability::Never(Fault::before_sending(Cause::Closed)),
                Err(_) => return ServerAvailability::NotYet(cause),
            }
        }
    }
}

impl HostSession {
    /// Answers the `initialize` of the host.
    pub(super) async fn answer_initialize(
        self: Arc<Self>,
        upstream: Arc<Upstream>,
        request: InitializeRequest,
    ) {
        // A host that cancels its `initialize` may send another.
        let mut reset = ResetOnDrop { session: &self, upstream: &upstream, is_armed: true };
        let name = &self.relay.server.name;
        let (answer, offer) = match upstream.wait_for_server(&self.relay).await {
            ServerAvailability::Ready(peer) => {
                tracing::info!(server = %name, revision = %peer.revision, "the server is there");
                handshake::build_result(request.params(), &peer)
            }
            ServerAvailability::NotYet(cause) => {
                tracing::warn!(server = %name, "the host is greeted without the server");
                handshake::build_result_without_server(request.params(), name, cause.as_ref())
            }
            // Waiting is useless: the host shows the error to its user, who can help.
            ServerAvailability::Never(fault) => {
                let standing = ConnectionState {
                    login_command: self.relay.login_command.as_deref(),
                    ..ConnectionState::unknown()
                };
                let refusal = error_response::from_fault(name, &fault.not_executed(), &standing);
                // A host that reads the error may send another `initialize` at once.
                drop(reset);
                request.respond(Err(&refusal)).await;
                return upstream.close().await;
            }
        };
        request.respond(Ok(&answer)).await;
        reset.is_armed = false;
        upstream.readiness.accept(&request, offer);
        // The server may have connected at this very moment, and nobody else would announce it.
        if offer.is_speculative() && upstream.has_connected() {
            upstream.announce_list_changes(&self.link).await;
        }
    }
}

/// Forgets the upstream of a refused `initialize` when it is dropped while armed.
struct ResetOnDrop<'a> {
    session: &'a HostSession,
    upstream: &'a Arc<Upstream>,
    is_armed: bool,
}

impl Drop for ResetOnDrop<'_> {
    fn drop(&mut self) {
        if !self.is_armed {
            return;
        }
        let mut slot = self.session.upstream.lock();
        if slot.as_ref().is_some_and(|there| Arc::ptr_eq(there, self.upstream)) {
            *slot = None;
        }
    }
}

impl HostReadiness {
    pub(super) fn new(handshake: Handshake) -> Self {
        Self {
            handshake,
            offer: Arc::default(),
            server_seen: CancellationToken::new(),
            ended: CancellationToken::new(),
        }
    }

    /// Accepts the `initialize` of the host, whose result made this offer.
    pub(super) fn accept(&self, request: &InitializeRequest, offer: RelayOffer) {
        // It is accepted once.
        let _ = self.offer.set(offer);
        request.accept();
    }

    /// Records that the server is connected. Called before the host is told, so that a request
    /// which still sees no server is told later.
    pub(super) fn mark_connected(&self) {
        self.server_seen.cancel();
    }

    /// The offer, if `initialize` was answered with a result.
    pub(super) fn offer(&self) -> Option<RelayOffer> {
        self.offer.get().copied()
    }

    /// Waits until the host may receive messages. `None` if it never may.
    pub(super) async fn wait_until_ready(&self) -> Option<RelayOffer> {
        self.handshake.wait_until_ready().await.then(|| self.offer()).flatten()
    }

    /// Canceled when the session of the host is over.
    pub(super) fn ended(&self) -> &CancellationToken {
        &self.ended
    }

    async fn wait_for_initialize(&self) -> Option<RelayOffer> {
        self.handshake.wait_until_answered().await.then(|| self.offer()).flatten()
    }
}

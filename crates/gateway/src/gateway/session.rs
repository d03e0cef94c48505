//! One session of a host: from its `initialize` to its end.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bowline::types::method;
use bowline_proto::via::Via;
use bowline_server::{Host, HostEvent, HostLink, InitializeRequest};
use parking_lot::Mutex;
use tokio::time::timeout;

use super::loops::HostPosition;
use super::request::requested_log_level;
use super::upstream::{Identity, SessionLink, Upstreams};
use super::{Shared, announce, handshake};
use crate::error_response;
use crate::handshake::forwarded_capabilities;
use crate::view::HostView;

/// The state of one session, shared by its requests.
pub(super) struct HostSession {
    pub(super) gateway: Arc<Shared>,
    pub(super) link: HostLink,
    principal: Option<Arc<str>>,
    view: Arc<HostView>,
    /// The gateways that the host has passed.
    via: Via,
    position: HostPosition,
    /// Set by the `initialize` of the host.
    upstreams: Mutex<Option<Arc<Upstreams>>>,
}

impl HostSession {
    /// Serves the host to the end of its session, or until `stop` resolves.
    pub(super) async fn run(gateway: Arc<Shared>, mut host: Host, stop: impl Future<Output = ()>) {
        let link = host.link().clone();
        let view = gateway.views.select(host.view());
        let principal = host.principal().map(Arc::from);
        let via = host.via().clone();
        let position = if host.is_on_pipe() { HostPosition::Pipe } else { HostPosition::Network };
        let upstreams = Mutex::default();
        let session = Arc::new(Self { gateway, link, principal, view, via, position, upstreams });
        tokio::select! {
            () = session.serve_host(&mut host) => {}
            () = session.link.wait_for_disconnect() => {}
            // Who sends a signal may still read, and must not wait for what will not come.
            () = stop => session.link.give_up_requests(FLUSH_TIMEOUT).await,
        }
        session.shut_down().await;
    }

    async fn serve_host(self: &Arc<Self>, host: &mut Host) {
        // Everything that waits for a server runs in its own task; this loop waits only for the
        // host to read.
        while let Some(event) = host.next().await {
            self.handle(event).await;
        }
        self.link.fail_sent_requests();
        tokio::select! {
            () = self.link.drain_requests(self.gateway.drain_timeout) => {}
            () = host.wait_for_output_close() => tracing::debug!("the host has left"),
        }
    }

    async fn handle(self: &Arc<Self>, event: HostEvent) {
        let upstreams = self.upstreams.lock().clone();
        match event {
            HostEvent::Initialize(request) => match self.gateway.gateway_id.check(&self.via, self.position) {
                Ok(()) => self.initialize(request),
                Err(refusal) => request.respond(Err(&refusal)).await,
            },
            HostEvent::Request { request, method, params } => match upstreams {
                Some(upstreams) => {
                    if *method == *method::SET_LEVEL
                        && let Some(level) = requested_log_level(params.as_ref())
                    {
                        // Here, so that it holds for the requests that follow.
                        upstreams.set_log_level(level);
                    }
                    let session = Arc::clone(self);
                    request.spawn(|request| session.serve_request(upstreams, request, method, params));
                }
                None => request.respond(Err(&error_response::initialize_failed())).await,
            },
            HostEvent::Overload(request) => {
                request.respond(&error_response::too_many_requests("bowline")).await;
            }
            HostEvent::Notification { method, params } => {
                if let Some(upstreams) = upstreams {
                    upstreams.forward_notification(&method, params.as_ref());
                }
            }
        }
    }

    /// Opens connections to all servers that the host sees, with its identity.
    fn initialize(self: &Arc<Self>, request: InitializeRequest) {
        let params = request.params();
        let (host, view) = (params.client_info.as_str(), self.view.name());
        tracing::info!(host, view, revision = %params.revision, "a host is here");
        let identity = Identity {
            principal: self.principal.clone(),
            client_info: params.client_info.clone(),
            capabilities: forwarded_capabilities(params),
            view: Arc::clone(&self.view),
            via: self.via.clone(),
            session: Some(SessionLink { link: self.link.clone(), handshake: request.handshake() }),
        };
        let upstreams = Upstreams::open(&self.gateway, identity);
        *self.upstreams.lock() = Some(Arc::clone(&upstreams));
        let session = Arc::clone(self);
        request.spawn(|request| session.answer_initialize(upstreams, request));
    }

    /// Answers `initialize` from the catalog, without waiting for servers whose lists are known.
    async fn answer_initialize(self: Arc<Self>, upstreams: Arc<Upstreams>, request: InitializeRequest) {
        let catalog = Arc::clone(upstreams.catalog());
        catalog.wait_until_known(INSTRUCTIONS_WAIT).await;
        let snapshot = catalog.snapshot();
        request.respond(Ok(&handshake::build_result(request.params(), &snapshot))).await;
        request.accept();
        let link = self.link.clone();
        let handshake = request.handshake();
        upstreams.spawn(async move {
            announce::announce_changes(&catalog, &link, &handshake, snapshot).await;
        });
    }

    async fn shut_down(&self) {
        // Dropping a call cancels it on the server.
        self.link.abort_requests().await;
        let upstreams = self.upstreams.lock().take();
        if let Some(upstreams) = upstreams
            && timeout(CLOSE_TIMEOUT, upstreams.close()).await.is_err()
        {
            tracing::warn!("a server did not let itself be closed in time");
        }
        self.link.close(FLUSH_TIMEOUT).await;
    }
}

/// How long `initialize` waits for servers that were never seen, so that it can contain their
/// instructions.
pub(super) const INSTRUCTIONS_WAIT: Duration = Duration::from_secs(1);
/// Longer than the shutdown of a process takes: stdin closed, then TERM, then KILL.
pub(super) const CLOSE_TIMEOUT: Duration = Duration::from_secs(15);
/// For messages that were queued for the host.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

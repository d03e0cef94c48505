//! One session of a host: from its `initialize` to its end. A host on a pipe may speak 2026-07-28
//! instead, and then its session is no more than the pipe.

use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bowline::Revision;
use bowline::types::method;
use bowline_proto::server::handshake::InitializeParams;
use bowline_proto::via::Via;
use bowline_server::{Host, HostEvent, HostLink, InitializeRequest};
use parking_lot::Mutex;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::loops::HostPosition;
use super::request::requested_log_level;
use super::stateless::StatelessHosts;
use super::tasks::SessionTasks;
use super::upstream::{HostTasks, Identity, SessionLink, Upstreams};
use super::{Shared, announce, handshake};
use crate::error_response;
use crate::handshake::forwarded_capabilities;
use crate::host_roots::HostRoots;
use crate::view::ViewChoice;

/// The state of one session, shared by its requests.
pub(super) struct HostSession {
    pub(super) gateway: Arc<Shared>,
    pub(super) link: HostLink,
    /// The tasks of the host.
    pub(super) tasks: SessionTasks,
    principal: Option<Arc<str>>,
    /// The view that the host has selected, if any.
    view: Option<Box<str>>,
    /// The gateways that the host has passed.
    via: Via,
    position: HostPosition,
    /// Set by the `initialize` of the host.
    upstreams: Mutex<Option<Arc<Upstreams>>>,
    /// Set by the first request of a host of 2026-07-28, which is on a pipe.
    stateless: OnceLock<PipeHost>,
}

/// A host of 2026-07-28 on a pipe.
struct PipeHost {
    hosts: StatelessHosts,
    /// Closes connections that are idle.
    _sweep: AbortOnDropHandle<()>,
}

impl HostSession {
    /// Serves the host to the end of its session, or until `stop` resolves.
    pub(super) async fn run(gateway: Arc<Shared>, host: Host, stop: impl Future<Output = ()>) {
        let mut host = host.with_stateless_requests();
        let link = host.link().clone();
        let view = host.view().map(Box::from);
        let principal = host.principal().map(Arc::from);
        let via = host.via().clone();
        let position = if host.is_on_pipe() { HostPosition::Pipe } else { HostPosition::Network };
        let session = Arc::new(Self {
            gateway,
            link,
            tasks: SessionTasks::default(),
            principal,
            view,
            via,
            position,
            upstreams: Mutex::default(),
            stateless: OnceLock::new(),
        });
        tokio::select! {
            () = session.serve_host(&mut host) => {}
            () = session.link.wait_for_disconnect() => {}
            // Who sends a signal may still read, and must not wait for what will not come.
            () = stop => {
                session.end_subscriptions().await;
                session.link.give_up_requests(FLUSH_TIMEOUT).await;
            }
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
        // They would never end by themselves.
        self.end_subscriptions().await;
        tokio::select! {
            () = self.link.drain_requests(self.gateway.drain_timeout) => {}
            () = host.wait_for_output_close() => tracing::debug!("the host has left"),
        }
    }

    async fn handle(self: &Arc<Self>, event: HostEvent) {
        let upstreams = self.upstreams.lock().clone();
        match event {
            HostEvent::Initialize(request) => {
                let via = self.via.joined(&request.params().via);
                match self.gateway.gateway_id.check(&via, self.position) {
                    Ok(()) => self.initialize(request, via),
                    Err(refusal) => request.respond(Err(&refusal)).await,
                }
            }
            HostEvent::Request { request, method, params } => match upstreams {
                Some(upstreams) => {
                    if *method == *method::SET_LEVEL
                        && let Some(level) = requested_log_level(params.as_ref())
                    {
                        // Here, so that it holds for the requests that follow.
                        upstreams.set_log_level(level);
                    }
                    if *method == *method::TASKS_GET && upstreams.host_tasks() == HostTasks::Experiment {
                        self.list_task(&upstreams, params.as_ref());
                    }
                    let session = Arc::clone(self);
                    request.spawn(|request| session.serve_request(upstreams, request, method, params));
                }
                None => request.respond(Err(&error_response::initialize_failed())).await,
            },
            HostEvent::Stateless(request) => self.stateless_hosts().serve(*request),
            HostEvent::Overload(request) => {
                request.respond(&error_response::too_many_requests("bowline")).await;
            }
            HostEvent::Notification { method, params } => {
                if let Some(upstreams) = upstreams {
                    if *method == *method::ROOTS_CHANGED {
                        self.find_changed_roots(&upstreams);
                    }
                    upstreams.forward_notification(&method, params.as_ref());
                }
            }
        }
    }

    /// Opens connections to all servers that the host sees, with its identity.
    fn initialize(self: &Arc<Self>, request: InitializeRequest, via: Via) {
        let params = request.params();
        let (host, view) = (params.client_info.as_str(), self.view.as_deref());
        tracing::info!(host, view, revision = %params.revision, "a host is here");
        let identity = Identity {
            principal: self.principal.clone(),
            client_info: params.client_info.clone(),
            capabilities: forwarded_capabilities(params),
            view: self.choose_view(params),
            tasks: match params.agreed_revision(Revision::NEWEST_LEGACY) {
                Revision::V2025_11_25 => HostTasks::Experiment,
                _ => HostTasks::ByRequest,
            },
            via,
            session: Some(SessionLink { link: self.link.clone(), handshake: request.handshake() }),
        };
        let upstreams = Upstreams::open(&self.gateway, identity);
        *self.upstreams.lock() = Some(Arc::clone(&upstreams));
        let session = Arc::clone(self);
        request.spawn(|request| session.answer_initialize(upstreams, request));
    }

    /// How the view of the host is chosen: by its roots, if it has selected none.
    fn choose_view(&self, params: &InitializeParams) -> ViewChoice {
        match &self.view {
            Some(name) => ViewChoice::Named(name.clone()),
            None if params.capabilities.member("roots").is_some() => {
                ViewChoice::ByRoots(HostRoots::default())
            }
            None => ViewChoice::ByRoots(HostRoots::none()),
        }
    }

    /// Answers `initialize` from the catalog, without waiting for servers whose lists are known.
    async fn answer_initialize(self: Arc<Self>, upstreams: Arc<Upstreams>, request: InitializeRequest) {
        let catalog = Arc::clone(upstreams.catalog());
        catalog.wait_until_known(INSTRUCTIONS_WAIT).await;
        let snapshot = catalog.snapshot();
        request
            .respond(Ok(&handshake::build_result(request.params(), &snapshot, catalog.may_offer_tasks())))
            .await;
        request.accept();
        let link = self.link.clone();
        let handshake = request.handshake();
        upstreams.spawn(async move {
            announce::announce_changes(&catalog, &link, &handshake, snapshot).await;
        });
    }

    /// What serves the requests of a host of 2026-07-28.
    fn stateless_hosts(&self) -> &StatelessHosts {
        let host = self.stateless.get_or_init(|| {
            tracing::info!(view = self.view.as_deref(), "a host of 2026-07-28 is here");
            let hosts = StatelessHosts::new(Arc::clone(&self.gateway));
            let sweep = hosts.clone();
            let sweep = tokio::spawn(async move { sweep.close_idle().await });
            PipeHost { hosts, _sweep: AbortOnDropHandle::new(sweep) }
        });
        &host.hosts
    }

    /// Ends the subscriptions of a host of 2026-07-28 with a result.
    async fn end_subscriptions(&self) {
        let Some(PipeHost { hosts, .. }) = self.stateless.get() else { return };
        hosts.end_subscriptions();
        if timeout(FLUSH_TIMEOUT, hosts.wait_for_subscriptions()).await.is_err() {
            tracing::debug!("the host does not read that its subscriptions have ended");
        }
    }

    async fn shut_down(&self) {
        // Dropping a call cancels it on the server.
        self.link.abort_requests().await;
        if let Some(PipeHost { hosts, .. }) = self.stateless.get() {
            hosts.close().await;
        }
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

//! The driver: performs the actions of the session, reports events to it, and decides nothing.

mod keepalive;
mod setup;
mod wake;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bowline_config::Program;
use bowline_proto::client::calls::Limits as CallLimits;
use bowline_proto::client::negotiation::Peer;
use bowline_proto::client::session::{
    Action, Announcement, Attempt, Command, Event, NegotiationMessage, Status, TransportKind,
};
use bowline_proto::fault::{Cause, Fault};
use bowline_proto::revision::{Era, Revision};
use bowline_transport::http::HttpLink;
use bowline_transport::process;
use http::HeaderValue;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub(crate) use setup::ConnectionSetup;

use super::engine::{DriverEvent, MAX_WAIT, PendingRequest};
use super::link::handshake::Handshake;
use super::link::target::{AttachedStreams, Target};
use super::link::{OpenLink, end_session, event_stream, pipe};
use super::listen::SubscriptionKind;
use super::listen::standalone_stream::open_standalone_stream;
use super::login::LoginMode;
use super::{Connection, Wire};
use crate::clock;
use crate::events::ConnectionEvent;
use crate::negotiation::ServerCache;
use keepalive::{ServerKeepalive, watch_idle_connections};
use wake::{WakeChange, WakeDetector};

/// Owns the links of one server.
pub(crate) struct Driver {
    connection: Arc<Connection>,
    target: Target,
    /// A process that another program keeps, until it is used.
    attached: Option<AttachedStreams>,
    /// Folder for the records of server processes.
    process_records: Option<PathBuf>,
    /// Whether the watchdog ends server processes if this process is killed.
    watchdog: bool,
    /// How long a server process may take to end by itself.
    exit_wait: Duration,
    events: mpsc::UnboundedReceiver<DriverEvent>,
    links: HashMap<Attempt, OpenLink>,
    /// Session id of the last link, if the server may still know it.
    resumable_session: Option<HeaderValue>,
    /// Whether requests carry configured credentials.
    has_configured_credentials: bool,
    /// Whether there was a session before, whose state a new one must be given.
    had_session: bool,
    /// Tasks that open a link or authorize one.
    opening_tasks: Vec<AbortHandle>,
    /// Canceled once the event that announces a ready connection was emitted.
    ready_announced: Option<CancellationToken>,
    keepalive: ServerKeepalive,
    wake_detector: WakeDetector,
    /// Where the outcome of negotiations with this server is cached.
    negotiation_cache: ServerCache,
    /// Tasks that shut down links and store state.
    closing_tasks: TaskTracker,
}

impl Drop for Driver {
    /// Closes the connection also if its runtime ended first. Nobody else ends its calls in time, so
    /// calls from another runtime would wait for ever.
    fn drop(&mut self) {
        self.connection.links.close();
        self.connection.engine.fail_calls(&Fault::new(Cause::Closed));
        self.connection.events.close();
    }
}

impl Driver {
    /// Runs until the connection is closed. Never awaits the network.
    pub(crate) async fn run(mut self) {
        let attending = self
            .connection
            .login
            .identity()
            .is_some()
            .then(|| tokio::spawn(Arc::clone(&self.connection).maintain_login()));
        loop {
            let (actions, due, status) = {
                let mut core = self.connection.engine.state();
                let actions: Vec<_> = std::iter::from_fn(|| core.session.poll_action()).collect();
                let due = [
                    core.session.poll_timeout(),
                    core.next_deadline_check,
                    self.keepalive.poll_timeout(),
                    Some(self.wake_detector.next_check()),
                ];
                (actions, due.into_iter().flatten().min(), core.session.status())
            };
            let lives: Vec<_> = actions.into_iter().filter_map(|action| self.perform(action)).collect();
            let closed = status == Status::Closed;
            self.connection.links.publish_status(status);
            // Emitted after the status, so that a subscriber that reads the status sees the change.
            for life in lives {
                self.connection.events.emit(crate::events::Event::Connection(life));
            }
            if let Some(announced) = self.ready_announced.take() {
                announced.cancel();
            }
            if closed {
                break;
            }
            tokio::select! {
                news = self.events.recv() => match news {
                    Some(news) => self.handle_event(news),
                    None => self.handle_event(DriverEvent::Command(Command::Close)),
                },
                () = sleep_until(due) => {
                    let now = clock::now();
                    self.connection.engine.state().session.handle_timeout(now);
                    if let Some(attempt) = self.connection.expire_calls(now) {
                        self.keepalive.handle_unanswered_call(now, &self.connection, attempt, None);
                    }
                    if now >= self.wake_detector.next_check() {
                        let change = self.wake_detector.check(now);
                        self.handle_wake(now, change);
                    }
                    self.keepalive.send_due_probe(now, &self.connection);
                }
            }
        }
        if let Some(attending) = attending {
            attending.abort();
        }
        if let Some(auth) = self.connection.login.identity().cloned() {
            // Store a refreshed login before the connection ends. A slower refresh continues in its
            // own task; a full disk is retried only by `Client::settle_login`.
            let name = Arc::clone(&self.connection.server.name);
            self.closing_tasks.spawn(async move {
                if timeout(LOGIN_SETTLE_TIMEOUT, auth.shut_down()).await.is_err() {
                    tracing::warn!(server = %name, "closed before the refreshed login could be stored");
                }
            });
        }
        // Over HTTP a call can outlive its link, so fail what is still open.
        self.connection.engine.fail_calls(&Fault::new(Cause::Closed));
        for opening in self.opening_tasks.drain(..) {
            opening.abort();
        }
        self.end_resumable_session();
        self.closing_tasks.close();
        self.closing_tasks.wait().await;
        self.connection.events.wait_for_reports().await;
    }

    fn handle_event(&mut self, news: DriverEvent) {
        let now = clock::now();
        let mut core = self.connection.engine.state();
        match news {
            DriverEvent::Command(command) => core.session.handle_command(now, command),
            // The loop computes its deadline again.
            DriverEvent::EarlierDeadline => {}
            DriverEvent::ServerSuspect(attempt) => {
                drop(core);
                self.keepalive.handle_unanswered_call(now, &self.connection, attempt, None);
            }
            DriverEvent::CallAbandoned(attempt, id, left) => {
                drop(core);
                self.keepalive.handle_unanswered_call(now, &self.connection, attempt, Some((id, left)));
            }
            DriverEvent::Link(attempt, event) => {
                if attempt == core.session.attempt() {
                    self.keepalive.handle_loss(now, &event, &mut core);
                }
                core.session.handle_event(now, attempt, event);
            }
            DriverEvent::ProbeFinished(attempt, probed) => {
                if let Some(event) = self.keepalive.handle_probe_outcome(now, attempt, probed) {
                    self.keepalive.handle_loss(now, &event, &mut core);
                    core.session.handle_event(now, attempt, event);
                }
            }
            // DE-05: the reply to an abandoned message must not answer the next one.
            DriverEvent::HandshakeReply(attempt, id, reply) => {
                let link = self.links.get_mut(&attempt);
                if let Some((_, task)) = link.and_then(|link| link.handshake.take_if(|(sent, _)| *sent == id))
                {
                    // Over HTTP+SSE the reply may come before the request was accepted, which it need never be.
                    task.abort();
                    core.session.handle_event(now, attempt, Event::Reply(reply));
                }
            }
            DriverEvent::LinkOpened(attempt, link) if attempt == core.session.attempt() => {
                core.session.handle_event(now, attempt, Event::Opened { session: false });
                drop(core);
                self.links.insert(attempt, *link);
            }
            // The attempt was superseded before the link opened.
            DriverEvent::LinkOpened(_, link) => {
                drop(core);
                let (connection, errands) = (Arc::clone(&self.connection), CancellationToken::new());
                self.closing_tasks.spawn(async move { link.shut_down(&connection, true, errands).await });
            }
        }
    }

    /// Reconnects after a suspend or a network change.
    fn handle_wake(&mut self, now: Instant, change: WakeChange) {
        if change == WakeChange::None {
            return;
        }
        tracing::debug!(server = %self.connection.server.name, ?change, "connections are made anew");
        self.connection.engine.state().session.handle_command(now, Command::Wake);
        if let Target::Http(link) = &self.target {
            link.forget_connections();
            // After a suspend the peers have forgotten these connections, so waiting is pointless.
            if change == WakeChange::Suspend {
                link.abort_in_flight();
            }
        }
        self.keepalive.probe_soon(&self.connection);
    }

    /// Performs an action. Returns the event to emit, if the action announces one.
    fn perform(&mut self, action: Action) -> Option<ConnectionEvent> {
        match action {
            Action::Open(attempt, carrier) => self.open_link(attempt, carrier),
            Action::Send(attempt, hello) => self.send_handshake(attempt, hello),
            Action::Restore(attempt, peer) => self.restore_session(attempt, peer),
            Action::Ready(attempt, peer) => self.go_live(attempt, peer),
            Action::Close(attempt, fault) => self.close_link(attempt, &fault),
            Action::Authorize(attempt, refused) => {
                let connection = Arc::clone(&self.connection);
                self.opening_tasks.retain(|opening| !opening.is_finished());
                let authorizing = tokio::spawn(async move {
                    // Do not prompt a person for a connection that no caller waits for.
                    let unattended = connection.links.is_unattended();
                    let mode = if unattended { LoginMode::Silent } else { LoginMode::Interactive };
                    let event = connection.login.authorize_link(&refused, mode).await;
                    connection.engine.report_link_event(attempt, event);
                });
                self.opening_tasks.push(authorizing.abort_handle());
            }
            Action::Record(finding) => self.negotiation_cache.update(&self.closing_tasks, finding),
            Action::Announce(announcement) => return Some(self.record_announcement(announcement)),
        }
        None
    }

    fn open_link(&mut self, attempt: Attempt, carrier: TransportKind) {
        match &mut self.target {
            Target::Http(http) if carrier == TransportKind::EventStream => {
                let http = http.clone();
                self.open_event_stream(attempt, http);
            }
            Target::Http(http) => {
                // The network under idle connections may be what was lost.
                http.forget_connections();
                let wire = Wire::Http { link: http.clone(), headers: Arc::default() };
                let link = OpenLink::new(wire);
                *link.session.lock() = self.resumable_session.take();
                let session = link.session.lock().is_some();
                self.links.insert(attempt, link);
                let opened = Event::Opened { session };
                match self.connection.login.identity() {
                    Some(_) => self.load_credentials(attempt, opened),
                    None => self.connection.engine.report_link_event(attempt, opened),
                }
            }
            Target::Io(streams) => {
                let Some((writer, reader)) = streams.take() else {
                    let fault = Fault::before_sending(Cause::Closed)
                        .with_note("the streams of this connection have ended, and cannot be opened again");
                    self.connection.engine.report_link_event(attempt, Event::LinkLost(fault));
                    return;
                };
                let link = pipe::open(&self.connection, attempt, writer, reader);
                self.links.insert(attempt, link);
                self.connection.engine.report_link_event(attempt, Event::Opened { session: false });
            }
            Target::Stdio(stdio) => {
                if let Some(streams) = self.attached.take() {
                    self.attach_process(attempt, streams);
                } else {
                    let stdio = stdio.clone();
                    self.spawn_process(attempt, stdio);
                }
            }
        }
    }

    /// Loads stored credentials before opening the link; a missing one surfaces later as 401.
    fn load_credentials(&mut self, attempt: Attempt, opened: Event) {
        let connection = Arc::clone(&self.connection);
        self.opening_tasks.retain(|opening| !opening.is_finished());
        let preparing = self.closing_tasks.spawn(async move {
            let prepared = connection.login.load_credentials(&connection.server).await;
            connection.engine.report_link_event(attempt, prepared.map_or_else(Event::LinkLost, |()| opened));
        });
        self.opening_tasks.push(preparing.abort_handle());
    }

    fn open_event_stream(&mut self, attempt: Attempt, http: HttpLink) {
        let connection = Arc::clone(&self.connection);
        self.opening_tasks.retain(|opening| !opening.is_finished());
        let opening = self.closing_tasks.spawn(async move {
            let opened = match connection.login.load_credentials(&connection.server).await {
                Ok(()) => {
                    connection.login.record_link_generation();
                    event_stream::open(&connection, attempt, &http).await
                }
                Err(fault) => Err(fault),
            };
            let news = match opened {
                Ok(link) => DriverEvent::LinkOpened(attempt, Box::new(link)),
                Err(fault) => DriverEvent::Link(attempt, Event::LinkLost(fault)),
            };
            connection.engine.send(news);
        });
        self.opening_tasks.push(opening.abort_handle());
    }

    /// Ends a session on the server that may have outlived its connection.
    fn end_resumable_session(&mut self) {
        if let (Some(session), Target::Http(link), false) =
            (self.resumable_session.take(), &self.target, self.connection.session.is_kept())
        {
            let link = link.clone();
            self.closing_tasks
                .spawn(async move { end_session(&link, Revision::NEWEST_LEGACY, &session).await });
        }
    }

    /// Uses a process that another program keeps.
    fn attach_process(&mut self, attempt: Attempt, streams: AttachedStreams) {
        let server = &self.connection.server;
        let event = match process::attach(streams, server.message_limit, &server.name, self.stderr_listener())
        {
            Ok(process) => {
                let mut link = pipe::open(&self.connection, attempt, process.writer, process.reader);
                link.attached = Some(process.handle);
                self.links.insert(attempt, link);
                Event::Opened { session: false }
            }
            Err(fault) => Event::LinkLost(fault),
        };
        self.connection.engine.report_link_event(attempt, event);
    }

    /// Emits the lines that the process of the server writes to stderr.
    fn stderr_listener(&self) -> process::StderrListener {
        // Does not keep the connection alive: the process may end a little later.
        let weak = Arc::downgrade(&self.connection);
        process::StderrListener::new(move |line| {
            if let Some(connection) = weak.upgrade() {
                connection.events.emit_stderr(line);
            }
        })
    }

    /// Starts the process in its own task, since finding the command can take a while.
    fn spawn_process(&self, attempt: Attempt, stdio: Program) {
        let (connection, records) = (Arc::clone(&self.connection), self.process_records.clone());
        let (watchdog, exit_wait) = (self.watchdog, self.exit_wait);
        let stderr = self.stderr_listener();
        self.closing_tasks.spawn(async move {
            let launch = process::Launch {
                stdio: &stdio,
                name: &connection.server.name,
                limit: connection.server.message_limit,
                grace: process::Grace { eof: exit_wait.min(MAX_WAIT), ..process::Grace::default() },
                records: records.as_deref(),
                watchdog,
                stderr: Some(&stderr),
            };
            let news = match process::spawn(launch).await {
                Ok(process) => {
                    let mut link = pipe::open(&connection, attempt, process.writer, process.reader);
                    link.process = Some(process.handle);
                    DriverEvent::LinkOpened(attempt, Box::new(link))
                }
                Err(fault) => DriverEvent::Link(attempt, Event::LinkLost(fault)),
            };
            // If the driver has ended, dropping the link ends the process.
            connection.engine.send(news);
        });
    }

    /// Sends a negotiation message and abandons an earlier one: its late reply is ignored (DE-05).
    fn send_handshake(&mut self, attempt: Attempt, hello: NegotiationMessage) {
        self.connection.login.record_link_generation();
        let Some(link) = self.links.get_mut(&attempt) else { return };
        let unanswered = link.handshake.take();
        if let Some((id, task)) = &unanswered {
            self.connection.engine.state().calls.end(*id);
            task.abort();
        }
        let id = match hello {
            NegotiationMessage::Initialized(_) => 0,
            NegotiationMessage::Discover(_)
            | NegotiationMessage::Initialize(_)
            | NegotiationMessage::Resume(_) => self.connection.engine.state().calls.begin(
                clock::now(),
                HANDSHAKE_LIMITS,
                PendingRequest::Negotiation(attempt),
            ),
        };
        if let (NegotiationMessage::Initialize(_), Wire::Http { link: http, .. }) = (hello, &link.wire) {
            // A server that did not answer a probe of the old session, or got none, still has it.
            let may_live = unanswered.is_some() || !link.session_probed;
            if let Some(session) = link.session.lock().take().filter(|_| may_live) {
                let http = http.clone();
                self.closing_tasks
                    .spawn(async move { end_session(&http, Revision::NEWEST_LEGACY, &session).await });
            }
            // A new session may go to another backend, and must not name the old session.
            http.clear_cookies();
            // Requests of the old session need no response any more.
            self.connection.background.cancel_session_tasks();
        }
        link.session_probed |= matches!(hello, NegotiationMessage::Resume(_));
        if let NegotiationMessage::Initialized(revision) = hello {
            link.revision = revision;
            link.roots_requests_before = self.connection.inbound.roots_request_count();
        }
        let connection = Arc::clone(&self.connection);
        let handshake = Handshake {
            wire: link.wire.clone(),
            session: Arc::clone(&link.session),
            id,
            message: hello,
            frame: connection.server.declaration.handshake_frame(id, hello),
        };
        let task = tokio::spawn(async move {
            let Some(reply) = handshake.send(&connection).await else { return };
            connection.engine.state().calls.end(id);
            connection.engine.send(DriverEvent::HandshakeReply(attempt, id, reply));
        });
        link.handshake = Some((id, task.abort_handle()));
    }

    /// Gives a new session the old one's state, and the roots if requested, before calls use it.
    fn restore_session(&mut self, attempt: Attempt, peer: Arc<Peer>) {
        let Some(link) = self.links.get_mut(&attempt) else { return };
        let legacy = peer.era() == Era::Legacy;
        let live = link.make_live(&self.connection.server, attempt, peer, self.has_configured_credentials);
        link.replaces_session = self.had_session;
        self.had_session = true;
        let has_told = legacy && self.connection.session.has_replay_state();
        // A server that asked for no roots in its first session will not ask now.
        let may_ask = !link.replaces_session || self.connection.inbound.roots_request_count() > 0;
        let waits = legacy && may_ask && self.connection.inbound.waits_for_roots_request();
        if !waits && !has_told {
            self.connection.engine.report_link_event(attempt, Event::Restored);
            return;
        }
        if waits {
            open_standalone_stream(link, &self.connection, &live);
        }
        let (before, silent) = (link.roots_requests_before, link.stream_ended.clone());
        let connection = Arc::clone(&self.connection);
        let restoring = async move {
            if waits {
                connection.inbound.wait_for_roots_request(before, silent).await;
            }
            if has_told {
                connection.replay_session_state(live).await;
            } else {
                connection.engine.report_link_event(attempt, Event::Restored);
            }
        };
        link.tasks.push(tokio::spawn(restoring).abort_handle());
    }

    /// Makes the link available to calls.
    fn go_live(&mut self, attempt: Attempt, peer: Arc<Peer>) {
        let Some(link) = self.links.get_mut(&attempt) else { return };
        // A resumed session may have missed notifications, unless its stream is resumed as well.
        let resumed = self.had_session && link.live_link.is_none();
        if resumed && self.connection.session.stream_position.lock().is_none() {
            link.replaces_session = true;
        }
        let live = link.make_live(&self.connection.server, attempt, peer, self.has_configured_credentials);
        self.keepalive.handle_connected(&live);
        if live.wire.is_http() {
            let watching = watch_idle_connections(Arc::clone(&self.connection), Arc::clone(&live));
            link.tasks.push(tokio::spawn(watching).abort_handle());
        }
        open_standalone_stream(link, &self.connection, &live);
        // Changes found by refreshing lists are emitted after the connection event.
        let announced = self.ready_announced.get_or_insert_default().clone();
        // Before checking for tracking: whoever starts tracking later finds the link.
        self.connection.links.set_live(Arc::clone(&live));
        if live.peer.era() == Era::Modern {
            // Missed changes are looked for once the subscription is open.
            let gap = link.replaces_session || self.connection.lists.is_tracking();
            for (part, gap) in [(SubscriptionKind::Changes, gap), (SubscriptionKind::Tasks, false)] {
                let supervised = Arc::clone(&self.connection).supervise(Arc::clone(&live), part, gap);
                let announced = announced.clone();
                link.supervisors.push(tokio::spawn(async move {
                    announced.cancelled().await;
                    supervised.await;
                }));
            }
            return;
        }
        let connection = Arc::clone(&self.connection);
        let fresh = link.replaces_session;
        if fresh || connection.lists.is_tracking() {
            let looking = tokio::spawn(async move {
                announced.cancelled().await;
                if fresh {
                    connection.refresh_after_gap(live).await;
                } else {
                    connection.refresh_lists(live).await;
                }
            });
            link.tasks.push(looking.abort_handle());
        }
    }

    fn record_announcement(&self, announcement: Announcement) -> ConnectionEvent {
        let attempt = self.connection.engine.state().session.attempt_count();
        let life = ConnectionEvent::from_announcement(&self.connection.server.name, attempt, announcement);
        self.connection.events.record_health(&life);
        life
    }

    fn close_link(&mut self, attempt: Attempt, fault: &Fault) {
        self.keepalive.handle_disconnected();
        let Some(link) = self.links.remove(&attempt) else { return };
        self.connection.links.retire(attempt);
        // Over HTTP each call has its own exchange, which ends by itself.
        if !link.wire.is_http() || fault.cause == Cause::Closed {
            self.connection.engine.fail_calls(fault);
        }
        // Only the connection is lost, so the session may be resumed.
        if !matches!(fault.cause, Cause::Closed | Cause::SessionLost | Cause::NotAffine) {
            self.resumable_session = link.session.lock().take();
        }
        // On an orderly close, responses in flight get a moment to be sent.
        if self.resumable_session.is_none() && fault.cause != Cause::Closed {
            self.connection.background.cancel_session_tasks();
        }
        let (connection, errands) = (Arc::clone(&self.connection), self.connection.background.detach_link());
        let orderly = fault.cause == Cause::Closed;
        self.closing_tasks.spawn(async move { link.shut_down(&connection, orderly, errands).await });
    }
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due.into()).await,
        None => std::future::pending().await,
    }
}

/// Maximum time that closing waits for a token refresh to be stored.
const LOGIN_SETTLE_TIMEOUT: Duration = Duration::from_secs(25);
/// The session has its own timeouts for these messages; the call table must not interfere.
const HANDSHAKE_LIMITS: CallLimits = CallLimits { idle: Duration::MAX, total: Duration::MAX };

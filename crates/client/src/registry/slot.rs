//! One server of a registry: its client, its hooks, and how they are replaced.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bowline_config::{Server, Transport};
use bowline_proto::client::session::{Announcement, Status};
use bowline_proto::fault::{Cause, Fault};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::timeout;

use super::{Feed, RegistryContext, ServerEvent, ServerState, ServerStatus, connect_in_turn};
use crate::client::Client;
use crate::events::{ConnectionEvent, Event, EventSender, StderrLine};
use crate::hooks::Hooks;
use crate::status::Health;

/// One server of a registry.
pub(super) struct Slot {
    pub(super) name: Arc<str>,
    state: Mutex<SlotState>,
    /// Whether the phase is neither [`Phase::Waiting`] nor [`Phase::Replacing`].
    has_left_waiting: watch::Sender<bool>,
}

struct SlotState {
    server: Server,
    phase: Phase,
}

enum Phase {
    Disabled,
    /// It waits for its turn.
    Waiting,
    Open {
        client: Client,
        hooks: Option<Hooks>,
    },
    /// The client could not be created. Its hooks receive that.
    OpenFailed {
        at: SystemTime,
        fault: Fault,
        hooks: Hooks,
    },
    /// Its predecessor is being closed.
    Replacing,
    Closed,
}

/// Maximum time for closing a connection: longer than a process is given to end.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum time for hooks to receive their pending events.
const HOOKS_TIMEOUT: Duration = Duration::from_secs(5);

impl Slot {
    pub(super) fn new(server: Server) -> Self {
        let phase = Phase::initial(&server);
        Self {
            name: Arc::from(&*server.name),
            has_left_waiting: watch::Sender::new(phase.has_left_waiting()),
            state: Mutex::new(SlotState { server, phase }),
        }
    }

    /// Returns the client, which is created if needed.
    pub(super) fn open(&self, common: &RegistryContext) -> Option<Client> {
        let mut content = self.state.lock();
        let SlotState { server, phase } = &mut *content;
        match phase {
            Phase::Open { client, .. } => return Some(client.clone()),
            Phase::Waiting if !common.stop.is_cancelled() => {}
            _ => return None,
        }
        let mut builder = (common.client_factory)(server.clone()).outer_layers(&common.layers);
        if let Some(handler) = &common.handler {
            builder = builder.shared_handler(Arc::clone(handler));
        }
        let opened = match builder.open() {
            Ok(client) => {
                if common.track_tools || Hooks::need_tool_tracking(&server.hooks) {
                    client.track_tools();
                }
                if common.report_calls {
                    client.report_calls();
                }
                if common.report_stderr {
                    client.report_stderr();
                }
                common.forwarders.spawn(forward_events(
                    Arc::clone(&self.name),
                    Feed::with_initial_event(&client),
                    common.events.clone(),
                ));
                let hooks = (!server.hooks.is_empty()).then(|| {
                    Hooks::start(&self.name, Feed::with_initial_event(&client), server.hooks.clone())
                });
                *phase = Phase::Open { client: client.clone(), hooks };
                Some(client)
            }
            Err(error) => {
                let other = || Fault::before_sending(Cause::Closed).with_note(error.to_string());
                let fault = error.fault().cloned().unwrap_or_else(other);
                let life =
                    ConnectionEvent::from_announcement(&self.name, 1, Announcement::Failed(fault.clone()));
                let hooks =
                    Hooks::start(&self.name, Feed::from_single_event(life.clone()), server.hooks.clone());
                *phase = Phase::OpenFailed { at: life.at, fault, hooks };
                let server = Arc::clone(&self.name);
                // There may be no subscriber.
                common.events.send(ServerEvent { server, event: Event::Connection(life) });
                None
            }
        };
        drop(content);
        self.has_left_waiting.send_replace(true);
        opened
    }

    pub(super) fn is_process(&self) -> bool {
        matches!(self.state.lock().server.transport, Transport::Stdio(_))
    }

    /// Waits until the outcome of an attempt is known.
    pub(super) async fn settled(&self) {
        if self.has_left_waiting.subscribe().wait_for(|moved| *moved).await.is_err() {
            return;
        }
        let status = match &self.state.lock().phase {
            Phase::Open { client, .. } => Some(client.status()),
            _ => None,
        };
        if let Some(mut status) = status {
            let passing =
                |status: &Status| matches!(status, Status::Idle | Status::Connecting | Status::LoggingIn(_));
            let _ = status.wait_for(|status| !passing(status)).await;
        }
    }

    /// Replaces the server by another of the same name. Returns the remaining work if anything
    /// changed.
    pub(super) fn replace_server(
        self: &Arc<Self>,
        server: Server,
        common: &Arc<RegistryContext>,
    ) -> Option<impl Future<Output = ()> + Send + 'static> {
        let mut content = self.state.lock();
        if content.server == server {
            return None;
        }
        let mut apart_from_hooks = server.clone();
        apart_from_hooks.hooks.clone_from(&content.server.hooks);
        let only_hooks = content.server == apart_from_hooks;
        let (old_client, old_hooks) = if only_hooks {
            let mut old = None;
            if let Phase::Open { client, hooks } = &mut content.phase {
                // From now on: the new hooks need not learn of the existing connection.
                let new = (!server.hooks.is_empty())
                    .then(|| Hooks::start(&self.name, Feed::from_now(client), server.hooks.clone()));
                if Hooks::need_tool_tracking(&server.hooks) {
                    client.track_tools();
                }
                old = std::mem::replace(hooks, new);
            }
            content.server = server;
            (None, old)
        } else {
            let phase = std::mem::replace(&mut content.phase, Phase::Replacing);
            content.server = server;
            self.has_left_waiting.send_replace(false);
            phase.into_parts()
        };
        drop(content);
        let (slot, common) = (Arc::clone(self), Arc::clone(common));
        Some(async move {
            match old_hooks {
                // The new hooks receive what comes.
                Some(hooks) if only_hooks => hooks.stop(),
                hooks => close_parts(old_client, hooks).await,
            }
            let turn = {
                let mut content = slot.state.lock();
                if matches!(content.phase, Phase::Replacing) {
                    content.phase = Phase::initial(&content.server);
                    slot.has_left_waiting.send_replace(content.phase.has_left_waiting());
                }
                matches!(content.phase, Phase::Waiting)
            };
            if turn {
                tokio::spawn(connect_in_turn(slot, common));
            }
        })
    }

    pub(super) async fn close(&self) {
        let phase = std::mem::replace(&mut self.state.lock().phase, Phase::Closed);
        self.has_left_waiting.send_replace(true);
        let (client, hooks) = phase.into_parts();
        close_parts(client, hooks).await;
    }

    pub(super) fn status(&self) -> ServerStatus {
        let content = self.state.lock();
        let mut status = ServerStatus {
            name: Arc::clone(&self.name),
            transport: content.server.transport.as_str(),
            state: ServerState::Waiting,
            peer: None,
            next_attempt: None,
            health: Health::default(),
        };
        match &content.phase {
            Phase::Disabled => status.state = ServerState::Disabled,
            Phase::Waiting | Phase::Replacing => {}
            Phase::Closed => status.state = ServerState::Closed,
            Phase::OpenFailed { at, fault, .. } => {
                status.state = ServerState::Failed;
                status.health.last_fault = Some((*at, fault.clone()));
            }
            Phase::Open { client, .. } => {
                status.health = client.health();
                status.transport = client.transport();
                status.state = match &client.status().current() {
                    Status::Ready(peer) => {
                        status.peer = Some(Arc::clone(peer));
                        ServerState::Ready
                    }
                    Status::LoggingIn(_) => ServerState::LoggingIn,
                    Status::NeedsLogin(_) => ServerState::NeedsLogin,
                    Status::BackingOff { until, .. } => {
                        status.next_attempt = Some(*until);
                        ServerState::BackingOff
                    }
                    Status::Failed(_) => ServerState::Failed,
                    Status::Closed => ServerState::Closed,
                    _ => ServerState::Connecting,
                };
            }
        }
        status
    }
}

impl Phase {
    fn initial(server: &Server) -> Self {
        if server.enabled { Self::Waiting } else { Self::Disabled }
    }

    /// The client and hooks to be closed.
    fn into_parts(self) -> (Option<Client>, Option<Hooks>) {
        match self {
            Self::Open { client, hooks } => (Some(client), hooks),
            Self::OpenFailed { hooks, .. } => (None, Some(hooks)),
            Self::Disabled | Self::Waiting | Self::Replacing | Self::Closed => (None, None),
        }
    }

    fn has_left_waiting(&self) -> bool {
        !matches!(self, Self::Waiting | Self::Replacing)
    }
}

/// Closes a client and then waits for its hooks, each with a timeout.
async fn close_parts(client: Option<Client>, hooks: Option<Hooks>) {
    if let Some(client) = client {
        let _ = timeout(CLOSE_TIMEOUT, client.close()).await;
    }
    if let Some(hooks) = hooks {
        let _ = timeout(HOOKS_TIMEOUT, hooks.finished()).await;
    }
}

/// Forwards the events of one client to the subscribers of the registry.
async fn forward_events(server: Arc<str>, mut feed: Feed, events: EventSender<ServerEvent>) {
    let mut skipped = 0;
    while let Some(event) = feed.next().await {
        let server = Arc::clone(&server);
        // There may be no subscriber.
        let Event::Stderr(line) = event else {
            events.send(ServerEvent { server, event });
            continue;
        };
        // As in a client, a flood of lines must not displace other events.
        let line = StderrLine { text: line.text.clone(), skipped: skipped + line.skipped };
        let left_out = line.skipped + 1;
        let is_sent = events.offer(ServerEvent { server, event: Event::Stderr(Arc::new(line)) });
        skipped = if is_sent { 0 } else { left_out };
    }
}

//! One server of a registry: its client, its hooks, and how they are replaced.

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use bowline_config::{Server, Transport};
use bowline_proto::fault::{Cause, Fault};
use bowline_proto::session::Status;
use tokio::sync::watch;
use tokio::time::timeout;

use super::{Common, Fed, Feed, Named, ServerStatus, State, take_turn};
use crate::client::Client;
use crate::events::{Event, EventSender, Life, Turn};
use crate::hooks::Hooks;
use crate::status::Health;

/// One server of a registry.
pub(super) struct Slot {
    pub(super) name: Arc<str>,
    content: Mutex<Content>,
    /// Whether the phase is neither [`Phase::Waiting`] nor [`Phase::Replacing`].
    moved: watch::Sender<bool>,
}

struct Content {
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
    Broken {
        at: SystemTime,
        fault: Fault,
        hooks: Hooks,
    },
    /// Its predecessor is being closed.
    Replacing,
    Closed,
}

/// Maximum time for closing a connection: longer than a process is given to end.
const CLOSING: Duration = Duration::from_secs(10);
/// Maximum time for hooks to receive their pending events.
const LAST_HOOKS: Duration = Duration::from_secs(5);

impl Slot {
    pub(super) fn new(server: Server) -> Self {
        let phase = Phase::first(&server);
        Self {
            name: Arc::from(&*server.name),
            moved: watch::Sender::new(phase.has_moved()),
            content: Mutex::new(Content { server, phase }),
        }
    }

    /// Returns the client, which is created if needed.
    pub(super) fn open(&self, common: &Common) -> Option<Client> {
        let mut content = self.content();
        let Content { server, phase } = &mut *content;
        match phase {
            Phase::Open { client, .. } => return Some(client.clone()),
            Phase::Waiting if !common.stop.is_cancelled() => {}
            _ => return None,
        }
        let opened = match (common.connect)(server.clone()).open() {
            Ok(client) => {
                if common.track_tools || Hooks::want_tools(&server.hooks) {
                    client.track_tools();
                }
                tokio::spawn(pass_on(
                    Arc::clone(&self.name),
                    Feed::with_present(&client),
                    common.events.clone(),
                ));
                let hooks = (!server.hooks.is_empty())
                    .then(|| Hooks::start(&self.name, Feed::with_present(&client), server.hooks.clone()));
                *phase = Phase::Open { client: client.clone(), hooks };
                Some(client)
            }
            Err(error) => {
                let other = || Fault::before_sending(Cause::Closed).with_note(error.to_string());
                let fault = error.fault().cloned().unwrap_or_else(other);
                let (at, cause) = (SystemTime::now(), Some(fault.clone()));
                let name = Arc::clone(&self.name);
                let life = Life { turn: Turn::Failed, server: name, at, cause, attempt: 1, outage: None };
                let hooks = Hooks::start(&self.name, Feed::only(life.clone()), server.hooks.clone());
                *phase = Phase::Broken { at, fault, hooks };
                let server = Arc::clone(&self.name);
                // There may be no subscriber.
                common.events.send(Named { server, event: Event::Life(life), missed: 0 });
                None
            }
        };
        drop(content);
        self.moved.send_replace(true);
        opened
    }

    pub(super) fn is_process(&self) -> bool {
        matches!(self.content().server.transport, Transport::Stdio(_))
    }

    /// Waits until the outcome of an attempt is known.
    pub(super) async fn settled(&self) {
        if self.moved.subscribe().wait_for(|moved| *moved).await.is_err() {
            return;
        }
        let status = match &self.content().phase {
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
    pub(super) fn change(
        self: &Arc<Self>,
        server: Server,
        common: &Arc<Common>,
    ) -> Option<impl Future<Output = ()> + Send + 'static> {
        let mut content = self.content();
        if content.server == server {
            return None;
        }
        let apart_from_hooks = Server { hooks: content.server.hooks.clone(), ..server.clone() };
        let only_hooks = content.server == apart_from_hooks;
        let (old_client, old_hooks) = if only_hooks {
            let mut old = None;
            if let Phase::Open { client, hooks } = &mut content.phase {
                // From now on: the new hooks need not learn of the existing connection.
                let new = (!server.hooks.is_empty())
                    .then(|| Hooks::start(&self.name, Feed::from_now(client), server.hooks.clone()));
                if Hooks::want_tools(&server.hooks) {
                    client.track_tools();
                }
                old = std::mem::replace(hooks, new);
            }
            content.server = server;
            (None, old)
        } else {
            let phase = std::mem::replace(&mut content.phase, Phase::Replacing);
            content.server = server;
            self.moved.send_replace(false);
            phase.into_parts()
        };
        drop(content);
        let (slot, common) = (Arc::clone(self), Arc::clone(common));
        Some(async move {
            match old_hooks {
                // The new hooks receive what comes.
                Some(hooks) if only_hooks => hooks.stop(),
                hooks => end(old_client, hooks).await,
            }
            let turn = {
                let mut content = slot.content();
                if matches!(content.phase, Phase::Replacing) {
                    content.phase = Phase::first(&content.server);
                    slot.moved.send_replace(content.phase.has_moved());
                }
                matches!(content.phase, Phase::Waiting)
            };
            if turn {
                tokio::spawn(take_turn(slot, common));
            }
        })
    }

    pub(super) async fn close(&self) {
        let phase = std::mem::replace(&mut self.content().phase, Phase::Closed);
        self.moved.send_replace(true);
        let (client, hooks) = phase.into_parts();
        end(client, hooks).await;
    }

    pub(super) fn status(&self) -> ServerStatus {
        let content = self.content();
        let mut status = ServerStatus {
            name: Arc::clone(&self.name),
            transport: content.server.transport.as_str(),
            state: State::Waiting,
            peer: None,
            next_attempt: None,
            health: Health::default(),
        };
        match &content.phase {
            Phase::Disabled => status.state = State::Disabled,
            Phase::Waiting | Phase::Replacing => {}
            Phase::Closed => status.state = State::Closed,
            Phase::Broken { at, fault, .. } => {
                status.state = State::Failed;
                status.health.last_fault = Some((*at, fault.clone()));
            }
            Phase::Open { client, .. } => {
                status.health = client.health();
                status.transport = client.transport();
                status.state = match &*client.status().borrow() {
                    Status::Idle | Status::Connecting => State::Connecting,
                    Status::Ready(peer) => {
                        status.peer = Some(Arc::clone(peer));
                        State::Ready
                    }
                    Status::LoggingIn(_) => State::LoggingIn,
                    Status::NeedsLogin(_) => State::NeedsLogin,
                    Status::BackingOff { until, .. } => {
                        status.next_attempt = Some(*until);
                        State::BackingOff
                    }
                    Status::Failed(_) => State::Failed,
                    Status::Closed => State::Closed,
                };
            }
        }
        status
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Phase {
    fn first(server: &Server) -> Self {
        if server.enabled { Self::Waiting } else { Self::Disabled }
    }

    /// The client and hooks to be closed.
    fn into_parts(self) -> (Option<Client>, Option<Hooks>) {
        match self {
            Self::Open { client, hooks } => (Some(client), hooks),
            Self::Broken { hooks, .. } => (None, Some(hooks)),
            Self::Disabled | Self::Waiting | Self::Replacing | Self::Closed => (None, None),
        }
    }

    fn has_moved(&self) -> bool {
        !matches!(self, Self::Waiting | Self::Replacing)
    }
}

/// Closes a client and then waits for its hooks, each with a timeout.
async fn end(client: Option<Client>, hooks: Option<Hooks>) {
    if let Some(client) = client {
        let _ = timeout(CLOSING, client.close()).await;
    }
    if let Some(hooks) = hooks {
        let _ = timeout(LAST_HOOKS, hooks.finished()).await;
    }
}

/// Forwards the events of one client to the subscribers of the registry.
async fn pass_on(server: Arc<str>, mut feed: Feed, events: EventSender<Named>) {
    let mut missed = 0;
    while let Some(fed) = feed.next().await {
        match fed {
            Fed::Missed(count) => missed += count,
            Fed::Event(event) => {
                let named = Named { server: Arc::clone(&server), event, missed: std::mem::take(&mut missed) };
                // There may be no subscriber.
                events.send(named);
            }
        }
    }
}

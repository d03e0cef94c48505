//! The upstream connection for one host: opened with the identity of that host; and when the host
//! may receive what.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bowline::fault::{Cause, Fault};
use bowline::wire::{Id, Json, RpcError};
use bowline::{Client, Era, Handler, HandlerResult, Peer, ServerRequest, Status};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::queue::Queue;
use super::{Relay, Session, arrival, forward};
use crate::greeting::{Hello, Offer};
use crate::host::HostLink;
use crate::refusal::{self, Standing};

/// The upstream connection for one host.
pub(super) struct Upstream {
    pub(super) client: Client,
    /// Whether the host polls tasks of 2026-07-28 itself.
    pub(super) knows_tasks: bool,
    hooks: Mutex<Option<bowline::hooks::Hooks>>,
    gate: Gate,
    /// Notifications of the host, in order.
    notes: mpsc::Sender<(Box<str>, Option<Json>)>,
    /// Notifications for the host, in order.
    pub(super) queue: Arc<Queue>,
    /// Tasks that forward messages from the server to the host.
    telling: Mutex<JoinSet<()>>,
    /// Tasks that forward messages to the server, and wait for its first connection.
    _passing: JoinSet<()>,
}

/// Decides when the host may receive server messages.
#[derive(Clone, Debug)]
pub(super) struct Gate {
    welcome: Arc<watch::Sender<Welcome>>,
    /// Canceled when the host has sent `initialized`, or any request.
    ready: CancellationToken,
    /// Canceled when the server was connected for the first time.
    come: CancellationToken,
    /// Canceled when the session of the host is over.
    ended: CancellationToken,
}

/// The outcome of the `initialize` of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Welcome {
    /// Not answered yet.
    Pending,
    /// Answered with an error.
    Refused,
    /// Answered with a result that offers these lists.
    Given(Offer),
}

/// Whether the server is available when the host has to be answered.
enum Reached {
    Ready(Arc<Peer>),
    /// Not connected, and retried.
    NotYet(Option<Fault>),
    /// Retrying cannot help.
    Never(Fault),
}

/// How long the shutdown waits for hooks.
const LAST_HOOKS: Duration = Duration::from_secs(1);

/// How many notifications of the host may wait for the server. They are soon out of date.
const NOTES: usize = 64;

impl Upstream {
    /// Starts to connect with the identity in `host_params`.
    pub(super) fn open(relay: &Relay, link: &HostLink, hello: &Hello) -> Result<Arc<Self>, RpcError> {
        let gate = Gate::new();
        let behalf = Behalf {
            link: link.clone(),
            gate: gate.clone(),
            capabilities: hello.capabilities.clone(),
            patience: relay.server.timeouts.max,
        };
        let mut builder = Client::builder(relay.server.clone())
            .implementation(hello.client.clone())
            // The host speaks a legacy revision. A server that speaks both eras offers it more in
            // the same era: change notifications, log levels, subscriptions.
            .begin_with(Era::Legacy)
            .handler(behalf);
        if let Some(folder) = &relay.records {
            builder = builder.records(folder);
        }
        if let Some(cache) = &relay.negotiations {
            builder = builder.negotiation_cache(Arc::clone(cache));
        }
        if let Some(auth) = &relay.auth {
            builder = builder.auth(auth.clone());
        }
        let client = builder.open().map_err(|error| refusal::of(&error, &Standing::unknown()))?;
        let (notes, outgoing) = mpsc::channel(NOTES);
        let (queue, reader) = Queue::new(client.events());
        let (mut telling, mut passing) = (JoinSet::new(), JoinSet::new());
        let observer = Arc::clone(&relay.observer);
        telling.spawn(forward::to_host(reader, link.clone(), gate.clone(), observer));
        passing.spawn(forward::to_server(outgoing, client.clone()));
        passing.spawn(arrival::await_arrival(client.clone()));
        let hooks = bowline::hooks::spawn(&client, relay.server.hooks.iter().cloned());
        Ok(Arc::new(Self {
            client,
            knows_tasks: hello.knows_tasks(),
            hooks: Mutex::new(Some(hooks)),
            gate,
            notes,
            queue,
            telling: Mutex::new(telling),
            _passing: passing,
        }))
    }

    /// Records that the host is ready for requests.
    pub(super) fn host_is_ready(&self) {
        self.gate.ready.cancel();
    }

    /// Waits until `initialize` was answered. `None` if it was refused.
    pub(super) async fn greeted(&self) -> Option<Offer> {
        let offer = self.gate.greeted().await?;
        // A host that sends a request is ready, whether it said so or not.
        self.host_is_ready();
        Some(offer)
    }

    /// Whether the server was connected since the host came.
    pub(super) fn has_come(&self) -> bool {
        // The status changes before the event arrives.
        self.gate.come.is_cancelled() || matches!(&*self.client.status().borrow(), Status::Ready(_))
    }

    /// Tells the host that every offered list may have changed.
    pub(super) async fn announce(&self, link: &HostLink) {
        forward::announce(link, &self.gate).await;
    }

    /// Waits until the host was sent everything that the server has sent by now. That takes as long
    /// as the host takes to read it, for which a response would have to wait as well.
    pub(super) async fn all_told(&self) {
        self.queue.passed().await;
    }

    /// State of the connection, for a call that failed.
    pub(super) fn standing<'a>(&self, relay: &'a Relay, status: &'a Status) -> Standing<'a> {
        let health = self.client.health();
        let away = match (health.connected_since, health.last_fault) {
            (None, Some((since, _))) => Some(since.elapsed().unwrap_or_default()),
            _ => None,
        };
        let reconnect_wait = relay.server.reconnect_wait;
        Standing { status, away, reconnect_wait, login: relay.login.as_deref() }
    }

    /// Queues a notification of the host for the server.
    pub(super) fn pass(&self, method: Box<str>, params: Option<Json>) {
        if let Err(error) = self.notes.try_send((method, params)) {
            tracing::warn!(%error, "a notification of the host was dropped");
        }
    }

    /// Closes the connection. Events that were received until then still reach the observers.
    pub(super) async fn close(&self) {
        self.client.clone().close().await;
        self.gate.ended.cancel();
        let mut telling = std::mem::take(&mut *self.telling.lock().unwrap_or_else(PoisonError::into_inner));
        while telling.join_next().await.is_some() {}
        // Hooks get the last event too, within their timeout.
        let hooks = self.hooks.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(hooks) = hooks {
            let _ = timeout(LAST_HOOKS, hooks.finished()).await;
        }
    }

    /// Waits for the server: during the first attempt as long as the host can wait; once the server
    /// is known to be down, as long as any call would wait for it.
    async fn reached(&self, relay: &Relay) -> Reached {
        let mut status = self.client.status();
        let mut until = Instant::now() + relay.greeting;
        let (mut down, mut cause) = (None, None);
        loop {
            let seen = status.borrow_and_update().clone();
            match seen {
                Status::Ready(peer) => return Reached::Ready(peer),
                Status::NeedsLogin(fault) | Status::Failed(fault) => return Reached::Never(fault),
                Status::Closed => return Reached::Never(Fault::before_sending(Cause::Closed)),
                Status::BackingOff { cause: fault, .. } => {
                    let down = *down.get_or_insert_with(Instant::now);
                    until = until.min(down + relay.server.reconnect_wait);
                    cause = Some(fault);
                }
                _ => {}
            }
            match timeout_at(until.into(), status.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return Reached::Never(Fault::before_sending(Cause::Closed)),
                Err(_) => return Reached::NotYet(cause),
            }
        }
    }
}

impl Session {
    /// Answers the `initialize` of the host.
    pub(super) async fn greet(self: Arc<Self>, upstream: Arc<Upstream>, id: Id, hello: Hello) {
        // A host that cancels its `initialize` may send another.
        let mut turned_away = TurnAway { session: &self, upstream: &upstream, armed: true };
        let name = &self.relay.server.name;
        let (answer, offer) = match upstream.reached(&self.relay).await {
            Reached::Ready(peer) => {
                tracing::info!(server = %name, revision = %peer.revision, "the server is there");
                hello.welcome(&peer)
            }
            Reached::NotYet(cause) => {
                tracing::warn!(server = %name, "the host is greeted without the server");
                hello.welcome_blindly(name, cause.as_ref())
            }
            // Waiting is useless: the host shows the error to its user, who can help.
            Reached::Never(fault) => {
                let standing = Standing { login: self.relay.login.as_deref(), ..Standing::unknown() };
                let refused = refusal::unreachable(name, &fault.not_executed(), &standing);
                self.link.answer(&id, &Err(refused)).await;
                drop(turned_away);
                return upstream.close().await;
            }
        };
        self.link.answer(&id, &Ok(answer)).await;
        turned_away.armed = false;
        upstream.gate.welcome.send_replace(Welcome::Given(offer));
        // The server may have connected at this very moment, and nobody else would announce it.
        if offer.is_blind() && upstream.has_come() {
            upstream.announce(&self.link).await;
        }
    }
}

/// Allows another `initialize` when it is dropped while armed.
struct TurnAway<'a> {
    session: &'a Session,
    upstream: &'a Arc<Upstream>,
    armed: bool,
}

impl Drop for TurnAway<'_> {
    fn drop(&mut self) {
        if !self.armed {
            return;
        }
        self.upstream.gate.welcome.send_replace(Welcome::Refused);
        let mut slot = self.session.upstream();
        if slot.as_ref().is_some_and(|there| Arc::ptr_eq(there, self.upstream)) {
            *slot = None;
        }
    }
}

impl Gate {
    fn new() -> Self {
        let welcome = Arc::new(watch::Sender::new(Welcome::Pending));
        Self {
            welcome,
            ready: CancellationToken::new(),
            come: CancellationToken::new(),
            ended: CancellationToken::new(),
        }
    }

    #[cfg(test)]
    pub(super) fn opened(offer: Offer) -> Self {
        let gate = Self::new();
        gate.ready.cancel();
        gate.welcome.send_replace(Welcome::Given(offer));
        gate
    }

    /// Records that the server is connected. Called before the host is told, so that a request
    /// which still sees no server is told later.
    pub(super) fn server_has_come(&self) {
        self.come.cancel();
    }

    /// The offered lists, if `initialize` was answered with a result.
    pub(super) fn offer(&self) -> Option<Offer> {
        match *self.welcome.borrow() {
            Welcome::Given(offer) => Some(offer),
            Welcome::Pending | Welcome::Refused => None,
        }
    }

    /// Waits until the host may receive messages. `None` if it never may.
    pub(super) async fn open(&self) -> Option<Offer> {
        let offer = self.greeted().await?;
        self.ready.cancelled().await;
        Some(offer)
    }

    /// Canceled when the session of the host is over.
    pub(super) fn ended(&self) -> &CancellationToken {
        &self.ended
    }

    async fn greeted(&self) -> Option<Offer> {
        let mut welcome = self.welcome.subscribe();
        let settled = welcome.wait_for(|welcome| *welcome != Welcome::Pending).await;
        match settled.as_deref() {
            Ok(Welcome::Given(offer)) => Some(*offer),
            _ => None,
        }
    }
}

/// Handles server requests by forwarding them to the host.
struct Behalf {
    link: HostLink,
    gate: Gate,
    capabilities: Json,
    /// How long a host may take to respond. Often a person has to decide, so it is long; but
    /// nothing waits forever.
    patience: Duration,
}

impl Handler for Behalf {
    fn capabilities(&self) -> Json {
        self.capabilities.clone()
    }

    fn handle(&self, request: ServerRequest) -> Pin<Box<dyn Future<Output = HandlerResult> + Send + '_>> {
        Box::pin(async move {
            let answer = async {
                // A server may send requests as soon as its own handshake is done; the host gets
                // them only after its own.
                match self.gate.open().await {
                    Some(_) => self.link.ask(&request.method, &request.params).await,
                    None => Err(refusal::out_of_order("the host was turned away")),
                }
            };
            timeout(self.patience, answer).await.unwrap_or_else(|_| {
                tracing::warn!(method = %request.method, "the host did not answer the server in time");
                Err(refusal::host_is_silent())
            })
        })
    }
}

/// How long sending a notification to the server may take.
pub(super) const PASSING: Duration = Duration::from_secs(10);

//! [`StatelessRelay`]: passes the requests of a host of 2026-07-28 on a pipe on to a gateway over HTTP,
//! and decides which of them are sent again when the gateway is restarted.

mod exchange;
mod presence;
mod subscription;

use std::sync::Arc;
use std::time::Duration;

use bowline::types::method;
use bowline::{Cause, Fault, HandlerResult, Json, Limit, RpcError};
use bowline_proto::client::retry::is_harmless_method;
use bowline_proto::wire::view::{Page, Tool};
use bowline_server::{OpenRequest, StatelessRequest};
use bowline_transport::http::{HttpLink, Limits};
use http::HeaderValue;
use parking_lot::Mutex;
use ring::rand::{self, SystemRandom};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use super::{FLUSH_TIMEOUT, ReachabilityObserver, Relay};
use crate::error_response::{self, ConnectionState};
use exchange::{Exchange, Received, RequestBody, ResponseReader};

/// Relays requests. Clones share everything.
#[derive(Clone)]
pub(super) struct StatelessRelay(Arc<Shared>);

struct Shared {
    link: HttpLink,
    /// Tells this host from others at the gateway. It is a secret of this process, and stays the same when the
    /// gateway is restarted.
    pipe: HeaderValue,
    relay: Relay,
    /// How long a request waits for a gateway that is restarted.
    reconnect_wait: Duration,
    /// How long a request may take, apart from subscriptions.
    timeout: Duration,
    on_reachability: ReachabilityObserver,
    /// Canceled when subscriptions are to end.
    stopping: CancellationToken,
    /// A token is held by each subscription.
    subscriptions: TaskTracker,
    /// Shows the gateway that the host is there. Set by its first request.
    presence: Mutex<Option<AbortOnDropHandle<()>>>,
}

/// The waits between two attempts to reach the gateway, during one outage.
pub(super) struct RetryWaits {
    next: Duration,
    /// When the outage has lasted too long.
    give_up: Option<Instant>,
}

/// How long to wait between two attempts to reach the gateway, at first and at most. A local socket
/// costs next to nothing.
const MIN_WAIT: Duration = Duration::from_millis(20);
const MAX_WAIT: Duration = Duration::from_millis(500);

impl StatelessRelay {
    /// Creates the relay, if such hosts are to be served.
    pub(super) fn new(relay: &Relay) -> Option<Self> {
        let on_reachability = relay.on_reachability.clone()?;
        let http = relay.server.transport.http()?;
        let link = HttpLink::new(http, Limits::default())
            .inspect_err(|fault| tracing::warn!(%fault, "hosts of 2026-07-28 cannot be relayed"))
            .ok()?;
        Some(Self(Arc::new(Shared {
            link,
            pipe: random_pipe_id(),
            relay: relay.clone(),
            reconnect_wait: relay.server.reconnect_wait,
            timeout: relay.server.timeouts.total,
            on_reachability,
            stopping: CancellationToken::new(),
            subscriptions: TaskTracker::new(),
            presence: Mutex::default(),
        })))
    }

    /// Serves a request in its own task, which ends when the host cancels the request.
    pub(super) fn serve(&self, request: StatelessRequest) {
        self.show_presence(&request);
        let relay = self.clone();
        request.spawn(|request| async move {
            if *request.method == *method::LISTEN {
                let _subscription = relay.0.subscriptions.token();
                return Box::pin(relay.relay_subscription(request)).await;
            }
            let answer = tokio::select! {
                answer = timeout(relay.0.timeout, Box::pin(relay.relay_request(&request))) => answer
                    .unwrap_or_else(|_| Err(relay.describe(&Fault::new(Cause::Timeout(Limit::Total))))),
                () = relay.0.relay.wait_for_hang() => Err(error_response::hung(&relay.0.relay.server.name)),
            };
            request.request.respond(answer.as_ref()).await;
        });
    }

    /// Ends all subscriptions of the host with a result.
    pub(super) async fn end_subscriptions(&self) {
        self.0.stopping.cancel();
        self.0.subscriptions.close();
        if timeout(FLUSH_TIMEOUT, self.0.subscriptions.wait()).await.is_err() {
            tracing::debug!("the host does not read that its subscriptions have ended");
        }
    }

    /// Sends a request until it is answered, as far as it may be sent again.
    ///
    /// Dropping the future cancels the request.
    async fn relay_request(&self, request: &StatelessRequest) -> HandlerResult {
        let body = RequestBody::new(&request.id, &request.method, request.params.as_ref());
        let mut waits = RetryWaits::new(Some(self.0.reconnect_wait));
        loop {
            let begun = Instant::now();
            let exchange = self.exchange(&body, Some(&request.request)).await;
            if begun.elapsed() >= self.0.reconnect_wait {
                // The gateway was there for so long that this is another outage.
                waits = RetryWaits::new(Some(self.0.reconnect_wait));
            }
            let failure = match exchange {
                Exchange::Answered(answer) => return answer,
                Exchange::NotExecuted(fault) => self.describe(&fault),
                // It waits as well: the gateway may cut each request that it accepts.
                Exchange::Lost if self.is_harmless(request, &mut waits).await => {
                    error_response::interrupted()
                }
                Exchange::Lost => return Err(error_response::interrupted()),
            };
            if !waits.wait().await {
                return Err(failure);
            }
        }
    }

    /// Whether it does no harm to send a request again that may have been executed. The gateway says
    /// which tools are harmless, once it is there again.
    async fn is_harmless(&self, request: &StatelessRequest, waits: &mut RetryWaits) -> bool {
        let params = request.params.as_ref();
        // The state of a call that waits for input can be used once.
        if params.is_some_and(|params| params.member("requestState").is_some()) {
            return false;
        }
        match &*request.method {
            method::TOOLS_CALL => {}
            method => return is_harmless_method(method),
        }
        let name = params.and_then(|params| params.member("name")?.decode::<String>().ok());
        // What a server does with another value than a text is not known.
        let Some(name) = name else { return false };
        let body = RequestBody::own(method::TOOLS_LIST, params, None);
        loop {
            match self.exchange(&body, None).await {
                Exchange::Answered(Ok(result)) => return lists_harmless_tool(&result, &name),
                Exchange::Answered(Err(_)) => return false,
                Exchange::NotExecuted(_) | Exchange::Lost => {}
            }
            if !waits.wait().await {
                return false;
            }
        }
    }

    /// Sends a request once. Its notifications are passed on to the request of the host, if it is one.
    async fn exchange(&self, body: &RequestBody, host: Option<&OpenRequest>) -> Exchange {
        let mut reader = match self.send(body).await {
            Ok(reader) => reader,
            Err(exchange) => return exchange,
        };
        loop {
            match reader.next().await {
                Received::Notification { method, params } => {
                    if let Some(host) = host {
                        host.notify(&method, params.as_ref()).await;
                    }
                }
                Received::End(exchange) => {
                    self.report(&exchange);
                    return exchange;
                }
            }
        }
    }

    /// Sends a request, and waits for the beginning of the response.
    async fn send(&self, body: &RequestBody) -> Result<ResponseReader, Exchange> {
        let sent = exchange::send(&self.0.link, &self.0.pipe, body).await;
        match &sent {
            Ok(_) => (self.0.on_reachability)(true),
            Err(exchange) => self.report(exchange),
        }
        sent
    }

    /// Tells the observer what an exchange says about the gateway.
    fn report(&self, exchange: &Exchange) {
        if !matches!(exchange, Exchange::Answered(_)) {
            (self.0.on_reachability)(false);
        }
    }

    fn describe(&self, fault: &Fault) -> RpcError {
        error_response::from_fault(&self.0.relay.server.name, fault, &ConnectionState::unknown())
    }
}

impl RetryWaits {
    /// Begins with the shortest wait, and gives up after this time.
    pub(super) fn new(limit: Option<Duration>) -> Self {
        Self { next: MIN_WAIT, give_up: limit.map(|limit| Instant::now() + limit) }
    }

    /// Waits before the next attempt. `false` if there is to be none.
    async fn wait(&mut self) -> bool {
        if self.give_up.is_some_and(|give_up| Instant::now() + self.next > give_up) {
            return false;
        }
        sleep(self.next).await;
        self.next = (2 * self.next).min(MAX_WAIT);
        true
    }
}

fn random_pipe_id() -> HeaderValue {
    let bytes: [u8; 16] =
        rand::generate(&SystemRandom::new()).expect("the system has random numbers").expose();
    HeaderValue::from_str(&format!("{:032x}", u128::from_be_bytes(bytes))).expect("digits are a header")
}

/// Whether a list of tools has this tool, and says that calling it again is harmless.
fn lists_harmless_tool(result: &Json, name: &str) -> bool {
    Page::<Tool>::decode(result)
        .is_ok_and(|page| page.items.iter().any(|tool| *tool.name == *name && tool.is_idempotent()))
}

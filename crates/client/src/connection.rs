//! The state that callers, the driver and the link of one connection share.
//!
//! A call does not go through the driver. It takes the [`LiveLink`], writes to it and waits for the
//! response, all within the caller's own future; the driver only opens, negotiates, closes and
//! reopens links. So the hot path spawns nothing and does not hop between tasks.

mod background;
mod call;
mod driver;
mod engine;
mod inbound;
mod link;
mod listen;
mod lists;
mod login;
mod options;
mod session_state;

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};
use std::time::{Duration, Instant};

use bowline_config::Timeouts;
use bowline_proto::client::calls::Calls;
use bowline_proto::client::loss::Verdict;
use bowline_proto::client::negotiation::{Peer, Reply};
use bowline_proto::client::session::{
    Attempt, Command, Event as SessionEvent, Session, Status, TransportKind,
};
use bowline_proto::fault::{Cause, Fault, Misbehavior};
use bowline_proto::revision::Era;
use bowline_proto::wire::mirror::HeaderAnnotations;
use bowline_proto::wire::outgoing::RequestMeta;
use bowline_proto::wire::view::{Cancellation, Progress};
use bowline_proto::wire::{Json, Message, ParseResult, RpcError, method};
use bowline_transport::http::HttpLink;
use bowline_transport::pipe::PipeWriter;
use http::{HeaderMap, HeaderValue};
use tokio::sync::{mpsc, oneshot, watch};

use background::BackgroundTasks;
pub(crate) use call::meta::Tracer;
pub(crate) use call::tasks::{TaskDropPolicy, TaskWait, poll_options};
pub(crate) use driver::{ConnectionSetup, Driver};
use engine::progress_tokens::ProgressTokens;
pub(crate) use engine::progress_tokens::TaskProgress;
pub(crate) use inbound::server_requests::describe_request;
pub(crate) use link::target::Target;
use listen::Subscriptions;
use lists::catalog::Catalog;
pub(crate) use lists::catalog::ListDigest;
pub(crate) use login::prompt_clock::{PromptClock, TimedPrompt};
pub(crate) use options::ProgressListener;
pub use options::{CallOptions, ProgressStream};
use session_state::ReplayState;

use crate::events::{Event, EventReceiver, EventSender, Notification};
use crate::handler::Handler;
use crate::status::Health;
use crate::sync::{lock, read, write};

/// State of one connection, shared by callers, the driver and the link.
pub(crate) struct Shared {
    pub(crate) name: Arc<str>,
    pub(crate) timeouts: Timeouts,
    /// Maximum time that a call waits for a server that is down.
    reconnect_wait: Duration,
    pub(crate) handler: Arc<dyn Handler>,
    declaration: ClientDeclaration,
    /// The login identity used with this server; `None` if it needs no login.
    auth: Option<bowline_auth::Identity>,
    /// Measures how long login prompts have been shown to a person.
    prompt_clock: Arc<PromptClock>,
    /// Generation of the credentials that the last link was opened with.
    link_generation: AtomicU64,
    /// Whether a person was not prompted when a login was last missing.
    login_prompt_skipped: AtomicBool,
    /// Number of callers that wait for a link.
    waiting_callers: AtomicUsize,
    /// Whether there has ever been a live link.
    was_connected: AtomicBool,
    core: Mutex<Core>,
    live: RwLock<Option<Arc<LiveLink>>>,
    status: watch::Sender<Status>,
    events: EventSender<Event>,
    driver_events: mpsc::UnboundedSender<DriverEvent>,
    /// Running handlers for server requests, keyed by the text of the request id.
    server_requests: Mutex<HashMap<String, inbound::server_requests::RunningHandler>>,
    /// Size of `server_requests`, readable without the lock.
    server_request_count: AtomicUsize,
    /// `x-mcp-header` annotations of the newest tool list, by tool name. Tools without any are left
    /// out (HM-10).
    annotations: Mutex<HashMap<Box<str>, HeaderAnnotations>>,
    background: BackgroundTasks,
    /// Counts the `roots/list` requests of the server.
    roots_requests: inbound::roots::RootsRequestCounter,
    /// Progress listeners of calls that became tasks.
    pub(crate) progress_tokens: ProgressTokens,
    /// Requests that a new session must be sent again.
    replay_state: Mutex<ReplayState>,
    /// Digests of the server's lists, as last fetched.
    catalog: Mutex<Catalog>,
    /// Cached results of modern servers.
    result_cache: Mutex<lists::result_cache::ResultCache>,
    /// The subscriptions of a modern server.
    subscriptions: Subscriptions,
    /// Lists that are fetched even if no caller asks for them.
    list_tracking: lists::tracking::ListTracking,
    /// Log level requested from modern servers, counted from one; zero means none.
    log_level: AtomicU8,
    tracer: Option<Tracer>,
    /// Whether the session stays on the server when the connection is closed.
    keeps_session: AtomicBool,
    /// Configured transport: `stdio`, `http` or `sse`.
    transport: &'static str,
    /// Decides which URLs the server may send a person to.
    url_guard: inbound::url_guard::UrlGuard,
    health: Mutex<Health>,
    /// Session id and last event id of the standalone stream, for resuming it.
    stream_position: Mutex<Option<(HeaderValue, HeaderValue)>>,
}

/// What this client declares of itself to servers.
pub(crate) struct ClientDeclaration {
    /// The host's `Implementation` object.
    pub(crate) client_info: Json,
    /// The `ClientCapabilities` object that the handler declares.
    pub(crate) capabilities: Json,
    /// Capabilities declared to modern servers: those of the handler plus those of this crate.
    pub(crate) modern_capabilities: Json,
}

/// The protocol state that calls share with the driver.
struct Core {
    session: Session,
    calls: Calls<PendingRequest>,
    /// When the driver next checks the deadlines of calls. A timer per call would wake another
    /// thread for each.
    next_deadline_check: Option<Instant>,
    /// Times of recent calls, for the keepalive.
    traffic: driver::keepalive::CallTraffic,
}

/// A link that calls may use, with everything that is fixed for its lifetime.
pub(crate) struct LiveLink {
    attempt: Attempt,
    pub(crate) peer: Arc<Peer>,
    meta: RequestMeta,
    wire: Wire,
    /// Whether requests name a session, which the server can lose.
    has_session: bool,
    /// Whether requests carry configured credentials.
    has_configured_credentials: bool,
    /// Whether the server has answered anything since the handshake.
    proven: AtomicBool,
    /// Whether the server is known to have lost the session.
    session_lost: AtomicBool,
    /// The last probes of the session. The lock is held while a probe is in flight, so that one
    /// probe serves all callers that wait.
    probes: tokio::sync::Mutex<Vec<call::probe::ProbeRecord>>,
    /// Whether reconnecting did not help against refused credentials.
    challenged: AtomicBool,
    /// Whether listing the tools failed when a call needed the list.
    unlistable: AtomicBool,
}

/// The sending side of a link.
#[derive(Clone)]
pub(crate) enum Wire {
    Pipe(PipeWriter),
    Http {
        link: HttpLink,
        headers: Arc<HeaderMap>,
    },
    /// HTTP+SSE: requests are posted; responses arrive on the stream that the link's reader holds.
    EventStream {
        post: HttpLink,
        headers: Arc<HeaderMap>,
    },
}

/// A request that waits for its response.
pub(crate) enum PendingRequest {
    Call {
        answer: oneshot::Sender<RequestOutcome>,
        progress: Option<ProgressListener>,
        live: Arc<LiveLink>,
        sent: SendState,
    },
    Negotiation(Attempt),
}

/// How far a request has been sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendState {
    /// The link has not accepted it: the server knows nothing of it.
    Unsent,
    /// The POST is in flight. Its response says more about the request than the loss of the link
    /// does.
    Posting,
    Sent,
}

/// The result of one request.
pub(crate) type RequestOutcome = Result<Json, Failure>;

pub(crate) enum Failure {
    Server(RpcError),
    Fault(Fault),
    /// A response that says, or may say, that the session is lost.
    Session(Box<JudgedReply>),
    /// The link was replaced before anything was sent on it.
    LinkSuperseded,
    /// The host's handler refused the input that the server requires.
    Declined(RpcError),
    /// The caller's params are invalid; nothing was sent.
    Usage(&'static str),
}

/// A response other than a result, and what it says about the session.
pub(crate) struct JudgedReply {
    verdict: Verdict,
    reply: Reply,
}

/// An input of the driver.
pub(crate) enum DriverEvent {
    Command(Command),
    Link(Attempt, SessionEvent),
    /// The response to the negotiation message with this id.
    HandshakeReply(Attempt, u64, Reply),
    /// The outcome of a keepalive probe.
    ProbeFinished(Attempt, call::probe::ProbeOutcome),
    /// A call has an earlier deadline than all calls before it.
    EarlierDeadline,
    /// A caller dropped this call after a long silence. The duration is the time that it would
    /// still have waited.
    CallAbandoned(Attempt, u64, Duration),
    /// A stream or an idle connection of the link has ended: the server may be down.
    ServerSuspect(Attempt),
    /// A link that was opened in a background task.
    LinkOpened(Attempt, Box<link::OpenLink>),
}

impl Shared {
    fn core(&self) -> MutexGuard<'_, Core> {
        // Nothing panics while the lock is held; if something did, the tables would still be
        // consistent.
        lock(&self.core)
    }

    pub(crate) fn live(&self) -> Option<Arc<LiveLink>> {
        read(&self.live).clone()
    }

    fn set_live(&self, live: Arc<LiveLink>) {
        self.was_connected.store(true, Ordering::Relaxed);
        *write(&self.live) = Some(live);
    }

    /// Keeps further calls off the link of this attempt.
    fn retire_link(&self, attempt: Attempt) {
        let mut live = write(&self.live);
        if live.as_ref().is_some_and(|live| live.attempt == attempt) {
            *live = None;
        }
    }

    pub(crate) fn status(&self) -> watch::Receiver<Status> {
        self.status.subscribe()
    }

    pub(crate) fn events(&self) -> EventReceiver<Event> {
        // Subscribe first, so that no event caused by `demand_lists` is missed.
        let events = self.events.subscribe();
        self.demand_lists();
        events
    }

    pub(crate) fn send_command(&self, command: Command) {
        // The driver ends only after `Close`; then there is nothing left to command.
        let _ = self.driver_events.send(DriverEvent::Command(command));
    }

    pub(crate) fn transport(&self) -> &'static str {
        match self.core().session.current_transport() {
            TransportKind::EventStream => "sse",
            TransportKind::Http | TransportKind::Pipe => self.transport,
        }
    }

    pub(crate) fn health(&self) -> Health {
        lock(&self.health).clone()
    }

    fn report_link_event(&self, attempt: Attempt, event: SessionEvent) {
        let _ = self.driver_events.send(DriverEvent::Link(attempt, event));
    }

    /// Dispatches one message from a link. `call` is the call on whose stream it arrived, if known.
    fn handle_message(self: &Arc<Self>, wire: &Wire, call: Option<u64>, parsed: ParseResult) {
        match parsed {
            Ok(Message::Result { id, result }) => self.finish_call(id.as_request_number(), Ok(result)),
            Ok(Message::Error { id: Some(id), error }) => {
                self.finish_call(id.as_request_number(), Err(Failure::Server(error)));
            }
            // BM-03: with a single open call, the error can only be meant for that call.
            Ok(Message::Error { id: None, error }) if self.only_open_call().is_some() => {
                self.finish_call(self.only_open_call(), Err(Failure::Server(error)));
            }
            // The error cannot be assigned to a call, so it is logged.
            Ok(Message::Error { id: None, error }) => {
                tracing::warn!(server = %self.name, %error, "the server reported an error about no request in particular");
            }
            Ok(Message::Notification { method, params }) => self.handle_notification(method, params),
            Ok(Message::Request { id, method, params }) => {
                self.handle_request(wire, call, id, method, params);
            }
            Err(malformed) => {
                tracing::warn!(server = %self.name, defect = %malformed.defect, "the server sent a bad message");
                let fault = Fault::protocol(Misbehavior::Malformed(malformed.defect));
                self.finish_call(
                    malformed.id.and_then(|id| id.as_request_number()),
                    Err(Failure::Fault(fault)),
                );
            }
        }
    }

    /// The id of the open call, if exactly one is open.
    fn only_open_call(&self) -> Option<u64> {
        let core = self.core();
        let id = core.calls.ids().next().filter(|_| core.calls.len() == 1)?;
        matches!(core.calls.get(id), Some(PendingRequest::Call { sent: SendState::Sent, .. })).then_some(id)
    }

    /// Ends a call with its outcome. Late and unknown ids are dropped (CN-03).
    fn finish_call(&self, id: Option<u64>, outcome: RequestOutcome) {
        let waiter = id.and_then(|id| {
            let mut core = self.core();
            core.traffic.record_reply();
            core.calls.end(id)
        });
        if waiter.is_none() {
            if !self.subscriptions.finish_subscription(id, outcome) {
                tracing::debug!(server = %self.name, "an answer to no open request was dropped");
            }
            return;
        }
        match waiter {
            Some(PendingRequest::Call { answer, .. }) => {
                // The caller may have dropped its future at this moment.
                let _ = answer.send(outcome);
            }
            Some(PendingRequest::Negotiation(attempt)) => {
                let _ = self.driver_events.send(DriverEvent::HandshakeReply(
                    attempt,
                    id.unwrap_or_default(),
                    into_reply(outcome),
                ));
            }
            None => {}
        }
    }

    fn handle_notification(self: &Arc<Self>, method: Box<str>, params: Option<Json>) {
        if *method == *method::PROGRESS {
            self.handle_progress(params);
        } else if *method == *method::CANCELLED {
            self.handle_cancelled(params);
        } else if *method == *method::LISTEN_ACKNOWLEDGED {
            if let Some(params) = params {
                self.subscriptions.handle_acknowledged(&params);
            }
        } else if !self.subscriptions.is_expected(params.as_ref()) {
            // SB-03
            tracing::debug!(server = %self.name, %method, "a notification of no open subscription was dropped");
        } else {
            let size = params.as_ref().map_or(0, |params| params.as_bytes().len());
            if size > MAX_EVENT_BYTES {
                tracing::warn!(server = %self.name, %method, size, "a notification is too large and was dropped");
                return;
            }
            // A queued notification must not keep a larger buffer alive. The subscription id is
            // internal and is removed (MT-03).
            let params = params
                .map(|params| listen::without_subscription_id(&params).unwrap_or_else(|| params.detached()));
            self.invalidate_for(&method, params.as_ref());
            if *method == *method::ELICIT_COMPLETE {
                self.handle_elicitation_complete(params.as_ref());
            }
            self.handle_list_changed(&method);
            self.emit(Event::Notification(Notification::new(method, params)));
        }
    }

    /// Handles `notifications/cancelled`. A modern server may only cancel a subscription (CN-05).
    fn handle_cancelled(&self, params: Option<Json>) {
        let Some(request) = params.and_then(|params| Cancellation::decode(&params).ok()?.request) else {
            return;
        };
        if !self.subscriptions.handle_cancelled(request.as_request_number()) {
            self.cancel_server_request(&request);
        }
    }

    /// Sends an event to all subscribers, if there are any.
    fn emit(&self, event: Event) {
        self.events.send(event);
    }

    fn handle_progress(&self, params: Option<Json>) {
        let Some(params) = params else { return };
        let Ok(progress) = Progress::decode(&params) else { return };
        let Some(id) = progress.token.as_request_number() else { return };
        let listener = {
            let mut core = self.core();
            core.traffic.record_reply();
            match core.calls.record_activity(Instant::now(), id) {
                Some(PendingRequest::Call { progress, .. }) => progress.clone(),
                // PR-03: progress of a call that was answered with a task goes to the task's
                // listener.
                _ => self.progress_tokens.notify_progress(id),
            }
        };
        // A listener that panics must not take the connection down.
        if let Some(listener) = listener
            && catch_unwind(AssertUnwindSafe(|| listener.notify(progress, params))).is_err()
        {
            tracing::error!(server = %self.name, "a progress listener panicked");
        }
    }

    /// Fails the open calls after the loss of their link.
    fn fail_calls(&self, fault: &Fault) {
        let mut ended = Vec::new();
        {
            let mut core = self.core();
            let ids: Vec<_> = core.calls.ids().collect();
            for id in ids {
                let posting =
                    matches!(core.calls.get(id), Some(PendingRequest::Call { sent: SendState::Posting, .. }));
                if !posting || fault.cause == Cause::Closed {
                    ended.extend(core.calls.end(id));
                }
            }
        }
        let fault = fault.for_pending_calls();
        for waiter in ended {
            if let PendingRequest::Call { answer, sent, .. } = waiter {
                let unsent = sent == SendState::Unsent;
                let fault = if unsent { fault.clone().not_executed() } else { fault.clone() };
                let _ = answer.send(Err(Failure::Fault(fault)));
            }
        }
    }

    fn is_modern(&self) -> bool {
        self.live().is_some_and(|live| live.peer.era() == Era::Modern)
    }
}

impl LiveLink {
    /// Whether both are the same link.
    pub(crate) fn is_same_link(&self, other: &Self) -> bool {
        self.attempt == other.attempt
    }

    /// Records that the server has answered on this session.
    fn mark_proven(&self) {
        if !self.proven.load(Ordering::Relaxed) {
            self.proven.store(true, Ordering::Relaxed);
        }
    }

    pub(crate) fn mark_unlistable(&self) {
        self.unlistable.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_unlistable(&self) -> bool {
        self.unlistable.load(Ordering::Relaxed)
    }

    fn mark_session_lost(&self) {
        self.session_lost.store(true, Ordering::Relaxed);
    }

    fn is_session_lost(&self) -> bool {
        self.session_lost.load(Ordering::Relaxed)
    }

    fn is_proven(&self) -> bool {
        self.proven.load(Ordering::Relaxed)
    }
}

impl Wire {
    /// Whether each request is an HTTP exchange of its own.
    fn is_http(&self) -> bool {
        matches!(self, Self::Http { .. })
    }

    /// Abandons idle connections after a request went unanswered, since the network may be at fault
    /// rather than the server.
    fn forget_connections(&self) {
        match self {
            Self::Http { link, .. } => link.forget_connections(),
            Self::EventStream { post, .. } => post.forget_connections(),
            Self::Pipe(_) => {}
        }
    }
}

/// Maximum size of a notification in bytes. Larger ones are dropped, since many may be queued for
/// slow subscribers.
const MAX_EVENT_BYTES: usize = 128 * 1024;

fn into_reply(outcome: RequestOutcome) -> Reply {
    match outcome {
        Ok(result) => Reply::Result(result),
        Err(Failure::Server(error) | Failure::Declined(error)) => {
            Reply::Error { status: None, error, stray: false }
        }
        Err(Failure::Fault(fault)) => Reply::Fault(fault),
        Err(Failure::Session(refused)) => refused.reply,
        Err(Failure::LinkSuperseded) => Reply::Fault(Fault::before_sending(Cause::Closed)),
        Err(Failure::Usage(what)) => Reply::Fault(Fault::before_sending(Cause::Closed).with_note(what)),
    }
}

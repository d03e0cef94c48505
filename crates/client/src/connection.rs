//! One connection to one server: what callers, the driver and the link share.
//!
//! A call does not go through the driver. It takes the [`Live`] link, writes to it and waits for its
//! answer, all within the caller's own future; the driver only opens, negotiates, closes and reopens.
//! So the hot path spawns nothing and hops between no tasks of ours.

mod alive;
mod asking;
mod authorize;
mod cache;
mod call;
mod catalog;
mod driver;
mod errands;
mod event_stream;
mod exchange;
mod follow;
mod headers;
mod hello;
mod link;
mod listen;
mod meta;
mod options;
mod page_guard;
mod pages;
mod probe;
mod record;
mod requests;
mod restore;
mod resume;
mod retry;
mod roots;
mod rounds;
mod subscribe;
mod target;
mod tokens;
mod track;
mod wait;
mod wake;

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use bowline_config::Timeouts;
use bowline_proto::calls::Calls;
use bowline_proto::era::{Peer, Reply};
use bowline_proto::fault::{Cause, Fault, Misbehaviour};
use bowline_proto::loss::Verdict;
use bowline_proto::revision::Era;
use bowline_proto::session::{Attempt, Carrier, Command, Event as SessionEvent, Session, Status};
use bowline_proto::wire::mirror::Annotations;
use bowline_proto::wire::outgoing::Meta;
use bowline_proto::wire::view::{Cancelled, Progress};
use bowline_proto::wire::{Json, Message, Parsed, RpcError, method};
use bowline_transport::http::HttpLink;
use bowline_transport::pipe::PipeWriter;
use http::{HeaderMap, HeaderValue};
use tokio::sync::{mpsc, oneshot, watch};

pub(crate) use asking::{Asking, Timed};
use catalog::Catalog;
pub(crate) use catalog::Digest;
pub(crate) use driver::{Driver, Setup};
use errands::Errands;
pub(crate) use follow::{Followed, Leaving, poll_options};
pub(crate) use meta::Tracer;
pub(crate) use options::Listener;
pub use options::{CallOptions, ProgressStream};
pub(crate) use requests::purpose;
use restore::Told;
use subscribe::Subscriptions;
pub(crate) use target::Target;
use tokens::Tokens;
pub(crate) use tokens::Tracked;

use crate::events::{Event, EventReceiver, EventSender, Notification};
use crate::handler::Handler;
use crate::status::Health;

/// What callers, the driver and the link share.
pub(crate) struct Shared {
    pub(crate) name: Arc<str>,
    pub(crate) timeouts: Timeouts,
    /// How long a call waits for a server that is down.
    reconnect_wait: Duration,
    pub(crate) handler: Arc<dyn Handler>,
    identity: Identity,
    /// Who we are to the server, if it may want to know.
    auth: Option<bowline_auth::Identity>,
    /// How long a person was asked to log in.
    asking: Arc<Asking>,
    /// Who we were when a link was last opened.
    opened_as: AtomicU64,
    /// Whether nobody was asked when a login was last missing.
    unasked: AtomicBool,
    /// How many wait for a link.
    waiting: AtomicUsize,
    /// Whether there ever was one.
    was_live: AtomicBool,
    core: Mutex<Core>,
    live: RwLock<Option<Arc<Live>>>,
    status: watch::Sender<Status>,
    events: EventSender<Event>,
    news: mpsc::UnboundedSender<News>,
    /// Handlers at work for requests of the server, by the text of the request's id.
    serving: Mutex<HashMap<String, requests::ServedRequest>>,
    /// How many there are, for whoever only needs to know that there are none.
    serving_count: AtomicUsize,
    /// `x-mcp-header` annotations of the tools in the newest list that have any (HM-10).
    annotations: Mutex<HashMap<Box<str>, Annotations>>,
    errands: Errands,
    /// How often the server has asked for the roots.
    roots_requests: roots::RootsRequests,
    /// Progress of calls that became tasks.
    pub(crate) tokens: Tokens,
    /// What the server was told that a new session must be told again.
    told: Mutex<Told>,
    /// What the server's lists were when they were last seen.
    catalog: Mutex<Catalog>,
    /// Results that may be used again.
    cache: Mutex<cache::Cache>,
    /// What a modern server is asked to tell.
    subscriptions: Subscriptions,
    /// Which lists are looked at even if nobody has asked for them.
    tracks: track::Tracks,
    /// The log level that modern servers are asked for, counted from one. Zero: none.
    log_level: AtomicU8,
    tracer: Option<Tracer>,
    /// Whether the session is to stay on the server when the connection is closed.
    leaves_session: AtomicBool,
    /// How the server is reached, by configuration.
    transport: &'static str,
    /// Where the server may send a person.
    page_guard: page_guard::PageGuard,
    health: Mutex<Health>,
    /// Where the standalone stream of a session was left: the session, and its last event.
    place: Mutex<Option<(HeaderValue, HeaderValue)>>,
}

/// What we say of ourselves.
pub(crate) struct Identity {
    /// `Implementation` of the host.
    pub(crate) client_info: Json,
    /// `ClientCapabilities`, as the handler declares them.
    pub(crate) capabilities: Json,
    /// The same for modern servers, with what is done here and not by the handler.
    pub(crate) modern: Json,
}

/// The parts of the protocol's state that calls touch too.
struct Core {
    session: Session,
    calls: Calls<Waiter>,
    /// When the driver looks at the deadlines of calls next. A timer of its own for every call would
    /// wake another thread for each.
    watched: Option<Instant>,
    /// When a call was last begun, and when one was before the pause that it ended.
    traffic: alive::Traffic,
}

/// A link over which calls may go, with everything that is fixed for its life.
pub(crate) struct Live {
    attempt: Attempt,
    pub(crate) peer: Arc<Peer>,
    meta: Meta,
    wire: Wire,
    /// Whether requests name a session, which the server can forget.
    session: bool,
    /// Whether requests carry configured credentials.
    credentials: bool,
    /// Whether anything was answered on it since the handshake.
    proven: AtomicBool,
    /// Whether the server is known to have forgotten the session.
    forgotten: AtomicBool,
    /// The last probes of the session. Held while one is under way, so that one serves all who wait.
    probes: tokio::sync::Mutex<Vec<probe::ProbeRecord>>,
    /// Whether a new session was already tried for refused credentials, in vain.
    challenged: AtomicBool,
    /// Whether its tools could not be listed when a call wanted to know of one.
    unlistable: AtomicBool,
}

/// How to send on a link.
#[derive(Clone)]
enum Wire {
    Pipe(PipeWriter),
    Http {
        link: HttpLink,
        headers: Arc<HeaderMap>,
    },
    /// HTTP+SSE: posted here, answered on the stream that its reader holds.
    EventStream {
        post: HttpLink,
        headers: Arc<HeaderMap>,
    },
}

/// What waits for an answer.
enum Waiter {
    Call { answer: oneshot::Sender<Outcome>, progress: Option<Listener>, live: Arc<Live>, sent: Sent },
    Hello(Attempt),
}

/// How far a request has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    /// The link has not taken it yet: the server knows nothing of it.
    No,
    /// It is being posted, and what comes back for that says more than the end of the link.
    Posting,
    Yes,
}

/// How a request ended.
type Outcome = Result<Json, Failure>;

pub(crate) enum Failure {
    Server(RpcError),
    Fault(Fault),
    /// An answer that says, or may say, that the session is gone.
    Session(Box<JudgedReply>),
    /// The link was left before anything was sent on it.
    Left,
    /// The host's own handler said no.
    Declined(RpcError),
    /// Nothing was sent: what the caller gave cannot be.
    Usage(&'static str),
}

/// An answer that is no result, and what it says of the session.
pub(crate) struct JudgedReply {
    verdict: Verdict,
    reply: Reply,
}

/// What the driver is told.
enum News {
    Command(Command),
    Link(Attempt, SessionEvent),
    /// The answer to the message of the negotiation with this id.
    Reply(Attempt, u64, Reply),
    /// What came of a probe of the keepalive.
    Probed(Attempt, probe::ProbeOutcome),
    /// A call has a deadline earlier than any before.
    Deadline,
    /// A caller left this call after a long silence. With the time for which it would still have waited.
    Doubt(Attempt, u64, Duration),
    /// Something else of the link has ended: the server may be gone.
    Suspect(Attempt),
    /// A link that took time to open.
    Opened(Attempt, Box<link::OpenLink>),
}

impl Shared {
    fn core(&self) -> MutexGuard<'_, Core> {
        // Nothing panics while holding the lock; if something did, the tables are still consistent.
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn live(&self) -> Option<Arc<Live>> {
        self.live.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_live(&self, live: Arc<Live>) {
        self.was_live.store(true, Ordering::Relaxed);
        *self.live.write().unwrap_or_else(PoisonError::into_inner) = Some(live);
    }

    /// Lets no more calls take the link of this attempt.
    fn leave(&self, attempt: Attempt) {
        let mut live = self.live.write().unwrap_or_else(PoisonError::into_inner);
        if live.as_ref().is_some_and(|live| live.attempt == attempt) {
            *live = None;
        }
    }

    pub(crate) fn status(&self) -> watch::Receiver<Status> {
        self.status.subscribe()
    }

    pub(crate) fn events(&self) -> EventReceiver<Event> {
        // From before anything can come of it.
        let events = self.events.subscribe();
        self.want_lists();
        events
    }

    pub(crate) fn command(&self, command: Command) {
        // The driver ends only after `Close`; then there is nothing left to command.
        let _ = self.news.send(News::Command(command));
    }

    pub(crate) fn transport(&self) -> &'static str {
        match self.core().session.carrier() {
            Carrier::EventStream => "sse",
            Carrier::Http | Carrier::Pipe => self.transport,
        }
    }

    pub(crate) fn health(&self) -> Health {
        link::lock(&self.health).clone()
    }

    fn report(&self, attempt: Attempt, event: SessionEvent) {
        let _ = self.news.send(News::Link(attempt, event));
    }

    /// Takes one message from a link, whatever it is and wherever it came in.
    /// `during`: the call on whose stream it came, where that is known.
    fn handle_message(self: &Arc<Self>, wire: &Wire, during: Option<u64>, parsed: Parsed) {
        match parsed {
            Ok(Message::Result { id, result }) => self.finish(id.as_ours(), Ok(result)),
            Ok(Message::Error { id: Some(id), error }) => {
                self.finish(id.as_ours(), Err(Failure::Server(error)));
            }
            // BM-03: it can be meant for one only.
            Ok(Message::Error { id: None, error }) if self.only_call().is_some() => {
                self.finish(self.only_call(), Err(Failure::Server(error)));
            }
            // Nobody can be told, but it must not pass unseen.
            Ok(Message::Error { id: None, error }) => {
                tracing::warn!(server = %self.name, %error, "the server reported an error about no request in particular");
            }
            Ok(Message::Notification { method, params }) => self.handle_notification(method, params),
            Ok(Message::Request { id, method, params }) => {
                self.handle_request(wire, during, id, method, params);
            }
            Err(malformed) => {
                tracing::warn!(server = %self.name, defect = %malformed.defect, "the server sent a bad message");
                let fault = Fault::protocol(Misbehaviour::Malformed(malformed.defect));
                self.finish(malformed.id.and_then(|id| id.as_ours()), Err(Failure::Fault(fault)));
            }
        }
    }

    /// The open call, if there is exactly one.
    fn only_call(&self) -> Option<u64> {
        let core = self.core();
        let id = core.calls.ids().next().filter(|_| core.calls.len() == 1)?;
        matches!(core.calls.get(id), Some(Waiter::Call { sent: Sent::Yes, .. })).then_some(id)
    }

    /// Gives a call its outcome. Late and unknown ids find nobody (CN-03).
    fn finish(&self, id: Option<u64>, outcome: Outcome) {
        let waiter = id.and_then(|id| {
            let mut core = self.core();
            core.traffic.heard();
            core.calls.end(id)
        });
        if waiter.is_none() {
            if !self.subscriptions.finish(id, outcome) {
                tracing::debug!(server = %self.name, "an answer to no open request was dropped");
            }
            return;
        }
        match waiter {
            Some(Waiter::Call { answer, .. }) => {
                // The caller may have left in this very moment.
                let _ = answer.send(outcome);
            }
            Some(Waiter::Hello(attempt)) => {
                let _ = self.news.send(News::Reply(attempt, id.unwrap_or_default(), into_reply(outcome)));
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
                self.subscriptions.acknowledged(&params);
            }
        } else if !self.subscriptions.expects(params.as_ref()) {
            // SB-03
            tracing::debug!(server = %self.name, %method, "a notification of no open subscription was dropped");
        } else {
            let size = params.as_ref().map_or(0, |params| params.as_bytes().len());
            if size > LARGEST_EVENT {
                tracing::warn!(server = %self.name, %method, size, "a notification is too large and was dropped");
                return;
            }
            // Many may wait for a slow subscriber: none of them may keep more alive than itself. Which
            // subscription it came by is nobody else's business (MT-03).
            let params =
                params.map(|params| subscribe::without_id(&params).unwrap_or_else(|| params.detached()));
            self.outdate(&method, params.as_ref());
            if *method == *method::ELICIT_COMPLETE {
                self.page_completed(params.as_ref());
            }
            self.look_at_change(&method);
            self.tell(Event::Notification(Notification::new(method, params)));
        }
    }

    /// A modern server may end a subscription so, and nothing else (CN-05).
    fn handle_cancelled(&self, params: Option<Json>) {
        let Some(request) = params.and_then(|params| Cancelled::decode(&params).ok()?.request) else {
            return;
        };
        if !self.subscriptions.cancelled(request.as_ours()) {
            self.stop_serving(&request);
        }
    }

    /// No subscriber is no error.
    fn tell(&self, event: Event) {
        self.events.send(event);
    }

    fn handle_progress(&self, params: Option<Json>) {
        let Some(params) = params else { return };
        let Ok(progress) = Progress::decode(&params) else { return };
        let Some(id) = progress.token.as_ours() else { return };
        let listener = {
            let mut core = self.core();
            core.traffic.heard();
            match core.calls.heard(Instant::now(), id) {
                Some(Waiter::Call { progress, .. }) => progress.clone(),
                // PR-03: what was answered with a task goes on.
                _ => self.tokens.progress(id),
            }
        };
        // A listener that panics must not take the connection with it.
        if let Some(listener) = listener
            && catch_unwind(AssertUnwindSafe(|| listener.hear(progress, params))).is_err()
        {
            tracing::error!(server = %self.name, "a progress listener panicked");
        }
    }

    /// The fault of the calls whose link went away.
    fn fail_calls(&self, fault: &Fault) {
        let mut ended = Vec::new();
        {
            let mut core = self.core();
            let ids: Vec<_> = core.calls.ids().collect();
            for id in ids {
                let posting = matches!(core.calls.get(id), Some(Waiter::Call { sent: Sent::Posting, .. }));
                if !posting || fault.cause == Cause::Closed {
                    ended.extend(core.calls.end(id));
                }
            }
        }
        let fault = fault.for_calls_under_way();
        for waiter in ended {
            if let Waiter::Call { answer, sent, .. } = waiter {
                let unsent = sent == Sent::No;
                let fault = if unsent { fault.clone().not_executed() } else { fault.clone() };
                let _ = answer.send(Err(Failure::Fault(fault)));
            }
        }
    }

    fn is_modern(&self) -> bool {
        self.live().is_some_and(|live| live.peer.era() == Era::Modern)
    }
}

impl Live {
    /// Whether two are the same link.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.attempt == other.attempt
    }

    /// Something was answered: the session is more than a promise.
    fn prove(&self) {
        if !self.proven.load(Ordering::Relaxed) {
            self.proven.store(true, Ordering::Relaxed);
        }
    }

    pub(crate) fn note_unlistable(&self) {
        self.unlistable.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_unlistable(&self) -> bool {
        self.unlistable.load(Ordering::Relaxed)
    }

    fn forget(&self) {
        self.forgotten.store(true, Ordering::Relaxed);
    }

    fn is_forgotten(&self) -> bool {
        self.forgotten.load(Ordering::Relaxed)
    }

    fn is_proven(&self) -> bool {
        self.proven.load(Ordering::Relaxed)
    }
}

impl Wire {
    /// Whether requests go out one by one over HTTP, each with an exchange and an end of its own.
    fn is_http(&self) -> bool {
        matches!(self, Self::Http { .. })
    }

    /// Something was not answered: it may be the server, and it may be the network. New connections find out.
    fn distrust(&self) {
        match self {
            Self::Http { link, .. } => link.forget_connections(),
            Self::EventStream { post, .. } => post.forget_connections(),
            Self::Pipe(_) => {}
        }
    }
}

/// A notification that says more than this has no honest reason to; many are kept for slow subscribers.
const LARGEST_EVENT: usize = 128 * 1024;

fn into_reply(outcome: Outcome) -> Reply {
    match outcome {
        Ok(result) => Reply::Result(result),
        Err(Failure::Server(error) | Failure::Declined(error)) => {
            Reply::Error { status: None, error, stray: false }
        }
        Err(Failure::Fault(fault)) => Reply::Fault(fault),
        Err(Failure::Session(refused)) => refused.reply,
        Err(Failure::Left) => Reply::Fault(Fault::before_sending(Cause::Closed)),
        Err(Failure::Usage(what)) => Reply::Fault(Fault::before_sending(Cause::Closed).note(what)),
    }
}

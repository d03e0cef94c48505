//! [`Session`]: what each message of one host means, from its handshake to its last response.
//!
//! It does no I/O and has no clock. The driver passes every message to
//! [`Session::handle_message`], and performs the [`Action`] that it returns. Frames are returned by
//! value: the driver sends them in the order in which it got them, so that a host that does not
//! read holds up those who have something to say to it, and nobody else.
//!
//! ```text
//!                    ┌──── refused ────┐
//!                    ▼                 │  accepted               initialized
//!            ExpectInitialize ─▶ Initializing ─▶ ExpectInitialized ─▶ Ready
//!                    │
//!                    └─ request of 2026-07-28 ─▶ Stateless
//! ```
//!
//! A host of 2026-07-28 often begins with `server/discover`, which decides nothing: a host of both
//! eras may send `initialize` all the same. Any other request of that revision decides that there is
//! no handshake. Where such hosts are not served ([`Session::serve_modern`]), the answer to
//! `server/discover` is that there is no such method, from which a host of both eras learns that it
//! has to send `initialize`.

use std::fmt;

use super::handshake::InitializeParams;
use super::modern::SERVED_REVISIONS;
use super::modern::era::message_era;
use super::modern::methods::refuse_initialize;
use super::modern::request::ModernRequest;
use super::requests::{RequestKey, RequestRefusal, Requests, Turn};
use super::sent_requests::{SendError, SentRequests};
use crate::revision::Era;
use crate::wire::outgoing::{self, Frame};
use crate::wire::{Defect, Id, Json, MalformedMessage, Message, ParseResult, RpcError, code, method};

/// The state of the session with one host. `R` serves a request of the host, `W` waits for the
/// response to a request of ours.
#[derive(Debug)]
pub struct Session<R, W> {
    handshake: HandshakeState,
    /// Whether requests of hosts of 2026-07-28 are served.
    serves_modern: bool,
    requests: Requests<R>,
    sent: SentRequests<W>,
}

/// The number of one `initialize`: a host whose `initialize` was refused may send another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Attempt(u64);

/// The latest attempt at a handshake, and how far it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HandshakeState {
    attempt: Attempt,
    phase: Phase,
}

/// How far one attempt at a handshake is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeStatus {
    /// `initialize` has no response yet.
    Pending,
    /// It was answered with an error, or canceled.
    Refused,
    /// It was answered with a result, and the host has not shown that it received it.
    Accepted,
    /// The host may be sent requests and notifications.
    Ready,
}

/// The phases of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// No `initialize` is open or accepted.
    #[default]
    ExpectInitialize,
    /// The driver works out the result. `is_host_ready` if the host has gone on meanwhile.
    Initializing { is_host_ready: bool },
    /// `initialize` has its result.
    ExpectInitialized,
    /// The handshake is done.
    Ready,
    /// The host speaks 2026-07-28, which has no handshake.
    Stateless,
}

/// What the driver must do for a message of the host.
#[derive(Debug, PartialEq, Eq)]
pub enum Action<R, W> {
    /// Send this to the host.
    Send(Frame),
    /// Work out the result of `initialize`, then accept or refuse the attempt and answer it.
    Initialize {
        /// The request.
        key: RequestKey,
        /// Its id.
        id: Id,
        /// The attempt to accept or refuse.
        attempt: Attempt,
        /// What the host said.
        params: InitializeParams,
    },
    /// Serve a request when its turn has come, and answer it.
    Serve {
        /// The request.
        key: RequestKey,
        /// Its id.
        id: Id,
        /// Its method.
        method: Box<str>,
        /// Its params.
        params: Option<Json>,
    },
    /// Serve a request of a host of 2026-07-28 when its turn has come, and answer it.
    ServeModern {
        /// The request.
        key: RequestKey,
        /// Its id.
        id: Id,
        /// Its method.
        method: Box<str>,
        /// Its params.
        params: Option<Json>,
        /// What its `_meta` says.
        client: Box<ModernRequest>,
    },
    /// Answer that there is no room for the request.
    RefuseFull {
        /// Its id.
        id: Id,
    },
    /// Stop what serves a request that the host has canceled.
    Cancel {
        /// What serves the request.
        task: R,
        /// Why the host has canceled it, if the host says so: at most
        /// [`MAX_CANCEL_REASON_CHARS`] characters.
        reason: Option<String>,
    },
    /// Hand the response of the host to who waits for it.
    Deliver {
        /// Who waits.
        waiter: W,
        /// The result, or the error of the host.
        outcome: Result<Json, RpcError>,
    },
    /// Take note of a notification of the host. Progress has the token that the request had.
    Notify {
        /// Its method.
        method: Box<str>,
        /// Its params.
        params: Option<Json>,
    },
    /// Nothing, for this reason.
    Ignore(IgnoreReason),
}

/// Why a message of the host has no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IgnoreReason {
    /// A request has the id of one that is open, which its response would answer too.
    DuplicateId(Id),
    /// Nobody waits for the response.
    UnknownResponse,
    /// The request that is canceled, or has progress, is not open.
    UnknownRequest,
    /// A notification without a handshake before it, or the notification that ends the handshake.
    Handshake,
    /// A message without an id whose method is not one of notifications. A server may execute it as a request, which
    /// nobody has routed or checked.
    RequestWithoutId,
    /// A malformed message without an id, which may be no request.
    Malformed(Defect),
}

impl fmt::Display for IgnoreReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DuplicateId(value) => return write!(f, "a request with the id {value} is open"),
            Self::UnknownResponse => "a response to no open request",
            Self::UnknownRequest => "no such request is open",
            Self::Handshake => "a notification of the handshake, or before it",
            Self::RequestWithoutId => "a request without an id",
            Self::Malformed(value) => return write!(f, "a malformed message without an id: {value}"),
        })
    }
}

impl std::error::Error for IgnoreReason {}

impl<R, W> Default for Session<R, W> {
    fn default() -> Self {
        Self {
            handshake: HandshakeState::default(),
            serves_modern: false,
            requests: Requests::default(),
            sent: SentRequests::default(),
        }
    }
}

impl<R, W> Session<R, W> {
    /// Serves requests of hosts of 2026-07-28, too.
    pub fn serve_modern(&mut self) {
        self.serves_modern = true;
    }

    /// Takes the next message of the host, and says what to do about it.
    pub fn handle_message(&mut self, message: ParseResult) -> Action<R, W> {
        let is_modern = message.as_ref().is_ok_and(|message| self.is_modern(message));
        match message {
            Ok(Message::Request { id, method, params }) if is_modern => {
                self.handle_modern_request(id, method, params)
            }
            Ok(Message::Request { id, method, params }) => self.handle_request(id, method, params),
            Ok(Message::Notification { method, params }) => self.handle_notification(method, params),
            Ok(Message::Result { id, result }) => self.handle_response(Some(&id), Ok(result)),
            Ok(Message::Error { id, error }) => self.handle_response(id.as_ref(), Err(error)),
            Err(malformed) => self.handle_malformed(&malformed),
        }
    }

    fn handle_request(&mut self, id: Id, method: Box<str>, params: Option<Json>) -> Action<R, W> {
        if self.requests.is_open(&id) {
            return Action::Ignore(IgnoreReason::DuplicateId(id));
        }
        let refusal = match (&*method, self.handshake.phase) {
            // PG-01: answered at once, in any phase.
            (method::PING, _) => {
                return Action::Send(outgoing::response(&id, Ok(&Json::empty_object())));
            }
            (method::DISCOVER, _) => {
                RpcError::new(code::METHOD_NOT_FOUND, "server/discover is not known here: use initialize")
            }
            (method::INITIALIZE, Phase::ExpectInitialize) => {
                return self.begin_handshake(id, params.as_ref());
            }
            (method::INITIALIZE, Phase::Stateless) => {
                refuse_initialize(params.as_ref(), &SERVED_REVISIONS).error
            }
            (method::INITIALIZE, _) => out_of_order("initialize was said before"),
            (_, Phase::ExpectInitialize) => out_of_order("the first request must be initialize"),
            _ => return self.open_request(id, method, params),
        };
        Action::Send(outgoing::response(&id, Err(&refusal)))
    }

    /// Whether a message, if it is a request, is one of 2026-07-28 that is served as such. After `initialize` none is, and
    /// after the first of them every request is.
    // GW-10, DE-12
    fn is_modern(&self, message: &Message) -> bool {
        match self.handshake.phase {
            Phase::ExpectInitialize => self.serves_modern && message_era(message, None) == Era::Modern,
            Phase::Stateless => {
                !matches!(message, Message::Request { method, .. } if **method == *method::INITIALIZE)
            }
            Phase::Initializing { .. } | Phase::ExpectInitialized | Phase::Ready => false,
        }
    }

    fn handle_modern_request(&mut self, id: Id, method: Box<str>, params: Option<Json>) -> Action<R, W> {
        if self.requests.is_open(&id) {
            return Action::Ignore(IgnoreReason::DuplicateId(id));
        }
        let client = match ModernRequest::parse(params.as_ref(), &SERVED_REVISIONS) {
            Ok(client) => Box::new(client),
            Err(refusal) => return Action::Send(refusal.to_frame(Some(&id))),
        };
        let size = params.as_ref().map_or(0, |params| params.as_bytes().len());
        match self.requests.open(&id, size) {
            Ok(key) => {
                if *method != *method::DISCOVER {
                    self.handshake.phase = Phase::Stateless;
                }
                Action::ServeModern { key, id, method, params, client }
            }
            Err(refusal) => refuse(id, refusal),
        }
    }

    fn begin_handshake(&mut self, id: Id, params: Option<&Json>) -> Action<R, W> {
        let key = match self.requests.open(&id, 0) {
            Ok(key) => key,
            Err(refusal) => return refuse(id, refusal),
        };
        let attempt = Attempt(self.handshake.attempt.0 + 1);
        self.handshake = HandshakeState { attempt, phase: Phase::Initializing { is_host_ready: false } };
        Action::Initialize { key, id, attempt, params: InitializeParams::parse(params) }
    }

    fn open_request(&mut self, id: Id, method: Box<str>, params: Option<Json>) -> Action<R, W> {
        let size = params.as_ref().map_or(0, |params| params.as_bytes().len());
        match self.requests.open(&id, size) {
            Ok(key) => {
                // A host that sends a request is ready, whether it said so or not.
                self.handshake.phase = self.handshake.phase.with_host_ready();
                Action::Serve { key, id, method, params }
            }
            Err(refusal) => refuse(id, refusal),
        }
    }

    fn handle_notification(&mut self, method: Box<str>, params: Option<Json>) -> Action<R, W> {
        if !method.starts_with(NOTIFICATION_PREFIX) {
            return Action::Ignore(IgnoreReason::RequestWithoutId);
        }
        if *method == *method::CANCELLED {
            return match self.requests.cancel(params.as_ref()) {
                Some(task) => Action::Cancel { task, reason: cancel_reason(params.as_ref()) },
                None => Action::Ignore(IgnoreReason::UnknownRequest),
            };
        }
        if matches!(self.handshake.phase, Phase::ExpectInitialize | Phase::Stateless) {
            return Action::Ignore(IgnoreReason::Handshake);
        }
        match &*method {
            method::INITIALIZED => {
                self.handshake.phase = self.handshake.phase.with_host_ready();
                Action::Ignore(IgnoreReason::Handshake)
            }
            method::PROGRESS => match params.and_then(|params| self.sent.translate_progress(&params)) {
                Some(params) => Action::Notify { method, params: Some(params) },
                None => Action::Ignore(IgnoreReason::UnknownRequest),
            },
            _ => Action::Notify { method, params },
        }
    }

    fn handle_response(&mut self, id: Option<&Id>, outcome: Result<Json, RpcError>) -> Action<R, W> {
        match self.sent.end(id) {
            Some(waiter) => Action::Deliver { waiter, outcome },
            None => Action::Ignore(IgnoreReason::UnknownResponse),
        }
    }

    // BM-03
    fn handle_malformed(&self, malformed: &MalformedMessage) -> Action<R, W> {
        let error = || malformed.defect.to_error();
        let Some(id) = &malformed.id else {
            return match malformed.defect {
                // The host waits for a response, most likely. Without an id, since MCP has none that is null.
                Defect::InvalidId
                | Defect::TooLong { .. }
                | Defect::NotJson
                | Defect::NotAnObject
                | Defect::TooMany => Action::Send(outgoing::error_without_id(&error())),
                defect => Action::Ignore(IgnoreReason::Malformed(defect)),
            };
        };
        if self.requests.is_open(id) {
            return Action::Ignore(IgnoreReason::DuplicateId(id.clone()));
        }
        Action::Send(outgoing::response(id, Err(&error())))
    }

    /// Opens the request of a host of 2026-07-28, which no handshake precedes. Such a session has no
    /// other request.
    pub fn open_stateless_request(&mut self, id: &Id) -> Result<RequestKey, RequestRefusal> {
        self.requests.open(id, 0)
    }

    /// Where the handshake stands.
    pub fn handshake(&self) -> HandshakeState {
        self.handshake
    }

    /// Accepts an attempt whose result was sent. One that is over is left alone.
    pub fn accept(&mut self, attempt: Attempt) {
        if attempt != self.handshake.attempt {
            return;
        }
        self.handshake.phase = match self.handshake.phase {
            Phase::Initializing { is_host_ready: true } => Phase::Ready,
            Phase::Initializing { is_host_ready: false } => Phase::ExpectInitialized,
            phase => phase,
        };
    }

    /// Refuses an attempt, so that the host may send `initialize` again. One that was accepted is
    /// left alone.
    pub fn refuse(&mut self, attempt: Attempt) {
        if self.handshake.status(attempt) == HandshakeStatus::Pending {
            self.handshake.phase = Phase::ExpectInitialize;
        }
    }

    /// Whether a request of the host may be served. `None` if it has ended.
    pub fn turn(&self, key: RequestKey) -> Option<Turn> {
        self.requests.turn(key)
    }

    /// Sets what serves a request of the host, and returns it if its turn has come.
    pub fn attach(&mut self, key: RequestKey, task: R) -> Option<&mut R> {
        self.requests.attach(key, task)
    }

    /// Answers a request of the host. `None` if it was answered or canceled before.
    pub fn respond(&mut self, key: RequestKey, id: &Id, outcome: Result<&Json, &RpcError>) -> Option<Frame> {
        self.requests.answer(key).then(|| outgoing::response(id, outcome))
    }

    /// Ends a request of the host, answered or not. Returns what serves the next one, whose turn
    /// has come.
    pub fn end_request(&mut self, key: RequestKey) -> Option<&mut R> {
        self.requests.end(key)
    }

    /// Takes the requests of the host that have no response, the oldest first, with whether each may have
    /// been served. They get no further response.
    pub fn take_unanswered(&mut self) -> Vec<(Id, Turn)> {
        self.requests.take_unanswered()
    }

    /// Takes what serves each open request of the host. The requests get no response.
    pub fn cancel_requests(&mut self) -> Vec<R> {
        self.requests.cancel_all()
    }

    /// Sends a request to the host. Returns its id and its frame.
    pub fn send_request(
        &mut self,
        method: &str,
        params: &Json,
        waiter: W,
    ) -> Result<(u64, Frame), SendError> {
        self.sent.begin(method, params, waiter)
    }

    /// Cancels a request of ours that nobody waits for any more. `None` if it has ended.
    pub fn cancel_sent(&mut self, id: u64) -> Option<Frame> {
        self.sent.cancel(id)
    }

    /// Takes who waits for the response to a request of ours that cannot have reached the host.
    pub fn take_sent(&mut self, id: u64) -> Option<W> {
        self.sent.take(id)
    }

    /// Drops who waits for responses of the host, which will not send any.
    pub fn close_sent(&mut self) {
        self.sent.close();
    }
}

/// How the methods of all notifications begin, also of those that MCP does not define.
const NOTIFICATION_PREFIX: &str = "notifications/";
/// The most characters of the reason of a cancellation that are passed on. A log line of a server has to hold them.
pub const MAX_CANCEL_REASON_CHARS: usize = 1_000;

/// The reason in the params of `notifications/cancelled`, cut to [`MAX_CANCEL_REASON_CHARS`].
fn cancel_reason(params: Option<&Json>) -> Option<String> {
    let mut reason = params?.member("reason")?.decode::<String>().ok()?;
    if let Some((end, _)) = reason.char_indices().nth(MAX_CANCEL_REASON_CHARS) {
        reason.truncate(end);
    }
    (!reason.is_empty()).then_some(reason)
}

impl HandshakeState {
    /// How far an attempt is.
    pub fn status(self, attempt: Attempt) -> HandshakeStatus {
        match self.phase {
            _ if attempt != self.attempt => HandshakeStatus::Refused,
            Phase::ExpectInitialize | Phase::Stateless => HandshakeStatus::Refused,
            Phase::Initializing { .. } => HandshakeStatus::Pending,
            Phase::ExpectInitialized => HandshakeStatus::Accepted,
            Phase::Ready => HandshakeStatus::Ready,
        }
    }
}

impl Phase {
    /// The phase after the host has shown that it is ready for messages.
    fn with_host_ready(self) -> Self {
        match self {
            Self::ExpectInitialize | Self::Stateless => self,
            Self::Initializing { .. } => Self::Initializing { is_host_ready: true },
            Self::ExpectInitialized | Self::Ready => Self::Ready,
        }
    }
}

fn refuse<R, W>(id: Id, refusal: RequestRefusal) -> Action<R, W> {
    match refusal {
        RequestRefusal::DuplicateId => Action::Ignore(IgnoreReason::DuplicateId(id)),
        RequestRefusal::Full => Action::RefuseFull { id },
    }
}

/// The error for a message out of sequence.
pub fn out_of_order(message: &str) -> RpcError {
    RpcError::new(code::INVALID_REQUEST, message)
}

#[cfg(test)]
mod tests;

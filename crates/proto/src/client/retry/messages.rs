//! The interface between [`Retry`](super::Retry) and its driver: facts, failures, steps and
//! reports.

use std::time::{Duration, Instant};

use crate::client::keepalive::Probe;
use crate::client::loss::Verdict;
use crate::client::negotiation::Reply;
use crate::fault::Fault;
use crate::wire::{RpcError, method};

/// The facts of a request that the retry decision depends on.
#[derive(Clone, Debug)]
pub struct RequestFacts {
    /// Its method.
    pub method: Box<str>,
    /// Whether running it twice is the same as running it once. `None`: not known yet;
    /// [`Step::CheckHarmless`] finds out.
    pub harmless: Option<bool>,
    /// Whether it makes sense only on the link that it was first sent over.
    pub pinned: bool,
    /// Whether it runs in the background, so that no person is asked to log in for it.
    pub quiet: bool,
    /// Maximum `Retry-After` that is waited for.
    pub max_retry_after: Duration,
}

/// The facts of the link that a request was sent over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts of one link")]
pub struct LinkFacts {
    /// Whether it is Streamable HTTP: each request has its own exchange, and no reader notices that
    /// the server is gone.
    pub http: bool,
    /// Whether the server speaks a modern revision.
    pub modern: bool,
    /// Whether requests name a session, which the server can lose.
    pub session: bool,
    /// Whether requests carry credentials.
    pub credentials: bool,
    /// Whether the driver can obtain better credentials.
    pub can_authorize: bool,
    /// Whether anything was answered on it since the handshake.
    pub proven: bool,
    /// Whether a new session was already tried in vain for refused credentials on it.
    pub challenged: bool,
    /// The method of a list that the server offers, for probes.
    pub list_method: Option<&'static str>,
}

/// How one sending failed.
#[derive(Clone, Debug, PartialEq)]
pub enum SendFailure {
    /// The link was superseded before anything was sent.
    NotSent,
    /// The reply, and its verdict on the session.
    Reply(Verdict, Reply),
}

/// How a request without a result ends.
#[derive(Clone, Debug, PartialEq)]
pub enum FinalFailure {
    /// The server answered with this error.
    ServerError(RpcError),
    /// A fault, with the exact outcome of the call.
    Fault(Fault),
    /// A pinned request was not sent, because its link is gone.
    NotSent,
}

/// What the driver does next, and the method with which it reports the result.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Send the request over the link; on failure
    /// [`Retry::handle_failure`](super::Retry::handle_failure).
    Send,
    /// Send this probe over the link that refused the request; then
    /// [`Retry::handle_probe`](super::Retry::handle_probe).
    Probe(Probe),
    /// Take the next link, once there is one; then [`Retry::handle_link`](super::Retry::handle_link).
    Reconnect,
    /// Find out whether the request is harmless; then
    /// [`Retry::handle_harmless`](super::Retry::handle_harmless).
    CheckHarmless,
    /// Fetch the tool's header annotations again; then
    /// [`Retry::handle_annotations`](super::Retry::handle_annotations).
    // HM-10
    RefetchAnnotations,
    /// Get credentials for this refusal; then [`Retry::handle_login`](super::Retry::handle_login).
    LogIn {
        /// The refusal, with its challenge.
        refused: Fault,
        /// Whether the login must not involve a person.
        quietly: bool,
    },
    /// Wait until then; then [`Retry::handle_timeout`](super::Retry::handle_timeout).
    Wait(Instant),
    /// Report this failure to the caller. There is no further step.
    Finish(FinalFailure),
}

/// What a failed request reveals about its link or session.
#[derive(Clone, Debug, PartialEq)]
pub enum Report {
    /// The server lost the session of the link.
    SessionLost(Fault),
    /// The server cannot be reached over the link.
    LinkLost(Fault),
    /// The server requires a login that cannot be obtained.
    NeedsLogin(Fault),
    /// A newer link exists, so nothing more may be sent over this one.
    LinkSuperseded,
}

impl LinkFacts {
    /// The method of a probe on this link. A modern server has no `ping`, so `server/discover` is
    /// used.
    // LC-14
    pub fn probe_method(&self, probe: Probe) -> &'static str {
        match probe {
            Probe::Ping if self.modern => method::DISCOVER,
            Probe::Ping => method::PING,
            Probe::List(method) => method,
        }
    }
}

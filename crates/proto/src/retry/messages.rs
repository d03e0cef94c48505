//! What the decision is told, and what it says: the words between [`Retry`](super::Retry) and its driver.

use std::time::{Duration, Instant};

use crate::era::Reply;
use crate::fault::Fault;
use crate::keepalive::Probe;
use crate::loss::Verdict;
use crate::wire::{RpcError, method};

/// What does not change about a request.
#[derive(Clone, Debug)]
pub struct Request {
    /// Its method.
    pub method: Box<str>,
    /// Whether to run it twice is to run it once. `None`: not known yet; [`Step::LookUp`] finds out.
    pub harmless: Option<bool>,
    /// It makes sense on the link that it was sent over, and on no other.
    pub pinned: bool,
    /// Nobody has asked for it: no person is brought to a login for it.
    pub quiet: bool,
    /// The longest that a busy server is waited for.
    pub patience: Duration,
}

/// What is known of the link that a request was sent over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts of one link")]
pub struct Link {
    /// Streamable HTTP: each request has an exchange of its own, and nobody else notices that the server is gone.
    pub http: bool,
    /// The server speaks a modern revision.
    pub modern: bool,
    /// Requests name a session, which the server can forget.
    pub session: bool,
    /// Requests carry credentials.
    pub credentials: bool,
    /// There is somebody who can get better credentials.
    pub authorizes: bool,
    /// Something was answered on it since the handshake.
    pub proven: bool,
    /// A new session was tried for refused credentials on it, in vain.
    pub challenged: bool,
    /// A list that the server offers.
    pub list: Option<&'static str>,
}

/// How one sending failed.
#[derive(Clone, Debug, PartialEq)]
pub enum Failure {
    /// The link was left before anything was sent.
    Unsent,
    /// What came back, and what it means for the session.
    Reply(Verdict, Reply),
}

/// How a request ends that has no result.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// With the server's own error.
    Server(RpcError),
    /// With a fault, whose label is exact.
    Fault(Fault),
    /// Its link is gone, nothing was sent, and it was for that link alone.
    Left,
}

/// What the driver does now, and what it reports then.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Send the request over the link; on failure [`Retry::handle_failure`](super::Retry::handle_failure).
    Send,
    /// Ask this on the link that refused the request; then [`Retry::handle_probe`](super::Retry::handle_probe).
    Probe(Probe),
    /// Take the next link, once there is one; then [`Retry::handle_link`](super::Retry::handle_link).
    Reconnect,
    /// Find out whether the request is harmless; then [`Retry::handle_look_up`](super::Retry::handle_look_up).
    LookUp,
    /// HM-10: fetch the tool's annotations; then [`Retry::handle_corrected`](super::Retry::handle_corrected).
    Correct,
    /// Get credentials for this refusal; then [`Retry::handle_login`](super::Retry::handle_login).
    LogIn {
        /// What was refused.
        refused: Fault,
        /// Whether no person may be asked.
        quietly: bool,
    },
    /// Do nothing before then; then [`Retry::handle_timeout`](super::Retry::handle_timeout).
    Wait(Instant),
    /// The end.
    Finish(Outcome),
}

/// What a failure means for others than its caller.
#[derive(Clone, Debug, PartialEq)]
pub enum Report {
    /// The server forgot the session of the link.
    SessionLost(Fault),
    /// The server cannot be reached over the link.
    LinkLost(Fault),
    /// The server wants a login that is not to be had here.
    NeedsLogin(Fault),
    /// The session has moved on, and nothing more is to be sent over the link.
    LinkLeft,
}

impl Link {
    /// The method of a probe on this link. A modern server has no `ping`, and is asked to describe itself (LC-14).
    pub fn probe_method(&self, probe: Probe) -> &'static str {
        match probe {
            Probe::Ping if self.modern => method::DISCOVER,
            Probe::Ping => method::PING,
            Probe::List(method) => method,
        }
    }
}

//! The outcome of one request, and what a failure says about the request, the session or the login.

use bowline_proto::client::loss::Verdict;
use bowline_proto::client::negotiation::Reply;
use bowline_proto::client::retry::{self, FinalFailure};
use bowline_proto::fault::{Cause, Fault};
use bowline_proto::wire::{Json, RpcError, code};

pub(crate) type RequestOutcome = Result<Json, Failure>;

pub(crate) enum Failure {
    Server(RpcError),
    Fault(Fault),
    /// A response that says, or may say, that the session is lost, or that headers were refused.
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
    pub(crate) verdict: Verdict,
    pub(crate) reply: Reply,
}

impl Failure {
    /// The fault of a failure that requires a login.
    pub(crate) fn auth_refusal(&self) -> Option<&Fault> {
        match self {
            Self::Fault(fault) if matches!(fault.cause, Cause::LoginRequired { .. }) => Some(fault),
            Self::Session(refused) => match &refused.reply {
                Reply::Fault(fault) if matches!(fault.cause, Cause::LoginRequired { .. }) => Some(fault),
                _ => None,
            },
            _ => None,
        }
    }

    /// Converts the failure into a session loss, with the server's text as evidence.
    pub(crate) fn into_loss(self) -> Fault {
        match self {
            Self::Session(refused) => retry::session_loss_fault(&retry::failure_from_reply(&refused.reply)),
            Self::Server(error) => retry::session_loss_fault(&FinalFailure::ServerError(error)),
            Self::Fault(fault) => retry::session_loss_fault(&FinalFailure::Fault(fault)),
            Self::Declined(_) | Self::Usage(_) | Self::LinkSuperseded => {
                Fault::before_sending(Cause::SessionLost)
            }
        }
    }

    /// Converts the failure of a negotiation message into its reply.
    pub(crate) fn into_reply(self) -> Reply {
        match self {
            Self::Server(error) | Self::Declined(error) => Reply::Error { status: None, error, stray: false },
            Self::Fault(fault) => Reply::Fault(fault),
            Self::Session(refused) => refused.reply,
            Self::LinkSuperseded => Reply::Fault(Fault::before_sending(Cause::Closed)),
            Self::Usage(what) => Reply::Fault(Fault::before_sending(Cause::Closed).with_note(what)),
        }
    }
}

impl From<FinalFailure> for Failure {
    fn from(outcome: FinalFailure) -> Self {
        match outcome {
            FinalFailure::ServerError(error) => Self::Server(error),
            FinalFailure::Fault(fault) => Self::Fault(fault),
            FinalFailure::NotSent => Self::LinkSuperseded,
        }
    }
}

impl JudgedReply {
    /// Whether the server may have refused the headers of the request: then the status counts.
    pub(crate) fn has_refused_headers(&self) -> bool {
        matches!(&self.reply, Reply::Error { error, .. } if error.code == code::HEADER_MISMATCH)
    }

    /// The failure that the caller sees if the session is alive after all.
    pub(crate) fn into_failure(self) -> Failure {
        retry::failure_from_reply(&self.reply).into()
    }
}

/// The outcome of a call whose table was dropped, which happens only with the whole connection.
pub(crate) fn closed_outcome() -> RequestOutcome {
    Err(Failure::Fault(Fault::new(Cause::Closed)))
}

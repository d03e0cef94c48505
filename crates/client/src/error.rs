//! [`Error`]: why a call failed, and what is known about its outcome.

use std::fmt;
use std::sync::Arc;

use bowline_proto::fault::{Cause, Execution, Fault};
use bowline_proto::wire::{RpcError, ShortenedText};

use crate::report::{CallReport, Outcome};

/// The failure of a call.
///
/// Match on [`Error::kind`]; never on the text. [`Error::outcome`] says how the call ended, and
/// [`Error::execution`] whether the server may have acted on the request.
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    server: Arc<str>,
    method: Box<str>,
    report: Option<CallReport>,
}

/// The kind of a failure, which also says whose fault it is.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The server answered with an error.
    Server(RpcError),
    /// There was no answer: the connection, the process or the protocol failed.
    Fault(Fault),
    /// The server required input for the call, and the host's handler refused it.
    Declined(RpcError),
    /// The task ended without a result.
    Task(TaskEnd),
    /// The server does not offer this feature, so nothing was sent.
    NotOffered(&'static str),
    /// The server refused to notify about something, with the reason.
    NotGranted(String),
    /// The caller made a mistake; nothing was sent.
    Usage(String),
    /// A layer of this side refused the request, for this reason; nothing was sent.
    LayerRefused(String),
    /// The tool says that it failed, in these words. Only [`Call::json`](crate::Call::json) makes
    /// this an error.
    ToolError(String),
    /// The caller canceled the call.
    Cancelled,
}

/// Why a task has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TaskEnd {
    /// It was canceled.
    Cancelled,
    /// The server does not know it (any more): tasks are kept for a limited time, and a restart may
    /// lose them.
    NotFound,
    /// It exceeded its lifetime without any further change.
    Expired,
    /// It was created on a connection of another revision, which handles tasks differently.
    WrongRevision,
}

impl fmt::Display for TaskEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cancelled => "the task was canceled",
            Self::NotFound => "the server does not know the task, or no longer",
            Self::Expired => "the task has outlived its time without a change",
            Self::WrongRevision => "the task belongs to another revision of the protocol than the connection",
        })
    }
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, server: &Arc<str>, method: &str) -> Self {
        Self(Box::new(Inner { kind, server: Arc::clone(server), method: method.into(), report: None }))
    }

    /// The kind of the failure.
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// The name of the server.
    pub fn server(&self) -> &str {
        &self.0.server
    }

    /// The method that was called.
    pub fn method(&self) -> &str {
        &self.0.method
    }

    /// The fault, if there was no answer.
    pub fn fault(&self) -> Option<&Fault> {
        match &self.0.kind {
            ErrorKind::Fault(fault) => Some(fault),
            _ => None,
        }
    }

    /// The server's own error, if it answered with one.
    pub fn server_error(&self) -> Option<&RpcError> {
        match &self.0.kind {
            ErrorKind::Server(error) => Some(error),
            _ => None,
        }
    }

    /// Whether a time limit ran out before the server answered. A call that kept failing until its
    /// time was over has the last failure as its cause.
    pub fn is_timeout(&self) -> bool {
        self.fault().is_some_and(|fault| matches!(fault.cause, Cause::Timeout(_)))
    }

    /// Whether the server could not be reached, or was lost before it answered: a 502 or 503 of a
    /// proxy and a lost session count. A server that answered with an error of its own, or broke the
    /// protocol, was reached.
    pub fn is_unreachable(&self) -> bool {
        self.fault().is_some_and(Fault::is_unreachable)
    }

    /// Whether credentials are the cause: the server requires a login, or the stored one could be
    /// neither refreshed nor read.
    pub fn is_auth(&self) -> bool {
        self.fault().is_some_and(|fault| {
            matches!(
                fault.cause,
                Cause::LoginRequired { .. } | Cause::LoginUnavailable | Cause::StoreUnavailable
            )
        })
    }

    /// What happened to the call. `None` if it failed before it began, such as for arguments that
    /// are no object.
    pub fn report(&self) -> Option<&CallReport> {
        self.0.report.as_ref()
    }

    /// How the call ended. Never [`Outcome::Done`].
    pub fn outcome(&self) -> Outcome {
        match &self.0.kind {
            ErrorKind::Server(_) | ErrorKind::NotGranted(_) => Outcome::Refused,
            ErrorKind::Declined(_) | ErrorKind::LayerRefused(_) => Outcome::Declined,
            ErrorKind::ToolError(_) => Outcome::ToolError,
            ErrorKind::Cancelled => Outcome::Abandoned,
            ErrorKind::Fault(_) | ErrorKind::Task(_) | ErrorKind::NotOffered(_) | ErrorKind::Usage(_) => {
                Outcome::Failed(self.execution())
            }
        }
    }

    /// Adds the report of the call, in place of that of a request within it.
    pub(crate) fn with_report(mut self, report: CallReport) -> Self {
        self.0.report = Some(report);
        self
    }

    /// Whether the server may have acted on the request.
    ///
    /// An error response counts as unknown: the request may have failed half-way.
    pub fn execution(&self) -> Execution {
        match &self.0.kind {
            ErrorKind::Server(_) | ErrorKind::Declined(_) | ErrorKind::Task(_) | ErrorKind::ToolError(_) => {
                Execution::Unknown
            }
            ErrorKind::Cancelled => match &self.0.report {
                Some(CallReport { attempts: 0, .. }) => Execution::NotExecuted,
                _ => Execution::Unknown,
            },
            ErrorKind::Fault(fault) => fault.execution,
            ErrorKind::NotOffered(_)
            | ErrorKind::NotGranted(_)
            | ErrorKind::Usage(_)
            | ErrorKind::LayerRefused(_) => Execution::NotExecuted,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { kind, server, method, .. } = &*self.0;
        match kind {
            ErrorKind::Server(error) => write!(f, "{server}: {method}: {error}"),
            ErrorKind::Fault(fault) => {
                write!(f, "{server}: {method}: {fault}")?;
                match fault.execution {
                    Execution::NotExecuted => f.write_str(" (not executed)"),
                    Execution::Unknown => f.write_str(" (outcome unknown)"),
                }
            }
            ErrorKind::Declined(error) => write!(f, "{server}: {method}: the host declined: {error}"),
            ErrorKind::Task(end) => write!(f, "{server}: {method}: {end}"),
            ErrorKind::LayerRefused(reason) => {
                write!(f, "{server}: {method}: refused by this side: {reason}")
            }
            ErrorKind::ToolError(text) => {
                write!(f, "{server}: {method}: the tool failed: {}", ShortenedText(text))
            }
            ErrorKind::Cancelled => write!(f, "{server}: {method}: the call was canceled"),
            ErrorKind::NotOffered(what) => write!(f, "{server}: {method}: the server offers no {what}"),
            ErrorKind::Usage(what) | ErrorKind::NotGranted(what) => write!(f, "{server}: {method}: {what}"),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("server", &self.0.server)
            .field("method", &self.0.method)
            .field("kind", &self.0.kind)
            .finish()
    }
}

/// The source is the fault or the JSON-RPC error, with all that is known about it. The message of
/// the error already names the cause, so a program that prints one of them loses nothing.
impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0.kind {
            ErrorKind::Fault(fault) => Some(fault),
            ErrorKind::Server(error) | ErrorKind::Declined(error) => Some(error),
            ErrorKind::Task(_)
            | ErrorKind::NotOffered(_)
            | ErrorKind::NotGranted(_)
            | ErrorKind::Usage(_)
            | ErrorKind::LayerRefused(_)
            | ErrorKind::ToolError(_)
            | ErrorKind::Cancelled => None,
        }
    }
}

/// The result of a call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use bowline_proto::fault::Limit;

    use super::*;

    fn error(kind: ErrorKind) -> Error {
        Error::new(kind, &Arc::from("docs"), "tools/call")
    }

    /// What a server says is part of the message, however long it is; the whole is in the kind.
    #[test]
    fn text_of_servers_is_shortened() {
        let said = "ü".repeat(5_000_000);
        let shown = format!("docs: tools/call: {}… (code -32000)", "ü".repeat(2_000));
        assert_eq!(error(ErrorKind::Server(RpcError::new(-32000, &*said))).to_string(), shown);
        let shown = format!("docs: tools/call: the tool failed: {}…", "ü".repeat(2_000));
        assert_eq!(error(ErrorKind::ToolError(said)).to_string(), shown);
    }

    /// For each cause, exactly the questions that it answers are true.
    #[test]
    fn causes_are_told_apart() {
        let answers = |cause: Cause| {
            let error = error(ErrorKind::Fault(Fault::new(cause)));
            (error.is_timeout(), error.is_unreachable(), error.is_auth())
        };
        assert_eq!(answers(Cause::Timeout(Limit::Idle)), (true, false, false));
        assert_eq!(answers(Cause::Timeout(Limit::Total)), (true, false, false));
        assert_eq!(answers(Cause::Timeout(Limit::Connect)), (true, true, false));
        assert_eq!(answers(Cause::Refused), (false, true, false));
        assert_eq!(answers(Cause::SessionLost), (false, true, false));
        assert_eq!(answers(Cause::LoginRequired { code: 401, challenge: vec![] }), (false, false, true));
        assert_eq!(answers(Cause::LoginUnavailable), (false, false, true));
        assert_eq!(answers(Cause::StoreUnavailable), (false, false, true));
        assert_eq!(answers(Cause::Closed), (false, false, false));
        let server =
            error(ErrorKind::Server(RpcError { code: -32000, message: "no rope".into(), data: None }));
        assert_eq!((server.is_timeout(), server.is_unreachable(), server.is_auth()), (false, false, false));
    }

    /// The message names the cause, and the source is the fault or the server's error itself.
    #[test]
    fn message_and_source_name_the_cause() {
        let fault = Fault::before_sending(Cause::Refused);
        let failed = error(ErrorKind::Fault(fault.clone()));
        assert_eq!(failed.to_string(), "docs: tools/call: connection refused (not executed)");
        assert_eq!(failed.source().and_then(|source| source.downcast_ref::<Fault>()), Some(&fault));
        let answer = RpcError { code: -32000, message: "no rope".into(), data: None };
        for kind in [ErrorKind::Server(answer.clone()), ErrorKind::Declined(answer.clone())] {
            let refused = error(kind);
            assert!(refused.to_string().contains("no rope"), "{refused}");
            assert_eq!(refused.source().and_then(|source| source.downcast_ref()), Some(&answer));
        }
        assert!(error(ErrorKind::NotOffered("tools")).source().is_none());
    }
}

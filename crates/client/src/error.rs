//! [`Error`]: why a call failed, and what is known about its outcome.

use std::fmt;
use std::sync::Arc;

use bowline_proto::fault::{Execution, Fault};
use bowline_proto::wire::RpcError;

/// The failure of a call.
///
/// Match on [`Error::kind`]; never on the text. [`Error::execution`] says whether the server may have
/// acted on the request.
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    server: Arc<str>,
    method: Box<str>,
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
        Self(Box::new(Inner { kind, server: Arc::clone(server), method: method.into() }))
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

    /// Whether the server may have acted on the request.
    ///
    /// An error response counts as unknown: the request may have failed half-way.
    pub fn execution(&self) -> Execution {
        match &self.0.kind {
            ErrorKind::Server(_) | ErrorKind::Declined(_) | ErrorKind::Task(_) => Execution::Unknown,
            ErrorKind::Fault(fault) => fault.execution,
            ErrorKind::NotOffered(_) | ErrorKind::NotGranted(_) | ErrorKind::Usage(_) => {
                Execution::NotExecuted
            }
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { kind, server, method } = &*self.0;
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

impl std::error::Error for Error {}

/// The result of a call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

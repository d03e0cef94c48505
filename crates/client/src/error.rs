//! [`Error`]: how a call ended if it did not end well, and what is known about it.

use std::fmt;
use std::sync::Arc;

use bowline_proto::fault::{Execution, Fault};
use bowline_proto::wire::RpcError;

/// A call that did not end well.
///
/// Match on [`Error::kind`]; never on the text. [`Error::execution`] says whether the server can have
/// acted on the request.
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    server: Arc<str>,
    method: Box<str>,
}

/// What kind of failure it was, and whose.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The server answered with an error.
    Server(RpcError),
    /// No answer came: the connection, the process or the protocol failed.
    Fault(Fault),
    /// The server wanted input for the call, and the host's own handler refused it.
    Declined(RpcError),
    /// The task has no result to give.
    Task(TaskEnd),
    /// The server does not offer this; it was not asked.
    NotOffered(&'static str),
    /// The server was asked to tell of something, and will not. Why.
    NotGranted(String),
    /// The caller's mistake: nothing was sent.
    Usage(String),
}

/// Why a task has no result to give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TaskEnd {
    /// It was cancelled.
    Cancelled,
    /// The server does not know it, or no longer: it is kept for a time only, and a server that was started
    /// again may have lost it.
    Gone,
    /// It was there for longer than it should be, and nothing changed any more.
    Expired,
    /// It was made on a connection of another revision, which does not know it.
    Foreign,
}

impl fmt::Display for TaskEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cancelled => "the task was cancelled",
            Self::Gone => "the server does not know the task, or no longer",
            Self::Expired => "the task has outlived its time without a change",
            Self::Foreign => "the task belongs to another revision of the protocol than the connection",
        })
    }
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, server: &Arc<str>, method: &str) -> Self {
        Self(Box::new(Inner { kind, server: Arc::clone(server), method: method.into() }))
    }

    /// What kind of failure it was.
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

    /// The fault, if no answer came.
    pub fn fault(&self) -> Option<&Fault> {
        match &self.0.kind {
            ErrorKind::Fault(fault) => Some(fault),
            _ => None,
        }
    }

    /// The server's own error, if that is what came.
    pub fn server_error(&self) -> Option<&RpcError> {
        match &self.0.kind {
            ErrorKind::Server(error) => Some(error),
            _ => None,
        }
    }

    /// Whether the server can have acted on the request.
    ///
    /// An error that the server answered with counts as unknown: it may have failed half-way.
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

//! The messages between the two processes of a soak: one JSON object per line.
//!
//! The parent writes a [`Plan`] and then [`Order`]s to the standard input of the client process,
//! and reads [`Message`]s from its standard output. Both are the same program, so the format has no
//! version.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bowline::{Cause, Error, ErrorKind, Execution, Limit};
use serde::{Deserialize, Serialize};

/// Everything that the client process needs to know. The first line it reads.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) worlds: Vec<WorldPlan>,
    /// Prints each failed call to stderr as it happens.
    pub(crate) verbose: bool,
}

/// One server and its endpoint.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct WorldPlan {
    /// Index into [`KINDS`](crate::world::KINDS).
    pub(crate) kind: usize,
    pub(crate) seed: u64,
    pub(crate) endpoint: Endpoint,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Endpoint {
    Http { url: String },
    Sse { url: String },
    Stdio { program: String, args: Vec<String>, env: Vec<(String, String)> },
}

/// A command to the client process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Make calls for this long, then send [`Message::Loaded`].
    Load { millis: u64 },
    /// Check that each client can still call, close all of them, then send [`Message::Closed`].
    Close,
    /// End the process.
    Exit,
}

/// A report of the client process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Message {
    /// All clients are connected.
    Ready,
    Call(CallRecord),
    Memory(MemorySample),
    /// The load is over and no call is in flight.
    Loaded,
    /// A violation that is not the outcome of one call.
    Violation {
        world: usize,
        text: String,
    },
    /// Recovery counts from the health of one world's clients.
    Health {
        world: usize,
        recoveries: u64,
        sessions_lost: u64,
    },
    /// All clients are closed; the footprint of the process before the load and now.
    Closed {
        before: Footprint,
        after: Footprint,
    },
}

/// One call and its outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CallRecord {
    /// Index into [`Plan::worlds`].
    pub(crate) world: usize,
    pub(crate) tool: Tool,
    /// For [`Tool::Act`], the number that the server is sent too, unique within the world.
    pub(crate) number: u64,
    pub(crate) begin: Micros,
    pub(crate) end: Micros,
    pub(crate) outcome: Outcome,
}

/// The kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Tool {
    /// Must not run twice.
    Act,
    /// Idempotent.
    Put,
    /// Reads only.
    Look,
    /// `tools/list`, with the limits of the server entry.
    List,
}

/// The outcome that a caller was given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Outcome {
    Succeeded,
    /// A success whose content belongs to another call.
    WrongAnswer(String),
    Failed(Failure),
    /// The caller dropped the call.
    Left,
    /// Neither a result nor an error came, long after the call's limits.
    Hung,
}

/// An error as the client reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failure {
    pub(crate) label: Label,
    /// The kind of failure in one or two words, equal for all failures of that kind.
    pub(crate) kind: String,
    /// Which limit of the call ran out, if the error says that one did.
    pub(crate) limit: Option<CallLimit>,
    /// The whole error, for a person.
    pub(crate) text: String,
}

/// What the error says about execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Label {
    NotExecuted,
    Unknown,
}

/// A limit of the call itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum CallLimit {
    Idle,
    Total,
}

/// Memory of the client process at one moment, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MemorySample {
    pub(crate) at: Micros,
    /// Bytes that the program has allocated and not freed.
    pub(crate) heap: u64,
    /// Resident memory. `None` if the system cannot tell. Private memory would say less: each
    /// process start shares all of it for a moment.
    pub(crate) resident: Option<u64>,
}

/// Resources that must be the same after the load as before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Footprint {
    /// Open file descriptors. `None` if the system cannot tell.
    pub(crate) files: Option<usize>,
    /// Child processes, including zombies.
    pub(crate) children: Option<usize>,
    /// Tasks of the clients' runtime.
    pub(crate) tasks: usize,
}

/// Microseconds since the Unix epoch: the one clock that two processes share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Micros(pub(crate) u64);

impl Micros {
    pub(crate) fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
    }

    pub(crate) fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }

    pub(crate) fn plus(self, later: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(later.as_micros()).unwrap_or(u64::MAX)))
    }
}

impl CallRecord {
    pub(crate) fn took(&self) -> Duration {
        self.end.since(self.begin)
    }
}

impl Tool {
    /// Whether running it twice is the same as running it once, so that it may be retried.
    pub(crate) fn is_harmless(self) -> bool {
        match self {
            Self::Act => false,
            Self::Put | Self::Look | Self::List => true,
        }
    }

    /// Returns the name under which the server offers it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Act => "act",
            Self::Put => "put",
            Self::Look => "look",
            Self::List => "tools/list",
        }
    }
}

impl Label {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::NotExecuted => "not_executed",
            Self::Unknown => "unknown",
        }
    }
}

impl From<&Error> for Failure {
    fn from(error: &Error) -> Self {
        let (kind, limit) = match error.kind() {
            ErrorKind::Server(error) => (format!("server error {}", error.code), None),
            ErrorKind::Fault(fault) => match &fault.cause {
                Cause::Timeout(Limit::Idle) => ("timeout idle".to_owned(), Some(CallLimit::Idle)),
                Cause::Timeout(Limit::Total) => ("timeout total".to_owned(), Some(CallLimit::Total)),
                Cause::Timeout(Limit::Connect) => ("timeout connect".to_owned(), None),
                Cause::Status { code, .. } => (format!("status {code}"), None),
                Cause::Protocol(misbehavior) => (misbehavior.to_string(), None),
                cause => (cause.kind().to_owned(), None),
            },
            other => (format!("{other:?}"), None),
        };
        let label = match error.execution() {
            Execution::NotExecuted => Label::NotExecuted,
            Execution::Unknown => Label::Unknown,
        };
        Self { label, kind, limit, text: error.to_string() }
    }
}

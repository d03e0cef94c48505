//! The types in which [`EventStreams`](super::EventStreams) is told what happens, and answers.

use std::fmt;

use bytes::Bytes;

use super::EventId;

/// The number of a stream within its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub(super) u64);

impl StreamId {
    /// The stream for messages that belong to no request of the host.
    pub const STANDALONE: Self = Self(0);

    /// No stream: what is sent onto it is discarded.
    pub const NONE: Self = Self(u64::MAX);

    /// The number of a stream, as [`StreamId::to_u64`] gave it.
    pub fn from_u64(number: u64) -> Self {
        Self(number)
    }

    /// The number, to be recorded.
    pub fn to_u64(self) -> u64 {
        self.0
    }
}

/// One reader of one stream. A later reader of the same stream replaces it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reader {
    pub(super) stream: StreamId,
    pub(super) key: u64,
}

impl Reader {
    /// The stream that it reads.
    pub fn stream(self) -> StreamId {
        self.stream
    }
}

/// A message on its way to the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The message as JSON text.
    pub data: Bytes,
    /// What kind of message it is.
    pub kind: EventKind,
}

/// The kinds of messages, as far as streams treat them differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// A notification, which nobody misses for long.
    Notification,
    /// A request of ours with this id, to whose response somebody waits.
    Request(u64),
    /// The response to a request of the host.
    Response,
    /// An error for a request of the host whose id cannot be used.
    Refusal,
}

impl EventKind {
    /// Whether it ends a request of the host.
    pub fn is_response(self) -> bool {
        matches!(self, Self::Response | Self::Refusal)
    }
}

/// The formats in which the host accepts the answer to a POST.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostFormat {
    /// As an event stream, or as JSON if nothing comes before the only response.
    Any,
    /// As JSON only, so that other messages have to use the standalone stream.
    JsonOnly,
}

/// What became of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushOutcome {
    /// It will be read, or is in the log.
    Stored,
    /// The reader of this stream is slow: wait until there is room.
    Full(StreamId),
    /// Nobody can read it.
    Discarded,
}

/// How a request of the host ended without a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestEnd {
    /// The host has canceled it.
    Canceled,
    /// Whoever served it has dropped it.
    Dropped,
}

/// What a POST says first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FirstEvents {
    /// It is not known yet.
    Wait,
    /// These responses and nothing else. The stream has ended.
    Responses(Vec<Event>),
    /// These responses and nothing else. Other requests of the POST ended without one, and not all of them because the
    /// host canceled them. The stream has ended.
    PartialResponses(Vec<Event>),
    /// It must be an event stream.
    Stream,
    /// Nothing: its requests ended without a response.
    Ended(RequestEnd),
}

/// What a reader gets next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextEvent {
    /// Nothing yet.
    Wait,
    /// An event.
    Event {
        /// Its id.
        id: EventId,
        /// The message as JSON text.
        data: Bytes,
    },
    /// The stream has ended, or has another reader.
    End,
}

/// The bounds of the log of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogLimits {
    /// How many events it keeps.
    pub events: usize,
    /// How many bytes of messages it keeps.
    pub bytes: usize,
}

/// Why a stream cannot be resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResumeError {
    /// No such event was sent in this session, or its stream is forgotten.
    UnknownEvent,
    /// Events after it were dropped from the log.
    TooOld,
}

impl fmt::Display for ResumeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnknownEvent => "no such event is known in this session",
            Self::TooOld => "events after this one are no longer kept",
        })
    }
}

impl std::error::Error for ResumeError {}

/// Whether a host reads a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readability {
    /// It does.
    Read,
    /// It does not at the moment, and may come back.
    Resumable,
    /// It does not, and cannot come back.
    Never,
}

//! Restores the streams of a session that another process has begun.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::stream::{EventStream, PostStream};
use super::types::{Event, EventKind, LogLimits, PostFormat, StreamId};
use super::{EventStreams, PushOutcome};

/// The stream of a POST, as far as it was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoredStream {
    /// The number of the stream.
    pub stream: StreamId,
    /// How many requests of it have no response.
    pub unanswered: usize,
    /// The responses to the others.
    pub responses: Vec<Bytes>,
}

impl<W> EventStreams<W> {
    /// Restores the streams of a session. Numbers of new streams and events begin at `base`, which
    /// must be greater than every number that the host was given.
    ///
    /// The host may resume each stream from whatever event it has seen last. It gets all responses
    /// that it may not have seen, and what is sent from now on. The log has room for all of these
    /// responses, also if they are larger than `limits` allow: they were recorded so that the host gets
    /// them.
    pub fn restore(limits: LogLimits, base: u64, posts: impl IntoIterator<Item = RestoredStream>) -> Self {
        let posts: Vec<_> = posts.into_iter().collect();
        let recorded = posts.iter().flat_map(|post| &post.responses).map(Bytes::len).sum();
        let mut streams = Self::new(LogLimits { bytes: limits.bytes.max(recorded), ..limits });
        streams.next_stream = base;
        streams.streams = BTreeMap::from([(StreamId::STANDALONE, EventStream::beginning_at(base, None))]);
        for RestoredStream { stream, unanswered, responses } in posts {
            let requests = unanswered + responses.len();
            let post = PostStream {
                format: PostFormat::Any,
                requests,
                unanswered: requests,
                has_dropped: false,
                is_stream: true,
            };
            streams.streams.insert(stream, EventStream::beginning_at(base, Some(post)));
            for data in responses {
                let outcome = streams.push(stream, &Event { data, kind: EventKind::Response });
                debug_assert_eq!(outcome, PushOutcome::Stored, "a stream without a reader has room");
            }
        }
        streams
    }
}

impl<W> EventStream<W> {
    /// A stream whose events so far are not here, and which the host knows.
    pub(super) fn beginning_at(number: u64, post: Option<PostStream>) -> Self {
        let mut stream = Self::new(post);
        (stream.first, stream.begins_at, stream.logged) = (number, number, number);
        (stream.cursor, stream.taken) = (number, number);
        stream.is_known = true;
        stream
    }
}

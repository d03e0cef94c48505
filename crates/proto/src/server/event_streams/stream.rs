//! [`EventStream`]: one stream, its events and its reader.

use std::collections::VecDeque;

use super::types::{Event, PostFormat};

/// One stream.
#[derive(Debug)]
pub(super) struct EventStream<W> {
    /// The events that are kept; the first one has the number `first`.
    pub(super) events: VecDeque<Event>,
    pub(super) first: u64,
    /// The number of the first event that this process could have. An earlier process had those before.
    pub(super) begins_at: u64,
    /// Events below this number are in the log.
    pub(super) logged: u64,
    /// Bytes of the events that are not in the log.
    pub(super) unread_bytes: usize,
    /// The number of the next event for the reader.
    pub(super) cursor: u64,
    /// Events below this number were taken by some reader.
    pub(super) taken: u64,
    pub(super) reader: Option<CurrentReader<W>>,
    /// Whether the host was given an event id, without which it cannot resume the stream.
    pub(super) is_known: bool,
    pub(super) post: Option<PostStream>,
}

/// The reader that was not replaced, and what wakes it.
#[derive(Debug)]
pub(super) struct CurrentReader<W> {
    pub(super) key: u64,
    pub(super) waiter: Option<W>,
}

/// What the stream of a POST has in addition.
#[derive(Debug)]
pub(super) struct PostStream {
    pub(super) format: PostFormat,
    /// How many requests the POST had.
    pub(super) requests: usize,
    /// How many of them have neither a response nor ended without one.
    pub(super) unanswered: usize,
    /// Whether one ended without a response although the host did not cancel it.
    pub(super) has_dropped: bool,
    /// Whether it is answered with a stream, whatever it says first.
    pub(super) is_stream: bool,
}

/// How many events, and bytes of events, may wait for the reader of one stream. A single event may
/// be larger.
pub const MAX_UNREAD_EVENTS: usize = 256;
/// See [`MAX_UNREAD_EVENTS`]: 256 KiB.
pub const MAX_UNREAD_BYTES: usize = 256 * 1024;

impl<W> EventStream<W> {
    pub(super) fn new(post: Option<PostStream>) -> Self {
        Self {
            events: VecDeque::new(),
            first: 1,
            begins_at: 1,
            logged: 1,
            unread_bytes: 0,
            cursor: 1,
            taken: 1,
            reader: None,
            is_known: false,
            post,
        }
    }

    /// The number that the next event will have.
    pub(super) fn next_number(&self) -> u64 {
        self.first + self.events.len() as u64
    }

    /// Whether another event fits, or need not fit because nobody reads slowly.
    pub(super) fn has_room(&self, event: &Event) -> bool {
        let unread = usize::try_from(self.next_number() - self.logged).unwrap_or(usize::MAX);
        let collects = self.post.as_ref().is_some_and(|post| post.format == PostFormat::JsonOnly);
        // One event always fits, whatever its size. A POST that collects its responses takes none of
        // them before it has all; their number is that of its requests.
        self.reader.is_none()
            || collects
            || unread == 0
            || (unread < MAX_UNREAD_EVENTS && self.unread_bytes + event.data.len() <= MAX_UNREAD_BYTES)
    }

    /// Whether it is the stream of a POST whose requests have all ended.
    pub(super) fn is_answered(&self) -> bool {
        self.post.as_ref().is_some_and(|post| post.unanswered == 0)
    }

    /// Whether it has no reader and cannot have one again.
    pub(super) fn is_unreachable(&self) -> bool {
        self.post.is_some() && self.reader.is_none() && !self.is_known
    }

    pub(super) fn wait(&mut self, waiter: impl FnOnce() -> W) {
        if let Some(reader) = &mut self.reader {
            reader.waiter = Some(waiter());
        }
    }
}

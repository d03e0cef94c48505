//! [`EventStreams`]: the event streams of one HTTP session, and the log from which a host resumes
//! them.
//!
//! Each message is an event of exactly one stream. The standalone stream carries what belongs to no
//! request of the host; each POST with requests has a stream of its own, which ends with the last
//! response. A stream has at most one reader at a time, and exists without one while its
//! connection is broken.
//!
//! Events that the reader has not taken yet are bounded per stream: senders wait. Events that it has
//! taken, and those of a stream without a reader, are in the log, which is bounded for the whole
//! session: the oldest are dropped. So a host that does not read holds up its senders, and a host
//! that is not connected holds up nobody.

mod event_id;
mod log;
mod restore;
mod stream;
mod trimmed;
mod types;

use std::collections::{BTreeMap, VecDeque};

pub use event_id::EventId;
pub use restore::RestoredStream;
use stream::{CurrentReader, EventStream, PostStream};
pub use stream::{MAX_UNREAD_BYTES, MAX_UNREAD_EVENTS};
pub use trimmed::MissingResponse;
use trimmed::TrimmedResponses;
pub use types::{
    Event, EventKind, FirstEvents, LogLimits, NextEvent, PostFormat, PushOutcome, Readability, Reader,
    RequestEnd, ResumeError, StreamId,
};

/// The streams of one session. `W` wakes a reader that waits for an event.
///
/// After each call, the driver takes what it has to do from [`poll_wakeup`](Self::poll_wakeup),
/// [`poll_lost_request`](Self::poll_lost_request) and
/// [`poll_freed_room`](Self::poll_freed_room).
#[derive(Debug)]
pub struct EventStreams<W> {
    streams: BTreeMap<StreamId, EventStream<W>>,
    next_stream: u64,
    next_reader: u64,
    /// The stream of each event in the log, oldest first.
    log: VecDeque<StreamId>,
    logged_bytes: usize,
    /// Responses that were dropped from the log.
    trimmed: TrimmedResponses,
    limits: LogLimits,
    is_closed: bool,
    wakeups: Vec<W>,
    lost_requests: Vec<u64>,
    has_freed_room: bool,
}

impl<W> EventStreams<W> {
    /// Creates the streams of a session: only the standalone one.
    pub fn new(limits: LogLimits) -> Self {
        Self {
            streams: BTreeMap::from([(StreamId::STANDALONE, EventStream::new(None))]),
            next_stream: 1,
            next_reader: 0,
            log: VecDeque::new(),
            logged_bytes: 0,
            trimmed: TrimmedResponses::default(),
            limits,
            is_closed: false,
            wakeups: Vec::new(),
            lost_requests: Vec::new(),
            has_freed_room: false,
        }
    }

    /// Opens the stream of a POST with this many requests, and returns its reader.
    pub fn open_post(&mut self, requests: usize, format: PostFormat) -> Reader {
        let id = StreamId(self.next_stream);
        self.next_stream += 1;
        let post =
            PostStream { format, requests, unanswered: requests, has_dropped: false, is_stream: false };
        self.streams.insert(id, EventStream::new(Some(post)));
        self.attach(id)
    }

    /// Makes the caller the reader of the standalone stream, from the first event on that no other
    /// reader has taken.
    pub fn open_standalone(&mut self) -> Reader {
        self.attach(StreamId::STANDALONE)
    }

    /// Makes the caller the reader of a stream, from the event after `last` on.
    // HL-07
    pub fn resume(&mut self, last: EventId) -> Result<Reader, ResumeError> {
        let stream = self.streams.get_mut(&last.stream).ok_or(ResumeError::UnknownEvent)?;
        if last.number >= stream.next_number() {
            return Err(ResumeError::UnknownEvent);
        }
        // What was sent before the session was restored and is not here was no response.
        let next = (last.number + 1).max(stream.begins_at);
        if next < stream.first {
            return Err(ResumeError::TooOld);
        }
        stream.cursor = next;
        Ok(self.attach(last.stream))
    }

    /// Adds an event to the stream to which its message belongs, or to the standalone stream if it
    /// belongs to none.
    ///
    /// A message of a stream that the host cannot read any more is discarded, except for a request
    /// of ours: it moves to the standalone stream, since somebody waits for its response.
    pub fn push(&mut self, stream: StreamId, event: &Event) -> PushOutcome {
        if self.is_closed {
            return PushOutcome::Discarded;
        }
        let Some(target) = self.route(stream, event.kind) else {
            self.count_response(stream, event.kind);
            return PushOutcome::Discarded;
        };
        let Some(state) = self.streams.get_mut(&target) else { return PushOutcome::Discarded };
        if !state.has_room(event) {
            return PushOutcome::Full(target);
        }
        state.unread_bytes += event.data.len();
        state.events.push_back(event.clone());
        match &mut state.reader {
            Some(reader) => self.wakeups.extend(reader.waiter.take()),
            None => self.log_events(target),
        }
        self.count_response(stream, event.kind);
        PushOutcome::Stored
    }

    /// Whether the stream is that of an open POST which may be answered with an event stream.
    pub fn accepts_stream(&self, stream: StreamId) -> bool {
        let post = self.streams.get(&stream).and_then(|state| state.post.as_ref());
        post.is_some_and(|post| post.format == PostFormat::Any)
    }

    /// Whether the host knows an event of this stream, or gets one before the next event, so that it can
    /// resume the stream.
    pub fn is_resumable(&self, stream: StreamId) -> bool {
        let is_stream = |state: &EventStream<W>| state.post.as_ref().is_some_and(|post| post.is_stream);
        let state = self.streams.get(&stream);
        state.is_some_and(|state| state.is_known || is_stream(state) || !state.events.is_empty())
    }

    /// Whether a host reads this stream, or can do so again.
    pub fn readability(&self, stream: StreamId) -> Readability {
        match self.streams.get(&stream) {
            Some(state) if state.reader.is_some() => Readability::Read,
            Some(state) if !state.is_unreachable() => Readability::Resumable,
            _ => Readability::Never,
        }
    }

    /// Lets the host resume the stream of a POST from now on: what the POST says first is that it is
    /// a stream. Without effect if it may not be one.
    pub fn begin_stream(&mut self, stream: StreamId) {
        if !self.accepts_stream(stream) {
            return;
        }
        let Some(state) = self.streams.get_mut(&stream) else { return };
        if let Some(post) = &mut state.post {
            post.is_stream = true;
        }
        self.wakeups.extend(state.reader.as_mut().and_then(|reader| reader.waiter.take()));
    }

    /// Ends a request of a POST that has no response.
    pub fn end_request(&mut self, stream: StreamId, end: RequestEnd) {
        if let Some(post) = self.streams.get_mut(&stream).and_then(|state| state.post.as_mut()) {
            post.has_dropped |= end == RequestEnd::Dropped;
            post.unanswered = post.unanswered.saturating_sub(1);
        }
        self.finish_if_over(stream);
    }

    /// What a POST says first, which decides its format. `waiter` wakes the caller when it can be
    /// decided.
    pub fn first(&mut self, reader: Reader, waiter: impl FnOnce() -> W) -> FirstEvents {
        let is_closed = self.is_closed;
        let Some(state) = self.current(reader) else { return FirstEvents::Ended(RequestEnd::Dropped) };
        let Some(post) = &state.post else { return FirstEvents::Stream };
        let is_over = post.unanswered == 0 || is_closed;
        let has_all = match post.format {
            PostFormat::Any if post.requests > 1 || post.is_stream => return FirstEvents::Stream,
            PostFormat::Any => match state.events.front().map(|event| event.kind) {
                Some(kind) if kind.is_response() => true,
                Some(_) => return FirstEvents::Stream,
                None => false,
            },
            PostFormat::JsonOnly => is_over && !state.events.is_empty(),
        };
        if !has_all && !is_over {
            state.wait(waiter);
            return FirstEvents::Wait;
        }
        let end = if post.has_dropped || is_closed { RequestEnd::Dropped } else { RequestEnd::Canceled };
        let has_dropped = post.has_dropped || post.unanswered > 0;
        let removed = self.remove(reader.stream);
        self.has_freed_room = true;
        match removed.filter(|_| has_all) {
            Some(state) if has_dropped => FirstEvents::PartialResponses(state.events.into()),
            Some(state) => FirstEvents::Responses(state.events.into()),
            None => FirstEvents::Ended(end),
        }
    }

    /// The next event for a reader. `waiter` wakes it when there is one, or at the end.
    pub fn next(&mut self, reader: Reader, waiter: impl FnOnce() -> W) -> NextEvent {
        let is_closed = self.is_closed;
        let Some(state) = self.current(reader) else { return NextEvent::End };
        if state.cursor < state.first {
            if state.post.is_some() {
                // What was dropped from the log may be the response. The host finds out when it
                // resumes.
                self.detach(reader);
                return NextEvent::End;
            }
            state.cursor = state.first;
        }
        let number = state.cursor;
        let index = usize::try_from(number - state.first).unwrap_or(usize::MAX);
        let Some(event) = state.events.get(index) else {
            if is_closed || state.is_answered() {
                self.detach(reader);
                return NextEvent::End;
            }
            state.wait(waiter);
            return NextEvent::Wait;
        };
        let data = event.data.clone();
        state.cursor += 1;
        state.taken = state.taken.max(state.cursor);
        state.is_known = true;
        self.log_events(reader.stream);
        self.has_freed_room = true;
        NextEvent::Event { id: EventId { stream: reader.stream, number }, data }
    }

    /// The id that stands for everything that this reader has seen, for a stream that begins with
    /// an event without a message.
    // HL-09
    pub fn begin_event(&mut self, reader: Reader) -> Option<EventId> {
        let state = self.current(reader)?;
        state.is_known = true;
        let number = state.cursor.max(state.first) - 1;
        Some(EventId { stream: reader.stream, number })
    }

    /// Ends a reader, because its connection is closed. The stream goes on without one.
    // HL-10
    pub fn detach(&mut self, reader: Reader) {
        let Some(state) = self.current(reader) else { return };
        let waiter = state.reader.take().and_then(|reader| reader.waiter);
        self.wakeups.extend(waiter);
        self.has_freed_room = true;
        if self.streams.get(&reader.stream).is_some_and(EventStream::is_unreachable) {
            self.abandon(reader.stream);
        } else {
            self.log_events(reader.stream);
        }
        self.finish_if_over(reader.stream);
    }

    /// Ends the reader of a stream that does not read. It may resume.
    pub fn detach_stream(&mut self, stream: StreamId) {
        let key = self.streams.get(&stream).and_then(|state| state.reader.as_ref()).map(|reader| reader.key);
        if let Some(key) = key {
            self.detach(Reader { stream, key });
        }
    }

    /// Accepts no more events. Readers get what is there, and then the end.
    pub fn close(&mut self) {
        self.is_closed = true;
        self.has_freed_room = true;
        let readers = self.streams.values_mut().filter_map(|state| state.reader.as_mut());
        self.wakeups.extend(readers.filter_map(|reader| reader.waiter.take()));
    }

    /// Whether each reader has taken all of its events.
    pub fn is_flushed(&self) -> bool {
        self.streams.values().all(|state| state.reader.is_none() || state.cursor >= state.next_number())
    }

    /// How many events its readers have taken from a stream so far. `None` if it has no reader.
    pub fn reader_position(&self, stream: StreamId) -> Option<u64> {
        let state = self.streams.get(&stream)?;
        state.reader.is_some().then_some(state.cursor)
    }

    /// A reader to wake.
    pub fn poll_wakeup(&mut self) -> Option<W> {
        self.wakeups.pop()
    }

    /// The id of a request of ours that was dropped from the log before any host read it.
    pub fn poll_lost_request(&mut self) -> Option<u64> {
        self.lost_requests.pop()
    }

    /// Whether a stream may have room for events that it had not before, or accepts none any more.
    pub fn poll_freed_room(&mut self) -> bool {
        std::mem::take(&mut self.has_freed_room)
    }
}

// The stream of an event, and the ends of streams.
impl<W> EventStreams<W> {
    /// The stream for a message that belongs to `stream`. `None` if nobody can read it.
    fn route(&self, stream: StreamId, kind: EventKind) -> Option<StreamId> {
        let state = self.streams.get(&stream).filter(|state| !state.is_unreachable());
        let post = match state {
            Some(EventStream { post: None, .. }) => return Some(stream),
            Some(EventStream { post: Some(post), .. }) => Some(post),
            None => None,
        };
        match (kind, post) {
            (EventKind::Response | EventKind::Refusal, Some(_)) => Some(stream),
            (EventKind::Response | EventKind::Refusal, None) => None,
            (_, Some(post)) if post.unanswered > 0 => match post.format {
                PostFormat::Any => Some(stream),
                // The POST has room for responses only.
                PostFormat::JsonOnly => Some(StreamId::STANDALONE),
            },
            (EventKind::Request(_), _) => Some(StreamId::STANDALONE),
            (EventKind::Notification, _) => None,
        }
    }

    fn count_response(&mut self, stream: StreamId, kind: EventKind) {
        if kind.is_response() {
            self.end_request(stream, RequestEnd::Canceled);
        }
    }

    /// Ends a stream to which nothing will be added: wakes its reader, or forgets it if nothing is
    /// left to resume.
    fn finish_if_over(&mut self, stream: StreamId) {
        let Some(state) = self.streams.get_mut(&stream).filter(|state| state.is_answered()) else { return };
        match &mut state.reader {
            Some(reader) => self.wakeups.extend(reader.waiter.take()),
            None if state.events.is_empty() => drop(self.streams.remove(&stream)),
            None => {}
        }
    }

    /// Discards the events of a stream that the host has never seen, and so cannot resume.
    fn abandon(&mut self, stream: StreamId) {
        let Some(state) = self.streams.get_mut(&stream) else { return };
        let events = std::mem::take(&mut state.events);
        state.first = state.logged + events.len() as u64;
        (state.logged, state.cursor, state.unread_bytes) = (state.first, state.first, 0);
        for event in events.iter().filter(|event| matches!(event.kind, EventKind::Request(_))) {
            // The standalone stream has no room if its reader is slow, but this event was admitted.
            if let Some(standalone) = self.streams.get_mut(&StreamId::STANDALONE) {
                standalone.unread_bytes += event.data.len();
                standalone.events.push_back(event.clone());
                self.wakeups.extend(standalone.reader.as_mut().and_then(|reader| reader.waiter.take()));
            }
        }
        self.log_events(StreamId::STANDALONE);
    }

    fn attach(&mut self, stream: StreamId) -> Reader {
        let key = self.next_reader;
        self.next_reader += 1;
        if let Some(state) = self.streams.get_mut(&stream) {
            let replaced = state.reader.replace(CurrentReader { key, waiter: None });
            self.wakeups.extend(replaced.and_then(|reader| reader.waiter));
        }
        Reader { stream, key }
    }

    /// The stream of a reader that was not replaced.
    fn current(&mut self, reader: Reader) -> Option<&mut EventStream<W>> {
        let state = self.streams.get_mut(&reader.stream)?;
        state.reader.as_ref().is_some_and(|current| current.key == reader.key).then_some(state)
    }

    fn remove(&mut self, stream: StreamId) -> Option<EventStream<W>> {
        let state = self.streams.remove(&stream)?;
        if state.logged > state.first {
            self.log.retain(|logged| *logged != stream);
            let count = usize::try_from(state.logged - state.first).unwrap_or(usize::MAX);
            self.logged_bytes -= state.events.iter().take(count).map(|event| event.data.len()).sum::<usize>();
        }
        Some(state)
    }
}

#[cfg(test)]
mod tests;

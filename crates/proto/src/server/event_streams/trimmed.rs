//! Responses that were dropped from the log while the host may still ask for them.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use super::stream::{EventStream, PostStream};
use super::types::{Event, EventKind, PostFormat, Reader, ResumeError, StreamId};
use super::{EventId, EventStreams};
use crate::wire::{Id, outgoing};

/// The responses that were dropped from the log of a session. They are no longer here; what is left is which requests
/// they were for.
#[derive(Debug, Default)]
pub(super) struct TrimmedResponses {
    /// The oldest first.
    responses: VecDeque<TrimmedResponse>,
    /// For each stream with responses that are no longer in `responses`, or never were: the number of the last of them.
    forgotten: BTreeMap<StreamId, u64>,
}

/// A response that was dropped from the log.
#[derive(Debug)]
struct TrimmedResponse {
    stream: StreamId,
    /// The number that its event had.
    number: u64,
    missing: MissingResponse,
}

/// A response that was dropped from the log, and that whoever resumes its stream needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingResponse {
    /// The request that it was for.
    pub request: Id,
    /// Whether it was larger than the whole log may be.
    pub is_oversized: bool,
}

/// How many responses that were dropped are remembered for each session, as many as it may have calls open.
const MAX_TRIMMED_RESPONSES: usize = 512;
/// The longest response id, in bytes of JSON text, that is remembered.
const MAX_ID_BYTES: usize = 256;

impl TrimmedResponses {
    /// Whether a response that was sent after this event, on the same stream, was dropped and is not remembered.
    fn has_forgotten_after(&self, last: EventId) -> bool {
        self.forgotten.get(&last.stream).is_some_and(|number| *number > last.number)
    }
}

impl TrimmedResponse {
    /// Whether it was sent after this event, on the same stream.
    fn is_after(&self, last: EventId) -> bool {
        self.stream == last.stream && self.number > last.number
    }
}

impl<W> EventStreams<W> {
    /// Remembers a response that is dropped. The oldest makes room.
    pub(super) fn remember_trimmed(&mut self, stream: StreamId, number: u64, data: &Bytes) {
        let Some(request) = outgoing::response_id(data, MAX_ID_BYTES) else {
            return self.forget_trimmed(stream, number);
        };
        let missing = MissingResponse { request, is_oversized: data.len() > self.limits.bytes };
        self.trimmed.responses.push_back(TrimmedResponse { stream, number, missing });
        if self.trimmed.responses.len() > MAX_TRIMMED_RESPONSES
            && let Some(oldest) = self.trimmed.responses.pop_front()
        {
            self.forget_trimmed(oldest.stream, oldest.number);
        }
    }

    /// Takes note that a response is not remembered, as long as its stream could be resumed without it.
    fn forget_trimmed(&mut self, stream: StreamId, number: u64) {
        let TrimmedResponses { responses, forgotten } = &mut self.trimmed;
        let last = forgotten.entry(stream).or_default();
        *last = number.max(*last);
        forgotten.retain(|stream, _| {
            self.streams.contains_key(stream) || responses.iter().any(|trimmed| trimmed.stream == *stream)
        });
    }

    /// The responses that were sent after this event on its stream, and were dropped from the log.
    /// Whoever resumes the stream needs others in their place: see [`EventStreams::resume_with`].
    pub fn missing_responses(&self, last: EventId) -> Vec<MissingResponse> {
        let missed = self.trimmed.responses.iter().filter(|trimmed| trimmed.is_after(last));
        missed.map(|trimmed| trimmed.missing.clone()).collect()
    }

    /// Makes the caller the reader of a stream, from the event after `last` on. In place of responses that were
    /// dropped from the log it gets those in `responses`, as new events. What else was dropped from the stream of a
    /// POST is left out, since the host waits for nothing but responses there. If a response was dropped that is not
    /// remembered, the event is too old.
    // HL-07
    pub fn resume_with(&mut self, last: EventId, responses: &[(Id, Bytes)]) -> Result<Reader, ResumeError> {
        if self.trimmed.has_forgotten_after(last) {
            return Err(ResumeError::TooOld);
        }
        let mut next_number = 0;
        let mut replayed = Vec::new();
        self.trimmed.responses.retain(|trimmed| {
            let response = responses.iter().find(|(request, _)| *request == trimmed.missing.request);
            let Some((_, data)) = response.filter(|_| trimmed.is_after(last)) else { return true };
            next_number = trimmed.number + 1;
            replayed.push(Event { data: data.clone(), kind: EventKind::Response });
            false
        });
        if !replayed.is_empty() {
            // It was removed if nothing else of it was left.
            self.streams.entry(last.stream).or_insert_with(|| answered_post(next_number, replayed.len()));
        }
        let is_trimmed_post = |state: &EventStream<W>| state.post.is_some() && last.number < state.first - 1;
        let reader = match self.streams.get_mut(&last.stream).filter(|state| is_trimmed_post(state)) {
            Some(state) => {
                state.cursor = state.first;
                self.attach(last.stream)
            }
            None => self.resume(last)?,
        };
        // The reader is there, so that nothing of this goes into the log before it was read.
        if let Some(state) = self.streams.get_mut(&last.stream) {
            state.unread_bytes += replayed.iter().map(|event| event.data.len()).sum::<usize>();
            state.events.extend(replayed);
        }
        Ok(reader)
    }

    /// Whether this reader was not replaced and has not ended.
    pub fn is_attached(&self, reader: Reader) -> bool {
        let current = self.streams.get(&reader.stream).and_then(|state| state.reader.as_ref());
        current.is_some_and(|current| current.key == reader.key)
    }

    /// Whether all requests of the POST with this stream have ended.
    pub fn is_answered(&self, stream: StreamId) -> bool {
        self.streams.get(&stream).is_none_or(EventStream::is_answered)
    }
}

/// The stream of a POST whose requests have all ended, with this number for its next event.
fn answered_post<W>(next_number: u64, requests: usize) -> EventStream<W> {
    let format = PostFormat::Any;
    let post = PostStream { format, requests, unanswered: 0, has_dropped: false, is_stream: true };
    EventStream::beginning_at(next_number, Some(post))
}

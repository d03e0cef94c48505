//! [`UnansweredRequests`]: which requests are answered with an error when the listener stops.

use std::collections::BTreeMap;

use bowline_proto::server::event_streams::StreamId;
use bowline_proto::wire::{Id, outgoing};
use bytes::Bytes;
use parking_lot::Mutex;

/// The requests of the POSTs of a session that are answered with an event stream, as long as no reader of that stream
/// has taken their response. When the listener stops, they are answered with an error.
#[derive(Debug, Default)]
pub(crate) struct UnansweredRequests(Mutex<BTreeMap<StreamId, Vec<Id>>>);

/// How many POSTs of a session are remembered, as many as it may have calls open. Beyond that the oldest are forgotten.
const MAX_POSTS: usize = 512;
/// How many requests of them are remembered: eight for each, and of a larger batch more.
const MAX_REQUESTS: usize = 8 * MAX_POSTS;
/// The longest request id, in bytes of JSON text, that is remembered.
const MAX_ID_BYTES: usize = 256;

impl UnansweredRequests {
    /// Adds the requests of a POST.
    pub(crate) fn add(&self, stream: StreamId, requests: &[Id]) {
        let is_short = |request: &&Id| match request {
            Id::Int(_) => true,
            Id::Text(text) => text.as_bytes().len() <= MAX_ID_BYTES,
        };
        // The stream may be open for longer than the body of its POST should be in memory.
        let short = requests.iter().filter(is_short).take(MAX_REQUESTS);
        let requests: Vec<Id> = short.map(Id::detached).collect();
        if requests.is_empty() {
            return;
        }
        let mut posts = self.0.lock();
        while has_no_room(&posts, requests.len()) && posts.pop_first().is_some() {}
        posts.insert(stream, requests);
    }

    /// Whether another POST with this many requests would make the oldest one forgotten.
    pub(crate) fn is_full_for(&self, requests: usize) -> bool {
        has_no_room(&self.0.lock(), requests)
    }

    /// Removes the POSTs whose requests have all ended, such as canceled ones.
    pub(crate) fn remove_ended(&self, has_ended: impl Fn(StreamId) -> bool) {
        self.0.lock().retain(|stream, _| !has_ended(*stream));
    }

    /// Removes the request that this event answers, if it does.
    pub(crate) fn note_event(&self, stream: StreamId, data: &Bytes) {
        let mut posts = self.0.lock();
        let Some(requests) = posts.get_mut(&stream) else { return };
        let Some(answered) = outgoing::response_id(data, MAX_ID_BYTES + 1) else { return };
        requests.retain(|request| *request != answered);
        if requests.is_empty() {
            posts.remove(&stream);
        }
    }

    /// Takes the requests of a stream that have no response.
    pub(crate) fn take(&self, stream: StreamId) -> Vec<Id> {
        self.0.lock().remove(&stream).unwrap_or_default()
    }
}

fn has_no_room(posts: &BTreeMap<StreamId, Vec<Id>>, requests: usize) -> bool {
    posts.len() >= MAX_POSTS || posts.values().map(Vec::len).sum::<usize>() + requests > MAX_REQUESTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_open_requests_with_short_ids_are_remembered() {
        let unanswered = UnansweredRequests::default();
        let (open, ended, long) = (StreamId::from_u64(1), StreamId::from_u64(2), StreamId::from_u64(3));
        let longest = Id::from_string(&"i".repeat(MAX_ID_BYTES - 2));
        unanswered.add(open, &[Id::Int(1), longest.clone()]);
        unanswered.add(ended, &[Id::Int(2)]);
        unanswered.add(long, &[Id::from_string(&"i".repeat(MAX_ID_BYTES - 1))]);
        unanswered.remove_ended(|stream| stream == ended);
        assert_eq!((unanswered.take(ended), unanswered.take(long)), (Vec::new(), Vec::new()));
        let error = crate::given_up::response_lost(false);
        unanswered.note_event(open, &outgoing::response(&longest, Err(&error)).body());
        assert_eq!(unanswered.take(open), [Id::Int(1)]);
    }

    #[test]
    fn the_oldest_of_too_many_posts_is_forgotten() {
        let unanswered = UnansweredRequests::default();
        for number in 0..=512 {
            assert_eq!(unanswered.is_full_for(1), number == 512);
            unanswered.add(StreamId::from_u64(number), &[Id::Int(1)]);
        }
        assert_eq!(unanswered.take(StreamId::from_u64(0)), []);
        assert_eq!(unanswered.take(StreamId::from_u64(1)), [Id::Int(1)]);
    }

    /// A batch has up to 1,000 requests, with ids of up to 256 bytes.
    #[test]
    fn the_oldest_of_too_many_requests_are_forgotten() {
        let unanswered = UnansweredRequests::default();
        let batch: Vec<_> = (0..1_000).map(Id::Int).collect();
        for number in 0..6 {
            assert_eq!(unanswered.is_full_for(batch.len()), number >= 4);
            unanswered.add(StreamId::from_u64(number), &batch);
        }
        let kept = (0..6).map(|number| unanswered.take(StreamId::from_u64(number)).len());
        assert_eq!(kept.collect::<Vec<_>>(), [0, 0, 1_000, 1_000, 1_000, 1_000]);
    }
}

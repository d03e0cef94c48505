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

/// How many POSTs of a session are remembered, as many as it may have calls open. The oldest are forgotten: their
/// responses were never read.
const MAX_POSTS: usize = 512;

impl UnansweredRequests {
    /// Adds the requests of a POST.
    pub(crate) fn add(&self, stream: StreamId, requests: &[Id]) {
        let mut posts = self.0.lock();
        if posts.len() >= MAX_POSTS {
            posts.pop_first();
        }
        // The stream may be open for longer than the body of its POST should be in memory.
        posts.insert(stream, requests.iter().map(Id::detached).collect());
    }

    /// Removes the request that this event answers, if it does.
    pub(crate) fn note_event(&self, stream: StreamId, data: &Bytes) {
        let mut posts = self.0.lock();
        let Some(requests) = posts.get_mut(&stream) else { return };
        let Some(answered) = outgoing::response_id(data, data.len()) else { return };
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

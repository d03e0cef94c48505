//! The log of a session: which events are in it, and which are dropped.

use super::EventStreams;
use super::types::{EventKind, StreamId};

impl<W> EventStreams<W> {
    /// Moves events into the log: those that were taken, or all if there is no reader. Then drops
    /// the oldest events beyond the limits.
    pub(super) fn log_events(&mut self, stream: StreamId) {
        let Some(state) = self.streams.get_mut(&stream) else { return };
        let end = if state.reader.is_some() { state.cursor } else { state.next_number() };
        while state.logged < end {
            let index = usize::try_from(state.logged - state.first).unwrap_or(usize::MAX);
            let Some(event) = state.events.get(index) else { break };
            let bytes = event.data.len();
            state.unread_bytes -= bytes;
            state.logged += 1;
            self.logged_bytes += bytes;
            self.log.push_back(stream);
            if bytes > self.limits.bytes {
                // It would push everything else out before itself. Without it, nothing before it on
                // its stream can be resumed.
                let dropped = index + 1;
                self.log.retain(|logged| *logged != stream);
                for _ in 0..dropped {
                    self.drop_oldest_of(stream);
                }
                return self.log_events(stream);
            }
        }
        while self.log.len() > self.limits.events || self.logged_bytes > self.limits.bytes {
            let Some(oldest) = self.log.pop_front() else { break };
            self.drop_oldest_of(oldest);
        }
    }

    fn drop_oldest_of(&mut self, stream: StreamId) {
        let Some(state) = self.streams.get_mut(&stream) else { return };
        let Some(event) = state.events.pop_front() else { return };
        self.logged_bytes -= event.data.len();
        if let EventKind::Request(id) = event.kind
            && state.first >= state.taken
        {
            self.lost_requests.push(id);
        }
        let number = state.first;
        state.first += 1;
        // A host that knows no event of the stream cannot ask for the response.
        if event.kind == EventKind::Response && state.is_known && state.post.is_some() {
            self.remember_trimmed(stream, number, &event.data);
        }
        self.finish_if_over(stream);
    }
}

//! Decides when a broken event stream is resumed: from which event, and after which delay.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use bowline_proto::fault::Recovery;
use bowline_proto::frame::sse;
use bowline_transport::http::Answer;
use http::HeaderValue;

/// Last position of a stream, and how often it was resumed without progress.
#[derive(Default)]
pub(super) struct Resume {
    last: Option<HeaderValue>,
    retry: Option<Duration>,
    fruitless: u32,
    /// Hashes of the event ids seen so far: a replayed event is no progress.
    seen: HashSet<u64>,
}

impl From<HeaderValue> for Resume {
    fn from(last: HeaderValue) -> Self {
        Self { last: Some(last), ..Self::default() }
    }
}

impl Resume {
    pub(super) fn saw(&mut self, event: &sse::Event) {
        if let Some(id) = &event.id {
            // A new event id is progress, even without data (HL-09).
            let mut hasher = DefaultHasher::new();
            id.hash(&mut hasher);
            if self.seen.len() < MAX_SEEN && self.seen.insert(hasher.finish()) {
                self.fruitless = 0;
            }
            // An id that is no valid header value cannot be sent back; an empty one means "none".
            self.last = HeaderValue::from_str(id).ok().filter(|id| !id.is_empty());
        }
        if let Some(retry) = event.retry {
            self.retry = Some(retry);
        }
        // Without ids nothing can be replayed, so any data is new.
        if self.last.is_none() && !event.data.is_empty() {
            self.fruitless = 0;
        }
    }

    /// Resets the backoff after a stream that stayed open for a while.
    pub(super) fn held(&mut self) {
        self.fruitless = 0;
    }

    pub(super) fn last(&self) -> Option<&HeaderValue> {
        self.last.as_ref()
    }

    /// The delay before the stream is resumed next.
    ///
    /// The server's `retry` is clamped to a minimum and a maximum, and doubled while there is no
    /// progress, so that a server which always cuts gets fewer and fewer requests (HL-08).
    pub(super) fn wait(&mut self) -> Duration {
        let wait =
            self.retry.unwrap_or(RETRY_DEFAULT).clamp(RETRY_FLOOR, RETRY_CAP) * (1 << self.fruitless.min(8));
        self.fruitless = self.fruitless.saturating_add(1);
        wait.min(RETRY_CAP)
    }
}

/// Whether a GET may succeed later: another stream is still open as far as the server knows (409),
/// or the server is busy or failing.
pub(super) fn is_temporary(status: u16) -> bool {
    matches!(status, 409 | 425 | 429 | 500..)
}

/// The delay that the server requests with `Retry-After`.
pub(super) fn retry_after(answer: &Answer) -> Duration {
    match answer.refusal().recovery() {
        Recovery::Retry { not_before } => not_before,
        Recovery::Login | Recovery::GiveUp => Duration::ZERO,
    }
}

const RETRY_DEFAULT: Duration = Duration::from_secs(1);
const RETRY_FLOOR: Duration = Duration::from_millis(250);
const RETRY_CAP: Duration = Duration::from_secs(60);
/// Maximum number of event ids that are remembered; later ones never count as progress.
const MAX_SEEN: usize = 16_384;

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn event(id: &str, data: &'static str, retry: Option<u64>) -> sse::Event {
        sse::Event {
            id: Some(id.into()),
            data: Bytes::from_static(data.as_bytes()),
            retry: retry.map(Duration::from_millis),
            ..sse::Event::default()
        }
    }

    /// HL-08, HL-09: the server's interval is kept as long as there is progress.
    #[test]
    fn hl_09_new_places_in_the_stream_are_progress() {
        let mut resume = Resume::default();
        for n in 0..100 {
            resume.saw(&event(&n.to_string(), "", Some(500)));
            assert_eq!(resume.wait(), Duration::from_millis(500), "{n}");
        }
    }

    /// A server that always cuts gets fewer and fewer requests, whatever `retry` says.
    #[test]
    fn a_server_that_only_cuts_is_asked_ever_less_often() {
        let mut resume = Resume::default();
        resume.saw(&event("1", "", Some(0)));
        let waits: Vec<_> = (0..20).map(|_| resume.wait()).collect();
        assert_eq!(waits[0], RETRY_FLOOR);
        assert!(waits.windows(2).all(|pair| pair[0] <= pair[1]));
        assert_eq!(waits[19], RETRY_CAP);
        resume.held();
        assert_eq!(resume.wait(), RETRY_FLOOR);
    }

    /// Replayed events do not count as progress, in whatever order.
    #[test]
    fn a_replayed_event_is_no_progress() {
        let mut resume = Resume::default();
        let mut waits = Vec::new();
        for _ in 0..12 {
            resume.saw(&event("1", "{}", Some(250)));
            resume.saw(&event("2", "{}", None));
            waits.push(resume.wait());
        }
        assert_eq!(waits[..3], [250, 500, 1_000].map(Duration::from_millis));
        assert_eq!(waits[11], RETRY_CAP);
    }
}

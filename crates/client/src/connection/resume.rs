//! Owns when a broken event stream is resumed: where it stopped, and how long to wait before it is asked for again.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use bowline_proto::fault::Recovery;
use bowline_proto::frame::sse;
use bowline_transport::http::Answer;
use http::HeaderValue;

/// Where a stream stopped, and how often it was resumed without getting on.
#[derive(Default)]
pub(super) struct Resume {
    last: Option<HeaderValue>,
    retry: Option<Duration>,
    fruitless: u32,
    /// Hashes of the event ids that were seen: an event that is replayed is no progress.
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
            // A new place in the stream is progress, even if nothing was said there (HL-09).
            let mut hasher = DefaultHasher::new();
            id.hash(&mut hasher);
            if self.seen.len() < MAX_SEEN && self.seen.insert(hasher.finish()) {
                self.fruitless = 0;
            }
            // An id that is no header value cannot be sent back; an empty one means "none".
            self.last = HeaderValue::from_str(id).ok().filter(|id| !id.is_empty());
        }
        if let Some(retry) = event.retry {
            self.retry = Some(retry);
        }
        // Where nothing can be replayed, whatever is said is new.
        if self.last.is_none() && !event.data.is_empty() {
            self.fruitless = 0;
        }
    }

    /// The stream was held open for a while: whoever cut it is not one who always cuts.
    pub(super) fn held(&mut self) {
        self.fruitless = 0;
    }

    pub(super) fn last(&self) -> Option<&HeaderValue> {
        self.last.as_ref()
    }

    /// How long to wait before the stream is resumed.
    ///
    /// HL-08: `retry` is honored, between a floor and a cap, and doubled while nothing comes of it, so that a server
    /// which always cuts sees a few requests and then fewer.
    pub(super) fn wait(&mut self) -> Duration {
        let wait =
            self.retry.unwrap_or(RETRY_DEFAULT).clamp(RETRY_FLOOR, RETRY_CAP) * (1 << self.fruitless.min(8));
        self.fruitless = self.fruitless.saturating_add(1);
        wait.min(RETRY_CAP)
    }
}

/// Whether a status for a GET says that the stream may be had later: another stream is still open as far as the server
/// knows (409), or it is too early, too often, or the server is not well.
pub(super) fn is_temporary(status: u16) -> bool {
    matches!(status, 409 | 425 | 429 | 500..)
}

/// What the server asks for with `Retry-After`.
pub(super) fn retry_after(answer: &Answer) -> Duration {
    match answer.refusal().recovery() {
        Recovery::Retry { not_before } => not_before,
        Recovery::Login | Recovery::GiveUp => Duration::ZERO,
    }
}

const RETRY_DEFAULT: Duration = Duration::from_secs(1);
const RETRY_FLOOR: Duration = Duration::from_millis(250);
const RETRY_CAP: Duration = Duration::from_secs(60);
/// After so many different events in one stream, nothing counts as new any more.
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

    /// HL-08, HL-09: a server that polls is met in its own time, as long as it gets on.
    #[test]
    fn hl_09_new_places_in_the_stream_are_progress() {
        let mut resume = Resume::default();
        for n in 0..100 {
            resume.saw(&event(&n.to_string(), "", Some(500)));
            assert_eq!(resume.wait(), Duration::from_millis(500), "{n}");
        }
    }

    /// A server that always cuts sees a few requests, and then fewer, whatever `retry` says.
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

    /// So does one that replays what was seen before it cuts, in whatever order.
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

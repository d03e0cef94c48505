//! Decides when a broken event stream is resumed: from which event, and after which delay.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

use bowline_proto::fault::Recovery;
use bowline_proto::frame::sse;
use bowline_transport::http::HttpResponse;
use http::HeaderValue;

/// Last position of a stream, and how often it was resumed without progress.
#[derive(Default)]
pub(crate) struct ResumeState {
    pub(crate) last_id: Option<HeaderValue>,
    retry: Option<Duration>,
    attempts_without_progress: u32,
    /// Hashes of the event ids seen so far: a replayed event is no progress.
    seen_ids: HashSet<u64>,
    /// When the stream was opened again.
    opened_at: Option<Instant>,
    /// When the stream broke for the first time since its last progress.
    stalled_at: Option<Instant>,
}

impl From<HeaderValue> for ResumeState {
    fn from(last: HeaderValue) -> Self {
        Self { last_id: Some(last), ..Self::default() }
    }
}

impl ResumeState {
    pub(crate) fn record_event(&mut self, event: &sse::Event) {
        if let Some(id) = &event.id {
            // A new event id is progress, even without data (HL-09).
            let mut hasher = DefaultHasher::new();
            id.hash(&mut hasher);
            if self.seen_ids.len() < MAX_SEEN_IDS && self.seen_ids.insert(hasher.finish()) {
                self.attempts_without_progress = 0;
                self.stalled_at = None;
            }
            // An id that is no valid header value cannot be sent back; an empty one means "none".
            self.last_id = HeaderValue::from_str(id).ok().filter(|id| !id.is_empty());
        }
        if let Some(retry) = event.retry {
            self.retry = Some(retry);
        }
        // Without ids nothing can be replayed, so any data is new.
        if self.last_id.is_none() && !event.data.is_empty() {
            self.attempts_without_progress = 0;
        }
    }

    /// Records that the stream was opened again.
    pub(crate) fn record_open(&mut self, now: Instant) {
        self.opened_at = Some(now);
    }

    /// Records that the stream broke. One that was open for as long as it may be resumed was in order, though
    /// nothing came; one that breaks at once again and again is not.
    pub(crate) fn record_break(&mut self, now: Instant, resume_wait: Option<Duration>) {
        let open = self.opened_at.map(|at| now.saturating_duration_since(at));
        if open.zip(resume_wait).is_some_and(|(open, wait)| open >= wait) {
            self.stalled_at = None;
        }
        self.stalled_at.get_or_insert(now);
    }

    /// How much is left of the time for which the stream may be resumed without progress.
    pub(crate) fn time_left(&self, now: Instant, wait: Duration) -> Duration {
        let stalled = self.stalled_at.map(|at| now.saturating_duration_since(at)).unwrap_or_default();
        wait.saturating_sub(stalled)
    }

    /// Resets the backoff after a stream that stayed open for a while.
    pub(crate) fn reset_backoff(&mut self) {
        self.attempts_without_progress = 0;
    }

    /// The delay before the stream is resumed next.
    ///
    /// The server's `retry` is clamped to a minimum and a maximum, and doubled while there is no
    /// progress, so that a server which always cuts gets fewer and fewer requests (HL-08).
    pub(crate) fn next_delay(&mut self) -> Duration {
        let wait = self.retry.unwrap_or(DEFAULT_RETRY_DELAY).clamp(MIN_RETRY_DELAY, MAX_RETRY_DELAY)
            * (1 << self.attempts_without_progress.min(8));
        self.attempts_without_progress = self.attempts_without_progress.saturating_add(1);
        wait.min(MAX_RETRY_DELAY)
    }
}

/// Whether a GET may succeed later: another stream is still open as far as the server knows (409),
/// or the server is busy or failing.
pub(crate) fn is_temporary(status: u16) -> bool {
    matches!(status, 409 | 425 | 429 | 500..)
}

/// The delay that the server requests with `Retry-After`.
pub(crate) fn retry_after(answer: &HttpResponse) -> Duration {
    match answer.status_fault().recovery() {
        Recovery::Retry { not_before, .. } => not_before,
        _ => Duration::ZERO,
    }
}

const DEFAULT_RETRY_DELAY: Duration = Duration::from_secs(1);
const MIN_RETRY_DELAY: Duration = Duration::from_millis(250);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(60);
/// Maximum number of event ids that are remembered; later ones never count as progress.
const MAX_SEEN_IDS: usize = 16_384;

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
    fn hl_09_new_event_ids_are_progress() {
        let mut resume = ResumeState::default();
        for n in 0..100 {
            resume.record_event(&event(&n.to_string(), "", Some(500)));
            assert_eq!(resume.next_delay(), Duration::from_millis(500), "{n}");
        }
    }

    /// A server that always cuts gets fewer and fewer requests, whatever `retry` says.
    #[test]
    fn a_server_that_only_cuts_is_asked_ever_less_often() {
        let mut resume = ResumeState::default();
        resume.record_event(&event("1", "", Some(0)));
        let waits: Vec<_> = (0..20).map(|_| resume.next_delay()).collect();
        assert_eq!(waits[0], MIN_RETRY_DELAY);
        assert!(waits.windows(2).all(|pair| pair[0] <= pair[1]));
        assert_eq!(waits[19], MAX_RETRY_DELAY);
        resume.reset_backoff();
        assert_eq!(resume.next_delay(), MIN_RETRY_DELAY);
    }

    #[test]
    fn a_stream_without_progress_is_resumed_for_a_bounded_time() {
        let (wait, start) = (Duration::from_secs(10), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut resume = ResumeState::default();
        resume.record_break(at(100), Some(wait));
        assert_eq!(resume.time_left(at(104), wait), Duration::from_secs(6));
        // It breaks at once again.
        resume.record_open(at(105));
        resume.record_break(at(106), Some(wait));
        assert_eq!(resume.time_left(at(110), wait), Duration::ZERO);
        // It was open for long, though nothing came.
        resume.record_open(at(106));
        resume.record_break(at(116), Some(wait));
        assert_eq!(resume.time_left(at(117), wait), Duration::from_secs(9));
        // Something new came.
        resume.record_event(&event("1", "{}", None));
        resume.record_break(at(120), Some(wait));
        assert_eq!(resume.time_left(at(120), wait), wait);
    }

    /// Replayed events do not count as progress, in whatever order.
    #[test]
    fn a_replayed_event_is_no_progress() {
        let mut resume = ResumeState::default();
        let mut waits = Vec::new();
        for _ in 0..12 {
            resume.record_event(&event("1", "{}", Some(250)));
            resume.record_event(&event("2", "{}", None));
            waits.push(resume.next_delay());
        }
        assert_eq!(waits[..3], [250, 500, 1_000].map(Duration::from_millis));
        assert_eq!(waits[11], MAX_RETRY_DELAY);
    }
}

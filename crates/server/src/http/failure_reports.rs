//! [`FailureReports`]: how often it is said that sessions cannot be recorded.

use std::time::Duration;

use tokio::time::Instant;

/// The causes that were reported lately. A full disk fails every call, and is reported once a minute.
#[derive(Debug, Default)]
pub(crate) struct FailureReports(Vec<(Box<str>, Instant)>);

/// How long nothing more is said about a cause.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);
/// How many causes are reported within that time.
const MAX_CAUSES: usize = 4;

impl FailureReports {
    /// Takes note of a failure. Returns whether it is to be reported.
    pub(crate) fn note(&mut self, cause: &str, now: Instant) -> bool {
        self.0.retain(|(_, reported_at)| now.saturating_duration_since(*reported_at) < REPORT_INTERVAL);
        if self.0.len() >= MAX_CAUSES || self.0.iter().any(|(known, _)| **known == *cause) {
            return false;
        }
        self.0.push((cause.into(), now));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_cause_is_reported_once_a_minute() {
        let mut reports = FailureReports::default();
        let start = Instant::now();
        let mut note = |cause: &str, seconds| reports.note(cause, start + Duration::from_secs(seconds));
        assert!(note("full", 0));
        assert!(!note("full", 1));
        assert!(note("slow", 1));
        assert!(!note("full", 59));
        assert!(note("full", 60));
        assert!(!note("slow", 60));
        assert!(note("slow", 61));
        assert!(note("a", 62) && note("b", 62));
        assert!(!note("c", 63), "there are enough");
        assert!(note("c", 120));
    }
}

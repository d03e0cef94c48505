//! Owns the backoff after consecutive failures.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::error::{AuthError, AuthErrorKind};
use crate::refresh::due;

/// Consecutive failures, and the backoff until the next attempt.
pub(super) struct FailureBackoff {
    last_failure: Mutex<Option<LastFailure>>,
    /// Upper bound of the backoff.
    max_backoff: Duration,
}

struct LastFailure {
    count: u32,
    until: Instant,
    error: AuthError,
}

/// Upper bound of the backoff after a store failure. The store is usually local, and a user who has
/// just freed disk space is waiting.
const MAX_STORE_BACKOFF: Duration = Duration::from_secs(2);

impl FailureBackoff {
    /// No failures yet, and a backoff of at most `max_backoff`.
    pub(super) fn with_max_backoff(max_backoff: Duration) -> Self {
        Self { last_failure: Mutex::default(), max_backoff }
    }

    /// The last error, while its backoff lasts. No attempt is made before it ends.
    pub(super) fn active_error(&self) -> Option<AuthError> {
        let last = self.last_failure.lock();
        last.as_ref().filter(|failed| Instant::now() < failed.until).map(|failed| failed.error.clone())
    }

    /// The last error, if nothing has succeeded since.
    pub(super) fn last_error(&self) -> Option<AuthError> {
        let last = self.last_failure.lock();
        last.as_ref().map(|failed| failed.error.clone())
    }

    pub(super) fn add(&self, error: &AuthError) {
        let mut last = self.last_failure.lock();
        let count = last.as_ref().map_or(0, |failed| failed.count).saturating_add(1);
        let most = if error.kind == AuthErrorKind::Store {
            MAX_STORE_BACKOFF.min(self.max_backoff)
        } else {
            self.max_backoff
        };
        let until = Instant::now() + due::backoff(count, fastrand::f64()).min(most);
        *last = Some(LastFailure { count, until, error: error.clone() });
    }

    pub(super) fn clear(&self) {
        *self.last_failure.lock() = None;
    }

    /// The time until the next attempt.
    pub(super) fn remaining_wait(&self) -> Duration {
        let last = self.last_failure.lock();
        last.as_ref().map_or(Duration::ZERO, |failed| failed.until.saturating_duration_since(Instant::now()))
    }
}

impl Default for FailureBackoff {
    fn default() -> Self {
        Self::with_max_backoff(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A user who frees disk space must not wait a minute until that is noticed.
    #[test]
    fn store_failures_have_a_short_backoff() {
        for (kind, is_soon) in [(AuthErrorKind::Store, true), (AuthErrorKind::Unavailable, false)] {
            let failures = FailureBackoff::default();
            for _ in 0..10 {
                failures.add(&AuthError::new(kind, "x"));
            }
            assert_eq!(failures.remaining_wait() <= MAX_STORE_BACKOFF, is_soon, "{kind:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn backoff_grows_and_is_cleared_by_a_success() {
        let failures = FailureBackoff::default();
        assert!(failures.active_error().is_none());
        let error = AuthError::new(AuthErrorKind::Unavailable, "away");
        for most in [1, 2, 4, 8, 16, 32, 60, 60] {
            failures.add(&error);
            assert!(failures.active_error().is_some());
            assert!(
                failures.remaining_wait() <= Duration::from_secs(most),
                "{:?}",
                failures.remaining_wait()
            );
            tokio::time::advance(Duration::from_secs(most)).await;
            assert!(failures.active_error().is_none());
        }
        failures.clear();
        failures.add(&error);
        assert!(failures.remaining_wait() <= Duration::from_secs(1));
    }
}

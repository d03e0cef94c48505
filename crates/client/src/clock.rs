//! The clock that timeouts are measured with: that of the tokio runtime, so that a host's tests can
//! pause it (`tokio::time::pause`) and every limit still elapses together with its timer.

use std::time::{Duration, Instant};

/// The current time.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// The time since `earlier`.
pub(crate) fn elapsed(earlier: Instant) -> Duration {
    now().saturating_duration_since(earlier)
}

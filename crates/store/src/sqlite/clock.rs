//! The clock of the SQLite store: the system's, which is the only one that processes share.

use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// A clock that may be set, forward or back.
#[derive(Clone)]
pub(super) struct WallClock(Arc<dyn Fn() -> i64 + Send + Sync>);

impl WallClock {
    /// The clock of the system.
    pub(super) fn system() -> Self {
        Self(Arc::new(|| {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
        }))
    }

    /// A clock that a test sets, in milliseconds.
    #[cfg(test)]
    pub(super) fn settable(now: Arc<std::sync::atomic::AtomicI64>) -> Self {
        Self(Arc::new(move || now.load(std::sync::atomic::Ordering::SeqCst)))
    }

    /// Milliseconds since the epoch.
    pub(super) fn now_ms(&self) -> i64 {
        (self.0)()
    }
}

impl fmt::Debug for WallClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WallClock")
    }
}

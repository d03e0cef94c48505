//! Owns whether a login is missing that another process may make.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Whether a request failed for want of a login. While set, the store is polled more often.
#[derive(Default)]
pub(super) struct MissingLogin {
    missing: AtomicBool,
    /// Wakes the poller when `missing` is set.
    notify: Notify,
}

impl MissingLogin {
    pub(super) fn set(&self, missing: bool) {
        self.missing.store(missing, Ordering::Relaxed);
        if missing {
            self.notify.notify_one();
        }
    }

    pub(super) fn get(&self) -> bool {
        self.missing.load(Ordering::Relaxed)
    }

    /// Waits until the login is reported as missing.
    pub(super) async fn reported(&self) {
        self.notify.notified().await;
    }
}

//! Helpers for waiting.

use std::time::Duration;

use tokio::sync::watch;

/// Sleeps, but returns at once for a zero duration, which the timer would round up to a
/// millisecond.
pub(crate) async fn pause(time: Duration) {
    if !time.is_zero() {
        tokio::time::sleep(time).await;
    }
}

/// Waits until `look` returns something, calling it again after every change of `source`. Returns
/// `None` after `timeout`.
pub(crate) async fn wait_for<T>(
    source: &watch::Sender<u64>,
    mut look: impl FnMut() -> Option<T>,
    timeout: Duration,
) -> Option<T> {
    let mut changes = source.subscribe();
    let wait = async {
        loop {
            changes.borrow_and_update();
            if let Some(found) = look() {
                return found;
            }
            changes.changed().await.expect("the sender is borrowed");
        }
    };
    tokio::time::timeout(timeout, wait).await.ok()
}

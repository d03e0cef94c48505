//! Small things about waiting.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

/// Locks, whatever became of the last holder: a tool closure may panic, and the test then wants to
/// see the rest.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sleeps, but not at all for no time: the timer would round up to a millisecond.
pub(crate) async fn pause(time: Duration) {
    if !time.is_zero() {
        tokio::time::sleep(time).await;
    }
}

/// Waits until `look` finds something, looking again after every change.
pub(crate) async fn until<T>(
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

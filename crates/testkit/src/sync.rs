//! Small things about waiting.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

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

//! The timeout of every step in these tests.

use std::time::Duration;

/// Runs a future and fails with the name of the step if it hangs, which says more than the test
/// runner's timeout.
pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(STEP_TIMEOUT, Box::pin(future)).await;
    done.unwrap_or_else(|_| panic!("{what}: not done within {STEP_TIMEOUT:?}"))
}

/// Slow machines start interpreters slowly. The test runner allows two minutes.
const STEP_TIMEOUT: Duration = Duration::from_secs(50);

//! How long anything in these tests may take.

use std::time::Duration;

/// Fails what hangs, with more to say than the runner's own limit.
pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(LIMIT, Box::pin(future)).await;
    done.unwrap_or_else(|_| panic!("{what}: not done within {LIMIT:?}"))
}

/// Loaded machines start interpreters slowly. The runner waits for two minutes.
const LIMIT: Duration = Duration::from_secs(50);

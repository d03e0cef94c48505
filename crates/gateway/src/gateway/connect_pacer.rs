//! [`ConnectPacer`]: how many connections that nobody waits for are opened at once.

use std::future::Future;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Opens connections a few at a time.
///
/// After a restart the sessions of all hosts come back together, each with a connection to every server. Opened at
/// once, they would delay the answers that hosts wait for, and every server would get all handshakes in one moment.
#[derive(Debug)]
pub(super) struct ConnectPacer(Semaphore);

impl ConnectPacer {
    /// Waits for its turn and calls `open`. The turn ends when the future that it returns is ready, and at the latest
    /// after [`MAX_TURN`]: a server that is slow or away does not keep the others waiting.
    pub(super) async fn run<F: Future>(&self, open: impl FnOnce() -> F) {
        // The semaphore is never closed.
        let Ok(_turn) = self.0.acquire().await else { return };
        let _ = timeout(MAX_TURN, open()).await;
    }

    /// Lets nobody have a turn until the result is dropped.
    #[cfg(test)]
    pub(super) async fn take_all_turns(&self) -> tokio::sync::SemaphorePermit<'_> {
        let all = u32::try_from(MAX_TURNS).expect("it is a small number");
        self.0.acquire_many(all).await.expect("it is never closed")
    }
}

impl Default for ConnectPacer {
    fn default() -> Self {
        Self(Semaphore::new(MAX_TURNS))
    }
}

/// How many connections are opened at once.
const MAX_TURNS: usize = 16;
/// The longest time for which one connection keeps the others waiting.
const MAX_TURN: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::Arc;

    use parking_lot::Mutex;
    use tokio::task::JoinSet;
    use tokio::time::{Instant, advance, sleep};

    use super::*;

    /// Runs three times as many as there are turns, and returns when each was opened.
    async fn opened_after<F>(open: fn() -> F) -> Vec<Duration>
    where
        F: Future + Send + 'static,
        F::Output: Send,
    {
        let (pacer, begun) = (Arc::new(ConnectPacer::default()), Instant::now());
        let opened = Arc::new(Mutex::new(Vec::new()));
        let mut running = JoinSet::new();
        for _ in 0..3 * MAX_TURNS {
            let (pacer, opened) = (Arc::clone(&pacer), Arc::clone(&opened));
            running.spawn(async move {
                pacer
                    .run(|| {
                        opened.lock().push(begun.elapsed());
                        open()
                    })
                    .await;
            });
        }
        running.join_all().await;
        std::mem::take(&mut *opened.lock())
    }

    #[tokio::test(start_paused = true)]
    async fn connections_are_opened_a_few_at_a_time() {
        let step = Duration::from_millis(100);
        let opened = opened_after(|| sleep(Duration::from_millis(100))).await;
        let turns = [Duration::ZERO, step, 2 * step].map(|at| [at; MAX_TURNS]);
        assert_eq!(opened, turns.as_flattened());
    }

    #[tokio::test(start_paused = true)]
    async fn slow_connection_ends_its_turn() {
        let opened = opened_after(pending::<()>).await;
        let turns = [Duration::ZERO, MAX_TURN, 2 * MAX_TURN].map(|at| [at; MAX_TURNS]);
        assert_eq!(opened, turns.as_flattened());
    }

    #[tokio::test(start_paused = true)]
    async fn session_that_ends_gives_up_its_turn() {
        let pacer = Arc::new(ConnectPacer::default());
        let mut ended = JoinSet::new();
        for _ in 0..MAX_TURNS {
            let pacer = Arc::clone(&pacer);
            ended.spawn(async move { pacer.run(pending::<()>).await });
        }
        advance(Duration::from_millis(1)).await;
        ended.shutdown().await;
        let begun = Instant::now();
        pacer.run(async || {}).await;
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }
}

//! [`ConnectPacer`]: how many connections that nobody waits for are opened at once.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Opens connections a few at a time.
///
/// After a restart the sessions of all hosts come back together, each with a connection to every server. Opened at
/// once, they would delay the answers that hosts wait for, and every server would get all handshakes in one moment.
#[derive(Debug)]
pub(super) struct ConnectPacer {
    /// A permit is a turn.
    turns: Semaphore,
    /// A permit is a connection that is still being opened after its turn.
    slow: Semaphore,
}

impl ConnectPacer {
    /// Waits for its turn and calls `open`. The turn ends when the future that it returns is ready, and otherwise after
    /// [`MAX_TURN`], as long as no more than [`MAX_SLOW`] others are slow: a server that is slow or away does not keep
    /// the others waiting, but a gateway that is too busy for the connections that it opens does not open more of them.
    ///
    /// Dropping the future gives up its turn.
    pub(super) async fn run<F: Future>(&self, open: impl FnOnce() -> F) {
        // The semaphores are never closed.
        let Ok(turn) = self.turns.acquire().await else { return };
        let mut opening = pin!(open());
        if timeout(MAX_TURN, opening.as_mut()).await.is_ok() {
            return;
        }
        tokio::select! {
            biased;
            _ = opening.as_mut() => {}
            permit = self.slow.acquire() => {
                let Ok(_permit) = permit else { return };
                drop(turn);
                opening.await;
            }
        }
    }

    /// Lets nobody have a turn until the result is dropped.
    #[cfg(test)]
    pub(super) async fn take_all_turns(&self) -> tokio::sync::SemaphorePermit<'_> {
        let all = u32::try_from(MAX_TURNS).expect("it is a small number");
        self.turns.acquire_many(all).await.expect("it is never closed")
    }
}

impl Default for ConnectPacer {
    fn default() -> Self {
        Self { turns: Semaphore::new(MAX_TURNS), slow: Semaphore::new(MAX_SLOW) }
    }
}

/// How many connections are opened at once.
const MAX_TURNS: usize = 16;
/// The longest time for which one connection keeps the others waiting, unless too many are slow.
const MAX_TURN: Duration = Duration::from_millis(250);
/// How many connections may be opened for longer than a turn, beside those that have a turn.
const MAX_SLOW: usize = 128;

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::Arc;

    use parking_lot::Mutex;
    use tokio::task::JoinSet;
    use tokio::time::{Instant, advance, sleep};

    use super::*;

    /// Runs so many times as many as there are turns, and returns when each was opened.
    async fn opened_after<F>(rounds: usize, open: fn() -> F) -> Vec<Duration>
    where
        F: Future + Send + 'static,
        F::Output: Send,
    {
        let (pacer, begun) = (Arc::new(ConnectPacer::default()), Instant::now());
        let opened = Arc::new(Mutex::new(Vec::new()));
        let mut running = JoinSet::new();
        for _ in 0..rounds * MAX_TURNS {
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
        let opened = opened_after(3, || sleep(Duration::from_millis(100))).await;
        let turns = [Duration::ZERO, step, 2 * step].map(|at| [at; MAX_TURNS]);
        assert_eq!(opened, turns.as_flattened());
    }

    #[tokio::test(start_paused = true)]
    async fn slow_connection_ends_its_turn() {
        let opened = opened_after(3, || sleep(Duration::from_secs(60))).await;
        let turns = [Duration::ZERO, MAX_TURN, 2 * MAX_TURN].map(|at| [at; MAX_TURNS]);
        assert_eq!(opened, turns.as_flattened());
    }

    /// A gateway that is too busy makes all of them slow.
    #[tokio::test(start_paused = true)]
    async fn slow_connections_are_bounded_in_number() {
        let rounds = MAX_SLOW / MAX_TURNS;
        let opened = opened_after(rounds + 2, || sleep(Duration::from_secs(60))).await;
        let opened_by = |time| opened.iter().filter(|at| **at <= time).count();
        assert_eq!(opened_by(Duration::from_secs(59)), MAX_SLOW + MAX_TURNS);
        assert_eq!(opened_by(Duration::from_secs(60)), MAX_SLOW + 2 * MAX_TURNS);
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

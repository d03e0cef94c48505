//! Owns who waits for which log within this process, and wakes them.

use std::collections::HashMap;
use std::future::Future;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::{LogName, Position};
use crate::StoreError;

/// The waiting readers of a store, by log.
#[derive(Debug, Default)]
pub(crate) struct Doorbell {
    /// The newest position that is known of each log that somebody waits for.
    logs: Mutex<HashMap<LogName, watch::Sender<Position>>>,
}

impl Doorbell {
    /// Wakes those who wait for a position before this one.
    pub(crate) fn ring(&self, log: &LogName, newest: Position) {
        if let Some(known) = self.logs.lock().get(log) {
            known.send_if_modified(|known| {
                let is_newer = newest > *known;
                *known = newest.max(*known);
                is_newer
            });
        }
    }

    /// Whether nobody waits.
    #[cfg(any(feature = "sqlite", feature = "valkey"))]
    pub(crate) fn is_idle(&self) -> bool {
        self.logs.lock().is_empty()
    }

    /// The logs that somebody waits for, with the newest position that is known of each.
    #[cfg(any(feature = "sqlite", feature = "valkey"))]
    pub(crate) fn awaited_logs(&self) -> Vec<(LogName, Position)> {
        self.logs.lock().iter().map(|(log, known)| (log.clone(), *known.borrow())).collect()
    }

    /// Waits until a log has an entry after a position. `newest` reads the newest position of the
    /// log from the store; it is called once the doorbell would be heard, and again at the timeout,
    /// which is when a failure of the store is reported.
    pub(crate) async fn wait<F>(
        &self,
        log: &LogName,
        position: Position,
        timeout: Duration,
        newest: impl Fn() -> F,
    ) -> Result<bool, StoreError>
    where
        F: Future<Output = Result<Option<Position>, StoreError>>,
    {
        let deadline = Instant::now() + timeout.min(MAX_WAIT);
        let mut waiter = self.register(log);
        if let Some(found) = newest().await? {
            // Others may wait for it as well.
            self.ring(log, found);
            if found > position {
                return Ok(true);
            }
        }
        if timeout.is_zero() {
            return Ok(false);
        }
        loop {
            match timeout_at(deadline, waiter.heard.changed()).await {
                Ok(Ok(())) if *waiter.heard.borrow_and_update() > position => return Ok(true),
                Ok(Ok(())) => {}
                Ok(Err(_)) => return Ok(false),
                Err(_) => return Ok(newest().await?.is_some_and(|found| found > position)),
            }
        }
    }

    fn register<'a>(&'a self, log: &'a LogName) -> Waiter<'a> {
        let mut logs = self.logs.lock();
        let known = logs.entry(log.clone()).or_insert_with(|| watch::Sender::new(Position::START));
        Waiter { bell: self, log, heard: known.subscribe() }
    }
}

/// The longest wait; longer ones are reduced to this, so that no clock overflows.
const MAX_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// One who waits. Dropping it ends the wait.
struct Waiter<'a> {
    bell: &'a Doorbell,
    log: &'a LogName,
    heard: watch::Receiver<Position>,
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut logs = self.bell.logs.lock();
        // This receiver still counts.
        if logs.get(self.log).is_some_and(|known| known.receiver_count() <= 1) {
            logs.remove(self.log);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{Future as _, ready};
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn nothing_is_left_of_a_wait_that_has_ended() {
        let bell = Doorbell::default();
        let log = LogName::new("a");
        let newest = || ready(Ok(Some(Position(5))));
        assert!(bell.wait(&log, Position(4), MINUTE, newest).await.unwrap());
        assert!(!bell.wait(&log, Position(5), MINUTE, newest).await.unwrap());
        assert!(bell.logs.lock().is_empty());
        {
            // Two wait, and one of them stops.
            let mut waiting = pin!(bell.wait(&log, Position(5), MINUTE, newest));
            let mut context = Context::from_waker(Waker::noop());
            assert!(waiting.as_mut().poll(&mut context).is_pending());
            {
                let mut other = pin!(bell.wait(&log, Position(5), MINUTE, newest));
                assert!(other.as_mut().poll(&mut context).is_pending());
            }
            bell.ring(&log, Position(6));
            assert!(matches!(waiting.as_mut().poll(&mut context), Poll::Ready(Ok(true))));
        }
        assert!(bell.logs.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_ring_between_registration_and_look_is_heard() {
        let bell = Doorbell::default();
        let log = LogName::new("a");
        // The look at the store is answered from before the append.
        let newest = || {
            bell.ring(&log, Position(7));
            ready(Ok(Some(Position(5))))
        };
        let since = Instant::now();
        assert!(bell.wait(&log, Position(5), MINUTE, newest).await.unwrap());
        assert_eq!(since.elapsed(), Duration::ZERO);
    }
}

//! [`IdleWatch`]: when a listener has had no hosts for some time.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

/// Tells when an [`HttpListener`](super::HttpListener) has had no hosts for some time.
#[derive(Clone, Debug)]
pub struct IdleWatch {
    open: watch::Receiver<usize>,
}

impl IdleWatch {
    pub(crate) fn new(sessions: &OpenSessions) -> Self {
        Self { open: sessions.0.subscribe() }
    }

    /// Waits until no session has existed, and no request of a host without a session was open, for
    /// `duration`, beginning now.
    ///
    /// Dropping the future has no effect.
    pub async fn wait_until_idle_for(&self, duration: Duration) {
        let mut open = self.open.clone();
        loop {
            // The sender is dropped with the listener and its last session, after which there are
            // none.
            let _ = open.wait_for(|open| *open == 0).await;
            let begun = async {
                if open.wait_for(|open| *open > 0).await.is_err() {
                    std::future::pending::<()>().await;
                }
            };
            if timeout(duration, begun).await.is_err() {
                return;
            }
        }
    }
}

/// The number of sessions that exist or are still being served, those of one request included.
#[derive(Debug, Default)]
pub(crate) struct OpenSessions(watch::Sender<usize>);

impl OpenSessions {
    /// Counts one more session, until the result is dropped.
    pub(crate) fn count(&self) -> OpenSession {
        self.0.send_modify(|open| *open += 1);
        OpenSession(self.0.clone())
    }
}

/// One open session.
#[derive(Debug)]
pub(crate) struct OpenSession(watch::Sender<usize>);

impl Drop for OpenSession {
    fn drop(&mut self) {
        self.0.send_modify(|open| *open -= 1);
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::{Pin, pin};
    use std::task::Poll;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    async fn is_ready(mut future: Pin<&mut impl Future<Output = ()>>) -> bool {
        poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_ready())).await
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_begins_when_the_last_session_has_ended() {
        let sessions = OpenSessions::default();
        let watch = IdleWatch::new(&sessions);
        let mut idle = pin!(watch.wait_until_idle_for(LIMIT));
        assert!(!is_ready(idle.as_mut()).await);
        tokio::time::advance(LIMIT / 2).await;
        let (first, second) = (sessions.count(), sessions.count());
        drop(first);
        assert!(!is_ready(idle.as_mut()).await);
        tokio::time::advance(10 * LIMIT).await;
        assert!(!is_ready(idle.as_mut()).await);
        drop(second);
        assert!(!is_ready(idle.as_mut()).await);
        tokio::time::advance(Duration::from_millis(59_998)).await;
        assert!(!is_ready(idle.as_mut()).await);
        tokio::time::advance(Duration::from_millis(4)).await;
        assert!(is_ready(idle.as_mut()).await);
    }
}

//! Short work that nobody waits for: cancellations, answers to the server, handlers at work.
//!
//! It is bounded in number and, where it only sends, in time; and none of it outlives its link.

use std::future::Future;
use std::sync::Mutex;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::link::lock;

/// The errands of one connection, whatever its link is at the moment.
pub(super) struct Errands {
    tasks: TaskTracker,
    /// Ends the errands of the present link.
    link: Mutex<CancellationToken>,
    /// Ends what the present session asked for.
    session: Mutex<CancellationToken>,
    /// A call may be dropped on a thread that has no runtime.
    runtime: Handle,
}

impl Errands {
    /// Must be called within a runtime.
    pub(super) fn new() -> Self {
        Self {
            tasks: TaskTracker::new(),
            link: Mutex::default(),
            session: Mutex::default(),
            runtime: Handle::current(),
        }
    }

    /// Sends something. A server that takes nothing must not make us keep everything: what is too much, or
    /// takes too long, is dropped.
    pub(super) fn send(&self, work: impl Future<Output = ()> + Send + 'static) {
        if self.tasks.len() < MOST {
            self.serve(async move {
                let _ = timeout(SENDING, work).await;
            });
        }
    }

    /// Does something that takes as long as it takes.
    pub(super) fn serve(&self, work: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        self.spawn_until(lock(&self.link).clone(), work)
    }

    /// Answers what the session asks: it goes on over the next link, if that takes up the session.
    pub(super) fn serve_session(&self, work: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        self.spawn_until(lock(&self.session).clone(), work)
    }

    /// The session is over: nobody waits for what it asked.
    pub(super) fn end_session(&self) {
        std::mem::take(&mut *lock(&self.session)).cancel();
    }

    fn spawn_until(
        &self,
        over: CancellationToken,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> AbortHandle {
        let work = async move {
            tokio::select! {
                biased;
                () = over.cancelled() => {}
                () = work => {}
            }
        };
        self.tasks.spawn_on(work, &self.runtime).abort_handle()
    }

    /// The link is over: what comes now belongs to the next one. Gives what ends the errands of this one.
    pub(super) fn part(&self) -> CancellationToken {
        std::mem::take(&mut *lock(&self.link))
    }

    /// Waits a moment for what is still to be sent.
    pub(super) async fn settle(&self) {
        self.tasks.close();
        let _ = timeout(GRACE, self.tasks.wait()).await;
        self.tasks.reopen();
    }
}

/// More than a server that reads its input can make necessary.
const MOST: usize = 1024;
/// For one message to be taken.
const SENDING: Duration = Duration::from_secs(10);
/// For cancellations and answers that are still to be sent when a connection is closed.
const GRACE: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::Arc;

    use super::*;

    /// Counts how many of its clones are still held.
    fn held(marker: &Arc<()>) -> usize {
        Arc::strong_count(marker) - 1
    }

    /// A server that takes nothing does not make us keep everything.
    #[tokio::test(start_paused = true)]
    async fn sends_are_bounded_in_number_and_time() {
        let (errands, marker) = (Errands::new(), Arc::new(()));
        for _ in 0..10 * MOST {
            let marker = Arc::clone(&marker);
            errands.send(async move {
                pending::<()>().await;
                drop(marker);
            });
        }
        assert_eq!(held(&marker), MOST);
        tokio::time::sleep(SENDING * 2).await;
        assert_eq!(held(&marker), 0);
    }

    /// What belongs to a link ends with it; what belongs to the next does not.
    #[tokio::test(start_paused = true)]
    async fn no_errand_outlives_its_link() {
        let (errands, old, new) = (Errands::new(), Arc::new(()), Arc::new(()));
        let work = |marker: &Arc<()>| {
            let marker = Arc::clone(marker);
            async move {
                pending::<()>().await;
                drop(marker);
            }
        };
        errands.serve(work(&old));
        let over = errands.part();
        errands.serve(work(&new));
        errands.settle().await;
        assert_eq!((held(&old), held(&new)), (1, 1));
        over.cancel();
        tokio::time::sleep(GRACE).await;
        assert_eq!((held(&old), held(&new)), (0, 1));
    }
}

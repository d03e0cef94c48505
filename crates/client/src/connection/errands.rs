//! Background tasks of a connection: cancellations, responses to the server, and running handlers.
//!
//! Tasks are bounded in number and, if they only send, in time. No task outlives its link or
//! session.

use std::future::Future;
use std::sync::Mutex;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::link::lock;

/// The background tasks of one connection, across its links.
pub(super) struct Errands {
    tasks: TaskTracker,
    /// Cancels the tasks of the current link.
    link: Mutex<CancellationToken>,
    /// Cancels the tasks of the current session.
    session: Mutex<CancellationToken>,
    /// The runtime to spawn on: a call may be dropped on a thread without one.
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

    /// Spawns a send. It is dropped if too many tasks are running or if it takes too long, so that
    /// a server that reads nothing cannot exhaust memory.
    pub(super) fn send(&self, work: impl Future<Output = ()> + Send + 'static) {
        if self.tasks.len() < MOST {
            self.serve(async move {
                let _ = timeout(SENDING, work).await;
            });
        }
    }

    /// Spawns a task that ends with the current link. Its duration is not limited.
    pub(super) fn serve(&self, work: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        self.spawn_until(lock(&self.link).clone(), work)
    }

    /// Spawns a task that ends with the session. It continues on the next link if that resumes the
    /// session.
    pub(super) fn serve_session(&self, work: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        self.spawn_until(lock(&self.session).clone(), work)
    }

    /// Cancels the tasks of the session, whose requests need no response any more.
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

    /// Starts a new set of tasks for the next link. Returns the token that cancels the tasks of the
    /// old one.
    pub(super) fn part(&self) -> CancellationToken {
        std::mem::take(&mut *lock(&self.link))
    }

    /// Waits up to [`DRAIN_TIMEOUT`] for pending sends.
    pub(super) async fn settle(&self) {
        self.tasks.close();
        let _ = timeout(GRACE, self.tasks.wait()).await;
        self.tasks.reopen();
    }
}

/// Maximum number of tasks at which a send is still accepted.
const MOST: usize = 1024;
/// Timeout for one message to be sent.
const SENDING: Duration = Duration::from_secs(10);
/// Maximum time that closing a connection waits for pending sends.
const GRACE: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::Arc;

    use super::*;

    /// Number of clones that are still held.
    fn held(marker: &Arc<()>) -> usize {
        Arc::strong_count(marker) - 1
    }

    /// A server that reads nothing cannot make the tasks pile up.
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

    /// Tasks of a link end with it; tasks of the next link do not.
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

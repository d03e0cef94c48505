//! Background tasks of a connection: cancellations, responses to the server, and running handlers.
//!
//! Tasks are bounded in number and, if they only send, in time. No task outlives its link or
//! session.

use std::future::Future;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The background tasks of one connection, across its links.
pub(crate) struct BackgroundTasks {
    tasks: TaskTracker,
    /// Cancels the tasks of the current link.
    link: Mutex<CancellationToken>,
    /// Cancels the tasks of the current session.
    session: Mutex<CancellationToken>,
    /// The runtime to spawn on: a call may be dropped on a thread without one.
    runtime: Handle,
}

impl BackgroundTasks {
    /// Must be called within a runtime.
    pub(crate) fn new() -> Self {
        Self {
            tasks: TaskTracker::new(),
            link: Mutex::default(),
            session: Mutex::default(),
            runtime: Handle::current(),
        }
    }

    /// Spawns a send. It is dropped if too many tasks are running or if it takes too long, so that
    /// a server that reads nothing cannot exhaust memory.
    pub(crate) fn spawn_send(&self, work: impl Future<Output = ()> + Send + 'static) {
        if self.tasks.len() < MAX_BACKGROUND_TASKS {
            self.spawn(async move {
                let _ = timeout(SEND_TIMEOUT, work).await;
            });
        }
    }

    /// Spawns a task that ends with the current link. Its duration is not limited.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        self.spawn_until(self.link.lock().clone(), work)
    }

    /// Spawns a task that ends with the session. It continues on the next link if that resumes the
    /// session.
    pub(crate) fn spawn_for_session(&self, work: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        self.spawn_until(self.session.lock().clone(), work)
    }

    /// Cancels the tasks of the session, whose requests need no response any more.
    pub(crate) fn cancel_session_tasks(&self) {
        std::mem::take(&mut *self.session.lock()).cancel();
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
    pub(crate) fn detach_link(&self) -> CancellationToken {
        std::mem::take(&mut *self.link.lock())
    }

    /// Waits up to [`DRAIN_TIMEOUT`] for pending sends.
    pub(crate) async fn drain(&self) {
        self.tasks.close();
        let _ = timeout(DRAIN_TIMEOUT, self.tasks.wait()).await;
        self.tasks.reopen();
    }
}

/// Maximum number of tasks at which a send is still accepted.
const MAX_BACKGROUND_TASKS: usize = 1024;
/// Timeout for one message to be sent.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum time that closing a connection waits for pending sends.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

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
        let (errands, marker) = (BackgroundTasks::new(), Arc::new(()));
        for _ in 0..10 * MAX_BACKGROUND_TASKS {
            let marker = Arc::clone(&marker);
            errands.spawn_send(async move {
                pending::<()>().await;
                drop(marker);
            });
        }
        assert_eq!(held(&marker), MAX_BACKGROUND_TASKS);
        tokio::time::sleep(SEND_TIMEOUT * 2).await;
        assert_eq!(held(&marker), 0);
    }

    /// Tasks of a link end with it; tasks of the next link do not.
    #[tokio::test(start_paused = true)]
    async fn no_task_outlives_its_link() {
        let (errands, old, new) = (BackgroundTasks::new(), Arc::new(()), Arc::new(()));
        let work = |marker: &Arc<()>| {
            let marker = Arc::clone(marker);
            async move {
                pending::<()>().await;
                drop(marker);
            }
        };
        errands.spawn(work(&old));
        let over = errands.detach_link();
        errands.spawn(work(&new));
        errands.drain().await;
        assert_eq!((held(&old), held(&new)), (1, 1));
        over.cancel();
        tokio::time::sleep(DRAIN_TIMEOUT).await;
        assert_eq!((held(&old), held(&new)), (0, 1));
    }
}

//! Short work that nobody waits for: cancellations, answers to the server, handlers at work.
//!
//! It is bounded in number and, where it only sends, in time; and none of it outlives its link.

use std::future::Future;
use std::sync::Mutex;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::link::lock;

/// The errands of one connection, whatever its link is at the moment.
pub(super) struct Errands {
    tasks: TaskTracker,
    /// Ends the errands of the present link.
    link: Mutex<CancellationToken>,
    /// A call may be dropped on a thread that has no runtime.
    runtime: Handle,
}

impl Errands {
    /// Must be called within a runtime.
    pub(super) fn new() -> Self {
        Self { tasks: TaskTracker::new(), link: Mutex::default(), runtime: Handle::current() }
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
    pub(super) fn serve(&self, work: impl Future<Output = ()> + Send + 'static) -> tokio::task::AbortHandle {
        let link = lock(&self.link).clone();
        let work = async move {
            tokio::select! {
                biased;
                () = link.cancelled() => {}
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

//! What the host asked and has no answer to yet: each a task, so many at most, and each can be taken back.
//! Whoever has more to ask waits.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline::wire::{Id, Json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

/// Requests of the host that are under way.
#[derive(Clone, Debug)]
pub(crate) struct Requests {
    room: Arc<Semaphore>,
    tasks: TaskTracker,
    /// By the text of the id: `1` and `"1"` are two.
    open: Arc<Mutex<HashMap<String, AbortHandle>>>,
}

/// One with the same id is under way: to answer this one would be to answer that one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Twice;

impl Requests {
    /// More at once than any host has; each keeps a task and perhaps a result.
    pub(crate) const MOST: usize = 512;

    /// Begins `work`, which ends with the answer to `id`, as soon as there is room for it.
    ///
    /// Dropping the future before that begins nothing.
    pub(crate) async fn begin(
        &self,
        id: &Id,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), Twice> {
        let place = Arc::clone(&self.room).acquire_owned().await.expect("it is never closed");
        let key = id.to_string();
        // Held until the entry is in, so that quick work cannot take it out before.
        let mut open = self.open();
        if open.contains_key(&key) {
            return Err(Twice);
        }
        let entry = Entry { open: Arc::clone(&self.open), key: key.clone(), _place: place };
        let task = self.tasks.spawn(async move {
            work.await;
            drop(entry);
        });
        open.insert(key, task.abort_handle());
        Ok(())
    }

    /// The host no longer wants the answer to the request with the id in `params`.
    pub(crate) fn cancel(&self, params: Option<&Json>) {
        let id = params.and_then(|params| params.member("requestId"));
        // Taken out first: the task takes itself out when it is dropped, and wants the lock.
        let task = id.and_then(|id| self.open().get(id.as_str()).cloned());
        if let Some(task) = task {
            task.abort();
        }
    }

    /// Lets what is under way be answered, for so long.
    pub(crate) async fn settle(&self, patience: Duration) {
        self.tasks.close();
        let _ = timeout(patience, self.tasks.wait()).await;
    }

    /// Ends what is under way, without an answer.
    pub(crate) async fn end(&self) {
        let tasks: Vec<_> = self.open().values().cloned().collect();
        for task in tasks {
            task.abort();
        }
        self.tasks.close();
        self.tasks.wait().await;
    }

    fn open(&self) -> MutexGuard<'_, HashMap<String, AbortHandle>> {
        lock(&self.open)
    }
}

impl Default for Requests {
    fn default() -> Self {
        let room = Arc::new(Semaphore::new(Self::MOST));
        Self { room, tasks: TaskTracker::new(), open: Arc::default() }
    }
}

/// A request that is under way. Takes itself out however its task ends.
struct Entry {
    open: Arc<Mutex<HashMap<String, AbortHandle>>>,
    key: String,
    _place: OwnedSemaphorePermit,
}

impl Drop for Entry {
    fn drop(&mut self) {
        lock(&self.open).remove(&self.key);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! Requests of the host that are under way: each is a task that can be canceled. A bounded number
//! runs at once, more wait, and the rest is refused. The host is read all the while, so that its
//! cancellations and responses are never stuck behind its requests.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline::wire::{Id, Json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

/// The open requests of the host.
#[derive(Clone, Debug)]
pub(crate) struct HostRequests {
    /// One permit per running request.
    running: Arc<Semaphore>,
    /// One permit per KiB of the requests that wait to run.
    waiting: Arc<Semaphore>,
    tasks: TaskTracker,
    /// Tasks by the JSON text of the id: `1` and `"1"` differ.
    open: Arc<Mutex<HashMap<String, AbortHandle>>>,
}

/// Why a request is not started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestRefusal {
    /// A request with the same id is open: a response to one would also be a response to the other.
    DuplicateId,
    /// The maximum is running, and no more can wait.
    Full,
}

impl HostRequests {
    /// How many requests run at once: more than any host sends. Each holds a task and perhaps a
    /// result.
    pub(crate) const MAX_RUNNING: usize = 512;

    /// Spawns `work`, which sends the response to `id`: now, or when there is room for it. `size`
    /// is how many bytes the request holds until then.
    pub(crate) fn spawn(
        &self,
        id: &Id,
        size: usize,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), RequestRefusal> {
        let key = id.to_string();
        // Locked until the task is registered, so that quick work cannot remove it before.
        let mut open = self.open();
        if open.contains_key(&key) {
            return Err(RequestRefusal::DuplicateId);
        }
        let place = self.acquire_permit(size).ok_or(RequestRefusal::Full)?;
        let entry = OpenRequestGuard { open: Arc::clone(&self.open), key: key.clone() };
        let running = Arc::clone(&self.running);
        let task = self.tasks.spawn(async move {
            let place = match place {
                RequestPermit::Running(permit) => permit,
                RequestPermit::Waiting(permit) => {
                    let running = running.acquire_owned().await.expect("it is never closed");
                    drop(permit);
                    running
                }
            };
            work.await;
            drop(place);
            drop(entry);
        });
        open.insert(key, task.abort_handle());
        Ok(())
    }

    fn acquire_permit(&self, size: usize) -> Option<RequestPermit> {
        if let Ok(permit) = Arc::clone(&self.running).try_acquire_owned() {
            return Some(RequestPermit::Running(permit));
        }
        let kib = u32::try_from(size / 1024).unwrap_or(u32::MAX).max(MIN_WAITING_KIB);
        Arc::clone(&self.waiting).try_acquire_many_owned(kib).ok().map(RequestPermit::Waiting)
    }

    /// Cancels the request whose id is in `params`.
    pub(crate) fn cancel(&self, params: Option<&Json>) {
        let id = params.and_then(|params| params.member("requestId"));
        // Cloned first: the task removes itself when it is dropped, and needs the lock.
        let task = id.and_then(|id| self.open().get(id.as_str()).cloned());
        if let Some(task) = task {
            task.abort();
        }
    }

    /// Waits at most `drain_timeout` until all open requests are answered.
    pub(crate) async fn drain(&self, drain_timeout: Duration) {
        self.tasks.close();
        let _ = timeout(drain_timeout, self.tasks.wait()).await;
    }

    /// Aborts all open requests, without a response.
    pub(crate) async fn abort_all(&self) {
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

impl Default for HostRequests {
    fn default() -> Self {
        let running = Arc::new(Semaphore::new(Self::MAX_RUNNING));
        let waiting = Arc::new(Semaphore::new(MAX_WAITING_KIB));
        Self { running, waiting, tasks: TaskTracker::new(), open: Arc::default() }
    }
}

/// The permit that a request holds while it is open.
enum RequestPermit {
    Running(OwnedSemaphorePermit),
    Waiting(OwnedSemaphorePermit),
}

/// How many KiB of requests may wait to run: 64 MiB, or 4,096 small ones.
const MAX_WAITING_KIB: usize = 64 * 1024;
/// The least that a waiting request counts for: its task and its map entry use memory too.
const MIN_WAITING_KIB: u32 = 16;

/// Removes a request from the open ones, however its task ends.
struct OpenRequestGuard {
    open: Arc<Mutex<HashMap<String, AbortHandle>>>,
    key: String,
}

impl Drop for OpenRequestGuard {
    fn drop(&mut self) {
        lock(&self.open).remove(&self.key);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    fn full() -> HostRequests {
        let requests = HostRequests::default();
        for id in 0..512 {
            assert_eq!(requests.spawn(&Id::Int(id), 0, pending()), Ok(()));
        }
        requests
    }

    fn cancel(requests: &HostRequests, id: i64) {
        requests.cancel(Some(&Json::parse(format!(r#"{{"requestId":{id}}}"#)).unwrap()));
    }

    /// Large requests use up the room for waiting ones sooner than small ones.
    #[tokio::test]
    async fn what_waits_is_bounded_in_bytes_and_in_number() {
        let requests = full();
        assert_eq!(requests.spawn(&Id::Int(1000), 64 * 1024 * 1024, pending()), Ok(()));
        assert_eq!(requests.spawn(&Id::Int(1001), 0, pending()), Err(RequestRefusal::Full));
        assert_eq!(requests.spawn(&Id::Int(1000), 0, pending()), Err(RequestRefusal::DuplicateId));
        let requests = full();
        for id in 1000..1000 + 4096 {
            assert_eq!(requests.spawn(&Id::Int(id), 100, pending()), Ok(()));
        }
        assert_eq!(requests.spawn(&Id::Int(0x1000_0000), 0, pending()), Err(RequestRefusal::Full));
    }

    #[tokio::test]
    async fn what_waits_runs_in_its_turn_and_can_be_cancelled() {
        let requests = full();
        let (sender, mut ran) = tokio::sync::mpsc::unbounded_channel();
        for id in [1000, 1001, 1002] {
            let sender = sender.clone();
            let work = async move { sender.send(id).unwrap() };
            assert_eq!(requests.spawn(&Id::Int(id), 0, work), Ok(()));
        }
        cancel(&requests, 1001);
        cancel(&requests, 7);
        assert_eq!((ran.recv().await, ran.recv().await), (Some(1000), Some(1002)));
        requests.abort_all().await;
        assert!(ran.try_recv().is_err());
    }
}

//! A thread with its own runtime per server, so that dropping the server's handle ends everything
//! at once and the server does not depend on the test's runtime.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::{Arc, mpsc};
use std::task::Poll;
use std::thread;

use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A running server thread. Dropping it ends all its tasks, and resumes the first panic among them
/// unless the dropping thread is panicking already.
pub(crate) struct ServerThread {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
    pub(crate) spawner: Spawner,
}

impl ServerThread {
    pub(crate) fn start(name: &str) -> Self {
        let (stop, stopped) = oneshot::channel::<()>();
        let (give, take) = mpsc::channel();
        let thread = thread::Builder::new()
            .name(name.into())
            .spawn(move || {
                let runtime =
                    Builder::new_current_thread().enable_all().build().expect("a runtime can be built");
                let _ = give.send(runtime.handle().clone());
                runtime.block_on(async {
                    let _ = stopped.await;
                });
            })
            .expect("a thread can be started");
        let handle = take.recv().expect("the thread sends its handle");
        let tasks = Spawner { handle, first_panic: Arc::default() };
        Self { stop: Some(stop), thread: Some(thread), spawner: tasks }
    }

    /// Runs a future on the thread and waits for its output.
    pub(crate) async fn run<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> T {
        match self.spawner.spawn(work).await {
            Ok(Some(out)) => out,
            Ok(None) | Err(_) => panic!("a task of the test server panicked"),
        }
    }
}

impl Drop for ServerThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        let joined = self.thread.take().map_or(Ok(()), thread::JoinHandle::join);
        if thread::panicking() {
            return;
        }
        if let Some(panic) = self.spawner.first_panic.lock().take() {
            resume_unwind(panic);
        }
        if let Err(panic) = joined {
            resume_unwind(panic);
        }
    }
}

/// Spawns tasks onto a [`ServerThread`], and keeps the first panic.
#[derive(Clone)]
pub(crate) struct Spawner {
    handle: Handle,
    first_panic: Arc<Mutex<Option<Box<dyn Any + Send>>>>,
}

impl Spawner {
    /// Spawns a task. Its output is `None` if it panicked.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<Option<T>> {
        let mut task: Pin<Box<dyn Future<Output = T> + Send>> = Box::pin(task);
        let first_panic = self.first_panic.clone();
        self.handle.spawn(poll_fn(move |cx| {
            match catch_unwind(AssertUnwindSafe(|| task.as_mut().poll(cx))) {
                Ok(Poll::Pending) => Poll::Pending,
                Ok(Poll::Ready(out)) => Poll::Ready(Some(out)),
                Err(panic) => {
                    first_panic.lock().get_or_insert(panic);
                    Poll::Ready(None)
                }
            }
        }))
    }
}

impl<F> hyper::rt::Executor<F> for Spawner
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, task: F) {
        self.spawn(task);
    }
}

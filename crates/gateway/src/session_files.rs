//! [`SessionFiles`]: sessions of hosts in files, so that they outlive the process.

mod folder;
mod format;
mod owner;
mod shared_folder;

use std::mem;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bowline_server::{RecordCheck, SessionIdKey, SessionStore, SessionStoreFuture, StoredSession};
use bowline_store::StoreError;
use tokio::sync::oneshot;

use folder::SessionFolder;
use shared_folder::{AppendOutcome, SharedFolder, WriteOutcome};

/// Keeps sessions of hosts in a folder, one encrypted file for each.
///
/// To record a call costs one write to a file, without a wait for the disk. What was recorded survives
/// the sudden end of the process, but perhaps not that of the machine, with which the connections of
/// its hosts end as well.
///
/// Any number of processes can use one folder. A session is served by one of them; another one goes on
/// with it when that one has ended.
#[derive(Debug)]
pub struct SessionFiles(Arc<Files>);

/// The files, and the way to their thread.
#[derive(Debug)]
struct Files {
    folder: Arc<SharedFolder>,
    id_key: SessionIdKey,
    jobs: SyncSender<Job>,
}

/// Writes an entry that is queued, with others, when it is polled or dropped for the first time: the
/// caller may still hold a lock that others wait for.
struct QueuedAppend {
    files: Arc<Files>,
    is_begun: bool,
    result: oneshot::Receiver<Result<(), String>>,
}

/// What the thread of the files is to do.
enum Job {
    Save {
        session: Box<str>,
        record: Vec<u8>,
        lifetime: Duration,
        done: oneshot::Sender<Result<(), String>>,
    },
    Append {
        session: Box<str>,
        entry: Vec<u8>,
        done: oneshot::Sender<Result<(), String>>,
    },
    Touch {
        session: Box<str>,
        lifetime: Duration,
    },
    Remove {
        session: Box<str>,
        done: oneshot::Sender<Result<(), String>>,
    },
    Load {
        session: Box<str>,
        accepts: RecordCheck,
        done: oneshot::Sender<Result<Option<StoredSession>, String>>,
    },
    /// Writes what callers have queued. It is not counted: what is appended meanwhile joins it.
    WriteQueued,
    Flush {
        done: oneshot::Sender<Result<(), String>>,
    },
    Release,
}

/// How many jobs may wait for the thread.
const MAX_QUEUED_JOBS: usize = 4 * 1024;
const TOO_SLOW: &str = "the files of sessions are too slow";
const THREAD_HAS_ENDED: &str = "the thread for files of sessions has ended";
/// How often files of sessions that have ended are looked for.
const SWEEP_INTERVAL: Duration = Duration::from_secs(10 * 60);

impl SessionFiles {
    /// Opens a folder, which is created if need be, with a key that only the user can read. This
    /// blocks.
    ///
    /// # Errors
    /// The error is [`StoreError::Unusable`] if something else is where the key should be. Without it
    /// the sessions in the folder are of no use.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        let folder = SessionFolder::open(folder)?;
        let id_key = SessionIdKey::new(&folder.key().derive("ids of sessions"));
        let folder = Arc::new(SharedFolder::new(folder));
        let (jobs, to_do) = mpsc::sync_channel(MAX_QUEUED_JOBS);
        let shared = Arc::clone(&folder);
        std::thread::Builder::new()
            .name("bowline-sessions".into())
            .spawn(move || work(&shared, &to_do))
            .map_err(|error| StoreError::Unavailable(format!("cannot start a thread: {error}")))?;
        Ok(Self(Arc::new(Files { folder, id_key, jobs })))
    }
}

impl Files {
    /// Passes a job to the thread. Returns whether there is room for it.
    fn try_send(&self, job: Job) -> bool {
        self.folder.begin_job();
        let is_sent = self.jobs.try_send(job).is_ok();
        if !is_sent {
            self.folder.end_job();
        }
        is_sent
    }

    /// Queues a job that nobody waits for.
    fn queue(&self, job: Job) {
        if !self.try_send(job) {
            tracing::warn!("what has become of a session was not recorded: its files are too slow");
        }
    }

    /// Queues a job with a result.
    fn request<T: Send + 'static>(
        &self,
        job: impl FnOnce(oneshot::Sender<Result<T, String>>) -> Job,
    ) -> SessionStoreFuture<T> {
        let (done, result) = oneshot::channel();
        if !self.try_send(job(done)) {
            return Box::pin(std::future::ready(Err(TOO_SLOW.to_owned())));
        }
        Box::pin(async { result.await.unwrap_or_else(|_| Err(THREAD_HAS_ENDED.to_owned())) })
    }

    /// Writes what is queued, or leaves it to the thread.
    fn write_queued(&self) {
        if self.folder.write_queued() == WriteOutcome::LeftToThread {
            // A thread that has no room for it looks at the queue before each of its jobs.
            let _ = self.jobs.try_send(Job::WriteQueued);
        }
    }
}

impl SessionStore for SessionFiles {
    fn id_key(&self) -> SessionIdKey {
        self.0.id_key.clone()
    }

    fn save(&self, session: &str, record: Vec<u8>, lifetime: Duration) -> SessionStoreFuture<()> {
        self.0.request(|done| Job::Save { session: session.into(), record, lifetime, done })
    }

    fn append(&self, session: &str, entry: Vec<u8>, _lifetime: Duration) -> SessionStoreFuture<()> {
        // The thread of the caller does it if it can: to wake another one takes many times as long.
        match self.0.folder.queue(session, entry) {
            AppendOutcome::Queued(result) => {
                Box::pin(QueuedAppend { files: Arc::clone(&self.0), is_begun: false, result })
            }
            AppendOutcome::AfterJobs(entry) => {
                self.0.request(|done| Job::Append { session: session.into(), entry, done })
            }
            AppendOutcome::Refused => Box::pin(std::future::ready(Err(TOO_SLOW.to_owned()))),
        }
    }

    fn touch(&self, session: &str, lifetime: Duration) {
        self.0.queue(Job::Touch { session: session.into(), lifetime });
    }

    fn remove(&self, session: &str) -> SessionStoreFuture<()> {
        self.0.request(|done| Job::Remove { session: session.into(), done })
    }

    fn load(&self, session: &str, accepts: RecordCheck) -> SessionStoreFuture<Option<StoredSession>> {
        self.0.request(|done| Job::Load { session: session.into(), accepts, done })
    }

    fn flush(&self) -> SessionStoreFuture<()> {
        self.0.request(|done| Job::Flush { done })
    }

    fn release(&self) {
        self.0.queue(Job::Release);
    }
}

impl QueuedAppend {
    fn begin(&mut self) {
        if !mem::replace(&mut self.is_begun, true) {
            self.files.write_queued();
        }
    }
}

impl Future for QueuedAppend {
    type Output = Result<(), String>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.begin();
        let result = Pin::new(&mut self.result).poll(cx);
        result.map(|result| result.unwrap_or_else(|_| Err(THREAD_HAS_ENDED.to_owned())))
    }
}

impl Drop for QueuedAppend {
    fn drop(&mut self) {
        self.begin();
    }
}

/// Carries out jobs in their order, until there can be no more.
fn work(folder: &SharedFolder, jobs: &Receiver<Job>) {
    let sweep = || folder.with_folder(|folder| folder.sweep(format::now_ms()));
    sweep();
    let mut next_sweep = Instant::now() + SWEEP_INTERVAL;
    loop {
        match jobs.recv_timeout(next_sweep.saturating_duration_since(Instant::now())) {
            Ok(Job::WriteQueued) => folder.write_all_queued(),
            Ok(job) => {
                folder.with_folder(|folder| carry_out(folder, job));
                folder.end_job();
            }
            Err(RecvTimeoutError::Timeout) => {
                sweep();
                next_sweep = Instant::now() + SWEEP_INTERVAL;
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn carry_out(folder: &mut SessionFolder, job: Job) {
    // Whoever waits for a result may be gone.
    match job {
        Job::Save { session, record, lifetime, done } => {
            let _ = done.send(folder.save(&session, &record, lifetime).map_err(|error| error.to_string()));
        }
        Job::Append { session, entry, done } => {
            let _ = done.send(folder.append(&session, [&*entry]).map_err(|error| error.to_string()));
        }
        Job::Touch { session, lifetime } => report(folder.touch(&session, lifetime)),
        Job::Remove { session, done } => {
            let _ = done.send(folder.remove(&session).map_err(|error| error.to_string()));
        }
        Job::Load { session, accepts, done } => {
            let _ = done.send(folder.load(&session, accepts).map_err(|error| error.to_string()));
        }
        Job::WriteQueued => {}
        Job::Flush { done } => drop(done.send(Ok(()))),
        Job::Release => folder.release(),
    }
}

fn report(outcome: Result<(), StoreError>) {
    if let Err(error) = outcome {
        tracing::warn!(%error, "a session could not be recorded");
    }
}

#[cfg(test)]
mod tests;

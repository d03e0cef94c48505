//! Owns the thread that uses the SQLite file: it retries while the file is busy, for a bounded
//! time, and maps errors.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, Transaction};
use tokio::sync::oneshot;

use super::clock::WallClock;
use super::file::{FileStatus, OpenFile};
use super::group::{self, Change, MAX_GROUP};
use super::lifetime::Sweeper;
use super::schema::Journal;
use crate::log::Doorbell;
use crate::{Durability, StoreError, StoreFuture};

/// How long other processes may keep the file busy.
const BUSY_TIMEOUT: Duration = Duration::from_secs(15);

/// The wait before a busy file is tried again. SQLite usually waits by itself, but not during
/// opening and recovery.
const BUSY_RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// How often changes of other processes are looked for while somebody waits for a log.
const POLL_INTERVAL: Duration = Duration::from_millis(25);

/// An operation on the file.
enum Job {
    /// One that runs alone, such as a read.
    Alone(Box<dyn FnOnce(&mut OpenFile) + Send>),
    /// A change that may share a transaction with those queued next to it.
    Change(Box<dyn Change>),
}

/// A handle to the thread. When it is dropped, the thread ends and closes the file.
pub(super) struct StoreThread {
    jobs: mpsc::Sender<Job>,
}

impl StoreThread {
    /// Starts a thread that has the file open. Also returns messages for the user.
    pub(super) async fn start(
        path: &Path,
        clock: WallClock,
        bell: Arc<Doorbell>,
    ) -> Result<(Self, Vec<String>), StoreError> {
        let (jobs, to_do) = mpsc::channel::<Job>();
        let (ready, opened) = oneshot::channel();
        let path = path.to_owned();
        std::thread::Builder::new()
            .name("bowline-store".into())
            .spawn(move || {
                let mut notes = Vec::new();
                match open(&path, &mut notes) {
                    Err(error) => drop(ready.send(Err(error))),
                    Ok(file) => {
                        // A caller that stopped waiting has dropped the sender of jobs too, so the
                        // loop ends.
                        let _ = ready.send(Ok(notes));
                        let poll = Poll { bell, seen: None, last: Instant::now() };
                        Worker { file, jobs: to_do, clock, sweeper: Sweeper::default(), poll }.run();
                    }
                }
            })
            .map_err(|error| StoreError::Unavailable(format!("cannot start a thread: {error}")))?;
        let notes = opened.await.map_err(|_| thread_ended_error())??;
        Ok((Self { jobs }, notes))
    }

    /// Runs an operation. It is queued before the future is first polled, and runs even if the
    /// future is dropped.
    pub(super) fn run<T: Send + 'static>(
        &self,
        mut job: impl FnMut(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> StoreFuture<'static, T> {
        let (done, result) = oneshot::channel();
        let sent = self.jobs.send(Job::Alone(Box::new(move |file| {
            let result =
                follow_replacement(file).and_then(|()| retry_while_busy(&file.path, || job(&mut file.db)));
            let _ = done.send(result);
        })));
        let sent = sent.map_err(|_| thread_ended_error());
        Box::pin(async move {
            sent?;
            result.await.map_err(|_| thread_ended_error())?
        })
    }

    /// Runs a change in a transaction, which it may share with others. Like [`StoreThread::run`]
    /// otherwise. The job gets the time in milliseconds since the epoch. `on_commit` is called on the
    /// thread, even if the future was dropped.
    pub(super) fn change<T: Send + 'static>(
        &self,
        durability: Durability,
        job: impl FnMut(&Transaction<'_>, i64) -> rusqlite::Result<T> + Send + 'static,
        on_commit: impl FnOnce(&T) + Send + 'static,
    ) -> StoreFuture<'static, T> {
        let (change, result) = group::new_change(durability, job, on_commit);
        match self.jobs.send(Job::Change(change)) {
            Ok(()) => result,
            Err(_) => Box::pin(std::future::ready(Err(thread_ended_error()))),
        }
    }
}

/// What the thread owns.
struct Worker {
    file: OpenFile,
    jobs: mpsc::Receiver<Job>,
    clock: WallClock,
    sweeper: Sweeper,
    poll: Poll,
}

impl Worker {
    /// Runs jobs in order, until the handle is dropped.
    fn run(mut self) {
        let mut next = None;
        while let Some(job) = next.take().or_else(|| self.receive()) {
            match job {
                Job::Alone(job) => job(&mut self.file),
                Job::Change(change) => {
                    let mut changes = vec![change];
                    while changes.len() < MAX_GROUP {
                        match self.jobs.try_recv() {
                            Ok(Job::Change(change)) => changes.push(change),
                            other => {
                                next = other.ok();
                                break;
                            }
                        }
                    }
                    group::commit(&mut self.file, &self.clock, &mut self.sweeper, changes);
                }
            }
        }
    }

    fn receive(&mut self) -> Option<Job> {
        loop {
            // Whoever begins to wait for a log sends a job, which ends this call.
            if self.poll.bell.is_idle() {
                return self.jobs.recv().ok();
            }
            self.poll.run_if_due(&mut self.file, &self.clock);
            match self.jobs.recv_timeout(POLL_INTERVAL) {
                Ok(job) => return Some(job),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
    }
}

/// Notices what other processes append.
struct Poll {
    bell: Arc<Doorbell>,
    /// What the last look has found.
    seen: Option<FileState>,
    last: Instant,
}

/// What tells whether another process has appended something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileState {
    /// SQLite's number of the state of the file, which another connection's commit changes.
    data_version: i64,
    /// The last position of all logs.
    position: i64,
}

impl Poll {
    fn run_if_due(&mut self, file: &mut OpenFile, clock: &WallClock) {
        if self.seen.is_some() && self.last.elapsed() < POLL_INTERVAL {
            return;
        }
        self.last = Instant::now();
        let found = follow_replacement(file)
            .and_then(|()| self.run(file, clock).map_err(|error| to_store_error(&file.path, &error)));
        if let Err(error) = found {
            // Those who wait learn of it when they read the file.
            tracing::debug!(%error, "cannot look for changes of other processes");
        }
    }

    fn run(&mut self, file: &OpenFile, clock: &WallClock) -> rusqlite::Result<()> {
        let data_version: i64 =
            file.db.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
        if self.seen.is_some_and(|seen| seen.data_version == data_version) {
            return Ok(());
        }
        let position: i64 =
            file.db.prepare_cached("SELECT position FROM clock")?.query_row([], |row| row.get(0))?;
        if self.seen.is_none_or(|seen| seen.position != position) {
            for (log, _) in self.bell.awaited_logs() {
                if let Some(newest) = super::log::newest_position(&file.db, clock.now_ms(), &log)? {
                    self.bell.ring(&log, newest);
                }
            }
        }
        self.seen = Some(FileState { data_version, position });
        Ok(())
    }
}

/// Switches to the file that has replaced the open one, if there is one.
pub(super) fn follow_replacement(file: &mut OpenFile) -> Result<(), StoreError> {
    if let FileStatus::Same = file.status()? {
        return Ok(());
    }
    let mut notes = Vec::new();
    super::file::restrict_files(&file.path, &mut notes)?;
    let another = open_existing(&file.path, &mut notes)?;
    super::replacement::check_same_key(file, &another)?;
    tracing::info!(file = %file.path.display(), "the store was replaced by another file, which is used from now on");
    for note in notes {
        tracing::info!("{note}");
    }
    *file = another;
    Ok(())
}

fn open(path: &Path, notes: &mut Vec<String>) -> Result<OpenFile, StoreError> {
    super::file::prepare(path, notes)?;
    open_existing(path, notes)
}

fn open_existing(path: &Path, notes: &mut Vec<String>) -> Result<OpenFile, StoreError> {
    let db = retry_while_busy(path, || super::schema::connect(path))?;
    let version = retry_while_busy(path, || super::schema::read_header(&db))?;
    super::schema::check_header(path, &version)?;
    let mut file = OpenFile::new(path, db)?;
    let journal =
        if super::network_fs::is_network_fs(path) { Journal::Rollback } else { Journal::WriteAhead };
    let mode = retry_while_busy(path, || super::schema::upgrade(&mut file.db, journal))?;
    file.has_write_ahead_log = match journal {
        Journal::WriteAhead => mode.is_none(),
        Journal::Rollback => mode.as_deref() == Some("wal"),
    };
    super::file::restrict_files(path, notes)?;
    notes.extend(mode.map(|mode| match journal {
        Journal::WriteAhead => format!(
            "{} is in journal mode {mode}: its file system cannot do better, and is slower",
            path.display()
        ),
        Journal::Rollback => format!(
            "{} is on a network file system and in journal mode {mode}, which is not safe there: end every bowline \
             that uses it once, or keep logins in Valkey (`[store]` in the configuration)",
            path.display()
        ),
    }));
    Ok(file)
}

/// Runs an operation, retrying while other processes keep the file busy.
pub(super) fn retry_while_busy<T>(
    path: &Path,
    mut job: impl FnMut() -> rusqlite::Result<T>,
) -> Result<T, StoreError> {
    let since = Instant::now();
    loop {
        match job() {
            Ok(done) => return Ok(done),
            Err(error) if is_busy(&error) && since.elapsed() < BUSY_TIMEOUT => {
                std::thread::park_timeout(BUSY_RETRY_INTERVAL);
            }
            Err(error) => return Err(to_store_error(path, &error)),
        }
    }
}

pub(super) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// Maps an error of SQLite. The file is left alone in every case.
pub(super) fn to_store_error(path: &Path, error: &rusqlite::Error) -> StoreError {
    let path = path.display();
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Unavailable(format!(
            "{path} is locked by another bowline process, which does not go on; `bowline ps` lists what runs, and \
                 a process that was stopped can be continued or ended"
        )),
        Some(ErrorCode::NotADatabase) => {
            StoreError::Unusable(format!("{path} is not a SQLite file; move it away to start anew"))
        }
        Some(ErrorCode::DatabaseCorrupt) => {
            StoreError::Unusable(format!("{path} is damaged: {error}; move it away to start anew"))
        }
        Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied | ErrorCode::ReadOnly) => {
            StoreError::Unusable(format!("{path} cannot be opened for writing: {error}"))
        }
        Some(ErrorCode::DiskFull) => StoreError::Unavailable(format!("the disk of {path} is full")),
        Some(ErrorCode::SystemIoFailure) => StoreError::Unavailable(format!("{path} fails: {error}")),
        _ => StoreError::Unusable(format!("{path} cannot be used: {error}")),
    }
}

pub(super) fn thread_ended_error() -> StoreError {
    StoreError::Unavailable("the thread of the store has ended".into())
}

impl fmt::Debug for StoreThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Thread")
    }
}

//! Owns the thread that uses the SQLite file: it retries while the file is busy, for a bounded
//! time, and maps errors.

use std::fmt;
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode};
use tokio::sync::oneshot;

use super::file::{FileStatus, OpenFile};
use super::schema::Journal;
use crate::{StoreError, StoreFuture};

/// How long other processes may keep the file busy.
const BUSY_TIMEOUT: Duration = Duration::from_secs(15);

/// The wait before a busy file is tried again. SQLite usually waits by itself, but not during
/// opening and recovery.
const BUSY_RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// An operation on the file.
type Job = Box<dyn FnOnce(&mut OpenFile) + Send>;

/// A handle to the thread. When it is dropped, the thread ends and closes the file.
pub(super) struct StoreThread {
    jobs: mpsc::Sender<Job>,
}

impl StoreThread {
    /// Starts a thread that has the file open. Also returns messages for the user.
    pub(super) async fn start(path: &Path) -> Result<(Self, Vec<String>), StoreError> {
        let (jobs, to_do) = mpsc::channel::<Job>();
        let (ready, opened) = oneshot::channel();
        let path = path.to_owned();
        std::thread::Builder::new()
            .name("bowline-store".into())
            .spawn(move || {
                let mut notes = Vec::new();
                match open(&path, &mut notes) {
                    Err(error) => drop(ready.send(Err(error))),
                    Ok(mut file) => {
                        // A caller that stopped waiting has dropped the sender of jobs too, so the
                        // loop ends.
                        let _ = ready.send(Ok(notes));
                        for job in to_do {
                            job(&mut file);
                        }
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
        let sent = self.jobs.send(Box::new(move |file| {
            let result =
                follow_replacement(file).and_then(|()| retry_while_busy(&file.path, || job(&mut file.db)));
            let _ = done.send(result);
        }));
        let sent = sent.map_err(|_| thread_ended_error());
        Box::pin(async move {
            sent?;
            result.await.map_err(|_| thread_ended_error())?
        })
    }
}

/// Switches to the file that has replaced the open one, if there is one.
fn follow_replacement(file: &mut OpenFile) -> Result<(), StoreError> {
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

fn thread_ended_error() -> StoreError {
    StoreError::Unavailable("the thread of the store has ended".into())
}

impl fmt::Debug for StoreThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Thread")
    }
}

//! [`Owner`]: which process serves a session, so that no two do.
//!
//! Each process holds the lock of a file of its own. The operating system releases it when the process
//! ends, however suddenly, and not while it is suspended.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bowline_store::private;
use ring::rand::{SecureRandom as _, SystemRandom};

/// How long a process may take from the creation of its file to its lock.
const START_TIME: Duration = Duration::from_secs(60);

/// The file that is locked while sessions change hands.
const TURN_FILE: &str = "turn";
/// How long another process may have its turn.
const TURN_TIMEOUT: Duration = Duration::from_secs(1);
const TURN_RETRY_INTERVAL: Duration = Duration::from_millis(2);

/// Names a process. It is never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OwnerId(pub(super) [u8; 16]);

/// This process, as long as it serves its sessions.
#[derive(Debug)]
pub(super) struct Owner {
    pub(super) id: OwnerId,
    folder: PathBuf,
    /// `None` once other processes may have the sessions.
    lock: Option<File>,
}

impl Owner {
    /// Names this process, in a folder for all of them.
    pub(super) fn create(folder: PathBuf) -> io::Result<Self> {
        let mut id = [0; 16];
        SystemRandom::new().fill(&mut id).map_err(|_| io::Error::other("there is no randomness"))?;
        let id = OwnerId(id);
        let lock = Some(create_locked(&folder, id)?);
        Ok(Self { id, folder, lock })
    }

    /// Creates the file of this process again if somebody has removed it. Others would take the sessions
    /// of this process for those of one that has ended.
    pub(super) fn repair(&mut self) -> io::Result<()> {
        if self.lock.is_some() && !self.folder.join(self.id.file_name()).exists() {
            self.lock = Some(create_locked(&self.folder, self.id)?);
        }
        Ok(())
    }

    /// Whether another process serves the sessions that have this owner.
    pub(super) fn is_other_alive(&self, id: OwnerId) -> bool {
        id != self.id && is_locked(&self.folder.join(id.file_name()))
    }

    /// Excludes other processes while sessions change hands. It ends when the result is dropped.
    ///
    /// A process that was suspended while it has its turn is not waited for: nothing is loaded then.
    pub(super) fn take_turn(&self) -> io::Result<File> {
        let file = private_options().create(true).open(self.folder.join(TURN_FILE))?;
        let begun = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) if begun.elapsed() < TURN_TIMEOUT => {
                    std::thread::park_timeout(TURN_RETRY_INTERVAL);
                }
                Err(TryLockError::WouldBlock) => return Err(io::Error::from(io::ErrorKind::TimedOut)),
                Err(TryLockError::Error(error)) => {
                    tracing::debug!(%error, "the file system has no locks");
                    return Ok(file);
                }
            }
        }
    }

    /// Whether no other process may have the sessions of this one.
    pub(super) fn is_exclusive(&self) -> bool {
        self.lock.is_some()
    }

    /// Lets others have the sessions of this process.
    pub(super) fn release(&mut self) {
        if self.lock.take().is_some() {
            // If it stays, it is found to be unlocked.
            let _ = fs::remove_file(self.folder.join(self.id.file_name()));
        }
    }

    /// Removes the files of processes that have ended.
    pub(super) fn sweep(&self) {
        for file in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let path = file.path();
            let modified = file.metadata().and_then(|about| about.modified()).ok();
            let is_old = modified.and_then(|at| at.elapsed().ok()).is_some_and(|age| age >= START_TIME);
            let is_other = *file.file_name() != *self.id.file_name() && *file.file_name() != *TURN_FILE;
            if is_old && is_other && !is_locked(&path) {
                let _ = fs::remove_file(path);
            }
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.release();
    }
}

impl OwnerId {
    fn file_name(self) -> String {
        format!("{:032x}", u128::from_be_bytes(self.0))
    }
}

/// Creates the file of a process, and locks it.
fn create_locked(folder: &Path, id: OwnerId) -> io::Result<File> {
    private::create_folder(folder)?;
    let file = private_options().create_new(true).open(folder.join(id.file_name()))?;
    match file.try_lock() {
        Ok(()) => {}
        // Nobody else knows the name, so there are no locks here at all.
        Err(error) => tracing::debug!(%error, "the file system has no locks"),
    }
    Ok(file)
}

fn is_locked(path: &Path) -> bool {
    let Ok(file) = private_options().open(path) else { return false };
    // It is shared, so that two processes that look are no owner to each other. It ends with the file.
    matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
}

/// How files are opened that only their owner can use.
fn private_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.read(true).write(true);
    options
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn a_process_is_alive_until_it_releases_its_sessions() {
        let folder = tempfile::tempdir().unwrap();
        let mut first = Owner::create(folder.path().to_owned()).unwrap();
        let second = Owner::create(folder.path().to_owned()).unwrap();
        assert!(second.is_other_alive(first.id) && first.is_other_alive(second.id));
        assert!(!first.is_other_alive(first.id), "it is no other");
        second.sweep();
        assert!(second.is_other_alive(first.id));
        first.release();
        assert!(!second.is_other_alive(first.id));
        assert!(!second.is_other_alive(OwnerId([0; 16])));
        // A killed process leaves its file behind.
        let left = File::create(folder.path().join(OwnerId([0; 16]).file_name())).unwrap();
        second.sweep();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "it may be about to be locked");
        left.set_modified(SystemTime::now() - START_TIME).unwrap();
        second.sweep();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}

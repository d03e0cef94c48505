//! Owns the lock that keeps the processes of one machine apart: an operating system lock on a file.
//!
//! A lease expires by the clock. A process that is suspended while it holds one (Ctrl-Z, a paused
//! virtual machine, a closed lid) finds another holder when it resumes, and its work is done twice.
//! A lock ends only when its holder releases it or dies, however long the holder is suspended.

#![cfg_attr(not(feature = "sqlite"), allow(dead_code, reason = "only a store in a file has locks"))]

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use ring::digest::{SHA256, digest};

use crate::{private, random};

/// A held lock. Dropping it releases it.
#[derive(Debug, Default)]
pub struct Lock {
    /// `None` where nothing is locked: a store in memory, one that other machines share, or a file
    /// system without locks.
    file: Option<File>,
}

/// Another process holds the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockHolder {
    /// The id of that process, if it could be read.
    pub pid: Option<u32>,
}

impl LockHolder {
    /// Describes the process with this id, if it is known, for a [`Store`](crate::Store) of a host's own.
    pub fn new(pid: impl Into<Option<u32>>) -> Self {
        Self { pid: pid.into() }
    }
}

impl Lock {
    /// A lock that excludes nobody, where only leases protect.
    pub fn none() -> Self {
        Self::default()
    }

    /// Whether the operating system excludes other processes.
    pub fn is_exclusive(&self) -> bool {
        self.file.is_some()
    }
}

/// Tries to take the lock of a name beside a store's file.
pub(crate) fn try_lock(store: &Path, name: &str) -> io::Result<Result<Lock, LockHolder>> {
    let folder = lock_folder(store);
    private::create_folder(&folder)?;
    let path = folder.join(random::hex(&digest(&SHA256, name.as_bytes()).as_ref()[..16]));
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    // The file stays after the release, because another process may already have it open.
    let mut file = options.read(true).write(true).create(true).truncate(false).open(&path)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(Err(LockHolder { pid: read_holder(&path) })),
        Err(TryLockError::Error(error)) if is_unsupported(&error) => {
            tracing::debug!(%error, file = %path.display(), "the file system has no locks");
            return Ok(Ok(Lock::none()));
        }
        Err(TryLockError::Error(error)) => return Err(error),
    }
    // The process id is for error messages only; it may be missing.
    let written = file.set_len(0).and_then(|()| file.write_all(std::process::id().to_string().as_bytes()));
    if let Err(error) = written {
        tracing::debug!(%error, file = %path.display(), "the holder of a lock could not be written");
    }
    Ok(Ok(Lock { file: Some(file) }))
}

/// The folder of a store's lock files.
fn lock_folder(store: &Path) -> PathBuf {
    let mut name = store.as_os_str().to_owned();
    name.push("-locks");
    PathBuf::from(name)
}

fn read_holder(path: &Path) -> Option<u32> {
    let mut text = String::new();
    File::open(path).ok()?.take(20).read_to_string(&mut text).ok()?;
    text.parse().ok()
}

fn is_unsupported(error: &io::Error) -> bool {
    // Linux returns ENOLCK where a network file system has no locks.
    #[cfg(unix)]
    if error.raw_os_error() == Some(rustix::io::Errno::NOLCK.raw_os_error()) {
        return true;
    }
    error.kind() == io::ErrorKind::Unsupported
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_lock_of_a_name_is_held_at_a_time_until_it_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("store.db");
        let first = try_lock(&store, "refresh/a").unwrap().unwrap();
        assert!(first.is_exclusive());
        let refused = try_lock(&store, "refresh/a").unwrap().unwrap_err();
        assert_eq!(refused, LockHolder { pid: Some(std::process::id()) });
        assert!(try_lock(&store, "refresh/b").unwrap().is_ok(), "another name is another lock");
        drop(first);
        assert!(try_lock(&store, "refresh/a").unwrap().is_ok());
    }

    #[cfg(unix)]
    #[test]
    fn locks_are_for_their_owner_alone() {
        use std::os::unix::fs::PermissionsExt as _;

        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("store.db");
        let _lock = try_lock(&store, "refresh/a").unwrap().unwrap();
        let locks = folder.path().join("store.db-locks");
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let file = std::fs::read_dir(&locks).unwrap().next().unwrap().unwrap().path();
        assert_eq!((mode(&locks), mode(&file)), (0o700, 0o600));
    }
}

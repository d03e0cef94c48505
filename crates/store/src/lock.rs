//! Owns the lock that keeps the processes of one machine apart: the operating system's own, on a file.
//!
//! A lease ends by the clock. A process that is stopped while it holds one (Ctrl-Z, a paused virtual machine, a closed
//! lid) finds another process at work when it goes on, and whatever it was about to do is then done twice. A lock ends
//! only when its holder gives it back or dies, however long the holder stands still.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use ring::digest::{SHA256, digest};

use crate::{private, random};

/// A lock that is held. Dropping it gives it back.
#[derive(Debug, Default)]
pub struct Lock {
    /// `None` where there is nothing to lock: a store in memory, one that other machines use as well, or a file system
    /// without locks.
    file: Option<File>,
}

/// Somebody else holds the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Locked {
    /// The process that holds it, if it could be read.
    pub by: Option<u32>,
}

impl Lock {
    /// A lock that keeps nobody out: a lease has to do.
    pub fn none() -> Self {
        Self::default()
    }

    /// Whether the operating system keeps others out.
    pub fn is_kept(&self) -> bool {
        self.file.is_some()
    }
}

/// Takes the lock of a name beside a store's file, unless somebody has it.
pub(crate) fn take(store: &Path, name: &str) -> io::Result<Result<Lock, Locked>> {
    let folder = folder(store);
    private::make_folder(&folder)?;
    let path = folder.join(random::hex(&digest(&SHA256, name.as_bytes()).as_ref()[..16]));
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    // The file stays when the lock is given back: whoever waits for it may have opened it already.
    let mut file = options.read(true).write(true).create(true).truncate(false).open(&path)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(Err(Locked { by: holder(&path) })),
        Err(TryLockError::Error(error)) if is_unsupported(&error) => {
            tracing::debug!(%error, file = %path.display(), "the file system has no locks");
            return Ok(Ok(Lock::none()));
        }
        Err(TryLockError::Error(error)) => return Err(error),
    }
    // For people only. Whoever cannot read it is told less.
    let written = file.set_len(0).and_then(|()| file.write_all(std::process::id().to_string().as_bytes()));
    if let Err(error) = written {
        tracing::debug!(%error, file = %path.display(), "the holder of a lock could not be written");
    }
    Ok(Ok(Lock { file: Some(file) }))
}

/// Where the locks of a store are.
fn folder(store: &Path) -> PathBuf {
    let mut name = store.as_os_str().to_owned();
    name.push("-locks");
    PathBuf::from(name)
}

fn holder(path: &Path) -> Option<u32> {
    let mut text = String::new();
    File::open(path).ok()?.take(20).read_to_string(&mut text).ok()?;
    text.parse().ok()
}

fn is_unsupported(error: &io::Error) -> bool {
    // Linux says ENOLCK where the server of a network file system has no locks.
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
        let first = take(&store, "refresh/a").unwrap().unwrap();
        assert!(first.is_kept());
        let refused = take(&store, "refresh/a").unwrap().unwrap_err();
        assert_eq!(refused, Locked { by: Some(std::process::id()) });
        assert!(take(&store, "refresh/b").unwrap().is_ok(), "another name is another lock");
        drop(first);
        assert!(take(&store, "refresh/a").unwrap().is_ok());
    }

    #[cfg(unix)]
    #[test]
    fn locks_are_for_their_owner_alone() {
        use std::os::unix::fs::PermissionsExt as _;

        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("store.db");
        let _lock = take(&store, "refresh/a").unwrap().unwrap();
        let locks = folder.path().join("store.db-locks");
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let file = std::fs::read_dir(&locks).unwrap().next().unwrap().unwrap().path();
        assert_eq!((mode(&locks), mode(&file)), (0o700, 0o600));
    }
}

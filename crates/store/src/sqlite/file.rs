//! Owns the SQLite file as a file: its permissions, and whether it is still the one that was
//! opened.

use std::path::{Path, PathBuf};

use rusqlite::Connection;

use crate::{StoreError, private};

/// An open SQLite file.
pub(super) struct OpenFile {
    pub(super) db: Connection,
    pub(super) path: PathBuf,
    /// Whether commits go to a write-ahead log, which may be synced later.
    pub(super) has_write_ahead_log: bool,
    #[cfg(unix)]
    file_id: (u64, u64),
}

impl OpenFile {
    pub(super) fn new(path: &Path, db: Connection) -> Result<Self, StoreError> {
        Ok(Self {
            db,
            path: path.to_owned(),
            has_write_ahead_log: false,
            #[cfg(unix)]
            file_id: file_id(path).ok_or_else(|| removed_error(path))?,
        })
    }

    /// Checks whether the path still leads to this file. SQLite would keep writing into a deleted
    /// file, and confirm what nobody can read.
    #[cfg(unix)]
    pub(super) fn status(&self) -> Result<FileStatus, StoreError> {
        match file_id(&self.path) {
            Some(now) if now == self.file_id => Ok(FileStatus::Same),
            Some(_) => Ok(FileStatus::Replaced),
            None => Err(removed_error(&self.path)),
        }
    }

    /// Windows does not allow replacing an open file.
    #[cfg(not(unix))]
    #[expect(clippy::unnecessary_wraps, reason = "elsewhere it can be gone")]
    pub(super) fn status(&self) -> Result<FileStatus, StoreError> {
        Ok(FileStatus::Same)
    }
}

/// Which file is found at the path.
pub(super) enum FileStatus {
    /// The open file itself.
    Same,
    /// Another file.
    #[cfg_attr(not(unix), expect(dead_code, reason = "only where files in use can be replaced"))]
    Replaced,
}

/// Creates an empty file if there is none, because SQLite would create it with looser permissions.
pub(super) fn prepare(path: &Path, notes: &mut Vec<String>) -> Result<(), StoreError> {
    let failed = |error| StoreError::Unusable(format!("cannot make {}: {error}", path.display()));
    if let Some(folder) = path.parent().filter(|it| !it.as_os_str().is_empty()) {
        private::create_folder(folder).map_err(failed)?;
    }
    private::create_empty_file(path).map_err(failed)?;
    restrict_files(path, notes)
}

/// Restricts the file and those that SQLite puts beside it to their owner. New ones inherit the
/// permissions of the main file.
pub(super) fn restrict_files(path: &Path, notes: &mut Vec<String>) -> Result<(), StoreError> {
    for suffix in ["", "-wal", "-shm", "-journal"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        private::restrict_file(Path::new(&name), notes)?;
    }
    Ok(())
}

#[cfg(unix)]
fn file_id(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;

    std::fs::metadata(path).ok().map(|about| (about.dev(), about.ino()))
}

#[cfg(unix)]
fn removed_error(path: &Path) -> StoreError {
    StoreError::Unavailable(format!(
        "{} was removed while in use; start again to make it anew",
        path.display()
    ))
}

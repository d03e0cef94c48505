//! Owns the file as a file: who can read it, and that it is still the one we opened.

use std::path::{Path, PathBuf};

use rusqlite::Connection;

use crate::{StoreError, private};

/// A file in use.
pub(super) struct Opened {
    pub(super) db: Connection,
    pub(super) path: PathBuf,
    #[cfg(unix)]
    identity: (u64, u64),
}

impl Opened {
    pub(super) fn new(path: &Path, db: Connection) -> Result<Self, StoreError> {
        Ok(Self {
            db,
            path: path.to_owned(),
            #[cfg(unix)]
            identity: identity(path).ok_or_else(|| removed(path))?,
        })
    }

    /// Whether the file still has its name. SQLite would go on writing into one that was deleted, and confirm what
    /// nobody will ever read.
    #[cfg(unix)]
    pub(super) fn stands(&self) -> Result<Standing, StoreError> {
        match identity(&self.path) {
            Some(now) if now == self.identity => Ok(Standing::Same),
            Some(_) => Ok(Standing::Another),
            None => Err(removed(&self.path)),
        }
    }

    /// Windows does not let go of a file in use.
    #[cfg(not(unix))]
    #[expect(clippy::unnecessary_wraps, reason = "elsewhere it can be gone")]
    pub(super) fn stands(&self) -> Result<Standing, StoreError> {
        Ok(Standing::Same)
    }
}

/// What has the name of a file in use.
pub(super) enum Standing {
    /// The file itself.
    Same,
    /// Another one.
    #[cfg_attr(not(unix), expect(dead_code, reason = "only where files in use can be replaced"))]
    Another,
}

/// Makes an empty file if there is none, before SQLite would with looser permissions.
pub(super) fn prepare(path: &Path, notes: &mut Vec<String>) -> Result<(), StoreError> {
    let failed = |error| StoreError::Unusable(format!("cannot make {}: {error}", path.display()));
    if let Some(folder) = path.parent().filter(|it| !it.as_os_str().is_empty()) {
        private::make_folder(folder).map_err(failed)?;
    }
    private::make_empty(path).map_err(failed)?;
    check(path, notes)
}

/// Sees to it that only the owner can read the file and those that SQLite puts beside it. New ones get the
/// permissions of the first.
pub(super) fn check(path: &Path, notes: &mut Vec<String>) -> Result<(), StoreError> {
    for suffix in ["", "-wal", "-shm", "-journal"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        private::check_file(Path::new(&name), notes)?;
    }
    Ok(())
}

#[cfg(unix)]
fn identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;

    std::fs::metadata(path).ok().map(|about| (about.dev(), about.ino()))
}

#[cfg(unix)]
fn removed(path: &Path) -> StoreError {
    StoreError::Unavailable(format!(
        "{} was removed while in use; start again to make it anew",
        path.display()
    ))
}

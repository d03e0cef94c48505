//! Owns the key file, which only its owner can read.

use std::io;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use crate::private::{self, Creation};
use crate::{SealKey, StoreError};

/// The largest file that is read, in bytes. A key file is far smaller.
const MAX_KEY_FILE_SIZE: u64 = 4096;

/// The path of the key file in a state folder.
pub(super) fn key_file_path(state: &Path) -> PathBuf {
    state.join("store.key")
}

/// Reads the key file; `None` if there is none.
pub(super) fn read_key(path: &Path, notes: &mut Vec<String>) -> Result<Option<SealKey>, StoreError> {
    let length = match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable_error(path, &error)),
        Ok(about) => about.len(),
    };
    private::restrict_file(path, notes)?;
    if length > MAX_KEY_FILE_SIZE {
        return Err(StoreError::Unusable(format!("{} is not a key file: it is too long", path.display())));
    }
    let bytes = Zeroizing::new(std::fs::read(path).map_err(|error| unreadable_error(path, &error))?);
    match std::str::from_utf8(&bytes).ok().and_then(SealKey::from_text) {
        Some(key) => Ok(Some(key)),
        None => Err(StoreError::Unusable(format!("{} holds no key of bowline", path.display()))),
    }
}

/// Reads the key file, or creates it with `key`. Concurrent callers get the same key, because the
/// file appears with its full content and is never replaced.
pub(crate) fn read_or_create_key(
    path: &Path,
    key: &SealKey,
    notes: &mut Vec<String>,
) -> Result<SealKey, StoreError> {
    if let Some(key) = read_key(path, notes)? {
        return Ok(key);
    }
    let mut text = key.to_text();
    text.push('\n');
    match private::create_file(path, text.as_bytes()) {
        Ok(Creation::Created) => notes.push(format!("made the key file {}", path.display())),
        Ok(Creation::AlreadyExists) => {}
        Err(error) => {
            return Err(StoreError::Unavailable(format!(
                "cannot make the key file {}: {error}",
                path.display()
            )));
        }
    }
    // The key on disk counts, not the one we meant to write.
    read_key(path, notes)?.ok_or_else(|| {
        StoreError::Unavailable(format!("{} vanished while it was being made", path.display()))
    })
}

fn unreadable_error(path: &Path, error: &io::Error) -> StoreError {
    StoreError::Unavailable(format!("cannot read the key file {}: {error}", path.display()))
}

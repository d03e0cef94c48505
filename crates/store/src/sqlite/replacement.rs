//! Decides which file may replace the open one: only one with the same key, so that other processes
//! can read what we write.

use rusqlite::{Connection, OptionalExtension as _, params};

use super::file::OpenFile;
use super::thread::retry_while_busy;
use crate::StoreError;
use crate::key::KeyMark;

/// Fails unless the open file, which has lost its name, and its replacement have the same key.
pub(super) fn check_same_key(file: &OpenFile, another: &OpenFile) -> Result<(), StoreError> {
    let path = file.path.display();
    match (key_fingerprint(file)?, key_fingerprint(another)?) {
        // No key was chosen yet.
        (None, _) => Ok(()),
        (ours, theirs) if ours == theirs => Ok(()),
        (Some(_), None) => Err(StoreError::Unavailable(format!(
            "{path} was replaced while in use, and whoever did it has not said yet which key it has"
        ))),
        _ => Err(StoreError::Sealed(format!(
            "{path} was replaced while in use by one that is encrypted with another key; start again"
        ))),
    }
}

/// The fingerprint of the key that a file is marked with.
fn key_fingerprint(file: &OpenFile) -> Result<Option<String>, StoreError> {
    let Some(value) = retry_while_busy(&file.path, || read_mark(&file.db))? else { return Ok(None) };
    match serde_json::from_slice::<KeyMark>(&value) {
        Ok(mark) => Ok(Some(mark.key)),
        Err(_) => Err(StoreError::Unusable(format!(
            "what {} says of its key is damaged, or of a later version of bowline",
            file.path.display()
        ))),
    }
}

fn read_mark(db: &Connection) -> rusqlite::Result<Option<Vec<u8>>> {
    let key = KeyMark::key();
    db.query_row("SELECT value FROM entries WHERE kind = ?1 AND id = ?2", params![key.kind, key.id], |row| {
        row.get(0)
    })
    .optional()
}

//! Decides which file may replace the open one: only one with the same key, so that other processes
//! can read what we write.

use rusqlite::{Connection, OptionalExtension as _, params};

use super::file::Opened;
use super::thread::patiently;
use crate::StoreError;
use crate::key::Mark;

/// Fails unless the open file, which has lost its name, and its replacement have the same key.
pub(super) fn check_key(file: &Opened, another: &Opened) -> Result<(), StoreError> {
    let path = file.path.display();
    match (fingerprint(file)?, fingerprint(another)?) {
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
fn fingerprint(file: &Opened) -> Result<Option<String>, StoreError> {
    let Some(value) = patiently(&file.path, || mark(&file.db))? else { return Ok(None) };
    match serde_json::from_slice::<Mark>(&value) {
        Ok(mark) => Ok(Some(mark.key)),
        Err(_) => Err(StoreError::Unusable(format!(
            "what {} says of its key is damaged, or of a later version of bowline",
            file.path.display()
        ))),
    }
}

fn mark(db: &Connection) -> rusqlite::Result<Option<Vec<u8>>> {
    let key = Mark::key();
    db.query_row("SELECT value FROM entries WHERE kind = ?1 AND id = ?2", params![key.kind, key.id], |row| {
        row.get(0)
    })
    .optional()
}

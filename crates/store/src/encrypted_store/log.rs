//! Encrypts the entries of logs.

use std::time::Duration;

use zeroize::Zeroizing;

use super::{EncryptedStore, decryption_error};
use crate::{AppendOptions, Key, LogEntry, LogName, LogSlice, Position, ReadLimits, StoreError};

/// How many bytes the encryption adds to an entry.
const SEAL_OVERHEAD: usize = 29;

impl EncryptedStore {
    /// Appends encrypted entries. See [`LogStore::append`](crate::LogStore::append). The limits count
    /// encrypted bytes, which are 29 more for each entry.
    ///
    /// An entry can only be decrypted in the log that it was appended to. Whoever can write to the store can
    /// still remove, repeat and reorder entries within their log.
    pub async fn append(
        &self,
        log: &LogName,
        entries: &[Vec<u8>],
        options: AppendOptions,
    ) -> Result<Vec<Position>, StoreError> {
        let (seal, key) = (self.key().await?, seal_name(log));
        let sealed: Vec<Vec<u8>> =
            entries.iter().map(|entry| seal.seal(&key, entry)).collect::<Result<_, _>>()?;
        self.store().await?.append(log, &sealed, options).await
    }

    /// Returns the entries after a position. See [`LogStore::after`](crate::LogStore::after).
    pub async fn after(
        &self,
        log: &LogName,
        position: Position,
        limits: ReadLimits,
    ) -> Result<LogSlice, StoreError> {
        let Some(store) = self.existing_store().await? else { return Ok(LogSlice::of_absent_log(position)) };
        // The caller's limit is one of what it gets.
        let overhead = limits.max_entries.saturating_mul(SEAL_OVERHEAD);
        let limits = ReadLimits { max_bytes: limits.max_bytes.saturating_add(overhead), ..limits };
        let mut slice = store.after(log, position, limits).await?;
        if slice.entries.is_empty() {
            return Ok(slice);
        }
        let (seal, key) = (self.key().await?, seal_name(log));
        for LogEntry { value, .. } in &mut slice.entries {
            match seal.open(&key, value) {
                Ok(opened) => *value = take(opened),
                Err(_) => return Err(decryption_error(&**store, seal, &key).await),
            }
        }
        Ok(slice)
    }

    /// See [`LogStore::wait`](crate::LogStore::wait).
    pub async fn wait(
        &self,
        log: &LogName,
        position: Position,
        timeout: Duration,
    ) -> Result<bool, StoreError> {
        self.store().await?.wait(log, position, timeout).await
    }

    /// See [`LogStore::trim`](crate::LogStore::trim).
    pub async fn trim(&self, log: &LogName, up_to: Position) -> Result<(), StoreError> {
        match self.existing_store().await? {
            Some(store) => store.trim(log, up_to).await,
            None => Ok(()),
        }
    }

    /// See [`LogStore::remove_log`](crate::LogStore::remove_log).
    pub async fn remove_log(&self, log: &LogName) -> Result<bool, StoreError> {
        match self.existing_store().await? {
            Some(store) => store.remove_log(log).await,
            None => Ok(false),
        }
    }
}

/// The name that entries of a log are bound to. No record has it, because a kind contains no space.
fn seal_name(log: &LogName) -> Key {
    Key::new("log entry", log.as_str())
}

/// Takes the value out, without a copy that is left behind.
fn take(mut opened: Zeroizing<Vec<u8>>) -> Vec<u8> {
    std::mem::take(&mut *opened)
}

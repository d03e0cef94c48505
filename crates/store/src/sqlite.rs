//! A store in a SQLite file, which any number of processes share.
//!
//! Each change is one transaction that takes the write lock before it reads, so that what it has
//! read is still true when it writes. A change is confirmed when it is on disk.

mod file;
mod network_fs;
mod replacement;
mod schema;
mod thread;

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{fs, io};

use network_fs::is_network_fs;
use rusqlite::{Connection, OptionalExtension as _, Row, Transaction, TransactionBehavior, params};
use thread::StoreThread;

use crate::lease::{self, MAX_LEASE_TTL, clamp_ttl_ms};
use crate::lock::{self, Lock, LockHolder};
use crate::{Key, Lease, Precondition, Store, StoreError, StoreFuture, StoreRecord, Version};

/// A store in a SQLite file.
///
/// Operations run on a separate thread, in order. Dropping a future does not cancel its operation.
///
/// If the file is replaced by another one while in use, the new file is used from then on, provided
/// that it has the same key. Its versions are its own, and may be smaller than those of the old
/// file.
#[derive(Debug)]
pub struct SqliteStore {
    path: PathBuf,
    thread: StoreThread,
}

impl SqliteStore {
    /// Opens the file, or creates it for its owner only. `notes` receives messages for the user.
    ///
    /// A file that cannot be used is left as it is.
    pub async fn open(path: &Path, notes: &mut Vec<String>) -> Result<Self, StoreError> {
        let (thread, mut news) = StoreThread::start(path).await?;
        notes.append(&mut news);
        Ok(Self { path: path.to_owned(), thread })
    }

    /// Removes a lease whose lock was just taken: its holder is dead, or could not release it.
    async fn drop_abandoned_lease(&self, name: &str) {
        let name = name.to_owned();
        let dropped = self.run(move |db| {
            // Usually there is none; then nothing is written.
            let is_there = db.prepare_cached("SELECT 1 FROM leases WHERE name = ?1")?.exists([&name])?;
            if is_there {
                let change = begin(db)?;
                change.prepare_cached("DELETE FROM leases WHERE name = ?1")?.execute([&name])?;
                change.commit()?;
            }
            Ok(())
        });
        if let Err(error) = dropped.await {
            // The lease expires by itself.
            tracing::debug!(%error, "a lease that was left behind could not be removed");
        }
    }

    fn run<T: Send + 'static>(
        &self,
        job: impl FnMut(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> StoreFuture<'static, T> {
        self.thread.run(job)
    }
}

impl Store for SqliteStore {
    fn get<'a>(&'a self, key: &'a Key) -> StoreFuture<'a, Option<StoreRecord>> {
        let Key { kind, id } = key.clone();
        self.run(move |db| {
            db.prepare_cached("SELECT version, value FROM entries WHERE kind = ?1 AND id = ?2")?
                .query_row(params![kind, id], |row| read_record(row, 0))
                .optional()
        })
    }

    fn put<'a>(
        &'a self,
        key: &'a Key,
        value: &'a [u8],
        expect: Precondition,
    ) -> StoreFuture<'a, Option<Version>> {
        let (Key { kind, id }, value) = (key.clone(), value.to_vec());
        self.run(move |db| {
            let change = begin(db)?;
            if !matches(&change, kind, &id, expect)? {
                return Ok(None);
            }
            let version: i64 = change
                .prepare_cached("UPDATE versions SET last = last + 1 RETURNING last")?
                .query_row([], |row| row.get(0))?;
            change
                .prepare_cached(
                    "INSERT OR REPLACE INTO entries (kind, id, version, value) VALUES (?1, ?2, ?3, ?4)",
                )?
                .execute(params![kind, id, version, value])?;
            change.commit()?;
            Ok(Some(Version(version.cast_unsigned())))
        })
    }

    fn remove<'a>(&'a self, key: &'a Key, expect: Precondition) -> StoreFuture<'a, bool> {
        let Key { kind, id } = key.clone();
        self.run(move |db| {
            let change = begin(db)?;
            if !matches(&change, kind, &id, expect)? {
                return Ok(false);
            }
            let removed = change
                .prepare_cached("DELETE FROM entries WHERE kind = ?1 AND id = ?2")?
                .execute(params![kind, id])?;
            change.commit()?;
            Ok(removed > 0)
        })
    }

    fn list(&self, kind: &'static str) -> StoreFuture<'_, Vec<(Key, StoreRecord)>> {
        self.run(move |db| {
            db.prepare_cached("SELECT id, version, value FROM entries WHERE kind = ?1 ORDER BY id")?
                .query_map([kind], |row| {
                    Ok((Key::new(kind, row.get::<_, String>(0)?), read_record(row, 1)?))
                })?
                .collect()
        })
    }

    fn acquire<'a>(&'a self, name: &'a str, ttl: Duration) -> StoreFuture<'a, Option<Lease>> {
        let (name, ttl) = (name.to_owned(), clamp_ttl_ms(ttl));
        Box::pin(async move {
            let token = lease::new_token()?;
            let lease = Lease { name: name.clone(), token: token.clone() };
            let granted = self.run(move |db| {
                let change = begin(db)?;
                // After the write lock was acquired, which may have taken a while.
                let now = now_ms();
                if live_lease_token(&change, &name, now)?.is_some() {
                    return Ok(false);
                }
                change
                    .prepare_cached("INSERT OR REPLACE INTO leases (name, token, ends) VALUES (?1, ?2, ?3)")?
                    .execute(params![name, token, now.saturating_add(ttl)])?;
                change.commit()?;
                Ok(true)
            });
            Ok(granted.await?.then_some(lease))
        })
    }

    fn renew<'a>(&'a self, lease: &'a Lease, ttl: Duration) -> StoreFuture<'a, bool> {
        let (name, token, ttl) = (lease.name.clone(), lease.token.clone(), clamp_ttl_ms(ttl));
        self.run(move |db| {
            let change = begin(db)?;
            let now = now_ms();
            if live_lease_token(&change, &name, now)?.as_ref() != Some(&token) {
                return Ok(false);
            }
            change
                .prepare_cached("UPDATE leases SET ends = ?2 WHERE name = ?1")?
                .execute(params![name, now.saturating_add(ttl)])?;
            change.commit()?;
            Ok(true)
        })
    }

    fn release(&self, lease: Lease) -> StoreFuture<'_, ()> {
        self.run(move |db| {
            let change = begin(db)?;
            change
                .prepare_cached("DELETE FROM leases WHERE name = ?1 AND token = ?2")?
                .execute(params![lease.name, lease.token])?;
            change.commit()
        })
    }

    fn lock<'a>(&'a self, name: &'a str) -> StoreFuture<'a, Result<Lock, LockHolder>> {
        let (path, locked) = (self.path.clone(), name.to_owned());
        // Opening a file on a network file system may block.
        let taking = tokio::task::spawn_blocking(move || {
            // Like SQLite, so that a symbolic link leads to the same lock.
            let path = fs::canonicalize(&path).unwrap_or(path);
            Ok((lock::try_lock(&path, &locked)?, is_network_fs(&path)))
        });
        Box::pin(async move {
            let taken = taking.await.unwrap_or_else(|_| Err(io::ErrorKind::Interrupted.into()));
            let (taken, is_remote) = taken.map_err(|error: io::Error| {
                StoreError::Unavailable(format!("cannot lock beside {}: {error}", self.path.display()))
            })?;
            // Locks of other machines are not visible here, so their leases have to expire.
            if taken.as_ref().is_ok_and(Lock::is_exclusive) && !is_remote {
                self.drop_abandoned_lease(name).await;
            }
            Ok(taken)
        })
    }

    fn location(&self) -> String {
        self.path.display().to_string()
    }
}

/// Begins a transaction that excludes all other writers.
fn begin(db: &mut Connection) -> rusqlite::Result<Transaction<'_>> {
    db.transaction_with_behavior(TransactionBehavior::Immediate)
}

fn matches(change: &Transaction<'_>, kind: &str, id: &str, expect: Precondition) -> rusqlite::Result<bool> {
    let version: Option<i64> = change
        .prepare_cached("SELECT version FROM entries WHERE kind = ?1 AND id = ?2")?
        .query_row(params![kind, id], |row| row.get(0))
        .optional()?;
    Ok(match expect {
        Precondition::Any => true,
        Precondition::Absent => version.is_none(),
        Precondition::AtVersion(Version(seen)) => version.map(i64::cast_unsigned) == Some(seen),
    })
}

/// The token of the current holder of a lease.
fn live_lease_token(change: &Transaction<'_>, name: &str, now: i64) -> rusqlite::Result<Option<String>> {
    // A later end was granted before the clock was set back.
    let latest = now.saturating_add(clamp_ttl_ms(MAX_LEASE_TTL));
    change
        .prepare_cached("SELECT token FROM leases WHERE name = ?1 AND ends > ?2 AND ends <= ?3")?
        .query_row(params![name, now, latest], |row| row.get(0))
        .optional()
}

fn read_record(row: &Row<'_>, at: usize) -> rusqlite::Result<StoreRecord> {
    Ok(StoreRecord { version: Version(row.get::<_, i64>(at)?.cast_unsigned()), value: row.get(at + 1)? })
}

/// Milliseconds since the epoch: the only clock that processes share.
fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

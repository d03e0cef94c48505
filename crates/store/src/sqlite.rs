//! A store in a SQLite file, which any number of processes share.
//!
//! Each change is one transaction that takes the write lock before it reads, so that what it has
//! read is still true when it writes. A change is confirmed when it is on disk. Changes that wait for
//! the store at the same time share a transaction.

mod clock;
mod file;
mod group;
mod lifetime;
mod log;
mod network_fs;
mod replacement;
mod schema;
#[cfg(test)]
mod tests;
mod thread;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fs, io};

use clock::WallClock;
use group::begin;
use network_fs::is_network_fs;
use rusqlite::{Connection, OptionalExtension as _, Row, Transaction, params};
use thread::StoreThread;

use crate::lease::{self, MAX_LEASE_TTL, clamp_ttl_ms};
use crate::lifetime::clamp_ms;
use crate::lock::{self, Lock, LockHolder};
use crate::log::Doorbell;
use crate::{Durability, Key, Lease, Precondition, Store, StoreError, StoreFuture, StoreRecord, Version};

/// A store in a SQLite file.
///
/// Operations run on a separate thread, in order. Dropping a future does not cancel its operation.
///
/// Who waits for a log is woken at once by an append of this process, and within about 25 milliseconds by
/// one of another process. Lifetimes follow the system's clock. If it is set back, a value, log or
/// counter may live longer, but no longer than its whole lifetime from the next write on.
///
/// If the file is replaced by another one while in use, the new file is used from then on, provided
/// that it has the same key. Its versions are its own, and may be smaller than those of the old
/// file. The positions of its logs are greater than those of the old file, unless the clock was set
/// back.
#[derive(Debug)]
pub struct SqliteStore {
    path: PathBuf,
    thread: StoreThread,
    clock: WallClock,
    bell: Arc<Doorbell>,
}

impl SqliteStore {
    /// Opens the file, or creates it for its owner only. `notes` receives messages for the user.
    ///
    /// A file that cannot be used is left as it is. Dropping the future may leave a new file.
    pub async fn open(path: &Path, notes: &mut Vec<String>) -> Result<Self, StoreError> {
        Self::open_with_clock(path, WallClock::system(), notes).await
    }

    async fn open_with_clock(
        path: &Path,
        clock: WallClock,
        notes: &mut Vec<String>,
    ) -> Result<Self, StoreError> {
        let bell = Arc::new(Doorbell::default());
        let (thread, mut news) = StoreThread::start(path, clock.clone(), Arc::clone(&bell)).await?;
        notes.append(&mut news);
        Ok(Self { path: path.to_owned(), thread, clock, bell })
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

    fn change<T: Send + 'static>(
        &self,
        durability: Durability,
        job: impl FnMut(&Transaction<'_>, i64) -> rusqlite::Result<T> + Send + 'static,
    ) -> StoreFuture<'static, T> {
        self.thread.change(durability, job, |_| ())
    }

    fn put_record(
        &self,
        key: &Key,
        value: &[u8],
        ttl: Option<i64>,
        expect: Precondition,
    ) -> StoreFuture<'static, Option<Version>> {
        let (Key { kind, id }, value) = (key.clone(), value.to_vec());
        self.change(Durability::Disk, move |change, now| {
            if !matches(change, now, (kind, &id), expect)? {
                return Ok(None);
            }
            let version: i64 = change
                .prepare_cached("UPDATE versions SET last = last + 1 RETURNING last")?
                .query_row([], |row| row.get(0))?;
            change
                .prepare_cached(
                    "INSERT OR REPLACE INTO entries (kind, id, version, value, ttl, ends)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                )?
                .execute(params![kind, id, version, value, ttl, ttl.map(|ttl| now.saturating_add(ttl))])?;
            Ok(Some(Version(version.cast_unsigned())))
        })
    }
}

impl Store for SqliteStore {
    fn get<'a>(&'a self, key: &'a Key) -> StoreFuture<'a, Option<StoreRecord>> {
        let (Key { kind, id }, clock) = (key.clone(), self.clock.clone());
        self.run(move |db| {
            db.prepare_cached(
                "SELECT version, value FROM entries
                 WHERE kind = ?1 AND id = ?2 AND (ends IS NULL OR ends > ?3)",
            )?
            .query_row(params![kind, id, clock.now_ms()], |row| read_record(row, 0))
            .optional()
        })
    }

    fn put<'a>(
        &'a self,
        key: &'a Key,
        value: &'a [u8],
        expect: Precondition,
    ) -> StoreFuture<'a, Option<Version>> {
        self.put_record(key, value, None, expect)
    }

    fn put_for<'a>(
        &'a self,
        key: &'a Key,
        value: &'a [u8],
        ttl: Duration,
        expect: Precondition,
    ) -> StoreFuture<'a, Option<Version>> {
        self.put_record(key, value, Some(clamp_ms(ttl)), expect)
    }

    fn touch<'a>(&'a self, key: &'a Key, ttl: Duration) -> StoreFuture<'a, bool> {
        let (Key { kind, id }, ttl) = (key.clone(), clamp_ms(ttl));
        // Without a sync: if the machine fails, the lifetime is the earlier one.
        self.change(Durability::Process, move |change, now| {
            let touched = change
                .prepare_cached(
                    "UPDATE entries SET ttl = ?3, ends = ?4 WHERE kind = ?1 AND id = ?2 AND ends > ?5",
                )?
                .execute(params![kind, id, ttl, now.saturating_add(ttl), now])?;
            Ok(touched > 0)
        })
    }

    fn add<'a>(&'a self, counter: &'a str, delta: i64, ttl: Duration) -> StoreFuture<'a, i64> {
        let (name, ttl) = (counter.to_owned(), clamp_ms(ttl));
        // Without a sync: a machine that fails takes what is limited with it.
        self.change(Durability::Process, move |change, now| {
            let live: Option<(i64, i64, i64)> = change
                .prepare_cached("SELECT value, ttl, ends FROM counters WHERE name = ?1 AND ends > ?2")?
                .query_row(params![name, now], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
                .optional()?;
            let (value, ttl, ends) = live.unwrap_or((0, ttl, now.saturating_add(ttl)));
            let value = value.saturating_add(delta);
            change
                .prepare_cached(
                    "INSERT OR REPLACE INTO counters (name, value, ttl, ends) VALUES (?1, ?2, ?3, ?4)",
                )?
                .execute(params![name, value, ttl, ends])?;
            Ok(value)
        })
    }

    fn remove<'a>(&'a self, key: &'a Key, expect: Precondition) -> StoreFuture<'a, bool> {
        let Key { kind, id } = key.clone();
        self.change(Durability::Disk, move |change, now| {
            if !matches(change, now, (kind, &id), expect)? {
                return Ok(false);
            }
            let ends: Option<Option<i64>> = change
                .prepare_cached("DELETE FROM entries WHERE kind = ?1 AND id = ?2 RETURNING ends")?
                .query_row(params![kind, id], |row| row.get(0))
                .optional()?;
            Ok(ends.is_some_and(|ends| ends.is_none_or(|ends| ends > now)))
        })
    }

    fn list(&self, kind: &'static str) -> StoreFuture<'_, Vec<(Key, StoreRecord)>> {
        let clock = self.clock.clone();
        self.run(move |db| {
            db.prepare_cached(
                "SELECT id, version, value FROM entries
                 WHERE kind = ?1 AND (ends IS NULL OR ends > ?2) ORDER BY id",
            )?
            .query_map(params![kind, clock.now_ms()], |row| {
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
            let granted = self.change(Durability::Disk, move |change, now| {
                if live_lease_token(change, &name, now)?.is_some() {
                    return Ok(false);
                }
                change
                    .prepare_cached("INSERT OR REPLACE INTO leases (name, token, ends) VALUES (?1, ?2, ?3)")?
                    .execute(params![name, token, now.saturating_add(ttl)])?;
                Ok(true)
            });
            Ok(granted.await?.then_some(lease))
        })
    }

    fn renew<'a>(&'a self, lease: &'a Lease, ttl: Duration) -> StoreFuture<'a, bool> {
        let (name, token, ttl) = (lease.name.clone(), lease.token.clone(), clamp_ttl_ms(ttl));
        self.change(Durability::Disk, move |change, now| {
            if live_lease_token(change, &name, now)?.as_ref() != Some(&token) {
                return Ok(false);
            }
            change
                .prepare_cached("UPDATE leases SET ends = ?2 WHERE name = ?1")?
                .execute(params![name, now.saturating_add(ttl)])?;
            Ok(true)
        })
    }

    fn release(&self, lease: Lease) -> StoreFuture<'_, ()> {
        self.change(Durability::Disk, move |change, _| {
            change
                .prepare_cached("DELETE FROM leases WHERE name = ?1 AND token = ?2")?
                .execute(params![lease.name, lease.token])?;
            Ok(())
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

fn matches(
    change: &Transaction<'_>,
    now: i64,
    (kind, id): (&str, &str),
    expect: Precondition,
) -> rusqlite::Result<bool> {
    let version: Option<i64> = change
        .prepare_cached(
            "SELECT version FROM entries WHERE kind = ?1 AND id = ?2 AND (ends IS NULL OR ends > ?3)",
        )?
        .query_row(params![kind, id, now], |row| row.get(0))
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

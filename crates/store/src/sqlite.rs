//! A store in a SQLite file, which any number of processes share.
//!
//! Each change is one transaction that takes the write lock before it reads, so that what it has
//! read is still true when it writes. A change is confirmed when it is on disk.

mod file;
mod remote;
mod replaced;
mod schema;
mod thread;

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{fs, io};

use remote::is_remote;
use rusqlite::{Connection, OptionalExtension as _, Row, Transaction, TransactionBehavior, params};
use thread::Thread;

use crate::lease::{self, LONGEST_LEASE, bounded_ms};
use crate::lock::{self, Lock, Locked};
use crate::{Doing, Entry, Expect, Key, Lease, Store, StoreError, Version};

/// A store in a SQLite file.
///
/// Operations run on a separate thread, in order. Dropping a future does not cancel its operation.
///
/// If the file is replaced by another one while in use, the new file is used from then on, provided
/// that it has the same key. Its versions are its own, and may be smaller than those of the old
/// file.
#[derive(Debug)]
pub struct Sqlite {
    path: PathBuf,
    thread: Thread,
}

impl Sqlite {
    /// Opens the file, or creates it for its owner only. `notes` receives messages for the user.
    ///
    /// A file that cannot be used is left as it is.
    pub async fn open(path: &Path, notes: &mut Vec<String>) -> Result<Self, StoreError> {
        let (thread, mut news) = Thread::start(path).await?;
        notes.append(&mut news);
        Ok(Self { path: path.to_owned(), thread })
    }

    /// Removes a lease whose lock was just taken: its holder is dead, or could not release it.
    async fn drop_abandoned_lease(&self, name: &str) {
        let name = name.to_owned();
        let dropped = self.doing(move |db| {
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

    fn doing<T: Send + 'static>(
        &self,
        job: impl FnMut(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Doing<'static, T> {
        self.thread.run(job)
    }
}

impl Store for Sqlite {
    fn get<'a>(&'a self, key: &'a Key) -> Doing<'a, Option<Entry>> {
        let Key { kind, id } = key.clone();
        self.doing(move |db| {
            db.prepare_cached("SELECT version, value FROM entries WHERE kind = ?1 AND id = ?2")?
                .query_row(params![kind, id], |row| entry(row, 0))
                .optional()
        })
    }

    fn put<'a>(&'a self, key: &'a Key, value: &'a [u8], expect: Expect) -> Doing<'a, Option<Version>> {
        let (Key { kind, id }, value) = (key.clone(), value.to_vec());
        self.doing(move |db| {
            let change = begin(db)?;
            if !fits(&change, kind, &id, expect)? {
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

    fn remove<'a>(&'a self, key: &'a Key, expect: Expect) -> Doing<'a, bool> {
        let Key { kind, id } = key.clone();
        self.doing(move |db| {
            let change = begin(db)?;
            if !fits(&change, kind, &id, expect)? {
                return Ok(false);
            }
            let removed = change
                .prepare_cached("DELETE FROM entries WHERE kind = ?1 AND id = ?2")?
                .execute(params![kind, id])?;
            change.commit()?;
            Ok(removed > 0)
        })
    }

    fn list(&self, kind: &'static str) -> Doing<'_, Vec<(Key, Entry)>> {
        self.doing(move |db| {
            db.prepare_cached("SELECT id, version, value FROM entries WHERE kind = ?1 ORDER BY id")?
                .query_map([kind], |row| Ok((Key::new(kind, row.get::<_, String>(0)?), entry(row, 1)?)))?
                .collect()
        })
    }

    fn acquire<'a>(&'a self, name: &'a str, ttl: Duration) -> Doing<'a, Option<Lease>> {
        let (name, ttl) = (name.to_owned(), bounded_ms(ttl));
        Box::pin(async move {
            let token = lease::token()?;
            let lease = Lease { name: name.clone(), token: token.clone() };
            let granted = self.doing(move |db| {
                let change = begin(db)?;
                // After the write lock was acquired, which may have taken a while.
                let now = now_ms();
                if live(&change, &name, now)?.is_some() {
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

    fn renew<'a>(&'a self, lease: &'a Lease, ttl: Duration) -> Doing<'a, bool> {
        let (name, token, ttl) = (lease.name.clone(), lease.token.clone(), bounded_ms(ttl));
        self.doing(move |db| {
            let change = begin(db)?;
            let now = now_ms();
            if live(&change, &name, now)?.as_ref() != Some(&token) {
                return Ok(false);
            }
            change
                .prepare_cached("UPDATE leases SET ends = ?2 WHERE name = ?1")?
                .execute(params![name, now.saturating_add(ttl)])?;
            change.commit()?;
            Ok(true)
        })
    }

    fn release(&self, lease: Lease) -> Doing<'_, ()> {
        self.doing(move |db| {
            let change = begin(db)?;
            change
                .prepare_cached("DELETE FROM leases WHERE name = ?1 AND token = ?2")?
                .execute(params![lease.name, lease.token])?;
            change.commit()
        })
    }

    fn lock<'a>(&'a self, name: &'a str) -> Doing<'a, Result<Lock, Locked>> {
        let (path, locked) = (self.path.clone(), name.to_owned());
        // Opening a file on a network file system may block.
        let taking = tokio::task::spawn_blocking(move || {
            // Like SQLite, so that a symbolic link leads to the same lock.
            let path = fs::canonicalize(&path).unwrap_or(path);
            Ok((lock::take(&path, &locked)?, is_remote(&path)))
        });
        Box::pin(async move {
            let taken = taking.await.unwrap_or_else(|_| Err(io::ErrorKind::Interrupted.into()));
            let (taken, is_remote) = taken.map_err(|error: io::Error| {
                StoreError::Unavailable(format!("cannot lock beside {}: {error}", self.path.display()))
            })?;
            // Locks of other machines are not visible here, so their leases have to expire.
            if taken.as_ref().is_ok_and(Lock::is_kept) && !is_remote {
                self.drop_abandoned_lease(name).await;
            }
            Ok(taken)
        })
    }

    fn place(&self) -> String {
        self.path.display().to_string()
    }
}

/// Begins a transaction that excludes all other writers.
fn begin(db: &mut Connection) -> rusqlite::Result<Transaction<'_>> {
    db.transaction_with_behavior(TransactionBehavior::Immediate)
}

fn fits(change: &Transaction<'_>, kind: &str, id: &str, expect: Expect) -> rusqlite::Result<bool> {
    let version: Option<i64> = change
        .prepare_cached("SELECT version FROM entries WHERE kind = ?1 AND id = ?2")?
        .query_row(params![kind, id], |row| row.get(0))
        .optional()?;
    Ok(match expect {
        Expect::Anything => true,
        Expect::Nothing => version.is_none(),
        Expect::At(Version(seen)) => version.map(i64::cast_unsigned) == Some(seen),
    })
}

/// The token of the current holder of a lease.
fn live(change: &Transaction<'_>, name: &str, now: i64) -> rusqlite::Result<Option<String>> {
    // A later end was granted before the clock was set back.
    let latest = now.saturating_add(bounded_ms(LONGEST_LEASE));
    change
        .prepare_cached("SELECT token FROM leases WHERE name = ?1 AND ends > ?2 AND ends <= ?3")?
        .query_row(params![name, now, latest], |row| row.get(0))
        .optional()
}

fn entry(row: &Row<'_>, at: usize) -> rusqlite::Result<Entry> {
    Ok(Entry { version: Version(row.get::<_, i64>(at)?.cast_unsigned()), value: row.get(at + 1)? })
}

/// Milliseconds since the epoch: the only clock that processes share.
fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

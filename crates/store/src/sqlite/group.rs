//! Group commit: changes that wait for the store's thread share a transaction, and with it the sync
//! to disk, which takes far longer than the changes.

use rusqlite::{Connection, Transaction, TransactionBehavior};
use tokio::sync::oneshot;

use super::clock::WallClock;
use super::file::OpenFile;
use super::lifetime::Sweeper;
use super::thread::{follow_replacement, retry_while_busy, thread_ended_error};
use crate::{Durability, StoreError, StoreFuture};

/// The most changes that share a transaction. The first of them waits for all.
pub(super) const MAX_GROUP: usize = 256;

/// A change that can share a transaction with others.
pub(super) trait Change: Send {
    fn durability(&self) -> Durability;

    /// Makes the change at a time in milliseconds since the epoch, and keeps its result. It is called
    /// again if the transaction was rolled back.
    fn apply(&mut self, transaction: &Transaction<'_>, now: i64) -> rusqlite::Result<()>;

    /// Reports that the change was committed, or why not.
    fn finish(self: Box<Self>, outcome: Result<(), StoreError>);
}

/// A change whose caller waits for its result.
struct AwaitedChange<T, F, G> {
    durability: Durability,
    job: F,
    /// Called when the change is committed, even if nobody waits for its result.
    on_commit: G,
    result: Option<T>,
    done: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, F, G> Change for AwaitedChange<T, F, G>
where
    T: Send,
    F: FnMut(&Transaction<'_>, i64) -> rusqlite::Result<T> + Send,
    G: FnOnce(&T) + Send,
{
    fn durability(&self) -> Durability {
        self.durability
    }

    fn apply(&mut self, transaction: &Transaction<'_>, now: i64) -> rusqlite::Result<()> {
        self.result = Some((self.job)(transaction, now)?);
        Ok(())
    }

    fn finish(self: Box<Self>, outcome: Result<(), StoreError>) {
        let Self { result, on_commit, done, .. } = *self;
        let result = outcome.and_then(|()| result.ok_or_else(thread_ended_error)).inspect(on_commit);
        // The caller may have stopped waiting.
        let _ = done.send(result);
    }
}

/// Creates a change, and the future of its result.
pub(super) fn new_change<T: Send + 'static>(
    durability: Durability,
    job: impl FnMut(&Transaction<'_>, i64) -> rusqlite::Result<T> + Send + 'static,
    on_commit: impl FnOnce(&T) + Send + 'static,
) -> (Box<dyn Change>, StoreFuture<'static, T>) {
    let (done, result) = oneshot::channel();
    let change = AwaitedChange { durability, job, on_commit, result: None, done };
    (Box::new(change), Box::pin(async move { result.await.map_err(|_| thread_ended_error())? }))
}

/// Commits a group of changes. If that fails, each is committed alone, so that only those fail that
/// have to.
pub(super) fn commit(
    file: &mut OpenFile,
    clock: &WallClock,
    sweeper: &mut Sweeper,
    mut group: Vec<Box<dyn Change>>,
) {
    let outcome = commit_together(file, clock, sweeper, &mut group);
    if outcome.is_err() && group.len() > 1 {
        for change in group {
            commit(file, clock, sweeper, vec![change]);
        }
        return;
    }
    let mut outcome = Some(outcome);
    for change in group {
        // A failure has exactly one owner here, and success any number.
        change.finish(outcome.take().unwrap_or(Ok(())));
    }
}

fn commit_together(
    file: &mut OpenFile,
    clock: &WallClock,
    sweeper: &mut Sweeper,
    group: &mut [Box<dyn Change>],
) -> Result<(), StoreError> {
    follow_replacement(file)?;
    let durability = group.iter().map(|change| change.durability()).max().unwrap_or_default();
    // Without a write-ahead log every commit needs its syncs, or the file may be damaged.
    let is_unsynced = durability == Durability::Process && file.has_write_ahead_log;
    let OpenFile { db, path, .. } = file;
    retry_while_busy(path, || {
        if is_unsynced {
            db.pragma_update(None, "synchronous", "NORMAL")?;
        }
        let committed = apply_all(db, clock, sweeper, group);
        if is_unsynced {
            db.pragma_update(None, "synchronous", "FULL")?;
        }
        committed
    })
}

fn apply_all(
    db: &mut Connection,
    clock: &WallClock,
    sweeper: &mut Sweeper,
    group: &mut [Box<dyn Change>],
) -> rusqlite::Result<()> {
    let transaction = begin(db)?;
    // After the write lock was acquired, which may have taken a while.
    let now = clock.now_ms();
    for change in group {
        change.apply(&transaction, now)?;
    }
    let sweep = sweeper.is_due(now).then(|| super::lifetime::sweep(&transaction, now)).transpose()?;
    transaction.commit()?;
    if let Some(outcome) = sweep {
        sweeper.record(now, outcome);
    }
    Ok(())
}

/// Begins a transaction that excludes all other writers.
pub(super) fn begin(db: &mut Connection) -> rusqlite::Result<Transaction<'_>> {
    db.transaction_with_behavior(TransactionBehavior::Immediate)
}

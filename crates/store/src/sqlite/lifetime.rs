//! Deletes what has expired, in small batches along with other changes, so that it does not pile up.
//!
//! A lifetime ends at a time of the system's clock. When that clock was set back, what would end too
//! late is given its full lifetime from then on, at most; without that, a clock that was years ahead
//! for a moment would leave values that never end.

use rusqlite::{Transaction, params};

/// The time between two sweeps, in milliseconds, unless something is left over.
const SWEEP_INTERVAL_MS: i64 = 1000;

/// The most rows of each table that one sweep deletes.
const MAX_SWEEP_ROWS: usize = 256;

/// When to sweep next.
#[derive(Debug, Default)]
pub(super) struct Sweeper {
    last: Option<i64>,
    has_backlog: bool,
}

/// What a sweep has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SweepOutcome {
    /// Nothing that has expired.
    Clean,
    /// Perhaps more.
    Backlog,
}

impl Sweeper {
    pub(super) fn is_due(&self, now: i64) -> bool {
        // A clock that was set back needs a sweep at once.
        let is_recent = |last: i64| (0..SWEEP_INTERVAL_MS).contains(&(now.saturating_sub(last)));
        self.has_backlog || !self.last.is_some_and(is_recent)
    }

    pub(super) fn record(&mut self, now: i64, outcome: SweepOutcome) {
        *self = Self { last: Some(now), has_backlog: outcome == SweepOutcome::Backlog };
    }
}

/// Deletes a batch of what has expired.
pub(super) fn sweep(change: &Transaction<'_>, now: i64) -> rusqlite::Result<SweepOutcome> {
    let swept: i64 = change.prepare_cached("SELECT swept FROM clock")?.query_row([], |row| row.get(0))?;
    if swept > now {
        for table in ["entries", "counters", "logs"] {
            change.execute(&format!("UPDATE {table} SET ends = ?1 + ttl WHERE ends > ?1 + ttl"), [now])?;
        }
    }
    change.prepare_cached("UPDATE clock SET swept = ?1")?.execute([now])?;
    let limit = i64::try_from(MAX_SWEEP_ROWS).unwrap_or(i64::MAX);
    let entries = change
        .prepare_cached(
            "DELETE FROM entries WHERE (kind, id) IN
                (SELECT kind, id FROM entries WHERE ends IS NOT NULL AND ends <= ?1 LIMIT ?2)",
        )?
        .execute(params![now, limit])?;
    let counters = change
        .prepare_cached(
            "DELETE FROM counters WHERE name IN (SELECT name FROM counters WHERE ends <= ?1 LIMIT ?2)",
        )?
        .execute(params![now, limit])?;
    let mut left = MAX_SWEEP_ROWS;
    let ended: Vec<i64> = change
        .prepare_cached("SELECT id FROM logs WHERE ends <= ?1 LIMIT ?2")?
        .query_map(params![now, limit], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    for log in ended {
        left -= delete_log(change, log, left)?.min(left);
        if left == 0 {
            break;
        }
    }
    let is_clean = entries.max(counters) < MAX_SWEEP_ROWS && left > 0;
    Ok(if is_clean { SweepOutcome::Clean } else { SweepOutcome::Backlog })
}

/// Deletes at most so many rows of a log that has ended: its entries, then the log itself. Returns
/// how many.
pub(super) fn delete_log(change: &Transaction<'_>, log: i64, most: usize) -> rusqlite::Result<usize> {
    let limit = i64::try_from(most).unwrap_or(i64::MAX);
    let deleted = change
        .prepare_cached(
            "DELETE FROM log_entries WHERE log = ?1 AND position IN
                (SELECT position FROM log_entries WHERE log = ?1 ORDER BY position LIMIT ?2)",
        )?
        .execute(params![log, limit])?;
    if deleted == most {
        return Ok(deleted);
    }
    change.prepare_cached("DELETE FROM logs WHERE id = ?1")?.execute([log])?;
    Ok(deleted + 1)
}

/// Deletes a log that was just removed, unless it is large; then the sweeps delete the rest.
pub(super) fn delete_removed_log(change: &Transaction<'_>, log: i64) -> rusqlite::Result<()> {
    delete_log(change, log, MAX_SWEEP_ROWS).map(drop)
}

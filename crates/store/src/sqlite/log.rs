//! The logs of a SQLite file.
//!
//! Within a process, an append wakes those who wait. Appends of other processes are noticed by the
//! store's thread, which looks for changes at a short interval while somebody waits.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension as _, Transaction, params};

use super::{SqliteStore, lifetime};
use crate::lifetime::clamp_ms;
use crate::log::{has_gap, next_position};
use crate::{
    AppendOptions, Durability, LogEntry, LogName, LogSlice, LogStore, Position, ReadLimits, StoreFuture,
};

impl LogStore for SqliteStore {
    fn append<'a>(
        &'a self,
        log: &'a LogName,
        entries: &'a [Vec<u8>],
        options: AppendOptions,
    ) -> StoreFuture<'a, Vec<Position>> {
        if let Err(error) = options.check(log, entries) {
            return Box::pin(std::future::ready(Err(error)));
        }
        if entries.is_empty() {
            return Box::pin(std::future::ready(Ok(Vec::new())));
        }
        let (name, entries) = (log.clone(), entries.to_vec());
        let (log, bell) = (log.clone(), Arc::clone(&self.bell));
        self.thread.change(
            options.durability,
            move |change, now| append(change, now, name.as_str(), &entries, options),
            move |positions| {
                if let Some(newest) = positions.last() {
                    bell.ring(&log, *newest);
                }
            },
        )
    }

    fn after<'a>(
        &'a self,
        log: &'a LogName,
        position: Position,
        limits: ReadLimits,
    ) -> StoreFuture<'a, LogSlice> {
        let (name, clock) = (log.clone(), self.clock.clone());
        self.run(move |db| read(db, clock.now_ms(), name.as_str(), position, limits))
    }

    fn wait<'a>(&'a self, log: &'a LogName, position: Position, timeout: Duration) -> StoreFuture<'a, bool> {
        let newest = move || {
            let (name, clock) = (log.clone(), self.clock.clone());
            self.run(move |db| newest_position(db, clock.now_ms(), &name))
        };
        Box::pin(self.bell.wait(log, position, timeout, newest))
    }

    fn trim<'a>(&'a self, log: &'a LogName, up_to: Position) -> StoreFuture<'a, ()> {
        let name = log.clone();
        // Trimming needs no sync: what is trimmed twice is trimmed.
        self.change(Durability::Process, move |change, _| trim(change, name.as_str(), up_to))
    }

    fn remove_log<'a>(&'a self, log: &'a LogName) -> StoreFuture<'a, bool> {
        let name = log.clone();
        self.change(Durability::Disk, move |change, now| {
            let Some(row) = LogRow::find(change, name.as_str())? else { return Ok(false) };
            row.unlink(change)?;
            lifetime::delete_removed_log(change, row.id)?;
            Ok(row.ends > now)
        })
    }
}

/// The position of the newest entry.
pub(super) fn newest_position(
    db: &Connection,
    now: i64,
    log: &LogName,
) -> rusqlite::Result<Option<Position>> {
    let newest: Option<i64> = db
        .prepare_cached(
            "SELECT max(position) FROM log_entries
             WHERE log = (SELECT id FROM logs WHERE name = ?1 AND ends > ?2)",
        )?
        .query_row(params![log.as_str(), now], |row| row.get(0))?;
    Ok(newest.map(to_position))
}

/// A row of the table `logs`.
struct LogRow {
    id: i64,
    floor: i64,
    trimmed: i64,
    entries: u64,
    bytes: u64,
    ends: i64,
}

impl LogRow {
    fn find(db: &Connection, name: &str) -> rusqlite::Result<Option<Self>> {
        db.prepare_cached("SELECT id, floor, trimmed, entries, bytes, ends FROM logs WHERE name = ?1")?
            .query_row([name], |row| {
                Ok(Self {
                    id: row.get(0)?,
                    floor: row.get(1)?,
                    trimmed: row.get(2)?,
                    entries: row.get::<_, i64>(3)?.cast_unsigned(),
                    bytes: row.get::<_, i64>(4)?.cast_unsigned(),
                    ends: row.get(5)?,
                })
            })
            .optional()
    }

    /// Takes the name from a log that has ended, so that another one can have it before all entries
    /// are deleted.
    fn unlink(&self, change: &Transaction<'_>) -> rusqlite::Result<()> {
        change.prepare_cached("UPDATE logs SET name = NULL, ends = 0 WHERE id = ?1")?.execute([self.id])?;
        Ok(())
    }

    fn create(change: &Transaction<'_>, name: &str, floor: i64) -> rusqlite::Result<Self> {
        let row = Self { id: 0, floor, trimmed: 0, entries: 0, bytes: 0, ends: 0 };
        change
            .prepare_cached(
                "INSERT INTO logs (name, floor, trimmed, entries, bytes, ttl, ends)
                 VALUES (?1, ?2, 0, 0, 0, 0, 0)",
            )?
            .execute(params![name, floor])?;
        Ok(Self { id: change.last_insert_rowid(), ..row })
    }

    fn save_bounds(&self, change: &Transaction<'_>) -> rusqlite::Result<()> {
        change
            .prepare_cached("UPDATE logs SET trimmed = ?2, entries = ?3, bytes = ?4 WHERE id = ?1")?
            .execute(params![self.id, self.trimmed, self.entries.cast_signed(), self.bytes.cast_signed()])?;
        Ok(())
    }

    /// Accounts for an entry that was deleted.
    fn record_trimmed(&mut self, position: i64, length: i64) {
        self.trimmed = self.trimmed.max(position);
        self.entries = self.entries.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(length.cast_unsigned());
    }
}

fn append(
    change: &Transaction<'_>,
    now: i64,
    name: &str,
    entries: &[Vec<u8>],
    options: AppendOptions,
) -> rusqlite::Result<Vec<Position>> {
    let last: i64 = change.prepare_cached("SELECT position FROM clock")?.query_row([], |row| row.get(0))?;
    let now_us = now.saturating_mul(1000).cast_unsigned();
    let first = next_position(last.cast_unsigned(), now_us);
    let mut log = match LogRow::find(change, name)? {
        Some(log) if log.ends > now => log,
        ended => {
            ended.map(|log| log.unlink(change)).transpose()?;
            LogRow::create(change, name, first.cast_signed() - 1)?
        }
    };
    let positions: Vec<Position> = (first..).take(entries.len()).map(Position).collect();
    let mut insert =
        change.prepare_cached("INSERT INTO log_entries (log, position, value) VALUES (?1, ?2, ?3)")?;
    for (value, Position(position)) in entries.iter().zip(&positions) {
        insert.execute(params![log.id, position.cast_signed(), value])?;
        log.entries += 1;
        log.bytes += value.len() as u64;
    }
    change
        .prepare_cached("UPDATE clock SET position = ?1")?
        .execute([first.cast_signed() + i64::try_from(entries.len()).unwrap_or(0) - 1])?;
    while log.entries > options.max_entries.max(1) || log.bytes > options.max_bytes {
        let deleted = change
            .prepare_cached(
                "DELETE FROM log_entries WHERE log = ?1
                    AND position = (SELECT min(position) FROM log_entries WHERE log = ?1)
                 RETURNING position, length(value)",
            )?
            .query_row([log.id], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let Some((position, length)) = deleted else { break };
        log.record_trimmed(position, length);
    }
    let ttl = clamp_ms(options.ttl);
    change
        .prepare_cached(
            "UPDATE logs SET trimmed = ?2, entries = ?3, bytes = ?4, ttl = ?5, ends = ?6 WHERE id = ?1",
        )?
        .execute(params![
            log.id,
            log.trimmed,
            log.entries.cast_signed(),
            log.bytes.cast_signed(),
            ttl,
            now.saturating_add(ttl)
        ])?;
    Ok(positions)
}

fn read(
    db: &mut Connection,
    now: i64,
    name: &str,
    position: Position,
    limits: ReadLimits,
) -> rusqlite::Result<LogSlice> {
    // One transaction, so that all of it is of one moment.
    let moment = db.transaction()?;
    let Some(log) = LogRow::find(&moment, name)?.filter(|log| log.ends > now) else {
        return Ok(LogSlice::of_absent_log(position));
    };
    let (oldest, newest): (Option<i64>, Option<i64>) = moment
        .prepare_cached(
            "SELECT (SELECT min(position) FROM log_entries WHERE log = ?1),
                    (SELECT max(position) FROM log_entries WHERE log = ?1)",
        )?
        .query_row([log.id], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let mut entries: Vec<LogEntry> = Vec::new();
    let mut bytes = 0;
    let mut select = moment.prepare_cached(
        "SELECT position, value FROM log_entries WHERE log = ?1 AND position > ?2 ORDER BY position LIMIT ?3",
    )?;
    let most = i64::try_from(limits.max_entries.max(1)).unwrap_or(i64::MAX);
    let mut rows = select.query(params![log.id, to_integer(position), most])?;
    while let Some(row) = rows.next()? {
        let value = row.get_ref(1)?.as_blob()?;
        bytes += value.len();
        if bytes > limits.max_bytes && !entries.is_empty() {
            break;
        }
        entries.push(LogEntry { position: to_position(row.get(0)?), value: value.to_vec() });
    }
    Ok(LogSlice {
        entries,
        has_gap: has_gap(position, to_position(log.floor), to_position(log.trimmed)),
        oldest: oldest.map(to_position),
        newest: newest.map(to_position),
    })
}

fn trim(change: &Transaction<'_>, name: &str, up_to: Position) -> rusqlite::Result<()> {
    let Some(mut log) = LogRow::find(change, name)? else { return Ok(()) };
    let mut delete = change.prepare_cached(
        "DELETE FROM log_entries WHERE log = ?1 AND position <= ?2 RETURNING position, length(value)",
    )?;
    let mut rows = delete.query(params![log.id, to_integer(up_to)])?;
    while let Some(row) = rows.next()? {
        log.record_trimmed(row.get(0)?, row.get(1)?);
    }
    log.save_bounds(change)
}

fn to_position(stored: i64) -> Position {
    Position(stored.cast_unsigned())
}

/// A position that a caller made up may be out of range.
fn to_integer(position: Position) -> i64 {
    i64::try_from(position.0).unwrap_or(i64::MAX)
}

//! Owns the schema of the SQLite file: its tables, the migrations, and that foreign or newer files
//! are refused.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::thread::is_busy;
use crate::StoreError;

/// The application id that identifies our files: "bwln".
const APPLICATION_ID: i64 = 0x6277_6c6e;

/// The migrations, starting from an empty file. Existing ones are never changed.
const MIGRATIONS: &[&str] = &["
    CREATE TABLE entries (
        kind TEXT NOT NULL, id TEXT NOT NULL, version INTEGER NOT NULL, value BLOB NOT NULL,
        PRIMARY KEY (kind, id)
    ) STRICT, WITHOUT ROWID;
    -- One row for all entries, and none is ever counted twice: a version does not come back, not even after its
    -- entry was forgotten.
    CREATE TABLE versions (only_row INTEGER PRIMARY KEY CHECK (only_row = 1), last INTEGER NOT NULL) STRICT;
    INSERT INTO versions VALUES (1, 0);
    CREATE TABLE leases (name TEXT PRIMARY KEY, token TEXT NOT NULL, ends INTEGER NOT NULL) STRICT, WITHOUT ROWID;
", "
    -- An entry without an end has no lifetime. Lifetimes and ends are in milliseconds, ends since the epoch.
    ALTER TABLE entries ADD COLUMN ttl INTEGER;
    ALTER TABLE entries ADD COLUMN ends INTEGER;
    CREATE INDEX entries_by_end ON entries (ends) WHERE ends IS NOT NULL;
    CREATE TABLE counters (
        name TEXT PRIMARY KEY, value INTEGER NOT NULL, ttl INTEGER NOT NULL, ends INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX counters_by_end ON counters (ends);
    -- A log without a name has ended, and waits for the deletion of its entries. All its positions are after `floor`;
    -- `trimmed` is the last one that was trimmed.
    CREATE TABLE logs (
        id INTEGER PRIMARY KEY, name TEXT UNIQUE, floor INTEGER NOT NULL, trimmed INTEGER NOT NULL,
        entries INTEGER NOT NULL, bytes INTEGER NOT NULL, ttl INTEGER NOT NULL, ends INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX logs_by_end ON logs (ends);
    CREATE TABLE log_entries (
        log INTEGER NOT NULL, position INTEGER NOT NULL, value BLOB NOT NULL, PRIMARY KEY (log, position)
    ) STRICT, WITHOUT ROWID;
    -- The last position of all logs, which is never reused, and when expired rows were last deleted.
    CREATE TABLE clock (
        only_row INTEGER PRIMARY KEY CHECK (only_row = 1), position INTEGER NOT NULL, swept INTEGER NOT NULL
    ) STRICT;
    INSERT INTO clock VALUES (1, 0, 0);
"];

/// How long SQLite itself waits for other processes.
const SQLITE_BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// The size to which the journal is cut after it was merged into the file, in bytes.
const MAX_IDLE_JOURNAL_SIZE: i64 = 16 << 20;

/// The identification of a SQLite file.
pub(super) struct FileHeader {
    application: i64,
    version: i64,
    tables: i64,
}

/// Opens an existing file.
pub(super) fn connect(path: &Path) -> rusqlite::Result<Connection> {
    // Without URI support, so that every path is taken literally.
    let db = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    db.busy_timeout(SQLITE_BUSY_TIMEOUT)?;
    db.pragma_update(None, "trusted_schema", false)?;
    db.pragma_update(None, "cell_size_check", true)?;
    // Overwrite removed content.
    db.pragma_update(None, "secure_delete", true)?;
    Ok(db)
}

/// Reads the identification, before anything is changed.
pub(super) fn read_header(db: &Connection) -> rusqlite::Result<FileHeader> {
    db.query_row(
        "SELECT (SELECT application_id FROM pragma_application_id),
                (SELECT user_version FROM pragma_user_version),
                (SELECT count(*) FROM sqlite_schema)",
        [],
        |row| Ok(FileHeader { application: row.get(0)?, version: row.get(1)?, tables: row.get(2)? }),
    )
}

/// Fails unless the file is ours, or empty, and not newer.
pub(super) fn check_header(path: &Path, found: &FileHeader) -> Result<(), StoreError> {
    let path = path.display();
    let empty = found.application == 0 && found.version == 0 && found.tables == 0;
    if !empty && found.application != APPLICATION_ID {
        return Err(StoreError::Unusable(format!("{path} is a SQLite file of another program")));
    }
    if found.version > current_version() {
        return Err(StoreError::Unusable(format!(
            "{path} was written by a later version of bowline (form {}, this one knows {}); use that one",
            found.version,
            current_version()
        )));
    }
    Ok(())
}

/// The journal mode, which makes changes atomic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Journal {
    /// Write-ahead log: concurrent readers and a writer, on one machine.
    WriteAhead,
    /// Rollback journal: exclusive access, from any number of machines.
    Rollback,
}

/// Migrates the file. Returns its journal mode if it is not the wanted one.
pub(super) fn upgrade(db: &mut Connection, journal: Journal) -> rusqlite::Result<Option<String>> {
    let (wanted, mode) = match journal {
        Journal::WriteAhead => ("wal", set_journal_mode(db, "wal")?),
        Journal::Rollback => ("delete", leave_write_ahead_log(db)?),
    };
    let is_wanted = mode.eq_ignore_ascii_case(wanted);
    // Confirmed means on disk. Without a write-ahead log that takes one more sync.
    let synchronous = if mode.eq_ignore_ascii_case("wal") { "FULL" } else { "EXTRA" };
    db.pragma_update(None, "synchronous", synchronous)?;
    // On macOS, on the disk itself and not in its cache.
    db.pragma_update(None, "fullfsync", true)?;
    db.pragma_update(None, "checkpoint_fullfsync", true)?;
    // A large transaction does not leave a large log behind for ever.
    db.pragma_update(None, "journal_size_limit", MAX_IDLE_JOURNAL_SIZE)?;
    let version: i64 = db.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if version < current_version() {
        migrate(db, current_version())?;
    }
    Ok((!is_wanted).then_some(mode))
}

/// Sets the journal mode, and returns the resulting one.
fn set_journal_mode(db: &Connection, mode: &str) -> rusqlite::Result<String> {
    db.query_row(&format!("PRAGMA journal_mode = {mode}"), [], |row| row.get(0))
}

/// Leaves the write-ahead log, which is only possible while no other process uses the file. Others
/// are not waited for, because they may use it for days.
fn leave_write_ahead_log(db: &Connection) -> rusqlite::Result<String> {
    db.busy_timeout(Duration::ZERO)?;
    let set = set_journal_mode(db, "delete");
    db.busy_timeout(SQLITE_BUSY_TIMEOUT)?;
    match set {
        Err(error) if is_busy(&error) => Ok("wal".to_owned()),
        mode => mode,
    }
}

/// Runs all missing migrations up to a version, or none. Another process may have run them meanwhile.
fn migrate(db: &mut Connection, target: i64) -> rusqlite::Result<()> {
    let change = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let version: i64 = change.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    change.execute_batch(
        "CREATE TABLE IF NOT EXISTS migrations (version INTEGER PRIMARY KEY, done TEXT NOT NULL) STRICT",
    )?;
    for (to, step) in (1_i64..).zip(MIGRATIONS).filter(|(to, _)| (version + 1..=target).contains(to)) {
        change.execute_batch(step)?;
        change.execute("INSERT INTO migrations VALUES (?1, datetime('now'))", [to])?;
        change.pragma_update(None, "user_version", to)?;
    }
    change.pragma_update(None, "application_id", APPLICATION_ID)?;
    change.commit()
}

fn current_version() -> i64 {
    i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX)
}

/// Makes an empty file one of an earlier version.
#[cfg(test)]
pub(super) fn create_form(path: &Path, version: i64) {
    migrate(&mut connect(path).unwrap(), version).unwrap();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_confirmed_is_on_the_disk() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        std::fs::write(&path, b"").unwrap();
        // The second run finds nothing to do.
        for _ in 0..2 {
            let mut db = connect(&path).unwrap();
            check_header(&path, &read_header(&db).unwrap()).unwrap();
            assert_eq!(upgrade(&mut db, Journal::WriteAhead).unwrap(), None);
            let says = |pragma: &str| -> String {
                db.query_row(&format!("SELECT CAST({pragma} AS TEXT) FROM pragma_{pragma}"), [], |row| {
                    row.get(0)
                })
                .unwrap()
            };
            // Killing a process does not reveal a missing sync; only a power loss would.
            assert_eq!(
                ["journal_mode", "synchronous", "fullfsync", "secure_delete", "user_version"].map(says),
                ["wal", "2", "1", "1", "2"]
            );
            let steps: i64 = db.query_row("SELECT count(*) FROM migrations", [], |row| row.get(0)).unwrap();
            assert_eq!(steps, current_version());
        }
    }

    /// On a network file system, also for a file that was created elsewhere.
    #[test]
    fn a_write_ahead_log_is_left_when_nobody_else_uses_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        std::fs::write(&path, b"").unwrap();
        let mut other = connect(&path).unwrap();
        upgrade(&mut other, Journal::WriteAhead).unwrap();
        other
            .execute("INSERT INTO entries (kind, id, version, value) VALUES ('login', 'a', 1, x'00')", [])
            .unwrap();

        let mut db = connect(&path).unwrap();
        assert_eq!(upgrade(&mut db, Journal::Rollback).unwrap().as_deref(), Some("wal"));
        drop(other);
        assert_eq!(upgrade(&mut db, Journal::Rollback).unwrap(), None);
        let says = |pragma: &str| -> String {
            db.query_row(&format!("SELECT CAST({pragma} AS TEXT) FROM pragma_{pragma}"), [], |row| row.get(0))
                .unwrap()
        };
        assert_eq!(["journal_mode", "synchronous"].map(says), ["delete", "3"]);
        let kept: i64 = db.query_row("SELECT count(*) FROM entries", [], |row| row.get(0)).unwrap();
        assert_eq!(kept, 1, "nothing is lost");
    }
}

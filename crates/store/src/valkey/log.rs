//! The logs of a Valkey server: each is a stream of entries, a hash with its bounds, and its last
//! position, all in one slot.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use redis::Script;

use super::{KEY_PREFIX, OPERATION_RESULT_TTL_MS, ValkeyStore, escape_tag};
use crate::lease;
use crate::lifetime::clamp_ms;
use crate::log::has_gap;
use crate::{
    AppendOptions, LogEntry, LogName, LogSlice, LogStore, Position, ReadLimits, StoreError, StoreFuture,
};

static APPEND_SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("append.lua")));
static TRIM_SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("trim.lua")));
static REMOVE_SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("remove_log.lua")));
const AFTER_SCRIPT: &str = include_str!("after.lua");

/// How long the last position of a log outlives the log, in milliseconds. Later, the clock alone
/// keeps positions from being reused.
const LAST_POSITION_TTL_MS: i64 = 24 * 60 * 60 * 1000;

/// The most entries of one read.
const MAX_READ_ENTRIES: usize = 100_000;

/// The keys of a log. The name is their hash tag, so that they are in one slot.
pub(super) struct LogKeys {
    pub(super) entries: String,
    about: String,
    last_position: String,
}

impl LogKeys {
    pub(super) fn new(log: &LogName) -> Self {
        let prefix = format!("{KEY_PREFIX}log:{{{}}}:", escape_tag(log.as_str()));
        Self {
            entries: format!("{prefix}entries"),
            about: format!("{prefix}about"),
            last_position: format!("{prefix}last"),
        }
    }

    /// The key of the result of one append, which makes a retried one idempotent.
    fn append_result(&self, token: &str) -> String {
        format!("{}:once:{token}", self.entries)
    }
}

impl ValkeyStore {
    async fn newest_position(&self, log: &LogName) -> Result<Option<Position>, StoreError> {
        let mut ask = redis::cmd("HGET");
        ask.arg(LogKeys::new(log).about).arg("newest");
        let newest: Option<String> = self.connection.query(&ask).await?;
        newest.map(|newest| self.parse_position(newest.as_bytes())).transpose()
    }

    fn parse_position(&self, id: &[u8]) -> Result<Position, StoreError> {
        parse_stream_id(id).ok_or_else(|| self.foreign_error())
    }

    async fn read(
        &self,
        log: &LogName,
        position: Position,
        limits: ReadLimits,
    ) -> Result<LogSlice, StoreError> {
        let keys = LogKeys::new(log);
        let mut ask = redis::cmd("EVAL");
        ask.arg(AFTER_SCRIPT).arg(2).arg(&keys.entries).arg(&keys.about);
        ask.arg(format!("{}-0", position.0.saturating_add(1)));
        ask.arg(limits.max_entries.clamp(1, MAX_READ_ENTRIES)).arg(limits.max_bytes);
        let answer: Option<Vec<Vec<u8>>> = self.connection.query(&ask).await?;
        let Some(answer) = answer else { return Ok(LogSlice::of_absent_log(position)) };
        let mut answer = answer.into_iter();
        let mut next = || answer.next().ok_or_else(|| self.foreign_error());
        let (floor, trimmed) = (self.parse_position(&next()?)?, self.parse_position(&next()?)?);
        let (newest, oldest) = (next()?, next()?);
        let parse_edge = |id: &[u8]| (!id.is_empty()).then(|| self.parse_position(id)).transpose();
        let mut entries = Vec::with_capacity(answer.len() / 2);
        while let (Some(id), Some(value)) = (answer.next(), answer.next()) {
            entries.push(LogEntry { position: self.parse_position(&id)?, value });
        }
        Ok(LogSlice {
            entries,
            has_gap: has_gap(position, floor, trimmed),
            oldest: parse_edge(&oldest)?,
            newest: parse_edge(&newest)?,
        })
    }
}

impl LogStore for ValkeyStore {
    fn append<'a>(
        &'a self,
        log: &'a LogName,
        entries: &'a [Vec<u8>],
        options: AppendOptions,
    ) -> StoreFuture<'a, Vec<Position>> {
        Box::pin(async move {
            options.check(log, entries)?;
            if entries.is_empty() {
                return Ok(Vec::new());
            }
            let (keys, ttl) = (LogKeys::new(log), clamp_ms(options.ttl));
            let mut script = APPEND_SCRIPT.key(&keys.entries);
            script.key(&keys.about).key(&keys.last_position).key(keys.append_result(&lease::new_token()?));
            script.arg(options.max_entries.max(1)).arg(options.max_bytes);
            script.arg(ttl).arg(ttl + LAST_POSITION_TTL_MS).arg(OPERATION_RESULT_TTL_MS);
            for entry in entries {
                script.arg(&entry[..]);
            }
            let first: String = self.connection.run(&script).await?;
            let Position(first) = self.parse_position(first.as_bytes())?;
            let positions: Vec<Position> = (first..).take(entries.len()).map(Position).collect();
            if let Some(newest) = positions.last() {
                self.waiting.bell().ring(log, *newest);
            }
            Ok(positions)
        })
    }

    fn after<'a>(
        &'a self,
        log: &'a LogName,
        position: Position,
        limits: ReadLimits,
    ) -> StoreFuture<'a, LogSlice> {
        Box::pin(self.read(log, position, limits))
    }

    fn wait<'a>(&'a self, log: &'a LogName, position: Position, timeout: Duration) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            let newest = || async {
                // The first call is made when this wait is registered.
                if !timeout.is_zero() {
                    Arc::clone(&self.waiting).ensure_running();
                }
                self.newest_position(log).await
            };
            self.waiting.bell().wait(log, position, timeout, newest).await
        })
    }

    fn trim<'a>(&'a self, log: &'a LogName, up_to: Position) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let keys = LogKeys::new(log);
            let mut script = TRIM_SCRIPT.key(keys.entries);
            script.key(keys.about).arg(format!("{}-0", up_to.0));
            let _: u64 = self.connection.run(&script).await?;
            Ok(())
        })
    }

    fn remove_log<'a>(&'a self, log: &'a LogName) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            let keys = LogKeys::new(log);
            let mut script = REMOVE_SCRIPT.key(keys.about);
            script.key(keys.entries);
            let removed: u64 = self.connection.run(&script).await?;
            Ok(removed > 0)
        })
    }
}

/// Parses a position, or the id of a stream entry, whose second part is always 0.
pub(super) fn parse_stream_id(id: &[u8]) -> Option<Position> {
    let text = std::str::from_utf8(id).ok()?;
    text.strip_suffix("-0").unwrap_or(text).parse().ok().map(Position)
}

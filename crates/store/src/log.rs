//! Append logs: ordered entries under a name, which readers follow by position.

mod doorbell;

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub(crate) use doorbell::Doorbell;

use crate::{StoreError, StoreFuture};

/// Stores append logs. Every [`Store`](crate::Store) does.
///
/// A log begins with its first append, and ends when it is removed or when its lifetime has passed
/// without another append. Its entries have strictly increasing positions. A position is never
/// reused: not after entries were trimmed, not after the log was removed, and not in a store that
/// has lost its content, provided that the clock was not set back as well.
///
/// A future that is dropped before it completes may or may not have taken effect, but never partly.
pub trait LogStore: Send + Sync {
    /// Appends entries, all or none of them, and renews the lifetime of the log. Returns their
    /// positions. If the log then exceeds the limits, its oldest entries are trimmed. An entry that
    /// alone exceeds the limit in bytes is refused with [`StoreError::Unusable`].
    ///
    /// No entries have no effect.
    fn append<'a>(
        &'a self,
        log: &'a LogName,
        entries: &'a [Vec<u8>],
        options: AppendOptions,
    ) -> StoreFuture<'a, Vec<Position>>;

    /// Returns the entries after a position, oldest first. [`Position::START`] is before all of
    /// them.
    fn after<'a>(
        &'a self,
        log: &'a LogName,
        position: Position,
        limits: ReadLimits,
    ) -> StoreFuture<'a, LogSlice>;

    /// Waits until there is an entry after a position. Returns `false` if there is none when the
    /// timeout has passed. The log need not exist yet.
    fn wait<'a>(&'a self, log: &'a LogName, position: Position, timeout: Duration) -> StoreFuture<'a, bool>;

    /// Removes the entries up to a position, and that at the position itself.
    fn trim<'a>(&'a self, log: &'a LogName, up_to: Position) -> StoreFuture<'a, ()>;

    /// Removes a log with all its entries. Returns whether there was one.
    fn remove_log<'a>(&'a self, log: &'a LogName) -> StoreFuture<'a, bool>;
}

/// The name of a log: any text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogName(String);

/// The position of an entry in its log. Later entries have greater positions; the difference of two
/// positions has no meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u64);

/// An entry of a log.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogEntry {
    /// Where the entry is.
    pub position: Position,
    /// The appended bytes.
    pub value: Vec<u8>,
}

/// What [`LogStore::after`] returns.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogSlice {
    /// The entries after the requested position, as many as the limits allow.
    pub entries: Vec<LogEntry>,
    /// Whether entries after the requested position were lost: trimmed, or gone with a log that has
    /// ended. For a log that has ended it is `true` even if the reader had seen all its entries,
    /// unless the reader began at [`Position::START`].
    pub has_gap: bool,
    /// The position of the oldest entry that the log still has.
    pub oldest: Option<Position>,
    /// The position of the newest entry. If the last returned entry is before it, there are more.
    pub newest: Option<Position>,
}

/// The bounds of a log, and how durable an append is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AppendOptions {
    /// The most entries that the log keeps, at least 1. The default is 1,000.
    pub max_entries: u64,
    /// The most bytes that the log keeps. The default is 4 MiB.
    pub max_bytes: u64,
    /// The lifetime of the log from this append on, up to [`MAX_TTL`](crate::MAX_TTL). The default
    /// is one hour.
    pub ttl: Duration,
    /// When the append is confirmed. The default is [`Durability::Disk`].
    pub durability: Durability,
}

/// What a confirmed append survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Durability {
    /// The sudden end of the process, but perhaps not that of the machine. The next append with
    /// [`Durability::Disk`] makes it durable as well.
    Process,
    /// The sudden end of the machine.
    #[default]
    Disk,
}

/// The bounds of one read. The first entry is returned even if it exceeds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadLimits {
    /// The most entries. The default is 100.
    pub max_entries: usize,
    /// The most bytes of all entries together. The default is 1 MiB.
    pub max_bytes: usize,
}

impl LogName {
    /// Creates a name.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Position {
    /// The position before all entries.
    pub const START: Self = Self(0);
}

impl AppendOptions {
    /// Sets the most entries that the log keeps, at least 1.
    #[must_use]
    pub fn max_entries(mut self, entries: u64) -> Self {
        self.max_entries = entries;
        self
    }

    /// Sets the most bytes that the log keeps.
    #[must_use]
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// Sets the lifetime of the log from this append on, up to [`MAX_TTL`](crate::MAX_TTL).
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// Sets when the append is confirmed.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Fails if an entry alone exceeds the limit in bytes.
    pub(crate) fn check(&self, log: &LogName, entries: &[Vec<u8>]) -> Result<(), StoreError> {
        match entries.iter().find(|entry| entry.len() as u64 > self.max_bytes) {
            None => Ok(()),
            Some(entry) => Err(StoreError::Unusable(format!(
                "an entry of {} bytes is not appended to the log {:?}, which keeps at most {} bytes",
                entry.len(),
                log.as_str(),
                self.max_bytes
            ))),
        }
    }
}

impl Default for AppendOptions {
    fn default() -> Self {
        Self {
            max_entries: 1000,
            max_bytes: 4 << 20,
            ttl: Duration::from_secs(60 * 60),
            durability: Durability::Disk,
        }
    }
}

impl ReadLimits {
    /// Sets the most entries of one read.
    #[must_use]
    pub fn max_entries(mut self, entries: usize) -> Self {
        self.max_entries = entries;
        self
    }

    /// Sets the most bytes of all entries of one read together.
    #[must_use]
    pub fn max_bytes(mut self, bytes: usize) -> Self {
        self.max_bytes = bytes;
        self
    }
}

impl Default for ReadLimits {
    fn default() -> Self {
        Self { max_entries: 100, max_bytes: 1 << 20 }
    }
}

impl LogEntry {
    /// Creates an entry, for a [`LogStore`] of a host's own.
    pub fn new(position: Position, value: Vec<u8>) -> Self {
        Self { position, value }
    }
}

impl LogSlice {
    /// Creates a slice of these entries, for a [`LogStore`] of a host's own. It has no gap, and the log
    /// no others than these; set the fields where that is not so.
    pub fn new(entries: Vec<LogEntry>) -> Self {
        let position = |entry: Option<&LogEntry>| entry.map(|entry| entry.position);
        let (oldest, newest) = (position(entries.first()), position(entries.last()));
        Self { entries, has_gap: false, oldest, newest }
    }

    /// The slice of a log that does not exist.
    pub(crate) fn of_absent_log(requested: Position) -> Self {
        Self { entries: Vec::new(), has_gap: requested != Position::START, oldest: None, newest: None }
    }
}

impl fmt::Debug for LogEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogEntry")
            .field("position", &self.position)
            .field("bytes", &self.value.len())
            .finish()
    }
}

/// Whether a reader of a log has missed entries. `floor` is before the first entry that the log ever
/// had and not before any of an earlier log of that name; `trimmed` is the last trimmed position.
pub(crate) fn has_gap(requested: Position, floor: Position, trimmed: Position) -> bool {
    requested < trimmed || (requested != Position::START && requested < floor)
}

/// The first of new positions. Positions follow the clock, so that a store that has lost its content,
/// and with it the last position, does not reuse those that readers remember.
pub(crate) fn next_position(last: u64, now_us: u64) -> u64 {
    now_us.max(last + 1)
}

/// Microseconds since the epoch.
pub(crate) fn wall_clock_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_slice_has_the_positions_of_its_entries_and_no_gap() {
        let entry = |position| LogEntry::new(Position(position), Vec::new());
        let slice = LogSlice::new(vec![entry(3), entry(4), entry(7)]);
        assert_eq!((slice.oldest, slice.newest), (Some(Position(3)), Some(Position(7))));
        assert!(!slice.has_gap);
        assert_eq!(LogSlice::new(Vec::new()).newest, None);
    }
}

//! The logs of a store in memory.

use std::collections::VecDeque;
use std::future::ready;
use std::time::Duration;

use tokio::time::Instant;

use super::MemoryStore;
use crate::log::{has_gap, next_position, wall_clock_us};
use crate::{AppendOptions, LogEntry, LogName, LogSlice, LogStore, Position, ReadLimits, StoreFuture};

/// A log in memory.
#[derive(Debug)]
pub(super) struct HeldLog {
    entries: VecDeque<LogEntry>,
    bytes: u64,
    floor: Position,
    trimmed: Position,
    ends: Instant,
}

impl HeldLog {
    pub(super) fn is_live(&self) -> bool {
        self.ends > Instant::now()
    }

    fn remove_oldest(&mut self) {
        if let Some(entry) = self.entries.pop_front() {
            self.bytes -= entry.value.len() as u64;
            self.trimmed = entry.position;
        }
    }

    fn read(&self, position: Position, limits: ReadLimits) -> LogSlice {
        let from = self.entries.partition_point(|entry| entry.position <= position);
        let mut bytes = 0;
        let is_within = |(index, entry): &(usize, &LogEntry)| {
            bytes += entry.value.len();
            *index == 0 || (*index < limits.max_entries && bytes <= limits.max_bytes)
        };
        let wanted = self.entries.range(from..).enumerate().take_while(is_within);
        LogSlice {
            entries: wanted.map(|(_, entry)| entry.clone()).collect(),
            has_gap: has_gap(position, self.floor, self.trimmed),
            oldest: self.entries.front().map(|entry| entry.position),
            newest: self.entries.back().map(|entry| entry.position),
        }
    }
}

impl MemoryStore {
    fn append_now(&self, log: &LogName, entries: &[Vec<u8>], options: AppendOptions) -> Vec<Position> {
        if entries.is_empty() {
            return Vec::new();
        }
        let mut kept = self.lock_state();
        let first = next_position(kept.last_position, wall_clock_us());
        let positions: Vec<Position> = (first..).take(entries.len()).map(Position).collect();
        let last = positions[positions.len() - 1];
        kept.last_position = last.0;
        let ends = kept.end_after(options.ttl);
        let new = || HeldLog {
            entries: VecDeque::new(),
            bytes: 0,
            floor: Position(first - 1),
            trimmed: Position::START,
            ends,
        };
        let held = kept.logs.entry(log.clone()).or_insert_with(new);
        if !held.is_live() {
            *held = new();
        }
        held.ends = ends;
        for (value, position) in entries.iter().zip(&positions) {
            held.bytes += value.len() as u64;
            held.entries.push_back(LogEntry { position: *position, value: value.clone() });
        }
        while held.entries.len() as u64 > options.max_entries.max(1) || held.bytes > options.max_bytes {
            held.remove_oldest();
        }
        drop(kept);
        self.bell.ring(log, last);
        positions
    }

    fn newest(&self, log: &LogName) -> Option<Position> {
        let kept = self.lock_state();
        kept.logs.get(log).filter(|held| held.is_live())?.entries.back().map(|entry| entry.position)
    }
}

impl LogStore for MemoryStore {
    fn append<'a>(
        &'a self,
        log: &'a LogName,
        entries: &'a [Vec<u8>],
        options: AppendOptions,
    ) -> StoreFuture<'a, Vec<Position>> {
        let checked = options.check(log, entries);
        Box::pin(ready(checked.map(|()| self.append_now(log, entries, options))))
    }

    fn after<'a>(
        &'a self,
        log: &'a LogName,
        position: Position,
        limits: ReadLimits,
    ) -> StoreFuture<'a, LogSlice> {
        let kept = self.lock_state();
        let live = kept.logs.get(log).filter(|held| held.is_live());
        let slice =
            live.map_or_else(|| LogSlice::of_absent_log(position), |held| held.read(position, limits));
        Box::pin(ready(Ok(slice)))
    }

    fn wait<'a>(&'a self, log: &'a LogName, position: Position, timeout: Duration) -> StoreFuture<'a, bool> {
        Box::pin(self.bell.wait(log, position, timeout, move || ready(Ok(self.newest(log)))))
    }

    fn trim<'a>(&'a self, log: &'a LogName, up_to: Position) -> StoreFuture<'a, ()> {
        if let Some(held) = self.lock_state().logs.get_mut(log) {
            while held.entries.front().is_some_and(|entry| entry.position <= up_to) {
                held.remove_oldest();
            }
        }
        Box::pin(ready(Ok(())))
    }

    fn remove_log<'a>(&'a self, log: &'a LogName) -> StoreFuture<'a, bool> {
        let removed = self.lock_state().logs.remove(log);
        Box::pin(ready(Ok(removed.is_some_and(|held| held.is_live()))))
    }
}

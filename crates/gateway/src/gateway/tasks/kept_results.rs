//! [`KeptResults`]: answers to calls that a host wanted to be tasks, and that their server answered at
//! once.
//!
//! They are in memory only: such an answer is that of a call which a server with the tasks extension
//! did not find worth a task.

use std::collections::VecDeque;
use std::time::{Duration, SystemTime};

use bowline::Json;

/// The answers, the oldest first.
#[derive(Default)]
pub(super) struct KeptResults {
    entries: VecDeque<KeptResult>,
    last_number: u64,
    bytes: usize,
}

/// One answer.
pub(super) struct KeptResult {
    number: u64,
    pub(super) result: Json,
    pub(super) since: SystemTime,
    /// For how long it is kept.
    pub(super) ttl: Duration,
}

/// Most answers that are kept.
const MAX_KEPT_RESULTS: usize = 1_000;
/// Most bytes of all answers that are kept. A larger one is kept alone.
const MAX_KEPT_BYTES: usize = 64 * 1024 * 1024;

impl KeptResults {
    /// Keeps an answer. The oldest make room.
    pub(super) fn insert(&mut self, result: Json, (now, ttl): (SystemTime, Duration)) -> u64 {
        self.remove_where(|entry| entry.is_over(now));
        self.last_number += 1;
        self.bytes += result.as_bytes().len();
        self.entries.push_back(KeptResult { number: self.last_number, result, since: now, ttl });
        while self.entries.len() > 1 && (self.entries.len() > MAX_KEPT_RESULTS || self.bytes > MAX_KEPT_BYTES)
        {
            if let Some(oldest) = self.entries.pop_front() {
                self.bytes -= oldest.result.as_bytes().len();
            }
        }
        self.last_number
    }

    /// The answer with this number, unless its time is over.
    pub(super) fn get(&self, number: u64, now: SystemTime) -> Option<&KeptResult> {
        self.entries.iter().find(|entry| entry.number == number).filter(|entry| !entry.is_over(now))
    }

    fn remove_where(&mut self, condition: impl Fn(&KeptResult) -> bool) {
        let bytes = &mut self.bytes;
        self.entries.retain(|entry| {
            let is_removed = condition(entry);
            if is_removed {
                *bytes -= entry.result.as_bytes().len();
            }
            !is_removed
        });
    }
}

impl KeptResult {
    fn is_over(&self, now: SystemTime) -> bool {
        now.duration_since(self.since).is_ok_and(|age| age >= self.ttl)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(bytes: usize) -> Json {
        Json::parse(format!("\"{}\"", "x".repeat(bytes - 2))).unwrap()
    }

    #[test]
    fn number_size_and_time_are_bounded() {
        let (start, ttl) = (SystemTime::UNIX_EPOCH, Duration::from_secs(60));
        let mut kept = KeptResults::default();
        let first = kept.insert(result(10), (start, ttl));
        assert!(kept.get(first, start + ttl / 2).is_some());
        assert!(kept.get(first, start + ttl).is_none(), "its time is over");
        assert!(kept.get(first + 1, start).is_none());
        for _ in 0..MAX_KEPT_RESULTS {
            kept.insert(result(10), (start, ttl));
        }
        assert_eq!((kept.entries.len(), kept.bytes), (MAX_KEPT_RESULTS, 10 * MAX_KEPT_RESULTS));
        assert!(kept.get(first, start).is_none(), "it made room");
        let large = kept.insert(result(MAX_KEPT_BYTES + 1), (start, ttl));
        assert_eq!((kept.entries.len(), kept.bytes), (1, MAX_KEPT_BYTES + 1));
        assert!(kept.get(large, start).is_some());
        let last = kept.insert(result(10), (start + ttl, ttl));
        assert_eq!((kept.entries.len(), kept.bytes), (1, 10), "the others are over");
        assert_eq!(last, large + 1);
    }
}

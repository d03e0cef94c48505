//! [`EventLog`]: everything a server received, in order, with counts and protocol violations, and a
//! way to wait for an event instead of sleeping.

use std::fmt::Write as _;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::sync;

/// A message or request that a log records.
pub(crate) trait LogEntry: Clone {
    /// The counts that are kept beside the entries, and that clearing the entries leaves alone.
    type Counts: Default;

    /// Takes its position in the order of arrival, and updates the counts.
    fn register(&mut self, seq: u64, counts: &mut Self::Counts);

    /// Returns the entry as one line.
    fn summary(&self) -> String;

    /// Returns the counts and the number of entries as one line.
    fn summarize_counts(counts: &Self::Counts, entries: usize) -> String;
}

/// The record of a server.
pub(crate) struct EventLog<E: LogEntry> {
    state: Mutex<State<E>>,
    changed: watch::Sender<u64>,
}

struct State<E: LogEntry> {
    entries: Vec<E>,
    /// The number of entries that were cleared.
    first_seq: u64,
    counts: E::Counts,
    violations: Vec<String>,
}

impl<E: LogEntry> Default for EventLog<E> {
    fn default() -> Self {
        let state =
            State { entries: Vec::new(), first_seq: 0, counts: E::Counts::default(), violations: Vec::new() };
        Self { state: Mutex::new(state), changed: watch::Sender::new(0) }
    }
}

impl<E: LogEntry> EventLog<E> {
    /// Records an entry and returns its position in the order of arrival, from 0.
    pub(crate) fn record(&self, mut entry: E) -> u64 {
        self.write(|state| {
            let seq = state.first_seq + state.entries.len() as u64;
            entry.register(seq, &mut state.counts);
            state.entries.push(entry);
            seq
        })
    }

    /// Changes an entry, unless it was cleared.
    pub(crate) fn edit(&self, seq: u64, change: impl FnOnce(&mut E)) {
        self.write(|state| {
            let index = seq.checked_sub(state.first_seq).and_then(|index| usize::try_from(index).ok());
            if let Some(entry) = index.and_then(|index| state.entries.get_mut(index)) {
                change(entry);
            }
        });
    }

    pub(crate) fn update_counts<T>(&self, change: impl FnOnce(&mut E::Counts) -> T) -> T {
        self.write(|state| change(&mut state.counts))
    }

    pub(crate) fn record_violation(&self, what: impl Into<String>) {
        self.write(|state| state.violations.push(what.into()));
    }

    pub(crate) fn entries(&self) -> Vec<E> {
        self.with_entries(<[E]>::to_vec)
    }

    /// Returns the entries from this position on.
    pub(crate) fn entries_from(&self, seq: u64) -> Vec<E> {
        let state = self.state.lock();
        let start = usize::try_from(seq.saturating_sub(state.first_seq)).unwrap_or(usize::MAX);
        state.entries.get(start..).map(<[E]>::to_vec).unwrap_or_default()
    }

    pub(crate) fn with_entries<T>(&self, look: impl FnOnce(&[E]) -> T) -> T {
        look(&self.state.lock().entries)
    }

    pub(crate) fn with_counts<T>(&self, look: impl FnOnce(&E::Counts) -> T) -> T {
        look(&self.state.lock().counts)
    }

    pub(crate) fn violations(&self) -> Vec<String> {
        self.state.lock().violations.clone()
    }

    /// Clears the entries. The counts and violations stay.
    pub(crate) fn clear_entries(&self) {
        self.write(|state| {
            state.first_seq += state.entries.len() as u64;
            state.entries.clear();
        });
    }

    /// Makes waiters test their condition again although nothing was recorded here.
    pub(crate) fn notify_waiters(&self) {
        self.changed.send_modify(|version| *version += 1);
    }

    /// Waits until `look` returns something, calling it again after every change.
    pub(crate) async fn wait_for<T>(&self, look: impl FnMut() -> Option<T>, timeout: Duration) -> Option<T> {
        sync::wait_for(&self.changed, look, timeout).await
    }

    /// Waits for an entry that `look` finds. Panics with a summary of all entries after `timeout`.
    pub(crate) async fn expect_entry(&self, look: impl FnMut() -> Option<E>, timeout: Duration) -> E {
        match self.wait_for(look, timeout).await {
            Some(found) => found,
            None => panic!("nothing like it within {timeout:?}; {}", self.summary()),
        }
    }

    /// Waits until the condition holds. Panics with a summary of all entries after `timeout`.
    pub(crate) async fn expect_condition(&self, holds: impl Fn() -> bool, timeout: Duration) {
        let came_true = self.wait_for(|| holds().then_some(()), timeout).await.is_some();
        assert!(came_true, "it did not come true within {timeout:?}; {}", self.summary());
    }

    /// Returns one line per entry, for the panic message of a failed wait.
    pub(crate) fn summary(&self) -> String {
        let state = self.state.lock();
        let mut text = E::summarize_counts(&state.counts, state.entries.len());
        for (seq, entry) in (state.first_seq..).zip(&state.entries) {
            let _ = write!(text, "\n  #{seq} {}", entry.summary());
        }
        text
    }

    fn write<T>(&self, change: impl FnOnce(&mut State<E>) -> T) -> T {
        let out = change(&mut self.state.lock());
        self.notify_waiters();
        out
    }
}

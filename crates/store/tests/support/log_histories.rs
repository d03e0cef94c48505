//! Runs random sequences of log operations through several handles, and compares the result with a
//! plain list.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use bowline_store::{AppendOptions, LogName, LogSlice, Position, ReadLimits, Store};
use proptest::prelude::*;

/// What moves the clock that the store goes by.
#[derive(Clone, Debug)]
pub(crate) enum StoreClock {
    /// Nothing: no lifetime ends during the test.
    #[allow(dead_code, reason = "not every backend has it")]
    Real,
    /// The paused clock of the runtime.
    #[allow(dead_code, reason = "not every backend has it")]
    Paused,
    /// A clock in milliseconds.
    #[allow(dead_code, reason = "not every backend has it")]
    Settable(Arc<AtomicI64>),
}

impl StoreClock {
    async fn advance(&self, by: u16) {
        match self {
            Self::Real => {}
            Self::Paused => tokio::time::advance(Duration::from_millis(by.into())).await,
            Self::Settable(now) => drop(now.fetch_add(by.into(), Ordering::SeqCst)),
        }
    }
}

/// One step of a sequence. A position is the one that was given so many entries ago.
#[derive(Clone, Debug)]
enum Step {
    Append { hand: usize, log: usize, sizes: Vec<u8>, max_entries: u64, max_bytes: u64, ttl: u16 },
    Read { hand: usize, log: usize, ago: usize, max_entries: usize, max_bytes: usize },
    Trim { hand: usize, log: usize, ago: usize },
    Remove { hand: usize, log: usize },
    Advance(u16),
}

fn step() -> impl Strategy<Value = Step> {
    let at = (0_usize..2, 0_usize..2);
    let sizes = proptest::collection::vec(0_u8..30, 1..4);
    prop_oneof![
        6 => (at.clone(), sizes, 1_u64..7, 30_u64..100, 1_u16..60).prop_map(
            |((hand, log), sizes, max_entries, max_bytes, ttl)| {
                Step::Append { hand, log, sizes, max_entries, max_bytes, ttl }
            }
        ),
        6 => (at.clone(), 0_usize..8, 1_usize..6, 0_usize..80).prop_map(
            |((hand, log), ago, max_entries, max_bytes)| Step::Read { hand, log, ago, max_entries, max_bytes }
        ),
        2 => (at.clone(), 0_usize..8).prop_map(|((hand, log), ago)| Step::Trim { hand, log, ago }),
        1 => at.prop_map(|(hand, log)| Step::Remove { hand, log }),
        3 => (1_u16..40).prop_map(Step::Advance),
    ]
}

/// What a log should be.
#[derive(Debug, Default)]
struct ModelLog {
    entries: Vec<(Position, Vec<u8>)>,
    /// All positions that this log, and earlier ones of its name, have given.
    given: Vec<Position>,
    /// How many of them were given by earlier logs.
    earlier: usize,
    trimmed: Option<Position>,
    /// When the log ends; `None` if there is no log.
    ends: Option<u64>,
}

impl ModelLog {
    fn position(&self, ago: usize) -> Position {
        self.given.len().checked_sub(ago + 1).map_or(Position::START, |at| self.given[at])
    }

    fn end(&mut self) {
        self.entries.clear();
        self.earlier = self.given.len();
        self.trimmed = None;
        self.ends = None;
    }

    fn remove_oldest(&mut self) {
        self.trimmed = Some(self.entries.remove(0).0);
    }

    fn bytes(&self) -> u64 {
        self.entries.iter().map(|(_, value)| value.len() as u64).sum()
    }

    /// Whether a reader has missed something; `None` if the store may say either.
    fn has_gap(&self, after: Position) -> Option<bool> {
        let earlier = &self.given[..self.earlier];
        if after == Position::START {
            return Some(self.trimmed.is_some());
        }
        if self.ends.is_none() || self.trimmed > Some(after) {
            return Some(true);
        }
        match earlier.last() {
            Some(last) if *last == after => None,
            _ => Some(earlier.contains(&after)),
        }
    }

    fn check(&self, after: Position, limits: ReadLimits, slice: &LogSlice) -> Result<(), TestCaseError> {
        let mut bytes = 0;
        let expected: Vec<_> = self
            .entries
            .iter()
            .filter(|(position, _)| *position > after)
            .enumerate()
            .take_while(|(index, (_, value))| {
                bytes += value.len();
                *index == 0 || (*index < limits.max_entries && bytes <= limits.max_bytes)
            })
            .map(|(_, (position, value))| (*position, value.as_slice()))
            .collect();
        let found: Vec<_> = slice.entries.iter().map(|it| (it.position, it.value.as_slice())).collect();
        prop_assert_eq!(found, expected);
        prop_assert_eq!(slice.oldest, self.entries.first().map(|(position, _)| *position));
        prop_assert_eq!(slice.newest, self.entries.last().map(|(position, _)| *position));
        if let Some(has_gap) = self.has_gap(after) {
            prop_assert_eq!(slice.has_gap, has_gap, "after {:?} in {:?}", after, self);
        }
        Ok(())
    }
}

/// Runs a sequence against a store and a list.
async fn play(hands: [Arc<dyn Store>; 2], clock: StoreClock, history: &[Step]) -> Result<(), TestCaseError> {
    let (mut now, mut count) = (0_u64, 0_u8);
    let mut model: BTreeMap<usize, ModelLog> = BTreeMap::new();
    let names = ["a", "b"].map(LogName::new);
    let is_real = matches!(clock, StoreClock::Real);
    for step in history {
        for log in model.values_mut() {
            if log.ends.is_some_and(|ends| ends <= now) {
                log.end();
            }
        }
        match step.clone() {
            Step::Append { hand, log, sizes, max_entries, max_bytes, ttl } => {
                let values: Vec<Vec<u8>> = sizes
                    .iter()
                    .map(|size| {
                        count = count.wrapping_add(1);
                        vec![count; usize::from(*size)]
                    })
                    .collect();
                let ttl = if is_real { 60_000 } else { ttl };
                let lifetime = Duration::from_millis(ttl.into());
                let options =
                    AppendOptions::default().max_entries(max_entries).max_bytes(max_bytes).ttl(lifetime);
                let positions = hands[hand].append(&names[log], &values, options).await.unwrap();
                prop_assert_eq!(positions.len(), values.len());
                let held = model.entry(log).or_default();
                for (position, value) in positions.into_iter().zip(values) {
                    prop_assert!(held.given.last() < Some(&position), "{position:?} is not new");
                    held.given.push(position);
                    held.entries.push((position, value));
                }
                held.ends = Some(now + u64::from(ttl));
                while held.entries.len() as u64 > max_entries || held.bytes() > max_bytes {
                    held.remove_oldest();
                }
            }
            Step::Read { hand, log, ago, max_entries, max_bytes } => {
                let held = model.entry(log).or_default();
                let (after, limits) =
                    (held.position(ago), ReadLimits::default().max_entries(max_entries).max_bytes(max_bytes));
                let slice = hands[hand].after(&names[log], after, limits).await.unwrap();
                held.check(after, limits, &slice)?;
                let expected = held.entries.last().is_some_and(|(position, _)| *position > after);
                let waited = hands[hand].wait(&names[log], after, Duration::ZERO).await.unwrap();
                prop_assert_eq!(waited, expected);
            }
            Step::Trim { hand, log, ago } => {
                let held = model.entry(log).or_default();
                let up_to = held.position(ago);
                hands[hand].trim(&names[log], up_to).await.unwrap();
                while held.entries.first().is_some_and(|(position, _)| *position <= up_to) {
                    held.remove_oldest();
                }
            }
            Step::Remove { hand, log } => {
                let removed = hands[hand].remove_log(&names[log]).await.unwrap();
                let held = model.entry(log).or_default();
                prop_assert_eq!(removed, held.ends.is_some());
                held.end();
            }
            Step::Advance(by) => {
                clock.advance(by).await;
                now += if is_real { 0 } else { u64::from(by) };
            }
        }
    }
    Ok(())
}

/// Compares many sequences, each in a new store with two handles.
pub(crate) fn check(cases: u32, make: impl AsyncFn() -> ([Arc<dyn Store>; 2], StoreClock)) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let settings = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(settings, |(history in proptest::collection::vec(step(), 1..60))| {
        runtime.block_on(async {
            let (hands, clock) = make().await;
            if matches!(clock, StoreClock::Paused) {
                tokio::time::pause();
            }
            let played = play(hands, clock.clone(), &history).await;
            if matches!(clock, StoreClock::Paused) {
                tokio::time::resume();
            }
            played
        })?;
    });
}

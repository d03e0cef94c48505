//! A store that lasts as long as the process: for tests, and for programs that persist nothing.

mod log;

use std::collections::{BTreeMap, HashMap};
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use crate::lease::{self, clamp_ttl};
use crate::lifetime;
use crate::log::Doorbell;
use crate::{Key, Lease, LogName, Precondition, Store, StoreFuture, StoreRecord, Version};

/// A store in memory. Clones share their content.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    state: Arc<Mutex<State>>,
    bell: Arc<Doorbell>,
}

#[derive(Debug, Default)]
struct State {
    records: BTreeMap<(&'static str, String), HeldRecord>,
    leases: HashMap<String, (String, Instant)>,
    counters: HashMap<String, (i64, Instant)>,
    logs: HashMap<LogName, log::HeldLog>,
    last_version: u64,
    last_position: u64,
    /// How many things with a lifetime there may be before the expired ones are deleted.
    sweep_above: usize,
    /// How many things with a lifetime were written since they were last counted.
    written: usize,
}

/// A record with the end of its lifetime, if it has one.
#[derive(Debug)]
struct HeldRecord {
    record: StoreRecord,
    ends: Option<Instant>,
}

/// The fewest writes between two deletions of what has expired.
const MIN_SWEEP: usize = 64;

impl MemoryStore {
    /// Creates an empty store.
    pub fn new() -> Self {
        Self::default()
    }

    fn lock_state(&self) -> MutexGuard<'_, State> {
        // Each change is a single insertion or removal, so a panic elsewhere cannot have left one
        // half done.
        self.state.lock()
    }
}

impl HeldRecord {
    fn is_live(&self) -> bool {
        self.ends.is_none_or(|ends| ends > Instant::now())
    }
}

impl State {
    fn live_record(&self, at: &(&'static str, String)) -> Option<&StoreRecord> {
        self.records.get(at).filter(|held| held.is_live()).map(|held| &held.record)
    }

    fn put(
        &mut self,
        key: &Key,
        value: &[u8],
        ttl: Option<Duration>,
        expect: Precondition,
    ) -> Option<Version> {
        let at = (key.kind, key.id.clone());
        if !self.matches(&at, expect) {
            return None;
        }
        self.last_version += 1;
        let version = Version(self.last_version);
        let ends = ttl.map(|ttl| self.end_after(ttl));
        let record = StoreRecord { value: value.to_vec(), version };
        self.records.insert(at, HeldRecord { record, ends });
        Some(version)
    }

    /// The end of a lifetime that begins now. What has expired is deleted when there may be twice as
    /// much as was live the last time, which is a constant effort for each write.
    fn end_after(&mut self, ttl: Duration) -> Instant {
        let now = Instant::now();
        self.written += 1;
        if self.written > self.sweep_above {
            self.records.retain(|_, held| held.is_live());
            self.counters.retain(|_, (_, ends)| *ends > now);
            self.logs.retain(|_, log| log.is_live());
            let live = self.records.len() + self.counters.len() + self.logs.len();
            (self.written, self.sweep_above) = (0, live.max(MIN_SWEEP));
        }
        now + lifetime::clamp(ttl)
    }

    fn matches(&self, at: &(&'static str, String), expect: Precondition) -> bool {
        let version = self.live_record(at).map(|record| record.version);
        match expect {
            Precondition::Any => true,
            Precondition::Absent => version.is_none(),
            Precondition::AtVersion(seen) => version == Some(seen),
        }
    }

    fn holds_lease(&self, lease: &Lease) -> bool {
        self.leases
            .get(&lease.name)
            .is_some_and(|(token, ends)| *token == lease.token && *ends > Instant::now())
    }
}

impl Store for MemoryStore {
    fn get<'a>(&'a self, key: &'a Key) -> StoreFuture<'a, Option<StoreRecord>> {
        Box::pin(ready(Ok(self.lock_state().live_record(&(key.kind, key.id.clone())).cloned())))
    }

    fn put<'a>(
        &'a self,
        key: &'a Key,
        value: &'a [u8],
        expect: Precondition,
    ) -> StoreFuture<'a, Option<Version>> {
        Box::pin(ready(Ok(self.lock_state().put(key, value, None, expect))))
    }

    fn put_for<'a>(
        &'a self,
        key: &'a Key,
        value: &'a [u8],
        ttl: Duration,
        expect: Precondition,
    ) -> StoreFuture<'a, Option<Version>> {
        Box::pin(ready(Ok(self.lock_state().put(key, value, Some(ttl), expect))))
    }

    fn touch<'a>(&'a self, key: &'a Key, ttl: Duration) -> StoreFuture<'a, bool> {
        let mut kept = self.lock_state();
        let held = kept.records.get_mut(&(key.kind, key.id.clone()));
        let held = held.filter(|held| held.ends.is_some() && held.is_live());
        let is_there = held.is_some();
        if let Some(held) = held {
            held.ends = Some(Instant::now() + lifetime::clamp(ttl));
        }
        Box::pin(ready(Ok(is_there)))
    }

    fn add<'a>(&'a self, counter: &'a str, delta: i64, ttl: Duration) -> StoreFuture<'a, i64> {
        let mut kept = self.lock_state();
        let live = kept.counters.get(counter).filter(|(_, ends)| *ends > Instant::now());
        let (value, ends) = match live {
            Some((value, ends)) => (value.saturating_add(delta), *ends),
            None => (delta, kept.end_after(ttl)),
        };
        kept.counters.insert(counter.to_owned(), (value, ends));
        Box::pin(ready(Ok(value)))
    }

    fn remove<'a>(&'a self, key: &'a Key, expect: Precondition) -> StoreFuture<'a, bool> {
        let at = (key.kind, key.id.clone());
        let mut kept = self.lock_state();
        let removed =
            kept.matches(&at, expect) && kept.records.remove(&at).is_some_and(|held| held.is_live());
        Box::pin(ready(Ok(removed)))
    }

    fn list(&self, kind: &'static str) -> StoreFuture<'_, Vec<(Key, StoreRecord)>> {
        let kept = self.lock_state();
        let found = kept
            .records
            .iter()
            .filter(|((of, _), held)| *of == kind && held.is_live())
            .map(|((_, id), held)| (Key::new(kind, id), held.record.clone()))
            .collect();
        Box::pin(ready(Ok(found)))
    }

    fn acquire<'a>(&'a self, name: &'a str, ttl: Duration) -> StoreFuture<'a, Option<Lease>> {
        let mut kept = self.lock_state();
        let now = Instant::now();
        if kept.leases.get(name).is_some_and(|(_, ends)| *ends > now) {
            return Box::pin(ready(Ok(None)));
        }
        let token = match lease::new_token() {
            Ok(token) => token,
            Err(error) => return Box::pin(ready(Err(error))),
        };
        kept.leases.insert(name.to_owned(), (token.clone(), now + clamp_ttl(ttl)));
        Box::pin(ready(Ok(Some(Lease { name: name.to_owned(), token }))))
    }

    fn renew<'a>(&'a self, lease: &'a Lease, ttl: Duration) -> StoreFuture<'a, bool> {
        let mut kept = self.lock_state();
        let ours = kept.holds_lease(lease);
        if ours {
            kept.leases.insert(lease.name.clone(), (lease.token.clone(), Instant::now() + clamp_ttl(ttl)));
        }
        Box::pin(ready(Ok(ours)))
    }

    fn release(&self, lease: Lease) -> StoreFuture<'_, ()> {
        let mut kept = self.lock_state();
        if kept.holds_lease(&lease) {
            kept.leases.remove(&lease.name);
        }
        Box::pin(ready(Ok(())))
    }

    fn location(&self) -> String {
        "memory, until the program ends".into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AppendOptions, LogStore as _};

    #[tokio::test(start_paused = true)]
    async fn what_has_expired_does_not_pile_up() {
        let store = MemoryStore::new();
        let ttl = Duration::from_millis(20);
        let options = AppendOptions { ttl, ..AppendOptions::default() };
        for number in 0..2000 {
            let name = number.to_string();
            store.put_for(&Key::new("test", &name), b"1", ttl, Precondition::Absent).await.unwrap().unwrap();
            store.add(&name, 1, ttl).await.unwrap();
            store.append(&LogName::new(&name), &[b"1".to_vec()], options).await.unwrap();
            tokio::time::advance(Duration::from_millis(1)).await;
            let held = store.lock_state();
            let count = held.records.len() + held.counters.len() + held.logs.len();
            // 60 are live at any time.
            assert!(count <= 60 + 2 * MIN_SWEEP, "{count} after {number}");
        }
    }
}

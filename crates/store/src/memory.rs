//! A store that lasts as long as the process: for tests, and for programs that persist nothing.

use std::collections::{BTreeMap, HashMap};
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use crate::lease::{self, clamp_ttl};
use crate::{Key, Lease, Precondition, Store, StoreFuture, StoreRecord, Version};

/// A store in memory. Clones share their content.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    records: BTreeMap<(&'static str, String), StoreRecord>,
    leases: HashMap<String, (String, Instant)>,
    last_version: u64,
}

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

impl State {
    fn matches(&self, at: &(&'static str, String), expect: Precondition) -> bool {
        let version = self.records.get(at).map(|entry| entry.version);
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
        Box::pin(ready(Ok(self.lock_state().records.get(&(key.kind, key.id.clone())).cloned())))
    }

    fn put<'a>(
        &'a self,
        key: &'a Key,
        value: &'a [u8],
        expect: Precondition,
    ) -> StoreFuture<'a, Option<Version>> {
        let at = (key.kind, key.id.clone());
        let mut kept = self.lock_state();
        if !kept.matches(&at, expect) {
            return Box::pin(ready(Ok(None)));
        }
        kept.last_version += 1;
        let version = Version(kept.last_version);
        kept.records.insert(at, StoreRecord { value: value.to_vec(), version });
        Box::pin(ready(Ok(Some(version))))
    }

    fn remove<'a>(&'a self, key: &'a Key, expect: Precondition) -> StoreFuture<'a, bool> {
        let at = (key.kind, key.id.clone());
        let mut kept = self.lock_state();
        let removed = kept.matches(&at, expect) && kept.records.remove(&at).is_some();
        Box::pin(ready(Ok(removed)))
    }

    fn list(&self, kind: &'static str) -> StoreFuture<'_, Vec<(Key, StoreRecord)>> {
        let kept = self.lock_state();
        let found = kept
            .records
            .iter()
            .filter(|((of, _), _)| *of == kind)
            .map(|((_, id), entry)| (Key::new(kind, id), entry.clone()))
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

//! A store that lasts as long as the process: for tests, and for programs that persist nothing.

use std::collections::{BTreeMap, HashMap};
use std::future::ready;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::lease::{self, bounded};
use crate::{Doing, Entry, Expect, Key, Lease, Store, Version};

/// A store in memory. Clones share their content.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    kept: Arc<Mutex<Kept>>,
}

#[derive(Debug, Default)]
struct Kept {
    entries: BTreeMap<(&'static str, String), Entry>,
    leases: HashMap<String, (String, Instant)>,
    last: u64,
}

impl Memory {
    /// Creates an empty store.
    pub fn new() -> Self {
        Self::default()
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // Each change is a single insertion or removal, so a panic elsewhere cannot have left one
        // half done.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn fits(&self, at: &(&'static str, String), expect: Expect) -> bool {
        let version = self.entries.get(at).map(|entry| entry.version);
        match expect {
            Expect::Anything => true,
            Expect::Nothing => version.is_none(),
            Expect::At(seen) => version == Some(seen),
        }
    }

    fn holds(&self, lease: &Lease) -> bool {
        self.leases
            .get(&lease.name)
            .is_some_and(|(token, ends)| *token == lease.token && *ends > Instant::now())
    }
}

impl Store for Memory {
    fn get<'a>(&'a self, key: &'a Key) -> Doing<'a, Option<Entry>> {
        Box::pin(ready(Ok(self.kept().entries.get(&(key.kind, key.id.clone())).cloned())))
    }

    fn put<'a>(&'a self, key: &'a Key, value: &'a [u8], expect: Expect) -> Doing<'a, Option<Version>> {
        let at = (key.kind, key.id.clone());
        let mut kept = self.kept();
        if !kept.fits(&at, expect) {
            return Box::pin(ready(Ok(None)));
        }
        kept.last += 1;
        let version = Version(kept.last);
        kept.entries.insert(at, Entry { value: value.to_vec(), version });
        Box::pin(ready(Ok(Some(version))))
    }

    fn remove<'a>(&'a self, key: &'a Key, expect: Expect) -> Doing<'a, bool> {
        let at = (key.kind, key.id.clone());
        let mut kept = self.kept();
        let removed = kept.fits(&at, expect) && kept.entries.remove(&at).is_some();
        Box::pin(ready(Ok(removed)))
    }

    fn list(&self, kind: &'static str) -> Doing<'_, Vec<(Key, Entry)>> {
        let kept = self.kept();
        let found = kept
            .entries
            .iter()
            .filter(|((of, _), _)| *of == kind)
            .map(|((_, id), entry)| (Key::new(kind, id), entry.clone()))
            .collect();
        Box::pin(ready(Ok(found)))
    }

    fn acquire<'a>(&'a self, name: &'a str, ttl: Duration) -> Doing<'a, Option<Lease>> {
        let mut kept = self.kept();
        let now = Instant::now();
        if kept.leases.get(name).is_some_and(|(_, ends)| *ends > now) {
            return Box::pin(ready(Ok(None)));
        }
        let token = match lease::token() {
            Ok(token) => token,
            Err(error) => return Box::pin(ready(Err(error))),
        };
        kept.leases.insert(name.to_owned(), (token.clone(), now + bounded(ttl)));
        Box::pin(ready(Ok(Some(Lease { name: name.to_owned(), token }))))
    }

    fn renew<'a>(&'a self, lease: &'a Lease, ttl: Duration) -> Doing<'a, bool> {
        let mut kept = self.kept();
        let ours = kept.holds(lease);
        if ours {
            kept.leases.insert(lease.name.clone(), (lease.token.clone(), Instant::now() + bounded(ttl)));
        }
        Box::pin(ready(Ok(ours)))
    }

    fn release(&self, lease: Lease) -> Doing<'_, ()> {
        let mut kept = self.kept();
        if kept.holds(&lease) {
            kept.leases.remove(&lease.name);
        }
        Box::pin(ready(Ok(())))
    }

    fn place(&self) -> String {
        "memory, until the program ends".into()
    }
}

//! A store in memory that fails on demand.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bowline_store::{Doing, Entry, Expect, Key, Lease, Memory, Safe, SealKey, Store, StoreError, Version};
use tokio::sync::watch;

#[derive(Debug, Default)]
pub(crate) struct Flaky {
    inner: Memory,
    /// Whether writes of logins fail.
    broken: AtomicBool,
    /// How many reads of logins fail from now on.
    unread: AtomicUsize,
    denied: watch::Sender<u32>,
    written: watch::Sender<u32>,
}

impl Flaky {
    pub(crate) fn new() -> (Arc<Self>, Safe) {
        let store = Arc::new(Self::default());
        let safe = Safe::new(Arc::clone(&store) as Arc<dyn Store>, SealKey::generate().unwrap());
        (store, safe)
    }

    pub(crate) fn set_broken(&self, broken: bool) {
        self.broken.store(broken, Ordering::SeqCst);
    }

    pub(crate) fn fail_reads(&self, count: usize) {
        self.unread.store(count, Ordering::SeqCst);
    }

    /// Waits until a write of a login has failed.
    pub(crate) async fn denied(&self) {
        self.denied.subscribe().changed().await.unwrap();
    }

    /// How many writes of a login have failed.
    pub(crate) fn denials(&self) -> u32 {
        *self.denied.borrow()
    }

    /// Waits until a login was written.
    pub(crate) async fn written(&self) {
        self.written.subscribe().changed().await.unwrap();
    }
}

fn away<'a, T: Send + 'a>() -> Doing<'a, T> {
    Box::pin(async { Err(StoreError::Unavailable("the disk is full".to_owned())) })
}

impl Store for Flaky {
    fn get<'a>(&'a self, key: &'a Key) -> Doing<'a, Option<Entry>> {
        let fewer = |left: usize| left.checked_sub(1);
        if key.kind == "login" && self.unread.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fewer).is_ok()
        {
            return away();
        }
        self.inner.get(key)
    }

    fn put<'a>(&'a self, key: &'a Key, value: &'a [u8], expect: Expect) -> Doing<'a, Option<Version>> {
        if key.kind != "login" {
            return self.inner.put(key, value, expect);
        }
        if self.broken.load(Ordering::SeqCst) {
            self.denied.send_modify(|count| *count += 1);
            return away();
        }
        Box::pin(async move {
            let version = self.inner.put(key, value, expect).await?;
            self.written.send_modify(|count| *count += u32::from(version.is_some()));
            Ok(version)
        })
    }

    fn remove<'a>(&'a self, key: &'a Key, expect: Expect) -> Doing<'a, bool> {
        self.inner.remove(key, expect)
    }

    fn list(&self, kind: &'static str) -> Doing<'_, Vec<(Key, Entry)>> {
        self.inner.list(kind)
    }

    fn acquire<'a>(&'a self, name: &'a str, ttl: Duration) -> Doing<'a, Option<Lease>> {
        self.inner.acquire(name, ttl)
    }

    fn renew<'a>(&'a self, lease: &'a Lease, ttl: Duration) -> Doing<'a, bool> {
        self.inner.renew(lease, ttl)
    }

    fn release(&self, lease: Lease) -> Doing<'_, ()> {
        self.inner.release(lease)
    }

    fn place(&self) -> String {
        "here".to_owned()
    }
}

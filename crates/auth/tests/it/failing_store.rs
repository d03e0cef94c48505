//! A store in memory that fails on demand.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bowline_store::{
    AppendOptions, EncryptedStore, Key, Lease, LogName, LogSlice, LogStore, MemoryStore, Position,
    Precondition, ReadLimits, SealKey, Store, StoreError, StoreFuture, StoreRecord, Version,
};
use tokio::sync::watch;

#[derive(Debug, Default)]
pub(crate) struct FailingStore {
    inner: MemoryStore,
    /// Whether writes of logins fail.
    fails_writes: AtomicBool,
    /// How many reads of logins fail from now on.
    failing_reads: AtomicUsize,
    failures: watch::Sender<u32>,
    writes: watch::Sender<u32>,
}

impl FailingStore {
    pub(crate) fn new() -> (Arc<Self>, EncryptedStore) {
        let store = Arc::new(Self::default());
        let encrypted =
            EncryptedStore::new(Arc::clone(&store) as Arc<dyn Store>, SealKey::generate().unwrap());
        (store, encrypted)
    }

    pub(crate) fn set_failing(&self, broken: bool) {
        self.fails_writes.store(broken, Ordering::SeqCst);
    }

    pub(crate) fn fail_reads(&self, count: usize) {
        self.failing_reads.store(count, Ordering::SeqCst);
    }

    /// Waits until a write of a login has failed.
    pub(crate) async fn wait_for_failed_write(&self) {
        self.failures.subscribe().changed().await.unwrap();
    }

    /// How many writes of a login have failed.
    pub(crate) fn failed_writes(&self) -> u32 {
        *self.failures.borrow()
    }

    /// Waits until a login was written.
    pub(crate) async fn wait_for_write(&self) {
        self.writes.subscribe().changed().await.unwrap();
    }
}

fn unavailable<'a, T: Send + 'a>() -> StoreFuture<'a, T> {
    Box::pin(async { Err(StoreError::Unavailable("the disk is full".to_owned())) })
}

impl Store for FailingStore {
    fn get<'a>(&'a self, key: &'a Key) -> StoreFuture<'a, Option<StoreRecord>> {
        let fewer = |left: usize| left.checked_sub(1);
        if key.kind == "login"
            && self.failing_reads.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fewer).is_ok()
        {
            return unavailable();
        }
        self.inner.get(key)
    }

    fn put<'a>(
        &'a self,
        key: &'a Key,
        value: &'a [u8],
        expect: Precondition,
    ) -> StoreFuture<'a, Option<Version>> {
        if key.kind != "login" {
            return self.inner.put(key, value, expect);
        }
        if self.fails_writes.load(Ordering::SeqCst) {
            self.failures.send_modify(|count| *count += 1);
            return unavailable();
        }
        Box::pin(async move {
            let version = self.inner.put(key, value, expect).await?;
            self.writes.send_modify(|count| *count += u32::from(version.is_some()));
            Ok(version)
        })
    }

    fn put_for<'a>(
        &'a self,
        key: &'a Key,
        value: &'a [u8],
        ttl: Duration,
        expect: Precondition,
    ) -> StoreFuture<'a, Option<Version>> {
        self.inner.put_for(key, value, ttl, expect)
    }

    fn touch<'a>(&'a self, key: &'a Key, ttl: Duration) -> StoreFuture<'a, bool> {
        self.inner.touch(key, ttl)
    }

    fn add<'a>(&'a self, counter: &'a str, delta: i64, ttl: Duration) -> StoreFuture<'a, i64> {
        self.inner.add(counter, delta, ttl)
    }

    fn remove<'a>(&'a self, key: &'a Key, expect: Precondition) -> StoreFuture<'a, bool> {
        self.inner.remove(key, expect)
    }

    fn list(&self, kind: &'static str) -> StoreFuture<'_, Vec<(Key, StoreRecord)>> {
        self.inner.list(kind)
    }

    fn acquire<'a>(&'a self, name: &'a str, ttl: Duration) -> StoreFuture<'a, Option<Lease>> {
        self.inner.acquire(name, ttl)
    }

    fn renew<'a>(&'a self, lease: &'a Lease, ttl: Duration) -> StoreFuture<'a, bool> {
        self.inner.renew(lease, ttl)
    }

    fn release(&self, lease: Lease) -> StoreFuture<'_, ()> {
        self.inner.release(lease)
    }

    fn location(&self) -> String {
        "here".to_owned()
    }
}

impl LogStore for FailingStore {
    fn append<'a>(
        &'a self,
        log: &'a LogName,
        entries: &'a [Vec<u8>],
        options: AppendOptions,
    ) -> StoreFuture<'a, Vec<Position>> {
        self.inner.append(log, entries, options)
    }

    fn after<'a>(
        &'a self,
        log: &'a LogName,
        position: Position,
        limits: ReadLimits,
    ) -> StoreFuture<'a, LogSlice> {
        self.inner.after(log, position, limits)
    }

    fn wait<'a>(&'a self, log: &'a LogName, position: Position, timeout: Duration) -> StoreFuture<'a, bool> {
        self.inner.wait(log, position, timeout)
    }

    fn trim<'a>(&'a self, log: &'a LogName, up_to: Position) -> StoreFuture<'a, ()> {
        self.inner.trim(log, up_to)
    }

    fn remove_log<'a>(&'a self, log: &'a LogName) -> StoreFuture<'a, bool> {
        self.inner.remove_log(log)
    }
}

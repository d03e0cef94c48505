//! A store that fails on demand.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bowline_store::{
    AppendOptions, Key, Lease, LogName, LogSlice, LogStore, MemoryStore, Position, Precondition, ReadLimits,
    Store, StoreError, StoreFuture, StoreRecord, Version,
};
use parking_lot::Mutex;

/// A store in memory that fails on demand.
#[derive(Debug)]
pub(super) struct FailingStore {
    pub(super) inner: MemoryStore,
    pub(super) writes_fail: AtomicBool,
    pub(super) all_fail: AtomicBool,
    /// Name and token of the last lease.
    pub(super) granted: Mutex<(String, String)>,
}

impl FailingStore {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            inner: MemoryStore::new(),
            writes_fail: AtomicBool::new(false),
            all_fail: AtomicBool::new(false),
            granted: Mutex::default(),
        })
    }

    /// Ends the last lease, as its expiry would.
    pub(super) async fn end_lease(&self) {
        let (name, token) = self.granted.lock().clone();
        self.inner.release(Lease::new(name, token)).await.unwrap();
    }

    fn check(&self, write: bool) -> Result<(), StoreError> {
        let fails =
            self.all_fail.load(Ordering::Relaxed) || write && self.writes_fail.load(Ordering::Relaxed);
        if fails { Err(StoreError::Unavailable("the disk is full".to_owned())) } else { Ok(()) }
    }
}

impl Store for FailingStore {
    fn get<'a>(&'a self, key: &'a Key) -> StoreFuture<'a, Option<StoreRecord>> {
        Box::pin(async move {
            self.check(false)?;
            self.inner.get(key).await
        })
    }

    fn put<'a>(
        &'a self,
        key: &'a Key,
        value: &'a [u8],
        expect: Precondition,
    ) -> StoreFuture<'a, Option<Version>> {
        Box::pin(async move {
            self.check(true)?;
            self.inner.put(key, value, expect).await
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
        Box::pin(async move {
            self.check(true)?;
            self.inner.remove(key, expect).await
        })
    }

    fn list(&self, kind: &'static str) -> StoreFuture<'_, Vec<(Key, StoreRecord)>> {
        self.inner.list(kind)
    }

    fn acquire<'a>(&'a self, name: &'a str, ttl: Duration) -> StoreFuture<'a, Option<Lease>> {
        Box::pin(async move {
            self.check(false)?;
            let lease = self.inner.acquire(name, ttl).await?;
            if let Some(Lease { name, token, .. }) = &lease {
                *self.granted.lock() = (name.clone(), token.clone());
            }
            Ok(lease)
        })
    }

    fn renew<'a>(&'a self, lease: &'a Lease, ttl: Duration) -> StoreFuture<'a, bool> {
        self.inner.renew(lease, ttl)
    }

    fn release(&self, lease: Lease) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            self.check(true)?;
            self.inner.release(lease).await
        })
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

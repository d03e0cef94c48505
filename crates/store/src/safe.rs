//! Owns the rule that nothing leaves for a store unencrypted.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use zeroize::Zeroizing;

use crate::key::Mark;
use crate::later::Later;
use crate::{Entry, Expect, Key, Lease, Lock, Locked, Memory, SealKey, Store, StoreError, Version};

/// The largest value, before it is encrypted. A login has a few kilobytes.
const LARGEST: usize = 1 << 20;

/// A store whose values are encrypted. Cheap to clone.
///
/// A value can only be read under the key it was written for: what one login says is no good for another.
#[derive(Clone)]
pub struct Safe {
    door: Door,
}

#[derive(Clone)]
enum Door {
    Open { store: Arc<dyn Store>, key: SealKey },
    Later(Arc<Later>),
}

impl Safe {
    /// What is in `store`, encrypted with `key`.
    ///
    /// Whether the store knows another key is not looked at before something cannot be read; [`crate::open_with`]
    /// looks at once.
    pub fn new(store: Arc<dyn Store>, key: SealKey) -> Self {
        Self { door: Door::Open { store, key } }
    }

    /// What is in a store that is opened when it is needed.
    pub(crate) fn later(later: Later) -> Self {
        Self { door: Door::Later(Arc::new(later)) }
    }

    /// One that forgets everything with the process, for tests and for programs that keep nothing.
    ///
    /// # Panics
    /// When the system gives no randomness.
    pub fn in_memory() -> Self {
        Self::new(Arc::new(Memory::new()), SealKey::generate().expect("the system gives randomness"))
    }

    /// The value of a key.
    pub async fn get<T: DeserializeOwned>(&self, key: &Key) -> Result<Option<(T, Version)>, StoreError> {
        let Some(store) = self.existing().await? else { return Ok(None) };
        let Some(entry) = store.get(key).await? else { return Ok(None) };
        let seal = self.key().await?;
        match read(seal, key, &entry) {
            Ok(value) => Ok(Some((value, entry.version))),
            Err(Unread::NotOurs) => Err(why_sealed(&**store, seal, key).await),
            Err(Unread::Strange) => Err(StoreError::Unusable(format!(
                "the {} {:?} in {} is not in a form that this version of bowline knows",
                key.kind,
                key.id,
                store.place()
            ))),
        }
    }

    /// Sets a value if what was expected is there. `None`: it is not.
    ///
    /// Dropped before it is done, it may or may not have set the value.
    pub async fn put<T: Serialize + ?Sized>(
        &self,
        key: &Key,
        value: &T,
        expect: Expect,
    ) -> Result<Option<Version>, StoreError> {
        // What serde says of a value may hold a part of it.
        let value = Zeroizing::new(
            serde_json::to_vec(value)
                .map_err(|_| StoreError::Unusable(format!("a {} cannot be written as JSON", key.kind)))?,
        );
        if value.len() > LARGEST {
            return Err(StoreError::Unusable(format!("a {} of {} bytes is not kept", key.kind, value.len())));
        }
        let sealed = self.key().await?.seal(key, &value)?;
        self.store().await?.put(key, &sealed, expect).await
    }

    /// Forgets a key if what was expected is there.
    pub async fn remove(&self, key: &Key, expect: Expect) -> Result<bool, StoreError> {
        match self.existing().await? {
            Some(store) => store.remove(key, expect).await,
            None => Ok(false),
        }
    }

    /// All values of a kind. One that cannot be read is left out.
    pub async fn list<T: DeserializeOwned>(
        &self,
        kind: &'static str,
    ) -> Result<Vec<(Key, T, Version)>, StoreError> {
        let mut values = Vec::new();
        let Some(store) = self.existing().await? else { return Ok(values) };
        for (key, entry) in store.list(kind).await? {
            match read(self.key().await?, &key, &entry) {
                Ok(value) => values.push((key, value, entry.version)),
                Err(why) => {
                    tracing::warn!(kind, id = key.id, ?why, "left out of a list: it cannot be read");
                }
            }
        }
        Ok(values)
    }

    /// [`Store::acquire`].
    pub async fn acquire(&self, name: &str, ttl: Duration) -> Result<Option<Lease>, StoreError> {
        self.store().await?.acquire(name, ttl).await
    }

    /// [`Store::lock`].
    pub async fn lock(&self, name: &str) -> Result<Result<Lock, Locked>, StoreError> {
        self.store().await?.lock(name).await
    }

    /// [`Store::renew`].
    pub async fn renew(&self, lease: &Lease, ttl: Duration) -> Result<bool, StoreError> {
        self.store().await?.renew(lease, ttl).await
    }

    /// [`Store::release`].
    pub async fn release(&self, lease: Lease) -> Result<(), StoreError> {
        self.store().await?.release(lease).await
    }

    /// The store, if there is one to read from.
    async fn existing(&self) -> Result<Option<&Arc<dyn Store>>, StoreError> {
        match &self.door {
            Door::Open { store, .. } => Ok(Some(store)),
            Door::Later(later) => later.existing().await,
        }
    }

    async fn store(&self) -> Result<&Arc<dyn Store>, StoreError> {
        match &self.door {
            Door::Open { store, .. } => Ok(store),
            Door::Later(later) => later.store().await,
        }
    }

    async fn key(&self) -> Result<&SealKey, StoreError> {
        match &self.door {
            Door::Open { key, .. } => Ok(key),
            Door::Later(later) => later.key().await,
        }
    }
}

fn read<T: DeserializeOwned>(seal: &SealKey, key: &Key, entry: &Entry) -> Result<T, Unread> {
    let value = seal.open(key, &entry.value).map_err(|_| Unread::NotOurs)?;
    serde_json::from_slice(&value).map_err(|_| Unread::Strange)
}

/// Why a value does not open. The mark says whether it is the key or the value.
async fn why_sealed(store: &dyn Store, seal: &SealKey, key: &Key) -> StoreError {
    let place = store.place();
    match Mark::of(store).await {
        Err(error) => error,
        Ok(Some((mark, _))) if mark.fits(seal) => StoreError::Unusable(format!(
            "the {} {:?} in {place} is damaged: the key is right, and it does not open",
            key.kind, key.id
        )),
        Ok(Some(_)) => StoreError::Sealed(format!("{place} is encrypted with another key")),
        Ok(None) => StoreError::Sealed(format!(
            "the {} {:?} in {place} does not open: it is encrypted with another key, or damaged",
            key.kind, key.id
        )),
    }
}

#[derive(Debug)]
enum Unread {
    NotOurs,
    Strange,
}

impl fmt::Debug for Safe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.door {
            Door::Open { store, .. } => f.debug_tuple("Safe").field(store).finish(),
            Door::Later(later) => f.debug_tuple("Safe").field(later).finish(),
        }
    }
}

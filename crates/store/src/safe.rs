//! Encrypts every value before it reaches a store.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use zeroize::Zeroizing;

use crate::key::Mark;
use crate::later::Later;
use crate::{Entry, Expect, Key, Lease, Lock, Locked, Memory, SealKey, Store, StoreError, Version};

/// The largest value before encryption, in bytes. A login has a few kilobytes.
const LARGEST: usize = 1 << 20;

/// A store whose values are encrypted. Cheap to clone.
///
/// A value can only be decrypted under the key it was written for, so that one login cannot be
/// passed off as another.
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
    /// Encrypts the values of `store` with `key`.
    ///
    /// A store with another key is only noticed when a value cannot be decrypted;
    /// [`crate::open_with_key`] checks that at once.
    pub fn new(store: Arc<dyn Store>, key: SealKey) -> Self {
        Self { door: Door::Open { store, key } }
    }

    /// A store that is opened on first use.
    pub(crate) fn later(later: Later) -> Self {
        Self { door: Door::Later(Arc::new(later)) }
    }

    /// A store that lasts as long as the process, for tests and for programs that persist nothing.
    ///
    /// # Panics
    /// When the system provides no randomness.
    pub fn in_memory() -> Self {
        Self::new(Arc::new(Memory::new()), SealKey::generate().expect("the system gives randomness"))
    }

    /// Returns the value of a key.
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

    /// Writes a value if the precondition holds. Returns `None` if it does not.
    ///
    /// If the future is dropped before it completes, the value may or may not have been written.
    pub async fn put<T: Serialize + ?Sized>(
        &self,
        key: &Key,
        value: &T,
        expect: Expect,
    ) -> Result<Option<Version>, StoreError> {
        // An error of serde may contain a part of the value.
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

    /// Removes a value if the precondition holds.
    pub async fn remove(&self, key: &Key, expect: Expect) -> Result<bool, StoreError> {
        match self.existing().await? {
            Some(store) => store.remove(key, expect).await,
            None => Ok(false),
        }
    }

    /// Returns all values of a kind. Unreadable ones are left out.
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

    /// See [`Store::acquire`].
    pub async fn acquire(&self, name: &str, ttl: Duration) -> Result<Option<Lease>, StoreError> {
        self.store().await?.acquire(name, ttl).await
    }

    /// See [`Store::lock`].
    pub async fn lock(&self, name: &str) -> Result<Result<Lock, Locked>, StoreError> {
        self.store().await?.lock(name).await
    }

    /// See [`Store::renew`].
    pub async fn renew(&self, lease: &Lease, ttl: Duration) -> Result<bool, StoreError> {
        self.store().await?.renew(lease, ttl).await
    }

    /// See [`Store::release`].
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

/// Explains why a value cannot be decrypted. The mark tells a wrong key from a damaged value.
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

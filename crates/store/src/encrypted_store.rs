//! Encrypts every value before it reaches a store.

mod log;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use zeroize::Zeroizing;

use crate::key::KeyMark;
use crate::lazy::LazyStore;
use crate::{
    Key, Lease, Lock, LockHolder, MemoryStore, Precondition, SealKey, Store, StoreError, StoreRecord, Version,
};

/// The largest value before encryption, in bytes. A login has a few kilobytes.
const MAX_VALUE_SIZE: usize = 1 << 20;

/// A store whose values are encrypted. Cheap to clone.
///
/// A value can only be decrypted under the key it was written for, so that one login cannot be
/// passed off as another.
///
/// An operation whose future is dropped before it completes may or may not have taken effect, but never
/// partly. A store that is opened on first use may then be open already.
#[derive(Clone)]
pub struct EncryptedStore {
    backing: Backing,
}

#[derive(Clone)]
enum Backing {
    Open { store: Arc<dyn Store>, key: SealKey },
    Lazy(Arc<LazyStore>),
}

impl EncryptedStore {
    /// Encrypts the values of `store` with `key`.
    ///
    /// A store with another key is only noticed when a value cannot be decrypted;
    /// [`crate::open_with_key`] checks that at once.
    pub fn new(store: Arc<dyn Store>, key: SealKey) -> Self {
        Self { backing: Backing::Open { store, key } }
    }

    /// A store that is opened on first use.
    pub(crate) fn lazy(later: LazyStore) -> Self {
        Self { backing: Backing::Lazy(Arc::new(later)) }
    }

    /// A store that lasts as long as the process, for tests and for programs that persist nothing.
    ///
    /// # Panics
    /// When the system provides no randomness.
    pub fn in_memory() -> Self {
        Self::new(Arc::new(MemoryStore::new()), SealKey::generate().expect("the system gives randomness"))
    }

    /// Returns the value of a key.
    pub async fn get<T: DeserializeOwned>(&self, key: &Key) -> Result<Option<(T, Version)>, StoreError> {
        let Some(store) = self.existing_store().await? else { return Ok(None) };
        let Some(entry) = store.get(key).await? else { return Ok(None) };
        let seal = self.key().await?;
        match decrypt(seal, key, &entry) {
            Ok(value) => Ok(Some((value, entry.version))),
            Err(ReadError::Undecryptable) => Err(decryption_error(&**store, seal, key).await),
            Err(ReadError::Malformed) => Err(StoreError::Unusable(format!(
                "the {} {:?} in {} is not in a form that this version of bowline knows",
                key.kind,
                key.id,
                store.location()
            ))),
        }
    }

    /// Writes a value if the precondition holds. Returns `None` if it does not.
    pub async fn put<T: Serialize + ?Sized>(
        &self,
        key: &Key,
        value: &T,
        expect: Precondition,
    ) -> Result<Option<Version>, StoreError> {
        let sealed = self.seal(key, value).await?;
        self.store().await?.put(key, &sealed, expect).await
    }

    /// Writes a value with a lifetime. See [`Store::put_for`].
    pub async fn put_for<T: Serialize + ?Sized>(
        &self,
        key: &Key,
        value: &T,
        ttl: Duration,
        expect: Precondition,
    ) -> Result<Option<Version>, StoreError> {
        let sealed = self.seal(key, value).await?;
        self.store().await?.put_for(key, &sealed, ttl, expect).await
    }

    /// See [`Store::touch`].
    pub async fn touch(&self, key: &Key, ttl: Duration) -> Result<bool, StoreError> {
        match self.existing_store().await? {
            Some(store) => store.touch(key, ttl).await,
            None => Ok(false),
        }
    }

    /// Adds to a counter, which is not encrypted. See [`Store::add`].
    pub async fn add(&self, counter: &str, delta: i64, ttl: Duration) -> Result<i64, StoreError> {
        self.store().await?.add(counter, delta, ttl).await
    }

    /// Encrypts a value for its key.
    async fn seal<T: Serialize + ?Sized>(&self, key: &Key, value: &T) -> Result<Vec<u8>, StoreError> {
        // An error of serde may contain a part of the value.
        let value = Zeroizing::new(
            serde_json::to_vec(value)
                .map_err(|_| StoreError::Unusable(format!("a {} cannot be written as JSON", key.kind)))?,
        );
        if value.len() > MAX_VALUE_SIZE {
            return Err(StoreError::Unusable(format!("a {} of {} bytes is not kept", key.kind, value.len())));
        }
        self.key().await?.seal(key, &value)
    }

    /// Removes a value if the precondition holds.
    pub async fn remove(&self, key: &Key, expect: Precondition) -> Result<bool, StoreError> {
        match self.existing_store().await? {
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
        let Some(store) = self.existing_store().await? else { return Ok(values) };
        for (key, entry) in store.list(kind).await? {
            match decrypt(self.key().await?, &key, &entry) {
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
    pub async fn lock(&self, name: &str) -> Result<Result<Lock, LockHolder>, StoreError> {
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
    async fn existing_store(&self) -> Result<Option<&Arc<dyn Store>>, StoreError> {
        match &self.backing {
            Backing::Open { store, .. } => Ok(Some(store)),
            Backing::Lazy(later) => later.existing_store().await,
        }
    }

    async fn store(&self) -> Result<&Arc<dyn Store>, StoreError> {
        match &self.backing {
            Backing::Open { store, .. } => Ok(store),
            Backing::Lazy(later) => later.store().await,
        }
    }

    async fn key(&self) -> Result<&SealKey, StoreError> {
        match &self.backing {
            Backing::Open { key, .. } => Ok(key),
            Backing::Lazy(later) => later.key().await,
        }
    }
}

fn decrypt<T: DeserializeOwned>(seal: &SealKey, key: &Key, entry: &StoreRecord) -> Result<T, ReadError> {
    let value = seal.open(key, &entry.value).map_err(|_| ReadError::Undecryptable)?;
    serde_json::from_slice(&value).map_err(|_| ReadError::Malformed)
}

/// Explains why a value cannot be decrypted. The mark tells a wrong key from a damaged value.
async fn decryption_error(store: &dyn Store, seal: &SealKey, key: &Key) -> StoreError {
    let place = store.location();
    match KeyMark::load(store).await {
        Err(error) => error,
        Ok(Some((mark, _))) if mark.matches(seal) => StoreError::Unusable(format!(
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
enum ReadError {
    Undecryptable,
    Malformed,
}

impl fmt::Debug for EncryptedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.backing {
            Backing::Open { store, .. } => f.debug_tuple("Safe").field(store).finish(),
            Backing::Lazy(later) => f.debug_tuple("Safe").field(later).finish(),
        }
    }
}

//! Persistent storage: versioned records by key, append logs, counters, and leases that expire.
//!
//! A [`Store`] holds opaque bytes; [`EncryptedStore`] encrypts and decrypts them. Any number of
//! processes share one store: a writer names the version that it has seen, and fails if another one
//! was first.
//!
//! A record may have a lifetime ([`Store::put_for`]), and logs and counters always have one. What has
//! expired is absent for every operation at once, and is deleted a little later. A log is also bounded
//! in entries and bytes ([`AppendOptions`]). So whatever nobody asks for again takes no space for ever.
//!
//! Each process appends to a log ([`LogStore::append`]), reads what follows the position that it has
//! seen ([`LogStore::after`]), and waits for more ([`LogStore::wait`]). A reader whose position is too
//! old learns that it has missed entries ([`LogSlice::has_gap`]).
//!
//! # Features
//!
//! `sqlite`, `keyring` and `passphrase` are on by default, `valkey` is not. Without any of them there
//! is [`MemoryStore`], and whatever the program implements [`Store`] for.

// The pages on docs.rs name the feature that each item needs.
#![cfg_attr(docsrs, feature(doc_cfg))]

// Tests in this crate share files with those outside of it.
#[cfg(test)]
extern crate self as bowline_store;

mod encrypted_store;
mod key;
mod lazy;
mod lease;
mod lifetime;
mod lock;
mod log;
mod memory;
mod open;
#[cfg(feature = "passphrase")]
pub mod passphrase;
pub mod private;
mod random;
mod seal;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(feature = "valkey")]
mod valkey;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

pub use encrypted_store::EncryptedStore;
pub use key::StoreKeyLocation;
pub use lazy::{open_lazily, open_unusable};
pub use lease::MAX_LEASE_TTL;
pub use lifetime::MAX_TTL;
pub use lock::{Lock, LockHolder};
pub use log::{AppendOptions, Durability, LogEntry, LogName, LogSlice, LogStore, Position, ReadLimits};
pub use memory::MemoryStore;
pub use open::{OpenedStore, exists, open, open_with_key};
pub use seal::{DecryptError, NonceSource, SealKey};
#[cfg(feature = "sqlite")]
pub use sqlite::SqliteStore;
#[cfg(feature = "valkey")]
pub use valkey::ValkeyStore;

/// The future of a store operation.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Stores records, counters and leases, and the logs of [`LogStore`]. Writes that [`Store::put`] has
/// confirmed are durable: they survive the end of the process, however sudden.
///
/// A future that is dropped before it completes may or may not have taken effect, but never partly.
pub trait Store: LogStore + fmt::Debug + 'static {
    /// Returns the record of a key.
    fn get<'a>(&'a self, key: &'a Key) -> StoreFuture<'a, Option<StoreRecord>>;

    /// Writes a record if the precondition holds. Returns the new version, or `None` if it does not
    /// hold and nothing has changed. The record has no lifetime, even if it had one before.
    fn put<'a>(
        &'a self,
        key: &'a Key,
        value: &'a [u8],
        expect: Precondition,
    ) -> StoreFuture<'a, Option<Version>>;

    /// Writes a record like [`Store::put`], with a lifetime that begins now. A record whose lifetime
    /// has passed is absent. Lifetimes are limited to [`MAX_TTL`].
    fn put_for<'a>(
        &'a self,
        key: &'a Key,
        value: &'a [u8],
        ttl: Duration,
        expect: Precondition,
    ) -> StoreFuture<'a, Option<Version>>;

    /// Lets the lifetime of a record begin anew, with another length, and leaves its value and
    /// version alone. Returns `false` if there is no such record, or if it has no lifetime. This is
    /// cheap, because it is durable only as [`Durability::Process`] says.
    fn touch<'a>(&'a self, key: &'a Key, ttl: Duration) -> StoreFuture<'a, bool>;

    /// Adds to a counter and returns its new value. A counter begins at 0 and saturates. It ends
    /// `ttl` after the addition that began it; later ones do not renew it, so that it counts what
    /// happens within a period. Additions are durable as [`Durability::Process`] says.
    fn add<'a>(&'a self, counter: &'a str, delta: i64, ttl: Duration) -> StoreFuture<'a, i64>;

    /// Removes a record if the precondition holds. Returns whether one was removed.
    fn remove<'a>(&'a self, key: &'a Key, expect: Precondition) -> StoreFuture<'a, bool>;

    /// Returns all records of a kind, with their keys.
    fn list(&self, kind: &'static str) -> StoreFuture<'_, Vec<(Key, StoreRecord)>>;

    /// Acquires a lease, unless it is held. It expires after `ttl` if it is neither released nor
    /// renewed, so that a process that dies does not block the others. Lifetimes are limited to
    /// [`MAX_LEASE_TTL`].
    fn acquire<'a>(&'a self, name: &'a str, ttl: Duration) -> StoreFuture<'a, Option<Lease>>;

    /// Extends a lease by `ttl` from now. Returns `false` if it is no longer ours.
    fn renew<'a>(&'a self, lease: &'a Lease, ttl: Duration) -> StoreFuture<'a, bool>;

    /// Releases a lease. One that has expired, and may have another holder by now, is left alone.
    fn release(&self, lease: Lease) -> StoreFuture<'_, ()>;

    /// Acquires the lock of a name, unless another process of this machine holds it. Unlike a
    /// lease, it ends only when it is released or its holder dies. A store without a shared file
    /// has no locks, and returns [`Lock::none`].
    ///
    /// If the lock is free, a lease that is only acquired under the lock of the same name must have
    /// been left behind. A store that only this machine uses removes it, so that nobody waits for a
    /// killed process.
    fn lock<'a>(&'a self, name: &'a str) -> StoreFuture<'a, Result<Lock, LockHolder>> {
        let _ = name;
        Box::pin(std::future::ready(Ok(Ok(Lock::none()))))
    }

    /// Describes where the store is, for people and without secrets.
    fn location(&self) -> String;
}

/// The key of a record.
///
/// Complete: a store finds a record by nothing else.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The kind of record, such as `login`: letters, digits and `-`.
    pub kind: &'static str,
    /// The id, unique within its kind.
    pub id: String,
}

/// A stored record.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreRecord {
    /// The stored bytes.
    pub value: Vec<u8>,
    /// Changes with every write and is never reused, not even after the record was removed.
    pub version: Version,
}

/// The version of a record. Later versions are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u64);

/// What must be true for a write to happen.
///
/// Complete: every store must check each condition, so a new one would break them all anyway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// Always write.
    Any,
    /// There is no record.
    Absent,
    /// The record has this version.
    AtVersion(Version),
}

/// The exclusive right to do something for a limited time. Clones are the same lease.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lease {
    /// What the lease is for.
    pub name: String,
    /// Distinguishes the lease from later ones of the same name.
    pub token: String,
}

/// Why a store operation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The store is busy or unreachable. A later attempt may succeed.
    #[error("{0}")]
    Unavailable(String),
    /// The store exists and cannot be used: damaged, foreign, or of a later version.
    #[error("{0}")]
    Unusable(String),
    /// A value cannot be decrypted, because the key is another one.
    #[error("{0}")]
    Sealed(String),
}

impl Key {
    /// Creates the key of one record of a kind.
    pub fn new(kind: &'static str, id: impl Into<String>) -> Self {
        Self { kind, id: id.into() }
    }
}

impl StoreRecord {
    /// Creates a record, for a [`Store`] of a host's own.
    pub fn new(value: Vec<u8>, version: Version) -> Self {
        Self { value, version }
    }
}

impl Lease {
    /// Creates a lease, for a [`Store`] of a host's own. Nobody may be able to guess its token.
    pub fn new(name: impl Into<String>, token: impl Into<String>) -> Self {
        Self { name: name.into(), token: token.into() }
    }
}

impl fmt::Debug for StoreRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreRecord")
            .field("bytes", &self.value.len())
            .field("version", &self.version)
            .finish()
    }
}

//! What we remember: values by key, each with a version, and leases that end by themselves.
//!
//! A [`Store`] keeps bytes and knows nothing of what they mean; [`Safe`] encrypts what goes in and decrypts what
//! comes out. Any number of processes share one store: whoever changes a value says which version of it was seen,
//! and loses against whoever was first.

mod key;
mod later;
mod lease;
mod lock;
mod memory;
mod open;
pub mod passphrase;
pub mod private;
mod random;
mod safe;
mod seal;
mod sqlite;
#[cfg(feature = "valkey")]
mod valkey;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

pub use key::KeyKind;
pub use later::{open_later, open_never};
pub use lease::LONGEST_LEASE;
pub use lock::{Lock, Locked};
pub use memory::Memory;
pub use open::{Opened, open, open_with};
pub use safe::Safe;
pub use seal::SealKey;
pub use sqlite::Sqlite;
#[cfg(feature = "valkey")]
pub use valkey::Valkey;

/// What a store does takes a while, and can fail.
pub type Doing<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Keeps values and leases. Durable: what [`Store::put`] has confirmed survives the end of the process, however
/// sudden.
///
/// A future that is dropped before it is done may or may not have had its effect, but never half of it.
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// The value of a key.
    fn get<'a>(&'a self, key: &'a Key) -> Doing<'a, Option<Entry>>;

    /// Sets a value if what was expected is there. Gives its version, or `None` if it is not, and then nothing
    /// has changed.
    fn put<'a>(&'a self, key: &'a Key, value: &'a [u8], expect: Expect) -> Doing<'a, Option<Version>>;

    /// Forgets a key if what was expected is there. Says whether something was forgotten.
    fn remove<'a>(&'a self, key: &'a Key, expect: Expect) -> Doing<'a, bool>;

    /// All keys of a kind, with their values.
    fn list(&self, kind: &'static str) -> Doing<'_, Vec<(Key, Entry)>>;

    /// Takes a lease, unless somebody has it. It ends after `ttl`, if it is not given back or renewed before, so
    /// that nobody who dies holds up the others. No lease is longer than [`LONGEST_LEASE`].
    fn acquire<'a>(&'a self, name: &'a str, ttl: Duration) -> Doing<'a, Option<Lease>>;

    /// Has a lease end later. `false`: it is not ours any more.
    fn renew<'a>(&'a self, lease: &'a Lease, ttl: Duration) -> Doing<'a, bool>;

    /// Gives a lease back. One that has ended, and may be somebody else's by now, is left alone.
    fn release(&self, lease: Lease) -> Doing<'_, ()>;

    /// Takes the lock of a name, unless another process of this machine has it. Unlike a lease it does not end by
    /// itself, except with its holder. A store that processes of one machine do not share by a file has no locks, and
    /// gives [`Lock::none`].
    ///
    /// A lease that is to be had only under the lock of the same name was left behind if the lock can be taken. A store
    /// that only this machine uses removes it, so that nobody waits for a process that was killed.
    fn lock<'a>(&'a self, name: &'a str) -> Doing<'a, Result<Lock, Locked>> {
        let _ = name;
        Box::pin(std::future::ready(Ok(Ok(Lock::none()))))
    }

    /// Where it is, in words for a person; without secrets.
    fn place(&self) -> String;
}

/// What a value is found by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// What it is, such as `login`: letters, digits and `-`.
    pub kind: &'static str,
    /// Which one.
    pub id: String,
}

/// A value as it is kept.
#[derive(Clone, PartialEq, Eq)]
pub struct Entry {
    /// The bytes.
    pub value: Vec<u8>,
    /// Changes whenever the value does, and never comes back, not even after the key was forgotten.
    pub version: Version,
}

/// The version of a value. Later ones are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u64);

/// What has to be there for a change to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Whatever.
    Anything,
    /// Nothing.
    Nothing,
    /// This version.
    At(Version),
}

/// The right to do something that only one may do at a time. Clones are the same right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// To do what.
    pub name: String,
    /// Tells it from the lease of whoever comes after.
    pub token: String,
}

/// Why something could not be remembered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Others are at it, and did not get done in time; or it cannot be reached. Later it may work.
    #[error("{0}")]
    Unavailable(String),
    /// It is there and cannot be used: damaged, not ours, or of a later version.
    #[error("{0}")]
    Unusable(String),
    /// What is kept cannot be decrypted: the key is another one.
    #[error("{0}")]
    Sealed(String),
}

impl Key {
    /// The key of one value of a kind.
    pub fn new(kind: &'static str, id: impl Into<String>) -> Self {
        Self { kind, id: id.into() }
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").field("bytes", &self.value.len()).field("version", &self.version).finish()
    }
}

//! Owns which key a store is encrypted with, and where that key is kept.
//!
//! The store itself records it in a [`KeyMark`]: the first process creates a key, puts it into the
//! keyring or a file, and marks the store with it. If several processes start at once, the store
//! accepts one mark, and all use that key. After that, no key is ever created for this store again,
//! even if the keyring is locked or empty: with a new key, all stored values would be lost.

pub(crate) mod file;
mod keyring;
mod mark;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bowline_config::KeyLocation;

pub(crate) use keyring::Keyring;
use keyring::{KeyringError, entry_name};
pub(crate) use mark::KeyMark;
use mark::MarkedLocation;
use tokio::time::{Instant, sleep};

use crate::{Lease, Precondition, SealKey, Store, StoreError, Version};

/// Where the key of a store is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreKeyLocation {
    /// In the system's keyring.
    Keyring,
    /// In this file, which only its owner can read.
    File(PathBuf),
    /// With the calling program, which passed it to [`crate::open_with_key`].
    Caller,
}

/// Finds or creates the key of a store.
pub(crate) struct KeySource<'a> {
    pub(crate) configured: KeyLocation,
    pub(crate) keyring: Keyring,
    /// The folder of the key file.
    pub(crate) state_folder: &'a Path,
}

/// How often the mark is read again because another process was first. Once is enough, unless a
/// person deletes the mark meanwhile.
const MAX_MARK_ATTEMPTS: usize = 3;

/// How long other processes wait while one creates a key. A person may be typing a password
/// meanwhile.
const KEY_CREATION_TTL: Duration = Duration::from_secs(30);

/// How often the others check whether the mark is set.
const MARK_POLL_INTERVAL: Duration = Duration::from_millis(50);

impl KeySource<'_> {
    /// Returns the key of a store; creates it if the store is new.
    pub(crate) async fn find_or_create(
        &self,
        store: &dyn Store,
        notes: &mut Vec<String>,
    ) -> Result<(SealKey, StoreKeyLocation), StoreError> {
        for _ in 0..MAX_MARK_ATTEMPTS {
            let turn = match wait_for_mark_or_lease(store).await? {
                KeyCreation::Marked(mark, version) => return self.load(store, &mark, version, notes).await,
                KeyCreation::Allowed(turn) => turn,
            };
            // Notes of a key that loses the race below are dropped.
            let mut news = Vec::new();
            let made = self.create_and_mark(store, &mut news).await;
            if let Some(turn) = turn {
                store.release(turn).await?;
            }
            if let Some(made) = made? {
                notes.append(&mut news);
                return Ok(made);
            }
        }
        Err(StoreError::Unavailable(format!("{} keeps changing its key", store.location())))
    }

    /// Creates a key for a new store and marks the store with it. Returns `None` if another process
    /// was first.
    async fn create_and_mark(
        &self,
        store: &dyn Store,
        notes: &mut Vec<String>,
    ) -> Result<Option<(SealKey, StoreKeyLocation)>, StoreError> {
        let (key, kind) = self.create(notes).await?;
        let ours = KeyMark::new(kind.to_mark(), &key)?.save(store, Precondition::Absent).await?;
        Ok(ours.then_some((key, kind)))
    }

    /// Creates a key for a new store and puts it into the keyring or a file.
    async fn create(&self, notes: &mut Vec<String>) -> Result<(SealKey, StoreKeyLocation), StoreError> {
        let key = SealKey::generate()?;
        if self.configured != KeyLocation::File {
            match self.keyring.store_key(&key).await {
                Ok(()) => return Ok((key, StoreKeyLocation::Keyring)),
                Err(why) if self.configured == KeyLocation::Keyring => return Err(no_keyring_error(&why)),
                Err(why) => notes.push(format!("the system's keyring cannot be used: {why}")),
            }
        }
        let path = file::key_file_path(self.state_folder);
        let key = file::read_or_create_key(&path, &key, notes)?;
        Ok((key, StoreKeyLocation::File(path)))
    }

    /// Loads the key that a store is marked with, and moves it if another location is configured.
    async fn load(
        &self,
        store: &dyn Store,
        mark: &KeyMark,
        version: Version,
        notes: &mut Vec<String>,
    ) -> Result<(SealKey, StoreKeyLocation), StoreError> {
        let place = store.location();
        let (key, kind) = match &mark.at {
            MarkedLocation::Keyring => {
                (self.load_from_keyring(&place, mark).await?, StoreKeyLocation::Keyring)
            }
            MarkedLocation::File(made) => {
                let path = file::key_file_path(self.state_folder);
                let key =
                    file::read_key(&path, notes)?.ok_or_else(|| no_key_file_error(&place, &path, made))?;
                (key, StoreKeyLocation::File(path))
            }
            MarkedLocation::Given => {
                return Err(StoreError::Sealed(format!(
                    "{place} is encrypted with a key that the program was given which made it"
                )));
            }
        };
        if !mark.matches(&key) {
            return Err(StoreError::Sealed(format!(
                "{place} is encrypted with another key than the one in {kind}; put the right one there, or move \
                 the store away and log in again"
            )));
        }
        match (self.configured, &kind) {
            (KeyLocation::Keyring, StoreKeyLocation::File(path)) => {
                self.keyring.store_key(&key).await.map_err(|why| no_keyring_error(&why))?;
                let to = StoreKeyLocation::Keyring;
                if KeyMark::new(to.to_mark(), &key)?.save(store, Precondition::AtVersion(version)).await? {
                    notes.push(format!(
                        "moved the key of {place} to {to}; {} is not needed any more, unless another store uses it",
                        path.display()
                    ));
                }
                Ok((key, to))
            }
            (KeyLocation::File, StoreKeyLocation::Keyring) => {
                let path = file::key_file_path(self.state_folder);
                if !mark.matches(&file::read_or_create_key(&path, &key, notes)?) {
                    return Err(StoreError::Unusable(format!(
                        "the key of {place} cannot be moved to {}: another one is there",
                        path.display()
                    )));
                }
                let to = StoreKeyLocation::File(path);
                if KeyMark::new(to.to_mark(), &key)?.save(store, Precondition::AtVersion(version)).await? {
                    notes.push(format!("moved the key of {place} from {kind} to {to}"));
                }
                Ok((key, to))
            }
            _ => Ok((key, kind)),
        }
    }

    async fn load_from_keyring(&self, place: &str, mark: &KeyMark) -> Result<SealKey, StoreError> {
        self.keyring.get_key(&mark.key).await.map_err(|why| match why {
            KeyringError::Unavailable(_) => StoreError::Unavailable(format!(
                "{place} is encrypted with a key in the system's keyring, and {why}. Unlock the keyring and try \
                 again; to have the key in a file from then on, set `key = \"file\"` under [store] before that"
            )),
            KeyringError::Missing | KeyringError::Untrustworthy(_) => StoreError::Sealed(format!(
                "{place} is encrypted with a key that should be in the keyring of the system and user that made \
                 it, and {why} (entry \"{}\"). If it is gone for good, move the store away and log in again",
                entry_name(&mark.key)
            )),
        })
    }
}

/// Whether this process may create the key of a new store.
enum KeyCreation {
    /// The store has a key.
    Marked(KeyMark, Version),
    /// This process may; with a lease, or because the holder did not release it in time. The lease
    /// only prevents that all processes ask the keyring, and perhaps a person, at once: the mark
    /// decides.
    Allowed(Option<Lease>),
}

async fn wait_for_mark_or_lease(store: &dyn Store) -> Result<KeyCreation, StoreError> {
    let deadline = Instant::now() + KEY_CREATION_TTL;
    loop {
        if let Some((mark, version)) = KeyMark::load(store).await? {
            return Ok(KeyCreation::Marked(mark, version));
        }
        if let Some(lease) = store.acquire("key", KEY_CREATION_TTL).await? {
            // The previous holder may have finished since the mark was read.
            let Some((mark, version)) = KeyMark::load(store).await? else {
                return Ok(KeyCreation::Allowed(Some(lease)));
            };
            store.release(lease).await?;
            return Ok(KeyCreation::Marked(mark, version));
        }
        if Instant::now() >= deadline {
            return Ok(KeyCreation::Allowed(None));
        }
        sleep(MARK_POLL_INTERVAL).await;
    }
}

/// Checks a key from the caller against the store's mark, and marks a new store with it.
pub(crate) async fn check_caller_key(store: &dyn Store, key: &SealKey) -> Result<(), StoreError> {
    for _ in 0..MAX_MARK_ATTEMPTS {
        match KeyMark::load(store).await? {
            Some((mark, _)) if mark.matches(key) => return Ok(()),
            Some(_) => {
                return Err(StoreError::Sealed(format!(
                    "{} is encrypted with another key",
                    store.location()
                )));
            }
            None => {
                if KeyMark::new(MarkedLocation::Given, key)?.save(store, Precondition::Absent).await? {
                    return Ok(());
                }
            }
        }
    }
    Err(StoreError::Unavailable(format!("{} keeps changing its key", store.location())))
}

fn no_keyring_error(why: &KeyringError) -> StoreError {
    StoreError::Unavailable(format!(
        "the key is to be in the system's keyring, and {why}. Unlock it, or set `key = \"file\"` under [store]"
    ))
}

fn no_key_file_error(place: &str, path: &Path, made: &str) -> StoreError {
    let here = path.display().to_string();
    let elsewhere = if here == made { String::new() } else { format!("; it was made as {made}") };
    StoreError::Sealed(format!(
        "{place} is encrypted with a key file, and {here} is not there{elsewhere}. Put it there, or move the \
         store away and log in again"
    ))
}

impl StoreKeyLocation {
    fn to_mark(&self) -> MarkedLocation {
        match self {
            Self::Keyring => MarkedLocation::Keyring,
            Self::File(path) => MarkedLocation::File(path.display().to_string()),
            Self::Caller => MarkedLocation::Given,
        }
    }
}

impl fmt::Display for StoreKeyLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keyring => f.write_str("the system's keyring"),
            Self::File(path) => write!(f, "the file {}", path.display()),
            Self::Caller => f.write_str("the program's hands"),
        }
    }
}

impl fmt::Display for KeyringError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("it is not there"),
            Self::Unavailable(why) => write!(f, "the keyring does not answer: {why}"),
            Self::Untrustworthy(why) => write!(f, "the keyring is not to be trusted: {why}"),
        }
    }
}

//! Owns which key a store is encrypted with, and where that key is kept.
//!
//! The store itself records it in a [`KeyMark`]: the first process creates a key, puts it into the
//! keyring or a file, and marks the store with it. If several processes start at once, the store
//! accepts one mark, and all use that key. After that, no key is ever created for this store again,
//! even if the keyring is locked or empty: with a new key, all stored values would be lost.

mod file;
mod keyring;
mod mark;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bowline_config::KeyPlace;

pub(crate) use keyring::Keyring;
use keyring::{KeyringError, entry_name};
pub(crate) use mark::Mark;
use mark::MarkedAt;
use tokio::time::{Instant, sleep};

use crate::{Expect, Lease, SealKey, Store, StoreError, Version};

/// Where the key of a store is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// In the system's keyring.
    Keyring,
    /// In this file, which only its owner can read.
    File(PathBuf),
    /// With the calling program, which passed it to [`crate::open_with_key`].
    Given,
}

/// Finds or creates the key of a store.
pub(crate) struct Places<'a> {
    pub(crate) chosen: KeyPlace,
    pub(crate) keyring: Keyring,
    /// The folder of the key file.
    pub(crate) state: &'a Path,
}

/// How often the mark is read again because another process was first. Once is enough, unless a
/// person deletes the mark meanwhile.
const ROUNDS: usize = 3;

/// How long other processes wait while one creates a key. A person may be typing a password
/// meanwhile.
const TURN: Duration = Duration::from_secs(30);

/// How often the others check whether the mark is set.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

impl Places<'_> {
    /// Returns the key of a store; creates it if the store is new.
    pub(crate) async fn find(
        &self,
        store: &dyn Store,
        notes: &mut Vec<String>,
    ) -> Result<(SealKey, KeyKind), StoreError> {
        for _ in 0..ROUNDS {
            let turn = match wait_for_turn(store).await? {
                Turn::Marked(mark, version) => return self.fetch(store, &mark, version, notes).await,
                Turn::Ours(turn) => turn,
            };
            // Notes of a key that loses the race below are dropped.
            let mut news = Vec::new();
            let made = self.mark_new(store, &mut news).await;
            if let Some(turn) = turn {
                store.release(turn).await?;
            }
            if let Some(made) = made? {
                notes.append(&mut news);
                return Ok(made);
            }
        }
        Err(StoreError::Unavailable(format!("{} keeps changing its key", store.place())))
    }

    /// Creates a key for a new store and marks the store with it. Returns `None` if another process
    /// was first.
    async fn mark_new(
        &self,
        store: &dyn Store,
        notes: &mut Vec<String>,
    ) -> Result<Option<(SealKey, KeyKind)>, StoreError> {
        let (key, kind) = self.make(notes).await?;
        let ours = Mark::new(kind.marked_at(), &key)?.set(store, Expect::Nothing).await?;
        Ok(ours.then_some((key, kind)))
    }

    /// Creates a key for a new store and puts it into the keyring or a file.
    async fn make(&self, notes: &mut Vec<String>) -> Result<(SealKey, KeyKind), StoreError> {
        let key = SealKey::generate()?;
        if self.chosen != KeyPlace::File {
            match self.keyring.keep(&key).await {
                Ok(()) => return Ok((key, KeyKind::Keyring)),
                Err(why) if self.chosen == KeyPlace::Keyring => return Err(no_keyring(&why)),
                Err(why) => notes.push(format!("the system's keyring cannot be used: {why}")),
            }
        }
        let path = file::path(self.state);
        let key = file::read_or_make(&path, &key, notes)?;
        Ok((key, KeyKind::File(path)))
    }

    /// Loads the key that a store is marked with, and moves it if another location is configured.
    async fn fetch(
        &self,
        store: &dyn Store,
        mark: &Mark,
        version: Version,
        notes: &mut Vec<String>,
    ) -> Result<(SealKey, KeyKind), StoreError> {
        let place = store.place();
        let (key, kind) = match &mark.at {
            MarkedAt::Keyring => (self.in_keyring(&place, mark).await?, KeyKind::Keyring),
            MarkedAt::File(made) => {
                let path = file::path(self.state);
                let key = file::read(&path, notes)?.ok_or_else(|| no_key_file(&place, &path, made))?;
                (key, KeyKind::File(path))
            }
            MarkedAt::Given => {
                return Err(StoreError::Sealed(format!(
                    "{place} is encrypted with a key that the program was given which made it"
                )));
            }
        };
        if !mark.fits(&key) {
            return Err(StoreError::Sealed(format!(
                "{place} is encrypted with another key than the one in {kind}; put the right one there, or move \
                 the store away and log in again"
            )));
        }
        match (self.chosen, &kind) {
            (KeyPlace::Keyring, KeyKind::File(path)) => {
                self.keyring.keep(&key).await.map_err(|why| no_keyring(&why))?;
                let to = KeyKind::Keyring;
                if Mark::new(to.marked_at(), &key)?.set(store, Expect::At(version)).await? {
                    notes.push(format!(
                        "moved the key of {place} to {to}; {} is not needed any more, unless another store uses it",
                        path.display()
                    ));
                }
                Ok((key, to))
            }
            (KeyPlace::File, KeyKind::Keyring) => {
                let path = file::path(self.state);
                if !mark.fits(&file::read_or_make(&path, &key, notes)?) {
                    return Err(StoreError::Unusable(format!(
                        "the key of {place} cannot be moved to {}: another one is there",
                        path.display()
                    )));
                }
                let to = KeyKind::File(path);
                if Mark::new(to.marked_at(), &key)?.set(store, Expect::At(version)).await? {
                    notes.push(format!("moved the key of {place} from {kind} to {to}"));
                }
                Ok((key, to))
            }
            _ => Ok((key, kind)),
        }
    }

    async fn in_keyring(&self, place: &str, mark: &Mark) -> Result<SealKey, StoreError> {
        self.keyring.get(&mark.key).await.map_err(|why| match why {
            KeyringError::Silent(_) => StoreError::Unavailable(format!(
                "{place} is encrypted with a key in the system's keyring, and {why}. Unlock the keyring and try \
                 again; to have the key in a file from then on, set `key = \"file\"` under [store] before that"
            )),
            KeyringError::Missing | KeyringError::Forgetful(_) => StoreError::Sealed(format!(
                "{place} is encrypted with a key that should be in the keyring of the system and user that made \
                 it, and {why} (entry \"{}\"). If it is gone for good, move the store away and log in again",
                entry_name(&mark.key)
            )),
        })
    }
}

/// Whether this process may create the key of a new store.
enum Turn {
    /// The store has a key.
    Marked(Mark, Version),
    /// This process may; with a lease, or because the holder did not release it in time. The lease
    /// only prevents that all processes ask the keyring, and perhaps a person, at once: the mark
    /// decides.
    Ours(Option<Lease>),
}

async fn wait_for_turn(store: &dyn Store) -> Result<Turn, StoreError> {
    let deadline = Instant::now() + TURN;
    loop {
        if let Some((mark, version)) = Mark::of(store).await? {
            return Ok(Turn::Marked(mark, version));
        }
        if let Some(lease) = store.acquire("key", TURN).await? {
            // The previous holder may have finished since the mark was read.
            let Some((mark, version)) = Mark::of(store).await? else { return Ok(Turn::Ours(Some(lease))) };
            store.release(lease).await?;
            return Ok(Turn::Marked(mark, version));
        }
        if Instant::now() >= deadline {
            return Ok(Turn::Ours(None));
        }
        sleep(LOOK_AGAIN).await;
    }
}

/// Checks a key from the caller against the store's mark, and marks a new store with it.
pub(crate) async fn check_given(store: &dyn Store, key: &SealKey) -> Result<(), StoreError> {
    for _ in 0..ROUNDS {
        match Mark::of(store).await? {
            Some((mark, _)) if mark.fits(key) => return Ok(()),
            Some(_) => {
                return Err(StoreError::Sealed(format!("{} is encrypted with another key", store.place())));
            }
            None => {
                if Mark::new(MarkedAt::Given, key)?.set(store, Expect::Nothing).await? {
                    return Ok(());
                }
            }
        }
    }
    Err(StoreError::Unavailable(format!("{} keeps changing its key", store.place())))
}

fn no_keyring(why: &KeyringError) -> StoreError {
    StoreError::Unavailable(format!(
        "the key is to be in the system's keyring, and {why}. Unlock it, or set `key = \"file\"` under [store]"
    ))
}

fn no_key_file(place: &str, path: &Path, made: &str) -> StoreError {
    let here = path.display().to_string();
    let elsewhere = if here == made { String::new() } else { format!("; it was made as {made}") };
    StoreError::Sealed(format!(
        "{place} is encrypted with a key file, and {here} is not there{elsewhere}. Put it there, or move the \
         store away and log in again"
    ))
}

impl KeyKind {
    fn marked_at(&self) -> MarkedAt {
        match self {
            Self::Keyring => MarkedAt::Keyring,
            Self::File(path) => MarkedAt::File(path.display().to_string()),
            Self::Given => MarkedAt::Given,
        }
    }
}

impl fmt::Display for KeyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keyring => f.write_str("the system's keyring"),
            Self::File(path) => write!(f, "the file {}", path.display()),
            Self::Given => f.write_str("the program's hands"),
        }
    }
}

impl fmt::Display for KeyringError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("it is not there"),
            Self::Silent(why) => write!(f, "the keyring does not answer: {why}"),
            Self::Forgetful(why) => write!(f, "the keyring is not to be trusted: {why}"),
        }
    }
}

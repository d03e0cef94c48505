//! Owns stores that are opened on first use.
//!
//! Most servers need no login. For them no file is created and no keyring is unlocked, and a store
//! that cannot be opened does not affect them.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use bowline_config::StoreConfig;
use tokio::sync::OnceCell;

use crate::key::{KeySource, Keyring};
use crate::open::{connect, exists};
use crate::{EncryptedStore, SealKey, Store, StoreError};

/// Returns a store that is opened like [`open`](fn@crate::open), but on first use. A failure to
/// open is reported then, and opening is retried the next time. The key is loaded when there is
/// something to decrypt or encrypt.
pub fn open_lazily(keeping: StoreConfig, state: PathBuf) -> EncryptedStore {
    EncryptedStore::lazy(LazyStore {
        config: Ok(keeping),
        state_folder: state,
        store: OnceCell::new(),
        key: OnceCell::new(),
    })
}

/// Returns a store for which every operation fails with this reason, for when it is unknown which
/// store is configured. Using another store instead could lose what the right one holds, or write
/// to a place that was not wanted.
pub fn open_unusable(why: impl Into<String>) -> EncryptedStore {
    let (state, store, key) = (PathBuf::new(), OnceCell::new(), OnceCell::new());
    EncryptedStore::lazy(LazyStore { config: Err(why.into()), state_folder: state, store, key })
}

/// A store that is opened on first use.
pub(crate) struct LazyStore {
    /// The configuration, or why it is unknown.
    config: Result<StoreConfig, String>,
    state_folder: PathBuf,
    store: OnceCell<Arc<dyn Store>>,
    key: OnceCell<SealKey>,
}

impl LazyStore {
    fn require_config(&self) -> Result<&StoreConfig, StoreError> {
        self.config.as_ref().map_err(|why| StoreError::Unusable(why.clone()))
    }

    /// The store, if there is one to read from.
    pub(crate) async fn existing_store(&self) -> Result<Option<&Arc<dyn Store>>, StoreError> {
        if !self.store.initialized() && !exists(&self.require_config()?.backend, &self.state_folder) {
            return Ok(None);
        }
        self.store().await.map(Some)
    }

    /// The store, created if it does not exist.
    pub(crate) async fn store(&self) -> Result<&Arc<dyn Store>, StoreError> {
        let keeping = self.require_config()?;
        let opening = async {
            let mut notes = Vec::new();
            let store = connect(&keeping.backend, &self.state_folder, &mut notes).await;
            log_notes(&notes);
            store
        };
        self.store.get_or_try_init(|| opening).await
    }

    /// The store's key.
    pub(crate) async fn key(&self) -> Result<&SealKey, StoreError> {
        let store = self.store().await?;
        let keeping = self.require_config()?;
        let finding = async {
            let places = KeySource {
                configured: keeping.key,
                keyring: Keyring::system(),
                state_folder: &self.state_folder,
            };
            let mut notes = Vec::new();
            let found = places.find_or_create(&**store, &mut notes).await;
            log_notes(&notes);
            found.map(|(key, _)| key)
        };
        self.key.get_or_try_init(|| finding).await
    }
}

/// Logs the notes, because no caller is there to show them.
fn log_notes(notes: &[String]) {
    for note in notes {
        tracing::info!("{note}");
    }
}

impl fmt::Debug for LazyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Later")
            .field("keeping", &self.config)
            .field("store", &self.store.get())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use bowline_config::KeyLocation;

    use std::time::Duration;

    use super::*;
    use crate::{AppendOptions, Key, LogName, LogSlice, Position, Precondition, ReadLimits};

    const MINUTE: Duration = Duration::from_secs(60);

    fn keeping() -> StoreConfig {
        let mut keeping = StoreConfig::default();
        keeping.key = KeyLocation::File;
        keeping
    }

    #[tokio::test]
    async fn reading_creates_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        let safe = open_lazily(keeping(), state.clone());
        let login = Key::new("login", "a");
        assert!(safe.get::<String>(&login).await.unwrap().is_none());
        assert!(safe.list::<String>("login").await.unwrap().is_empty());
        assert!(!safe.remove(&login, Precondition::Any).await.unwrap());
        assert!(!safe.touch(&login, MINUTE).await.unwrap());
        let log = LogName::new("a");
        let slice = safe.after(&log, Position(1), ReadLimits::default()).await.unwrap();
        assert_eq!(slice, LogSlice { entries: Vec::new(), has_gap: true, oldest: None, newest: None });
        safe.trim(&log, Position(1)).await.unwrap();
        assert!(!safe.remove_log(&log).await.unwrap());
        assert!(!state.exists());

        let position = safe.append(&log, &[b"event".to_vec()], AppendOptions::default()).await.unwrap()[0];
        assert!(safe.wait(&log, Position::START, MINUTE).await.unwrap());
        let slice = safe.after(&log, Position::START, ReadLimits::default()).await.unwrap();
        assert_eq!((slice.entries[0].position, slice.entries[0].value.as_slice()), (position, &b"event"[..]));
        assert_eq!(safe.add("a", 1, MINUTE).await.unwrap(), 1);

        safe.put(&login, "token", Precondition::Absent).await.unwrap();
        assert_eq!(safe.get::<String>(&login).await.unwrap().unwrap().0, "token");
        let again = open_lazily(keeping(), state.clone());
        assert_eq!(again.get::<String>(&login).await.unwrap().unwrap().0, "token");
        let opened = crate::open(&keeping(), &state).await.unwrap();
        assert_eq!(opened.store.get::<String>(&login).await.unwrap().unwrap().0, "token");
    }

    #[tokio::test]
    async fn every_operation_of_an_unusable_store_says_why() {
        let safe = open_unusable("the file is broken");
        let (login, log) = (Key::new("login", "a"), LogName::new("a"));
        let whys = [
            safe.get::<String>(&login).await.unwrap_err(),
            safe.list::<String>("login").await.unwrap_err(),
            safe.remove(&login, Precondition::Any).await.unwrap_err(),
            safe.put(&login, "token", Precondition::Absent).await.unwrap_err(),
            safe.put_for(&login, "token", MINUTE, Precondition::Absent).await.unwrap_err(),
            safe.touch(&login, MINUTE).await.unwrap_err(),
            safe.add("a", 1, MINUTE).await.unwrap_err(),
            safe.append(&log, &[Vec::new()], AppendOptions::default()).await.unwrap_err(),
            safe.after(&log, Position::START, ReadLimits::default()).await.unwrap_err(),
            safe.wait(&log, Position::START, MINUTE).await.unwrap_err(),
            safe.trim(&log, Position::START).await.unwrap_err(),
            safe.remove_log(&log).await.unwrap_err(),
        ];
        assert!(whys.iter().all(|why| why.to_string() == "the file is broken"), "{whys:?}");
    }

    #[tokio::test]
    async fn a_missing_key_matters_only_where_it_is_needed() {
        let folder = tempfile::tempdir().unwrap();
        let login = Key::new("login", "a");
        let opened = crate::open(&keeping(), folder.path()).await.unwrap();
        opened.store.put(&login, "token", Precondition::Absent).await.unwrap();
        drop(opened);
        std::fs::remove_file(folder.path().join("store.key")).unwrap();

        let safe = open_lazily(keeping(), folder.path().to_owned());
        assert!(safe.get::<String>(&Key::new("login", "b")).await.unwrap().is_none());
        assert!(safe.get::<String>(&login).await.is_err());
        assert!(safe.put(&login, "other", Precondition::Any).await.is_err());
    }

    #[tokio::test]
    async fn what_cannot_be_opened_fails_when_it_is_needed_and_is_tried_again() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("store.db");
        std::fs::write(&file, "this is no database, and never was one").unwrap();
        let safe = open_lazily(keeping(), folder.path().to_owned());
        let login = Key::new("login", "a");
        assert!(safe.get::<String>(&login).await.is_err());
        std::fs::remove_file(&file).unwrap();
        assert!(safe.get::<String>(&login).await.unwrap().is_none());
    }
}

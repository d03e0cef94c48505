//! Opens the store that the configuration describes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bowline_config::{StoreBackend, StoreConfig};

use crate::key::{self, KeySource, Keyring};
use crate::{EncryptedStore, SealKey, Store, StoreError, StoreKeyLocation, private};

/// The name of the SQLite file in the state folder.
const FILE_NAME: &str = "store.db";

/// An open store.
#[derive(Debug)]
#[non_exhaustive]
pub struct OpenedStore {
    /// The store.
    pub store: EncryptedStore,
    /// Describes where the store is, for people and without secrets.
    pub location: String,
    /// Where its key is kept.
    pub key_location: StoreKeyLocation,
    /// Messages for the user: what was created, moved or repaired just now, and what is not as it
    /// should be.
    pub notes: Vec<String>,
}

/// Opens the configured store, or creates it. `state` is the folder of the SQLite file, unless the
/// configuration names another path, and of the key file.
///
/// Nothing is ever deleted: a store that cannot be used is left as it is, and the error says what
/// can be done.
///
/// Dropping the future may leave a new store without a key, which the next call creates; that may wait
/// half a minute for this one.
pub async fn open(keeping: &StoreConfig, state: &Path) -> Result<OpenedStore, StoreError> {
    open_with_keyring(keeping, state, Keyring::system()).await
}

/// Opens a store with a key of the caller. A store with another key is refused.
///
/// Dropping the future may leave a new store, with or without a note of which key it has.
pub async fn open_with_key(
    backend: &StoreBackend,
    state: &Path,
    key: SealKey,
) -> Result<OpenedStore, StoreError> {
    let mut notes = Vec::new();
    let store = connect(backend, state, &mut notes).await?;
    key::check_caller_key(&*store, &key).await?;
    Ok(OpenedStore {
        location: store.location(),
        store: EncryptedStore::new(store, key),
        key_location: StoreKeyLocation::Caller,
        notes,
    })
}

pub(crate) async fn open_with_keyring(
    keeping: &StoreConfig,
    state: &Path,
    keyring: Keyring,
) -> Result<OpenedStore, StoreError> {
    let mut notes = Vec::new();
    let store = connect(&keeping.backend, state, &mut notes).await?;
    let places = KeySource { configured: keeping.key, keyring, state_folder: state };
    let (key, kind) = places.find_or_create(&*store, &mut notes).await?;
    Ok(OpenedStore {
        location: store.location(),
        store: EncryptedStore::new(store, key),
        key_location: kind,
        notes,
    })
}

/// Whether there is a store to read from. A server always counts as one.
pub fn exists(backend: &StoreBackend, state: &Path) -> bool {
    match backend {
        // If that is unknown, opening it tells.
        StoreBackend::Sqlite(path) => sqlite_path(path.as_deref(), state).try_exists().unwrap_or(true),
        StoreBackend::Valkey(_) => true,
        // Opening it says what is wrong.
        _ => true,
    }
}

pub(crate) async fn connect(
    backend: &StoreBackend,
    state: &Path,
    notes: &mut Vec<String>,
) -> Result<Arc<dyn Store>, StoreError> {
    private::create_folder(state)
        .map_err(|error| StoreError::Unavailable(format!("cannot make {}: {error}", state.display())))?;
    private::restrict_folder(state, notes)?;
    match backend {
        #[cfg(feature = "sqlite")]
        StoreBackend::Sqlite(path) => {
            Ok(Arc::new(crate::SqliteStore::open(&sqlite_path(path.as_deref(), state), notes).await?))
        }
        #[cfg(not(feature = "sqlite"))]
        StoreBackend::Sqlite(_) => Err(StoreError::Unusable(
            "this program was built without SQLite (the feature `store-sqlite`)".to_owned(),
        )),
        #[cfg(feature = "valkey")]
        StoreBackend::Valkey(url) => Ok(Arc::new(crate::ValkeyStore::open(url, notes).await?)),
        #[cfg(not(feature = "valkey"))]
        StoreBackend::Valkey(_) => Err(StoreError::Unusable(
            "this program was built without Valkey (the feature `store-valkey`)".to_owned(),
        )),
        _ => Err(StoreError::Unusable("this program does not know that kind of store".to_owned())),
    }
}

fn sqlite_path(configured: Option<&Path>, state: &Path) -> PathBuf {
    configured.map_or_else(|| state.join(FILE_NAME), Path::to_owned)
}

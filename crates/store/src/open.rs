//! Opens the store that the configuration describes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bowline_config::{Backend, Keeping};

use crate::key::{self, Keyring, Places};
use crate::{KeyKind, Safe, SealKey, Sqlite, Store, StoreError, private};

/// The name of the SQLite file in the state folder.
const FILE: &str = "store.db";

/// An open store.
#[derive(Debug)]
#[non_exhaustive]
pub struct Opened {
    /// The store.
    pub safe: Safe,
    /// Describes where the store is, for people and without secrets.
    pub place: String,
    /// Where its key is kept.
    pub key: KeyKind,
    /// Messages for the user: what was created, moved or repaired just now, and what is not as it
    /// should be.
    pub notes: Vec<String>,
}

/// Opens the configured store, or creates it. `state` is the folder of the SQLite file, unless the
/// configuration names another path, and of the key file.
///
/// Nothing is ever deleted: a store that cannot be used is left as it is, and the error says what
/// can be done.
pub async fn open(keeping: &Keeping, state: &Path) -> Result<Opened, StoreError> {
    open_by(keeping, state, Keyring::system()).await
}

/// Opens a store with a key of the caller. A store with another key is refused.
pub async fn open_with(backend: &Backend, state: &Path, key: SealKey) -> Result<Opened, StoreError> {
    let mut notes = Vec::new();
    let store = connect(backend, state, &mut notes).await?;
    key::check_given(&*store, &key).await?;
    Ok(Opened { place: store.place(), safe: Safe::new(store, key), key: KeyKind::Given, notes })
}

pub(crate) async fn open_by(keeping: &Keeping, state: &Path, keyring: Keyring) -> Result<Opened, StoreError> {
    let mut notes = Vec::new();
    let store = connect(&keeping.backend, state, &mut notes).await?;
    let places = Places { chosen: keeping.key, keyring, state };
    let (key, kind) = places.find(&*store, &mut notes).await?;
    Ok(Opened { place: store.place(), safe: Safe::new(store, key), key: kind, notes })
}

/// Whether there is a store to read from. A server always counts as one.
pub(crate) fn is_there(backend: &Backend, state: &Path) -> bool {
    match backend {
        // If that is unknown, opening it tells.
        Backend::Sqlite(path) => file(path.as_deref(), state).try_exists().unwrap_or(true),
        Backend::Valkey(_) => true,
    }
}

pub(crate) async fn connect(
    backend: &Backend,
    state: &Path,
    notes: &mut Vec<String>,
) -> Result<Arc<dyn Store>, StoreError> {
    private::make_folder(state)
        .map_err(|error| StoreError::Unavailable(format!("cannot make {}: {error}", state.display())))?;
    private::check_folder(state, notes)?;
    match backend {
        Backend::Sqlite(path) => Ok(Arc::new(Sqlite::open(&file(path.as_deref(), state), notes).await?)),
        #[cfg(feature = "valkey")]
        Backend::Valkey(url) => Ok(Arc::new(crate::Valkey::open(url, notes).await?)),
        #[cfg(not(feature = "valkey"))]
        Backend::Valkey(_) => Err(StoreError::Unusable(
            "this program was built without Valkey (the feature `valkey`)".to_owned(),
        )),
    }
}

fn file(configured: Option<&Path>, state: &Path) -> PathBuf {
    configured.map_or_else(|| state.join(FILE), Path::to_owned)
}

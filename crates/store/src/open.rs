//! Owns how what was asked for in the configuration becomes a store that is ready for use.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bowline_config::{Backend, Keeping};

use crate::key::{self, Keyring, Places};
use crate::{KeyKind, Safe, SealKey, Sqlite, Store, StoreError, private};

/// The name of the file in the state folder.
const FILE: &str = "store.db";

/// A store that is ready for use.
#[derive(Debug)]
#[non_exhaustive]
pub struct Opened {
    /// The store.
    pub safe: Safe,
    /// Where it is, in words for a person; without secrets.
    pub place: String,
    /// Where its key is.
    pub key: KeyKind,
    /// What a person should know: what was made, moved or mended just now, and what is not as it should be.
    pub notes: Vec<String>,
}

/// Opens the store that the configuration names, or makes it. `state` is the folder for what we remember; the
/// SQLite file is there unless the configuration says otherwise, and so is the key file where there is one.
///
/// Nothing is ever deleted: what cannot be used is left as it is, and the error says what can be done.
pub async fn open(keeping: &Keeping, state: &Path) -> Result<Opened, StoreError> {
    open_by(keeping, state, Keyring::system()).await
}

/// Opens a store whose key the program has itself. A store that has another key is refused.
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

/// Whether there is something to read. A server is taken to have something.
pub(crate) fn is_there(backend: &Backend, state: &Path) -> bool {
    match backend {
        // Whoever cannot tell finds out by opening it.
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

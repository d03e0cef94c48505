//! Owns the validated form of `[store]`: where logins are stored.

use std::path::PathBuf;

use crate::secret::Secret;
use crate::words::words;

/// Where logins are stored, and where the key is that encrypts them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct StoreConfig {
    /// The database.
    pub backend: StoreBackend,
    /// Where the encryption key is.
    pub key: KeyLocation,
}

/// The database that logins are stored in.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreBackend {
    /// An SQLite file; `None` is the one in the state folder.
    Sqlite(Option<PathBuf>),
    /// A Valkey or Redis server, by URL, which may hold a password.
    Valkey(Secret),
}

words! {
    /// Where the key is that logins are encrypted with.
    #[derive(Default)]
    #[non_exhaustive]
    pub enum KeyLocation {
        /// The system's keyring if there is one that works, else a file.
        #[default]
        Auto = "auto",
        /// The system's keyring; an error if it does not work.
        Keyring = "keyring",
        /// A file that only its owner can read.
        File = "file",
    }
}

impl Default for StoreBackend {
    fn default() -> Self {
        Self::Sqlite(None)
    }
}

//! Owns the validated form of where logins are kept.

use std::path::PathBuf;

use crate::secret::Secret;

/// Where logins are kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Keeping {
    /// In what.
    pub backend: Backend,
    /// Where the key is that they are encrypted with.
    pub key: KeyPlace,
}

/// In what logins are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Backend {
    /// A file; `None` is the one in the state folder.
    Sqlite(Option<PathBuf>),
    /// A Valkey or Redis server, by URL, which may hold a password.
    Valkey(Secret),
}

/// Where the key is that logins are encrypted with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum KeyPlace {
    /// The system's keyring where there is one that works, else a file.
    #[default]
    Auto,
    /// The system's keyring, or not at all.
    Keyring,
    /// A file that only its owner can read.
    File,
}

impl Default for Backend {
    fn default() -> Self {
        Self::Sqlite(None)
    }
}

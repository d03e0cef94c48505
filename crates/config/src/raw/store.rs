//! Owns the keys of the table `[store]`.

use crate::keys::{Choice, NonEmptyText, Text, keys};
use crate::store::KeyLocation;
use crate::words::words;

keys! {
    /// Where logins are stored. Only the user's own file sets it; in a project's file the table has no
    /// effect.
    pub(crate) struct RawStore {
        /// The database: `sqlite` is a file, `valkey` a Valkey or Redis server that several machines
        /// can share.
        #[meant_by("type", "kind")]
        backend: Choice<RawBackend> = RawBackend::default().as_str(),

        /// The file, for `sqlite`. Left out, it is in the state folder. A relative path starts from the
        /// folder of this file.
        #[meant_by("file")]
        path: NonEmptyText,

        /// The server, for `valkey`, such as `rediss://user:${PASSWORD}@host:6379/0`.
        #[meant_by("uri", "server")]
        url: Text,

        /// Where the key is that logins are encrypted with: `keyring` is the system's, `file` a file
        /// that only its owner can read, `auto` the keyring if there is one that works.
        key: Choice<KeyLocation> = KeyLocation::default().as_str(),
    }
    rules {
        "if": { "properties": { "backend": { "const": "valkey" } }, "required": ["backend"] },
        "then": { "required": ["url"], "properties": { "path": false } },
        "else": { "properties": { "url": false } },
    }
}

words! {
    /// The database that logins are stored in, as it is written.
    #[derive(Default)]
    pub(crate) enum RawBackend {
        #[default]
        Sqlite = "sqlite",
        Valkey = "valkey",
    }
}

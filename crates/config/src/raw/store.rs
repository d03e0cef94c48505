//! Owns the keys of the table `[store]`.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::report::Located;
use crate::store::KeyLocation;

/// Where logins are stored. Only the user's own file sets it; in a project's file the table has no
/// effect.
#[derive(JsonSchema, Default)]
#[schemars(
    rename = "store",
    inline,
    deny_unknown_fields,
    default,
    extend(
        "if" = { "properties": { "backend": { "const": "valkey" } }, "required": ["backend"] },
        "then" = { "required": ["url"], "properties": { "path": false } },
        "else" = { "properties": { "url": false } },
    )
)]
pub(crate) struct RawStore {
    /// The database: `sqlite` is a file, `valkey` a Valkey or Redis server that several machines
    /// can share.
    #[schemars(schema_with = "backend", extend("default" = "sqlite"))]
    pub(crate) backend: Option<Located<RawBackend>>,

    /// The file, for `sqlite`. Left out, it is in the state folder. A relative path starts from the
    /// folder of this file.
    #[schemars(with = "String", extend("minLength" = 1))]
    pub(crate) path: Option<Located<String>>,

    /// The server, for `valkey`, such as `rediss://user:${PASSWORD}@host:6379/0`.
    #[schemars(with = "String")]
    pub(crate) url: Option<Located<String>>,

    /// Where the key is that logins are encrypted with: `keyring` is the system's, `file` a file
    /// that only its owner can read, `auto` the keyring if there is one that works.
    #[schemars(schema_with = "key", extend("default" = "auto"))]
    pub(crate) key: Option<Located<KeyLocation>>,

    /// Keys that were given but could not be read, which has been reported.
    #[schemars(skip)]
    pub(crate) garbled: Vec<&'static str>,
}

/// The database that logins are stored in, as it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RawBackend {
    Sqlite,
    Valkey,
}

impl RawStore {
    /// Every key, for suggestions.
    pub(crate) const KEYS: [&str; 4] = ["backend", "path", "url", "key"];
}

pub(crate) const BACKENDS: [(&str, RawBackend); 2] =
    [("sqlite", RawBackend::Sqlite), ("valkey", RawBackend::Valkey)];

pub(crate) const KEY_LOCATIONS: [(&str, KeyLocation); 3] =
    [("auto", KeyLocation::Auto), ("keyring", KeyLocation::Keyring), ("file", KeyLocation::File)];

fn backend(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": BACKENDS.map(|(name, _)| name) })
}

fn key(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": KEY_LOCATIONS.map(|(name, _)| name) })
}

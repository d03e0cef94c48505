//! Owns the JSON schema of the configuration file, for editors.

use serde_json::Value;

use crate::keys::KeyTable as _;
use crate::raw::RawFile;

/// Returns the JSON schema of the TOML dialect, with a description and the default of every key.
pub fn json_schema() -> Value {
    let mut schema = RawFile::table_schema();
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
    schema["title"] = "bowline configuration".into();
    schema
}

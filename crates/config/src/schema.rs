//! Owns the JSON schema of the configuration file, for editors.

use schemars::SchemaGenerator;
use serde_json::Value;

use crate::keys::KeyTable as _;
use crate::raw::RawFile;

/// Returns the JSON schema of the TOML dialect, with a description and the default of every key.
pub fn json_schema() -> Value {
    let mut generator = SchemaGenerator::default();
    let mut schema = RawFile::table_schema(&mut generator);
    if let Some(version) = &generator.settings().meta_schema {
        schema.insert("$schema".to_owned(), version.to_string().into());
    }
    schema.insert("title".to_owned(), "bowline configuration".into());
    schema.to_value()
}

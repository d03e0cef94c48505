//! Owns the JSON schema of the configuration file, for editors.

use serde_json::Value;

use crate::raw::RawFile;

/// The JSON schema of the TOML form, with a description and the default of every key.
pub fn json_schema() -> Value {
    schemars::schema_for!(RawFile).to_value()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::raw::{RawHook, RawServer};

    #[test]
    fn the_schema_and_the_suggestions_know_the_same_keys() {
        let schema = json_schema();
        let properties = &schema["properties"]["servers"]["additionalProperties"]["properties"];
        let properties: BTreeSet<&str> = properties.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(properties, BTreeSet::from(RawServer::KEYS));
        let properties = &schema["properties"]["hooks"]["items"]["properties"];
        let properties: BTreeSet<&str> = properties.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(properties, BTreeSet::from(RawHook::KEYS));
    }
}

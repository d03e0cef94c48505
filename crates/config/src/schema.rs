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
    use crate::raw::{RawElicitation, RawHook, RawRoots, RawSampling, RawServer};

    #[test]
    fn the_schema_and_the_suggestions_know_the_same_keys() {
        let schema = json_schema();
        let top = &schema["properties"];
        let keys = |of: &Value| -> BTreeSet<String> {
            of["properties"].as_object().unwrap().keys().cloned().collect()
        };
        let known = |keys: &[&str]| -> BTreeSet<String> { keys.iter().map(ToString::to_string).collect() };
        assert_eq!(keys(&top["servers"]["additionalProperties"]), known(&RawServer::KEYS));
        assert_eq!(keys(&top["hooks"]["items"]), known(&RawHook::KEYS));
        assert_eq!(keys(&top["sampling"]), known(&RawSampling::KEYS));
        assert_eq!(keys(&top["elicitation"]), known(&RawElicitation::KEYS));
        assert_eq!(keys(&top["roots"]), known(&RawRoots::KEYS));
    }
}

//! Owns the JSON schema of the configuration file, for editors.

use serde_json::Value;

use crate::raw::RawFile;

/// Returns the JSON schema of the TOML dialect, with a description and the default of every key.
pub fn json_schema() -> Value {
    schemars::schema_for!(RawFile).to_value()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::raw::{
        RawApp, RawAuth, RawElicitation, RawHeadersCommand, RawHook, RawIdp, RawRoots, RawSampling,
        RawServer, RawStore, RawTokenSource,
    };

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
        assert_eq!(keys(&top["auth"]), known(&RawApp::KEYS));
        assert_eq!(keys(&top["store"]), known(&RawStore::KEYS));
        let server = &top["servers"]["additionalProperties"]["properties"];
        let auth = &server["auth"]["anyOf"][1];
        assert_eq!(keys(auth), known(&RawAuth::KEYS));
        assert_eq!(keys(&auth["properties"]["idp"]), known(&RawIdp::KEYS));
        assert_eq!(keys(&auth["properties"]["assertion"]), known(&RawTokenSource::KEYS));
        assert_eq!(keys(&server["headers_command"]["anyOf"][1]), known(&RawHeadersCommand::KEYS));
    }
}

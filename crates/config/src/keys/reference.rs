//! Tests that `docs/configuration.md` has every key, as it is defined.

use std::fmt::Write as _;

use super::{Key, KeyTable, lines};
use crate::raw::{
    RawApp, RawAuth, RawElicitation, RawFile, RawHeadersCommand, RawHook, RawIdp, RawRoots, RawSampling,
    RawServe, RawServeOauth, RawServer, RawStore, RawTokenSource, RawView,
};
use crate::schema::json_schema;

/// The page. Everything after the marker is generated.
const PAGE: &str = include_str!("../../../../docs/configuration.md");
const MARKER: &str = "<!-- The tables below are generated from the definitions in crates/config. -->\n";

/// Every table with its keys, under the heading of its section.
const TABLES: [(&str, &[&str], &[Key]); 15] = [
    ("The file", RawFile::DOC, RawFile::KEYS),
    ("`[servers.NAME]`", RawServer::DOC, RawServer::KEYS),
    ("`[servers.NAME.headers_command]`", RawHeadersCommand::DOC, RawHeadersCommand::KEYS),
    ("`[servers.NAME.auth]`", RawAuth::DOC, RawAuth::KEYS),
    ("`[servers.NAME.auth.idp]`", RawIdp::DOC, RawIdp::KEYS),
    ("`assertion` and `id_token`", RawTokenSource::DOC, RawTokenSource::KEYS),
    ("`[[hooks]]` and `[[servers.NAME.hooks]]`", RawHook::DOC, RawHook::KEYS),
    ("`[sampling]`", RawSampling::DOC, RawSampling::KEYS),
    ("`[elicitation]`", RawElicitation::DOC, RawElicitation::KEYS),
    ("`[roots]`", RawRoots::DOC, RawRoots::KEYS),
    ("`[auth]`", RawApp::DOC, RawApp::KEYS),
    ("`[store]`", RawStore::DOC, RawStore::KEYS),
    ("`[views.NAME]`", RawView::DOC, RawView::KEYS),
    ("`[serve]`", RawServe::DOC, RawServe::KEYS),
    ("`[serve.oauth]`", RawServeOauth::DOC, RawServeOauth::KEYS),
];

#[test]
fn docs_have_every_key_as_it_is_defined() {
    let mut expected = String::new();
    for (heading, doc, keys) in TABLES {
        write!(expected, "\n## {heading}\n\n{}\n\n", lines(doc).replace('\n', " ")).unwrap();
        expected.push_str("| key | value | default | meaning |\n|---|---|---|---|\n");
        for key in keys {
            let default = key.default.map_or_else(String::new, |default| format!("`{}`", default()));
            let (form, meaning) = ((key.form)(), lines(key.doc).replace('\n', " "));
            writeln!(expected, "| `{}` | {form} | {default} | {meaning} |", key.name).unwrap();
        }
    }
    let (_, tables) = PAGE.split_once(MARKER).expect("the page has the marker");
    assert!(tables == expected, "replace what follows the marker in docs/configuration.md with:\n{expected}");
}

/// Follows the schema instead of the list above, so that no table can be forgotten there.
#[test]
fn every_key_of_the_schema_is_documented() {
    fn walk(schema: &serde_json::Value, found: &mut Vec<(String, bool)>) {
        if let Some(properties) = schema["properties"].as_object()
            && schema["additionalProperties"] == false
        {
            let keys =
                properties.iter().map(|(key, schema)| (key.clone(), schema["description"].is_string()));
            found.extend(keys);
        }
        match schema {
            serde_json::Value::Object(fields) => fields.values().for_each(|inner| walk(inner, found)),
            serde_json::Value::Array(items) => items.iter().for_each(|inner| walk(inner, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    walk(&json_schema(), &mut found);
    let defined: usize = TABLES.iter().map(|(_, _, keys)| keys.len()).sum();
    // Hooks and sources of tokens are each found in two places.
    assert_eq!(found.len(), defined + RawHook::KEYS.len() + RawTokenSource::KEYS.len());
    for (key, described) in found {
        assert!(described && PAGE.contains(&format!("\n| `{key}` | ")), "{key}");
    }
}

//! The capabilities the server announces, per era and revision.

use serde_json::{Value, json};

use super::Era;
use super::tasks::TASKS_EXTENSION;
use crate::script::Script;

pub(super) fn capabilities(script: &Script, era: Era, version: &str) -> Value {
    let mut capabilities = json!({});
    for (capability, parts) in [
        ("tools", &["listChanged"][..]),
        ("resources", &["subscribe", "listChanged"]),
        ("prompts", &["listChanged"]),
    ] {
        if script.offers(capability) {
            let offered = parts.iter().filter(|part| script.offers(&format!("{capability}.{part}")));
            capabilities[capability] = offered.map(|part| ((*part).to_owned(), Value::from(true))).collect();
        }
    }
    // CP-01: 2024-11-05 supports completion without a capability for it.
    if script.offers("completions") && version > "2024-11-05" {
        capabilities["completions"] = json!({});
    }
    if script.offers("logging") && (era == Era::Legacy || script.has_logging_tool()) {
        capabilities["logging"] = json!({});
    }
    if script.offers("tasks") {
        match era {
            Era::Modern => capabilities["extensions"][TASKS_EXTENSION] = json!({}),
            Era::Legacy if version == "2025-11-25" => {
                capabilities["tasks"] = json!({"requests": {"tools": {"call": {}}}});
                for part in ["list", "cancel"] {
                    if script.offers(&format!("tasks.{part}")) {
                        capabilities["tasks"][part] = json!({});
                    }
                }
            }
            Era::Legacy => {}
        }
    }
    capabilities
}

//! The method `completion/complete`.

use serde_json::{Value, json};

use super::features::PendingResult;
use crate::rpc::{INVALID_PARAMS, Refusal};
use crate::script::Script;

pub(super) fn complete_argument(script: &Script, params: &Value) -> Result<PendingResult, Refusal> {
    let typed = params["argument"]["value"].as_str().unwrap_or_default();
    // Without scripted completions every argument can be completed.
    if script.completions.is_empty() {
        return Ok(PendingResult::ready(
            json!({"completion": {"values": [format!("{typed}-done")], "hasMore": false}}),
        ));
    }
    let fitting = script.completions.iter().filter(|completion| completion.matches(params));
    if let Some(completion) = fitting.max_by_key(|completion| completion.given.len()) {
        return Ok(PendingResult::ready(completion.complete(typed)));
    }
    if script.completions.iter().any(|completion| completion.is_for_reference(&params["ref"])) {
        return Ok(PendingResult::ready(json!({"completion": {"values": []}})));
    }
    Err(Refusal::new(INVALID_PARAMS, format!("Nothing to complete in {}", params["ref"])))
}

//! The methods `resources/read` and `prompts/get`, and the input they require before they return.

use serde_json::{Value, json};

use super::features::{Caller, PendingResult};
use super::input_rounds::{self, InputState};
use super::{Engine, Era};
use crate::rpc::{INVALID_PARAMS, RESOURCE_NOT_FOUND, Refusal};
use crate::script::Script;

/// Handles `resources/read` and `prompts/get`.
pub(super) fn handle_request(
    engine: &Engine,
    script: &Script,
    caller: Caller<'_>,
    method: &str,
    params: &Value,
) -> Result<PendingResult, Refusal> {
    let (target, mut job) = match method {
        "resources/read" => ("uri", read_resource(script, caller, params)?),
        _ => ("name", get_prompt(script, params)?),
    };
    let asking =
        script.asking.iter().find(|asking| asking.method == method && params[target] == *asking.target);
    let Some(asking) = asking else { return Ok(job) };
    match caller.era {
        Era::Legacy => job.steps = input_rounds::request_steps(engine, &asking.asks),
        Era::Modern => {
            if let InputState::Required(asks) =
                input_rounds::advance_modern_request(engine, caller, method, &asking.asks, params)?
            {
                return Ok(asks);
            }
        }
    }
    Ok(job)
}

fn read_resource(script: &Script, caller: Caller<'_>, params: &Value) -> Result<PendingResult, Refusal> {
    let uri = params["uri"].as_str().unwrap_or_default();
    let listed = script.resources.iter().find(|resource| resource.definition["uri"] == uri);
    let templated = || {
        script
            .templates
            .iter()
            .any(|template| template.matches(uri))
            .then(|| vec![json!({"uri": uri, "mimeType": "text/plain", "text": uri})])
    };
    let Some(contents) = listed.map(|resource| resource.contents.clone()).or_else(templated) else {
        // RS-02
        let code = match caller.era {
            Era::Legacy => RESOURCE_NOT_FOUND,
            Era::Modern => INVALID_PARAMS,
        };
        return Err(Refusal::new(code, "Resource not found").data(json!({"uri": uri})));
    };
    Ok(PendingResult::ready(json!({"contents": contents})))
}

fn get_prompt(script: &Script, params: &Value) -> Result<PendingResult, Refusal> {
    let name = params["name"].as_str().unwrap_or_default();
    let Some(prompt) = script.prompts.iter().find(|prompt| prompt.name() == name) else {
        return Err(Refusal::new(INVALID_PARAMS, format!("Unknown prompt: {name}")));
    };
    let arguments = &params["arguments"];
    if let Some(lacks) = prompt.missing_argument(arguments) {
        return Err(Refusal::new(INVALID_PARAMS, format!("The prompt {name} needs {lacks}")));
    }
    Ok(PendingResult::ready(json!({"messages": prompt.messages(arguments)})))
}

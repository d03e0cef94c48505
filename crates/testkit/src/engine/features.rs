//! Dispatch of the methods that both eras share, and the list methods.

use serde_json::{Value, json};

use super::paging::cut_page;
use super::{Engine, Era, Step, completion, resources_prompts, tasks, tools};
use crate::rpc::{METHOD_NOT_FOUND, Refusal};

/// A result, or an error, that is made after some steps.
pub(super) struct PendingResult {
    pub(super) steps: Vec<Step>,
    /// Makes the result from the client's responses to the requests among the steps.
    pub(super) finish: Box<dyn FnOnce(Vec<Value>) -> Result<Value, Refusal> + Send>,
}

impl PendingResult {
    pub(super) fn ready(result: Value) -> Self {
        Self { steps: Vec::new(), finish: Box::new(|_| Ok(result)) }
    }
}

/// The client of a request, as far as the response depends on it.
#[derive(Clone, Copy)]
pub(super) struct Caller<'a> {
    pub(super) era: Era,
    /// The negotiated revision.
    pub(super) version: &'a str,
    pub(super) capabilities: &'a Value,
    /// The lowest level of the log messages it gets; `None` means no log messages.
    pub(super) log_level: Option<&'a str>,
}

impl Caller<'_> {
    /// Returns whether the revision has tasks in the core protocol.
    pub(super) fn supports_tasks(&self) -> bool {
        self.version == "2025-11-25"
    }

    /// Returns whether the revision has URL elicitation with `-32042`.
    pub(super) fn supports_url_elicitation(&self) -> bool {
        self.version == "2025-11-25"
    }

    pub(super) fn supports_structured_content(&self) -> bool {
        self.version >= "2025-06-18"
    }
}

pub(super) fn handle_request(
    engine: &Engine,
    caller: Caller<'_>,
    method: &str,
    params: &Value,
) -> Result<PendingResult, Refusal> {
    let script = engine.script();
    let capability = match method.split('/').next() {
        Some("completion") => "completions",
        Some(group) => group,
        None => "",
    };
    if !script.offers(capability) {
        return Err(method_not_found(method));
    }
    let list = |key, items: &[Value]| cut_page(script.paging, key, items, params).map(PendingResult::ready);
    match method {
        _ if capability == "tasks" => tasks::handle_request(engine, &script, caller, method, params),
        "tools/list" => list("tools", &tools::definitions(&script, caller)),
        "tools/call" => tools::call_tool(engine, &script, caller, params),
        "resources/list" => list("resources", &clone_definitions(&script.resources, |r| &r.definition)),
        "resources/templates/list" => {
            list("resourceTemplates", &clone_definitions(&script.templates, |t| &t.definition))
        }
        "prompts/list" => list("prompts", &clone_definitions(&script.prompts, |p| &p.definition)),
        "resources/read" | "prompts/get" => {
            resources_prompts::handle_request(engine, &script, caller, method, params)
        }
        "completion/complete" => completion::complete_argument(&script, params),
        _ => Err(method_not_found(method)),
    }
}

fn clone_definitions<T>(items: &[T], definition: fn(&T) -> &Value) -> Vec<Value> {
    items.iter().map(|item| definition(item).clone()).collect()
}

pub(super) fn method_not_found(method: &str) -> Refusal {
    Refusal::new(METHOD_NOT_FOUND, format!("Method not found: {method}"))
}

pub(super) fn text_result(words: &str) -> Value {
    json!({"content": [{"type": "text", "text": words}]})
}

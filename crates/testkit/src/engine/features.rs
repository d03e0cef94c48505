//! Dispatch of the methods that both eras share, and the list methods.

use serde_json::{Value, json};

use super::paging::page;
use super::{Engine, Era, Step, completion, reading, tasks, tools};
use crate::rpc::{METHOD_NOT_FOUND, Refusal};

/// A result, or an error, that is made after some steps.
pub(super) struct Job {
    pub(super) steps: Vec<Step>,
    /// Makes the result from the client's responses to the requests among the steps.
    pub(super) finish: Box<dyn FnOnce(Vec<Value>) -> Result<Value, Refusal> + Send>,
}

impl Job {
    pub(super) fn done(result: Value) -> Self {
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
    pub(super) fn knows_tasks(&self) -> bool {
        self.version == "2025-11-25"
    }

    /// Returns whether the revision has URL elicitation with `-32042`.
    pub(super) fn knows_pages(&self) -> bool {
        self.version == "2025-11-25"
    }

    pub(super) fn knows_structured_content(&self) -> bool {
        self.version >= "2025-06-18"
    }
}

pub(super) fn answer(
    engine: &Engine,
    caller: Caller<'_>,
    method: &str,
    params: &Value,
) -> Result<Job, Refusal> {
    let script = engine.script();
    let capability = match method.split('/').next() {
        Some("completion") => "completions",
        Some(group) => group,
        None => "",
    };
    if !script.offers(capability) {
        return Err(unknown(method));
    }
    let list = |key, items: &[Value]| page(script.paging, key, items, params).map(Job::done);
    match method {
        _ if capability == "tasks" => tasks::answer(engine, &script, caller, method, params),
        "tools/list" => list("tools", &tools::definitions(&script, caller)),
        "tools/call" => tools::call(engine, &script, caller, params),
        "resources/list" => list("resources", &each(&script.resources, |r| &r.definition)),
        "resources/templates/list" => list("resourceTemplates", &each(&script.templates, |t| &t.definition)),
        "prompts/list" => list("prompts", &each(&script.prompts, |p| &p.definition)),
        "resources/read" | "prompts/get" => reading::answer(engine, &script, caller, method, params),
        "completion/complete" => completion::complete(&script, params),
        _ => Err(unknown(method)),
    }
}

fn each<T>(items: &[T], definition: fn(&T) -> &Value) -> Vec<Value> {
    items.iter().map(|item| definition(item).clone()).collect()
}

pub(super) fn unknown(method: &str) -> Refusal {
    Refusal::new(METHOD_NOT_FOUND, format!("Method not found: {method}"))
}

pub(super) fn text(words: &str) -> Value {
    json!({"content": [{"type": "text", "text": words}]})
}

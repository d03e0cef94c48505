//! Tools, resources, prompts and completion: what both eras answer alike.

use std::time::Duration;

use serde_json::{Value, json};

use super::paging::page;
use super::{Engine, Era, Step};
use crate::rpc::{self, INVALID_PARAMS, METHOD_NOT_FOUND, MISSING_CAPABILITY, RESOURCE_NOT_FOUND, Refusal};
use crate::script::Script;
use crate::tool::{Behaviour, Tool};

/// Work that ends in a result.
pub(super) struct Job {
    pub(super) steps: Vec<Step>,
    /// Makes the result from the answers to the steps that asked.
    pub(super) finish: Box<dyn FnOnce(Vec<Value>) -> Value + Send>,
}

impl Job {
    pub(super) fn done(result: Value) -> Self {
        Self { steps: Vec::new(), finish: Box::new(|_| result) }
    }
}

/// Who asks.
#[derive(Clone, Copy)]
pub(super) struct Caller<'a> {
    pub(super) era: Era,
    /// The negotiated revision.
    pub(super) version: &'a str,
    pub(super) capabilities: &'a Value,
}

impl Caller<'_> {
    fn knows_structured_content(&self) -> bool {
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
        "tools/list" => list("tools", &tools(&script, caller)),
        "tools/call" => call(engine, &script, caller, params),
        "resources/list" => list(
            "resources",
            &script
                .resources
                .iter()
                .map(|r| json!({"uri": r.uri, "name": r.name, "mimeType": "text/plain"}))
                .collect::<Vec<_>>(),
        ),
        "resources/templates/list" => list("resourceTemplates", &script.templates),
        "resources/read" => read(&script, caller, params),
        "prompts/list" => {
            list("prompts", &script.prompts.iter().map(|p| json!({"name": p.name})).collect::<Vec<_>>())
        }
        "prompts/get" => prompt(&script, params),
        "completion/complete" => {
            let typed = params["argument"]["value"].as_str().unwrap_or_default();
            Ok(Job::done(json!({"completion": {"values": [format!("{typed}-done")], "hasMore": false}})))
        }
        _ => Err(unknown(method)),
    }
}

pub(super) fn unknown(method: &str) -> Refusal {
    Refusal::new(METHOD_NOT_FOUND, format!("Method not found: {method}"))
}

fn tools(script: &Script, caller: Caller<'_>) -> Vec<Value> {
    let mut tools: Vec<Value> = script.tools.iter().map(|tool| tool.definition.clone()).collect();
    if !caller.knows_structured_content() {
        for tool in tools.iter_mut().filter_map(Value::as_object_mut) {
            tool.remove("outputSchema");
        }
    }
    if let Some(many) = script.many {
        tools.extend((0..many.count).map(|n| {
            let mut tool = json!({
                "name": format!("tool_{n:04}"),
                "description": "",
                "inputSchema": {"type": "object", "properties": {"q": {"type": "string"}}},
            });
            let padding = many.bytes_each.saturating_sub(tool.to_string().len());
            tool["description"] = "d".repeat(padding).into();
            tool
        }));
    }
    tools
}

fn call(engine: &Engine, script: &Script, caller: Caller<'_>, params: &Value) -> Result<Job, Refusal> {
    let Some(name) = params["name"].as_str() else {
        return Err(Refusal::new(INVALID_PARAMS, "tools/call needs a name"));
    };
    let filler = || {
        let n: usize = name.strip_prefix("tool_")?.parse().ok()?;
        script.many.filter(|many| n < many.count).map(|_| Tool::named(name))
    };
    let Some(tool) = script.tools.iter().find(|tool| tool.name() == name).cloned().or_else(filler) else {
        return Err(Refusal::new(INVALID_PARAMS, format!("Unknown tool: {name}")));
    };
    let none = json!({});
    let arguments = if params["arguments"].is_null() { &none } else { &params["arguments"] };
    if let Behaviour::Ask = tool.behaviour {
        return ask(engine, caller, name, arguments, params);
    }
    engine.ledger.executed(name);
    Ok(match &tool.behaviour {
        Behaviour::Echo | Behaviour::Ask => Job::done(text(&arguments.to_string())),
        Behaviour::Add => {
            let sum = arguments["a"].as_f64().unwrap_or(0.0) + arguments["b"].as_f64().unwrap_or(0.0);
            Job::done(text(&sum.to_string()))
        }
        Behaviour::Slow => slow(arguments, &params["_meta"]["progressToken"]),
        Behaviour::Fail => {
            let message = arguments["message"].as_str().unwrap_or("it failed");
            let mut result = text(message);
            result["isError"] = true.into();
            Job::done(result)
        }
        Behaviour::Big => {
            let bytes = arguments["bytes"].as_u64().and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
            Job::done(text(&"x".repeat(bytes)))
        }
        Behaviour::Counter => Job::done(text(&engine.ledger.executions(name).to_string())),
        Behaviour::Structured => {
            let size = arguments.as_object().map_or(0, serde_json::Map::len);
            let content = json!({"arguments": arguments, "size": size});
            let mut result = text(&content.to_string());
            if caller.knows_structured_content() {
                result["structuredContent"] = content;
            }
            Job::done(result)
        }
        Behaviour::Closure(run) => match run(arguments) {
            result if result.get("content").is_some() => Job::done(result),
            Value::String(line) => Job::done(text(&line)),
            other => Job::done(text(&other.to_string())),
        },
    })
}

fn slow(arguments: &Value, token: &Value) -> Job {
    let total = Duration::from_millis(arguments["ms"].as_u64().unwrap_or(0));
    let count = u32::try_from(arguments["steps"].as_u64().unwrap_or(4)).unwrap_or(u32::MAX).max(1);
    let mut steps = Vec::new();
    for n in 1..=count {
        steps.push(Step::Pause(total / count));
        if !token.is_null() {
            steps.push(Step::Say(rpc::notification(
                "notifications/progress",
                json!({"progressToken": token, "progress": n, "total": count, "message": format!("step {n}")}),
            )));
        }
    }
    Job { steps, finish: Box::new(|_| text("done")) }
}

/// Legacy: a request to the client in the middle of the call. Modern: an `input_required` result,
/// and the call comes again with what was asked for and the state it was given.
fn ask(
    engine: &Engine,
    caller: Caller<'_>,
    name: &str,
    arguments: &Value,
    params: &Value,
) -> Result<Job, Refusal> {
    let method = arguments["method"].as_str().unwrap_or("ping").to_owned();
    let asked = arguments["params"].clone();
    if caller.era == Era::Legacy {
        engine.ledger.executed(name);
        let request = rpc::request(engine.next_ask_id(), &method, asked);
        return Ok(Job {
            steps: vec![Step::Ask(request)],
            finish: Box::new(|answers| text(&answers.first().unwrap_or(&Value::Null).to_string())),
        });
    }
    let needed = match method.as_str() {
        "elicitation/create" => "elicitation",
        "sampling/createMessage" => "sampling",
        _ => "roots",
    };
    if caller.capabilities.get(needed).is_none() {
        return Err(Refusal::new(MISSING_CAPABILITY, format!("The client does not offer {needed}"))
            .status(400)
            .data(json!({"requiredCapabilities": {needed: {}}})));
    }
    if params["inputResponses"].is_null() {
        let mut request = json!({"method": method});
        if !asked.is_null() {
            request["params"] = asked;
        }
        return Ok(Job::done(json!({
            "resultType": "input_required",
            "inputRequests": {"ask": request},
            "requestState": engine.issue_state(),
        })));
    }
    let state = params["requestState"].as_str().unwrap_or_default();
    if !engine.redeem_state(state) {
        return Err(Refusal::new(INVALID_PARAMS, format!("requestState {state:?} was not given out")));
    }
    engine.ledger.executed(name);
    Ok(Job::done(text(&params["inputResponses"]["ask"].to_string())))
}

fn read(script: &Script, caller: Caller<'_>, params: &Value) -> Result<Job, Refusal> {
    let uri = params["uri"].as_str().unwrap_or_default();
    let templated = script.templates.iter().any(|template| {
        let pattern = template["uriTemplate"].as_str().unwrap_or_default();
        uri.starts_with(pattern.split('{').next().unwrap_or_default())
    });
    let body = match script.resources.iter().find(|r| r.uri == uri) {
        Some(resource) => resource.text.clone(),
        None if templated => uri.to_owned(),
        None => {
            let code = match caller.era {
                Era::Legacy => RESOURCE_NOT_FOUND,
                Era::Modern => INVALID_PARAMS,
            };
            return Err(Refusal::new(code, "Resource not found").data(json!({"uri": uri})));
        }
    };
    Ok(Job::done(json!({"contents": [{"uri": uri, "mimeType": "text/plain", "text": body}]})))
}

fn prompt(script: &Script, params: &Value) -> Result<Job, Refusal> {
    let name = params["name"].as_str().unwrap_or_default();
    let Some(prompt) = script.prompts.iter().find(|prompt| prompt.name == name) else {
        return Err(Refusal::new(INVALID_PARAMS, format!("Unknown prompt: {name}")));
    };
    let mut words = prompt.text.clone();
    for (key, value) in params["arguments"].as_object().into_iter().flatten() {
        words = words.replace(&format!("{{{key}}}"), value.as_str().unwrap_or_default());
    }
    Ok(Job::done(json!({
        "messages": [{"role": "user", "content": {"type": "text", "text": words}}],
    })))
}

fn text(words: &str) -> Value {
    json!({"content": [{"type": "text", "text": words}]})
}

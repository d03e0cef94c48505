//! The tool list, and the execution of a tool call.

use std::time::Duration;

use serde_json::{Value, json};

use super::features::{Caller, Job, text};
use super::rounds::{self, Standing};
use super::{Engine, Era, Step, logging, pages, tasks};
use crate::question::Asks;
use crate::rpc::{self, INVALID_PARAMS, Refusal};
use crate::script::Script;
use crate::tool::{Behaviour, Tool};

pub(super) fn definitions(script: &Script, caller: Caller<'_>) -> Vec<Value> {
    let mut tools: Vec<Value> = script.tools.iter().map(|tool| tool.definition.clone()).collect();
    if !caller.knows_structured_content() {
        for tool in tools.iter_mut().filter_map(Value::as_object_mut) {
            tool.remove("outputSchema");
        }
    }
    if caller.era == Era::Legacy && caller.knows_tasks() && script.offers("tasks") {
        for (tool, definition) in script.tools.iter().zip(&mut tools) {
            if let Some(plan) = &tool.task {
                let support = if plan.required { "required" } else { "optional" };
                definition["execution"] = json!({"taskSupport": support});
            }
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

/// One `tools/call`.
#[derive(Clone, Copy)]
pub(super) struct Call<'a> {
    pub(super) engine: &'a Engine,
    pub(super) caller: Caller<'a>,
    pub(super) tool: &'a Tool,
    pub(super) params: &'a Value,
    pub(super) arguments: &'a Value,
}

pub(super) fn call(
    engine: &Engine,
    script: &Script,
    caller: Caller<'_>,
    params: &Value,
) -> Result<Job, Refusal> {
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
    Call { engine, caller, tool: &tool, params, arguments }.run(script)
}

impl Call<'_> {
    fn run(self, script: &Script) -> Result<Job, Refusal> {
        let plan = tasks::wanted(&self, script)?;
        let job = match &self.tool.behaviour {
            Behaviour::Ask => self.ask(&self.what_to_ask(), |answers| answers["ask"].clone())?,
            Behaviour::Asks(asks) => self.ask(asks, |answers| answers)?,
            Behaviour::Pages(pages) => match pages::visited(&self, pages)? {
                Standing::Ask(job) => Standing::Ask(job),
                Standing::Answered(Some(failed)) => Standing::Answered(Job::done(failed)),
                Standing::Answered(None) => Standing::Answered(self.answer(&Behaviour::Echo)),
            },
            behaviour => Standing::Answered(self.answer(behaviour)),
        };
        match (job, plan) {
            (Standing::Answered(job), Some(plan)) => tasks::conclude(&self, plan, job),
            (Standing::Answered(job) | Standing::Ask(job), _) => Ok(job),
        }
    }

    /// Returns the request that the arguments of the built-in tool `ask` describe.
    fn what_to_ask(&self) -> Asks {
        let method = self.arguments["method"].as_str().unwrap_or("ping");
        Asks::once([("ask", method, self.arguments["params"].clone())])
    }

    /// Sends the scripted requests, and returns as text what `show` makes of the responses.
    fn ask(self, asks: &Asks, show: fn(Value) -> Value) -> Result<Standing<Job>, Refusal> {
        let Self { engine, caller, tool, params, .. } = self;
        if caller.era == Era::Legacy {
            engine.ledger.executed(tool.name());
            let steps = rounds::steps(engine, asks);
            let asks = asks.clone();
            // The built-in `ask` returns the whole message, so that a test sees errors as they
            // arrived.
            let bare = matches!(tool.behaviour, Behaviour::Ask);
            let finish = move |mut answers: Vec<Value>| {
                let shown =
                    if bare { answers.pop().unwrap_or_default() } else { rounds::by_key(&asks, answers) };
                Ok(text(&shown.to_string()))
            };
            return Ok(Standing::Answered(Job { steps, finish: Box::new(finish) }));
        }
        match rounds::modern(engine, caller, "tools/call", asks, params)? {
            Standing::Ask(job) => Ok(Standing::Ask(job)),
            Standing::Answered(answers) => {
                engine.ledger.executed(tool.name());
                Ok(Standing::Answered(Job::done(text(&show(answers).to_string()))))
            }
        }
    }

    /// Executes a tool that requests no input.
    fn answer(self, behaviour: &Behaviour) -> Job {
        let script = self.engine.script();
        let Self { engine, caller, tool, params, arguments } = self;
        engine.ledger.executed(tool.name());
        match behaviour {
            Behaviour::Echo | Behaviour::Ask | Behaviour::Asks(_) | Behaviour::Pages(_) => {
                Job::done(text(&arguments.to_string()))
            }
            Behaviour::Add => {
                let sum = arguments["a"].as_f64().unwrap_or(0.0) + arguments["b"].as_f64().unwrap_or(0.0);
                Job::done(text(&sum.to_string()))
            }
            Behaviour::Slow => slow(arguments, &params["_meta"]["progressToken"]),
            Behaviour::Fail => Job::done(failed(arguments["message"].as_str().unwrap_or("it failed"))),
            Behaviour::Big => {
                let bytes = arguments["bytes"].as_u64().and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
                Job::done(text(&"x".repeat(bytes)))
            }
            Behaviour::Counter => Job::done(text(&engine.ledger.executions(tool.name()).to_string())),
            Behaviour::Structured => {
                let size = arguments.as_object().map_or(0, serde_json::Map::len);
                let content = json!({"arguments": arguments, "size": size});
                let mut result = text(&content.to_string());
                if caller.knows_structured_content() {
                    result["structuredContent"] = content;
                }
                Job::done(result)
            }
            Behaviour::Logs(lines) => Job {
                steps: logging::steps(
                    tool.name(),
                    lines,
                    caller.log_level.filter(|_| script.offers("logging")),
                ),
                finish: Box::new(|_| Ok(text("done"))),
            },
            Behaviour::Result(result) => Job::done(result.clone()),
            Behaviour::Closure(run) => match run(arguments) {
                result if result.get("content").is_some() => Job::done(result),
                Value::String(line) => Job::done(text(&line)),
                other => Job::done(text(&other.to_string())),
            },
        }
    }
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
    Job { steps, finish: Box::new(|_| Ok(text("done"))) }
}

/// Returns a result with `isError`.
pub(super) fn failed(message: &str) -> Value {
    let mut result = text(message);
    result["isError"] = true.into();
    result
}

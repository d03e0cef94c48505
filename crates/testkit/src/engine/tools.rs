//! The tool list, and the execution of a tool call.

use std::time::Duration;

use serde_json::{Value, json};

use super::features::{Caller, PendingResult, text_result};
use super::input_rounds::{self, InputState};
use super::{Engine, Era, Step, logging, tasks, url_elicitation};
use crate::rpc::{self, INVALID_PARAMS, Refusal};
use crate::script::Script;
use crate::scripted_request::InputScript;
use crate::tool::{Behavior, Tool};

pub(super) fn definitions(script: &Script, caller: Caller<'_>) -> Vec<Value> {
    let mut tools: Vec<Value> = script.tools.iter().map(|tool| tool.definition.clone()).collect();
    if !caller.supports_structured_content() {
        for tool in tools.iter_mut().filter_map(Value::as_object_mut) {
            tool.remove("outputSchema");
        }
    }
    if caller.era == Era::Legacy && caller.supports_tasks() && script.offers("tasks") {
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
pub(super) struct ToolCall<'a> {
    pub(super) engine: &'a Engine,
    pub(super) caller: Caller<'a>,
    pub(super) tool: &'a Tool,
    pub(super) params: &'a Value,
    pub(super) arguments: &'a Value,
}

pub(super) fn call_tool(
    engine: &Engine,
    script: &Script,
    caller: Caller<'_>,
    params: &Value,
) -> Result<PendingResult, Refusal> {
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
    ToolCall { engine, caller, tool: &tool, params, arguments }.run(script)
}

impl ToolCall<'_> {
    fn run(self, script: &Script) -> Result<PendingResult, Refusal> {
        let plan = tasks::task_plan_for_call(&self, script)?;
        let job = match &self.tool.behavior {
            Behavior::Ask => self.request_input(&self.scripted_input(), |answers| answers["ask"].clone())?,
            Behavior::Asks(asks) => self.request_input(asks, |answers| answers)?,
            Behavior::Pages(pages) => match url_elicitation::check_elicitations(&self, pages)? {
                InputState::Required(job) => InputState::Required(job),
                InputState::Complete(Some(failed)) => InputState::Complete(PendingResult::ready(failed)),
                InputState::Complete(None) => InputState::Complete(self.execute(&Behavior::Echo)),
            },
            behavior => InputState::Complete(self.execute(behavior)),
        };
        match (job, plan) {
            (InputState::Complete(job), Some(plan)) => tasks::create_task(&self, plan, job),
            (InputState::Complete(job) | InputState::Required(job), _) => Ok(job),
        }
    }

    /// Returns the request that the arguments of the built-in tool `ask` describe.
    fn scripted_input(&self) -> InputScript {
        let method = self.arguments["method"].as_str().unwrap_or("ping");
        InputScript::single_round([("ask", method, self.arguments["params"].clone())])
    }

    /// Sends the scripted requests, and returns as text what `show` makes of the responses.
    fn request_input(
        self,
        asks: &InputScript,
        show: fn(Value) -> Value,
    ) -> Result<InputState<PendingResult>, Refusal> {
        let Self { engine, caller, tool, params, .. } = self;
        if caller.era == Era::Legacy {
            engine.message_log.count_execution(tool.name());
            let steps = input_rounds::request_steps(engine, asks);
            let asks = asks.clone();
            // The built-in `ask` returns the whole message, so that a test sees errors as they
            // arrived.
            let bare = matches!(tool.behavior, Behavior::Ask);
            let finish = move |mut answers: Vec<Value>| {
                let shown = if bare {
                    answers.pop().unwrap_or_default()
                } else {
                    input_rounds::responses_by_key(&asks, answers)
                };
                Ok(text_result(&shown.to_string()))
            };
            return Ok(InputState::Complete(PendingResult { steps, finish: Box::new(finish) }));
        }
        match input_rounds::advance_modern_request(engine, caller, "tools/call", asks, params)? {
            InputState::Required(job) => Ok(InputState::Required(job)),
            InputState::Complete(answers) => {
                engine.message_log.count_execution(tool.name());
                Ok(InputState::Complete(PendingResult::ready(text_result(&show(answers).to_string()))))
            }
        }
    }

    /// Executes a tool that requests no input.
    fn execute(self, behavior: &Behavior) -> PendingResult {
        let script = self.engine.script();
        let Self { engine, caller, tool, params, arguments } = self;
        engine.message_log.count_execution(tool.name());
        match behavior {
            Behavior::Echo | Behavior::Ask | Behavior::Asks(_) | Behavior::Pages(_) => {
                PendingResult::ready(text_result(&arguments.to_string()))
            }
            Behavior::Add => {
                let sum = arguments["a"].as_f64().unwrap_or(0.0) + arguments["b"].as_f64().unwrap_or(0.0);
                PendingResult::ready(text_result(&sum.to_string()))
            }
            Behavior::Slow => run_slow(arguments, &params["_meta"]["progressToken"]),
            Behavior::Fail => {
                PendingResult::ready(error_result(arguments["message"].as_str().unwrap_or("it failed")))
            }
            Behavior::Big => {
                let bytes = arguments["bytes"].as_u64().and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
                PendingResult::ready(text_result(&"x".repeat(bytes)))
            }
            Behavior::Counter => {
                PendingResult::ready(text_result(&engine.message_log.executions(tool.name()).to_string()))
            }
            Behavior::Structured => {
                let size = arguments.as_object().map_or(0, serde_json::Map::len);
                let content = json!({"arguments": arguments, "size": size});
                let mut result = text_result(&content.to_string());
                if caller.supports_structured_content() {
                    result["structuredContent"] = content;
                }
                PendingResult::ready(result)
            }
            Behavior::Logs(lines) => PendingResult {
                steps: logging::log_steps(
                    tool.name(),
                    lines,
                    caller.log_level.filter(|_| script.offers("logging")),
                ),
                finish: Box::new(|_| Ok(text_result("done"))),
            },
            Behavior::Result(result) => PendingResult::ready(result.clone()),
            Behavior::Closure(run) => match run(arguments) {
                result if result.get("content").is_some() => PendingResult::ready(result),
                Value::String(line) => PendingResult::ready(text_result(&line)),
                other => PendingResult::ready(text_result(&other.to_string())),
            },
        }
    }
}

fn run_slow(arguments: &Value, token: &Value) -> PendingResult {
    let total = Duration::from_millis(arguments["ms"].as_u64().unwrap_or(0));
    let count = u32::try_from(arguments["steps"].as_u64().unwrap_or(4)).unwrap_or(u32::MAX).max(1);
    let mut steps = Vec::new();
    for n in 1..=count {
        steps.push(Step::Pause(total / count));
        if !token.is_null() {
            steps.push(Step::Notify(rpc::notification(
                "notifications/progress",
                json!({"progressToken": token, "progress": n, "total": count, "message": format!("step {n}")}),
            )));
        }
    }
    let bytes = arguments["bytes"].as_u64().and_then(|bytes| usize::try_from(bytes).ok());
    let text = bytes.map_or_else(|| "done".to_owned(), |bytes| "x".repeat(bytes));
    PendingResult { steps, finish: Box::new(move |_| Ok(text_result(&text))) }
}

/// Returns a result with `isError`.
pub(super) fn error_result(message: &str) -> Value {
    let mut result = text_result(message);
    result["isError"] = true.into();
    result
}

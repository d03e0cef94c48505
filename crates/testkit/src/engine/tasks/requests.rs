//! The methods of clients for tasks: `params.task` and `tasks/*`, in the dialect of their era.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::task::{Status, Task};
use super::{IMMEDIATE_RESPONSE_KEY, RELATED_TASK_KEY, TASKS_EXTENSION};
use crate::engine::features::{Caller, PendingResult, method_not_found};
use crate::engine::paging::cut_page;
use crate::engine::tools::ToolCall;
use crate::engine::{Engine, Era, Outlet, Step, input_rounds};
use crate::rpc::{INTERNAL_ERROR, INVALID_PARAMS, Refusal};
use crate::script::Script;
use crate::scripted_request::ScriptedRequest;
use crate::task_plan::{TaskOutcome, TaskPlan};

/// How long `tasks/result` waits between checks; longer than any test runs.
const TASK_WAIT_TIMEOUT: Duration = Duration::from_secs(3600);

/// Returns the task plan if this call becomes a task.
pub(in crate::engine) fn task_plan_for_call<'a>(
    call: &ToolCall<'a>,
    script: &Script,
) -> Result<Option<&'a TaskPlan>, Refusal> {
    let plan = call.tool.task.as_ref();
    let requested = call.params.get("task").is_some();
    let offered = script.offers("tasks");
    match call.caller.era {
        Era::Legacy if !(offered && call.caller.supports_tasks()) => {
            if requested {
                call.engine.message_log.record_violation("params.task, and tasks are not offered");
            }
            Ok(None)
        }
        // TA-01
        Era::Legacy => match plan {
            None if requested => Err(method_not_found("tools/call as a task")),
            Some(plan) if plan.required && !requested => {
                Err(method_not_found("tools/call, except as a task"))
            }
            plan => Ok(plan.filter(|_| requested)),
        },
        Era::Modern => {
            // TN-01
            if requested {
                call.engine.message_log.record_violation("params.task on a modern request");
            }
            Ok(plan.filter(|_| offered && check_extension_declared(call.caller).is_ok()))
        }
    }
}

/// Creates a task that ends with the result the call would have returned.
pub(in crate::engine) fn create_task(
    call: &ToolCall<'_>,
    plan: &TaskPlan,
    job: PendingResult,
) -> Result<PendingResult, Refusal> {
    let ToolCall { engine, caller, tool, params, .. } = *call;
    let returned = (job.finish)(Vec::new())?;
    let outcome = match &plan.outcome {
        Some(outcome) => Some(outcome.clone()),
        // The task ends with the client's responses.
        None if !plan.asks.is_empty() => None,
        None => Some(TaskOutcome::Result(returned)),
    };
    let id = format!("task-{}", engine.next_number());
    let mut task = Task::new(id, tool.name(), caller.era, plan, outcome);
    task.ttl_ms = plan.ttl_ms.or(params["task"]["ttl"].as_u64());
    task.progress_token = params["_meta"]["progressToken"].clone();
    let mut result = match caller.era {
        Era::Legacy => json!({"task": task.to_legacy_json()}),
        Era::Modern => task.to_handle_json(),
    };
    match caller.era {
        Era::Modern => result["resultType"] = "task".into(),
        Era::Legacy => {
            if let Some(text) = &plan.immediate {
                result["_meta"] = json!({IMMEDIATE_RESPONSE_KEY: text});
            }
        }
    }
    engine.add_task(task);
    Ok(PendingResult::ready(result))
}

/// Handles a `tasks/*` request.
pub(in crate::engine) fn handle_request(
    engine: &Engine,
    script: &Script,
    caller: Caller<'_>,
    method: &str,
    params: &Value,
) -> Result<PendingResult, Refusal> {
    let known = match caller.era {
        Era::Legacy => caller.supports_tasks() && matches!(method, "tasks/get" | "tasks/result"),
        Era::Modern => matches!(method, "tasks/get" | "tasks/update" | "tasks/cancel"),
    };
    let optional = caller.era == Era::Legacy
        && caller.supports_tasks()
        && matches!(method, "tasks/list" | "tasks/cancel")
        && script.offers(&method.replace('/', "."));
    if !script.offers("tasks") || !(known || optional) {
        return Err(method_not_found(method));
    }
    if caller.era == Era::Modern {
        check_extension_declared(caller)?;
    }
    if method == "tasks/list" {
        let tasks: Vec<Value> = engine.list_tasks();
        return cut_page(script.paging, "tasks", &tasks, params).map(PendingResult::ready);
    }
    let id = params["taskId"].as_str().unwrap_or_default().to_owned();
    match (caller.era, method) {
        (Era::Legacy, "tasks/get") => engine.change_task(&id, |task| {
            task.record_poll();
            PendingResult::ready(task.to_legacy_json())
        }),
        (Era::Modern, "tasks/get") => engine.change_task(&id, |task| {
            task.record_poll();
            PendingResult::ready(task.to_detailed_json())
        }),
        (Era::Legacy, "tasks/cancel") => {
            let ended = engine.change_task(&id, |task| {
                let ended = task.status.is_terminal();
                if !ended && !task.plan.uncancellable {
                    task.set_status(Status::Cancelled);
                }
                (ended, PendingResult::ready(task.to_legacy_json()))
            });
            match ended {
                // TA-05
                Some((true, _)) => return Err(Refusal::new(INVALID_PARAMS, "The task has ended")),
                other => other.map(|(_, job)| job),
            }
        }
        // TN-06: the acknowledgment comes whatever the cancellation achieves.
        (Era::Modern, "tasks/cancel") => engine.change_task(&id, |task| {
            if !task.status.is_terminal() && !task.plan.uncancellable {
                task.set_status(Status::Cancelled);
            }
            PendingResult::ready(json!({}))
        }),
        (Era::Modern, _) => engine.update_task(&id, params),
        (Era::Legacy, _) => engine.with_task(&id, |_| ()).map(|()| PendingResult {
            steps: vec![Step::AwaitTask(id.clone())],
            finish: Box::new(|mut answers| outcome_to_result(answers.pop().unwrap_or_default())),
        }),
    }
    .ok_or_else(|| Refusal::new(INVALID_PARAMS, format!("Unknown task: {id}")))
}

// TN-08
/// Fails if the client did not declare the tasks extension.
pub(in crate::engine) fn check_extension_declared(caller: Caller<'_>) -> Result<(), Refusal> {
    match caller.capabilities["extensions"].get(TASKS_EXTENSION) {
        Some(_) => Ok(()),
        None => Err(input_rounds::missing_capability(
            TASKS_EXTENSION,
            &json!({"extensions": {TASKS_EXTENSION: {}}}),
        )),
    }
}

/// Converts the outcome of a task into the result of `tasks/result`.
fn outcome_to_result(followed: Value) -> Result<Value, Refusal> {
    match followed.get("error") {
        None => Ok(followed["result"].clone()),
        Some(error) => {
            let message = error["message"].as_str().unwrap_or_default();
            Err(Refusal::new(error["code"].as_i64().unwrap_or(INTERNAL_ERROR), message))
        }
    }
}

/// The phase in which `tasks/result` finds a task.
enum TaskPhase {
    Ended(Value),
    InputRequired(Vec<ScriptedRequest>),
    Working,
}

impl Engine {
    fn list_tasks(&self) -> Vec<Value> {
        // This lookup of no task drops the expired ones.
        self.with_task("", |_| ());
        self.tasks.0.lock().iter().map(Task::to_legacy_json).collect()
    }

    fn update_task(&self, id: &str, params: &Value) -> Option<PendingResult> {
        let none = Map::new();
        let answers = params["inputResponses"].as_object().unwrap_or(&none);
        let superfluous = self.change_task(id, |task| task.record_responses(answers))?;
        // TN-05
        for key in superfluous {
            self.message_log.record_violation(format!("an answer to nothing: input {key} of {id}"));
        }
        Some(PendingResult::ready(json!({})))
    }

    /// Waits for the end of a legacy task, sending its requests on the way. Returns an object with
    /// `result` or `error`.
    pub(in crate::engine) async fn await_task(&self, id: &str, outlet: &Arc<dyn Outlet>) -> Value {
        loop {
            match self.advance_task(id) {
                TaskPhase::Ended(outcome) => return outcome,
                TaskPhase::InputRequired(questions) => {
                    let requests =
                        questions.iter().map(|question| request_for_task(self, question, id)).collect();
                    let answers = self.send_requests_on(outlet, requests).await;
                    self.record_task_responses(id, &questions, answers);
                }
                TaskPhase::Working => {
                    let waits = || (!matches!(self.advance_task(id), TaskPhase::Working)).then_some(());
                    let _ = self.message_log.wait_for(waits, TASK_WAIT_TIMEOUT).await;
                }
            }
        }
    }

    fn advance_task(&self, id: &str) -> TaskPhase {
        // This does not call `with_task`, which would wake the waiter that calls this function.
        let mut tasks = self.tasks.0.lock();
        tasks.retain(|task| !task.is_expired());
        let Some(task) = tasks.iter_mut().find(|task| task.id == id) else {
            return TaskPhase::Ended(
                json!({"error": {"code": INVALID_PARAMS, "message": "The task is gone"}}),
            );
        };
        let before = task.status;
        task.advance();
        let changed = (task.status != before).then(|| task.clone());
        let found = match (task.status, &task.outcome) {
            (Status::Completed | Status::Failed, Some(TaskOutcome::Result(result))) => {
                let mut result = result.clone();
                result["_meta"][RELATED_TASK_KEY] = json!({"taskId": id});
                TaskPhase::Ended(json!({"result": result}))
            }
            (Status::Completed | Status::Failed, Some(TaskOutcome::Error { code, message })) => {
                TaskPhase::Ended(json!({"error": {"code": code, "message": message}}))
            }
            (Status::Cancelled, _) => {
                let message = "The task was cancelled";
                TaskPhase::Ended(json!({"error": {"code": INTERNAL_ERROR, "message": message}}))
            }
            (Status::InputRequired, _) => TaskPhase::InputRequired(task.open_requests().cloned().collect()),
            _ => TaskPhase::Working,
        };
        drop(tasks);
        if let Some(task) = changed {
            self.announce_task(&task);
        }
        found
    }

    fn record_task_responses(&self, id: &str, questions: &[ScriptedRequest], answers: Vec<Value>) {
        let mut given = Map::new();
        // Null: the client is gone and will not respond.
        for (question, answer) in questions.iter().zip(answers).filter(|(_, answer)| !answer.is_null()) {
            // TA-04
            if answer.get("result").is_some() && answer["result"]["_meta"][RELATED_TASK_KEY]["taskId"] != id {
                self.message_log.record_violation(format!("an answer within {id} that does not name it"));
            }
            given.insert(question.key.clone(), input_rounds::response_result(answer));
        }
        self.change_task(id, |task| {
            task.stop_lingering();
            task.record_responses(&given);
        });
    }
}

fn request_for_task(engine: &Engine, question: &ScriptedRequest, id: &str) -> Value {
    let mut request = input_rounds::build_request(engine, question);
    if request.get("params").is_none() {
        request["params"] = json!({});
    }
    request["params"]["_meta"][RELATED_TASK_KEY] = json!({"taskId": id});
    request
}

//! The methods of clients for tasks: `params.task` and `tasks/*`, in the dialect of their era.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::task::{Status, Task};
use super::{EXTENSION, IMMEDIATE_KEY, RELATED_KEY};
use crate::engine::features::{Caller, Job, unknown};
use crate::engine::paging::page;
use crate::engine::tools::Call;
use crate::engine::{Engine, Era, Outlet, Step, rounds};
use crate::question::Question;
use crate::rpc::{INTERNAL_ERROR, INVALID_PARAMS, Refusal};
use crate::script::Script;
use crate::task_plan::{Outcome, TaskPlan};

/// How long `tasks/result` waits between checks; longer than any test runs.
const LONG: Duration = Duration::from_secs(3600);

/// Returns the task plan if this call becomes a task.
pub(in crate::engine) fn wanted<'a>(
    call: &Call<'a>,
    script: &Script,
) -> Result<Option<&'a TaskPlan>, Refusal> {
    let plan = call.tool.task.as_ref();
    let asked = call.params.get("task").is_some();
    let offered = script.offers("tasks");
    match call.caller.era {
        Era::Legacy if !(offered && call.caller.knows_tasks()) => {
            if asked {
                call.engine.ledger.violation("params.task, and tasks are not offered");
            }
            Ok(None)
        }
        // TA-01
        Era::Legacy => match plan {
            None if asked => Err(unknown("tools/call as a task")),
            Some(plan) if plan.required && !asked => Err(unknown("tools/call, except as a task")),
            plan => Ok(plan.filter(|_| asked)),
        },
        Era::Modern => {
            // TN-01
            if asked {
                call.engine.ledger.violation("params.task on a modern request");
            }
            match plan.filter(|_| offered) {
                Some(plan) if plan.demanded => declared(call.caller).map(|()| Some(plan)),
                plan => Ok(plan.filter(|_| declared(call.caller).is_ok())),
            }
        }
    }
}

/// Creates a task that ends with the result the call would have returned.
pub(in crate::engine) fn conclude(call: &Call<'_>, plan: &TaskPlan, job: Job) -> Result<Job, Refusal> {
    let Call { engine, caller, tool, params, .. } = *call;
    let returned = (job.finish)(Vec::new())?;
    let outcome = match &plan.outcome {
        Some(outcome) => Some(outcome.clone()),
        // The task ends with the client's responses.
        None if !plan.asks.is_empty() => None,
        None => Some(Outcome::Result(returned)),
    };
    let id = format!("task-{}", engine.number());
    let mut task = Task::new(id, tool.name(), caller.era, plan, outcome);
    task.ttl_ms = plan.ttl_ms.or(params["task"]["ttl"].as_u64());
    task.token = params["_meta"]["progressToken"].clone();
    let mut result = match caller.era {
        Era::Legacy => json!({"task": task.legacy()}),
        Era::Modern => task.handle(),
    };
    match caller.era {
        Era::Modern => result["resultType"] = "task".into(),
        Era::Legacy => {
            if let Some(text) = &plan.immediate {
                result["_meta"] = json!({IMMEDIATE_KEY: text});
            }
        }
    }
    engine.add_task(task);
    Ok(Job::done(result))
}

/// Handles a `tasks/*` request.
pub(in crate::engine) fn answer(
    engine: &Engine,
    script: &Script,
    caller: Caller<'_>,
    method: &str,
    params: &Value,
) -> Result<Job, Refusal> {
    let known = match caller.era {
        Era::Legacy => caller.knows_tasks() && matches!(method, "tasks/get" | "tasks/result"),
        Era::Modern => matches!(method, "tasks/get" | "tasks/update" | "tasks/cancel"),
    };
    let optional = caller.era == Era::Legacy
        && caller.knows_tasks()
        && matches!(method, "tasks/list" | "tasks/cancel")
        && script.offers(&method.replace('/', "."));
    if !script.offers("tasks") || !(known || optional) {
        return Err(unknown(method));
    }
    if caller.era == Era::Modern {
        declared(caller)?;
    }
    if method == "tasks/list" {
        let tasks: Vec<Value> = engine.kept_tasks();
        return page(script.paging, "tasks", &tasks, params).map(Job::done);
    }
    let id = params["taskId"].as_str().unwrap_or_default().to_owned();
    match (caller.era, method) {
        (Era::Legacy, "tasks/get") => engine.change_task(&id, |task| {
            task.polled();
            Job::done(task.legacy())
        }),
        (Era::Modern, "tasks/get") => engine.change_task(&id, |task| {
            task.polled();
            Job::done(task.detailed())
        }),
        (Era::Legacy, "tasks/cancel") => {
            let ended = engine.change_task(&id, |task| {
                let ended = task.status.is_terminal();
                if !ended && !task.plan.uncancellable {
                    task.enter(Status::Cancelled);
                }
                (ended, Job::done(task.legacy()))
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
                task.enter(Status::Cancelled);
            }
            Job::done(json!({}))
        }),
        (Era::Modern, _) => engine.update_task(&id, params),
        (Era::Legacy, _) => engine.with_task(&id, |_| ()).map(|()| Job {
            steps: vec![Step::Follow(id.clone())],
            finish: Box::new(|mut answers| outcome(answers.pop().unwrap_or_default())),
        }),
    }
    .ok_or_else(|| Refusal::new(INVALID_PARAMS, format!("Unknown task: {id}")))
}

// TN-08
/// Fails if the client did not declare the tasks extension.
pub(in crate::engine) fn declared(caller: Caller<'_>) -> Result<(), Refusal> {
    match caller.capabilities["extensions"].get(EXTENSION) {
        Some(_) => Ok(()),
        None => Err(rounds::lacks(EXTENSION, &json!({"extensions": {EXTENSION: {}}}))),
    }
}

/// Converts the outcome of a task into the result of `tasks/result`.
fn outcome(followed: Value) -> Result<Value, Refusal> {
    match followed.get("error") {
        None => Ok(followed["result"].clone()),
        Some(error) => {
            let message = error["message"].as_str().unwrap_or_default();
            Err(Refusal::new(error["code"].as_i64().unwrap_or(INTERNAL_ERROR), message))
        }
    }
}

/// The phase in which `tasks/result` finds a task.
enum Found {
    Ended(Value),
    Asks(Vec<Question>),
    Works,
}

impl Engine {
    fn kept_tasks(&self) -> Vec<Value> {
        // This lookup of no task drops the expired ones.
        self.with_task("", |_| ());
        crate::sync::lock(&self.tasks.0).iter().map(Task::legacy).collect()
    }

    fn update_task(&self, id: &str, params: &Value) -> Option<Job> {
        let none = Map::new();
        let answers = params["inputResponses"].as_object().unwrap_or(&none);
        let superfluous = self.change_task(id, |task| task.answer(answers))?;
        // TN-05
        for key in superfluous {
            self.ledger.violation(format!("an answer to nothing: input {key} of {id}"));
        }
        Some(Job::done(json!({})))
    }

    /// Waits for the end of a legacy task, sending its requests on the way. Returns an object with
    /// `result` or `error`.
    pub(in crate::engine) async fn follow(&self, id: &str, outlet: &Arc<dyn Outlet>) -> Value {
        loop {
            match self.look_at_task(id) {
                Found::Ended(outcome) => return outcome,
                Found::Asks(questions) => {
                    let requests = questions.iter().map(|question| related(self, question, id)).collect();
                    let answers = self.ask_on(outlet, requests).await;
                    self.take_answers(id, &questions, answers);
                }
                Found::Works => {
                    let waits = || (!matches!(self.look_at_task(id), Found::Works)).then_some(());
                    let _ = self.ledger.until(waits, LONG).await;
                }
            }
        }
    }

    fn look_at_task(&self, id: &str) -> Found {
        // This does not call `with_task`, which would wake the waiter that calls this function.
        let mut tasks = crate::sync::lock(&self.tasks.0);
        tasks.retain(|task| !task.is_expired());
        let Some(task) = tasks.iter_mut().find(|task| task.id == id) else {
            return Found::Ended(json!({"error": {"code": INVALID_PARAMS, "message": "The task is gone"}}));
        };
        let before = task.status;
        task.advance();
        let changed = (task.status != before).then(|| task.clone());
        let found = match (task.status, &task.outcome) {
            (Status::Completed | Status::Failed, Some(Outcome::Result(result))) => {
                let mut result = result.clone();
                result["_meta"][RELATED_KEY] = json!({"taskId": id});
                Found::Ended(json!({"result": result}))
            }
            (Status::Completed | Status::Failed, Some(Outcome::Error { code, message })) => {
                Found::Ended(json!({"error": {"code": code, "message": message}}))
            }
            (Status::Cancelled, _) => {
                let message = "The task was cancelled";
                Found::Ended(json!({"error": {"code": INTERNAL_ERROR, "message": message}}))
            }
            (Status::InputRequired, _) => Found::Asks(task.open().cloned().collect()),
            _ => Found::Works,
        };
        drop(tasks);
        if let Some(task) = changed {
            self.announce_task(&task);
        }
        found
    }

    fn take_answers(&self, id: &str, questions: &[Question], answers: Vec<Value>) {
        let mut given = Map::new();
        // Null: the client is gone and will not respond.
        for (question, answer) in questions.iter().zip(answers).filter(|(_, answer)| !answer.is_null()) {
            // TA-04
            if answer.get("result").is_some() && answer["result"]["_meta"][RELATED_KEY]["taskId"] != id {
                self.ledger.violation(format!("an answer within {id} that does not name it"));
            }
            given.insert(question.key.clone(), rounds::result_of(answer));
        }
        self.change_task(id, |task| {
            task.settle();
            task.answer(&given);
        });
    }
}

fn related(engine: &Engine, question: &Question, id: &str) -> Value {
    let mut request = rounds::request(engine, question);
    if request.get("params").is_none() {
        request["params"] = json!({});
    }
    request["params"]["_meta"][RELATED_KEY] = json!({"taskId": id});
    request
}

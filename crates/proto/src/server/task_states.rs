//! States of tasks for hosts, in either dialect, whatever dialect their server speaks.
//!
//! The dialects differ in names (`ttl` and `ttlMs`), in nesting, in the status of a tool that failed,
//! and in where the result and the questions are: in the state itself (extension), or behind requests
//! of their own (2025-11-25).
// GW-14, GW-16

use crate::wire::object::Edit;
use crate::wire::view::{InputRequests, ResultType, Task, TaskDialect, TaskStatus, ViewError, result_type};
use crate::wire::{Json, RpcError, meta};

/// What a task waits for or has come to, beside its status. In the extension it is a part of the
/// state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskDetail {
    /// Nothing: the task is running, or was canceled.
    None,
    /// The questions that the host has to answer.
    Inputs(InputRequests),
    /// The answer to the call that became the task.
    Outcome(Result<Json, RpcError>),
}

/// The task that a call became, if its answer says so. `None` if it is a result of the call.
///
/// # Errors
/// It says that it is a task and is none that can be used.
// TN-03
pub fn created_task(answer: &Json) -> Result<Option<Task>, ViewError> {
    match result_type(answer) {
        ResultType::Task => Task::decode_created(answer, TaskDialect::Extension).map(Some),
        ResultType::Complete => Ok(Task::decode_created(answer, TaskDialect::Experiment).ok()),
        _ => Ok(None),
    }
}

/// The state of a task for a host of 2025-11-25 that knows it by this id.
// TA-02
pub fn state_for_experiment(task: &Task, id: &str) -> Json {
    let status = match task.dialect {
        TaskDialect::Experiment => return with_id(task, id),
        TaskDialect::Extension if is_failed_tool(task) => TaskStatus::Failed,
        TaskDialect::Extension => task.status,
    };
    write_state(task, id, status, ("ttl", "pollInterval"))
}

/// The state of a task for a host that declares the tasks extension and knows it by this id. The
/// detail counts for a task of 2025-11-25 only; the state of another one has its own.
// TN-03, TN-04
pub fn state_for_extension(task: &Task, id: &str, detail: &TaskDetail) -> Json {
    let status = match (task.dialect, detail) {
        (TaskDialect::Extension, _) => return with_id(task, id),
        (TaskDialect::Experiment, TaskDetail::Outcome(Ok(_))) => TaskStatus::Completed,
        (TaskDialect::Experiment, TaskDetail::Outcome(Err(_))) => TaskStatus::Failed,
        (TaskDialect::Experiment, TaskDetail::Inputs(_)) => TaskStatus::InputRequired,
        // Without its questions or its result a state of the extension would be malformed, so the
        // task is not that far yet.
        (TaskDialect::Experiment, TaskDetail::None) if task.status != TaskStatus::Cancelled => {
            TaskStatus::Working
        }
        (TaskDialect::Experiment, TaskDetail::None) => task.status,
    };
    let state = write_state(task, id, status, ("ttlMs", "pollIntervalMs"));
    let (name, detail) = match detail {
        TaskDetail::None => return state,
        TaskDetail::Inputs(inputs) => ("inputRequests", inputs_json(inputs)),
        TaskDetail::Outcome(Ok(result)) => ("result", result.clone()),
        TaskDetail::Outcome(Err(error)) => ("error", error_json(error)),
    };
    Edit::new().set(name, &detail).apply(Some(&state)).expect("a state is an object")
}

/// The result of a call that became a task, for a host of 2025-11-25. `answer` is that of the server:
/// what it says to the model passes.
// TA-02
pub fn created_for_experiment(state: &Json, answer: &Json) -> Json {
    let said = answer.member("_meta").and_then(|meta| meta.member(meta::MODEL_RESPONSE));
    let said = said.and_then(|said| Edit::new().set(meta::MODEL_RESPONSE, &said).apply(None).ok());
    let mut edit = Edit::new().set("task", state);
    if let Some(meta) = &said {
        edit = edit.set("_meta", meta);
    }
    edit.apply(None).expect("a new object is one")
}

/// The result of a call that became a task, for a host that declares the tasks extension.
// TN-03
pub fn created_for_extension(state: &Json) -> Json {
    Edit::new().set_str("resultType", "task").apply(Some(state)).expect("a state is an object")
}

/// The state of a task that the gateway itself has, in the form of 2025-11-25. Times are in ISO 8601,
/// `ttl` in milliseconds.
pub fn ended_state(id: &str, is_failed: bool, time: &str, ttl: u64) -> Json {
    let status = if is_failed { TaskStatus::Failed } else { TaskStatus::Completed };
    Edit::new()
        .set_str("taskId", id)
        .set_str("status", status.as_str())
        .set_str("createdAt", time)
        .set_str("lastUpdatedAt", time)
        .set_int("ttl", ttl)
        .apply(None)
        .expect("a new object is one")
}

/// Sets the task that a message belongs to, as the host knows it.
// TA-04
pub fn with_related_task(message: &Json, id: &str) -> Json {
    let task = Edit::new().set_str("taskId", id).apply(None).expect("a new object is one");
    let meta = message.member("_meta").filter(Json::is_object);
    let meta = Edit::new().set(meta::RELATED_TASK, &task).apply(meta.as_ref());
    let meta = meta.expect("checked to be an object");
    Edit::new().set("_meta", &meta).apply(Some(message)).unwrap_or_else(|_| message.clone())
}

/// Removes the task that a message belongs to, which the other side knows by another id.
pub fn without_related_task(message: &Json) -> Json {
    let Some(meta) = message.member("_meta").filter(|meta| meta.member(meta::RELATED_TASK).is_some()) else {
        return message.clone();
    };
    let meta = Edit::new().remove(meta::RELATED_TASK).apply(Some(&meta)).ok();
    let edit = match meta.as_ref().filter(|meta| **meta != Json::empty_object()) {
        Some(meta) => Edit::new().set("_meta", meta),
        None => Edit::new().remove("_meta"),
    };
    edit.apply(Some(message)).unwrap_or_else(|_| message.clone())
}

/// The id of the task that a message of a server belongs to.
pub fn related_task(message: &Json) -> Option<String> {
    message.member("_meta")?.member(meta::RELATED_TASK)?.member("taskId")?.decode().ok()
}

/// Whether a result says that its tool failed.
pub fn is_tool_error(result: &Json) -> bool {
    result.member("isError").is_some_and(|flag| flag.as_bytes() == b"true")
}

/// Whether the tool of a task of the extension failed, which 2025-11-25 calls a failed task.
// TN-04
fn is_failed_tool(task: &Task) -> bool {
    task.status == TaskStatus::Completed && task.result().is_some_and(|result| is_tool_error(&result))
}

/// The state as its server wrote it, with another id.
fn with_id(task: &Task, id: &str) -> Json {
    Edit::new().set_str("taskId", id).apply(Some(&task.json)).expect("a decoded state is an object")
}

fn write_state(task: &Task, id: &str, status: TaskStatus, (ttl, poll_interval): (&str, &str)) -> Json {
    let null = Json::try_from("null").expect("it is JSON");
    let millis = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let created = task.created_at().or_else(|| task.last_updated_at());
    let created = created.unwrap_or_else(|| EPOCH.to_owned());
    let updated = task.last_updated_at().unwrap_or_else(|| created.clone());
    let mut edit = Edit::new().set_str("taskId", id).set_str("status", status.as_str());
    let message = task.status_message();
    if let Some(message) = &message {
        edit = edit.set_str("statusMessage", message);
    }
    edit = edit.set_str("createdAt", &created).set_str("lastUpdatedAt", &updated);
    edit = match task.ttl {
        Some(time) => edit.set_int(ttl, millis(time)),
        None => edit.set(ttl, &null),
    };
    if let Some(time) = task.poll_interval {
        edit = edit.set_int(poll_interval, millis(time));
    }
    edit.apply(None).expect("a new object is one")
}

fn inputs_json(inputs: &InputRequests) -> Json {
    let requests: Vec<_> = inputs
        .iter()
        .map(|(key, input)| {
            let mut edit = Edit::new().set_str("method", &input.method);
            if let Some(params) = &input.params {
                edit = edit.set("params", params);
            }
            (key, edit.apply(None).expect("a new object is one"))
        })
        .collect();
    let edit = requests.iter().fold(Edit::new(), |edit, (key, request)| edit.set(key, request));
    edit.apply(None).expect("a new object is one")
}

fn error_json(error: &RpcError) -> Json {
    let code = Json::encode(&error.code).expect("a number is JSON");
    let mut edit = Edit::new().set("code", &code).set_str("message", &error.message);
    if let Some(data) = &error.data {
        edit = edit.set("data", data);
    }
    edit.apply(None).expect("a new object is one")
}

/// The time of a state that has none, though both dialects require one.
const EPOCH: &str = "1970-01-01T00:00:00Z";

#[cfg(test)]
mod tests;

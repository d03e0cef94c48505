//! Tests of states that pass from one dialect to the other.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::wire::view::InputRequest;

fn task(state: &Value, dialect: TaskDialect) -> Task {
    Task::decode(&Json::encode(state).unwrap(), dialect).unwrap()
}

fn value(json: &Json) -> Value {
    serde_json::from_str(json.as_str()).unwrap()
}

fn extension(status: &str) -> Value {
    json!({
        "taskId": "up", "status": status, "createdAt": "2026-01-01T00:00:00Z",
        "lastUpdatedAt": "2026-01-01T00:00:01Z", "ttlMs": 60_000, "pollIntervalMs": 50,
    })
}

fn experiment(status: &str) -> Value {
    json!({
        "taskId": "up", "status": status, "createdAt": "2026-01-01T00:00:00Z",
        "lastUpdatedAt": "2026-01-01T00:00:01Z", "ttl": null, "pollInterval": 50,
    })
}

/// TA-02, TN-03, GW-16: names and ids of the other dialect, and nothing that belongs to one alone.
#[test]
fn gw_16_states_have_the_names_of_the_dialect_of_the_host() {
    let mut state = extension("working");
    state["statusMessage"] = json!("half");
    state["resultType"] = json!("complete");
    assert_eq!(
        value(&state_for_experiment(&task(&state, TaskDialect::Extension), "mine")),
        json!({
            "taskId": "mine", "status": "working", "statusMessage": "half",
            "createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:01Z",
            "ttl": 60_000, "pollInterval": 50,
        })
    );
    let state = task(&experiment("working"), TaskDialect::Experiment);
    assert_eq!(
        value(&state_for_extension(&state, "mine", &TaskDetail::None)),
        json!({
            "taskId": "mine", "status": "working", "createdAt": "2026-01-01T00:00:00Z",
            "lastUpdatedAt": "2026-01-01T00:00:01Z", "ttlMs": null, "pollIntervalMs": 50,
        })
    );
}

/// TN-04: a tool that failed is a failed task in one dialect, and a completed one in the other.
#[test]
fn tn_04_a_failed_tool_is_a_failed_task_in_one_dialect_only() {
    let failed = json!({"content": [], "isError": true});
    let mut state = extension("completed");
    state["result"] = failed.clone();
    let legacy = value(&state_for_experiment(&task(&state, TaskDialect::Extension), "mine"));
    assert_eq!((&legacy["status"], &legacy["result"]), (&json!("failed"), &Value::Null));
    state["result"]["isError"] = json!(false);
    let legacy = value(&state_for_experiment(&task(&state, TaskDialect::Extension), "mine"));
    assert_eq!(legacy["status"], "completed");

    let state = task(&experiment("failed"), TaskDialect::Experiment);
    let outcome = TaskDetail::Outcome(Ok(Json::encode(&failed).unwrap()));
    let modern = value(&state_for_extension(&state, "mine", &outcome));
    assert_eq!((&modern["status"], &modern["result"]), (&json!("completed"), &failed));
    let outcome = TaskDetail::Outcome(Err(RpcError::new(-32000, "no")));
    let modern = value(&state_for_extension(&state, "mine", &outcome));
    assert_eq!(modern["status"], "failed");
    assert_eq!(modern["error"], json!({"code": -32000, "message": "no"}));
}

/// TN-05: a task of 2025-11-25 asks in requests of its own, which are in the state of the extension.
#[test]
fn tn_05_questions_are_a_part_of_the_state() {
    let state = task(&experiment("input_required"), TaskDialect::Experiment);
    let params = Json::try_from(r#"{"message":"Where?"}"#).unwrap();
    let inputs =
        vec![("k".into(), InputRequest { method: "elicitation/create".into(), params: Some(params) })];
    let modern = value(&state_for_extension(&state, "mine", &TaskDetail::Inputs(inputs)));
    assert_eq!(modern["status"], "input_required");
    assert_eq!(
        modern["inputRequests"],
        json!({"k": {"method": "elicitation/create", "params": {"message": "Where?"}}})
    );
    // A state that requires input names the questions.
    let without = value(&state_for_extension(&state, "mine", &TaskDetail::None));
    assert_eq!(without["status"], "working");
}

/// TA-02, TN-03: one dialect nests a new task, the other says its type.
#[test]
fn new_tasks_are_nested_or_flat() {
    let state = state_for_experiment(&task(&extension("working"), TaskDialect::Extension), "mine");
    let answer = Json::encode(&json!({"_meta": {meta::MODEL_RESPONSE: "wait", "a/b": 1}})).unwrap();
    let created = value(&created_for_experiment(&state, &answer));
    assert_eq!(created["task"]["taskId"], "mine");
    assert_eq!(created["_meta"], json!({meta::MODEL_RESPONSE: "wait"}));
    let state = state_for_extension(
        &task(&experiment("working"), TaskDialect::Experiment),
        "mine",
        &TaskDetail::None,
    );
    let created = value(&created_for_extension(&state));
    assert_eq!((&created["resultType"], &created["taskId"]), (&json!("task"), &json!("mine")));
}

#[test]
fn answers_of_servers_show_whether_a_call_became_a_task() {
    let mut flat = extension("working");
    flat["resultType"] = json!("task");
    for (answer, dialect) in [
        (flat, Some(TaskDialect::Extension)),
        (json!({"task": experiment("working")}), Some(TaskDialect::Experiment)),
        (json!({"content": []}), None),
        (json!({"content": [], "task": {"id": 1}}), None),
        (extension("working"), None),
    ] {
        let created = created_task(&Json::encode(&answer).unwrap()).unwrap();
        assert_eq!(created.map(|task| task.dialect), dialect, "{answer}");
    }
    // TN-03: what says that it is a task, and is none, is not passed on.
    let mut without_status = extension("working");
    without_status["resultType"] = json!("task");
    without_status.as_object_mut().unwrap().remove("status");
    assert!(created_task(&Json::encode(&without_status).unwrap()).is_err());
}

/// TA-04: messages within a task name it, by the id that their reader knows.
#[test]
fn ta_04_related_tasks_are_renamed() {
    let message = Json::encode(&json!({
        "message": "Where?", "_meta": {"a/b": 1, meta::RELATED_TASK: {"taskId": "up"}},
    }))
    .unwrap();
    assert_eq!(related_task(&message).as_deref(), Some("up"));
    let renamed = with_related_task(&message, "mine");
    assert_eq!(related_task(&renamed).as_deref(), Some("mine"));
    assert_eq!(value(&renamed)["_meta"]["a/b"], 1);
    let bare = without_related_task(&renamed);
    assert_eq!(value(&bare), json!({"message": "Where?", "_meta": {"a/b": 1}}));
    let only = with_related_task(&Json::empty_object(), "mine");
    assert_eq!(without_related_task(&only), Json::empty_object());
    let odd = Json::try_from(r#"{"_meta":7}"#).unwrap();
    assert_eq!(related_task(&with_related_task(&odd, "mine")).as_deref(), Some("mine"));
}

/// States that the gateway makes itself are valid in both dialects.
#[test]
fn own_states_are_valid() {
    let state = ended_state("mine", true, "2026-01-01T00:00:00Z", 1_000);
    let decoded = Task::decode(&state, TaskDialect::Experiment).unwrap();
    assert_eq!((decoded.status, decoded.ttl), (TaskStatus::Failed, Some(std::time::Duration::from_secs(1))));
}

proptest! {
    /// GW-16: whatever a server writes, a host gets a valid state of its dialect, under its own id.
    #[test]
    fn gw_16_every_state_is_valid_in_the_other_dialect(
        status in prop::sample::select(vec!["working", "input_required", "completed", "failed", "cancelled"]),
        ttl in prop::option::of(0_u64..1 << 40),
        poll in prop::option::of(0_u64..1 << 30),
        message in prop::option::of(".{0,20}"),
        has_times in any::<bool>(),
        is_error in any::<bool>(),
    ) {
        let mut state = json!({"taskId": "up", "status": status, "x": [1]});
        if let Some(message) = &message {
            state["statusMessage"] = json!(message);
        }
        if has_times {
            state["createdAt"] = json!("2026-01-01T00:00:00Z");
            state["lastUpdatedAt"] = json!("2026-01-01T00:00:00Z");
        }
        let mut modern = state.clone();
        modern["ttlMs"] = json!(ttl);
        modern["pollIntervalMs"] = json!(poll);
        modern["result"] = json!({"content": [], "isError": is_error});
        let shown = state_for_experiment(&task(&modern, TaskDialect::Extension), "mine");
        let read = Task::decode(&shown, TaskDialect::Experiment).unwrap();
        prop_assert_eq!(&*read.id, "mine");
        prop_assert_eq!(read.ttl.map(|ttl| ttl.as_millis()), ttl.map(u128::from));
        prop_assert_eq!(read.poll_interval.map(|poll| poll.as_millis()), poll.map(u128::from));
        prop_assert_eq!(read.status_message(), message.clone());
        prop_assert!(read.created_at().is_some() && read.last_updated_at().is_some());
        prop_assert_eq!(read.status == TaskStatus::Failed, status == "failed" || (status == "completed" && is_error));

        let mut legacy = state;
        legacy["ttl"] = json!(ttl);
        legacy["pollInterval"] = json!(poll);
        let shown = state_for_extension(&task(&legacy, TaskDialect::Experiment), "mine", &TaskDetail::None);
        let read = Task::decode(&shown, TaskDialect::Extension).unwrap();
        prop_assert_eq!(&*read.id, "mine");
        prop_assert_eq!(read.ttl.map(|ttl| ttl.as_millis()), ttl.map(u128::from));
        prop_assert_eq!(read.poll_interval.map(|poll| poll.as_millis()), poll.map(u128::from));
        prop_assert_eq!(read.status_message(), message);
        let expected = if status == "cancelled" { TaskStatus::Cancelled } else { TaskStatus::Working };
        prop_assert_eq!(read.status, expected);
    }
}

//! Tasks of revision 2025-11-25, with an elicitation in the middle (TA-01 to TA-05).

use std::sync::Arc;

use bowline::types::TaskStatus;
use bowline::{CallOptions, Client, ErrorKind, TaskEnd, TaskHandle, TaskOrResult};
use parking_lot::Mutex;
use serde_json::json;

use crate::{Everything, ScriptedHandler, within};

const TOOL: &str = "simulate-research-query";

fn person() -> ScriptedHandler {
    ScriptedHandler::accepting(&json!({ "interpretation": "snake" }))
}

async fn check_required_task(everything: Everything) {
    let person = person();
    let client = Client::builder(everything.server.clone()).handler(person.clone()).connect().await.unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let options = CallOptions::new().on_task({
        let seen = Arc::clone(&seen);
        move |task| seen.lock().push(task.status)
    });
    let arguments = json!({ "topic": "python", "ambiguous": true });
    // The tools are not listed, and the caller does not ask for a task.
    let result = client.call_tool_with(TOOL, &arguments, &options).await.unwrap();
    assert!(result.text().contains("python (snake)"), "{}", result.text());
    assert_eq!(person.requests().len(), 1, "asked once");
    let seen = seen.lock().clone();
    assert_eq!(seen.first(), Some(&TaskStatus::Working), "{seen:?}");
    assert!(seen.contains(&TaskStatus::InputRequired), "{seen:?}");
    client.close().await;
}

#[tokio::test]
async fn a_required_task_runs_over_stdio() {
    within("a task", check_required_task(Everything::stdio())).await;
}

#[tokio::test]
async fn a_required_task_runs_over_http() {
    let everything = Everything::http().await;
    within("a task", check_required_task(everything)).await;
}

/// A task is listed, waited for and canceled by its handle; an id the server does not know is lost.
#[tokio::test]
async fn a_task_is_listed_awaited_and_canceled_by_handle() {
    let everything = Everything::http().await;
    within("a handle", async {
        let client = everything.connect().await;
        let begun = client.call_tool_task(TOOL, &json!({ "topic": "knots" }), &CallOptions::new()).await;
        let TaskOrResult::Task(handle) = begun.unwrap() else { panic!("it must be a task") };
        let listed = client.list_tasks().await.unwrap();
        assert!(listed.items.iter().any(|task| task.id == handle.id), "{listed:?}");
        let begun = client.call_tool_task(TOOL, &json!({ "topic": "rope" }), &CallOptions::new()).await;
        let TaskOrResult::Task(other) = begun.unwrap() else { panic!("it must be a task") };
        assert_eq!(client.cancel_task(&other).await.unwrap().status, TaskStatus::Cancelled);
        let error = client.wait_task(&other, &CallOptions::new()).await.unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::Task(TaskEnd::Cancelled));
        let result = client.wait_task(&handle, &CallOptions::new()).await.unwrap();
        assert!(result.text().contains("Research Report: knots"), "{}", result.text());
        let unknown = TaskHandle::from_id("no-such-task", handle.dialect, handle.created_at);
        let error = client.task(&unknown).await.unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::Task(TaskEnd::NotFound));
        client.close().await;
    })
    .await;
}

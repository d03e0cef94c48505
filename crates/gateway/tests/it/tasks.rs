//! Calls that a server turns into tasks.

use std::time::Duration;

use bowline_testkit::{self as testkit, TaskPlan, Tool};
use serde_json::json;

use crate::support::{TEST_TIMEOUT, TestHost, result_text};

fn server_with_task_tool(plan: TaskPlan) -> testkit::Script {
    testkit::server().tool(Tool::named("work").task(plan))
}

/// A host without task support gets the result; one that declared tasks gets the handle, and polls
/// it itself (TN-01).
#[tokio::test]
async fn tn_01_only_a_host_that_knows_tasks_sees_one() {
    let server = server_with_task_tool(TaskPlan::after_polls(2)).modern().run().await;
    let mut host = TestHost::connect(&server).await;
    assert_eq!(result_text(&host.call_tool(1, "work", json!({"n": 1})).await), r#"{"n":1}"#);
    assert_eq!(server.count("tasks/get"), 2);

    let tasks = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let mut host = TestHost::connect_with(&server, tasks).await;
    let handle = host.call_tool(1, "work", json!({"n": 1})).await;
    assert_eq!(handle["result"]["resultType"], "task", "{handle}");
    assert_eq!(server.count("tasks/get"), 2);
    for (id, status) in [(2, "working"), (3, "completed")] {
        host.send_request(id, "tasks/get", json!({"taskId": handle["result"]["taskId"]})).await;
        let state = host.response(id).await;
        assert_eq!(state["result"]["status"], status, "{state}");
    }
}

/// CN-02: canceling a call cancels its task.
#[tokio::test]
async fn cn_02_a_call_that_is_taken_back_takes_its_task_along() {
    let plan = TaskPlan::manual().poll_interval(Duration::from_millis(50));
    let server = server_with_task_tool(plan).modern().run().await;
    let mut host = TestHost::connect(&server).await;
    host.send_request(1, "tools/call", json!({"name": "work", "arguments": {}})).await;
    server.wait_for(|received| received.has_method("tasks/get"), TEST_TIMEOUT).await;
    host.send_notification("notifications/cancelled", json!({"requestId": 1})).await;
    server.wait_until(|server| server.tasks()[0].status == "cancelled", TEST_TIMEOUT).await;
}

/// A host of 2025-11-25 handles such tasks itself, in front of a server that has them.
#[tokio::test]
async fn tasks_of_the_handshake_pass_as_they_are() {
    let server = server_with_task_tool(TaskPlan::after_polls(1)).legacy().run().await;
    let mut host = TestHost::connect(&server).await;
    host.send_request(
        1,
        "tools/call",
        json!({"name": "work", "arguments": {"n": 1}, "task": {"ttl": 60_000}}),
    )
    .await;
    let created = host.response(1).await;
    let id = &created["result"]["task"]["taskId"];
    host.send_request(2, "tasks/result", json!({"taskId": id})).await;
    assert_eq!(result_text(&host.response(2).await), r#"{"n":1}"#);
}

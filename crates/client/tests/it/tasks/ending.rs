//! How a task ends, and how a caller abandons it.

use std::sync::Arc;
use std::time::Duration;

use bowline::types::TaskStatus;
use bowline::{CallOptions, Cause, Client, ErrorKind, Execution, Limit, TaskEnd};
use bowline_testkit::{Fault, StreamKind, TaskPlan};
use parking_lot::Mutex;
use serde_json::json;

use super::{start_work, work_server};
use crate::support::{TEST_TIMEOUT, http, run_everywhere};

/// TN-04: a failed tool is a result in both eras, although 2025-11-25 calls the task failed; a
/// JSON-RPC error is an error.
#[tokio::test]
async fn tn_04_a_tool_that_failed_is_a_result() {
    for (name, running, server) in
        run_everywhere(work_server(TaskPlan::after_polls(1).fails("no rope").required())).await
    {
        let client = Client::connect(server).await.unwrap();
        client.list_tools().await.unwrap();
        let result = client.call_tool("work", &json!({})).await.unwrap();
        assert!(result.is_error, "{name}");
        assert_eq!(result.text(), "no rope", "{name}");
        running.edit(|script| {
            let plan = TaskPlan::after_polls(1).error(-32000, "out of order").required();
            script.without_tool("work").tool(bowline_testkit::Tool::named("work").task(plan))
        });
        let error = client.call_tool("work", &json!({})).await.unwrap_err();
        let ErrorKind::Server(error) = error.kind() else { panic!("{name}: {error}") };
        assert_eq!((error.code, &*error.message), (-32000, "out of order"), "{name}");
        client.close().await;
    }
}

/// CN-02: dropping the call cancels the task, not the request.
#[tokio::test]
async fn cn_02_dropping_the_call_cancels_the_task() {
    let plan = TaskPlan::manual().poll_interval(Duration::from_millis(50)).required();
    for (name, running, server) in run_everywhere(work_server(plan).quiet_tasks()).await {
        let client = Client::connect(server).await.unwrap();
        client.list_tools().await.unwrap();
        let call = tokio::spawn({
            let client = client.clone();
            async move { client.call_tool("work", &json!({})).await }
        });
        running.wait_until(|server| server.count("tasks/get") >= 2, TEST_TIMEOUT).await;
        // The pending poll needs no cancellation either.
        running.arm(Fault::silent().on("tasks/get").always());
        let before = running.count("tasks/get");
        running.wait_until(|server| server.count("tasks/get") > before, TEST_TIMEOUT).await;
        call.abort();
        let cancel = running.wait_for(|received| received.has_method("tasks/cancel"), TEST_TIMEOUT).await;
        assert_eq!(cancel.params()["taskId"], *running.tasks()[0].id, "{name}");
        running.wait_until(|server| server.tasks()[0].status == "cancelled", TEST_TIMEOUT).await;
        client.close().await;
        assert_eq!(super::canceled_methods(&running), Vec::<String>::new(), "{name}");
        assert_eq!(running.count("tasks/cancel"), 1, "{name}");
    }
}

/// Any response about the task extends the idle timeout; the maximum timeout still holds, and so
/// does the idle timeout without responses. A task that nobody waits for is canceled.
#[tokio::test]
async fn poll_responses_extend_the_idle_timeout() {
    let plan = TaskPlan::manual().poll_interval(Duration::from_millis(20));
    let server = work_server(plan).modern().run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    let options = CallOptions::new().idle_timeout(Duration::from_secs(2));
    let capped = options.clone().timeout(Duration::from_secs(3));
    let error = client.call_tool_with("work", &json!({}), &capped).await.unwrap_err();
    assert_eq!(error.fault().unwrap().cause, Cause::Timeout(Limit::Total));
    assert_eq!(error.execution(), Execution::Unknown);
    server.wait_until(|server| server.tasks()[0].status == "cancelled", TEST_TIMEOUT).await;

    server.arm(Fault::silent().on("tasks/get").always());
    let error = client.call_tool_with("work", &json!({}), &options).await.unwrap_err();
    assert_eq!(error.fault().unwrap().cause, Cause::Timeout(Limit::Idle));
    server.wait_until(|server| server.tasks()[1].status == "cancelled", TEST_TIMEOUT).await;
    client.close().await;
}

/// Each state of a task reaches the listener once.
#[tokio::test]
async fn each_task_state_is_announced_once() {
    let plan = TaskPlan::after_polls(5).required();
    for (name, _running, server) in run_everywhere(work_server(plan)).await {
        let client = Client::connect(server).await.unwrap();
        client.list_tools().await.unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let options = CallOptions::new().on_task({
            let seen = Arc::clone(&seen);
            move |task| seen.lock().push(task.status)
        });
        client.call_tool_with("work", &json!({}), &options).await.unwrap();
        assert_eq!(*seen.lock(), [TaskStatus::Working, TaskStatus::Completed], "{name}");
        client.close().await;
    }
}

/// TN-06: a server may ignore cancellation. TA-05: a finished task keeps its result.
#[tokio::test]
async fn tn_06_a_task_may_ignore_cancellation() {
    for (name, running, server) in run_everywhere(work_server(TaskPlan::manual().uncancellable())).await {
        let client = Client::connect(server).await.unwrap();
        let handle = start_work(&client).await;
        assert_eq!(client.cancel_task(&handle).await.unwrap().status, TaskStatus::Working, "{name}");
        running.finish_task(&handle.id);
        assert_eq!(client.cancel_task(&handle).await.unwrap().status, TaskStatus::Completed, "{name}");
        assert_eq!(client.wait_task(&handle, &CallOptions::new()).await.unwrap().text(), r#"{"n":1}"#);
        let unknown = start_work(&client).await;
        running.forget_task(&unknown.id);
        let error = client.cancel_task(&unknown).await.unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::Task(TaskEnd::NotFound), "{name}");
        client.close().await;
    }
}

/// A task canceled by somebody else has no result.
#[tokio::test]
async fn a_task_canceled_by_another_client_has_no_result() {
    for (name, running, server) in run_everywhere(work_server(TaskPlan::manual())).await {
        let client = Client::connect(server).await.unwrap();
        let handle = start_work(&client).await;
        let wait = tokio::spawn({
            let (client, handle) = (client.clone(), handle.clone());
            async move { client.wait_task(&handle, &CallOptions::new()).await }
        });
        running.wait_until(|server| server.count("tasks/get") >= 1, TEST_TIMEOUT).await;
        running.cancel_task(&handle.id);
        let error = wait.await.unwrap().unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::Task(TaskEnd::Cancelled), "{name}");
        client.close().await;
    }
}

/// PR-03: the progress token of the call is valid until the task ends.
#[tokio::test]
async fn pr_03_progress_goes_on_after_the_handle() {
    let plan = TaskPlan::manual().poll_interval(Duration::from_millis(50)).required();
    let server = work_server(plan).legacy().quiet_tasks().run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    client.list_tools().await.unwrap();
    let mut call = client.call("work").idle_timeout(Duration::from_millis(600)).start();
    let mut progress = call.progress();
    server
        .wait_until(
            |server| server.open_streams(StreamKind::Get) > 0 && !server.tasks().is_empty(),
            TEST_TIMEOUT,
        )
        .await;
    let id = server.tasks()[0].id.clone();
    for step in 1..=6 {
        server.report_task_progress(&id, f64::from(step), Some(6.0)).await;
        let heard = tokio::time::timeout(TEST_TIMEOUT, progress.next()).await.unwrap().unwrap();
        assert!((heard.progress - f64::from(step)).abs() < f64::EPSILON);
    }
    server.finish_task(&id);
    call.await.unwrap();
    // The task has ended, so its progress is dropped.
    server.report_task_progress(&id, 7.0, None).await;
    client.ping().await.unwrap();
    assert_eq!(progress.next().await, None);
    client.close().await;
}

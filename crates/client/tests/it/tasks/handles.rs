//! Task handles that are stored: used by another client, in another session, or too late.

use std::time::Duration;

use bowline::config::Protocol;
use bowline::{CallOptions, Client, ErrorKind, Execution, Outcome, TaskEnd, TaskHandle, TaskOrResult};
use bowline_testkit::{Control, TaskPlan, Tool};
use serde_json::json;

use super::{start_work, task_methods, work_server};
use crate::support::{TEST_TIMEOUT, http, run_everywhere};

/// TN-09: a handle is serialized, read by another client, and waited for there.
#[tokio::test]
async fn tn_09_a_handle_is_used_by_another_client() {
    for (name, running, server) in run_everywhere(work_server(TaskPlan::manual())).await {
        // A stdio server's tasks end with its process.
        if name.ends_with("stdio") {
            continue;
        }
        let client = Client::connect(server.clone()).await.unwrap();
        let written = serde_json::to_string(&start_work(&client).await).unwrap();
        client.close().await;

        let handle: TaskHandle = serde_json::from_str(&written).unwrap();
        let client = Client::connect(server).await.unwrap();
        let wait = tokio::spawn({
            let (client, handle) = (client.clone(), handle.clone());
            async move { client.wait_task(&handle, &CallOptions::new()).await }
        });
        running.wait_until(|server| server.count("tasks/get") >= 2, TEST_TIMEOUT).await;
        running.finish_task(&handle.id);
        assert_eq!(wait.await.unwrap().unwrap().text(), r#"{"n":1}"#, "{name}");
        // The result can be fetched repeatedly.
        assert!(client.wait_task(&handle, &CallOptions::new()).await.is_ok(), "{name}");
        assert_eq!(running.executions("work"), 1, "{name}");
        client.close().await;
    }
}

/// TA-05, TN-09: an unknown id is a lost task.
#[tokio::test]
async fn tn_09_an_unknown_task_id_is_a_lost_task() {
    for (name, running, server) in run_everywhere(work_server(TaskPlan::manual())).await {
        let client = Client::connect(server).await.unwrap();
        let handle = start_work(&client).await;
        running.forget_task(&handle.id);
        let error = client.task(&handle).await.unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::Task(TaskEnd::NotFound), "{name}");
        let error = client.wait_task(&handle, &CallOptions::new()).await.unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::Task(TaskEnd::NotFound), "{name}");
        client.close().await;
    }
}

/// TN-09: a task that has not changed within its time to live is lost, although the server still
/// returns it.
#[tokio::test]
async fn tn_09_a_task_past_its_ttl_is_lost() {
    let server = work_server(TaskPlan::manual()).modern().run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    let mut handle = start_work(&client).await;
    handle.created_at -= Duration::from_secs(60);
    handle.ttl = Some(Duration::from_secs(30));
    let error = client.wait_task(&handle, &CallOptions::new()).await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Task(TaskEnd::Expired));
    client.close().await;
}

/// Dropping a wait does not cancel the task.
#[tokio::test]
async fn dropping_a_wait_does_not_cancel_the_task() {
    for (name, running, server) in run_everywhere(work_server(TaskPlan::manual())).await {
        let client = Client::connect(server).await.unwrap();
        let handle = start_work(&client).await;
        let options = CallOptions::new().timeout(Duration::from_millis(300));
        client.wait_task(&handle, &options).await.unwrap_err();
        let wait = client.wait_task(&handle, &options);
        assert!(tokio::time::timeout(Duration::from_millis(100), wait).await.is_err(), "{name}");
        client.ping().await.unwrap();
        assert_eq!(running.task(&handle.id).status, "working", "{name}");
        client.close().await;
        assert_eq!(task_methods(&running), ["tasks/get"], "{name}");
        assert_eq!(super::canceled_methods(&running), Vec::<String>::new(), "{name}");
    }
}

/// TN-10: a handle of one era is not sent to a server of the other.
#[tokio::test]
async fn tn_10_a_handle_of_the_other_era_is_not_sent() {
    let server = work_server(TaskPlan::manual()).run().await;
    let legacy = Client::connect(http(&server).with_protocol(Protocol::Legacy)).await.unwrap();
    let modern = Client::connect(http(&server).with_protocol(Protocol::Modern)).await.unwrap();
    let (old, new) = (start_work(&legacy).await, start_work(&modern).await);
    for (client, handle) in [(&legacy, &new), (&modern, &old)] {
        for error in [
            client.task(handle).await.unwrap_err(),
            client.wait_task(handle, &CallOptions::new()).await.unwrap_err(),
            client.cancel_task(handle).await.unwrap_err(),
        ] {
            assert_eq!(*error.kind(), ErrorKind::Task(TaskEnd::WrongRevision));
        }
    }
    assert_eq!(task_methods(&server), Vec::<String>::new());
    legacy.close().await;
    modern.close().await;
}

/// A raw call, as a relay makes, returns the handle unchanged.
#[tokio::test]
async fn a_raw_call_is_not_followed() {
    let server = work_server(TaskPlan::manual()).modern().tool(Tool::named("now")).run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    let params = json!({"name": "work", "arguments": {}});
    let raw = client.request_with("tools/call", &params, &CallOptions::new().raw()).await.unwrap();
    assert_eq!(raw.member("resultType").unwrap().as_str(), r#""task""#);
    assert_eq!(raw.member("taskId").unwrap().decode::<String>().unwrap(), server.tasks()[0].id);
    // A call that is answered at once returns its result.
    let now = client.call_tool_task("now", &json!({}), &CallOptions::new()).await.unwrap();
    assert!(matches!(now, TaskOrResult::Result(_)));
    client.close().await;
    assert_eq!(task_methods(&server), Vec::<String>::new());
}

/// A wait has a report of its own, in its result and in its error: what was sent about the task, and
/// how long the server was waited for.
#[tokio::test]
async fn wait_for_a_task_has_a_report() {
    for (name, running, server) in run_everywhere(work_server(TaskPlan::manual())).await {
        let client = Client::connect(server).await.unwrap();
        let handle = start_work(&client).await;
        let options = CallOptions::new().timeout(Duration::from_millis(300));
        let error = client.wait_task(&handle, &options).await.unwrap_err();
        let report = error.report().expect("an error has the report");
        assert_eq!(report.outcome, Outcome::Failed(Execution::Unknown), "{name}");
        assert!(report.attempts >= 1 && report.duration >= Duration::from_millis(300), "{name}: {report:?}");

        running.finish_task(&handle.id);
        let before = task_requests(&running);
        let done = client.wait_task(&handle, &CallOptions::new()).await.unwrap();
        assert_eq!(done.text(), r#"{"n":1}"#, "{name}");
        let sent = u32::try_from(task_requests(&running) - before).unwrap();
        assert_eq!((done.report.outcome, done.report.attempts), (Outcome::Done, sent), "{name}");
        assert_eq!(done.report.waited, Duration::ZERO, "{name}");
        client.close().await;
    }
}

/// Number of requests about tasks that the server received.
fn task_requests(server: &Control) -> usize {
    ["tasks/get", "tasks/result"].iter().map(|method| server.count(method)).sum()
}

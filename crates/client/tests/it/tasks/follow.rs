//! A call that becomes a task is followed to its result without the caller's involvement.

use std::time::Duration;

use bowline::types::TaskStatus;
use bowline::{Cause, Client, Misbehavior};
use bowline_testkit::{Fault, TaskPlan, Tool};
use serde_json::json;

use super::{AcceptingHandler, form, task_methods, work_server};
use crate::support::{TEST_TIMEOUT, http, run_everywhere};

/// TN-01, TA-01 (`required`), TN-10: the caller gets only the result, in every era and over every
/// transport; each era uses its own methods.
#[tokio::test]
async fn tn_01_a_plain_call_is_followed_to_its_end() {
    for (name, running, server) in run_everywhere(work_server(TaskPlan::after_polls(3).required())).await {
        let client = Client::connect(server).await.unwrap();
        // A legacy tool that must run as a task is known from the list.
        client.list_tools().await.unwrap();
        let result = client.call_tool("work", &json!({"n": 1})).await.unwrap();
        assert_eq!(result.text(), r#"{"n":1}"#, "{name}");
        let raw = client.request("tools/call", &json!({"name": "echo", "arguments": {}})).await.unwrap();
        assert!(raw.member("content").is_some(), "{name}");
        assert_eq!(running.executions("work"), 1, "{name}");
        let methods =
            if name.starts_with("modern") { vec!["tasks/get"] } else { vec!["tasks/get", "tasks/result"] };
        assert_eq!(task_methods(&running), methods, "{name}");
        client.close().await;
        assert_eq!(running.violations(), Vec::<String>::new(), "{name}");
    }
}

/// TN-01: one tool may answer at once, require input, or become a task; the
/// extensions that the host declares stay.
#[tokio::test]
async fn tn_01_the_server_decides_whether_a_call_becomes_a_task() {
    let server =
        work_server(TaskPlan::after_polls(1)).modern().tool(Tool::asks("ask", [form("k")])).run().await;
    let handler = AcceptingHandler::default();
    let client = Client::builder(http(&server)).handler(handler.clone()).connect().await.unwrap();
    assert_eq!(client.call_tool("work", &json!({})).await.unwrap().text(), "{}");
    server.edit(|script| script.without_tool("work").tool("work"));
    assert_eq!(client.call_tool("work", &json!({})).await.unwrap().text(), "{}");
    server.edit(|script| script.without_tool("work").tool(Tool::asks("work", [form("k")])));
    assert!(client.call_tool("work", &json!({})).await.unwrap().text().contains("Oslo"));
    assert_eq!(handler.count(), 1);
    let call = server.wait_for(|received| received.has_method("tools/call"), TEST_TIMEOUT).await;
    let told = &call.params()["_meta"]["io.modelcontextprotocol/clientCapabilities"];
    assert_eq!(
        *told,
        json!({
            "elicitation": {"form": {}},
            "extensions": {"com.example/x": {"a": 1}, "io.modelcontextprotocol/tasks": {}},
        })
    );
    client.close().await;
}

/// TN-02: a task where none is allowed is an error.
#[tokio::test]
async fn tn_02_an_undeclared_task_is_an_error() {
    let handle = json!({"resultType": "task", "taskId": "t", "status": "working", "ttlMs": null});
    let server = work_server(TaskPlan::default()).modern().run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    server.arm(Fault::reply(handle.clone()).on("prompts/get"));
    let error = client.get_prompt("p", &std::collections::BTreeMap::new()).await.unwrap_err();
    assert_eq!(error.fault().unwrap().cause, Cause::Protocol(Misbehavior::UnknownResultType));
    client.close().await;

    let client = Client::builder(http(&server)).without_tasks().connect().await.unwrap();
    // The server knows that, and answers at once.
    client.call_tool("work", &json!({})).await.unwrap();
    server.arm(Fault::reply(handle).on("tools/call"));
    let error = client.call_tool("work", &json!({})).await.unwrap_err();
    assert_eq!(error.fault().unwrap().cause, Cause::Protocol(Misbehavior::UnknownResultType));
    assert_eq!(task_methods(&server), Vec::<String>::new());
    client.close().await;
}

/// TA-03, TN-04: polls respect the server's interval when there are no notifications.
#[tokio::test]
async fn ta_03_polls_respect_the_poll_interval() {
    let interval = Duration::from_millis(200);
    let plan = TaskPlan::after_polls(4).poll_interval(interval).required();
    for (name, running, server) in run_everywhere(work_server(plan).quiet_tasks()).await {
        let client = Client::connect(server).await.unwrap();
        client.list_tools().await.unwrap();
        client.call_tool("work", &json!({})).await.unwrap();
        let task = &running.tasks()[0];
        assert_eq!(task.polls, 4, "{name}");
        assert!(task.min_poll_interval.unwrap() >= interval, "{name}: {:?}", task.min_poll_interval);
        client.close().await;
    }
}

/// TN-03, TN-07: a new task is known at once, and named in a header.
#[tokio::test]
async fn tn_07_the_task_is_named_in_a_header() {
    let server = work_server(TaskPlan::manual()).modern().run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    let handle = super::start_work(&client).await;
    assert_eq!(client.task(&handle).await.unwrap().status, TaskStatus::Working);
    client.cancel_task(&handle).await.unwrap();
    for method in ["tasks/get", "tasks/cancel"] {
        let received = &server.received_with_method(method)[0];
        assert_eq!(received.header("mcp-name"), Some(&*handle.id), "{method}");
        assert_eq!(received.params()["taskId"], *handle.id, "{method}");
    }
    client.close().await;
}

/// A task survives a session loss between two polls, a server restart and a lost response, and its
/// tool runs once.
#[tokio::test]
async fn a_task_outlives_its_session() {
    for modern in [false, true] {
        let plan = TaskPlan::manual().poll_interval(Duration::from_millis(50)).required();
        let script = work_server(plan).quiet_tasks();
        let server = if modern { script.modern() } else { script.legacy() }.run().await;
        let client = Client::connect(http(&server)).await.unwrap();
        client.list_tools().await.unwrap();
        let call = tokio::spawn({
            let client = client.clone();
            async move { client.call_tool("work", &json!({"n": 1})).await }
        });
        let polls = |server: &bowline_testkit::Control| server.count("tasks/get");
        server.wait_until(|server| polls(server) >= 2, TEST_TIMEOUT).await;
        server.drop_sessions();
        let before = polls(&server);
        server.wait_until(|server| polls(server) >= before + 3, TEST_TIMEOUT).await;
        server.arm(Fault::reset().on("tasks/get").executed());
        server.wait_until(|server| server.armed_faults().is_empty(), TEST_TIMEOUT).await;
        server.restart().await;
        let before = polls(&server);
        server.wait_until(|server| polls(server) >= before + 3, TEST_TIMEOUT).await;
        assert!(server.finish_task(&server.tasks()[0].id));
        assert_eq!(call.await.unwrap().unwrap().text(), r#"{"n":1}"#, "modern: {modern}");
        assert_eq!(server.executions("work"), 1, "modern: {modern}");
        assert_eq!(server.tasks().len(), 1, "modern: {modern}");
        client.close().await;
    }
}

/// TN-08, TA-03: a status notification replaces a poll.
#[tokio::test]
async fn tn_08_a_notification_is_as_good_as_a_poll() {
    let plan = TaskPlan::manual().poll_interval(Duration::from_secs(600)).required();
    for (name, running, server) in run_everywhere(work_server(plan)).await {
        let client = Client::connect(server).await.unwrap();
        client.list_tools().await.unwrap();
        let call = tokio::spawn({
            let client = client.clone();
            async move { client.call_tool("work", &json!({"n": 1})).await }
        });
        running.wait_until(|server| !server.tasks().is_empty(), TEST_TIMEOUT).await;
        if name.starts_with("modern") {
            let listens = |received: &bowline_testkit::ReceivedMessage| {
                received.has_method("subscriptions/listen")
                    && received.params()["notifications"]["taskIds"] == json!([running.tasks()[0].id])
            };
            running.wait_for(listens, TEST_TIMEOUT).await;
            running.wait_until(|server| server.subscription_count() > 0, TEST_TIMEOUT).await;
        } else if name == "legacy http" {
            running
                .wait_until(|server| server.open_streams(bowline_testkit::StreamKind::Get) > 0, TEST_TIMEOUT)
                .await;
        }
        assert!(running.finish_task(&running.tasks()[0].id), "{name}");
        let result = tokio::time::timeout(TEST_TIMEOUT, call).await.expect("no poll is waited for").unwrap();
        assert_eq!(result.unwrap().text(), r#"{"n":1}"#, "{name}");
        assert_eq!(running.count("tasks/get"), 0, "{name}");
        client.close().await;
    }
}

/// TN-04, CN-06: a server with a long poll interval is not taken for a silent one, nor is one that
/// answers every poll alike.
#[tokio::test]
async fn tn_04_a_long_poll_interval_is_no_idle_timeout() {
    let (short, long) = (Duration::from_secs(2), Duration::from_secs(3));
    for (name, running, server) in
        run_everywhere(work_server(TaskPlan::after_polls(2).required().poll_interval(long))).await
    {
        let client = Client::connect(server.with_idle_timeout(short)).await.unwrap();
        client.list_tools().await.unwrap();
        client.call_tool("work", &json!({})).await.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(running.count("tasks/cancel"), 0, "{name}");
        client.close().await;
    }
}

/// CN-06: looking up how a tool is to be called counts against the deadline of the call.
#[tokio::test]
async fn cn_06_the_tool_lookup_is_bounded_by_the_call_deadline() {
    let server = work_server(TaskPlan::after_polls(1)).legacy().run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    server.arm(Fault::silent().on("tools/list").always());
    let options =
        bowline::CallOptions::new().idle_timeout(Duration::from_millis(200)).timeout(Duration::from_secs(2));
    let call = client.call_tool_with("echo", &serde_json::Value::Null, &options);
    // The lookup alone would have a minute.
    tokio::time::timeout(TEST_TIMEOUT, call).await.expect("it ends in its own time").unwrap();
    let again = client.call_tool_with("echo", &serde_json::Value::Null, &options);
    tokio::time::timeout(TEST_TIMEOUT, again).await.unwrap().unwrap();
    assert_eq!(server.count("tools/list"), 1, "once is enough");
    client.close().await;
}

//! Tasks of revision 2025-11-25, which differ from the later extension.

use std::time::Duration;

use bowline::types::Task;
use bowline::{CallOptions, Client, ErrorKind, TaskOrResult};
use bowline_testkit::{self as testkit, Fault, TaskPlan, Tool};
use serde_json::json;

use super::{AcceptingHandler, start_work, task_methods, text, work_server};
use crate::support::http;

/// TA-01: `taskSupport` absent or forbidden means never, optional on request, required always; and
/// never where the server offers no tasks.
#[tokio::test]
async fn ta_01_task_support_of_the_tool_is_respected() {
    let script = testkit::server()
        .legacy()
        .tool("absent")
        .tool(Tool::named("forbidden").member("execution", json!({"taskSupport": "forbidden"})))
        .tool(Tool::named("optional").task(TaskPlan::after_polls(1)))
        .tool(Tool::named("required").task(TaskPlan::after_polls(1).required()));
    let server = script.clone().run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    let none = &json!({});
    for (tool, plain, wanted) in [
        ("absent", false, false),
        ("forbidden", false, false),
        ("optional", false, true),
        ("required", true, true),
    ] {
        let as_task = |n: usize| !server.received_with_method("tools/call")[n].params()["task"].is_null();
        let before = server.count("tools/call");
        let outcome = client.call_tool_task(tool, none, &CallOptions::new()).await.unwrap();
        assert_eq!(matches!(outcome, TaskOrResult::Task(_)), wanted, "{tool}");
        assert_eq!(as_task(before), wanted, "{tool}");
        assert_eq!(client.call_tool(tool, none).await.unwrap().text(), "{}", "{tool}");
        assert_eq!(as_task(before + 1), plain, "{tool}");
    }
    client.close().await;
    assert_eq!(server.violations(), Vec::<String>::new());

    // The server offers no tasks, whatever its tools declare.
    let server = script.without_capability("tasks").run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    let outcome = client.call_tool_task("optional", none, &CallOptions::new()).await.unwrap();
    assert!(matches!(outcome, TaskOrResult::Result(_)));
    client.close().await;
    assert_eq!(server.violations(), Vec::<String>::new());
}

/// TA-01: an unlisted tool of a server with tasks is looked up first.
#[tokio::test]
async fn ta_01_an_unlisted_tool_is_looked_up() {
    let server = work_server(TaskPlan::after_polls(1).required()).legacy().run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    assert_eq!(client.call_tool("work", &json!({"n": 1})).await.unwrap().text(), r#"{"n":1}"#);
    assert_eq!(server.executions("work"), 1);
    client.call_tool("work", &json!({})).await.unwrap();
    assert_eq!((server.count("tools/call"), server.count("tools/list")), (2, 1));
    client.close().await;
}

/// TA-02: the server decides on the time to live; its immediate response for the model is passed
/// on.
#[tokio::test]
async fn ta_02_the_server_has_the_last_word_on_the_ttl() {
    let plan = TaskPlan::manual().ttl(Duration::from_secs(90)).immediate("on it");
    let server = work_server(plan).legacy().run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    let options = CallOptions::new().task_ttl(Duration::from_secs(5));
    let TaskOrResult::Task(handle) = client.call_tool_task("work", &json!({}), &options).await.unwrap()
    else {
        panic!("not a task")
    };
    assert_eq!(server.received_with_method("tools/call")[0].params()["task"], json!({"ttl": 5000}));
    assert_eq!(handle.ttl, Some(Duration::from_secs(90)));
    assert_eq!(handle.poll_interval, Some(Duration::from_millis(10)));
    let params = json!({"name": "work", "arguments": {}, "task": {}});
    let created = client.request("tools/call", &params).await.unwrap();
    assert_eq!(Task::immediate_response(&created).as_deref(), Some("on it"));
    client.close().await;
}

/// TA-05, TN-10: listing and canceling only where they are offered.
#[tokio::test]
async fn ta_05_lists_and_cancellations_are_optional() {
    let server = work_server(TaskPlan::manual()).legacy().run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    let (first, second) = (start_work(&client).await, start_work(&client).await);
    let listed = client.list_tasks().await.unwrap();
    let ids: Vec<_> = listed.items.iter().map(|task| task.id.clone()).collect();
    assert_eq!(ids, [first.id.clone(), second.id]);
    // The timestamps come from the server's clock, which is ours here.
    let handle = client.task_handle(&listed.items[0]);
    let apart =
        handle.created_at.max(first.created_at).duration_since(handle.created_at.min(first.created_at));
    assert!(apart.unwrap() < Duration::from_secs(10));
    client.close().await;

    let server = work_server(TaskPlan::manual())
        .legacy()
        .without_capability("tasks.list")
        .without_capability("tasks.cancel")
        .run()
        .await;
    let client = Client::connect(http(&server)).await.unwrap();
    let handle = start_work(&client).await;
    assert!(matches!(client.list_tasks().await.unwrap_err().kind(), ErrorKind::NotOffered(_)));
    assert!(matches!(client.cancel_task(&handle).await.unwrap_err().kind(), ErrorKind::NotOffered(_)));
    client.close().await;
    assert_eq!(task_methods(&server), Vec::<String>::new());

    let server = work_server(TaskPlan::manual()).modern().run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    assert!(matches!(client.list_tasks().await.unwrap_err().kind(), ErrorKind::NotOffered(_)));
    assert_eq!(task_methods(&server), Vec::<String>::new());
    client.close().await;
}

/// TA-06: task support for server requests is not declared, so they are answered at once.
#[tokio::test]
async fn ta_06_a_request_with_a_task_is_answered_inline() {
    let server = testkit::server().legacy().tool("echo").run().await;
    let client = Client::builder(http(&server)).handler(AcceptingHandler::default()).connect().await.unwrap();
    let params = json!({
        "message": "Where?",
        "requestedSchema": {"type": "object", "properties": {}},
        "task": {"ttl": 60_000},
    });
    let answer = server.request("elicitation/create", params).await;
    assert_eq!(answer["result"]["action"], "accept", "{answer}");
    client.close().await;
}

/// A server that was asked for a task may answer the call at once.
#[tokio::test]
async fn a_task_call_may_be_answered_at_once() {
    let server = work_server(TaskPlan::manual().required()).legacy().run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    client.list_tools().await.unwrap();
    server.arm(Fault::reply(text("at once")).on("tools/call"));
    assert_eq!(client.call_tool("work", &json!({})).await.unwrap().text(), "at once");
    client.close().await;
}

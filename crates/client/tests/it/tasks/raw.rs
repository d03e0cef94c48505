//! Calls that are relayed: their params and answers pass as they are.

use bowline::types::{Task, TaskDialect};

use super::*;
use crate::support::http;

fn decoded(json: &Json) -> Value {
    json.decode().expect("JSON")
}

/// TA-02, TN-03: the answer shows the task as its server wrote it, or the result.
#[tokio::test]
async fn ta_02_the_answer_of_a_call_as_a_task_is_raw() {
    for (script, dialect) in [
        (work_server(TaskPlan::manual()).legacy(), TaskDialect::Experiment),
        (work_server(TaskPlan::manual()).modern(), TaskDialect::Extension),
    ] {
        let server = script.run().await;
        let client = Client::connect(http(&server)).await.unwrap();
        let options = CallOptions::new();
        let call = json!({"name": "work", "arguments": {"n": 1}});
        let created = client.request_task(&call, &options).await.unwrap();
        let task = Task::decode_created(&created, dialect).unwrap();
        assert_eq!(*task.id, *server.tasks()[0].id);
        let call = json!({"name": "echo", "arguments": {"n": 1}});
        let result = client.request_task(&call, &options).await.unwrap();
        assert_eq!(decoded(&result)["content"][0]["text"], r#"{"n":1}"#);
        assert_eq!(server.violations(), [""; 0]);
        client.close().await;
    }
}

/// TA-01: what the caller wrote about the task stays, and a tool that has to be a task is called as one.
#[tokio::test]
async fn ta_01_raw_calls_keep_their_task_and_follow_required_ones() {
    let only = Tool::named("only").task(TaskPlan::after_polls(1).required());
    let server = work_server(TaskPlan::manual()).tool(only).legacy().run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    let options = CallOptions::new();
    let call = json!({"name": "work", "arguments": {}, "task": {"ttl": 7_000, "x": [1]}});
    let created = client.request_task(&call, &options).await.unwrap();
    assert_eq!(decoded(&created)["task"]["ttl"], 7_000);
    assert_eq!(
        server.received_with_method("tools/call")[0].params()["task"],
        json!({"ttl": 7_000, "x": [1]})
    );
    let call = json!({"name": "only", "arguments": {"n": 1}});
    let result = client.request_tool(&call, &options).await.unwrap();
    assert_eq!(decoded(&result)["content"][0]["text"], r#"{"n":1}"#);
    let refused = client.request_with("tools/call", &call, &options).await.unwrap_err();
    assert_eq!(refused.server_error().map(|error| error.code), Some(-32601));
    client.close().await;
}

//! Tasks of hosts behind a gateway: what is offered, whose they are, and what is reported of them.

mod stateless;

use std::time::Duration;

use bowline_gateway::{Gateway, View};
use bowline_testkit::{self as testkit, HttpServer, StreamKind, TaskPlan, Tool, with};
use serde_json::{Value, json};

use super::{at, gateway};
use crate::support::{TEST_TIMEOUT, TestHost, result_text};

const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";

fn plan() -> TaskPlan {
    TaskPlan::manual().poll_interval(Duration::from_millis(20))
}

fn script() -> testkit::Script {
    testkit::server()
        .tool("echo")
        .tool(Tool::named("work").task(plan().immediate("it takes a while")))
        .tool(Tool::named("only").task(TaskPlan::after_polls(1).required()))
}

async fn legacy_server() -> HttpServer {
    script().legacy().run().await
}

async fn modern_server() -> HttpServer {
    script().modern().run().await
}

async fn join(gateway: &Gateway) -> TestHost {
    TestHost::join_with(gateway, json!({})).await
}

fn task_call(tool: &str) -> Value {
    json!({"name": tool, "arguments": {"n": 1}, "task": {"ttl": 60_000}})
}

/// Creates a task and returns its id.
async fn create(host: &mut TestHost, tool: &str) -> String {
    let created = host.result("tools/call", task_call(tool)).await;
    created["task"]["taskId"].as_str().unwrap_or_else(|| panic!("no task in {created}")).to_owned()
}

/// TA-01: tasks are offered to hosts of 2025-11-25 if a server of their view has them.
#[tokio::test]
async fn ta_01_tasks_are_offered_where_a_server_has_them() {
    let (with, without) = (legacy_server().await, testkit::server().legacy().tool("plain").run().await);
    let modern = modern_server().await;
    let none = with!(View::default(), servers: Some(["without".to_owned()].into()));
    let gateway = Gateway::builder([at("with", &with), at("without", &without)]).view("none", none).build();
    let extension = super::gateway([at("modern", &modern)]);
    let offered = json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}});
    for (mut host, expected) in [
        (TestHost::join(&gateway), offered.clone()),
        (TestHost::join_view(&gateway, "none"), Value::Null),
        (TestHost::join(&extension), offered),
    ] {
        let answer = host.initialize(json!({})).await;
        assert_eq!(answer["result"]["capabilities"]["tasks"], expected);
        host.close().await;
    }
    // An older revision has none.
    let mut host = TestHost::join(&gateway);
    let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "h", "version": "1"}});
    host.send_request(1, "initialize", hello).await;
    assert_eq!(host.response(1).await["result"]["capabilities"]["tasks"], Value::Null);
    host.close().await;
}

/// TA-01, GW-16: the list says which tools may be called as tasks, also of a server with the extension.
#[tokio::test]
async fn ta_01_the_list_says_which_tools_can_be_tasks() {
    let (legacy, modern) = (legacy_server().await, modern_server().await);
    let gateway = gateway([at("one", &legacy), at("two", &modern)]);
    let mut host = join(&gateway).await;
    let list = host.result("tools/list", Value::Null).await;
    let support = |name: &str| {
        let tool = list["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == name);
        tool.unwrap_or_else(|| panic!("no {name} in {list}"))["execution"]["taskSupport"].clone()
    };
    for (tool, expected) in [
        ("one__echo", Value::Null),
        ("one__work", json!("optional")),
        ("one__only", json!("required")),
        ("two__echo", json!("optional")),
        ("two__work", json!("optional")),
    ] {
        assert_eq!(support(tool), expected, "{tool}");
    }
    host.close().await;
    let mut older = TestHost::join(&gateway);
    let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test-host", "version": "9.9"}});
    older.send_request(1, "initialize", hello).await;
    older.response(1).await;
    older.send_notification("notifications/initialized", json!({})).await;
    let list = older.result("tools/list", Value::Null).await;
    let tool =
        list["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == "two__work").unwrap().clone();
    assert_eq!(tool.get("execution"), None, "{tool}");
    older.close().await;
}

/// TA-01: the four combinations of a tool that can or must be a task, and a call that asks for one or
/// does not.
#[tokio::test]
async fn ta_01_calls_obey_what_the_tool_says_about_tasks() {
    let server = legacy_server().await;
    let mut host = join(&gateway([at("one", &server)])).await;
    let refused = host.error("tools/call", task_call("echo")).await;
    assert_eq!(refused, json!({"code": -32601, "message": "the tool echo cannot be called as a task"}));
    assert_eq!(server.executions("echo"), 0);
    let plain = |tool: &str| json!({"name": tool, "arguments": {"n": 1}});
    assert_eq!(host.error("tools/call", plain("only")).await["code"], -32601);
    let id = create(&mut host, "only").await;
    let result = host.result("tasks/result", json!({"taskId": id})).await;
    assert_eq!(result["content"][0]["text"], r#"{"n":1}"#);
    let result = host.result("tools/call", plain("work")).await;
    assert_eq!(result["content"][0]["text"], r#"{"n":1}"#);
    let created = host.result("tools/call", task_call("work")).await;
    assert_eq!(created["task"]["status"], "working");
    // TA-02
    assert_eq!(created["task"]["ttl"], 60_000);
    assert_eq!(created["_meta"]["io.modelcontextprotocol/model-immediate-response"], "it takes a while");
    host.close().await;
    assert_eq!(server.violations(), [""; 0]);
}

/// A host of an older revision gets the result of a tool that has to be called as a task.
#[tokio::test]
async fn tasks_are_followed_for_hosts_that_know_none() {
    let server = legacy_server().await;
    let mut host = TestHost::join(&gateway([at("one", &server)]));
    let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "h", "version": "1"}});
    host.send_request(1, "initialize", hello).await;
    host.response(1).await;
    host.send_notification("notifications/initialized", json!({})).await;
    assert_eq!(result_text(&host.call_tool(2, "only", json!({"n": 1})).await), r#"{"n":1}"#);
    // What asks for a task means nothing in its revision.
    let result = host.result("tools/call", task_call("work")).await;
    assert_eq!(result["content"][0]["text"], r#"{"n":1}"#);
    assert_eq!(server.tasks().len(), 1);
    // SE-09: the tasks of the server can be of anybody, so it is not asked.
    let (polls, own) = (server.count("tasks/get"), server.tasks()[0].id.clone());
    for method in ["tasks/get", "tasks/result", "tasks/cancel", "tasks/list"] {
        let unknown = json!({"code": -32601, "message": format!("Method not found: {method}")});
        assert_eq!(host.error(method, json!({"taskId": own})).await, unknown);
    }
    assert_eq!((server.count("tasks/get"), server.count("tasks/list")), (polls, 0));
    host.close().await;
}

/// PR-03, TA-03: progress keeps the token of the call until the task ends, and states are passed on.
#[tokio::test]
async fn pr_03_progress_and_states_reach_the_host_of_the_task() {
    let server = legacy_server().await;
    let gateway = gateway([at("one", &server)]);
    // The server reports progress on the stream that was opened last.
    let mut other = join(&gateway).await;
    server.wait_until(|server| server.open_streams(StreamKind::Get) == 1, TEST_TIMEOUT).await;
    let mut host = join(&gateway).await;
    server.wait_until(|server| server.open_streams(StreamKind::Get) == 2, TEST_TIMEOUT).await;
    let mut call = task_call("work");
    call["_meta"] = json!({"progressToken": "mine"});
    let created = host.result("tools/call", call).await;
    let id = created["task"]["taskId"].clone();
    let own = server.tasks()[0].id.clone();
    server.report_task_progress(&own, 1.0, Some(2.0)).await;
    let progress = host.notification("notifications/progress").await;
    assert_eq!(progress["params"]["progressToken"], "mine");
    assert_eq!(progress["params"]["progress"].as_f64(), Some(1.0));
    assert_eq!(progress["params"]["_meta"][RELATED_TASK]["taskId"], id);
    server.wait_until(|server| server.set_task_message(&own, "half"), TEST_TIMEOUT).await;
    let told = host.notification("notifications/tasks/status").await;
    assert_eq!((&told["params"]["taskId"], &told["params"]["statusMessage"]), (&id, &json!("half")));
    assert!(server.finish_task(&own));
    let told = host.notification("notifications/tasks/status").await;
    assert_eq!((&told["params"]["taskId"], &told["params"]["status"]), (&id, &json!("completed")));
    let result = host.result("tasks/result", json!({"taskId": id})).await;
    assert_eq!(result["_meta"][RELATED_TASK]["taskId"], id);
    assert!(other.is_silent().await, "the other host hears nothing of it");
    host.close().await;
    other.close().await;
}

/// TA-05: the list has the tasks of the session, with their states, and no others.
#[tokio::test]
async fn ta_05_a_session_lists_its_own_tasks() {
    let (legacy, modern) = (legacy_server().await, modern_server().await);
    let gateway = gateway([at("one", &legacy), at("two", &modern)]);
    let (mut host, mut other) = (join(&gateway).await, join(&gateway).await);
    let ids = [create(&mut host, "one__work").await, create(&mut host, "two__work").await];
    let foreign = create(&mut other, "one__work").await;
    assert!(legacy.finish_task(&legacy.tasks()[0].id));
    assert!(modern.cancel_task(&modern.tasks()[0].id));
    let list = host.result("tasks/list", json!({})).await;
    let listed: Vec<_> = list["tasks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|task| (task["taskId"].as_str().unwrap(), task["status"].as_str().unwrap()))
        .collect();
    assert_eq!(listed, [(&*ids[0], "completed"), (&*ids[1], "cancelled")]);
    assert_eq!(host.error("tasks/list", json!({"cursor": "1"})).await["code"], -32602);
    let list = other.result("tasks/list", Value::Null).await;
    assert_eq!(list["tasks"].as_array().unwrap().len(), 1);
    assert_eq!(list["tasks"][0]["taskId"], *foreign);
    // A task that its server has dropped is not listed.
    assert!(legacy.forget_task(&legacy.tasks()[1].id));
    assert_eq!(other.result("tasks/list", Value::Null).await["tasks"], json!([]));
    host.close().await;
    other.close().await;
    assert_eq!((legacy.violations(), modern.violations()), (vec![], vec![]));
}

/// TA-02: a server with the extension may answer at once. A host that asked for a task gets one.
#[tokio::test]
async fn ta_02_an_immediate_answer_is_a_task_that_has_ended() {
    let server = modern_server().await;
    let mut host = join(&gateway([at("one", &server)])).await;
    let created = host.result("tools/call", task_call("echo")).await;
    assert_eq!((&created["task"]["status"], &created["task"]["ttl"]), (&json!("completed"), &json!(60_000)));
    let id = &created["task"]["taskId"];
    let state = host.result("tasks/get", json!({"taskId": id})).await;
    assert_eq!(state, created["task"]);
    for _ in 0..2 {
        let result = host.result("tasks/result", json!({"taskId": id})).await;
        assert_eq!(result["content"][0]["text"], r#"{"n":1}"#);
        assert_eq!(result["_meta"][RELATED_TASK]["taskId"], *id);
    }
    assert_eq!(host.error("tasks/cancel", json!({"taskId": id})).await["code"], -32602);
    assert_eq!(host.result("tasks/list", json!({})).await["tasks"], json!([state]));
    assert_eq!((server.executions("echo"), server.count("tasks/get")), (1, 0));
    host.close().await;
}

/// SE-09: only ids that were issued to the host are known, and servers do not hear of others.
#[tokio::test]
async fn se_09_ids_of_servers_and_of_other_views_are_unknown() {
    let server = legacy_server().await;
    let gateway = Gateway::builder([at("one", &server)]).view("a", View::default()).build();
    let mut host = join(&gateway).await;
    let mut other = TestHost::join_view(&gateway, "a");
    other.initialize(json!({})).await;
    let id = create(&mut host, "work").await;
    let own = server.tasks()[0].id.clone();
    let unknown = json!({"code": -32602, "message": "Task not found"});
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        assert_eq!(other.error(method, json!({"taskId": id})).await, unknown, "{method}");
        assert_eq!(host.error(method, json!({"taskId": own})).await, unknown, "{method}");
        assert_eq!(host.error(method, json!({})).await["code"], -32602, "{method}");
    }
    assert_eq!(["tasks/get", "tasks/result", "tasks/cancel"].map(|method| server.count(method)), [0, 0, 0]);
    assert_eq!(host.result("tasks/get", json!({"taskId": id})).await["status"], "working");
    host.close().await;
    other.close().await;
}

/// The wait for a result ends with the request of the host, and the task goes on.
#[tokio::test]
async fn cn_02_a_host_that_stops_waiting_does_not_cancel_the_task() {
    let server = legacy_server().await;
    let mut host = join(&gateway([at("one", &server)])).await;
    let id = create(&mut host, "work").await;
    host.send_request(7, "tasks/result", json!({"taskId": id})).await;
    server.wait_for(|received| received.has_method("tasks/get"), TEST_TIMEOUT).await;
    host.send_notification("notifications/cancelled", json!({"requestId": 7})).await;
    assert_eq!(host.result("tasks/get", json!({"taskId": id})).await["status"], "working");
    assert!(server.finish_task(&server.tasks()[0].id));
    let result = host.result("tasks/result", json!({"taskId": id})).await;
    assert_eq!(result["content"][0]["text"], r#"{"n":1}"#);
    assert_eq!((server.count("tasks/cancel"), server.cancellations().len()), (0, 0));
    host.close().await;
}

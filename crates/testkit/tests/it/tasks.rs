//! Tasks of 2025-11-25 and of the extension.

use std::time::Duration;

use bowline_testkit::{self as testkit, Fault, HttpServer, ScriptedRequest, TaskPlan, Tool};
use serde_json::{Value, json};

use crate::support::{Client, Events, TEST_TIMEOUT, modern_client, modern_params, request, within_timeout};

const RELATED: &str = "io.modelcontextprotocol/related-task";

/// Creates a task of the legacy dialect and returns its id.
async fn begin(client: &Client, tool: &str) -> String {
    let params = json!({"name": tool, "arguments": {"n": 1}, "task": {"ttl": 60_000}});
    let created = client.result("tools/call", params).await;
    assert_eq!((&created["task"]["status"], &created["task"]["ttl"]), (&json!("working"), &json!(60_000)));
    created["task"]["taskId"].as_str().unwrap().to_owned()
}

async fn error(client: &Client, method: &str, params: Value) -> i64 {
    client.post(&request(1, method, params)).await.last()["error"]["code"].as_i64().unwrap()
}

/// Sends a modern request as a client that declares the tasks extension.
async fn send(server: &HttpServer, method: &str, mut params: Value) -> Value {
    let name = params.get("taskId").or(params.get("name")).and_then(Value::as_str).map(str::to_owned);
    params = modern_params(params);
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"]["extensions"] =
        json!({"io.modelcontextprotocol/tasks": {}});
    modern_client(server.addr(), method, name.as_deref()).post(&request(1, method, params)).await.message()
}

async fn spawn(server: &HttpServer, tool: &str) -> (String, Value) {
    let created = send(server, "tools/call", json!({"name": tool})).await["result"].clone();
    assert_eq!(created["resultType"], "task", "{created}");
    (created["taskId"].as_str().unwrap().to_owned(), created)
}

// TA-01, TA-02, TA-03, TA-05
#[tokio::test]
async fn a_legacy_task_is_polled_listed_and_cancelled() {
    let server = testkit::server()
        .tool(Tool::named("echo").task(TaskPlan::after_polls(2).immediate("soon")))
        .tool(Tool::named("must").task(TaskPlan::manual().required()))
        .tool("plain")
        .page_size(1)
        .run()
        .await;
    let client = Client::legacy(server.addr()).await;
    let listed = client.result("tools/list", json!({})).await;
    assert_eq!(listed["tools"][0]["execution"], json!({"taskSupport": "optional"}));
    assert_eq!(client.call("echo", json!({"n": 1})).await, r#"{"n":1}"#);
    assert_eq!(error(&client, "tools/call", json!({"name": "must"})).await, -32601);
    assert_eq!(error(&client, "tools/call", json!({"name": "plain", "task": {}})).await, -32601);

    let id = begin(&client, "echo").await;
    let get = || client.result("tasks/get", json!({"taskId": id}));
    assert_eq!(get().await["status"], "working");
    let done = get().await;
    assert_eq!((&done["status"], &done["pollInterval"]), (&json!("completed"), &json!(10)));
    let result = client.result("tasks/result", json!({"taskId": id})).await;
    assert_eq!(result["content"][0]["text"], r#"{"n":1}"#);
    assert_eq!(result["_meta"][RELATED], json!({"taskId": id}));
    assert_eq!(error(&client, "tasks/cancel", json!({"taskId": id})).await, -32602);

    let other = begin(&client, "must").await;
    assert_eq!(client.result("tasks/cancel", json!({"taskId": other})).await["status"], "cancelled");
    assert_eq!(error(&client, "tasks/result", json!({"taskId": other})).await, -32603);
    let first = client.result("tasks/list", json!({})).await;
    assert_eq!(first["tasks"][0]["taskId"], *id);
    let second = client.result("tasks/list", json!({"cursor": first["nextCursor"]})).await;
    assert_eq!(second["tasks"][0]["taskId"], *other);

    assert!(server.forget_task(&id));
    assert_eq!(error(&client, "tasks/get", json!({"taskId": id})).await, -32602);
    assert_eq!(server.tasks().len(), 1);
    assert_eq!(server.violations(), Vec::<String>::new());
}

// TA-04
#[tokio::test]
async fn a_legacy_task_asks_while_its_result_is_waited_for() {
    let plan = TaskPlan::manual().asks([ScriptedRequest::form_elicitation(
        "city",
        "Where?",
        json!({"type": "object"}),
    )]);
    let server = testkit::server().tool(Tool::named("book").task(plan)).reply_sse().run().await;
    let client = Client::legacy(server.addr()).await;
    let mut news = Events::open(&client, "GET", &Value::Null).await;
    let id = begin(&client, "book").await;
    assert_eq!(client.result("tasks/get", json!({"taskId": id})).await["status"], "input_required");
    let told = news.next().await;
    assert_eq!(told["method"], "notifications/tasks/status");
    assert_eq!(told["params"]["status"], "input_required");
    let result = request(5, "tasks/result", json!({"taskId": id}));
    let mut stream = Events::open(&client, "POST", &result).await;
    let asked = stream.next().await;
    assert_eq!(asked["params"]["_meta"][RELATED], json!({"taskId": id}));
    let accepted = json!({"action": "accept", "_meta": {RELATED: {"taskId": id}}});
    client.post(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": accepted})).await;
    assert_eq!(news.next().await["params"]["status"], "working");
    assert!(server.finish_task(&id));
    assert_eq!(news.next().await["params"]["status"], "completed");
    let last = stream.next().await;
    assert_eq!(last["id"], 5);
    assert!(last["result"]["content"][0]["text"].as_str().unwrap().contains("accept"));
    assert_eq!(server.task(&id).input_responses["city"]["action"], "accept");
    assert!(!server.finish_task(&id) && server.violations().is_empty());
}

// TA-04, TN-04: the dialects differ in the status of an error result.
#[tokio::test]
async fn failures_in_both_dialects() {
    let server = testkit::server()
        .tool(Tool::named("wrong").task(TaskPlan::after_polls(1).fails("no such city")))
        .tool(Tool::named("broken").task(TaskPlan::after_polls(1).error(-32099, "out of order")))
        .run()
        .await;
    let client = Client::legacy(server.addr()).await;
    let wrong = begin(&client, "wrong").await;
    assert_eq!(client.result("tasks/get", json!({"taskId": wrong})).await["status"], "failed");
    assert_eq!(client.result("tasks/result", json!({"taskId": wrong})).await["isError"], true);
    let broken = begin(&client, "broken").await;
    assert_eq!(error(&client, "tasks/result", json!({"taskId": broken})).await, -32099);

    let (wrong, _) = spawn(&server, "wrong").await;
    let got = send(&server, "tasks/get", json!({"taskId": wrong})).await["result"].clone();
    assert_eq!((&got["status"], &got["result"]["isError"]), (&json!("completed"), &json!(true)));
    let (broken, _) = spawn(&server, "broken").await;
    let got = send(&server, "tasks/get", json!({"taskId": broken})).await["result"].clone();
    assert_eq!(got["error"], json!({"code": -32099, "message": "out of order"}));
}

// TA-03: a task outlives its session and a restart of the server.
#[tokio::test]
async fn a_task_outlives_session_and_server() {
    let plan = TaskPlan::manual().result(json!({"content": []}));
    let server = testkit::server().tool(Tool::named("long").task(plan)).run().await;
    let client = Client::legacy(server.addr()).await;
    let id = begin(&client, "long").await;
    let (modern, created) = spawn(&server, "long").await;
    assert_eq!(created["pollIntervalMs"], 10);
    let waiting = tokio::spawn({
        let client = Client { headers: client.headers.clone(), ..Client::new(client.addr) };
        let message = request(9, "tasks/result", json!({"taskId": id}));
        async move { client.try_post(&message).await }
    });
    server.wait_for(|r| r.has_method("tasks/result"), TEST_TIMEOUT).await;
    server.restart().await;
    assert!(
        within_timeout(waiting).await.unwrap().is_ok_and(|reply| reply.broken && reply.messages().is_empty())
    );
    let client = Client::legacy(server.addr()).await;
    assert_eq!(client.result("tasks/get", json!({"taskId": id})).await["status"], "working");
    assert!(server.finish_task(&id) && server.finish_task_with(&modern, json!({"content": [1]})));
    assert_eq!(client.result("tasks/result", json!({"taskId": id})).await["content"], json!([]));
    let got = send(&server, "tasks/get", json!({"taskId": modern})).await["result"].clone();
    assert_eq!((&got["resultType"], &got["result"]), (&json!("complete"), &json!({"content": [1]})));
}

// TN-01, TN-03, TN-05, TN-06, TN-07, TN-10
#[tokio::test]
async fn a_task_of_the_extension_asks_and_ends() {
    let asks = [
        ScriptedRequest::form_elicitation("a", "?", json!({})),
        ScriptedRequest::form_elicitation("b", "?", json!({})),
    ];
    let plan = TaskPlan::after_polls(2).asks(asks).lingers(1).ttl(Duration::from_secs(60));
    let server = testkit::server().tool(Tool::named("book").task(plan)).modern().run().await;
    let found = send(&server, "server/discover", json!({})).await["result"].clone();
    assert_eq!(found["capabilities"]["extensions"], json!({"io.modelcontextprotocol/tasks": {}}));
    let (id, created) = spawn(&server, "book").await;
    assert_eq!((&created["status"], &created["ttlMs"]), (&json!("working"), &json!(60_000)));
    let get = || async { send(&server, "tasks/get", json!({"taskId": id})).await["result"].clone() };
    assert_eq!(get().await["status"], "working");
    let asked = get().await;
    assert_eq!(asked["inputRequests"].as_object().unwrap().len(), 2);
    let update =
        |answers: Value| send(&server, "tasks/update", json!({"taskId": id, "inputResponses": answers}));
    assert_eq!(update(json!({"a": {"action": "accept"}})).await["result"]["resultType"], "complete");
    assert_eq!(get().await["inputRequests"].as_object().unwrap().len(), 1);
    update(json!({"b": {"action": "decline"}})).await;
    assert_eq!(get().await["inputRequests"].as_object().unwrap().len(), 2, "it lingers");
    update(json!({"b": {"action": "decline"}})).await;
    assert_eq!(server.violations(), [format!("an answer to nothing: input b of {id}")]);
    let done = get().await;
    let words: Value = serde_json::from_str(done["result"]["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(words, json!({"a": {"action": "accept"}, "b": {"action": "decline"}}));
    for method in ["tasks/result", "tasks/list"] {
        assert_eq!(send(&server, method, json!({"taskId": id})).await["error"]["code"], -32601);
    }
    assert_eq!(
        send(&server, "tasks/cancel", json!({"taskId": id})).await["result"]["resultType"],
        "complete"
    );
    let nameless = modern_client(server.addr(), "tasks/get", None);
    let reply = nameless.post(&request(1, "tasks/get", modern_params(json!({"taskId": id})))).await;
    assert_eq!(reply.message()["error"]["code"], -32020);
    assert_eq!(server.task(&id).polls, 5);
    assert!(server.task(&id).min_poll_interval.is_some());
}

// TN-01, TN-08
#[tokio::test]
async fn the_extension_must_be_declared() {
    let server = testkit::server().tool(Tool::named("echo").task(TaskPlan::manual())).modern().run().await;
    let plain = |method: &'static str, name: Option<&'static str>, params: Value| {
        let client = modern_client(server.addr(), method, name);
        async move { client.post(&request(1, method, modern_params(params))).await }
    };
    let echoed = plain("tools/call", Some("echo"), json!({"name": "echo"})).await.message();
    assert_eq!(echoed["result"]["resultType"], "complete");
    let refused = plain("tasks/get", Some("t"), json!({"taskId": "t"})).await.message();
    assert_eq!(
        refused["error"]["data"]["requiredCapabilities"]["extensions"],
        json!({"io.modelcontextprotocol/tasks": {}})
    );
    let filter = json!({"notifications": {"taskIds": ["t"]}});
    let refused = plain("subscriptions/listen", None, filter).await.message();
    assert_eq!(refused["error"]["code"], -32021);
}

// TN-08
#[tokio::test]
async fn subscriptions_tell_of_tasks() {
    let server = testkit::server().tool(Tool::named("echo").task(TaskPlan::manual())).modern().run().await;
    let (id, _) = spawn(&server, "echo").await;
    let (other, _) = spawn(&server, "echo").await;
    let mut params = modern_params(json!({"notifications": {"taskIds": [id]}}));
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"]["extensions"] =
        json!({"io.modelcontextprotocol/tasks": {}});
    let client = modern_client(server.addr(), "subscriptions/listen", None);
    let mut stream = Events::open(&client, "POST", &request("l", "subscriptions/listen", params)).await;
    assert_eq!(stream.next().await["params"]["notifications"], json!({"taskIds": [id]}));
    server.finish_task(&other);
    server.set_task_message(&id, "half way");
    let told = stream.next().await["params"].clone();
    assert_eq!((&told["taskId"], &told["statusMessage"]), (&json!(id), &json!("half way")));
    assert_eq!(told["_meta"]["io.modelcontextprotocol/subscriptionId"], "l");
    server.finish_task(&id);
    assert_eq!(stream.next().await["params"]["result"]["content"][0]["text"], "{}");
}

// PR-03
#[tokio::test]
async fn progress_goes_on_after_the_task_was_created() {
    let server = testkit::server().tool(Tool::named("echo").task(TaskPlan::manual())).run().await;
    let client = Client::legacy(server.addr()).await;
    let params = json!({"name": "echo", "task": {}, "_meta": {"progressToken": "p"}});
    let id = client.result("tools/call", params).await["task"]["taskId"].as_str().unwrap().to_owned();
    let mut news = Events::open(&client, "GET", &Value::Null).await;
    server.report_task_progress(&id, 1.5, Some(3.0)).await;
    let told = news.next().await;
    assert_eq!((&told["params"]["progressToken"], &told["params"]["progress"]), (&json!("p"), &json!(1.5)));
}

/// Faults strike task methods like any other.
#[tokio::test]
async fn faults_strike_task_methods() {
    let server = testkit::server().tool(Tool::named("echo").task(TaskPlan::after_polls(1))).run().await;
    let client = Client::legacy(server.addr()).await;
    let id = begin(&client, "echo").await;
    server.arm(Fault::status(503).on("tasks/get"));
    assert_eq!(client.post(&request(1, "tasks/get", json!({"taskId": id}))).await.status, 503);
    assert_eq!(server.task(&id).polls, 0);
}

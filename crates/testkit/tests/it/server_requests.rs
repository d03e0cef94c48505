//! Server requests to the client: legacy requests, modern rounds.

use bowline_testkit::{self as testkit, Completion, Resource, ScriptedRequest, TaskPlan, Tool};
use serde_json::{Value, json};

use crate::stdio::Pipes;
use crate::support::{Client, Events, TEST_TIMEOUT, initialize, modern_client, modern_params, request};

fn answer(id: &Value, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

/// Returns the text of a tool's result, parsed as JSON.
fn result_json(message: &Value) -> Value {
    serde_json::from_str(message["result"]["content"][0]["text"].as_str().unwrap()).unwrap()
}

async fn call(server: &testkit::HttpServer, method: &str, name: &str, params: Value) -> Value {
    modern_client(server.addr(), method, Some(name))
        .post(&request(1, method, modern_params(params)))
        .await
        .message()
}

// HL-06
#[tokio::test]
async fn a_legacy_tool_asks_several_things_in_rounds() {
    let first = vec![
        ScriptedRequest::form_elicitation("city", "Where?", json!({"type": "object"})),
        ScriptedRequest::roots("files"),
    ];
    let second = vec![ScriptedRequest::sampling("words", "hi", 10)];
    let server = testkit::server().tool(Tool::asks_in_rounds("book", [first, second])).run().await;
    let client = Client::legacy(server.addr()).await;
    let call = request(4, "tools/call", json!({"name": "book"}));
    let mut stream = Events::open(&client, "POST", &call).await;
    let city = stream.next().await;
    let files = stream.next().await;
    assert_eq!((&city["method"], &files["method"]), (&json!("elicitation/create"), &json!("roots/list")));
    assert_eq!(city["params"]["mode"], "form");
    assert!(files.get("params").is_none());
    assert_eq!(server.pending_server_requests().len(), 2);
    // Answered in another order than requested.
    let refused = json!({"jsonrpc": "2.0", "id": files["id"], "error": {"code": -32601, "message": "no"}});
    client.post(&refused).await;
    client.post(&answer(&city["id"], json!({"action": "accept", "content": {"city": "Oslo"}}))).await;
    let words = stream.next().await;
    assert_eq!(words["params"]["maxTokens"], 10);
    client.post(&answer(&words["id"], json!({"role": "assistant"}))).await;
    let last = stream.next().await;
    assert_eq!(
        result_json(&last),
        json!({
            "city": {"action": "accept", "content": {"city": "Oslo"}},
            "files": {"error": {"code": -32601, "message": "no"}},
            "words": {"role": "assistant"},
        })
    );
    assert_eq!(server.executions("book"), 1);
    assert!(server.pending_server_requests().is_empty() && server.violations().is_empty());
}

// CN-04
#[tokio::test]
async fn the_server_takes_its_own_request_back() {
    let server = testkit::server().tool(Tool::asks("look", [ScriptedRequest::roots("files")])).run().await;
    let client = Client::legacy(server.addr()).await;
    let call = request(4, "tools/call", json!({"name": "look"}));
    let mut stream = Events::open(&client, "POST", &call).await;
    let asked = stream.next().await;
    assert!(server.cancel_server_request(&server.pending_server_requests()[0].id, "too slow"));
    let withdrawn = stream.next().await;
    assert_eq!(withdrawn["method"], "notifications/cancelled");
    assert_eq!(withdrawn["params"], json!({"requestId": asked["id"], "reason": "too slow"}));
    assert_eq!(result_json(&stream.next().await), json!({"files": {"cancelled": "too slow"}}));
    client.post(&answer(&asked["id"], json!({}))).await;
    assert!(server.violations()[0].starts_with("an answer to a cancelled request"));

    let mut stream = Events::open(&client, "GET", &Value::Null).await;
    let roots = server.send_request("roots/list", json!({})).await;
    assert_eq!(stream.next().await["id"], *roots.id());
    assert!(roots.cancel("never mind"));
    assert_eq!(stream.next().await["method"], "notifications/cancelled");
    assert!(server.pending_server_requests().is_empty());
}

// MR-03, MR-04, MR-06, MR-08
#[tokio::test]
async fn a_modern_tool_asks_round_by_round() {
    let rounds = [
        vec![ScriptedRequest::form_elicitation("city", "Where?", json!({}))],
        vec![],
        vec![ScriptedRequest::roots("files")],
    ];
    let server = testkit::server()
        .tool(Tool::asks_in_rounds("book", rounds).ignoring_capabilities())
        .modern()
        .run()
        .await;
    let mut params = json!({"name": "book", "arguments": {"n": 1}});
    let first = call(&server, "tools/call", "book", params.clone()).await["result"].clone();
    assert_eq!(first["inputRequests"]["city"]["params"]["message"], "Where?");
    params["requestState"] = first["requestState"].clone();
    // Nothing was answered: the requests are sent again, with another state.
    let again = call(&server, "tools/call", "book", params.clone()).await["result"].clone();
    assert_eq!(again["inputRequests"], first["inputRequests"]);
    assert_ne!(again["requestState"], first["requestState"]);
    params["requestState"] = again["requestState"].clone();
    params["inputResponses"] = json!({"city": {"action": "decline"}});
    let waiting = call(&server, "tools/call", "book", params.clone()).await["result"].clone();
    assert!(waiting.get("inputRequests").is_none());
    params.as_object_mut().unwrap().remove("inputResponses");
    params["requestState"] = waiting["requestState"].clone();
    let third = call(&server, "tools/call", "book", params.clone()).await["result"].clone();
    assert_eq!(third["inputRequests"], json!({"files": {"method": "roots/list"}}));
    assert_eq!(server.violations(), Vec::<String>::new());
    assert_eq!(server.executions("book"), 0);
    params["requestState"] = third["requestState"].clone();
    params["inputResponses"] = json!({"files": {"roots": []}, "city": {"action": "accept"}});
    params["arguments"] = json!({"n": 2});
    let done = call(&server, "tools/call", "book", params).await;
    assert_eq!(result_json(&done)["files"], json!({"roots": []}));
    let violations = server.violations();
    assert!(violations[0].contains(r#""n":1"#) && violations[0].contains(r#""n":2"#), "{violations:?}");
    assert_eq!(violations[1], "an answer to nothing: input city");
}

#[tokio::test]
async fn states_are_dictated() {
    let tool = || Tool::asks("ask_me", [ScriptedRequest::form_elicitation("q", "?", json!({}))]);
    let server = testkit::server().tool(tool().request_states([None])).modern().run().await;
    let mut params = json!({"name": "ask_me"});
    let asked = call(&server, "tools/call", "ask_me", params.clone()).await["result"].clone();
    assert!(asked.get("requestState").is_none());
    params["inputResponses"] = json!({"q": {"action": "cancel"}});
    let done = call(&server, "tools/call", "ask_me", params.clone()).await;
    assert_eq!(result_json(&done), json!({"q": {"action": "cancel"}}));
    let stale = call(&server, "tools/call", "ask_me", params).await;
    assert_eq!(stale["error"]["code"], -32602);
}

// GW-04, as the test server itself must follow it.
#[tokio::test]
async fn only_what_was_declared_is_asked() {
    let server = testkit::server()
        .tool(Tool::asks("page", [ScriptedRequest::url_elicitation("p", "Log in", "https://example.com/")]))
        .tool(Tool::asks("form", [ScriptedRequest::form_elicitation("f", "?", json!({}))]))
        .modern()
        .run()
        .await;
    let refused = call(&server, "tools/call", "page", json!({"name": "page"})).await;
    assert_eq!(refused["error"]["code"], -32021);
    assert_eq!(refused["error"]["data"]["requiredCapabilities"], json!({"elicitation": {"url": {}}}));
    let asked = call(&server, "tools/call", "form", json!({"name": "form"})).await;
    assert_eq!(asked["result"]["resultType"], "input_required");
}

// MR-01: prompts and resources request input as well.
#[tokio::test]
async fn prompts_and_resources_ask() {
    let server = testkit::server()
        .prompt("greet", "Hello")
        .resource("file:///a", "alpha")
        .asks("prompts/get", "greet", [ScriptedRequest::form_elicitation("f", "?", json!({}))])
        .asks("resources/read", "file:///a", [("r", "elicitation/create", json!({"message": "?"}))])
        .run()
        .await;
    for (method, member, target) in [("prompts/get", "name", "greet"), ("resources/read", "uri", "file:///a")]
    {
        let mut params = json!({member: target});
        let asked = call(&server, method, target, params.clone()).await["result"].clone();
        assert_eq!(asked["resultType"], "input_required");
        assert!(asked.get("ttlMs").is_none());
        params["requestState"] = asked["requestState"].clone();
        let key = asked["inputRequests"].as_object().unwrap().keys().next().unwrap();
        params["inputResponses"] = json!({key: {"action": "accept"}});
        let done = call(&server, method, target, params).await["result"].clone();
        assert_eq!(done["resultType"], "complete", "{done}");
    }
    let client = Client::legacy(server.addr()).await;
    let read = request(4, "resources/read", json!({"uri": "file:///a"}));
    let mut stream = Events::open(&client, "POST", &read).await;
    let asked = stream.next().await;
    client.post(&answer(&asked["id"], json!({}))).await;
    assert_eq!(stream.next().await["result"]["contents"][0]["text"], "alpha");
    server.wait_until(|s| s.pending_server_requests().is_empty(), TEST_TIMEOUT).await;
}

// The script is passed as JSON, and everything above works without HTTP and without a test behind
// it.
#[tokio::test]
async fn a_process_on_its_own_asks_and_has_tasks() {
    let script = testkit::server()
        .tool(Tool::asks("look", [ScriptedRequest::roots("files")]))
        .tool(Tool::named("long").task(TaskPlan::after_polls(1)))
        .tool(Tool::logs("talk", [("info", json!("hi"))]))
        .tool(Tool::needs_url_elicitations("pay", [("e", "https://example.com/")]))
        .resource_with(Resource::blob("file:///a", "image/png", b"a"))
        .template("db://{t}")
        .completes(Completion::prompt("p", "a", &["x"]).given("b", "y"))
        .asks("prompts/get", "p", [ScriptedRequest::roots("r")])
        .prompt("p", "text")
        .cache("tools/list", json!({"ttlMs": 1}))
        .listen_grants(&["toolsListChanged"]);
    let mut pipes = Pipes::start(&testkit::stdio_command(&script));
    let reply = pipes.ask(&initialize("2025-11-25")).await;
    assert_eq!(reply["result"]["capabilities"]["tasks"]["requests"], json!({"tools": {"call": {}}}));
    pipes.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    let asked = pipes.ask(&request(1, "tools/call", json!({"name": "look"}))).await;
    assert_eq!(asked["method"], "roots/list");
    let done = pipes.ask(&answer(&asked["id"], json!({"roots": []}))).await;
    assert_eq!(result_json(&done), json!({"files": {"roots": []}}));
    let created = pipes.ask(&request(2, "tools/call", json!({"name": "long", "task": {}}))).await;
    let id = &created["result"]["task"]["taskId"];
    let ended = pipes.ask(&request(3, "tasks/result", json!({"taskId": id}))).await;
    assert_eq!(ended["method"], "notifications/tasks/status");
    let result: Value = serde_json::from_str(&pipes.line().await).unwrap();
    assert_eq!(result["result"]["content"][0]["text"], "{}");
    let logged = pipes.ask(&request(4, "tools/call", json!({"name": "talk"}))).await;
    assert_eq!(logged["params"]["data"], "hi");
}

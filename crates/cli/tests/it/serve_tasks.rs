//! Tasks of hosts of `bowline serve`: hosts of both kinds of tasks, in front of servers of both kinds.

mod across_eras;
mod limits_of_access;
mod result_wait;

use std::time::Duration;

use bowline_testkit::{self as testkit, Control, HttpServer, Script, ScriptedRequest, TaskPlan, Tool};
use serde_json::{Value, json};

use crate::connect::host::TEST_TIMEOUT;
use crate::context::Context;
use crate::serve::Gateway;
use crate::serve_grid::host::{GridHost, Outcome, RELATED_TASK, Revision, reply_to};
use crate::status::http_entry;

/// A server with tools that become tasks.
fn script() -> Script {
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    let form = |key: &str| ScriptedRequest::form_elicitation(key, "Where?", schema.clone());
    let soon = || TaskPlan::after_polls(1).poll_interval(Duration::from_millis(20));
    testkit::server()
        .tool("echo")
        .tool(Tool::named("work").task(TaskPlan::manual().poll_interval(Duration::from_millis(20))))
        .tool(Tool::named("broken").task(soon().fails("it broke")))
        .tool(Tool::named("error").task(soon().error(-32_099, "no such thing")))
        .tool(Tool::named("asks").task(soon().asks([form("k")])))
        .tool(Tool::named("only").task(soon().required()))
}

/// The era of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServerEra {
    Legacy,
    Modern,
}

async fn server(era: ServerEra) -> HttpServer {
    match era {
        ServerEra::Legacy => script().legacy().run().await,
        ServerEra::Modern => script().modern().run().await,
    }
}

/// `bowline serve` in front of one server.
struct Site {
    context: Context,
    gateway: Gateway,
    address: String,
}

impl Site {
    async fn start(server: &HttpServer) -> Self {
        let context = Context::new();
        context.user_config(&http_entry("up", server));
        Self::start_in(context, "127.0.0.1:0").await
    }

    async fn start_in(context: Context, address: &str) -> Self {
        let mut gateway = Gateway::start(&context, &["--listen", address, "--no-token"]);
        let url = gateway.url().await;
        gateway.note().await;
        let address = url.strip_prefix("http://").and_then(|rest| rest.split('/').next()).expect("a URL");
        Self { context, gateway, address: address.to_owned() }
    }

    /// Kills the gateway, and starts it again at the same address.
    async fn kill_and_restart(self) -> Self {
        let Self { context, gateway, address } = self;
        gateway.kill().await;
        Self::start_in(context, &address).await
    }

    async fn host(&self, revision: Revision) -> TaskHost {
        TaskHost::connect(&self.address, revision, None).await
    }

    async fn stop(self, server: &Control) {
        assert_eq!(server.violations(), [""; 0]);
        assert_eq!(self.gateway.terminate().await.code(), Some(0));
    }
}

/// A host that uses tasks, in the way of its revision.
struct TaskHost(GridHost);

/// How a task ended, as a host of either kind can tell.
#[derive(Debug, PartialEq)]
enum End {
    /// With a result that has this text.
    Text(String),
    /// With a result of a tool that failed, which has this text.
    ToolError(String),
    /// With a JSON-RPC error of this code.
    Error(i64),
    Canceled,
}

impl TaskHost {
    async fn connect(address: &str, revision: Revision, token: Option<&str>) -> Self {
        let mut host = GridHost::connect_with_token(address, revision, token).await;
        host.declares_tasks = revision == Revision::V2026_07_28;
        Self(host)
    }

    fn is_modern(&self) -> bool {
        self.0.revision == Revision::V2026_07_28
    }

    /// Calls a tool as a task. Returns the result that creates the task.
    async fn create_raw(&mut self, tool: &str, arguments: Value) -> Value {
        let mut call = json!({"name": tool, "arguments": arguments});
        if !self.is_modern() {
            call["task"] = json!({"ttl": 60_000});
        }
        self.0.result("tools/call", call).await
    }

    /// Calls a tool as a task. Returns the state of the task.
    async fn create(&mut self, tool: &str) -> Value {
        let result = self.create_raw(tool, json!({"n": 1})).await;
        if self.is_modern() {
            assert_eq!(result["resultType"], "task", "{result}");
            assert!(result.get("ttlMs").is_some() && result.get("ttl").is_none(), "{result}");
            return result;
        }
        let state = result["task"].clone();
        assert!(state.get("ttl").is_some() && state.get("ttlMs").is_none(), "{result}");
        state
    }

    async fn create_id(&mut self, tool: &str) -> String {
        id_of(&self.create(tool).await)
    }

    async fn about(&mut self, method: &str, id: &str) -> Value {
        self.0.result(method, json!({"taskId": id})).await
    }

    /// The error of a request about a task.
    async fn error(&mut self, method: &str, params: Value) -> Value {
        let Outcome { answer, .. } = self.0.request(method, params).await;
        assert!(answer.get("result").is_none(), "{answer}");
        answer["error"].clone()
    }

    async fn state(&mut self, id: &str) -> Value {
        let state = self.about("tasks/get", id).await;
        assert_eq!(state["taskId"], *id);
        state
    }

    /// Polls until the task has this status.
    async fn wait_for_status(&mut self, id: &str, status: &str) -> Value {
        let polling = async {
            loop {
                let state = self.state(id).await;
                if state["status"] == status {
                    return state;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(TEST_TIMEOUT, polling).await.expect("the status in time")
    }

    /// Waits for the end of a task, and answers its questions, in the way of the revision. Returns the
    /// methods of the questions too.
    async fn wait(&mut self, id: &str) -> (End, Vec<String>) {
        if !self.is_modern() {
            return self.wait_for_result(id).await;
        }
        let polling = async {
            let mut asked = Vec::new();
            loop {
                let state = self.state(id).await;
                let end = match state["status"].as_str() {
                    Some("completed") => end_of_result(&state["result"]),
                    Some("failed") => End::Error(state["error"]["code"].as_i64().expect("a code")),
                    Some("cancelled") => End::Canceled,
                    Some("input_required") => {
                        let mut responses = json!({});
                        for (key, question) in state["inputRequests"].as_object().expect("questions") {
                            assert_eq!(question["params"]["_meta"][RELATED_TASK], Value::Null);
                            asked.push(question["method"].as_str().expect("a method").to_owned());
                            responses[key] = reply_to(question);
                        }
                        let update = json!({"taskId": id, "inputResponses": responses});
                        let updated = self.0.result("tasks/update", update).await;
                        assert_eq!(updated["resultType"], "complete");
                        continue;
                    }
                    _ => {
                        tokio::time::sleep(Duration::from_millis(20)).await;
                        continue;
                    }
                };
                return (end, asked);
            }
        };
        tokio::time::timeout(TEST_TIMEOUT, polling).await.expect("the end in time")
    }

    async fn wait_for_result(&mut self, id: &str) -> (End, Vec<String>) {
        let outcome = self.0.request("tasks/result", json!({"taskId": id})).await;
        for question in &outcome.questions {
            assert_eq!(question["params"]["_meta"][RELATED_TASK], json!({"taskId": id}), "{question}");
        }
        let answer = &outcome.answer;
        let end = match answer["error"]["code"].as_i64() {
            Some(-32_603) if answer["error"]["message"] == "The task was cancelled" => End::Canceled,
            Some(code) => End::Error(code),
            None => {
                assert_eq!(answer["result"]["_meta"][RELATED_TASK], json!({"taskId": id}), "{answer}");
                end_of_result(&answer["result"])
            }
        };
        (end, outcome.asked)
    }
}

fn id_of(state: &Value) -> String {
    state["taskId"].as_str().expect("an id").to_owned()
}

fn end_of_result(result: &Value) -> End {
    let text = result["content"][0]["text"].as_str().expect("text").to_owned();
    if result["isError"] == true { End::ToolError(text) } else { End::Text(text) }
}

/// The id of the only task, as the server knows it.
fn only_task(server: &Control) -> String {
    let tasks = server.tasks();
    assert_eq!(tasks.len(), 1, "{tasks:?}");
    tasks[0].id.clone()
}

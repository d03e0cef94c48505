//! Tasks of both eras through one API (groups TA and TN, PR-03, CN-02).

mod ending;
mod follow;
mod handles;
mod input_required;
mod raw;
mod revision_2025_11_25;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bowline::{CallOptions, Client, Handler, HandlerResult, Json, ServerRequest, TaskHandle, TaskOrResult};
use bowline_testkit::{Control, Script, TaskPlan, Tool};
use serde_json::{Value, json};

/// Makes a server with one tool, `work`, whose calls become tasks.
fn work_server(plan: TaskPlan) -> Script {
    bowline_testkit::server().tool(Tool::named("work").task(plan)).tool("echo").prompt("p", "words")
}

/// Calls `work` and returns the task's handle.
async fn start_work(client: &Client) -> TaskHandle {
    match client.call_tool_task("work", &json!({"n": 1}), &CallOptions::new()).await.unwrap() {
        TaskOrResult::Task(handle) => handle,
        TaskOrResult::Result(result) => panic!("answered at once: {}", result.text()),
    }
}

/// Returns the methods of received task requests.
fn task_methods(server: &Control) -> Vec<String> {
    let mut methods: Vec<String> = server
        .received()
        .into_iter()
        .filter(|received| received.method.starts_with("tasks/"))
        .map(|received| received.method)
        .collect();
    methods.sort_unstable();
    methods.dedup();
    methods
}

/// Returns the methods of requests that were canceled. A subscription on a pipe ends in no other
/// way.
fn canceled_methods(server: &Control) -> Vec<String> {
    let received = server.received();
    let given_up = received.iter().filter(|message| message.has_method("notifications/cancelled"));
    let ids: Vec<_> = given_up.map(|message| &message.params()["requestId"]).collect();
    let methods = received.iter().filter(|message| ids.contains(&&message.body["id"]));
    methods.map(|message| message.method.clone()).filter(|method| method != "subscriptions/listen").collect()
}

/// Accepts every form, and counts them.
#[derive(Clone, Default)]
struct AcceptingHandler {
    form_count: Arc<AtomicUsize>,
}

impl AcceptingHandler {
    fn count(&self) -> usize {
        self.form_count.load(Ordering::SeqCst)
    }
}

impl Handler for AcceptingHandler {
    fn capabilities(&self) -> Json {
        Json::parse(r#"{"elicitation":{"form":{}},"extensions":{"com.example/x":{"a":1}}}"#).unwrap()
    }

    fn handle(&self, _: ServerRequest) -> Pin<Box<dyn Future<Output = HandlerResult> + Send + '_>> {
        self.form_count.fetch_add(1, Ordering::SeqCst);
        Box::pin(async { Ok(Json::parse(r#"{"action":"accept","content":{"city":"Oslo"}}"#).unwrap()) })
    }
}

fn form(key: &str) -> bowline_testkit::ScriptedRequest {
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    bowline_testkit::ScriptedRequest::form_elicitation(key, "Where?", schema)
}

fn text(words: &str) -> Value {
    json!({"content": [{"type": "text", "text": words}]})
}

//! Server requests during calls: whose deadline pauses, and when a request ends.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bowline::config::Protocol;
use bowline::{CallOptions, Cause, Client, Execution, Handler, HandlerResult, Json, ServerRequest};
use bowline_testkit::{self as testkit, Fault, Tool};
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;

use crate::support::{TEST_TIMEOUT, http, run_everywhere};

fn form() -> Value {
    json!({ "message": "Where?", "requestedSchema": { "type": "object", "properties": { "city": { "type": "string" } } } })
}

/// A person who answers when told to, and reports when an elicitation opens and how it ends.
struct Person {
    events: mpsc::UnboundedSender<&'static str>,
    answers: Arc<Notify>,
}

/// Reports on drop whether it was answered or canceled.
struct OpenQuestion(mpsc::UnboundedSender<&'static str>, bool);

impl Drop for OpenQuestion {
    fn drop(&mut self) {
        let _ = self.0.send(if self.1 { "answered" } else { "taken back" });
    }
}

impl Handler for Person {
    fn capabilities(&self) -> Json {
        Json::parse(r#"{"elicitation":{"form":{}},"roots":{}}"#).unwrap()
    }

    fn handle(&self, request: ServerRequest) -> Pin<Box<dyn Future<Output = HandlerResult> + Send + '_>> {
        Box::pin(async move {
            if *request.method == *"roots/list" {
                return Ok(Json::parse(r#"{"roots":[]}"#).unwrap());
            }
            let mut question = OpenQuestion(self.events.clone(), false);
            let _ = self.events.send("asked");
            self.answers.notified().await;
            question.1 = true;
            Ok(Json::parse(r#"{"action":"accept","content":{"city":"Oslo"}}"#).unwrap())
        })
    }
}

fn new_person() -> (Person, mpsc::UnboundedReceiver<&'static str>, Arc<Notify>) {
    let (events, seen) = mpsc::unbounded_channel();
    let answers = Arc::new(Notify::new());
    (Person { events, answers: Arc::clone(&answers) }, seen, answers)
}

/// Starts a call whose tool elicits input from the person.
fn start_asking(client: &Client) -> tokio::task::JoinHandle<bowline::Result<bowline::ToolResult>> {
    let client = client.clone();
    let arguments = json!({ "method": "elicitation/create", "params": form() });
    tokio::spawn(async move { client.call_tool("ask", &arguments).await })
}

async fn next_event(seen: &mut mpsc::UnboundedReceiver<&'static str>) -> &'static str {
    timeout(TEST_TIMEOUT, seen.recv()).await.expect("in time").expect("the handler is there")
}

/// A handler that answers at once leaves no deadline paused: both timeouts hold, each time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn timeouts_hold_after_a_handler_that_answers_at_once() {
    for (name, running, server) in run_everywhere(testkit::server().tool("counter")).await {
        if name.starts_with("modern") {
            continue;
        }
        let (person, _seen, answers) = new_person();
        let client = Client::builder(server).handler(person).connect().await.unwrap();
        running.arm(Fault::silent().on("tools/call").always());
        for round in 0..30 {
            // A permit in advance: the form is answered before a test could wait for it.
            answers.notify_one();
            let limit = Duration::from_millis(150);
            let options = CallOptions::new().idle_timeout(limit).timeout(4 * limit);
            let call = client.call_tool_with("counter", &Value::Null, &options);
            let asked = async {
                running.wait_for_nth(round, |received| received.has_method("tools/call"), TEST_TIMEOUT).await;
                running.request("elicitation/create", form()).await;
                running.request("roots/list", json!({})).await;
            };
            let both = async { tokio::join!(call, asked).0 };
            let error =
                timeout(TEST_TIMEOUT, both).await.unwrap_or_else(|_| panic!("{name}: hangs")).unwrap_err();
            assert!(matches!(error.fault().unwrap().cause, Cause::Timeout(_)), "{name}: {error}");
        }
        client.close().await;
    }
}

/// A server request belongs to its session: the fault of another call does not end it.
#[tokio::test]
async fn an_elicitation_survives_the_fault_of_another_call() {
    let server = testkit::server().legacy().tool("ask").tool("counter").run().await;
    let (person, mut seen, answers) = new_person();
    let entry = http(&server).with_protocol(Protocol::Legacy);
    let client = Client::builder(entry).handler(person).connect().await.unwrap();
    let asking = start_asking(&client);
    assert_eq!(next_event(&mut seen).await, "asked");
    server.arm(Fault::status(502).on_tool("counter").executed());
    let error = client.call_tool("counter", &Value::Null).await.unwrap_err();
    assert_eq!(error.execution(), Execution::Unknown, "{error}");
    // The connection is new, and the session is the same.
    client.call_tool("counter", &Value::Null).await.unwrap();
    assert_eq!(server.initialize_count(), 1);
    answers.notify_one();
    assert_eq!(next_event(&mut seen).await, "answered");
    let result = timeout(TEST_TIMEOUT, asking).await.expect("in time").unwrap().unwrap();
    assert!(result.text().contains("Oslo"), "{}", result.text());
    client.close().await;
}

/// A server request ends with its session.
#[tokio::test]
async fn an_elicitation_ends_with_its_session() {
    let server = testkit::server().legacy().tool("counter").run().await;
    let (person, mut seen, _answers) = new_person();
    let entry = http(&server).with_protocol(Protocol::Legacy);
    let client = Client::builder(entry).handler(person).connect().await.unwrap();
    client.call_tool("counter", &Value::Null).await.unwrap();
    let asked = tokio::spawn({
        let server = server.clone();
        async move { server.request("elicitation/create", form()).await }
    });
    assert_eq!(next_event(&mut seen).await, "asked");
    server.drop_sessions();
    client.call_tool("counter", &Value::Null).await.unwrap();
    assert_eq!(server.initialize_count(), 2);
    assert_eq!(next_event(&mut seen).await, "taken back");
    asked.abort();
    client.close().await;
}

/// A server request ends with the call on whose stream it came.
#[tokio::test]
async fn an_elicitation_ends_with_its_call() {
    let server = testkit::server().legacy().tool("ask").run().await;
    let (person, mut seen, _answers) = new_person();
    let entry = http(&server).with_protocol(Protocol::Legacy);
    let client = Client::builder(entry).handler(person).connect().await.unwrap();
    let asking = start_asking(&client);
    assert_eq!(next_event(&mut seen).await, "asked");
    asking.abort();
    assert_eq!(next_event(&mut seen).await, "taken back");
    client.close().await;
}

/// The time in which a person was prompted counts for no limit of the call, also if the session is lost
/// then and the call is sent again.
#[tokio::test]
async fn a_call_is_retried_after_a_long_elicitation() {
    let server = testkit::server().legacy().tool(Tool::like("ask", "ask").read_only()).run().await;
    let (person, mut seen, answers) = new_person();
    let entry = http(&server).with_protocol(Protocol::Legacy);
    let client = Client::builder(entry).handler(person).connect().await.unwrap();
    client.list_tools().await.unwrap();
    let limit = Duration::from_secs(5);
    let asking = tokio::spawn({
        let client = client.clone();
        async move {
            let arguments = json!({ "method": "elicitation/create", "params": form() });
            let options = CallOptions::new().idle_timeout(limit).timeout(limit);
            client.call_tool_with("ask", &arguments, &options).await
        }
    });
    assert_eq!(next_event(&mut seen).await, "asked");
    tokio::time::sleep(limit + Duration::from_secs(1)).await;
    server.restart().await;
    assert_eq!(next_event(&mut seen).await, "taken back");
    assert_eq!(next_event(&mut seen).await, "asked");
    answers.notify_one();
    assert_eq!(next_event(&mut seen).await, "answered");
    let result = timeout(TEST_TIMEOUT, asking).await.expect("in time").unwrap().unwrap();
    assert!(result.text().contains("Oslo"), "{}", result.text());
    assert_eq!((result.report.attempts, result.report.recoveries), (2, 1));
    client.close().await;
}

//! Handlers of single calls, which answer what the server asks because of that call.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bowline::{CallOptions, Client, Handler, HandlerResult, Json, ServerRequest};
use bowline_testkit::{self as testkit, ScriptedRequest, Tool};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{Barrier, Notify};
use tokio::time::timeout;

use crate::support::{TEST_TIMEOUT, http, run_everywhere};

/// Accepts each form in its own name, once as many questions are open as the barrier says.
struct Person {
    name: &'static str,
    together: Arc<Barrier>,
    asked: Arc<Mutex<Vec<String>>>,
    /// Notified of each question.
    heard: Arc<Notify>,
}

impl Person {
    fn new(name: &'static str, together: usize) -> Self {
        Self {
            name,
            together: Arc::new(Barrier::new(together)),
            asked: Arc::default(),
            heard: Arc::default(),
        }
    }

    /// Somebody else, who waits for the same questions.
    fn beside(&self, name: &'static str) -> Self {
        Self { name, together: Arc::clone(&self.together), asked: Arc::default(), heard: Arc::default() }
    }
}

impl Handler for Person {
    fn capabilities(&self) -> Json {
        Json::parse(r#"{"elicitation":{"form":{}}}"#).unwrap()
    }

    fn handle(&self, request: ServerRequest) -> Pin<Box<dyn Future<Output = HandlerResult> + Send + '_>> {
        let message = request.params.member("message").unwrap().decode().unwrap();
        self.asked.lock().push(message);
        self.heard.notify_one();
        Box::pin(async {
            self.together.wait().await;
            Ok(Json::encode(&json!({"action": "accept", "content": {"by": self.name}})).unwrap())
        })
    }
}

/// The handler of a client, which must not be asked.
struct Nobody;

impl Handler for Nobody {
    fn capabilities(&self) -> Json {
        Json::parse(r#"{"elicitation":{"form":{}}}"#).unwrap()
    }

    fn handle(&self, request: ServerRequest) -> Pin<Box<dyn Future<Output = HandlerResult> + Send + '_>> {
        panic!("the handler of the client was asked: {request:?}");
    }
}

fn form(key: &str) -> ScriptedRequest {
    ScriptedRequest::form_elicitation(key, key, json!({"type": "object", "properties": {}}))
}

async fn answers(client: &Client, options: CallOptions) -> Value {
    let nothing = json!({});
    let call = client.call_tool_with("book", &nothing, &options);
    let result = timeout(TEST_TIMEOUT, call).await.expect("in time").expect("a result");
    serde_json::from_str(&result.text()).expect("JSON")
}

/// GW-15: with two calls at once, each question reaches the handler of its own call.
#[tokio::test]
async fn gw_15_each_question_reaches_the_handler_of_its_call() {
    let script = testkit::server().tool(Tool::asks("book", [form("seat")]));
    for (name, running, server) in run_everywhere(script).await {
        let (ann, bob) = {
            let ann = Person::new("ann", 2);
            let bob = ann.beside("bob");
            (ann, bob)
        };
        if name == "legacy stdio" {
            // The pipe does not say which call a question is for.
            let client = Client::builder(server).handler(ann).connect().await.unwrap();
            let nobody = || CallOptions::new().handler(Nobody);
            let (one, two) = tokio::join!(answers(&client, nobody()), answers(&client, nobody()));
            assert_eq!(
                (&one["seat"]["content"]["by"], &two["seat"]["content"]["by"]),
                (&json!("ann"), &json!("ann"))
            );
            client.close().await;
            continue;
        }
        let client = Client::builder(server).handler(Nobody).connect().await.unwrap();
        let (one, two) = tokio::join!(
            answers(&client, CallOptions::new().handler(ann)),
            answers(&client, CallOptions::new().handler(bob))
        );
        assert_eq!(one, json!({"seat": {"action": "accept", "content": {"by": "ann"}}}), "{name}");
        assert_eq!(two, json!({"seat": {"action": "accept", "content": {"by": "bob"}}}), "{name}");
        assert_eq!(running.executions("book"), 2, "{name}");
        client.close().await;
        assert_eq!(running.violations(), Vec::<String>::new(), "{name}");
    }
}

/// What a modern server asks in one round is handled at the same time; the first refusal ends the
/// call.
#[tokio::test]
async fn questions_of_a_round_reach_the_handler_of_a_call_together() {
    let server =
        testkit::server().modern().tool(Tool::asks("book", [form("seat"), form("meal")])).run().await;
    let client = Client::builder(http(&server)).handler(Nobody).connect().await.unwrap();
    let person = Person::new("ann", 2);
    let asked = Arc::clone(&person.asked);
    let given = answers(&client, CallOptions::new().handler(person)).await;
    let ann = json!({"action": "accept", "content": {"by": "ann"}});
    assert_eq!(given, json!({"seat": ann, "meal": ann}));
    let mut asked = asked.lock().clone();
    asked.sort();
    assert_eq!(asked, ["meal", "seat"]);
    // The other question is never answered.
    let refusing = CallOptions::new().handler(Refusing);
    let nothing = json!({});
    let refused = client.call_tool_with("book", &nothing, &refusing);
    let error = timeout(TEST_TIMEOUT, refused).await.expect("in time").unwrap_err();
    assert!(matches!(error.kind(), bowline::ErrorKind::Declined(refusal) if refusal.code == -1), "{error}");
    assert_eq!(server.executions("book"), 1);
    client.close().await;
}

/// Refuses `seat`, and never answers anything else.
struct Refusing;

impl Handler for Refusing {
    fn capabilities(&self) -> Json {
        Json::empty_object()
    }

    fn handle(&self, request: ServerRequest) -> Pin<Box<dyn Future<Output = HandlerResult> + Send + '_>> {
        Box::pin(async move {
            match request.params.member("message").unwrap().as_str() {
                r#""seat""# => Err(bowline::RpcError::new(-1, "no")),
                _ => std::future::pending().await,
            }
        })
    }
}

/// The time that a person takes for one call does not extend the deadlines of the others.
#[tokio::test]
async fn a_question_of_one_call_pauses_no_other_call() {
    let tool = Tool::asks("book", [form("seat")]);
    let server = testkit::server().legacy().tool(tool).tool("slow").run().await;
    let client = Client::builder(http(&server)).handler(Nobody).connect().await.unwrap();
    let person = Person::new("ann", 2);
    let (heard, together) = (Arc::clone(&person.heard), Arc::clone(&person.together));
    let booking = tokio::spawn({
        let client = client.clone();
        async move { answers(&client, CallOptions::new().handler(person).timeout(Duration::from_secs(2))).await }
    });
    timeout(TEST_TIMEOUT, heard.notified()).await.expect("in time");
    let short = CallOptions::new().timeout(Duration::from_secs(3));
    let long = json!({"ms": 600_000});
    let slow = client.call_tool_with("slow", &long, &short);
    let error = timeout(TEST_TIMEOUT, slow).await.expect("its deadline is not paused").unwrap_err();
    assert!(error.is_timeout(), "{error}");
    // That of the call itself is.
    together.wait().await;
    assert_eq!(booking.await.unwrap()["seat"]["content"]["by"], "ann");
    client.close().await;
}

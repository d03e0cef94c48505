//! Calls that require URL elicitations first: error -32042 (EL-10, EL-11).

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bowline::config::Protocol;
use bowline::{CallOptions, Client, Handler, HandlerResult, Json, ServerRequest, UrlElicitationOutcome};
use bowline_config::TransportSettings as _;
use bowline_testkit::{self as testkit, Fault, HttpServer};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;

use crate::support::{TEST_TIMEOUT, http};

/// The params of the recorded requests, and the call each belongs to.
type RecordedRequests = Arc<Mutex<Vec<(Value, Option<String>)>>>;

/// A person at a browser, who answers URL elicitations with `action`.
#[derive(Default)]
struct Person {
    action: &'static str,
    requests: RecordedRequests,
    completions: Option<mpsc::UnboundedSender<String>>,
    done: Option<Arc<Notify>>,
    gives_up: bool,
    wait_count: Arc<AtomicUsize>,
}

impl Handler for Person {
    fn capabilities(&self) -> Json {
        Json::parse(r#"{"elicitation":{"form":{},"url":{}}}"#).unwrap()
    }

    fn handle(&self, request: ServerRequest) -> Pin<Box<dyn Future<Output = HandlerResult> + Send + '_>> {
        let params = request.params.decode().unwrap();
        self.requests.lock().push((params, request.purpose.map(|during| during.to_string())));
        let answer = Json::encode(&json!({ "action": self.action })).unwrap();
        Box::pin(async move { Ok(answer) })
    }

    fn url_elicitation_completed(&self, server: &str, id: &str) {
        if let Some(completed) = &self.completions {
            let _ = completed.send(format!("{server}/{id}"));
        }
    }

    fn await_url_elicitation(
        &self,
        _: Arc<str>,
        _: Vec<Box<str>>,
    ) -> Pin<Box<dyn Future<Output = UrlElicitationOutcome> + Send + '_>> {
        self.wait_count.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            match &self.done {
                Some(done) => done.notified().await,
                None => std::future::pending().await,
            }
            if self.gives_up { UrlElicitationOutcome::GiveUp } else { UrlElicitationOutcome::Retry }
        })
    }
}

fn url_elicitation_required() -> Fault {
    let pages = json!({ "elicitations": [
        { "mode": "url", "elicitationId": "e1", "url": "https://example.com/one", "message": "first" },
        { "mode": "url", "elicitationId": "e2", "url": "https://example.com/two", "message": "then" },
    ] });
    Fault::error_with_data(-32042, "go there first", &pages).on("tools/call")
}

async fn server() -> HttpServer {
    testkit::server().legacy().tool("counter").run().await
}

async fn connect(server: &HttpServer, person: Person) -> Client {
    let entry =
        http(server).with_protocol(Protocol::Legacy).with_header("authorization", "Bearer t").unwrap();
    Client::builder(entry).handler(person).connect().await.unwrap()
}

fn completion_notification(id: &str) -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/elicitation/complete", "params": { "elicitationId": id } })
}

/// EL-11: each URL is presented, and the call is retried once all are completed, not before. A
/// completion of an unknown id is ignored. EL-10: no credential changes.
#[tokio::test]
async fn el_11_the_call_is_repeated_after_completion() {
    let server = server().await;
    server.arm(url_elicitation_required().times(1));
    let (sender, mut completed) = mpsc::unbounded_channel();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let waiting = Arc::new(AtomicUsize::new(0));
    let person = Person {
        action: "accept",
        requests: Arc::clone(&asked),
        completions: Some(sender),
        wait_count: Arc::clone(&waiting),
        ..Person::default()
    };
    let client = connect(&server, person).await;
    let call = tokio::spawn({
        let client = client.clone();
        async move { client.call_tool("counter", &Value::Null).await }
    });
    while waiting.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    for id in ["stray", "e1"] {
        server.send(completion_notification(id)).await;
        assert_eq!(timeout(TEST_TIMEOUT, completed.recv()).await.unwrap().unwrap(), format!("test/{id}"));
    }
    assert_eq!(server.count("tools/call"), 1, "one page is not both");
    server.send(completion_notification("e2")).await;
    timeout(TEST_TIMEOUT, call).await.unwrap().unwrap().unwrap();
    assert_eq!((server.count("tools/call"), server.executions("counter")), (2, 1));
    let asked = asked.lock().clone();
    let urls: Vec<_> = asked.iter().map(|(params, _)| params["url"].as_str().unwrap()).collect();
    assert_eq!(urls, ["https://example.com/one", "https://example.com/two"]);
    assert!(asked.iter().all(|(params, _)| params["mode"] == "url" && params["elicitationId"].is_string()));
    assert!(asked.iter().all(|(_, during)| during.as_deref() == Some("tools/call counter")));
    let tokens: Vec<_> = server
        .received_with_method("tools/call")
        .iter()
        .filter_map(|call| call.header("authorization").map(str::to_owned))
        .collect();
    assert_eq!(tokens, ["Bearer t", "Bearer t"]);
    client.close().await;
}

/// EL-10, EL-11: where the server never reports completion, the person does.
#[tokio::test]
async fn el_11_the_person_can_report_completion() {
    let server = server().await;
    server.arm(url_elicitation_required().times(1));
    let done = Arc::new(Notify::new());
    done.notify_one();
    let client = connect(&server, Person { action: "accept", done: Some(done), ..Person::default() }).await;
    client.call_tool("counter", &Value::Null).await.unwrap();
    assert_eq!(server.executions("counter"), 1);
    client.close().await;
}

/// EL-11: declined, given up, never completed, refused again, or unsupported by the host: the
/// server's error is returned, and the call is retried at most once.
#[tokio::test]
async fn el_11_without_completion_the_servers_error_stands() {
    let ready = || {
        let done = Arc::new(Notify::new());
        done.notify_one();
        Some(done)
    };
    let cases = [
        (Person { action: "decline", ..Person::default() }, 1),
        (Person { action: "cancel", ..Person::default() }, 1),
        (Person { action: "accept", done: ready(), gives_up: true, ..Person::default() }, 1),
        (Person { action: "accept", ..Person::default() }, 1),
        (Person { action: "accept", done: ready(), ..Person::default() }, 2),
    ];
    for (number, (person, calls)) in cases.into_iter().enumerate() {
        let server = server().await;
        server.arm(url_elicitation_required().always());
        let client = connect(&server, person).await;
        // The fourth waits for a completion that nobody reports.
        let limit = if number == 3 { Duration::from_secs(2) } else { TEST_TIMEOUT };
        let options = CallOptions::new().timeout(limit);
        let error = client.call_tool_with("counter", &Value::Null, &options).await.unwrap_err();
        assert_eq!(error.server_error().map(|error| error.code), Some(-32042), "{number}: {error}");
        assert_eq!(server.count("tools/call"), calls, "{number}");
        client.close().await;
    }
    let server = server().await;
    server.arm(url_elicitation_required().always());
    let client = Client::connect(http(&server)).await.unwrap();
    let error = client.call_tool("counter", &Value::Null).await.unwrap_err();
    assert_eq!(error.server_error().map(|error| error.code), Some(-32042));
    client.close().await;
    // For a raw call, which a relay makes, it is only an error.
    let client = connect(&server, Person { action: "accept", ..Person::default() }).await;
    let options = CallOptions::new().raw();
    let error = client.call_tool_with("counter", &Value::Null, &options).await.unwrap_err();
    assert_eq!(error.server_error().map(|error| error.code), Some(-32042));
    client.close().await;
}

/// A handler that panics does not end the connection.
#[tokio::test]
async fn a_panicking_handler_does_not_end_the_connection() {
    struct PanickingHandler;
    impl Handler for PanickingHandler {
        fn capabilities(&self) -> Json {
            Json::empty_object()
        }

        fn handle(&self, _: ServerRequest) -> Pin<Box<dyn Future<Output = HandlerResult> + Send + '_>> {
            unreachable!("nothing is declared")
        }

        fn url_elicitation_completed(&self, _: &str, _: &str) {
            panic!("as it happens")
        }
    }
    let server = testkit::server().legacy().tool("counter").stdio().await;
    let entry = crate::support::stdio(&server).with_protocol(Protocol::Legacy);
    let client = Client::builder(entry).handler(PanickingHandler).connect().await.unwrap();
    server.send(completion_notification("e1")).await;
    timeout(TEST_TIMEOUT, client.call_tool("counter", &Value::Null)).await.unwrap().unwrap();
    assert_eq!(server.runs(), 1);
    client.close().await;
}

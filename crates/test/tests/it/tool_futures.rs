//! When the future of an asynchronous tool that waits for the client's answer is dropped.

use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bowline::host::{FormRequest, Host};
use bowline::types::ElicitResult;
use bowline::{Call, Client, Handler, HandlerResult, Json, ServerRequest};
use bowline_test::{FakeIoServer, FakeServer};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep, timeout};

/// Longer than anything here takes on the real clock.
const LIMIT: Duration = Duration::from_secs(30);

/// Records in a channel that a future was dropped.
struct DropGuard(mpsc::UnboundedSender<&'static str>);

impl Drop for DropGuard {
    fn drop(&mut self) {
        let _ = self.0.send("dropped");
    }
}

/// What happened to the futures of the tool `ask`, in order.
struct Steps(mpsc::UnboundedReceiver<&'static str>);

impl Steps {
    /// Asserts that one future is dropped, without an answer to its form.
    async fn assert_dropped(&mut self) {
        assert_eq!(timeout(LIMIT, self.0.recv()).await.unwrap(), Some("dropped"));
        self.assert_unchanged();
    }

    fn assert_unchanged(&mut self) {
        assert_eq!(self.0.try_recv(), Err(mpsc::error::TryRecvError::Empty));
    }
}

/// Adds the tool `ask`, which shows a form.
fn add_asking_tool(server: FakeServer) -> (FakeServer, Steps) {
    let (sender, steps) = mpsc::unbounded_channel();
    let server = server.async_tool("ask", move |cx, _| {
        let sender = sender.clone();
        async move {
            let _guard = DropGuard(sender.clone());
            let _ = cx.elicit_form("Who?", json!({ "type": "object", "properties": {} })).await;
            let _ = sender.send("answered");
            "done"
        }
    });
    (server, Steps(steps))
}

/// A host that says when it is shown a form, and never answers.
fn silent_host() -> (Host, Arc<Notify>) {
    let asked = Arc::new(Notify::new());
    let notify = Arc::clone(&asked);
    let host = Host::new().on_form(move |_: FormRequest| {
        notify.notify_one();
        pending::<ElicitResult>()
    });
    (host, asked)
}

/// A handler that accepts each form after [`SLOW_ANSWER`].
struct SlowHandler;

const SLOW_ANSWER: Duration = Duration::from_secs(3630);

impl Handler for SlowHandler {
    fn capabilities(&self) -> Json {
        r#"{"elicitation":{"form":{}}}"#.parse().expect("it is JSON")
    }

    fn handle(&self, _: ServerRequest) -> Pin<Box<dyn Future<Output = HandlerResult> + Send + '_>> {
        Box::pin(async {
            sleep(SLOW_ANSWER).await;
            Ok(r#"{"action":"accept","content":{}}"#.parse().expect("it is JSON"))
        })
    }
}

async fn connect(server: &FakeIoServer, host: impl Handler) -> Client {
    let (reader, writer) = server.streams();
    Client::builder(server.server()).handler(host).connect_io(reader, writer).await.unwrap()
}

/// Calls the tool, and waits until its form is shown.
async fn call_until_asked(client: &Client, asked: &Notify, steps: &mut Steps) -> Call {
    let call = client.call("ask").start();
    timeout(LIMIT, asked.notified()).await.unwrap();
    steps.assert_unchanged();
    call
}

#[tokio::test]
async fn closing_the_client_of_streams_drops_a_waiting_tool() {
    for empty in [FakeServer::new, FakeServer::modern] {
        let (server, mut steps) = add_asking_tool(empty());
        let (server, (host, asked)) = (server.serve_io(), silent_host());
        let client = connect(&server, host).await;
        let _call = call_until_asked(&client, &asked, &mut steps).await;
        client.close().await;
        steps.assert_dropped().await;
        server.assert_called("ask", 1);
    }
}

#[tokio::test]
async fn dropping_the_server_of_streams_drops_a_waiting_tool() {
    for empty in [FakeServer::new, FakeServer::modern] {
        let (server, mut steps) = add_asking_tool(empty());
        let (server, (host, asked)) = (server.serve_io(), silent_host());
        let (client, control) = (connect(&server, host).await, server.control());
        let _call = call_until_asked(&client, &asked, &mut steps).await;
        drop(server);
        steps.assert_dropped().await;
        control.assert_called("ask", 1);
    }
}

#[tokio::test]
async fn restarting_or_dropping_an_http_server_drops_a_waiting_tool() {
    for empty in [FakeServer::new, FakeServer::modern] {
        for restarts in [true, false] {
            let (server, mut steps) = add_asking_tool(empty());
            let (server, (host, asked)) = (server.serve_http().await.unwrap(), silent_host());
            let client = Client::builder(server.server()).handler(host).connect().await.unwrap();
            let control = server.control();
            let _call = call_until_asked(&client, &asked, &mut steps).await;
            let server = if restarts {
                server.restart().await;
                Some(server)
            } else {
                drop(server);
                None
            };
            steps.assert_dropped().await;
            control.assert_called("ask", 1);
            drop(server);
        }
    }
}

/// A client that gives up a modern call between two rounds says nothing, so its tool waits for a
/// retry for as long as one could come.
#[tokio::test(start_paused = true)]
async fn a_waiting_tool_is_dropped_after_two_hours_without_a_retry() {
    let (server, mut steps) = add_asking_tool(FakeServer::modern());
    let (server, (host, asked)) = (server.serve_io(), silent_host());
    let client = connect(&server, host).await;
    let call = call_until_asked(&client, &asked, &mut steps).await;
    let begun = Instant::now();
    drop(call);
    let two_hours = Duration::from_secs(2 * 60 * 60);
    assert_eq!(timeout(2 * two_hours, steps.0.recv()).await.unwrap(), Some("dropped"));
    assert_eq!(begun.elapsed().as_secs(), two_hours.as_secs());
    steps.assert_unchanged();
    let methods: Vec<_> = server.received().into_iter().map(|one| one.method).collect();
    assert_eq!(methods.iter().filter(|method| *method == "tools/call").count(), 1);
    assert_eq!(methods.iter().filter(|method| *method == "notifications/cancelled").count(), 0);
}

/// A client waits for its host for more than an hour, and its retry is still taken then.
#[tokio::test(start_paused = true)]
async fn a_retry_after_more_than_an_hour_is_taken() {
    let (server, mut steps) = add_asking_tool(FakeServer::modern());
    let (server, begun) = (server.serve_io(), Instant::now());
    let client = connect(&server, SlowHandler).await;
    assert_eq!(client.call_tool("ask", &()).await.unwrap().text(), "done");
    assert_eq!(begun.elapsed().as_secs(), SLOW_ANSWER.as_secs());
    assert_eq!([steps.0.recv().await, steps.0.recv().await], [Some("answered"), Some("dropped")]);
    steps.assert_unchanged();
    server.assert_called("ask", 1);
}

/// The client cancels a modern call while the request for input is on its way.
#[tokio::test]
async fn a_cancellation_that_crosses_the_request_for_input_drops_the_tool() {
    let (server, mut steps) = add_asking_tool(FakeServer::modern());
    let server = server.serve_io();
    let (reader, mut writer) = server.streams();
    let mut lines = BufReader::new(reader).lines();
    let mut call = json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {
        "name": "ask",
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": { "elicitation": { "form": {} } },
        },
    } });
    let mut send = async |message: &Value| writer.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    let mut receive = async || {
        let line = timeout(LIMIT, lines.next_line()).await.unwrap().unwrap().unwrap();
        serde_json::from_str::<Value>(&line).unwrap()
    };
    send(&call).await;
    let asked = receive().await;
    assert_eq!((&asked["id"], &asked["result"]["resultType"]), (&json!(7), &json!("input_required")));
    let cancellation = |id: u64| json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } });
    // That of another request changes nothing.
    send(&cancellation(6)).await;
    send(&json!({ "jsonrpc": "2.0", "id": 8, "method": "tools/call", "params": {} })).await;
    assert_eq!(receive().await["id"], 8);
    steps.assert_unchanged();
    send(&cancellation(7)).await;
    steps.assert_dropped().await;
    call["id"] = 9.into();
    call["params"]["requestState"] = asked["result"]["requestState"].clone();
    call["params"]["inputResponses"] = json!({ "input": { "action": "accept", "content": {} } });
    send(&call).await;
    let refused = receive().await;
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(9), &json!(-32602)));
    server.assert_called("ask", 1);
}

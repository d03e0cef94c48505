//! What ends a call that waits for the host, for a connection, or for several rounds.

use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll};
use std::time::Duration;
use std::{io, thread};

use bowline::host::{FormRequest, Host};
use bowline::types::ElicitResult;
use bowline::{
    Cause, Client, Execution, Handler, HandlerResult, Json, Layer, LayerFuture, Limit, Outcome,
    OutgoingRequest, Server, ServerRequest, Status,
};
use bowline_test::{ElicitationReply, FakeServer, ToolError};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::runtime;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use crate::support::everywhere;

/// A server whose tool `ask` works for `seconds`, shows a form, and works for as long again.
fn add_asking_tool(server: FakeServer, seconds: f64) -> FakeServer {
    server.async_tool("ask", move |cx, _| async move {
        sleep(Duration::from_secs_f64(seconds)).await;
        let schema = json!({ "type": "object", "properties": { "name": { "type": "string" } } });
        let answer = cx.elicit_form("Who are you?", schema).await?;
        sleep(Duration::from_secs_f64(seconds)).await;
        match answer {
            ElicitationReply::Accept(_) => Ok("done"),
            _ => Err(ToolError::new("not accepted")),
        }
    })
}

/// Closing the client ends a call whose host never answers, and its progress, in both eras.
#[tokio::test]
async fn closing_ends_a_call_that_waits_for_the_host() {
    let asked = Arc::new(Notify::new());
    let host = Host::new().on_form({
        let asked = Arc::clone(&asked);
        move |_: FormRequest| {
            asked.notify_one();
            pending::<ElicitResult>()
        }
    });
    for (_server, client) in everywhere(&host, |server| add_asking_tool(server, 0.0)).await {
        let mut call = client.call("ask").start();
        let mut progress = call.progress();
        asked.notified().await;
        client.close().await;
        let error = call.await.unwrap_err();
        assert_eq!(error.fault().expect("a fault").cause, Cause::Closed);
        assert_eq!(error.outcome(), Outcome::Failed(Execution::Unknown));
        assert!(progress.next().await.is_none());
    }
}

/// A handler that is asked for forms, and never answers.
struct NeverAnswers;

impl Handler for NeverAnswers {
    fn capabilities(&self) -> Json {
        r#"{"elicitation":{"form":{}}}"#.parse().expect("it is JSON")
    }

    fn handle(&self, _: ServerRequest) -> Pin<Box<dyn Future<Output = HandlerResult> + Send + '_>> {
        Box::pin(pending())
    }
}

/// The time that the host takes does not count, but only for an hour: the idle limit follows.
#[tokio::test(start_paused = true)]
async fn a_host_that_never_answers_ends_the_call_in_both_eras() {
    for empty in [FakeServer::new, FakeServer::modern] {
        let server = add_asking_tool(empty(), 0.0).serve_io();
        let (reader, writer) = server.streams();
        let builder = Client::builder(server.server()).handler(NeverAnswers);
        let client = builder.connect_io(reader, writer).await.unwrap();
        let begun = Instant::now();
        let error = client.call("ask").await.unwrap_err();
        assert_eq!(begun.elapsed().as_secs(), 3600 + 60);
        assert_eq!(error.fault().expect("a fault").cause, Cause::Timeout(Limit::Idle));
        assert_eq!(error.outcome(), Outcome::Failed(Execution::Unknown));
    }
}

/// A layer that waits for something else, such as a person, when the client is closed.
struct NeverDecides(Arc<Notify>);

impl Layer for NeverDecides {
    fn on_request<'a>(&'a self, _: &'a mut OutgoingRequest) -> LayerFuture<'a> {
        self.0.notify_one();
        Box::pin(pending())
    }
}

#[tokio::test]
async fn closing_ends_a_call_that_waits_for_a_layer() {
    for empty in [FakeServer::new, FakeServer::modern] {
        let server = empty().tool("echo", |_| "hi").serve_http().await.unwrap();
        let seen = Arc::new(Notify::new());
        let builder = Client::builder(server.server()).layer(NeverDecides(Arc::clone(&seen)));
        let client = builder.connect().await.unwrap();
        let call = client.call("echo").start();
        seen.notified().await;
        client.close().await;
        let error = call.await.unwrap_err();
        assert_eq!(error.fault().expect("a fault").cause, Cause::Closed);
        assert_eq!(error.outcome(), Outcome::Failed(Execution::NotExecuted));
        server.assert_called("echo", 0);
    }
}

/// A client may outlive the runtime that it was opened on. Nothing moves its bytes any more.
#[test]
fn a_client_is_closed_when_its_runtime_has_ended() {
    for empty in [FakeServer::new, FakeServer::modern] {
        let first = runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (_server, client, call) = first.block_on(async {
            let server = add_asking_tool(empty(), 3600.0).serve_io();
            let client = server.connect().await.unwrap();
            let call = client.call("ask").start();
            (server, client, call)
        });
        drop(first);
        assert_eq!(client.status().current(), Status::Closed);
        let second = runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (begun, late) = second.block_on(async { (call.await, client.call("ask").await) });
        for ended in [begun, late] {
            assert_eq!(ended.unwrap_err().fault().expect("a fault").cause, Cause::Closed);
        }
        second.block_on(client.close());
    }
}

/// A byte stream that always has more, and never a whole line.
struct EndlessLine;

impl AsyncRead for EndlessLine {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let room = buffer.initialize_unfilled().len();
        buffer.advance(room);
        Poll::Ready(Ok(()))
    }
}

/// Reading it must not keep the only thread of a runtime from its timers.
#[test]
fn a_stream_that_is_always_ready_does_not_stop_the_runtime() {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let server = Server::stdio("endless", "unused").connect_timeout(Duration::from_secs(1));
        let connecting = async { Client::builder(server).connect_io(EndlessLine, tokio::io::sink()).await };
        let error = runtime.block_on(connecting).unwrap_err();
        let _ = sender.send(error.is_timeout());
    });
    assert_eq!(receiver.recv_timeout(Duration::from_secs(60)), Ok(true));
}

/// A host that panics is an error response to the server, and no reason to wait.
#[tokio::test]
async fn a_host_that_panics_is_an_answer() {
    let host = Host::new().on_form(|_: FormRequest| async { panic!("a defect of the host") });
    for (server, client) in everywhere(&host, |server| add_asking_tool(server, 0.0)).await {
        let ended = client.call("ask").await;
        let is_modern = client.peer().await.unwrap().era() == bowline::Era::Modern;
        let outcome = match &ended {
            Ok(result) => result.report.outcome,
            Err(error) => error.outcome(),
        };
        // A legacy server decides itself what the error means for its tool.
        assert_eq!(outcome, if is_modern { Outcome::Declined } else { Outcome::ToolError }, "{ended:?}");
        server.control().assert_called("ask", 1);
        client.close().await;
    }
}

/// The total limit covers all rounds of a modern call: 1.5 s before the form, and 0.5 s after it.
#[tokio::test(start_paused = true)]
async fn the_total_limit_covers_the_rounds_of_a_call() {
    let host = Host::new().on_form(|form: FormRequest| async move { form.accept(json!({ "name": "Ada" })) });
    for empty in [FakeServer::new(), FakeServer::modern()] {
        let server = add_asking_tool(empty, 1.5).serve_io();
        let (reader, writer) = server.streams();
        let client = Client::builder(server.server()).handler(host.clone());
        let client = client.connect_io(reader, writer).await.unwrap();
        let begun = Instant::now();
        let error = client.call("ask").timeout(Duration::from_secs(2)).await.unwrap_err();
        assert_eq!(error.fault().expect("a fault").cause, Cause::Timeout(Limit::Total));
        let taken = begun.elapsed();
        assert!(taken >= Duration::from_secs(2) && taken < Duration::from_millis(2_100), "{taken:?}");
    }
}

/// The wait for the connection counts toward the total limit: 3 of 4 seconds here.
#[tokio::test]
async fn the_total_limit_covers_the_wait_for_a_connection() {
    let server = FakeServer::modern()
        .async_tool("endless", |_, _| async { pending::<Result<Value, ToolError>>().await })
        .serve_http()
        .await
        .unwrap();
    server.delay_next(Duration::from_secs(3));
    // The delayed message is the probe, which must not be given up meanwhile.
    let slow = Server::http("slow", server.url()).probe_timeout(Duration::from_secs(20));
    let (client, limit) = (Client::builder(slow).open().unwrap(), Duration::from_secs(4));
    let error = client.call("endless").timeout(limit).await.unwrap_err();
    assert_eq!(error.fault().expect("a fault").cause, Cause::Timeout(Limit::Total));
    let report = error.report().expect("a report");
    assert!(report.waited >= Duration::from_secs(3), "{report:?}");
    assert!(report.duration >= limit && report.duration < report.waited + limit, "{report:?}");
    client.close().await;
}

/// A short limit ends the wait for a server that is down, however often it is tried meanwhile. The
/// clock is paused: while an attempt is on its way, it jumps to the limit.
#[tokio::test(start_paused = true)]
async fn a_short_limit_ends_the_wait_for_a_connection() {
    let down = Server::http("down", "http://127.0.0.1:9/mcp").reconnect_wait(Duration::from_secs(30));
    let client = Client::builder(down).open().unwrap();
    let error = client.call("any").timeout(Duration::from_millis(100)).await.unwrap_err();
    assert_eq!(error.execution(), Execution::NotExecuted);
    let report = error.report().expect("a report");
    assert!(report.duration < Duration::from_millis(200), "{report:?}");
    client.close().await;
}

/// A call that was cut and not sent again did not go on over the new connection.
#[tokio::test]
async fn a_call_that_is_not_sent_again_has_no_recovery() {
    let server = FakeServer::new().tool("pay", |_| "paid").serve_http().await.unwrap();
    let client = Client::connect(server.server()).await.unwrap();
    server.cut_next();
    let error = client.call("pay").await.unwrap_err();
    let report = error.report().expect("a report");
    assert_eq!((report.outcome, report.attempts), (Outcome::Failed(Execution::Unknown), 1));
    assert_eq!(report.recoveries, 0);
    client.close().await;
}

/// The error and its report say the same of a result that cannot be decoded.
#[tokio::test]
async fn a_result_that_cannot_be_decoded_has_one_outcome() {
    let server = FakeServer::new().tool("text", |_| "no JSON").serve_io();
    let client = server.connect().await.unwrap();
    let error = client.call("text").start().json::<Value>().await.unwrap_err();
    assert_eq!(error.report().expect("a report").outcome, error.outcome());
    assert_eq!(error.outcome(), Outcome::Failed(Execution::Unknown));
}

//! Each fault leads to the outcome that a client of this workspace reports for it.

use std::time::Duration;

use bowline::host::Host;
use bowline::{CallOptions, Cause, Client, Error, Execution, Exit, Limit, Status};
use bowline_test::{ElicitationReply, FakeControl, FakeHttpServer, FakeServer, ToolError};
use serde_json::json;
use tokio::time::timeout;

async fn serve(server: FakeServer) -> (FakeHttpServer, Client) {
    let server = server.tool("echo", |args| args).serve_http().await.unwrap();
    let client = Client::connect(server.server()).await.unwrap();
    (server, client)
}

fn cause(error: &Error) -> (Cause, Execution) {
    let fault = error.fault().expect("a fault");
    (fault.cause.clone(), fault.execution)
}

fn count(server: &FakeControl, method: &str) -> usize {
    server.received().iter().filter(|one| one.method == method).count()
}

#[tokio::test]
async fn a_lost_session_is_replaced_within_the_call() {
    let (server, client) = serve(FakeServer::new()).await;
    server.lose_session();
    client.call_tool("echo", &json!({})).await.unwrap();
    assert_eq!((count(&server, "initialize"), count(&server, "tools/call")), (2, 2));
    server.assert_called("echo", 1);
    assert_eq!(client.health().sessions_lost, 1);
    client.close().await;
}

/// Over byte streams there is no session to lose: the server still knows what the client declared
/// and what it subscribed to.
#[tokio::test]
async fn losing_sessions_over_streams_changes_nothing() {
    let server = FakeServer::new().resource("note:///1", "first").async_tool("ask", |cx, _| async move {
        let schema = json!({ "type": "object", "properties": { "size": { "type": "string" } } });
        match cx.elicit_form("Which size?", schema).await? {
            ElicitationReply::Accept(form) => Ok(form["size"].as_str().unwrap().to_owned()),
            other => Err(ToolError::new(format!("{other:?}"))),
        }
    });
    let server = server.serve_io();
    let (reader, writer) = server.streams();
    let host = Host::new().on_form(async |request| request.accept(json!({ "size": "large" })));
    let client = Client::builder(server.server()).handler(host).connect_io(reader, writer).await.unwrap();
    let mut subscription = client.subscribe("note:///1").await.unwrap();
    server.lose_session();
    let result = client.call_tool("ask", &()).await.unwrap();
    assert_eq!((&*result.text(), result.is_error), ("large", false));
    server.update_resource("note:///1", "second");
    let change = timeout(Duration::from_secs(30), subscription.next()).await.unwrap().unwrap();
    assert_eq!((&*change.uri, change.inferred), ("note:///1", false));
    assert_eq!((count(&server, "initialize"), count(&server, "resources/subscribe")), (1, 1));
    server.assert_called("ask", 1);
    assert_eq!(client.health().sessions_lost, 0);
    client.close().await;
}

#[tokio::test]
async fn a_cut_leaves_the_outcome_unknown() {
    for server in [FakeServer::new(), FakeServer::modern()] {
        let (server, client) = serve(server).await;
        server.cut_next();
        let error = client.call_tool("echo", &json!({})).await.unwrap_err();
        assert_eq!(cause(&error), (Cause::Cut, Execution::Unknown));
        server.assert_called("echo", 0);
        client.call_tool("echo", &json!({})).await.unwrap();
        client.close().await;
    }
}

#[tokio::test]
async fn a_cut_call_of_a_tool_that_only_reads_is_sent_again() {
    let server = FakeServer::new()
        .tool("read", |_| "read")
        .define("read", json!({ "annotations": { "readOnlyHint": true } }))
        .serve_http()
        .await
        .unwrap();
    let client = Client::connect(server.server()).await.unwrap();
    client.list_tools().await.unwrap();
    server.cut_next();
    assert_eq!(client.call_tool("read", &()).await.unwrap().text(), "read");
    assert_eq!(count(&server, "tools/call"), 2);
    server.assert_called("read", 1);
    client.close().await;
}

#[tokio::test]
async fn a_cut_over_streams_ends_the_connection() {
    let server = FakeServer::new().tool("echo", |args| args).serve_io();
    let client = server.connect().await.unwrap();
    server.cut_next();
    let error = client.call_tool("echo", &json!({})).await.unwrap_err();
    assert_eq!(cause(&error), (Cause::Exited(Exit::Eof), Execution::Unknown));
    let later = client.call_tool("echo", &json!({})).await.unwrap_err();
    assert_eq!(cause(&later), (Cause::Exited(Exit::Eof), Execution::NotExecuted));
    assert!(matches!(client.status().current(), Status::Failed(_)));
}

#[tokio::test]
async fn a_restart_is_survived_by_the_next_call() {
    for server in [FakeServer::new(), FakeServer::modern()] {
        let (server, client) = serve(server).await;
        let url = server.url();
        server.restart().await;
        client.call_tool("echo", &json!({})).await.unwrap();
        assert_eq!(server.url(), url);
        server.assert_called("echo", 1);
        client.close().await;
    }
}

#[tokio::test]
async fn a_delayed_answer_exceeds_the_idle_timeout() {
    let (server, client) = serve(FakeServer::new()).await;
    server.delay_next(Duration::from_secs(3600));
    let options = CallOptions::new().idle_timeout(Duration::from_millis(100));
    let error = client.call_tool_with("echo", &json!({}), &options).await.unwrap_err();
    assert_eq!(cause(&error), (Cause::Timeout(Limit::Idle), Execution::Unknown));
    client.call_tool("echo", &json!({})).await.unwrap();
    client.close().await;
}

#[tokio::test]
async fn a_refused_request_needs_a_login() {
    let (server, client) = serve(FakeServer::new()).await;
    server.unauthorized_next();
    let error = client.call_tool("echo", &json!({})).await.unwrap_err();
    let challenge = vec!["Bearer".to_owned()];
    let login = Cause::LoginRequired { code: 401, challenge };
    assert_eq!(cause(&error), (login, Execution::NotExecuted));
    server.assert_called("echo", 0);
    client.close().await;
}

/// All limits are timers of tokio, so a paused clock skips the wait for them.
#[tokio::test(start_paused = true)]
async fn an_idle_timeout_of_a_minute_elapses_at_once() {
    let real = std::time::Instant::now();
    for server in [FakeServer::new(), FakeServer::modern()] {
        let server = server.tool("echo", |args| args).serve_io();
        let client = server.connect().await.unwrap();
        server.delay_next(Duration::from_secs(3600));
        let begun = tokio::time::Instant::now();
        let error = client.call_tool("echo", &json!({})).await.unwrap_err();
        assert_eq!(cause(&error), (Cause::Timeout(Limit::Idle), Execution::Unknown));
        assert_eq!(begun.elapsed().as_secs(), 60);
        client.close().await;
    }
    assert!(real.elapsed() < Duration::from_secs(30), "the clock was not skipped");
}

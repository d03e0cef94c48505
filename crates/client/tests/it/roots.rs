//! A server that works in its roots gets them before the first call (RT-01).

use std::time::Duration;

use bowline::config::Protocol;
use bowline::host::{Host, Root, Roots};
use bowline::{Client, Id, Json, Server};
use bowline_proto::wire::{Message, outgoing};
use bowline_testkit as testkit;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::timeout;

use crate::support::{PipeEnd, TEST_TIMEOUT, http, io_pair};

/// Makes a host with one root that waits this long for the server to request it.
fn host(folder: &TempDir, wait: Duration) -> Host {
    let root = Root::folder(folder.path()).unwrap();
    Host::new().roots(Roots::new([root])).roots_wait(wait)
}

/// A legacy server on a pipe that requests the roots some time after the handshake, or never.
/// Returns the order of the messages that followed: `answer`, or the method.
async fn serve(mut end: PipeEnd, asks_after: Option<Duration>) -> Vec<String> {
    let answer = |id: &Id, result: Value| outgoing::response(id, Ok(&Json::encode(&result).unwrap()));
    let mut seen = Vec::new();
    loop {
        match end.next_message().await {
            Message::Request { id, method, .. } if &*method == "initialize" => {
                let result = json!({ "protocolVersion": "2025-11-25", "capabilities": { "tools": {} } });
                end.writer.send(&answer(&id, result)).await.unwrap();
            }
            Message::Notification { method, .. } if &*method == "notifications/initialized" => {
                let Some(delay) = asks_after else { continue };
                tokio::time::sleep(delay).await;
                let request = outgoing::request(
                    7,
                    "roots/list",
                    None,
                    &outgoing::RequestMeta::none(),
                    outgoing::ProgressMode::Unwanted,
                );
                end.writer.send(&request.unwrap()).await.unwrap();
            }
            Message::Request { id, method, .. } => {
                seen.push(method.to_string());
                end.writer.send(&answer(&id, json!({ "content": [] }))).await.unwrap();
                return seen;
            }
            Message::Result { .. } => seen.push("answer".to_owned()),
            other => panic!("{other:?}"),
        }
    }
}

async fn call_order(host: Host, asks_after: Option<Duration>) -> Vec<String> {
    let ((reader, writer), theirs) = io_pair();
    let served = tokio::spawn(serve(theirs, asks_after));
    let entry = Server::stdio("test", "unused").build().unwrap().with_protocol(Protocol::Legacy);
    let client = Client::builder(entry).handler(host).connect_io(reader, writer).await.unwrap();
    timeout(TEST_TIMEOUT, client.call_tool("x", &Value::Null)).await.expect("in time").unwrap();
    served.await.unwrap()
}

#[tokio::test]
async fn rt_01_a_pipe_server_gets_roots_before_the_first_call() {
    let folder = tempfile::tempdir().unwrap();
    let later = Some(Duration::from_millis(200));
    assert_eq!(call_order(host(&folder, TEST_TIMEOUT), later).await, ["answer", "tools/call"]);
}

#[tokio::test]
async fn rt_01_a_server_that_requests_no_roots_is_called_anyway() {
    let folder = tempfile::tempdir().unwrap();
    let moment = Duration::from_millis(50);
    assert_eq!(call_order(host(&folder, moment), None).await, ["tools/call"]);
    // Without roots there is no wait.
    assert_eq!(call_order(Host::new().roots_wait(TEST_TIMEOUT * 100), None).await, ["tools/call"]);
}

#[tokio::test]
async fn rt_01_a_stream_server_gets_roots_before_the_first_call() {
    let folder = tempfile::tempdir().unwrap();
    let server = testkit::server().legacy().tool("echo").run().await;
    let entry = http(&server).with_protocol(Protocol::Legacy);
    let asking = tokio::spawn({
        let server = server.clone();
        async move { server.request("roots/list", json!({})).await }
    });
    let client = Client::builder(entry).handler(host(&folder, TEST_TIMEOUT)).connect().await.unwrap();
    client.call_tool("echo", &json!({})).await.unwrap();
    let answer = timeout(TEST_TIMEOUT, asking).await.unwrap().unwrap();
    assert_eq!(answer["result"]["roots"].as_array().unwrap().len(), 1, "{answer}");
    let received = server.received();
    let place = |what: &str| received.iter().position(|one| one.has_method(what)).unwrap();
    assert!(place("response") < place("tools/call"));
    client.close().await;
}

/// A server without its own stream cannot request roots before a call.
#[tokio::test]
async fn rt_01_a_server_without_a_stream_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let server = testkit::server().legacy().no_get_stream().tool("echo").run().await;
    let entry = http(&server).with_protocol(Protocol::Legacy);
    let connecting = Client::builder(entry).handler(host(&folder, TEST_TIMEOUT * 100)).connect();
    let client = timeout(TEST_TIMEOUT, connecting).await.expect("in time").unwrap();
    client.call_tool("echo", &json!({})).await.unwrap();
    client.close().await;
}

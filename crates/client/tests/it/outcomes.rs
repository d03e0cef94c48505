//! Every call ends in bounded time, whatever happens around it.

use std::time::{Duration, Instant};

use bowline::{CallOptions, Cause, Client, Execution, Id, Json, Limit, RpcError, Server, Status};
use bowline_proto::wire::{Message, outgoing};
use bowline_transport::pipe::{MAX_QUEUED_BYTES, PipeWriter};
use serde_json::json;
use tokio::time::timeout;

use crate::support::{PipeEnd, TEST_TIMEOUT, io_pair};

/// Connects a client over byte streams with a legacy handshake. Returns it and the server's end.
async fn connect_over_io() -> (Client, PipeEnd) {
    let ((reader, writer), mut theirs) = io_pair();
    let served = tokio::spawn(async move {
        loop {
            match theirs.next_message().await {
                Message::Request { id, method, .. } if &*method == "server/discover" => {
                    let unknown = RpcError { code: -32601, message: "no".into(), data: None };
                    theirs.writer.send(&outgoing::response(&id, Err(&unknown))).await.unwrap();
                }
                Message::Request { id, .. } => {
                    let result = json!({ "protocolVersion": "2025-11-25", "capabilities": { "tools": {} } });
                    answer(&theirs.writer, &id, &result).await;
                }
                _ => return theirs,
            }
        }
    });
    let entry = Server::stdio("test", "unused").build().unwrap().with_idle_timeout(Duration::from_secs(2));
    let client = Client::builder(entry).connect_io(reader, writer).await.unwrap();
    (client, served.await.unwrap())
}

async fn next_id(end: &mut PipeEnd) -> Id {
    match end.next_message().await {
        Message::Request { id, .. } => id,
        other => panic!("{other:?}"),
    }
}

async fn answer(writer: &PipeWriter, id: &Id, result: &serde_json::Value) {
    writer.send(&outgoing::response(id, Ok(&Json::encode(result).unwrap()))).await.unwrap();
}

/// Closing between two pages of a list ends the list: the second request must not hang.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_between_two_pages_ends_the_list() {
    for _ in 0..100 {
        let (client, mut end) = connect_over_io().await;
        let listing = tokio::spawn({
            let client = client.clone();
            async move { client.list_tools().await }
        });
        let id = next_id(&mut end).await;
        answer(&end.writer, &id, &json!({ "tools": [], "nextCursor": "more" })).await;
        let closing = tokio::spawn(async move { client.close().await });
        let error = timeout(TEST_TIMEOUT, listing).await.expect("an outcome").unwrap().unwrap_err();
        assert_eq!(error.fault().unwrap().cause, Cause::Closed);
        closing.await.unwrap();
    }
}

/// A server that reads nothing: the first call blocks the pipe, the second fills the queue before
/// it, and the third waits for room. All have a deadline, and the third was not executed.
#[tokio::test]
async fn a_call_waiting_on_a_full_pipe_times_out() {
    let (client, _end) = connect_over_io().await;
    let options = CallOptions::new().idle_timeout(Duration::from_millis(300));
    let call = async |bytes: usize| {
        let arguments = json!({ "x": "y".repeat(bytes) });
        let call = client.call_tool_with("t", &arguments, &options);
        let error = timeout(TEST_TIMEOUT, call).await.expect("an outcome").unwrap_err();
        assert_eq!(error.fault().unwrap().cause, Cause::Timeout(Limit::Idle));
        error.execution()
    };
    // All are sent, in this order, before the driver can find one of them expired and give the
    // server up.
    let outcomes = tokio::join!(call(128 << 10), call(MAX_QUEUED_BYTES as usize), call(0));
    assert_eq!(outcomes, (Execution::Unknown, Execution::Unknown, Execution::NotExecuted));
}

/// A server that closes its stdin but keeps running: the link is dropped.
#[cfg(unix)]
#[tokio::test]
async fn a_link_whose_input_is_closed_is_dropped() {
    let script = r#"
        read a; echo '{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}'
        read a; echo '{"jsonrpc":"2.0","id":2,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}}}}'
        read a; exec 0<&-; sleep 1000"#;
    let client = Client::connect(Server::stdio("test", "sh").args(["-c", script])).await.unwrap();
    let status = client.status();
    let short = CallOptions::new().idle_timeout(Duration::from_millis(200));
    timeout(TEST_TIMEOUT, async {
        while matches!(status.current(), Status::Ready(_)) {
            client.call_tool_with("t", &json!({}), &short).await.unwrap_err();
        }
    })
    .await
    .expect("the link is left");
    client.close().await;
}

/// CN-06: a maximum timeout below the idle timeout holds.
#[tokio::test]
async fn cn_06_a_short_maximum_timeout_holds() {
    let (client, _end) = connect_over_io().await;
    let begun = Instant::now();
    let options = CallOptions::new().idle_timeout(TEST_TIMEOUT).timeout(Duration::from_millis(100));
    let error = client.call_tool_with("t", &json!({}), &options).await.unwrap_err();
    assert_eq!(error.fault().unwrap().cause, Cause::Timeout(Limit::Total));
    assert_eq!(error.execution(), Execution::Unknown);
    assert!(begun.elapsed() < TEST_TIMEOUT / 2);
}

/// A progress callback that panics does not end the connection.
#[tokio::test]
async fn a_panicking_listener_does_not_end_the_connection() {
    let (client, mut end) = connect_over_io().await;
    let call = tokio::spawn({
        let client = client.clone();
        let options = CallOptions::new().on_progress(|_| panic!("a mistake of the host's"));
        async move { client.call_tool_with("t", &json!({}), &options).await }
    });
    let id = next_id(&mut end).await;
    let progress = Json::encode(&json!({ "progressToken": id.as_request_number(), "progress": 1 })).unwrap();
    end.writer.send(&outgoing::notification("notifications/progress", Some(&progress))).await.unwrap();
    answer(&end.writer, &id, &json!({ "content": [] })).await;
    call.await.unwrap().unwrap();
    assert!(matches!(client.status().current(), Status::Ready(_)));
    client.close().await;
}

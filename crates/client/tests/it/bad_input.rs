//! Servers that send garbage: a typed error for the affected call, other calls unaffected, memory
//! bounded.

use std::time::Duration;

use bowline::{CallOptions, Cause, Client, Defect, Execution, Misbehavior, Server};
use bowline_testkit::{self as testkit, Fault};
use serde_json::json;

use crate::support::{http, run_everywhere};

/// Replies that are not valid responses, and when the caller gets an error for each.
fn garbage() -> Vec<(&'static str, Vec<u8>, ErrorTiming)> {
    use ErrorTiming::{ByDeadlineOnPipes, Immediate};
    let id = "{\"jsonrpc\":\"2.0\",\"id\":ID,";
    let deep = |n: usize| format!("{id}\"result\":{}{}}}", "[".repeat(n), "]".repeat(n));
    vec![
        ("noise", b"Server listening on port 80".to_vec(), ByDeadlineOnPipes),
        ("half a message", format!("{id}\"result\":{{\"content\":[").into_bytes(), Immediate),
        ("invalid UTF-8", [id.as_bytes(), b"\"result\":{\"content\":\"\xff\xfe\"}}"].concat(), Immediate),
        ("duplicate keys", format!("{id}\"result\":{{}},\"result\":{{}}}}").into_bytes(), Immediate),
        (
            "result and error",
            format!("{id}\"result\":{{}},\"error\":{{\"code\":1,\"message\":\"x\"}}}}").into_bytes(),
            Immediate,
        ),
        ("neither", format!("{}}}", id.trim_end_matches(',')).into_bytes(), Immediate),
        ("a number", b"42".to_vec(), ByDeadlineOnPipes),
        (
            "a result for nobody",
            b"{\"jsonrpc\":\"2.0\",\"id\":987654321,\"result\":{}}".to_vec(),
            ByDeadlineOnPipes,
        ),
        (
            "an error for nobody",
            b"{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32000,\"message\":\"x\"}}".to_vec(),
            ByDeadlineOnPipes,
        ),
        ("a result of the wrong shape", format!("{id}\"result\":[1,2]}}").into_bytes(), Immediate),
        ("10,000 levels", deep(10_000).into_bytes(), Immediate),
        ("an unclosed abyss", format!("{id}\"result\":{}", "[".repeat(10_000)).into_bytes(), Immediate),
    ]
}

#[derive(Clone, Copy, PartialEq)]
enum ErrorTiming {
    Immediate,
    /// Over HTTP a reply belongs to its request; on a pipe it cannot be assigned to a call.
    ByDeadlineOnPipes,
}

#[tokio::test]
async fn garbage_costs_one_call() {
    for (transport, running, server) in run_everywhere(testkit::server().tool("echo")).await {
        let client = Client::connect(server).await.unwrap();
        for (name, bytes, told) in garbage() {
            // Calls are numbered, so the next id is known.
            let last =
                running.received().iter().filter_map(|received| received.body["id"].as_u64()).max().unwrap();
            let text = replace(&bytes, b"ID", (last + 1).to_string().as_bytes());
            running.arm(Fault::raw(text).on("tools/call"));
            let on_pipe = transport.ends_with("stdio");
            let patience = if on_pipe && told == ErrorTiming::ByDeadlineOnPipes { 200 } else { 20_000 };
            let options = CallOptions::new().idle_timeout(Duration::from_millis(patience));
            let error = client.call_tool_with("echo", &json!({}), &options).await.unwrap_err();
            if let Some(fault) = error.fault() {
                let timed_out = matches!(fault.cause, Cause::Timeout(_));
                assert_eq!(
                    timed_out,
                    on_pipe && told == ErrorTiming::ByDeadlineOnPipes,
                    "{transport}, {name}: {error}"
                );
                assert_eq!(fault.execution, Execution::Unknown, "{transport}, {name}");
            } else {
                assert_eq!(name, "an error for nobody", "{transport}: {error}");
            }
            // Other calls are unaffected.
            client
                .call_tool("echo", &json!({}))
                .await
                .unwrap_or_else(|error| panic!("{transport}, {name}: {error}"));
        }
        assert!(running.initialize_count() <= 1, "{transport}: the connection held");
        client.close().await;
    }
}

/// BM-05: an unknown `resultType` makes the response invalid; a missing one means complete.
#[tokio::test]
async fn bm_05_unknown_result_types() {
    let server = testkit::server().modern().tool("echo").run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    server.arm(Fault::reply(json!({ "resultType": "banana", "content": [] })).on("tools/call"));
    let error = client.call_tool("echo", &json!({})).await.unwrap_err();
    assert_eq!(error.fault().unwrap().cause, Cause::Protocol(Misbehavior::UnknownResultType));
    server.arm(Fault::raw("{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"content\":[]}}").on("tools/call"));
    client.call_tool("echo", &json!({})).await.unwrap();
    client.close().await;
}

/// A line of 100 MB fails its call, the connection goes on, and memory stays bounded.
#[tokio::test]
async fn a_line_of_100_mb_fails_one_call_in_bounded_memory() {
    // The server runs in its own process: one in this process would use its memory too.
    let command = testkit::stdio_command(&testkit::server().legacy().tool("echo").tool("big"));
    let entry = Server::stdio("test", command.program.to_str().unwrap()).args(command.args).build().unwrap();
    let client = Client::connect(entry).await.unwrap();
    let before = peak_memory();
    let error = client.call_tool("big", &json!({ "bytes": 100_000_000 })).await.unwrap_err();
    assert!(matches!(error.fault().unwrap().cause, Cause::Protocol(Misbehavior::TooLarge { .. })), "{error}");
    if let (Some(before), Some(after)) = (before, peak_memory()) {
        assert!(after - before < 100_000, "{} KiB more", after - before);
    }
    client.call_tool("echo", &json!({})).await.unwrap();
    client.close().await;
}

/// A body of 100 MB fails its call in bounded memory.
#[tokio::test]
async fn a_body_of_100_mb_fails_one_call_in_bounded_memory() {
    let server = testkit::server().legacy().tool("echo").tool("big").run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    let error = client.call_tool("big", &json!({ "bytes": 100_000_000 })).await.unwrap_err();
    assert!(matches!(error.fault().unwrap().cause, Cause::Protocol(Misbehavior::TooLarge { .. })), "{error}");
    client.call_tool("echo", &json!({})).await.unwrap();
    client.close().await;
}

/// The connection closes at every byte of a response: a typed error each time, and the next call
/// succeeds.
#[tokio::test]
async fn a_response_cut_at_any_byte_is_a_typed_error() {
    let server = testkit::server().legacy().tool("echo").run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    let mut cuts = 0;
    for bytes in (0..400).step_by(7) {
        server.arm(Fault::cut_after(bytes).on("tools/call").executed());
        match client.call_tool("echo", &json!({ "text": "x".repeat(100) })).await {
            // Cut after the last byte: nothing is missing.
            Ok(_) => break,
            Err(error) => {
                cuts += 1;
                assert!(error.fault().is_some(), "cut after {bytes}: {error}");
                assert_eq!(error.execution(), Execution::Unknown, "cut after {bytes}: {error}");
            }
        }
        client
            .call_tool("echo", &json!({}))
            .await
            .unwrap_or_else(|error| panic!("after a cut at {bytes}: {error}"));
    }
    assert!(cuts > 20, "{cuts}");
    assert_eq!(server.initialize_count(), 1);
    client.close().await;
}

/// BM-03: the error names the defect.
#[tokio::test]
async fn the_error_names_the_defect() {
    let server = testkit::server().legacy().tool("echo").run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    server.arm(Fault::raw("{\"id\":").on("tools/call"));
    let error = client.call_tool("echo", &json!({})).await.unwrap_err();
    assert_eq!(error.fault().unwrap().cause, Cause::Protocol(Misbehavior::Malformed(Defect::NotJson)));
    client.close().await;
}

fn replace(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    match bytes.windows(from.len()).position(|window| window == from) {
        Some(at) => [&bytes[..at], to, &bytes[at + from.len()..]].concat(),
        None => bytes.to_vec(),
    }
}

/// Returns the peak memory of this process in KiB, where the system reports it.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find(|line| line.starts_with("VmHWM"))?.split_whitespace().nth(1)?.parse().ok()
}

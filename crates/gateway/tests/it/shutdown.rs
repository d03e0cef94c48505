//! Shutdown: in good order, whatever is under way.

use std::time::Duration;

use bowline::Server;
use bowline_config::TransportSettings as _;
use bowline_gateway::Relay;
use bowline_testkit as testkit;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::support::{TEST_TIMEOUT, TestHost, server_at};

/// HL-04: the session is ended on the server.
#[tokio::test]
async fn hl_04_closing_stdin_ends_the_session_on_the_server() {
    let server = testkit::server().legacy().tool("echo").run().await;
    let host = TestHost::connect(&server).await;
    assert!(host.close().await.is_empty());
    assert_eq!(server.count("DELETE"), 1);
    assert!(server.sessions().is_empty());
}

#[tokio::test]
async fn slow_calls_are_canceled_after_stdin_closed() {
    let server = testkit::server().legacy().tool("slow").run().await;
    let mut host =
        TestHost::start(Relay::new(server_at(&server)).with_drain_timeout(Duration::from_millis(300)));
    host.initialize(json!({})).await;
    host.send_request(1, "tools/call", json!({"name": "slow", "arguments": {"ms": 60_000}})).await;
    server.wait_for(|received| received.tool() == Some("slow"), TEST_TIMEOUT).await;
    assert!(host.close().await.is_empty(), "no answer to what was cancelled");
    assert_eq!(server.cancellations().len(), 1);
    assert_eq!(server.count("DELETE"), 1);
}

/// `echo … | bowline connect`
#[tokio::test]
async fn open_requests_are_answered_after_stdin_closed() {
    let server = testkit::server().legacy().tool("echo").tool("slow").run().await;
    let mut host = TestHost::start(Relay::new(server_at(&server)));
    host.send_request(1, "initialize", json!({"protocolVersion": "2025-06-18"})).await;
    host.send_request(2, "tools/list", Value::Null).await;
    host.send_request(3, "tools/call", json!({"name": "slow", "arguments": {"ms": 2000}})).await;
    let said = host.close().await;
    assert_eq!(said.iter().map(|message| message["id"].clone()).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(said[1]["result"]["tools"][0]["name"], "echo");
    assert!(said[2]["result"].is_object(), "{}", said[2]);
    assert_eq!(server.count("DELETE"), 1);
}

/// Nobody waits for a response that a host without stdin cannot send.
#[tokio::test]
async fn a_stop_ends_it_after_stdin_closed() {
    let server = testkit::server().legacy().tool("slow").run().await;
    let relay = Relay::new(server_at(&server)).with_drain_timeout(TEST_TIMEOUT * 2);
    let mut host = TestHost::start(relay);
    host.initialize(json!({"roots": {}})).await;
    host.send_request(1, "tools/call", json!({"name": "slow", "arguments": {"ms": 60_000}})).await;
    server.wait_for(|received| received.tool() == Some("slow"), TEST_TIMEOUT).await;
    host.close_stdin().await;
    let answer = server.request("roots/list", json!({})).await;
    assert_eq!(answer["error"]["message"], "the host has left", "{answer}");
    host.stop();
    host.close().await;
    assert_eq!((server.cancellations().len(), server.count("DELETE")), (1, 1));
}

#[tokio::test]
async fn a_stop_ends_it_while_the_host_stays() {
    let server = testkit::server().legacy().tool("slow").run().await;
    let mut host = TestHost::connect(&server).await;
    host.send_request(1, "tools/call", json!({"name": "slow", "arguments": {"ms": 60_000}})).await;
    server.wait_for(|received| received.tool() == Some("slow"), TEST_TIMEOUT).await;
    host.stop();
    let rest = host.close().await;
    assert_eq!(rest.len(), 1, "{rest:?}");
    assert_eq!((&rest[0]["id"], &rest[0]["error"]["code"]), (&json!(1), &json!(-31050)), "{rest:?}");
    assert_eq!(rest[0]["error"]["data"]["bowline"]["execution"], "unknown", "{rest:?}");
    assert_eq!((server.cancellations().len(), server.count("DELETE")), (1, 1));
}

#[tokio::test]
async fn a_process_is_ended_with_the_host() {
    let server = testkit::server().legacy().tool("echo").stdio().await;
    let start = server.command();
    let mut reached =
        Server::stdio("child", start.program.display().to_string()).args(start.args.clone()).build().unwrap();
    for (name, value) in start.env {
        reached = reached.with_env(name, value).unwrap();
    }
    let mut host = TestHost::start(Relay::new(reached));
    host.initialize(json!({})).await;
    host.close().await;
    server.expect_all_exited().await;
    assert_eq!(server.processes().len(), 1);
}

#[tokio::test]
async fn a_host_that_leaves_while_the_server_is_being_reached_is_not_waited_for() {
    let server = testkit::server().legacy().tool("echo").fault(testkit::Fault::silent().always()).run().await;
    let mut host =
        TestHost::start(Relay::new(server_at(&server)).with_drain_timeout(Duration::from_millis(300)));
    host.send_request(1, "initialize", json!({"protocolVersion": "2025-06-18"})).await;
    server.wait_until(|server| !server.received().is_empty(), TEST_TIMEOUT).await;
    let begun = std::time::Instant::now();
    assert!(host.close().await.is_empty());
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}

/// A host that reads nothing does not make us buffer without bound: it is not read either, and what
/// was requested of the server is bounded.
#[tokio::test]
async fn a_host_that_does_not_read_is_not_read() {
    let server = testkit::server().legacy().tool("big").run().await;
    let (mut to, stdin) = tokio::io::duplex(64 * 1024);
    let (stdout, mut from) = tokio::io::duplex(64 * 1024);
    let host = bowline_gateway::Host::new(stdin, stdout);
    let relay = tokio::spawn(Relay::new(server_at(&server)).run(host, std::future::pending()));
    let hello =
        r#"{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#;
    to.write_all(format!("{hello}\n").as_bytes()).await.unwrap();
    // Pings are answered by the relay, so their cost is ours alone. 40 MB are more than may be
    // queued.
    let flood =
        format!("{}\n", r#"{"jsonrpc":"2.0","id":"ID","method":"ping"}"#.replace("ID", &"p".repeat(100_000)));
    let writing = async {
        let mut written = 0;
        while written < 400 {
            to.write_all(flood.as_bytes()).await.unwrap();
            written += 1;
        }
        written
    };
    let stuck = tokio::time::timeout(Duration::from_secs(3), writing).await;
    assert!(stuck.is_err(), "everything was taken in: {stuck:?}");
    drop(to);
    let mut all = Vec::new();
    tokio::time::timeout(TEST_TIMEOUT, from.read_to_end(&mut all)).await.expect("it ends").unwrap();
    relay.await.unwrap();
}

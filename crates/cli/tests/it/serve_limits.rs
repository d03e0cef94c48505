//! What hosts of `bowline serve` may use, and that those which vanish leave nothing behind.

use std::time::Duration;

use bowline_testkit::{self as testkit, HttpServer};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::connect::host::{Host, TEST_TIMEOUT};
use crate::context::Context;
use crate::serve::{Gateway, tools};
use crate::serve_front::daemons::Daemons;
use crate::status::{http_entry, stdio_entry};

/// How many hosts vanish in each of two batches. The soak test of the gateway has 10,000.
const VANISHING_HOSTS: usize = 500;
/// How many of them come at once.
const CONCURRENT_HOSTS: usize = 16;
/// How much more memory the gateway may have after the second batch than after the first, in kB.
const MEMORY_BOUND: u64 = 8 * 1024;

/// Begins a session and drops the connection. Returns whether there was room for the session.
async fn initialize_and_vanish(address: &str) -> bool {
    let params = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        // What servers offer is known for hosts of this name.
        "clientInfo": {"name": "plain-host", "version": "1"},
    });
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).to_string();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\naccept: application/json, \
         text/event-stream\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    stream.write_all(head.as_bytes()).await.expect("it reads");
    let mut status = String::new();
    let mut reader = BufReader::new(stream);
    timeout(TEST_TIMEOUT, reader.read_line(&mut status))
        .await
        .expect("an answer in time")
        .expect("an answer");
    assert!(status.starts_with("HTTP/1.1 200") || status.starts_with("HTTP/1.1 503"), "{status}");
    status.starts_with("HTTP/1.1 200")
}

/// Lets hosts begin sessions and vanish, as many as there is room for at a time.
async fn vanish(address: &str, count: usize) {
    let mut hosts = JoinSet::new();
    for number in 0..CONCURRENT_HOSTS {
        let address = address.to_owned();
        let count = count / CONCURRENT_HOSTS + usize::from(number < count % CONCURRENT_HOSTS);
        hosts.spawn(async move {
            for _ in 0..count {
                // There is room again when earlier sessions have been idle for long enough.
                while !initialize_and_vanish(&address).await {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            }
        });
    }
    hosts.join_all().await;
}

/// Waits until every session at the server was ended.
async fn expect_no_sessions(server: &HttpServer) {
    server
        .wait_until(
            |server| server.sessions().is_empty() && server.count("DELETE") == server.initialize_count(),
            TEST_TIMEOUT,
        )
        .await;
}

/// Hosts that say `initialize` and are never heard of again leave nothing: no session here or at a
/// server, no process, no file, and no memory.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn hosts_that_vanish_leave_nothing() {
    let context = Context::new();
    let one = testkit::server().legacy().tool("counter").run().await;
    let two = testkit::server().legacy().tool("echo").stdio().await;
    // A process that is started for each session at its beginning would be a test of process creation.
    context.user_config(&format!(
        "{}share = 'session'\n{}share = 'session'\nidle_stop = '30m'\n",
        http_entry("one", &one),
        stdio_entry("two", &two.command())
    ));
    // From now on it is known what the servers offer.
    let mut host = Host::start_initialized(context.bowline(["serve", "--stdio", "--alone"])).await;
    assert_eq!(tools(&mut host).await, ["counter", "echo"]);
    assert_eq!(host.close().await.status.code(), Some(0));
    let processes = two.processes().len();
    let args = ["--listen", "127.0.0.1:0", "--no-token", "--session-idle", "300ms", "--exit-when-idle", "5s"];
    let mut gateway = Gateway::start(&context, &args);
    let url = gateway.url().await;
    let address = url.strip_prefix("http://").and_then(|rest| rest.split('/').next()).expect("a URL");
    let mut memory = Vec::new();
    for _ in 0..2 {
        let before = one.initialize_count();
        vanish(address, VANISHING_HOSTS).await;
        // Each of them has a session there, unless its own is over before the server is reached.
        let most = VANISHING_HOSTS / 2;
        one.wait_until(|one| one.initialize_count() - before >= most, TEST_TIMEOUT).await;
        expect_no_sessions(&one).await;
        memory.push(gateway.resident_memory());
    }
    assert!(memory[1] <= memory[0] + MEMORY_BOUND, "{memory:?} kB");
    // It ends when there has been no session for five seconds.
    assert_eq!(gateway.wait().await.code(), Some(0));
    assert_eq!(two.processes().len(), processes, "no process was started for them");
    two.wait_until(|_| two.processes().iter().all(|process| !process.is_running()), TEST_TIMEOUT).await;
    let sessions = std::fs::read_dir(context.path("home/.local/state/bowline/sessions")).expect("a folder");
    let mut files: Vec<_> = sessions.map(|file| file.expect("a file").file_name()).collect();
    files.sort();
    assert_eq!(files, ["key", "owners"]);
}

/// A host reads in the error of its call that it has to wait.
#[cfg(unix)]
#[tokio::test]
async fn limits_are_configured() {
    for args in [&["serve", "--stdio", "--alone"][..], &["serve", "--stdio"]] {
        let context = Context::new();
        let one = testkit::server().legacy().tool("slow").tool("counter").run().await;
        let limits = "[serve.limits]\nrequests_in_flight = 1\n";
        context.user_config(&format!("{}{limits}", http_entry("one", &one)));
        let _daemons = Daemons::of(&context);
        let mut host = Host::start_initialized(context.bowline(args)).await;
        let params = json!({"name": "slow", "arguments": {"ms": 60_000}});
        let slow = host.send_request("tools/call", params).await;
        one.wait_for(|received| received.tool() == Some("slow"), TEST_TIMEOUT).await;
        let refused = host.call("counter").await;
        let facts = json!({"cause": "busy", "execution": "not_executed", "retry_after": 1.0});
        assert_eq!(refused["error"]["data"]["bowline"], facts, "{refused}");
        assert!(refused["error"]["message"].as_str().unwrap().ends_with("wait 1 s"), "{refused}");
        let params = json!({"requestId": slow});
        host.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})).await;
        // The place is free when the call has ended at its server.
        while host.call("counter").await["result"] == Value::Null {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        host.close().await;
    }
}

#[test]
fn limits_with_a_mistake_are_refused() {
    let context = Context::new();
    context.user_config("[servers.one]\nurl = 'http://127.0.0.1:9/mcp'\n[serve.limits]\nburst = 5\n");
    let shown = context.run(context.bowline(["serve", "--listen", "127.0.0.1:0"]));
    assert!(shown.starts_with("exit: 2\n"), "{shown}");
    assert!(shown.contains("serve.limits.burst: belongs to `requests_per_second`"), "{shown}");
}

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

/// Begins a session, calls a tool in it if `is_calling`, and drops the connection. Returns whether there was room for
/// the session, and whether it was still there for the call: it may be idle for so short a time that a busy machine
/// comes too late.
async fn initialize_and_vanish(address: &str, is_calling: bool) -> bool {
    let params = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        // What servers offer is known for hosts of this name.
        "clientInfo": {"name": "plain-host", "version": "1"},
    });
    let mut stream = BufReader::new(TcpStream::connect(address).await.expect("it listens"));
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
    let head = post(&mut stream, address, "", &body).await;
    if head.starts_with("HTTP/1.1 503") {
        return false;
    }
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    if is_calling {
        let session = head.lines().find(|line| line.starts_with("mcp-session-id:")).expect("a session");
        let mut stream = BufReader::new(TcpStream::connect(address).await.expect("it listens"));
        let params = json!({"name": "counter", "arguments": {}});
        let body = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params});
        let head = post(&mut stream, address, &format!("{session}\r\n"), &body).await;
        if head.starts_with("HTTP/1.1 404") {
            return false;
        }
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        let mut line = String::new();
        while !line.contains("\"result\"") {
            line.clear();
            let read = timeout(TEST_TIMEOUT, stream.read_line(&mut line)).await.expect("a result in time");
            assert_ne!(read.expect("a result"), 0, "it ends without a result");
        }
    }
    true
}

/// Posts a message, and returns the head of the response.
async fn post(stream: &mut BufReader<TcpStream>, address: &str, headers: &str, body: &Value) -> String {
    let body = body.to_string();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\naccept: application/json, \
         text/event-stream\r\n{headers}content-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.expect("it reads");
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        let read = timeout(TEST_TIMEOUT, stream.read_line(&mut head)).await.expect("an answer in time");
        assert_ne!(read.expect("an answer"), 0, "{head}");
    }
    head
}

/// Lets hosts begin sessions and vanish, as many as there is room for at a time. Each second one calls a tool before.
async fn vanish(address: &str, count: usize) {
    let mut hosts = JoinSet::new();
    for number in 0..CONCURRENT_HOSTS {
        let address = address.to_owned();
        let count = turns(number, count);
        hosts.spawn(async move {
            for turn in 0..count {
                // There is room again when earlier sessions have been idle for long enough.
                while !initialize_and_vanish(&address, turn % 2 == 1).await {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            }
        });
    }
    hosts.join_all().await;
}

/// How many of `count` hosts come one after the other, as number `number` of those that come at once.
fn turns(number: usize, count: usize) -> usize {
    count / CONCURRENT_HOSTS + usize::from(number < count % CONCURRENT_HOSTS)
}

/// How many of `count` hosts call a tool.
fn calling_hosts(count: usize) -> usize {
    (0..CONCURRENT_HOSTS).map(|number| turns(number, count) / 2).sum()
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
        let (before, calls) = (one.initialize_count(), one.executions("counter"));
        vanish(address, VANISHING_HOSTS).await;
        let calls = usize::try_from(one.executions("counter") - calls).expect("a count");
        assert_eq!(calls, calling_hosts(VANISHING_HOSTS));
        // The session of a host that does not call may be over before its server is reached.
        assert!(one.initialize_count() - before >= calls, "each of them has a session there");
        expect_no_sessions(&one).await;
        memory.push(gateway.resident_memory());
    }
    assert!(memory[1] <= memory[0] + MEMORY_BOUND, "{memory:?} kB");
    // It ends when there has been no session for five seconds.
    assert_eq!(gateway.wait().await.code(), Some(0));
    assert_eq!(two.processes().len(), processes, "no process was started for them");
    two.expect_all_exited().await;
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

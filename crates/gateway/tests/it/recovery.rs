//! Faults of the server that the host does not see, and changes that it does.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bowline::Server;
use bowline_gateway::Relay;
use bowline_testkit as testkit;
use serde_json::{Value, json};
use testkit::{StreamKind, Tool};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::TcpListener;

use crate::support::{TEST_TIMEOUT, TestHost, result_text, server_at};

#[tokio::test]
async fn the_hosts_session_outlives_the_servers() {
    let lookup = Tool::like("lookup", "counter").read_only();
    let server = testkit::server().legacy().tool("counter").tool(lookup).run().await;
    let mut host = TestHost::connect(&server).await;
    assert_eq!(result_text(&host.call_tool(1, "counter", json!({})).await), "1");
    server.drop_sessions();
    assert_eq!(result_text(&host.call_tool(2, "counter", json!({})).await), "2");
    assert_eq!((server.executions("counter"), server.initialize_count()), (2, 2));
    // A call on a connection whose end was not seen yet may have run: a read-only one is retried.
    server.restart().await;
    result_text(&host.call_tool(3, "lookup", json!({})).await);
    assert_eq!(server.initialize_count(), 3);
    // The host still has the same identity.
    let last = server.received_with_method("initialize").pop().unwrap();
    assert_eq!(last.params()["clientInfo"]["name"], "test-host");
}

#[tokio::test]
async fn what_the_server_says_unasked_reaches_the_host_as_it_came() {
    let server = testkit::server().legacy().tool("echo").resource("file:///a", "x").run().await;
    let mut host = TestHost::connect(&server).await;
    server.wait_until(|server| server.open_streams(StreamKind::Get) > 0, TEST_TIMEOUT).await;
    server.announce_tools();
    host.notification("notifications/tools/list_changed").await;
    let params = json!({"level": "info", "data": {"a": [1]}, "x-vendor": true});
    server.send(json!({"jsonrpc": "2.0", "method": "notifications/message", "params": params})).await;
    assert_eq!(host.notification("notifications/message").await["params"], params);
    server.send(json!({"jsonrpc": "2.0", "method": "notifications/x-vendor/y"})).await;
    assert_eq!(host.notification("notifications/x-vendor/y").await.get("params"), None);
}

/// A server that reconnects with other tools, and does not announce them.
#[tokio::test]
async fn a_list_that_changed_while_the_server_was_gone_is_announced() {
    let server = testkit::server().legacy().tool("echo").run().await;
    let mut host = TestHost::connect(&server).await;
    host.send_request(1, "tools/list", Value::Null).await;
    host.response(1).await;
    server.edit(|script| script.tool("new"));
    server.restart().await;
    host.call_tool(2, "echo", json!({})).await;
    host.notification("notifications/tools/list_changed").await;
}

#[tokio::test]
async fn how_the_connection_fares_is_told() {
    let server = testkit::server().legacy().tool("echo").run().await;
    let (sender, mut turns) = tokio::sync::mpsc::unbounded_channel();
    let relay = Relay::new(server_at(&server)).on_connection_event(move |life| {
        let _ = sender.send(life.kind.as_str());
    });
    let mut host = TestHost::start(relay);
    host.initialize(json!({})).await;
    server.drop_sessions();
    host.call_tool(1, "echo", json!({})).await;
    for turn in ["connected", "session_lost", "recovered"] {
        assert_eq!(tokio::time::timeout(TEST_TIMEOUT, turns.recv()).await.unwrap(), Some(turn));
    }
}

/// A gateway that accepts each request and cuts it is asked again with pauses, and not for ever.
#[tokio::test]
async fn a_gateway_that_cuts_each_request_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let requests = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&requests);
    let cutting = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let count = Arc::clone(&count);
            tokio::spawn(async move {
                let mut lines = BufReader::new(stream).lines();
                while let Ok(Some(line)) = lines.next_line().await {
                    if line.starts_with("POST ") {
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                    // The request is on its way to us, so it may have been executed.
                    if line.is_empty() {
                        return;
                    }
                }
            });
        }
    });
    let server = Server::http("gateway", url).build().unwrap().with_reconnect_wait(Duration::from_secs(1));
    let mut host = TestHost::start(Relay::new(server).relay_stateless_requests(|_| {}));
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    host.send_request(1, "resources/list", json!({ "_meta": meta })).await;
    let answer = host.response(1).await;
    assert_eq!(answer["error"]["data"]["bowline"]["execution"], "unknown", "{answer}");
    // From 20 ms on, each pause is longer than the one before.
    let requests = requests.load(Ordering::Relaxed);
    assert!((2..=50).contains(&requests), "{requests} requests in a second");
    cutting.abort();
    host.close().await;
}

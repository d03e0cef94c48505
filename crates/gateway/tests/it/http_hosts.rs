//! Hosts over HTTP: the relay serves them as it serves hosts on a pipe.

use std::future::pending;

use bowline::{Client, Server};
use bowline_gateway::Relay;
use bowline_server::{HttpListener, HttpSettings};
use bowline_testkit as testkit;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::support::{TEST_TIMEOUT, server_at};

async fn echo(client: &Client, number: usize) -> Value {
    let params = json!({"name": "echo", "arguments": {"n": number}});
    let called = timeout(TEST_TIMEOUT, client.request("tools/call", &params));
    called.await.expect("in time").expect("a result").decode().expect("JSON")
}

/// GW-14: two hosts with equal ids at once, each with its own session at the server.
#[tokio::test]
async fn hosts_over_http_are_relayed_side_by_side() {
    let server = testkit::server().legacy().tool("echo").run().await;
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut listener = HttpListener::tcp(socket, HttpSettings::new());
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let relay = Relay::new(server_at(&server));
    let serving = tokio::spawn(async move {
        let mut relays = JoinSet::new();
        for _ in 0..2 {
            let host = listener.accept().await.expect("the listener runs");
            relays.spawn(relay.clone().run(host, pending()));
        }
        relays.join_all().await;
        listener.shut_down(TEST_TIMEOUT).await;
    });
    let open = || Client::builder(Server::http("gateway", &url).build().unwrap()).open().unwrap();
    let clients = [open(), open()];
    for round in 0..5 {
        let (a, b) = tokio::join!(echo(&clients[0], round), echo(&clients[1], 100 + round));
        assert_eq!(a["content"][0]["text"], format!(r#"{{"n":{round}}}"#));
        assert_eq!(b["content"][0]["text"], format!(r#"{{"n":{}}}"#, 100 + round));
    }
    assert_eq!(server.count("initialize"), 2);
    for client in clients {
        client.close().await;
    }
    // The hosts delete their sessions, so the relays end.
    timeout(TEST_TIMEOUT, serving).await.expect("in time").expect("no panic");
}

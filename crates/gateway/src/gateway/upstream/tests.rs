//! Tests of when a session connects to servers.

use std::sync::Arc;
use std::time::Duration;

use bowline::config::Protocol;
use bowline::{Json, Server};
use bowline_proto::server::handshake::implementation;
use bowline_testkit::{self as testkit, Fault, HttpServer};

use super::super::Gateway;
use super::*;

/// A session of one of several principals, none of which shares connections with another.
fn open(gateway: &Arc<Shared>, principal: &str) -> Arc<Upstreams> {
    Upstreams::open(
        gateway,
        Identity {
            principal: Some(principal.into()),
            client_info: implementation("host", "1"),
            capabilities: Json::empty_object(),
            view: ViewChoice::Everything,
            tasks: HostTasks::ByRequest,
            via: Via::default(),
            session: None,
        },
    )
}

fn configured(name: &str, server: &HttpServer) -> Server {
    Server::http(name, server.url()).build().unwrap().with_protocol(Protocol::Legacy)
}

/// What is left before its turn is not connected to, also while the other connections are still being closed.
#[tokio::test]
async fn session_that_ends_before_its_turn_does_not_connect() {
    let limit = Duration::from_secs(20);
    let script = || testkit::server().legacy().tool("echo");
    let (slow, other) = (script().run().await, script().run().await);
    let gateway = Gateway::builder([configured("slow", &slow), configured("other", &other)]).build().0;
    let first = open(&gateway, "first");
    first.catalog().wait_until_known(limit).await;
    let turns = gateway.connect_pacer.take_all_turns().await;
    let second = open(&gateway, "second");
    // A call waits for no turn.
    let used = second.connect("slow").unwrap().unwrap();
    used.connection.shared().client.ready().await.unwrap();
    assert_eq!((slow.initialize_count(), other.initialize_count()), (2, 1));
    slow.arm(Fault::silent().on("DELETE").times(1));
    let closing = tokio::spawn(async move { second.close().await });
    slow.wait_for(|received| received.http_method == "DELETE", limit).await;
    drop(turns);
    closing.await.unwrap();
    first.close().await;
    assert_eq!(other.initialize_count(), 1);
    assert_eq!(other.sessions().len(), 0);
}

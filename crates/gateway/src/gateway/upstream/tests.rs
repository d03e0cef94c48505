//! Tests of when a session connects to servers.

use std::sync::Arc;
use std::time::Duration;

use bowline::config::{Protocol, View};
use bowline::{Json, Server};
use bowline_proto::server::handshake::implementation;
use bowline_testkit::{self as testkit, Fault, HttpServer};

use super::super::Gateway;
use super::*;

/// A session of one of several principals, none of which shares connections with another.
fn open(gateway: &Arc<Shared>, principal: &str) -> Arc<Upstreams> {
    open_view(gateway, principal, ViewChoice::Everything)
}

fn open_view(gateway: &Arc<Shared>, principal: &str, view: ViewChoice) -> Arc<Upstreams> {
    Upstreams::open(
        gateway,
        Identity {
            principal: Some(principal.into()),
            client_info: implementation("host", "1"),
            capabilities: Json::empty_object(),
            view,
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

/// A session that ends does not wait for the calls on it, as it does not for those on other connections.
#[tokio::test]
async fn hidden_connection_is_closed_with_its_session() {
    let limit = Duration::from_secs(20);
    let script = || testkit::server().legacy().tool("echo");
    let (shown, hidden) = (script().run().await, script().run().await);
    let servers = [configured("shown", &shown), configured("hidden", &hidden)];
    let gateway = Gateway::builder(servers).view("some", View::default()).build().0;
    let session = open_view(&gateway, "one", ViewChoice::Named("some".into()));
    session.catalog().wait_until_known(limit).await;
    let used = session.connect("hidden").unwrap().unwrap();
    let call = used.upstream.count_call().unwrap();
    let mut view = View::default();
    view.servers = Some(["shown".to_owned()].into());
    gateway.views.replace([("some".into(), view)]);
    assert!(session.connect("hidden").is_none());
    assert_eq!((shown.sessions().len(), hidden.sessions().len()), (1, 1));
    session.close().await;
    assert_eq!((shown.sessions().len(), hidden.sessions().len()), (0, 0));
    drop(call);
}

//! Many servers at once: healthy ones do not wait for others.

use std::collections::BTreeSet;
use std::time::Duration;

use bowline::config::{Hook, Protocol};
use bowline::host::Host;
use bowline::{
    Client, ConnectionEventKind, Event, EventReceiver, Registry, Server, ServerEvent, ServerState, Status,
};
use bowline_config::TransportSettings as _;
use bowline_testkit::{self as testkit, Fault, HttpServer, ScriptedRequest, Tool, with};
use serde_json::json;
use tokio::time::timeout;

use crate::support::{TEST_TIMEOUT, stdio};

fn named_server(name: &str, server: &HttpServer) -> Server {
    Server::http(name, server.url()).build().unwrap()
}

fn rename(server: Server, name: &str) -> Server {
    with!(server, name: name.to_owned())
}

async fn next_connection_event(events: &mut EventReceiver<ServerEvent>) -> (String, ConnectionEventKind) {
    loop {
        let named = timeout(TEST_TIMEOUT, events.next()).await.expect("an event").unwrap();
        if let Event::Connection(life) = named.event {
            assert_eq!(named.server, life.server);
            return (named.server.to_string(), life.kind);
        }
    }
}

fn state_of(registry: &Registry, name: &str) -> ServerState {
    registry.statuses().into_iter().find(|status| &*status.name == name).expect("it is known").state
}

/// One server is dead, one hangs, one is slow, ten are healthy. With one permit and the bad ones
/// first, the healthy ones are ready before the hanging ones time out.
#[tokio::test]
async fn a_hanging_server_does_not_delay_others() {
    let dead = testkit::server().run().await;
    dead.stop().await;
    let hanging = testkit::server().fault(Fault::silent().always()).run().await;
    let slow = testkit::server()
        .tool("echo")
        .fault(Fault::delay(Duration::from_secs(60)).on("server/discover").always())
        .run()
        .await;
    let healthy = testkit::server().tool("echo").run().await;
    let mut servers =
        vec![named_server("hanging", &hanging), named_server("slow", &slow), named_server("dead", &dead)];
    servers.extend((0..10).map(|number| named_server(&format!("healthy-{number}"), &healthy)));

    let registry =
        Registry::builder().max_concurrent(1).turn_duration(Duration::from_millis(50)).open(servers);
    let mut events = registry.events();
    let mut ready = BTreeSet::new();
    while ready.len() < 10 {
        match next_connection_event(&mut events).await {
            (name, ConnectionEventKind::Connected) => {
                assert!(name.starts_with("healthy-"), "{name}");
                ready.insert(name);
            }
            (name, turn) => assert_eq!((name.as_str(), turn), ("dead", ConnectionEventKind::Disconnected)),
        }
    }
    assert_eq!(state_of(&registry, "hanging"), ServerState::Connecting);
    assert_eq!(state_of(&registry, "slow"), ServerState::Connecting);
    // The dead one is refused again and again; its first attempt may still be under way.
    let mut dead_status = registry.get("dead").unwrap().status();
    let backing_off = dead_status.wait_for(|status| matches!(status, Status::BackingOff { .. }));
    timeout(TEST_TIMEOUT, backing_off).await.expect("it backs off").unwrap();
    assert_eq!(state_of(&registry, "dead"), ServerState::BackingOff);
    let dead = registry.statuses().into_iter().find(|status| &*status.name == "dead").unwrap();
    assert!(dead.next_attempt.is_some() && dead.health.last_fault.is_some() && dead.peer.is_none());
    let client = registry.get("healthy-3").unwrap();
    assert_eq!(client.call_tool("echo", &json!({ "x": 1 })).await.unwrap().text(), r#"{"x":1}"#);
    registry.close().await;
    assert!(registry.statuses().iter().all(|status| status.state == ServerState::Closed));
}

/// With no more permits than hanging servers and an endless turn, the servers behind them connect
/// only when a caller requests them.
#[tokio::test]
async fn a_requested_server_connects_at_once() {
    let hanging = testkit::server().fault(Fault::silent().always()).run().await;
    let healthy = testkit::server().tool("echo").run().await;
    let servers = [named_server("hanging", &hanging), named_server("healthy", &healthy)];
    let registry = Registry::builder().max_concurrent(1).turn_duration(TEST_TIMEOUT * 100).open(servers);
    hanging.wait_until(|server| !server.received().is_empty(), TEST_TIMEOUT).await;
    assert_eq!(state_of(&registry, "healthy"), ServerState::Waiting);
    assert_eq!(healthy.connections(), 0);
    registry.get("healthy").unwrap().ready().await.unwrap();
    assert_eq!(state_of(&registry, "healthy"), ServerState::Ready);
    registry.close().await;
    assert!(registry.get("healthy").is_none());
}

/// No more servers connect at once than there are permits.
#[tokio::test]
async fn concurrent_connects_are_bounded() {
    let hanging = testkit::server().fault(Fault::silent().always()).run().await;
    let servers = (0..50).map(|number| named_server(&format!("s{number}"), &hanging));
    let registry = Registry::builder().max_concurrent(4).turn_duration(TEST_TIMEOUT * 100).open(servers);
    hanging.wait_until(|server| server.received().len() >= 4, TEST_TIMEOUT).await;
    let connecting =
        registry.statuses().iter().filter(|status| status.state == ServerState::Connecting).count();
    assert_eq!(connecting, 4);
    registry.close().await;
}

#[tokio::test]
async fn statuses_come_in_configured_order_and_tell_what_is_known() {
    let web = testkit::server().modern().tool("echo").run().await;
    let child = testkit::server().legacy().tool("echo").stdio().await;
    let registry = Registry::open([
        named_server("z", &web),
        rename(stdio(&child), "a").with_protocol(Protocol::Legacy),
        Server::stdio("gone", "no-such-command-anywhere").build().unwrap(),
        named_server("off", &web).disabled(),
    ]);
    timeout(TEST_TIMEOUT, registry.settled()).await.unwrap();
    let statuses = registry.statuses();
    let told: Vec<_> =
        statuses.iter().map(|status| (&*status.name, status.transport, status.state)).collect();
    assert_eq!(
        told,
        [
            ("z", "http", ServerState::Ready),
            ("a", "stdio", ServerState::Ready),
            ("gone", "stdio", ServerState::Failed),
            ("off", "http", ServerState::Disabled),
        ]
    );
    assert_eq!(statuses[0].peer.as_ref().unwrap().revision.as_str(), "2026-07-28");
    assert!(statuses[1].health.connected_since.is_some());
    assert!(statuses[2].health.last_fault.is_some());
    assert!(registry.get("off").is_none() && registry.get("nobody").is_none());
    assert_eq!(registry.names().len(), 4);
    registry.close().await;
    assert!(!child.processes().iter().any(testkit::ProcessInfo::is_running));
}

/// A new configuration touches only what changed, and leaves no process of replaced or removed
/// servers.
#[tokio::test]
async fn a_new_configuration_touches_only_what_changed() {
    let [kept, changed, removed, added] = [(); 4].map(|()| testkit::server().legacy().tool("echo"));
    let (kept, changed) = (kept.stdio().await, changed.stdio().await);
    let (removed, added) = (removed.stdio().await, added.stdio().await);
    let entry = |name: &str, server| rename(stdio(server), name);
    let registry =
        Registry::open([entry("kept", &kept), entry("changed", &changed), entry("removed", &removed)]);
    timeout(TEST_TIMEOUT, registry.settled()).await.unwrap();
    let client = registry.get("kept").unwrap();

    let new = || {
        [
            entry("added", &added),
            entry("kept", &kept),
            entry("changed", &changed).with_env("NEW", "value").unwrap(),
        ]
    };
    let diff = registry.apply(new()).await;
    assert_eq!(
        (diff.added, diff.removed, diff.changed),
        (vec!["added".to_owned()], vec!["removed".to_owned()], vec!["changed".to_owned()])
    );
    timeout(TEST_TIMEOUT, registry.settled()).await.unwrap();
    let told: Vec<_> = registry.statuses().into_iter().map(|it| (it.name.to_string(), it.state)).collect();
    assert_eq!(told, ["added", "kept", "changed"].map(|name| (name.to_owned(), ServerState::Ready)));
    assert_eq!((kept.runs(), changed.runs(), removed.runs(), added.runs()), (1, 2, 1, 1));
    let running = |server: &testkit::StdioServer| {
        server.processes().iter().filter(|process| process.is_running()).count()
    };
    assert_eq!((running(&changed), running(&removed)), (1, 0));
    // The connection is the same as before.
    client.call_tool("echo", &json!({})).await.unwrap();

    assert!(registry.apply(new()).await.is_empty());
    assert_eq!((kept.runs(), changed.runs()), (1, 2));
    registry.close().await;
    assert_eq!([&kept, &changed, &added].map(running), [0; 3]);
}

/// Changed hooks do not affect a connection.
#[cfg(unix)]
#[tokio::test]
async fn changed_hooks_do_not_cost_the_connection() {
    let folder = tempfile::tempdir().unwrap();
    let server = testkit::server().legacy().tool("echo").run().await;
    let registry = Registry::open([named_server("a", &server)]);
    timeout(TEST_TIMEOUT, registry.settled()).await.unwrap();
    let file = folder.path().join("told");
    let hook =
        Hook::command("/bin/sh", ["-c".to_owned(), format!("echo $BOWLINE_EVENT >> {}", file.display())]);
    let diff = registry.apply([named_server("a", &server).with_hook(hook)]).await;
    assert_eq!(diff.changed, ["a"]);
    assert_eq!(server.initialize_count(), 1);
    server.drop_sessions();
    registry.get("a").unwrap().call_tool("echo", &json!({})).await.unwrap();
    registry.close().await;
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "session_lost\nrecovered\n");
}

/// The handler of the registry answers every server, and knows which one asks.
#[tokio::test]
async fn one_handler_answers_all_servers() {
    let schema = json!({ "type": "object", "properties": { "city": { "type": "string" } } });
    let ask = ScriptedRequest::form_elicitation("f1", "Where?", schema);
    let script = || testkit::server().tool(Tool::asks("book", [ask.clone()]));
    let (a, b) = (script().run().await, script().legacy().run().await);
    let host = Host::new()
        .on_form(async |request| request.accept(json!({ "city": format!("for {}", request.server) })));
    let registry = Registry::builder()
        .handler(host)
        .client_builder(|server| Client::builder(server).client_info("mine", "1"))
        .open([named_server("a", &a), named_server("b", &b)]);
    for name in ["a", "b"] {
        let result = registry.get(name).unwrap().call_tool("book", &()).await.unwrap();
        let expected = format!(r#"{{"f1":{{"action":"accept","content":{{"city":"for {name}"}}}}}}"#);
        assert_eq!(result.text(), expected);
    }
    assert_eq!(b.received_with_method("initialize")[0].params()["clientInfo"]["name"], "mine");
    registry.close().await;
}

/// Dropping the registry ends everything in it, in any state.
#[tokio::test]
async fn dropping_ends_everything() {
    let server = testkit::server().legacy().stdio().await;
    let hanging = testkit::server().fault(Fault::silent().always()).run().await;
    let registry = Registry::builder()
        .max_concurrent(1)
        .client_builder(|server| Client::builder(server).client_info("mine", "1"))
        .turn_duration(TEST_TIMEOUT * 100)
        .open([rename(stdio(&server), "a"), named_server("b", &hanging), named_server("c", &hanging)]);
    let mut events = registry.events();
    assert_eq!(next_connection_event(&mut events).await, ("a".to_owned(), ConnectionEventKind::Connected));
    assert_eq!(server.received_with_method("initialize")[0].params()["clientInfo"]["name"], "mine");
    drop(registry);
    server.wait_until(|_| server.processes().iter().all(|it| !it.is_running()), TEST_TIMEOUT).await;
    timeout(TEST_TIMEOUT, async { while events.next().await.is_some() {} })
        .await
        .expect("nothing is left to tell");
}

/// The events end when the registry is closed, after the last events of its clients.
#[tokio::test]
async fn events_end_with_the_registry() {
    let server = testkit::server().tool("echo").run().await;
    let registry = Registry::open([named_server("a", &server)]);
    let mut events = registry.events();
    assert_eq!(next_connection_event(&mut events).await, ("a".to_owned(), ConnectionEventKind::Connected));
    registry.close().await;
    for mut events in [events, registry.events()] {
        assert!(timeout(TEST_TIMEOUT, events.next()).await.expect("it ends").is_none());
    }
}

/// A server that cannot even be opened is reported to its hooks like any other failure.
#[cfg(unix)]
#[tokio::test]
async fn a_server_that_cannot_be_opened_is_reported_to_hooks() {
    let folder = tempfile::tempdir().unwrap();
    let told = folder.path().join("told");
    let hook = Hook::command("/bin/sh", ["-c".to_owned(), format!("cat >> '{}'", told.display())]);
    let mut server = Server::http("rope", "http://127.0.0.1/").build().unwrap();
    if let bowline::config::Transport::Http(http) = &mut server.transport {
        http.url = "ftp://127.0.0.1/".parse().unwrap();
    }
    server.hooks.push(hook);
    let registry = Registry::open([server]);
    timeout(TEST_TIMEOUT, registry.settled()).await.unwrap();
    assert_eq!(state_of(&registry, "rope"), ServerState::Failed);
    registry.close().await;
    let told: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(told).unwrap()).unwrap();
    assert_eq!((&told["event"], &told["server"]), (&json!("failed"), &json!("rope")));
}

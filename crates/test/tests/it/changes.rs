//! What changes while a client is connected: resources and tools.

use std::time::Duration;

use bowline::host::Host;
use bowline::{Client, Event, EventReceiver, Topic};
use bowline_test::{FakeHttpServer, FakeServer};
use serde_json::json;
use tokio::time::timeout;

use crate::support::everywhere;

/// Longer than anything here takes.
const LIMIT: Duration = Duration::from_secs(30);

async fn read(client: &Client) -> bool {
    let read = client.read_resource("note:///1").await.unwrap();
    read.contents[0].json.as_str().contains("second")
}

#[tokio::test]
async fn a_subscriber_hears_of_an_updated_resource() {
    let add = |server: FakeServer| server.resource("note:///1", "first").resource("note:///2", "other");
    for (server, client) in everywhere(&Host::new(), add).await {
        assert!(!read(&client).await);
        let mut subscription = client.subscribe("note:///1").await.unwrap();
        server.control().update_resource("note:///2", "nobody asked");
        server.control().update_resource("note:///1", "second");
        let change = timeout(LIMIT, subscription.next()).await.unwrap().unwrap();
        assert_eq!((&*change.uri, change.inferred), ("note:///1", false));
        assert!(read(&client).await);
        client.close().await;
    }
}

/// A server with two resources whose updates are counted, and one whose update ends the count.
async fn serve_notes() -> FakeHttpServer {
    let server = FakeServer::new().tool("echo", |args| args).resource("note:///1", "first");
    server.resource("note:///2", "first").resource(LAST, "first").serve_http().await.unwrap()
}

/// The resource that is updated last.
const LAST: &str = "note:///last";

async fn request_for(client: &Client, method: &str, uri: &str) {
    client.request(method, &json!({ "uri": uri })).await.unwrap();
}

/// Returns the resources of whose updates the server notifies the client, up to the last one.
async fn updates(events: &mut EventReceiver<Event>) -> Vec<String> {
    let mut updated = Vec::new();
    while updated.last().is_none_or(|uri| uri != LAST) {
        let Event::Notification(said) = timeout(LIMIT, events.next()).await.unwrap().unwrap() else {
            continue;
        };
        if let (Topic::ResourceUpdated { uri }, false) = (said.topic(), said.inferred) {
            updated.push(uri);
        }
    }
    updated
}

#[tokio::test]
async fn only_the_sessions_that_subscribed_are_notified() {
    let server = serve_notes().await;
    let first = Client::connect(server.server()).await.unwrap();
    let second = Client::connect(server.server()).await.unwrap();
    let (mut first_events, mut second_events) = (first.events(), second.events());
    for client in [&first, &second] {
        request_for(client, "resources/subscribe", LAST).await;
    }
    request_for(&first, "resources/subscribe", "note:///1").await;
    for uri in ["note:///1", "note:///2", LAST] {
        server.update_resource(uri, "second");
    }
    assert_eq!(updates(&mut first_events).await, ["note:///1", LAST]);
    assert_eq!(updates(&mut second_events).await, [LAST]);

    // What one client unsubscribes from, the other still hears of.
    request_for(&second, "resources/subscribe", "note:///1").await;
    request_for(&first, "resources/unsubscribe", "note:///1").await;
    for uri in ["note:///1", "note:///2", LAST] {
        server.update_resource(uri, "third");
    }
    assert_eq!(updates(&mut first_events).await, [LAST]);
    assert_eq!(updates(&mut second_events).await, ["note:///1", LAST]);
    first.close().await;
    second.close().await;
}

#[tokio::test]
async fn a_lost_session_has_lost_its_subscriptions() {
    let server = serve_notes().await;
    let client = Client::connect(server.server()).await.unwrap();
    let mut events = client.events();
    request_for(&client, "resources/subscribe", "note:///1").await;
    server.lose_session();
    server.update_resource("note:///1", "second");
    // The client does not know it yet; this call opens another session.
    client.call_tool("echo", &()).await.unwrap();
    assert_eq!(client.health().sessions_lost, 1);
    request_for(&client, "resources/subscribe", LAST).await;
    server.update_resource(LAST, "second");
    assert_eq!(updates(&mut events).await, [LAST]);
    client.close().await;
}

#[tokio::test]
async fn tools_come_and_go() {
    let add = |server: FakeServer| server.tool("steady", |_| "steady").tool("shy", |_| "here");
    for (server, client) in everywhere(&Host::new(), add).await {
        let (server, mut events) = (server.control(), client.events());
        client.track_tools();
        let mut next_change = async || loop {
            let event = timeout(LIMIT, events.next()).await.unwrap().unwrap();
            if let Event::ListChanged(change) = event {
                return (change.added.join(" "), change.removed.join(" "));
            }
        };
        assert_eq!(client.list_tools().await.unwrap().len(), 2);
        server.remove_tool("shy");
        assert_eq!(next_change().await, (String::new(), "shy".to_owned()));
        assert!(client.call_tool("shy", &()).await.unwrap_err().server_error().is_some());
        server.restore_tool("shy");
        assert_eq!(next_change().await, ("shy".to_owned(), String::new()));
        assert_eq!(client.call_tool("shy", &()).await.unwrap().text(), "here");
        server.assert_called("shy", 1);
        client.close().await;
    }
}

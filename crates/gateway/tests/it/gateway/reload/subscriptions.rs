//! Subscriptions to resources of servers whose configuration changes.

use super::*;

const UPDATED: &str = "notifications/resources/updated";

/// Waits until one session of a server has these subscriptions, and no other session is left.
async fn wait_for_subscription(server: &Control, uri: &'static str) {
    let is_only = move |server: &Control| {
        let sessions = server.sessions();
        sessions.len() == 1
            && sessions[0].subscriptions == [uri]
            && server.open_streams(testkit::StreamKind::Get) > 0
    };
    server.wait_until(is_only, TEST_TIMEOUT).await;
}

#[tokio::test]
async fn subscriptions_to_a_changed_server_are_restored() {
    let server = testkit::server().legacy().resource("x://a", "a").run().await;
    let kept = testkit::server().legacy().resource("x://b", "b").run().await;
    let configured = at("one", &server);
    let gateway = gateway([with_header(&configured, "1"), at("kept", &kept)]);
    let mut host = TestHost::join_with(&gateway, json!({})).await;
    assert_eq!(host.names("resources/list", "resources", "uri").await, ["x://a", "x://b"]);
    for uri in ["x://a", "x://b"] {
        assert_eq!(host.result("resources/subscribe", json!({"uri": uri})).await, json!({}));
    }
    wait_for_subscription(&server, "x://a").await;
    wait_for_subscription(&kept, "x://b").await;
    let before = seen(&kept);
    gateway.reload([with_header(&configured, "2"), at("kept", &kept)]);
    // It may have changed in between.
    assert_eq!(host.notification(UPDATED).await["params"]["uri"], "x://a");
    wait_for_subscription(&server, "x://a").await;
    let subscribed = server.received_with_method("resources/subscribe");
    let versions: Vec<_> = subscribed.iter().map(|call| call.header("x-version").unwrap()).collect();
    assert_eq!(versions, ["1", "2"]);
    assert_eq!(server.announce_resource("x://a"), 1);
    assert_eq!(host.notification(UPDATED).await["params"]["uri"], "x://a");
    assert_eq!(kept.announce_resource("x://b"), 1);
    assert_eq!(host.notification(UPDATED).await["params"]["uri"], "x://b");
    assert!(host.is_silent().await);
    assert_eq!(seen(&kept), before);
    host.result("resources/unsubscribe", json!({"uri": "x://a"})).await;
    let has_none =
        |server: &Control| server.sessions().iter().all(|session| session.subscriptions.is_empty());
    server.wait_until(has_none, TEST_TIMEOUT).await;
}

#[tokio::test]
async fn subscriptions_to_a_removed_server_end() {
    let server = testkit::server().legacy().resource("x://a", "a").run().await;
    let gateway = gateway([at("one", &server)]);
    let mut host = TestHost::join_with(&gateway, json!({})).await;
    assert_eq!(host.names("resources/list", "resources", "uri").await, ["x://a"]);
    host.result("resources/subscribe", json!({"uri": "x://a"})).await;
    gateway.reload([]);
    // A subscription does not hold the connection.
    server.wait_until(|server| server.sessions().is_empty(), TEST_TIMEOUT).await;
    host.notification("notifications/resources/list_changed").await;
    gateway.reload([at("one", &server)]);
    host.notification("notifications/resources/list_changed").await;
    assert_eq!(host.names("resources/list", "resources", "uri").await, ["x://a"]);
    server.wait_until(|server| server.open_streams(testkit::StreamKind::Get) > 0, TEST_TIMEOUT).await;
    server.announce_resource("x://a");
    assert!(host.is_silent().await);
    assert_eq!(server.count("resources/subscribe"), 1);
}

#[tokio::test]
async fn subscriptions_of_hosts_without_a_session_are_restored() {
    let server = testkit::server().legacy().resource("x://a", "a").run().await;
    let configured = at("one", &server);
    let gateway = gateway([with_header(&configured, "1")]);
    let endpoint = Endpoint::start(&gateway).await;
    let client = endpoint.client("host").await;
    let mut subscription = soon(client.subscribe("x://a")).await.expect("it is granted");
    wait_for_subscription(&server, "x://a").await;
    gateway.reload([with_header(&configured, "2")]);
    assert_eq!(soon(subscription.next()).await.expect("a change").uri, "x://a");
    wait_for_subscription(&server, "x://a").await;
    server.announce_resource("x://a");
    assert_eq!(soon(subscription.next()).await.expect("a change").uri, "x://a");
    soon(client.close()).await;
    endpoint.stop().await;
    assert_eq!(server.sessions().len(), 0);
}

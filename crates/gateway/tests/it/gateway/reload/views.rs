//! Reloads of hosts that see a part of the servers.

use bowline::config::View;
use bowline_testkit::with;

use super::*;

/// A server that a view does not show is not connected to for it, and not announced.
#[tokio::test]
async fn a_view_shows_of_a_reload_what_it_shows_of_a_start() {
    let one = testkit::server().legacy().tool("one").run().await;
    let two = testkit::server().legacy().tool("two").run().await;
    let three = testkit::server().legacy().tool("three").run().await;
    let shown = Some(["one".to_owned(), "three".to_owned()].into());
    let gateway = Gateway::builder([at("one", &one)])
        .view("some", with!(View::default(), servers: shown))
        .view("all", View::default())
        .build();
    let mut some = TestHost::join_view(&gateway, "some");
    some.initialize(json!({})).await;
    assert_eq!(some.tools().await, ["one"]);
    gateway.reload([at("one", &one), at("two", &two)]);
    let mut all = TestHost::join_view(&gateway, "all");
    all.initialize(json!({})).await;
    assert_eq!(all.tools().await, ["one", "two"]);
    assert_eq!(some.tools().await, ["one"]);
    unknown_tool(&mut some, "two").await;
    gateway.reload([at("one", &one), at("two", &two), at("three", &three)]);
    some.notification(TOOLS_CHANGED).await;
    assert_eq!(some.tools().await, ["one", "three"]);
    assert_eq!(result_text(&some.call_tool(1, "three", json!({})).await), "{}");
    assert!(some.is_silent().await, "it was told once");
    assert_eq!(two.initialize_count(), 1, "for the host that sees it");
}

fn view_of(server: &str) -> View {
    with!(View::default(), servers: Some([server.to_owned()].into()))
}

/// Only hosts whose view has changed are told, and only of lists that differ. A host whose view was
/// removed is told so, and gets it back with the view.
#[tokio::test]
async fn views_are_replaced_while_hosts_are_served() {
    let one = testkit::server().legacy().tool("one").prompt("p", "text").run().await;
    let two = testkit::server().legacy().tool("two").run().await;
    let gateway = Gateway::builder([at("one", &one), at("two", &two)])
        .view("changed", view_of("one"))
        .view("kept", view_of("one"))
        .view("removed", view_of("one"))
        .build();
    let mut hosts = Vec::new();
    for view in ["changed", "kept", "removed"] {
        let mut host = TestHost::join_view(&gateway, view);
        host.initialize(json!({})).await;
        assert_eq!(host.tools().await, ["one"]);
        hosts.push(host);
    }
    let [changed, kept, removed] = &mut hosts[..] else { unreachable!() };
    one.wait_until(|one| one.initialize_count() == 3, TEST_TIMEOUT).await;
    let shown = with!(View::default(), servers: Some(["one".to_owned(), "two".to_owned()].into()));
    gateway.reload_views([("changed", shown), ("kept", view_of("one"))]);
    changed.notification(TOOLS_CHANGED).await;
    assert_eq!(changed.tools().await, ["one", "two"]);
    assert_eq!(result_text(&changed.call_tool(1, "two", json!({})).await), "{}");
    assert!(changed.is_silent().await, "its prompts are the same");
    assert!(kept.is_silent().await);
    assert_eq!(one.initialize_count(), 3, "a server that is shown as before is not connected to anew");
    let refused = removed.error("tools/list", json!({})).await;
    assert_eq!(
        (&refused["code"], &refused["data"]["bowline"]["cause"]),
        (&json!(-31050), &json!("view_removed"))
    );
    gateway.reload_views([
        ("changed", view_of("two")),
        ("kept", view_of("one")),
        ("removed", view_of("two")),
    ]);
    changed.notification(TOOLS_CHANGED).await;
    assert_eq!(changed.tools().await, ["two"]);
    unknown_tool(changed, "one").await;
    assert_eq!(removed.tools().await, ["two"]);
    assert_eq!(kept.tools().await, ["one"]);
    for host in hosts {
        host.close().await;
    }
}

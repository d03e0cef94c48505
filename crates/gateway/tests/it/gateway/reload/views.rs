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

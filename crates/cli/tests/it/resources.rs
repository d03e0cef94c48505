//! `bowline resources --watch`.

use std::time::Duration;

use bowline_testkit::{self as testkit, Script};
use serde_json::{Value, json};

use crate::context::Context;
use crate::watch::WatchProcess;

const TEST_TIMEOUT: Duration = Duration::from_secs(60);

fn script() -> Script {
    testkit::server().resource("file:///knots", "one").resource("file:///ropes", "two")
}

/// Waits for the next event about a resource, skipping list changes, which are announced whenever
/// the list may differ.
async fn next_resource_change(watching: &mut WatchProcess) -> Value {
    loop {
        let next = watching.next_json().await;
        if next["event"] != "list_changed" {
            return next;
        }
    }
}

// RS-03, RS-04: changes are printed in both eras, and after a restart.
#[tokio::test]
async fn changes_are_printed_as_they_happen() {
    let context = Context::new();
    for server in [script().legacy(), script().modern()] {
        let server = server.run().await;
        let words = ["resources", "--json", &server.url(), "--watch", "file:///knots", "--read"];
        let mut watching = WatchProcess::start(context.bowline(words));
        server.wait_until(|server| server.announce_resource("file:///knots") > 0, TEST_TIMEOUT).await;
        let updated = watching.next_json().await;
        assert_eq!((&updated["event"], &updated["uri"]), (&json!("updated"), &json!("file:///knots")));
        assert_eq!(updated["contents"][0]["text"], "one");
        // This resource is not watched.
        server.announce_resource("file:///ropes");
        server.edit(|script| script.resource("file:///new", "three"));
        assert!(server.announce_resources() > 0);
        let added = next_resource_change(&mut watching).await;
        assert_eq!((&added["event"], &added["uri"]), (&json!("added"), &json!("file:///new")), "{added}");
        server.restart().await;
        // Changes during the outage are unknown.
        let again = next_resource_change(&mut watching).await;
        assert_eq!((&again["event"], &again["inferred"]), (&json!("updated"), &json!(true)), "{again}");
        server.wait_until(|server| server.announce_resource("file:///knots") > 0, TEST_TIMEOUT).await;
        let updated = next_resource_change(&mut watching).await;
        assert_eq!((&updated["event"], &updated["uri"]), (&json!("updated"), &json!("file:///knots")));
        assert_eq!(watching.interrupt().await.0, Some(0));
    }
}

// RS-03: no subscription without the capability.
#[tokio::test]
async fn a_server_without_subscriptions_is_not_asked() {
    let context = Context::new();
    let server = script().legacy().without_capability("resources.subscribe").run().await;
    let shown = context.run(context.bowline(["resources", &server.url(), "--watch", "file:///knots"]));
    assert!(shown.starts_with("exit: 6\n"), "{shown}");
    assert!(shown.contains("offers no resource subscriptions"), "{shown}");
    assert_eq!(server.count("resources/subscribe"), 0);
}

#[tokio::test]
async fn a_person_reads_lines() {
    let context = Context::new();
    let server = script().legacy().run().await;
    let words = ["resources", &server.url(), "--watch", "file:///knots", "--read"];
    let mut watching = WatchProcess::start(context.bowline(words));
    server.wait_until(|server| server.announce_resource("file:///knots") > 0, TEST_TIMEOUT).await;
    let line = watching.next_line().await;
    assert!(line.ends_with("Z\tupdated\tfile:///knots"), "{line:?}");
    assert_eq!(watching.next_line().await, "one");
    assert_eq!(watching.interrupt().await.0, Some(0));
}

#[test]
fn a_server_name_after_the_watch_flag_is_reported() {
    let context = Context::new();
    let eaten = context.run(context.bowline(["resources", "--watch", "h", "file:///a"]));
    assert!(eaten.starts_with("exit: 2") && eaten.contains("`h` comes after --watch"), "{eaten}");
    assert!(eaten.contains("write `bowline resources h --watch file:///a`"), "{eaten}");
    let empty = context.run(context.bowline(["resources", "h", "--watch", ""]));
    assert!(empty.starts_with("exit: 2") && empty.contains("a URI is empty"), "{empty}");
}

/// RT-01: roots are declared only if given, also by verbs that stay connected.
#[tokio::test]
async fn rt_01_folders_are_declared_only_where_they_are_given() {
    let context = Context::new();
    let server = script().legacy().run().await;
    let roots = |more: &[&str]| {
        let words = ["resources", &server.url()];
        let shown = context.run(context.bowline(words.iter().chain(more)));
        assert!(shown.starts_with("exit: 0"), "{shown}");
        server.received_with_method("initialize").last().unwrap().body["params"]["capabilities"]
            .get("roots")
            .cloned()
    };
    assert_eq!(roots(&[]), None);
    assert_eq!(roots(&["--root", "."]), Some(serde_json::json!({"listChanged": true})));
    let folder = crate::context::toml_path(&context.path("project"));
    context.user_config(&format!("[roots]\nfolders = [{folder}]\n"));
    assert_eq!(roots(&[]), Some(serde_json::json!({"listChanged": true})));
    assert_eq!(roots(&["--no-roots"]), None);
    context.user_config("[roots]\nfolders = []\n");
    assert_eq!(roots(&[]), None);
}

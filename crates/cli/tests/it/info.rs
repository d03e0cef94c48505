//! `bowline info` and `bowline ping`.

use bowline_testkit::{self as testkit, Script};
use serde_json::Value;

use crate::context::{Context, snapshot};

fn script() -> Script {
    testkit::server().info("rope", "2.1").instructions("Pull hard.\nThen pull harder.").tool("echo")
}

#[tokio::test]
async fn info_over_http() {
    let context = Context::new();
    let modern = script().modern().run().await;
    snapshot!(context.run(context.bowline(["info", &modern.url()])), @"
    exit: 0
    --- stdout
    name         127.0.0.1:[PORT]
    server       rope 2.1
    transport    http
    protocol     2026-07-28 (modern)
    offers       completions, tools (listChanged)
    instructions Pull hard.
                 Then pull harder.
    --- stderr
    ---
    ");
    let legacy = script().legacy_only("2025-03-26").run().await;
    snapshot!(context.run(context.bowline(["info", &legacy.url()])), @"
    exit: 0
    --- stdout
    name         127.0.0.1:[PORT]
    server       rope 2.1
    transport    http
    protocol     2025-03-26 (legacy)
    offers       completions, logging, tools (listChanged)
    instructions Pull hard.
                 Then pull harder.
    --- stderr
    ---
    ");
}

#[tokio::test]
async fn the_era_can_be_pinned() {
    let context = Context::new();
    let server = script().run().await;
    for (era, revision) in [("legacy", "2025-11-25"), ("modern", "2026-07-28"), ("auto", "2026-07-28")] {
        let output = context.bowline(["info", "--json", "--protocol", era, &server.url()]).output().unwrap();
        let info: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(info["revision"], revision, "{era}");
    }
}

#[tokio::test]
async fn info_as_json_over_stdio() {
    let context = Context::new();
    let server = script().legacy().stdio().await;
    snapshot!(context.run(context.bowline_with(&["info", "--json"], &server.command())), @r#"
    exit: 0
    --- stdout
    {"name":"testkit-stdio","transport":"stdio","revision":"2025-11-25","era":"legacy","server":{"name":"rope","version":"2.1"},"capabilities":{"completions":{},"logging":{},"tools":{"listChanged":true}},"instructions":"Pull hard.\nThen pull harder."}
    --- stderr
    ---
    "#);
}

#[tokio::test]
async fn pings() {
    let context = Context::new();
    let server = script().legacy().run().await;
    snapshot!(context.run(context.bowline(["ping", &server.url()])), @"
    exit: 0
    --- stdout
    127.0.0.1:[PORT] answered in [TIME]
    --- stderr
    ---
    ");
    snapshot!(context.run(context.bowline(["ping", "-n", "3", "--interval", "0s", &server.url()])), @"
    exit: 0
    --- stdout
    127.0.0.1:[PORT] answered in [TIME]
    127.0.0.1:[PORT] answered in [TIME]
    127.0.0.1:[PORT] answered in [TIME]
    3 pings answered, fastest [TIME], mean [TIME], slowest [TIME]
    --- stderr
    ---
    ");
    assert_eq!(server.count("ping"), 4);
    let output =
        context.bowline(["ping", "-n", "2", "--interval", "1ms", "--json", &server.url()]).output().unwrap();
    let pings: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(pings["times_ms"].as_array().map(Vec::len), Some(2));
}

#[tokio::test]
async fn headers_and_variables_reach_the_server() {
    let context = Context::new();
    let server = script().run().await;
    let shown = context.run(context.bowline(["info", "-H", "X-Rope: blue", &server.url()]));
    assert!(shown.starts_with("exit: 0\n"), "{shown}");
    assert!(server.received().iter().all(|received| received.header("x-rope") == Some("blue")));
    let wrong = context.run(context.bowline(["info", "-e", "A=b", &server.url()]));
    snapshot!(wrong, @"
    exit: 2
    --- stdout
    --- stderr
    error: -e: belongs to a server with `command`, and this one has a `url`
    ---
    ");
}

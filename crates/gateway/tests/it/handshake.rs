//! The `initialize` of the host: which identity the server sees, and what the host is told, with
//! and without a server.

use std::time::Duration;

use bowline::Server;
use bowline_gateway::{Relay, UNREACHABLE};
use bowline_testkit as testkit;
use serde_json::{Value, json};

use crate::support::{TEST_TIMEOUT, TestHost, result_text, server_at};

/// LC-01: the server sees the name and the capabilities of the host.
#[tokio::test]
async fn lc_01_the_server_sees_the_host() {
    let server = testkit::server().legacy().tool("echo").instructions("Be kind.").run().await;
    let mut host = TestHost::start(Relay::new(server_at(&server)));
    let answer = host.initialize(json!({"roots": {"listChanged": true}, "x-vendor": {"a": 1}})).await;
    let result = &answer["result"];
    assert_eq!(result["protocolVersion"], "2025-11-25");
    assert_eq!(result["serverInfo"], json!({"name": "testkit", "version": "1.0.0"}));
    assert_eq!(result["instructions"], "Be kind.");
    assert!(result["capabilities"]["logging"].is_object());

    let seen = server.received_with_method("initialize").remove(0);
    assert_eq!(seen.params()["clientInfo"], json!({"name": "test-host", "version": "9.9"}));
    assert_eq!(seen.params()["capabilities"], json!({"roots": {"listChanged": true}, "x-vendor": {"a": 1}}));
    // Each side has its own `initialized`: that of the host is not forwarded.
    server.wait_for(|received| received.has_method("notifications/initialized"), TEST_TIMEOUT).await;
    assert!(host.is_silent().await);
    assert_eq!(server.count("notifications/initialized"), 1);
}

/// A host of both eras may use `initialize`, whatever came of its probe.
#[tokio::test]
async fn a_host_may_use_the_handshake_after_its_probe() {
    let server = testkit::server().tool("echo").run().await;
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    for (meta, is_valid) in [(meta, true), (json!({}), false)] {
        let mut host = TestHost::start(Relay::new(server_at(&server)));
        host.send_request(1, "server/discover", json!({"_meta": meta})).await;
        let answer = host.response(1).await;
        assert_eq!(answer["result"].is_object(), is_valid, "{answer}");
        assert!(host.initialize(json!({})).await["result"].is_object());
        assert_eq!(result_text(&host.call_tool(2, "echo", json!({"a": 1})).await), r#"{"a":1}"#);
    }
}

#[tokio::test]
async fn a_modern_server_serves_a_host_that_shakes_hands() {
    let server = testkit::server().modern().tool("echo").resource("file:///a", "text").run().await;
    let mut host = TestHost::start(Relay::new(server_at(&server)));
    let answer = host.initialize(json!({})).await;
    assert_eq!(answer["result"]["protocolVersion"], "2025-11-25");
    assert_eq!(answer["result"]["capabilities"].get("logging"), None);
    assert_eq!(answer["result"]["capabilities"]["resources"].get("subscribe"), None);
    assert_eq!(result_text(&host.call_tool(1, "echo", json!({"a": 1})).await), r#"{"a":1}"#);
    for (id, method, params) in [
        (2, "logging/setLevel", json!({"level": "info"})),
        (3, "resources/subscribe", json!({"uri": "file:///a"})),
    ] {
        host.send_request(id, method, params).await;
        let refused = host.response(id).await;
        assert_eq!(refused["error"]["code"], -32601);
        let message = refused["error"]["message"].as_str().unwrap();
        assert!(message.contains("speaks only 2026-07-28"), "{message}");
        assert_eq!(server.count(method), 0);
    }
}

/// A server that is unreachable at first: the host is initialized all the same, and notified when
/// it connects.
#[tokio::test]
async fn a_host_is_greeted_without_the_server_and_told_when_it_comes() {
    let server = testkit::server().legacy().tool("echo").run().await;
    server.stop().await;
    let reached = server_at(&server).with_reconnect_wait(Duration::from_millis(100));
    let mut host = TestHost::start(Relay::new(reached));
    let answer = host.initialize(json!({})).await;
    let result = &answer["result"];
    assert_eq!(result["capabilities"]["tools"]["listChanged"], true);
    let instructions = result["instructions"].as_str().unwrap();
    assert!(instructions.contains("could not be reached"), "{instructions}");

    // Meanwhile a call fails with what is known.
    let failed = host.call_tool(1, "echo", json!({})).await;
    assert_eq!(failed["error"]["code"], UNREACHABLE);
    assert_eq!(failed["error"]["data"]["bowline"]["cause"], "refused");
    assert_eq!(failed["error"]["data"]["bowline"]["execution"], "not_executed");
    assert_eq!(failed["error"]["data"]["bowline"]["server"], "testkit");

    server.start().await;
    for list in ["tools", "prompts", "resources"] {
        host.notification(&format!("notifications/{list}/list_changed")).await;
    }
    host.send_request(2, "tools/list", Value::Null).await;
    assert_eq!(host.response(2).await["result"]["tools"][0]["name"], "echo");
    // Lists that were offered and do not exist are empty, not errors.
    host.send_request(3, "prompts/list", Value::Null).await;
    assert_eq!(host.response(3).await["result"], json!({"prompts": []}));
}

/// While the host waits for a server, its closed port is retried as often as for a call.
#[tokio::test]
async fn a_server_that_comes_late_is_looked_for_often() {
    let server = testkit::server().legacy().tool("echo").run().await;
    server.stop().await;
    let reached = server_at(&server).with_reconnect_wait(Duration::from_millis(100));
    let (sender, mut lives) = tokio::sync::mpsc::unbounded_channel();
    let relay = Relay::new(reached).on_connection_event(move |life| {
        let _ = sender.send((life.kind.as_str(), life.attempt));
    });
    let mut host = TestHost::start(relay);
    host.initialize(json!({})).await;
    // The outage is what is tested: in this time there would be fewer than ten attempts for a
    // server that nobody waits for.
    tokio::time::sleep(Duration::from_secs(4)).await;
    server.start().await;
    host.notification("notifications/tools/list_changed").await;
    let attempts = loop {
        if let ("connected", attempts) = lives.recv().await.expect("the relay runs") {
            break attempts;
        }
    };
    assert!(attempts > 20, "{attempts}");
}

/// Hosts drop a server whose first lists fail or take long.
#[tokio::test]
async fn lists_are_empty_at_once_while_the_server_was_never_there() {
    let server = testkit::server().legacy().tool("echo").run().await;
    server.stop().await;
    // A call would wait for the server longer than the test does.
    let reached = server_at(&server).with_reconnect_wait(TEST_TIMEOUT * 2);
    let mut host = TestHost::start(Relay::new(reached).with_initialize_timeout(Duration::from_millis(100)));
    host.initialize(json!({})).await;
    for (method, list) in [
        ("tools/list", "tools"),
        ("prompts/list", "prompts"),
        ("resources/list", "resources"),
        ("resources/templates/list", "resourceTemplates"),
    ] {
        host.send_request(method, method, Value::Null).await;
        assert_eq!(host.response(method).await["result"], json!({ list: [] }));
    }
    server.start().await;
    host.notification("notifications/tools/list_changed").await;
    host.send_request(1, "tools/list", Value::Null).await;
    assert_eq!(host.response(1).await["result"]["tools"][0]["name"], "echo");
}

/// The shortest handshake timeout of a widely used host is 5 s.
#[tokio::test]
async fn a_host_is_greeted_before_it_gives_up() {
    let server = testkit::server().legacy().tool("echo").fault(testkit::Fault::silent().always()).run().await;
    let mut host = TestHost::start(Relay::new(server_at(&server)));
    let begun = std::time::Instant::now();
    assert!(host.initialize(json!({})).await["result"].is_object());
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn hopeless_server_is_an_error_and_may_be_retried() {
    let missing = Server::stdio("missing", "/nonexistent/program").build().unwrap();
    let mut host = TestHost::start(Relay::new(missing));
    for id in ["one", "two"] {
        host.send_request(id, "initialize", json!({"protocolVersion": "2025-11-25"})).await;
        let refused = host.response(id).await;
        assert_eq!(refused["error"]["code"], UNREACHABLE);
        assert_eq!(refused["error"]["data"]["bowline"]["cause"], "spawn");
        assert!(refused["error"]["message"].as_str().unwrap().contains("command not found"));
    }
}

#[tokio::test]
async fn early_requests_are_answered_after_initialize() {
    let server = testkit::server().legacy().tool("echo").run().await;
    let mut host = TestHost::start(Relay::new(server_at(&server)));
    host.send_request(1, "initialize", json!({"protocolVersion": "2025-06-18"})).await;
    host.send_request(2, "tools/list", Value::Null).await;
    assert_eq!(host.next_message().await["id"], 1);
    assert_eq!(host.next_message().await["id"], 2);
    host.send_request(3, "initialize", json!({})).await;
    assert_eq!(host.response(3).await["error"]["code"], -32600);
    assert_eq!(server.initialize_count(), 1);
}

//! What servers ask reaches the host whose call caused it.

use std::time::Duration;

use bowline_testkit::{self as testkit, Fault, StreamKind, Tool};
use serde_json::{Value, json};

use super::{at, gateway};
use crate::support::{TEST_TIMEOUT, TestHost, result_text};

/// GW-15: a server is told of the capabilities of the host, and its question reaches that host.
#[tokio::test]
async fn gw_15_questions_reach_the_host_that_called() {
    for script in [testkit::server().legacy(), testkit::server().modern()] {
        let server = script.tool("ask").run().await;
        let other = testkit::server().legacy().tool("echo").run().await;
        let gateway = gateway([at("one", &server), at("two", &other)]);
        let mut asked = TestHost::join_with(&gateway, json!({"roots": {}})).await;
        let mut plain = TestHost::join_with(&gateway, json!({})).await;
        let call = json!({"name": "ask", "arguments": {"method": "roots/list", "params": {}}});
        asked.send_request(1, "tools/call", call.clone()).await;
        let question = asked.next_server_request().await;
        assert_eq!(question["method"], "roots/list");
        let roots = json!({"roots": [{"uri": "file:///a"}]});
        asked.send_line(&json!({"jsonrpc": "2.0", "id": question["id"], "result": roots}).to_string()).await;
        assert!(result_text(&asked.response(1).await).contains(&roots.to_string()));
        // A host that declares nothing is not asked.
        plain.send_request(1, "tools/call", call).await;
        plain.response(1).await;
        assert!(plain.is_silent().await);
    }
}

#[tokio::test]
async fn log_messages_come_from_every_server_at_the_level_of_the_host() {
    let one = testkit::server().legacy().tool("echo").run().await;
    let two = testkit::server().legacy().tool("add").run().await;
    let mut host = TestHost::join_with(&gateway([at("one", &one), at("two", &two)]), json!({})).await;
    assert_eq!(host.result("logging/setLevel", json!({"level": "warning"})).await, json!({}));
    for server in [&one, &two] {
        let told = server.wait_for(|received| received.has_method("logging/setLevel"), TEST_TIMEOUT).await;
        assert_eq!(told.params()["level"], "warning");
        server.wait_until(|server| server.open_streams(StreamKind::Get) > 0, TEST_TIMEOUT).await;
        server.send_log_message("error", &json!("it burns"));
        assert_eq!(host.notification("notifications/message").await["params"]["data"], "it burns");
    }
    host.send_request(1, "logging/setLevel", json!({"level": "loud"})).await;
    assert_eq!(host.response(1).await["error"]["code"], -32602);
}

/// Longer than calls wait for a level, and shorter than the response of the host does.
const SLOW_LEVEL: Duration = Duration::from_secs(3);

#[tokio::test]
async fn a_server_knows_the_level_when_the_host_hears_that_it_is_set() {
    let logs = [("info", json!("quiet")), ("error", json!("loud"))];
    let server = testkit::server().legacy().tool(Tool::logs("log", logs)).run().await;
    let mut host = TestHost::join_with(&gateway([at("one", &server)]), json!({})).await;
    host.result("tools/list", json!({})).await;
    server.arm(Fault::delay(SLOW_LEVEL).on("logging/setLevel"));
    host.result("logging/setLevel", json!({"level": "error"})).await;
    host.send_request(1, "tools/call", json!({"name": "log", "arguments": {}})).await;
    assert_eq!(host.notification("notifications/message").await["params"]["data"], "loud");
}

#[tokio::test]
async fn changed_roots_are_told_to_every_server() {
    let one = testkit::server().legacy().tool("echo").run().await;
    let two = testkit::server().legacy().tool("add").run().await;
    let capabilities = json!({"roots": {"listChanged": true}});
    let mut host = TestHost::join_with(&gateway([at("one", &one), at("two", &two)]), capabilities).await;
    assert_eq!(host.tools().await, ["echo", "add"]);
    host.send_notification("notifications/roots/list_changed", Value::Null).await;
    for server in [&one, &two] {
        server
            .wait_for(|received| received.has_method("notifications/roots/list_changed"), TEST_TIMEOUT)
            .await;
    }
}

//! What the configuration hides of the server of a relay.

use bowline::config::ToolPattern;
use bowline_gateway::{Gateway, Relay};
use bowline_testkit as testkit;
use serde_json::{Value, json};

use crate::support::{TEST_TIMEOUT, TestHost, server_at};

/// The params with what each request of a host of 2026-07-28 says about it.
fn with_meta(mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "test-host", "version": "1"},
    });
    params
}

fn completion(reference: &Value) -> Value {
    json!({"ref": reference, "argument": {"name": "a", "value": ""}})
}

#[tokio::test]
async fn what_is_hidden_is_neither_completed_nor_subscribed_to() {
    for script in [testkit::server().legacy(), testkit::server().modern()] {
        let script = script.tool("echo").prompt("greet", "Hello {a}");
        let server = script.resource("file:///a", "a").template("file:///{a}").run().await;
        let mut config = server_at(&server);
        (config.exposure.prompts, config.exposure.resources) = (false, false);
        let mut legacy = TestHost::start(Relay::new(config.clone()));
        legacy.initialize(json!({})).await;
        let mut modern = TestHost::start(Relay::new(config));
        for (reference, refusal) in [
            (json!({"type": "ref/prompt", "name": "greet"}), "Unknown prompt: greet"),
            (json!({"type": "ref/resource", "uri": "file:///{a}"}), "Unknown resource: file:///{a}"),
        ] {
            let params = completion(&reference);
            let refused = legacy.error("completion/complete", params.clone()).await;
            assert_eq!(refused["message"], refusal);
            let refused = modern.error("completion/complete", with_meta(params)).await;
            assert_eq!(refused["message"], refusal);
        }
        let wanted = json!({"toolsListChanged": true, "resourceSubscriptions": ["file:///a"]});
        let params = with_meta(json!({"notifications": wanted}));
        modern.send_request("listen", "subscriptions/listen", params).await;
        let acknowledged = modern.notification("notifications/subscriptions/acknowledged").await;
        assert_eq!(acknowledged["params"]["notifications"], json!({"toolsListChanged": true}));
        assert_eq!((server.count("completion/complete"), server.count("resources/subscribe")), (0, 0));
    }
}

/// A server may execute a request without an id, or take another method for one that is checked.
#[tokio::test]
async fn nothing_hidden_is_reached_past_the_checks() {
    let hidden = json!({"name": "echo", "uri": "file:///a", "notifications": {"resourceSubscriptions": ["file:///a"]}});
    let unchecked = ["Tools/Call", "tools/call/", " resources/read", "subscriptions/listen"];
    let methods = ["tools/call", "prompts/get", "resources/read", "resources/subscribe", "tasks/cancel"];
    for script in [testkit::server().legacy(), testkit::server().modern()] {
        let server = script.tool("echo").prompt("greet", "hi").resource("file:///a", "a").run().await;
        let mut config = server_at(&server);
        config.exposure.disabled_tools = vec![ToolPattern::new("*")];
        (config.exposure.prompts, config.exposure.resources) = (false, false);
        let gateway = Gateway::builder([config.clone()]).build();
        for (kind, mut host) in
            [("relay", TestHost::start(Relay::new(config))), ("gateway", TestHost::join(&gateway))]
        {
            host.initialize(json!({})).await;
            host.result("tools/list", Value::Null).await;
            for method in unchecked {
                assert_eq!(host.error(method, hidden.clone()).await["code"], -32601, "{kind} {method}");
            }
            if kind == "relay" {
                let refused = host.error("resources/unsubscribe", hidden.clone()).await;
                assert_eq!(refused["message"], "Unknown resource: file:///a");
            }
            for method in methods.into_iter().chain(unchecked) {
                host.send_notification(method, hidden.clone()).await;
            }
            // It is passed on after those before it.
            host.send_notification("notifications/x", json!({})).await;
            server.wait_until(|server| server.count("notifications/x") > 0, TEST_TIMEOUT).await;
            host.close().await;
            for method in methods.into_iter().chain(unchecked) {
                let mut received = server.received_with_method(method).into_iter();
                // The client of a modern server listens for changes of its lists.
                let is_of_host = received.any(|received| received.params()["name"] == "echo");
                assert!(!is_of_host, "{kind} {method}");
            }
        }
    }
}

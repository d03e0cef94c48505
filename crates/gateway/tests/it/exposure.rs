//! What the configuration hides of the server of a relay.

use bowline_gateway::Relay;
use bowline_testkit as testkit;
use serde_json::{Value, json};

use crate::support::{TestHost, server_at};

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

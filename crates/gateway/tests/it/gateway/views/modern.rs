//! Views of hosts of revision 2026-07-28, which select one with each request.

use bowline_gateway::HttpSettings;
use bowline_testkit::{ScriptedRequest, Tool};

use super::*;
use crate::gateway::http_host::{RawEndpoint, Reply, ServedGateway, serve_with_settings};

/// A modern host that sends its requests to one path, with one token.
pub(super) struct ModernHost<'a> {
    pub(super) endpoint: &'a RawEndpoint,
    pub(super) path: &'static str,
    pub(super) token: &'static str,
}

impl ModernHost<'_> {
    async fn post(&self, method: &str, params: Value) -> Reply {
        let mut params = params;
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
            "io.modelcontextprotocol/clientInfo": {"name": "host", "version": "1"},
        });
        let name = params.get("name").or(params.get("uri")).and_then(Value::as_str).unwrap_or_default();
        let authorization = format!("Bearer {}", self.token);
        let mut headers = vec![
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", method),
            ("authorization", &authorization),
        ];
        if !name.is_empty() {
            headers.push(("mcp-name", name));
        }
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        self.endpoint.post_to(self.path, &message, &headers).await
    }

    pub(super) async fn request(&self, method: &str, params: Value) -> Value {
        let answer = self.post(method, params).await.message().await;
        assert_eq!(answer["id"], 1, "{answer}");
        answer
    }

    async fn names(&self, method: &str, list: &str, member: &str) -> Vec<Value> {
        let answer = self.request(method, json!({})).await;
        answer["result"][list].as_array().unwrap().iter().map(|item| item[member].clone()).collect()
    }
}

fn settings() -> HttpSettings {
    HttpSettings::new()
        .with_bearer_token("general")
        .with_view("review", Some("token-review"))
        .with_view("other", Some("token-other"))
}

/// SE-12, GW-01, GW-08: as for hosts with a session.
#[tokio::test]
async fn se_12_a_modern_host_reaches_nothing_beyond_its_view() {
    let fixture = Fixture::start().await;
    let running = serve_with_settings(&fixture.gateway, TEST_TIMEOUT, settings()).await;
    let endpoint = RawEndpoint { address: running.address };
    let all = ModernHost { endpoint: &endpoint, path: "/mcp", token: "general" };
    let names = all.names("tools/list", "tools", "name").await;
    assert_eq!(names, ["shown__search", "get_x", "delete", "hidden__search", "secret", "idle"]);
    let before = fixture.seen_by_hidden();
    for (path, token) in [("/mcp/review", "general"), ("/mcp", "token-review")] {
        let host = ModernHost { endpoint: &endpoint, path, token };
        let discovered = host.request("server/discover", json!({})).await;
        assert_eq!(discovered["result"]["instructions"], "# Server `shown`\nUse search.");
        assert_eq!(host.names("tools/list", "tools", "name").await, ["shown__search", "get_x"]);
        assert_eq!(host.names("prompts/list", "prompts", "name").await, ["open"]);
        let called = host.request("tools/call", json!({"name": "get_x"})).await;
        assert!(called["result"]["content"].is_array(), "{called}");
        let reference = json!({"type": "ref/prompt", "name": "closed"});
        for (method, params, expected) in [
            ("tools/call", json!({"name": "secret"}), error(-32602, "Unknown tool: secret")),
            ("tools/call", json!({"name": "delete"}), error(-32602, "Unknown tool: delete")),
            ("prompts/get", json!({"name": "closed"}), error(-32602, "Unknown prompt: closed")),
            ("resources/read", json!({"uri": "hidden://a"}), error(-32602, "Resource not found: hidden://a")),
            (
                "resources/read",
                json!({"uri": "hidden://rows/1"}),
                error(-32602, "Resource not found: hidden://rows/1"),
            ),
            ("resources/read", json!({"uri": "other://x"}), error(-32602, "Resource not found: other://x")),
            (
                "completion/complete",
                json!({"ref": reference, "argument": {"name": "x", "value": ""}}),
                error(-32602, "Unknown prompt: closed"),
            ),
            ("example/method", json!({}), error(-32601, "Method not found: example/method")),
        ] {
            let answer = host.request(method, params.clone()).await;
            assert_eq!(answer["error"], expected, "{path} {method} {params}");
        }
        let wanted = json!({"toolsListChanged": true, "resourceSubscriptions": ["hidden://a", "shown://a"]});
        let mut stream = host.post("subscriptions/listen", json!({"notifications": wanted})).await;
        let acknowledged = stream.event().await;
        assert_eq!(
            acknowledged["params"]["notifications"],
            json!({"toolsListChanged": true, "resourceSubscriptions": ["shown://a"]})
        );
        fixture.shown.wait_until(|server| server.announce_resource("shown://a") > 0, TEST_TIMEOUT).await;
        assert_eq!(stream.event().await["params"]["uri"], "shown://a");
    }
    assert_eq!(fixture.seen_by_hidden(), before, "the hidden servers know nothing of the host");
    let ServedGateway { stop, serving, .. } = running;
    let _ = stop.send(());
    tokio::time::timeout(TEST_TIMEOUT, serving).await.expect("it ends").expect("no panic");
}

/// SE-09, GW-07: the state of a call that waits for input is of no use to a host with another token or
/// view.
#[tokio::test]
async fn se_09_a_state_is_bound_to_the_view_and_the_token() {
    let form = ScriptedRequest::form_elicitation("a", "Where?", json!({"type": "object", "properties": {}}));
    let server = testkit::server().legacy().tool(Tool::asks("book", [form])).run().await;
    let gateway = Gateway::builder([at("one", &server)]);
    let gateway = gateway.view("review", View::default()).view("other", View::default()).build();
    let running = serve_with_settings(&gateway, TEST_TIMEOUT, settings()).await;
    let endpoint = RawEndpoint { address: running.address };
    let host = |path, token| ModernHost { endpoint: &endpoint, path, token };
    let owner = host("/mcp/review", "general");
    let asked = owner.request("tools/call", json!({"name": "book"})).await;
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let key = asked["result"]["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    let answer = json!({"action": "accept", "content": {}});
    let retry = json!({
        "name": "book",
        "inputResponses": {key: answer},
        "requestState": asked["result"]["requestState"],
    });
    for (path, token) in
        [("/mcp", "general"), ("/mcp/other", "general"), ("/mcp", "token-review"), ("/mcp", "token-other")]
    {
        let refused = host(path, token).request("tools/call", retry.clone()).await;
        assert_eq!(refused["error"]["code"], -32602, "{path} {token}: {refused}");
    }
    let finished = owner.request("tools/call", retry).await;
    assert_eq!(finished["result"]["resultType"], "complete", "{finished}");
    assert_eq!(server.executions("book"), 1);
    let _ = running.stop.send(());
    tokio::time::timeout(TEST_TIMEOUT, running.serving).await.expect("it ends").expect("no panic");
}

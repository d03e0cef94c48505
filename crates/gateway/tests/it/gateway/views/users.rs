//! Hosts of several users, each with access tokens of an issuer.

use std::sync::Arc;

use bowline_gateway::{HttpSettings, ResourceServer, TokenIdentity, TokenVerifier, TokenVerifierFuture};
use bowline_testkit::{ScriptedRequest, Tool};

use super::modern::ModernHost;
use super::*;
use crate::gateway::http_host::{RawEndpoint, serve_with_settings};

/// Accepts every token `USER.NUMBER`.
#[derive(Debug)]
struct NamedTokens;

impl TokenVerifier for NamedTokens {
    fn verify<'a>(&'a self, token: &'a str) -> TokenVerifierFuture<'a> {
        let user = token.split('.').next().unwrap_or_default();
        let identity = TokenIdentity::new("https://issuer.example", user, ["mcp"]);
        Box::pin(std::future::ready(Ok(identity)))
    }
}

/// SE-09, GW-07: the state of a call that waits for input belongs to a user, whichever token the user
/// has by then.
#[tokio::test]
async fn se_09_a_state_is_bound_to_the_user_and_not_to_the_token() {
    let form = ScriptedRequest::form_elicitation("a", "Where?", json!({"type": "object", "properties": {}}));
    let server = testkit::server().legacy().tool(Tool::asks("book", [form])).run().await;
    let gateway = Gateway::builder([at("one", &server)]).view("review", View::default()).build();
    let oauth = ResourceServer::new("https://h/mcp", ["https://issuer.example"], Arc::new(NamedTokens));
    let settings = HttpSettings::new().with_view("review", None).with_resource_server(oauth);
    let running = serve_with_settings(&gateway, TEST_TIMEOUT, settings).await;
    let endpoint = RawEndpoint { address: running.address };
    let host = |path, token| ModernHost { endpoint: &endpoint, path, token };
    let asked = host("/mcp", "alice.1").request("tools/call", json!({"name": "book"})).await;
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let key = asked["result"]["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    let retry = json!({
        "name": "book",
        "inputResponses": {key: {"action": "accept", "content": {}}},
        "requestState": asked["result"]["requestState"],
    });
    for (path, token) in [("/mcp", "bob.1"), ("/mcp/review", "alice.1")] {
        let refused = host(path, token).request("tools/call", retry.clone()).await;
        assert_eq!(refused["error"]["code"], -32602, "{path} {token}: {refused}");
    }
    let finished = host("/mcp", "alice.2").request("tools/call", retry).await;
    assert_eq!(finished["result"]["resultType"], "complete", "{finished}");
    assert_eq!(server.executions("book"), 1);
    let _ = running.stop.send(());
    tokio::time::timeout(TEST_TIMEOUT, running.serving).await.expect("it ends").expect("no panic");
}

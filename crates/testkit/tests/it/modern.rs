//! The era of 2026-07-28 over HTTP, and the choice between the eras.

use crate::support::{
    Client, TEST_TIMEOUT, initialize, messages, modern_client, modern_params, next_chunk, request,
    within_timeout,
};
use bowline_testkit as testkit;
use serde_json::{Value, json};

async fn call(
    server: &testkit::HttpServer,
    method: &str,
    name: Option<&str>,
    params: Value,
) -> crate::support::Reply {
    modern_client(server.addr(), method, name).post(&request(1, method, modern_params(params))).await
}

// LC-08, LC-11, CA-01
#[tokio::test]
async fn discover_lists_and_calls() {
    let server = testkit::server().tool("echo").info("kit", "9").instructions("hi").modern().run().await;
    let found = call(&server, "server/discover", None, json!({})).await.message()["result"].clone();
    assert_eq!(found["supportedVersions"], json!(["2026-07-28"]));
    assert_eq!(found["resultType"], "complete");
    assert_eq!(found["cacheScope"], "public");
    assert_eq!(found["_meta"]["io.modelcontextprotocol/serverInfo"], json!({"name": "kit", "version": "9"}));
    assert!(found["capabilities"].get("logging").is_none());
    let list = call(&server, "tools/list", None, json!({})).await.message()["result"].clone();
    assert_eq!(list["ttlMs"], 60_000);
    let echoed = call(&server, "tools/call", Some("echo"), json!({"name": "echo", "arguments": {}})).await;
    assert_eq!(echoed.message()["result"]["resultType"], "complete");
    assert!(echoed.message()["result"].get("ttlMs").is_none());
    assert_eq!(echoed.header("mcp-session-id"), None);
    for http in ["GET", "DELETE"] {
        assert_eq!(Client::new(server.addr()).try_send(http, Vec::new()).await.unwrap().status, 405);
    }
}

// HM-01, HM-02, HM-03, HM-08
#[tokio::test]
async fn headers_must_mirror_the_body() {
    let server = testkit::server().tool("echo").tool("日本").modern().run().await;
    let message = request(1, "tools/call", modern_params(json!({"name": "echo", "arguments": {}})));
    for client in [
        Client::new(server.addr()),
        modern_client(server.addr(), "tools/list", Some("echo")),
        modern_client(server.addr(), "TOOLS/CALL", Some("echo")),
        modern_client(server.addr(), "tools/call", Some("other")),
        modern_client(server.addr(), "tools/call", Some("=?base64?!!?=")),
        modern_client(server.addr(), "tools/call", None),
    ] {
        let reply = client.post(&message).await;
        assert_eq!((reply.status, reply.message()["error"]["code"].clone()), (400, json!(-32020)));
        assert_eq!(reply.message()["id"], 1);
    }
    let encoded = modern_client(server.addr(), "tools/call", Some("=?base64?5pel5pys?="));
    let reply = encoded.post(&request(1, "tools/call", modern_params(json!({"name": "日本"})))).await;
    assert_eq!(reply.status, 200);
    assert_eq!(server.executions("echo"), 0);
}

// HM-04, HM-07
#[tokio::test]
async fn annotated_arguments_are_checked() {
    let schema = json!({"type": "object", "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "in": {"type": "object", "properties": {"n": {"type": "integer", "x-mcp-header": "N"}}},
    }});
    let server = testkit::server().tool(testkit::Tool::named("t").schema(schema)).modern().run().await;
    let message = request(
        1,
        "tools/call",
        modern_params(json!({"name": "t", "arguments": {"region": "eu", "in": {"n": 4}}})),
    );
    let client = || modern_client(server.addr(), "tools/call", Some("t"));
    assert_eq!(client().post(&message).await.message()["error"]["code"], -32020);
    let right = client().with_header("mcp-param-region", "eu").with_header("mcp-param-n", "4");
    assert_eq!(right.post(&message).await.status, 200);
    let wrong = client().with_header("mcp-param-region", "us").with_header("mcp-param-n", "4");
    assert_eq!(wrong.post(&message).await.status, 400);
    let null = request(1, "tools/call", modern_params(json!({"name": "t", "arguments": {"region": null}})));
    assert_eq!(client().post(&null).await.status, 200);
}

// HM-11, LC-12, DE-08
#[tokio::test]
async fn statuses_of_refusals() {
    let server = testkit::server().tool("ask").modern().run().await;
    let mut params = modern_params(json!({}));
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2027-01-01".into();
    let mut client = modern_client(server.addr(), "server/discover", None);
    client.headers.retain(|(name, _)| name != "mcp-protocol-version");
    let reply = client
        .with_header("mcp-protocol-version", "2027-01-01")
        .post(&request(1, "server/discover", params))
        .await;
    assert_eq!(reply.status, 400);
    assert_eq!(reply.message()["error"]["code"], -32022);
    assert_eq!(
        reply.message()["error"]["data"],
        json!({"supported": ["2026-07-28"], "requested": "2027-01-01"})
    );

    let reply = Client::new(server.addr()).post(&initialize("2025-11-25")).await;
    assert_eq!(reply.status, 400);
    assert_eq!(reply.message()["error"]["code"], -32602);
    assert_eq!(reply.message()["error"]["data"]["supported"], json!(["2026-07-28"]));
    let reply = call(&server, "ping", None, json!({})).await;
    assert_eq!((reply.status, reply.message()["error"]["code"].clone()), (404, json!(-32601)));
    let roots = json!({"name": "ask", "arguments": {"method": "roots/list"}});
    let reply = call(&server, "tools/call", Some("ask"), roots).await;
    assert_eq!(reply.status, 400);
    assert_eq!(reply.message()["error"]["data"], json!({"requiredCapabilities": {"roots": {}}}));
}

// MR-03
#[tokio::test]
async fn input_is_asked_for_and_the_state_comes_back_once() {
    let server = testkit::server().tool("ask").modern().run().await;
    let mut params =
        json!({"name": "ask", "arguments": {"method": "elicitation/create", "params": {"message": "?"}}});
    let asked = call(&server, "tools/call", Some("ask"), params.clone()).await.message()["result"].clone();
    assert_eq!(asked["resultType"], "input_required");
    assert_eq!(asked["inputRequests"]["ask"]["method"], "elicitation/create");
    assert_eq!(server.executions("ask"), 0);
    params["inputResponses"] = json!({"ask": {"action": "accept"}});
    params["requestState"] = asked["requestState"].clone();
    let done = call(&server, "tools/call", Some("ask"), params.clone()).await.message()["result"].clone();
    assert_eq!(done["content"][0]["text"], r#"{"action":"accept"}"#);
    let again = call(&server, "tools/call", Some("ask"), params).await;
    assert_eq!(again.message()["error"]["code"], -32602);
    assert_eq!(server.executions("ask"), 1);
}

// SB-02, SB-03, SB-04
#[tokio::test]
async fn subscriptions_tell_changes() {
    let server = testkit::server().tool("echo").resource("file:///a", "").modern().run().await;
    let listen = |id: i64| {
        let filter = json!({"toolsListChanged": true, "resourceSubscriptions": ["file:///a"]});
        request(id, "subscriptions/listen", modern_params(json!({"notifications": filter})))
            .to_string()
            .into_bytes()
    };
    let client = modern_client(server.addr(), "subscriptions/listen", None);
    let mut stream = within_timeout(client.open("POST", listen(9))).await.unwrap().into_body();
    let first = messages(&next_chunk(&mut stream).await.unwrap()).remove(0);
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(server.announce_prompts(), 0);
    assert_eq!(server.announce_resource("file:///b"), 0);
    assert_eq!(server.announce_resource("file:///a"), 1);
    let told = messages(&next_chunk(&mut stream).await.unwrap()).remove(0);
    assert_eq!(
        told["params"],
        json!({"uri": "file:///a", "_meta": {"io.modelcontextprotocol/subscriptionId": 9}})
    );
    server.end_matching_subscriptions(None, testkit::SubscriptionEnd::Result);
    let last = messages(&next_chunk(&mut stream).await.unwrap()).remove(0);
    assert_eq!(last["id"], 9);
    assert_eq!(next_chunk(&mut stream).await, None);
    assert!(server.cancellations().is_empty());

    let abandoned = within_timeout(client.open("POST", listen(10))).await.unwrap();
    assert_eq!(server.subscription_count(), 1);
    drop(abandoned);
    server.wait_until(|s| s.subscription_count() == 0, TEST_TIMEOUT).await;
    assert_eq!(server.cancellations(), [json!(10)]);
}

// HM-12
#[tokio::test]
async fn closing_the_response_cancels_json_and_sse_calls() {
    let server = testkit::server().tool("slow").modern().run().await;
    let client = modern_client(server.addr(), "tools/call", Some("slow"));
    for (n, meta) in [(1, json!(null)), (2, json!("token"))] {
        let mut params = modern_params(json!({"name": "slow", "arguments": {"ms": 3_600_000}}));
        params["_meta"]["progressToken"] = meta;
        let body = request(n, "tools/call", params).to_string().into_bytes();
        let sent = tokio::spawn({
            let client = modern_client(client.addr, "tools/call", Some("slow"));
            async move { client.open("POST", body).await.map(drop) }
        });
        server.wait_until(|s| s.executions("slow") == n, TEST_TIMEOUT).await;
        sent.abort();
        server.wait_until(|s| s.cancellations().len() as u64 == n, TEST_TIMEOUT).await;
    }
    assert_eq!(server.cancellations(), [json!(1), json!(2)]);
}

// DE-06, DE-12
#[tokio::test]
async fn a_dual_server_chooses_the_era_per_request() {
    let server = testkit::server().tool("echo").run().await;
    let found = call(&server, "server/discover", None, json!({})).await.message()["result"].clone();
    assert_eq!(found["supportedVersions"].as_array().unwrap().len(), 5);
    let client = Client::legacy(server.addr()).await;
    client.call("echo", json!({})).await;
    let list = client.result("tools/list", json!({})).await;
    assert!(list.get("resultType").is_none());
}

#[tokio::test]
async fn a_legacy_server_refuses_the_probe_in_its_own_way() {
    let server = testkit::server().legacy().run().await;
    let reply = call(&server, "server/discover", None, json!({})).await;
    assert_eq!(reply.status, 400);
    assert_eq!(reply.message()["error"]["code"], -32000);
    assert!(reply.text().contains("Unsupported protocol version: 2026-07-28"));
}

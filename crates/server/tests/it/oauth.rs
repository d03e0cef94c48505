//! A listener as an OAuth resource server: its metadata, its challenges, and whose a session is.

use std::sync::Arc;

use bowline_server::{
    HttpSettings, ResourceServer, TokenIdentity, TokenRefusal, TokenVerifier, TokenVerifierFuture,
};
use serde_json::{Value, json};

use crate::restart::Memory;
use crate::test_server::{TestServer, initialize, refusal, request};
use crate::views::ViewHost;

const NEWEST: &str = "2025-11-25";
const METADATA: &str = "/.well-known/oauth-protected-resource";

/// Accepts tokens of the form `SUBJECT:SCOPE,SCOPE:NUMBER`.
#[derive(Debug)]
struct PlainTokens;

impl TokenVerifier for PlainTokens {
    fn verify<'a>(&'a self, token: &'a str) -> TokenVerifierFuture<'a> {
        Box::pin(async move {
            if token == "down" {
                return Err(TokenRefusal::Unavailable("the issuer is unreachable".to_owned()));
            }
            let mut parts = token.split(':');
            match (parts.next(), parts.next(), parts.next()) {
                (Some(subject), Some(scopes), Some(_)) => {
                    Ok(TokenIdentity::new("https://issuer.example", subject, scopes.split(',')))
                }
                _ => Err(TokenRefusal::Invalid("it has another form".to_owned())),
            }
        })
    }
}

fn resource_server() -> ResourceServer {
    ResourceServer::new(
        "https://gateway.example/mcp",
        ["https://issuer.example", "https://other.example"],
        Arc::new(PlainTokens),
    )
    .with_scopes(["mcp"])
}

fn settings() -> HttpSettings {
    HttpSettings::new()
        .with_bearer_token("general")
        .with_view("a", Some("token-a"))
        .with_view("b", Some("token-b"))
        .with_resource_server(
            resource_server().with_view_scope("scope-a", "a").with_view_scope("scope-b", "b"),
        )
}

/// GW-11: a host that has nothing but the URL finds out how to get a token.
#[tokio::test]
async fn gw_11_a_request_without_a_token_gets_a_usable_challenge() {
    let server = TestServer::start_with(settings()).await;
    let metadata = r#"resource_metadata="https://gateway.example/.well-known/oauth-protected-resource/mcp""#;
    for (path, token, scope) in [
        ("/mcp", "", r#"scope="mcp scope-a scope-b""#),
        ("/mcp/a", "", r#"scope="mcp scope-a""#),
        ("/mcp/unknown", "", r#"scope="mcp""#),
        ("/mcp/b", "garbage", r#"error="invalid_token", scope="mcp scope-b""#),
    ] {
        for method in ["POST", "GET", "DELETE"] {
            let host = ViewHost::new(&server.client, path, token);
            let reply = host.send(method, &initialize(NEWEST).to_string()).await;
            let challenge = format!("Bearer {scope}, {metadata}");
            assert_eq!(reply.header("www-authenticate"), Some(&*challenge), "{method} {path}");
            let message =
                if token.is_empty() { "a bearer token is required" } else { "the access token is not valid" };
            assert_eq!(reply.expect_json(401).await, refusal(-32600, message));
        }
    }
    for path in ["", "/mcp", "/mcp/a", "/mcp/unknown"] {
        let client = server.client.with("origin", "http://localhost:5173");
        let reply = client.send("GET", &format!("{METADATA}{path}"), "").await;
        assert_eq!(reply.header("access-control-allow-origin"), Some("http://localhost:5173"));
        let document = reply.expect_json(200).await;
        let expected = json!({
            "resource": "https://gateway.example/mcp",
            "authorization_servers": ["https://issuer.example", "https://other.example"],
            "bearer_methods_supported": ["header"],
            "scopes_supported": ["mcp", "scope-a", "scope-b"],
        });
        assert_eq!(document, expected, "{path}");
    }
    let page = server.client.with("origin", "http://localhost:5173");
    page.send("OPTIONS", METADATA, "").await.expect_empty(204).await;
    assert_eq!(server.client.send("POST", METADATA, "").await.status, 405);
    assert_eq!(server.client.send("GET", &format!("{METADATA}/other"), "").await.status, 404);
}

#[tokio::test]
async fn a_listener_that_is_no_resource_server_has_no_metadata() {
    let server = TestServer::start_with(HttpSettings::new().with_bearer_token("general")).await;
    assert_eq!(server.client.send("GET", METADATA, "").await.status, 404);
    let reply = ViewHost::new(&server.client, "/mcp", "").post(&initialize(NEWEST)).await;
    assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
}

/// GW-11: a token without a scope gets 403 with all scopes of the operation, also in the next login.
#[tokio::test]
async fn gw_11_scopes_of_a_token_select_its_view() {
    let server = TestServer::start_with(settings()).await;
    for (path, token, expected) in [
        ("/mcp", "alice:mcp,scope-a:1", Ok(json!("a"))),
        ("/mcp/a", "alice:mcp,scope-a:1", Ok(json!("a"))),
        ("/mcp/b", "alice:mcp,scope-a,scope-b:1", Ok(json!("b"))),
        ("/mcp/b", "alice:mcp,scope-a:1", Err((403, Some("mcp scope-b")))),
        ("/mcp", "alice:mcp:1", Err((403, Some("mcp scope-a scope-b")))),
        ("/mcp", "alice:scope-a:1", Err((403, Some("mcp scope-a scope-b")))),
        ("/mcp", "alice:mcp,scope-a,scope-b:1", Err((403, None))),
        ("/mcp/c", "alice:mcp,scope-a:1", Err((403, None))),
        ("/mcp", "down", Err((503, None))),
        // The tokens of the listener are as before.
        ("/mcp", "general", Ok(Value::Null)),
        ("/mcp/b", "general", Ok(json!("b"))),
        ("/mcp", "token-a", Ok(json!("a"))),
        ("/mcp/b", "token-a", Err((403, None))),
    ] {
        let host = ViewHost::new(&server.client, path, token);
        match expected {
            Ok(view) => {
                let id = host.begin().await;
                assert_eq!(host.in_session(&id).view().await, view, "{path} {token}");
            }
            Err((status, scope)) => {
                let reply = host.post(&initialize(NEWEST)).await;
                let challenge = scope.map(|scope| {
                    format!(
                        "Bearer error=\"insufficient_scope\", scope=\"{scope}\", \
                         resource_metadata=\"https://gateway.example/.well-known/oauth-protected-resource/mcp\""
                    )
                });
                assert_eq!(reply.header("www-authenticate"), challenge.as_deref(), "{path} {token}");
                assert_eq!(reply.header("retry-after"), (status == 503).then_some("5"), "{path} {token}");
                assert_eq!(reply.status, status, "{path} {token}");
            }
        }
    }
}

/// Without a token of its own, a resource server is not open to everybody.
#[tokio::test]
async fn only_tokens_of_issuers_are_accepted_if_there_is_no_other_token() {
    let server = TestServer::start_with(HttpSettings::new().with_resource_server(resource_server())).await;
    for (token, status) in [("", 401), ("general", 401), ("alice:mcp:1", 200), ("alice:other:1", 403)] {
        let reply = ViewHost::new(&server.client, "/mcp", token).post(&initialize(NEWEST)).await;
        assert_eq!(reply.status, status, "{token}");
    }
}

/// SE-08: a session belongs to a user with a view, whichever token the user has, also after a restart.
#[tokio::test]
async fn se_08_a_session_is_bound_to_the_user_and_not_to_the_token() {
    let memory = Memory::default();
    let start = || TestServer::start_with(settings().with_session_store(Arc::new(memory.clone())));
    let first = start().await;
    let id = ViewHost::new(&first.client, "/mcp", "alice:mcp,scope-a:1").begin().await;
    let check = async |server: &TestServer| {
        for (path, token, status) in [
            ("/mcp/a", "alice:mcp,scope-a:2", 200),
            ("/mcp", "alice:mcp,scope-a,more:3", 200),
            ("/mcp/a", "bob:mcp,scope-a:1", 404),
            ("/mcp/b", "alice:mcp,scope-b:1", 404),
            ("/mcp/a", "general", 404),
            ("/mcp/a", "token-a", 404),
        ] {
            let host = ViewHost::new(&server.client, path, token).in_session(&id);
            let reply = host.post(&request(1, "ping", json!({}))).await;
            assert_eq!(reply.status, status, "{path} {token}");
        }
    };
    check(&first).await;
    memory.wait_for_record(NEWEST).await;
    let record = memory.only_record();
    assert_eq!(record["principal"], r#"user:["https://issuer.example","alice"]"#);
    first.kill().await;
    check(&start().await).await;
}

/// GW-10: requests without a session are checked in the same way, each on its own.
#[tokio::test]
async fn gw_10_a_request_without_a_session_has_the_view_of_its_scopes() {
    let server = TestServer::start_both(settings()).await;
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let message = request(1, "view", json!({"_meta": meta}));
    let client = server.client.with("mcp-protocol-version", "2026-07-28").with("mcp-method", "view");
    let send = async |token: &str| ViewHost::new(&client, "/mcp", token).post(&message).await;
    let reply = send("alice:mcp,scope-b:1").await;
    assert_eq!(reply.expect_json(200).await["result"]["view"], "b");
    assert_eq!(send("alice:mcp:1").await.status, 403);
    assert_eq!(send("").await.status, 401);
}

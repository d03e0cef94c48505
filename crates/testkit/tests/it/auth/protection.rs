//! The MCP server protected by tokens.

use super::*;
use crate::support::{initialize, request};
use bowline_testkit::{self as testkit, AuthFault, AuthServer, Fault, HttpServer, Protection, Script};
use std::time::Duration;

async fn protected(how: impl FnOnce(Protection) -> Protection) -> (AuthServer, HttpServer) {
    let auth = AuthServer::builder().client(testkit::AuthClient::public("app")).start().await;
    let script = testkit::server().tool("echo").tool(testkit::Tool::like("admin", "echo")).sessionless();
    let server = script.protected(how(Protection::with_auth_server(&auth))).run().await;
    (auth, server)
}

async fn call(server: &HttpServer, message: &Value, headers: &[(&str, &str)]) -> HttpReply {
    let mut all = vec![
        ("accept", "application/json, text/event-stream"),
        ("content-type", "application/json"),
        ("mcp-protocol-version", "2025-11-25"),
    ];
    all.extend_from_slice(headers);
    try_send("POST", &server.url(), &all, &message.to_string()).await.unwrap()
}

async fn with(server: &HttpServer, token: &str, method: &str, params: Value) -> HttpReply {
    call(server, &request(1, method, params), &[("authorization", &format!("Bearer {token}"))]).await
}

async fn start(server: &HttpServer, token: &str) -> HttpReply {
    call(server, &initialize("2025-11-25"), &[("authorization", &format!("Bearer {token}"))]).await
}

fn origin(server: &HttpServer) -> String {
    format!("http://{}", server.addr())
}

#[tokio::test]
async fn without_a_token_it_says_where_to_get_one() {
    let (auth, server) = protected(|p| p.challenge_scope("a b").scopes(&["a", "b", "c"])).await;
    for method in ["GET", "DELETE"] {
        assert_eq!(try_send(method, &server.url(), &[], "").await.unwrap().status, 401);
    }
    let said = call(&server, &initialize("2025-11-25"), &[]).await;
    let prm = format!("{}/.well-known/oauth-protected-resource/mcp", origin(&server));
    let challenge = format!("Bearer scope=\"a b\", resource_metadata=\"{prm}\"");
    assert_eq!((said.status, said.header("www-authenticate")), (401, Some(challenge.as_str())));
    let document = get(&prm).await.json();
    assert_eq!(document["resource"], server.url());
    assert_eq!(document["authorization_servers"], json!([auth.issuer()]));
    assert_eq!(document["scopes_supported"], json!(["a", "b", "c"]));
    assert_eq!((server.initialize_count(), auth.counts().unauthorized), (1, 3));
    assert_eq!(auth.received().iter().map(|seen| seen.endpoint).collect::<Vec<_>>(), ["prm"]);
}

#[tokio::test]
async fn only_a_good_token_for_this_server_gets_in() {
    let (auth, server) = protected(|p| p).await;
    let good = auth.issue("app", "a", &server.url()).access_token;
    assert_eq!(start(&server, &good).await.status, 200);
    let foreign = auth.issue("app", "a", "http://127.0.0.1:1/mcp").access_token;
    for bad in ["made-up", &foreign] {
        let said = start(&server, bad).await;
        assert_eq!(said.status, 401);
        assert!(said.header("www-authenticate").unwrap().starts_with("Bearer error=\"invalid_token\""));
    }
    assert!(auth.violations()[0].starts_with("TK-02"));
    auth.advance_clock(Duration::from_secs(3600));
    assert_eq!(start(&server, &good).await.status, 401);
    let next = auth.issue("app", "a", &server.url()).access_token;
    assert_eq!(start(&server, &next).await.status, 200);
    auth.revoke_all_access();
    assert_eq!(start(&server, &next).await.status, 401);
    server.edit(|s| s.protected(Protection::with_auth_server(&auth).any_audience()));
    let foreign = auth.issue("app", "a", "http://127.0.0.1:1/mcp").access_token;
    assert_eq!(start(&server, &foreign).await.status, 200);
}

#[tokio::test]
async fn a_whole_login_gets_in() {
    let (auth, server) = protected(|p| p).await;
    let url =
        testkit::with_query_parameter(&authorize_url(&auth, "app", "a"), "resource", Some(&server.url()));
    let code = query_parameter(&follow_authorize_url(&url).await, "code").unwrap();
    let mut form = code_form("app", &code);
    let resource = server.url();
    form.last_mut().unwrap().1 = &resource;
    let said = token(&auth, &form).await;
    assert_eq!(start(&server, &said.text("access_token")).await.status, 200);
    assert_eq!(auth.violations(), [""; 0]);
}

#[tokio::test]
async fn scopes_are_wanted_by_tool() {
    let (auth, server) = protected(|p| p.requires_scope("a").tool_requires_scope("admin", "b c")).await;
    let none = auth.issue("app", "z", &server.url()).access_token;
    let said = start(&server, &none).await;
    assert_eq!(said.status, 403);
    let some = auth.issue("app", "a b", &server.url()).access_token;
    assert_eq!(start(&server, &some).await.status, 200);
    let echo = with(&server, &some, "tools/call", json!({"name": "echo", "arguments": {}})).await;
    assert_eq!(echo.status, 200);
    let admin = with(&server, &some, "tools/call", json!({"name": "admin", "arguments": {}})).await;
    assert_eq!(admin.status, 403);
    let challenge = admin.header("www-authenticate").unwrap();
    assert!(
        challenge.starts_with("Bearer error=\"insufficient_scope\", scope=\"b c\", resource_metadata="),
        "{challenge}"
    );
    let all = auth.issue("app", "a b c", &server.url()).access_token;
    let admin = with(&server, &all, "tools/call", json!({"name": "admin", "arguments": {}})).await;
    assert_eq!((admin.status, server.executions("admin"), auth.counts().forbidden), (200, 1, 2));
}

#[tokio::test]
async fn some_servers_refuse_everybody() {
    let (auth, server) = protected(|p| p.always_forbidden("more")).await;
    let token = auth.issue("app", "more", &server.url()).access_token;
    let said = start(&server, &token).await;
    assert_eq!(said.status, 403);
    assert!(said.header("www-authenticate").unwrap().contains("scope=\"more\""));
    server.edit(|s| s.protected(Protection::with_auth_server(&auth).always_forbidden_without_challenge()));
    let said = start(&server, &token).await;
    assert_eq!((said.status, said.header("www-authenticate")), (403, None));
    server.edit(|s| s.protected(Protection::with_auth_server(&auth).always_unauthorized()));
    assert_eq!(start(&server, &token).await.status, 401);
}

#[tokio::test]
async fn some_methods_can_be_open() {
    let (_, server) = protected(|p| p.open_method("initialize")).await;
    assert_eq!(call(&server, &initialize("2025-11-25"), &[]).await.status, 200);
    assert_eq!(call(&server, &request(1, "tools/list", json!({})), &[]).await.status, 401);
}

#[tokio::test]
async fn faults_strike_after_the_token_is_checked() {
    let (auth, server) = protected(|p| p).await;
    server.arm(Fault::status(503).on("initialize"));
    assert_eq!(call(&server, &initialize("2025-11-25"), &[]).await.status, 401);
    let token = auth.issue("app", "a", &server.url()).access_token;
    assert_eq!(start(&server, &token).await.status, 503);
    auth.arm(AuthFault::error("invalid_token").on("mcp"));
    assert_eq!(call(&server, &initialize("2025-11-25"), &[]).await.status, 401);
    let said = start(&server, &token).await;
    assert!(said.status == 401 && said.header("www-authenticate").unwrap().contains("invalid_token"));
    assert_eq!(start(&server, &token).await.status, 200);
    auth.arm(AuthFault::set_member("resource", "https://other.example/mcp").on("prm"));
    let prm = format!("{}/.well-known/oauth-protected-resource/mcp", origin(&server));
    assert_eq!(get(&prm).await.json()["resource"], "https://other.example/mcp");
    assert_eq!(get(&prm).await.json()["resource"], server.url());
}

#[tokio::test]
async fn it_can_move_to_another_authorization_server() {
    let (first, server) = protected(|p| p).await;
    let second = AuthServer::builder().client(testkit::AuthClient::public("app")).start().await;
    let old = first.issue("app", "a", &server.url()).access_token;
    server.edit(|s| {
        s.protected(
            Protection::with_auth_server(&second)
                .authorization_servers(&[&second.issuer(), "https://third.example"]),
        )
    });
    assert_eq!(start(&server, &old).await.status, 401);
    let prm = format!("{}/.well-known/oauth-protected-resource/mcp", origin(&server));
    let listed = get(&prm).await.json()["authorization_servers"].clone();
    assert_eq!(listed, json!([second.issuer(), "https://third.example"]));
    let new = second.issue("app", "a", &server.url()).access_token;
    assert_eq!(start(&server, &new).await.status, 200);
}

#[tokio::test]
async fn the_old_transport_is_protected_too() {
    let auth = AuthServer::start().await;
    let server = Script::http_sse(testkit::server())
        .tool("echo")
        .protected(Protection::with_auth_server(&auth))
        .run()
        .await;
    let accept = ("accept", "text/event-stream");
    assert_eq!(try_send("GET", &server.url(), &[accept], "").await.unwrap().status, 401);
    let prm = format!("{}/.well-known/oauth-protected-resource/mcp", origin(&server));
    assert_eq!(get(&prm).await.status, 200);
}

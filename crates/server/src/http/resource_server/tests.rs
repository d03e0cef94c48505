//! Every path with every set of scopes, and the texts that hosts get.

use serde_json::Value;

use super::*;
use crate::token_verifier::{TokenIdentity, TokenVerifierFuture};

/// Accepts a token that lists its scopes, separated by commas, as a token of Alice.
#[derive(Debug)]
struct ScopeTokens;

impl TokenVerifier for ScopeTokens {
    fn verify<'a>(&'a self, token: &'a str) -> TokenVerifierFuture<'a> {
        Box::pin(async move {
            match token {
                "expired" => Err(TokenRefusal::Invalid("it has expired".to_owned())),
                "down" => Err(TokenRefusal::Unavailable("nobody answers".to_owned())),
                "slow" => std::future::pending().await,
                scopes => Ok(TokenIdentity::new("https://i", "alice", scopes.split(','))),
            }
        })
    }
}

fn resource_server(resource: &str) -> ResourceServer {
    ResourceServer::new(resource, ["https://i"], Arc::new(ScopeTokens))
}

fn with_views() -> ResourceServer {
    resource_server("https://h/mcp")
        .with_scopes(["mcp"])
        .with_view_scope("r", "research")
        .with_view_scope("admin", "research")
        .with_view_scope("o", "ops")
        .with_view_scope("g", "gone")
}

fn views() -> Views {
    ["research", "ops", "unmapped"].map(|name| (Arc::from(name), None)).into()
}

/// The audience of a request, or the refusal with its challenge.
async fn decide(oauth: &ResourceServer, view: Option<&str>, token: &str) -> String {
    let header = format!("Bearer {token}");
    match oauth.authorize(&views(), view, Some(header.as_bytes())).await {
        Ok(audience) => audience.to_string(),
        Err(refusal) => format!("{refusal:?}").replace('\\', ""),
    }
}

/// GW-11: the scopes of a token select views, and a refusal names all scopes of the operation.
#[tokio::test(start_paused = true)]
async fn gw_11_scopes_select_views() {
    const ALICE: &str = r#"user:["https://i","alice"]"#;
    let lacks = |scopes: &str| {
        let metadata = "https://h/.well-known/oauth-protected-resource/mcp";
        format!(
            r#"InsufficientScope("Bearer error="insufficient_scope", scope="{scopes}", resource_metadata="{metadata}"")"#
        )
    };
    let oauth = with_views();
    for (view, token, expected) in [
        (None, "mcp,r", format!("{ALICE}/research")),
        (None, "mcp,admin,r", format!("{ALICE}/research")),
        (None, "mcp,o,other", format!("{ALICE}/ops")),
        (None, "mcp,r,o", "SeveralViews".to_owned()),
        (None, "mcp,g", "OtherView".to_owned()),
        (None, "mcp", lacks("mcp r o g")),
        (None, "r", lacks("mcp r o g")),
        (Some("research"), "mcp,r", format!("{ALICE}/research")),
        (Some("research"), "mcp,r,o", format!("{ALICE}/research")),
        (Some("ops"), "mcp,r,o", format!("{ALICE}/ops")),
        (Some("ops"), "mcp,r", lacks("mcp o")),
        (Some("research"), "r", lacks("mcp r")),
        (Some("unmapped"), "mcp,r,o", "OtherView".to_owned()),
        (Some("none"), "mcp,r,o", "OtherView".to_owned()),
        (Some("none"), "r", lacks("mcp")),
        (Some("gone"), "mcp,g", "OtherView".to_owned()),
        (None, "down", "UnverifiedToken".to_owned()),
        (None, "slow", "UnverifiedToken".to_owned()),
    ] {
        assert_eq!(decide(&oauth, view, token).await, expected, "{view:?} {token}");
    }
}

#[tokio::test]
async fn without_scopes_of_views_a_token_opens_everything() {
    let oauth = resource_server("https://h/mcp").with_scopes(["mcp"]);
    for (view, token, expected) in [
        (None, "mcp", r#"user:["https://i","alice"]/"#),
        (Some("ops"), "mcp,x", r#"user:["https://i","alice"]/ops"#),
        (Some("none"), "mcp", "UnknownView"),
    ] {
        assert_eq!(decide(&oauth, view, token).await, expected, "{view:?} {token}");
    }
}

/// GW-11: with and without a token, and with and without scopes.
#[tokio::test]
async fn gw_11_a_challenge_says_where_tokens_come_from() {
    let plain = resource_server("http://127.0.0.1:7355/");
    let metadata = r#"resource_metadata="http://127.0.0.1:7355/.well-known/oauth-protected-resource""#;
    for header in [None, Some("Basic abc"), Some("Bearer "), Some("Bearer")] {
        match plain.authorize(&views(), None, header.map(str::as_bytes)).await {
            Err(Refusal::Unauthorized(challenge)) => assert_eq!(challenge, format!("Bearer {metadata}")),
            other => panic!("{header:?}: {other:?}"),
        }
    }
    let invalid = |text: &str| format!("InvalidToken(\"Bearer error=\"invalid_token\", {text}\")");
    assert_eq!(decide(&plain, None, "expired").await, invalid(metadata));
    let text = r#"scope="mcp o", resource_metadata="https://h/.well-known/oauth-protected-resource/mcp""#;
    assert_eq!(decide(&with_views(), Some("ops"), "expired").await, invalid(text));
    assert_eq!(
        decide(&with_views(), Some("ops"), "tok\u{e9}n").await.split('(').next(),
        Some("InsufficientScope")
    );
    let not_text = with_views().authorize(&views(), None, Some(b"Bearer \xff")).await;
    assert!(matches!(not_text, Err(Refusal::InvalidToken(_))), "{not_text:?}");
}

/// GW-11: the metadata is found from every path that a host can know.
#[test]
fn gw_11_metadata_is_at_the_top_and_below_each_path() {
    let oauth = resource_server("https://h/team/mcp");
    for (path, expected) in [
        ("", true),
        ("/team/mcp", true),
        ("/team/mcp/research", true),
        ("/team/mcp2", false),
        ("/team", false),
        ("/mcp", true),
        ("/mcp/", false),
        ("/other", false),
        ("x", false),
    ] {
        let at = format!("{WELL_KNOWN}{path}");
        assert_eq!(oauth.has_metadata_at(&at, |path| path == "/mcp"), expected, "{path}");
    }
    assert!(!oauth.has_metadata_at("/mcp", |_| true));
    let root = resource_server("https://h");
    assert!(root.has_metadata_at(WELL_KNOWN, |_| false));
}

#[test]
fn the_metadata_has_each_scope_once() {
    let document: Value = serde_json::from_slice(&with_views().metadata()).unwrap();
    let expected = json!({
        "resource": "https://h/mcp",
        "authorization_servers": ["https://i"],
        "bearer_methods_supported": ["header"],
        "scopes_supported": ["mcp", "r", "admin", "o", "g"],
    });
    assert_eq!(document, expected);
    let same = resource_server("https://h/mcp").with_scopes(["a"]).with_view_scope("a", "research");
    let document: Value = serde_json::from_slice(&same.metadata()).unwrap();
    assert_eq!(document["scopes_supported"], json!(["a"]));
    let document: Value = serde_json::from_slice(&resource_server("https://h/mcp").metadata()).unwrap();
    assert_eq!(document.get("scopes_supported"), None);
}

#[test]
fn what_cannot_be_a_resource_or_a_scope_is_refused() {
    let refused = |make: fn() -> ResourceServer| {
        std::panic::catch_unwind(make).expect_err("it is refused");
    };
    refused(|| resource_server("h/mcp"));
    refused(|| resource_server("ftp://h/mcp"));
    refused(|| resource_server("https://h/mcp?x=1"));
    refused(|| resource_server("https://h/mcp#x"));
    refused(|| resource_server("https://me@h/mcp"));
    refused(|| resource_server("https://h/mcp").with_scopes(["a b"]));
    refused(|| resource_server("https://h/mcp").with_scopes(["a\""]));
    refused(|| resource_server("https://h/mcp").with_scopes([""]));
    refused(|| resource_server("https://h/mcp").with_scopes(["offline_access"]));
    refused(|| resource_server("https://h/mcp").with_view_scope("offline_access", "v"));
}

//! Each injected fault, as a client sees it.

use super::*;
use bowline_testkit::{AuthFault, AuthServer, Browser};
use std::time::{Duration, Instant};

const METADATA: &str = "/.well-known/oauth-authorization-server";

async fn metadata(auth: &AuthControl) -> Result<HttpReply, String> {
    try_send("GET", &format!("{}{METADATA}", auth.origin()), &[], "").await
}

#[tokio::test]
async fn faults_modify_authorization_responses() {
    let auth = AuthServer::start().await;
    let client = public_client(&auth).await;
    let url = authorize_url(&auth, &client, "a");
    let slash = format!("{}/", auth.issuer());
    for (twist, name, value) in [
        (AuthFault::wrong_iss("https://evil.example"), "iss", Some("https://evil.example")),
        (AuthFault::no_iss(), "iss", None),
        (AuthFault::normalized_iss(), "iss", Some(slash.as_str())),
        (AuthFault::error("server_error").on("authorize"), "error", Some("server_error")),
    ] {
        auth.arm(twist);
        assert_eq!(query_parameter(&follow_authorize_url(&url).await, name).as_deref(), value, "{name}");
        assert_eq!(query_parameter(&follow_authorize_url(&url).await, "iss"), Some(auth.issuer()), "once");
    }
}

#[tokio::test]
async fn faults_modify_metadata() {
    let auth = AuthServer::start().await;
    auth.arm(AuthFault::set_member("issuer", "https://evil.example").on("metadata"));
    auth.arm(AuthFault::without_member("code_challenge_methods_supported").on("metadata"));
    let bent = metadata(&auth).await.unwrap().json();
    assert_eq!(bent["issuer"], "https://evil.example");
    assert_eq!(bent.get("code_challenge_methods_supported"), None);
    auth.arm(AuthFault::redirect("http://169.254.169.254/latest").on("metadata"));
    let said = metadata(&auth).await.unwrap();
    assert_eq!((said.status, said.header("location")), (302, Some("http://169.254.169.254/latest")));
    assert_eq!(metadata(&auth).await.unwrap().json()["issuer"], auth.issuer());
}

#[tokio::test]
async fn connection_faults_strike_as_often_as_armed() {
    let auth = AuthServer::start().await;
    auth.arm(AuthFault::reset().on("metadata").skip(1).times(2));
    auth.arm(AuthFault::close().on("/jwks"));
    assert!(metadata(&auth).await.is_ok());
    for _ in 0..2 {
        assert!(metadata(&auth).await.is_err());
    }
    assert!(metadata(&auth).await.is_ok());
    assert!(try_send("GET", &auth.endpoint("jwks"), &[], "").await.is_err());
    assert!(auth.armed_faults().is_empty());
    auth.arm(AuthFault::delay(Duration::from_millis(80)).on("jwks"));
    let start = Instant::now();
    assert_eq!(get(&auth.endpoint("jwks")).await.status, 200);
    assert!(start.elapsed() >= Duration::from_millis(80));
    auth.arm(AuthFault::html(502).always());
    for _ in 0..3 {
        assert_eq!(metadata(&auth).await.unwrap().header("content-type"), Some("text/html"));
    }
    auth.disarm();
    assert_eq!(metadata(&auth).await.unwrap().status, 200);
}

#[tokio::test]
async fn silence_is_seen_and_ends_with_the_server() {
    let auth = AuthServer::start().await;
    auth.arm(AuthFault::silent().on("token"));
    let waiting = tokio::spawn({
        let url = auth.endpoint("token");
        async move { post_with(&url, &refresh_form("a", "b"), &[]).await }
    });
    let seen = auth.wait_for(|seen| seen.matches("refresh_token"), crate::support::TEST_TIMEOUT).await;
    assert_eq!((seen.status, seen.field("refresh_token")), (0, Some("b")));
    auth.stop().await;
    assert!(within_timeout(waiting).await.unwrap().is_err());
    assert!(try_send("GET", &auth.endpoint("jwks"), &[], "").await.is_err());
    auth.listen().await;
    assert_eq!(get(&auth.endpoint("jwks")).await.status, 200);
}

#[tokio::test]
async fn faults_modify_token_responses() {
    let auth = AuthServer::start().await;
    let client = public_client(&auth).await;
    for (twist, member, value) in [
        (AuthFault::expires_in("3600"), "expires_in", json!("3600")),
        (AuthFault::expires_in(0.5), "expires_in", json!(0.5)),
        (AuthFault::without_member("expires_in").on("token"), "expires_in", Value::Null),
        (AuthFault::without_member("token_type").on("token"), "token_type", Value::Null),
        (AuthFault::set_member("token_type", "DPoP").on("token"), "token_type", json!("DPoP")),
        (AuthFault::lifetime(Duration::from_secs(2)), "expires_in", json!(2)),
    ] {
        let code = code(&auth, &client, "a b").await;
        auth.arm(twist.clone());
        let said = token(&auth, &code_form(&client, &code)).await;
        assert_eq!(said.json()[member], value, "{twist:?}");
        assert!(auth.is_valid_access_token(&said.text("access_token")));
    }
    auth.advance_clock(Duration::from_secs(3));
    assert!(auth.received_at("token").iter().all(|seen| seen.status == 200 && seen.error.is_none()));
}

#[tokio::test]
async fn token_requests_are_refused_without_being_carried_out() {
    let auth = AuthServer::start().await;
    let (client, said) = login(&auth, "a").await;
    let held = said.text("refresh_token");
    let form = refresh_form(&client, &held);
    auth.arm(AuthFault::invalid_grant().on("refresh_token"));
    assert_eq!(token(&auth, &form).await.error(), (400, "invalid_grant".into()));
    auth.arm(AuthFault::invalid_client());
    assert_eq!(token(&auth, &form).await.error(), (401, "invalid_client".into()));
    auth.arm(AuthFault::too_many_requests(Duration::from_secs(7)).on("token"));
    let busy = token(&auth, &form).await;
    assert_eq!((busy.status, busy.header("retry-after")), (429, Some("7")));
    auth.arm(AuthFault::status(500).on("token"));
    assert_eq!(token(&auth, &form).await.status, 500);
    assert_eq!(token(&auth, &form).await.status, 200);
    let seen = auth.received_at("refresh_token");
    assert_eq!(seen[0].error.as_deref(), Some("invalid_grant"));
    assert_eq!(seen.iter().map(|seen| seen.status).collect::<Vec<_>>(), [400, 401, 429, 500, 200]);
    assert_eq!((auth.refreshes(), auth.counts().refused), (1, 0));
}

#[tokio::test]
async fn secrets_in_queries_are_noted() {
    let auth = AuthServer::start().await;
    Browser::new().visit(&format!("{}?access_token=tk-secret-access-1", auth.endpoint("userinfo"))).await;
    assert_eq!(auth.violations().len(), 1);
    auth.clear_received();
    assert!(auth.received().is_empty());
    get(&auth.endpoint("jwks")).await;
    assert_eq!(auth.received()[0].seq, 1);
}

//! Each injected fault, as a client sees it.

use super::*;
use bowline_testkit::{AuthServer, Browser, Twist};
use std::time::{Duration, Instant};

const METADATA: &str = "/.well-known/oauth-authorization-server";

async fn metadata(auth: &AuthControl) -> Result<Said, String> {
    try_send("GET", &format!("{}{METADATA}", auth.origin()), &[], "").await
}

#[tokio::test]
async fn authorization_responses_are_bent() {
    let auth = AuthServer::start().await;
    let client = public_client(&auth).await;
    let url = authorize_url(&auth, &client, "a");
    let slash = format!("{}/", auth.issuer());
    for (twist, name, value) in [
        (Twist::wrong_iss("https://evil.example"), "iss", Some("https://evil.example")),
        (Twist::no_iss(), "iss", None),
        (Twist::normalized_iss(), "iss", Some(slash.as_str())),
        (Twist::wrong_state("x"), "state", Some("x")),
        (Twist::error("server_error").on("authorize"), "error", Some("server_error")),
    ] {
        auth.arm(twist);
        assert_eq!(parameter(&follow(&url).await, name).as_deref(), value, "{name}");
        assert_eq!(parameter(&follow(&url).await, "iss"), Some(auth.issuer()), "once");
    }
}

#[tokio::test]
async fn metadata_is_bent() {
    let auth = AuthServer::start().await;
    auth.arm(Twist::wrong_issuer("https://evil.example"));
    auth.arm(Twist::no_pkce());
    let bent = metadata(&auth).await.unwrap().json();
    assert_eq!(bent["issuer"], "https://evil.example");
    assert_eq!(bent.get("code_challenge_methods_supported"), None);
    auth.arm(Twist::normalized_issuer());
    assert_eq!(metadata(&auth).await.unwrap().json()["issuer"], format!("{}/", auth.issuer()));
    auth.arm(Twist::redirect("http://169.254.169.254/latest").on("metadata"));
    let said = metadata(&auth).await.unwrap();
    assert_eq!((said.status, said.header("location")), (302, Some("http://169.254.169.254/latest")));
    auth.arm(Twist::oversized(5_000_000).on("metadata"));
    let large = metadata(&auth).await.unwrap();
    assert!(large.body.len() > 5_000_000 && large.json()["issuer"] == auth.issuer());
    assert_eq!(metadata(&auth).await.unwrap().json()["issuer"], auth.issuer());
}

#[tokio::test]
async fn an_endless_body_does_not_end() {
    let auth = AuthServer::start().await;
    auth.arm(Twist::endless().on("metadata"));
    let stream = TcpStream::connect(auth.addr()).await.unwrap();
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = Request::get(METADATA).header("host", "x").body(Full::new(Bytes::new())).unwrap();
    let mut body = soon(sender.send_request(request)).await.unwrap().into_body();
    let mut got = 0;
    while got < 8_000_000 {
        got += soon(body.frame()).await.expect("it goes on").unwrap().into_data().unwrap().len();
    }
}

#[tokio::test]
async fn the_wire_fails_as_often_as_said() {
    let auth = AuthServer::start().await;
    auth.arm(Twist::reset().on("metadata").skip(1).times(2));
    auth.arm(Twist::close().on("/jwks"));
    assert!(metadata(&auth).await.is_ok());
    for _ in 0..2 {
        assert!(metadata(&auth).await.is_err());
    }
    assert!(metadata(&auth).await.is_ok());
    assert!(try_send("GET", &auth.endpoint("jwks"), &[], "").await.is_err());
    assert!(auth.armed().is_empty());
    auth.arm(Twist::delay(Duration::from_millis(80)).on("jwks"));
    let start = Instant::now();
    assert_eq!(get(&auth.endpoint("jwks")).await.status, 200);
    assert!(start.elapsed() >= Duration::from_millis(80));
    auth.arm(Twist::html(502).always());
    for _ in 0..3 {
        assert_eq!(metadata(&auth).await.unwrap().header("content-type"), Some("text/html"));
    }
    auth.disarm();
    assert_eq!(metadata(&auth).await.unwrap().status, 200);
}

#[tokio::test]
async fn silence_is_seen_and_ends_with_the_server() {
    let auth = AuthServer::start().await;
    auth.arm(Twist::silent().on("token"));
    let waiting = tokio::spawn({
        let url = auth.endpoint("token");
        async move { post_with(&url, &refreshing("a", "b"), &[]).await }
    });
    let seen = auth.wait_for(|seen| seen.is("refresh_token"), crate::support::SOON).await;
    assert_eq!((seen.status, seen.field("refresh_token")), (0, Some("b")));
    auth.stop().await;
    assert!(soon(waiting).await.unwrap().is_err());
    assert!(try_send("GET", &auth.endpoint("jwks"), &[], "").await.is_err());
    auth.listen().await;
    assert_eq!(get(&auth.endpoint("jwks")).await.status, 200);
}

#[tokio::test]
async fn token_answers_are_bent() {
    let auth = AuthServer::start().await;
    let client = public_client(&auth).await;
    for (twist, member, value) in [
        (Twist::expires_in("3600"), "expires_in", json!("3600")),
        (Twist::expires_in(0.5), "expires_in", json!(0.5)),
        (Twist::without("expires_in").on("token"), "expires_in", Value::Null),
        (Twist::without("token_type").on("token"), "token_type", Value::Null),
        (Twist::set("token_type", "DPoP").on("token"), "token_type", json!("DPoP")),
        (Twist::narrowed("a"), "scope", json!("a")),
        (Twist::lifetime(Duration::from_secs(2)), "expires_in", json!(2)),
    ] {
        let code = code(&auth, &client, "a b").await;
        auth.arm(twist.clone());
        let said = token(&auth, &spending(&client, &code)).await;
        assert_eq!(said.json()[member], value, "{twist:?}");
        assert!(auth.is_good(&said.text("access_token")));
    }
    auth.advance(Duration::from_secs(3));
    assert!(auth.seen_of("token").iter().all(|seen| seen.status == 200 && seen.error.is_none()));
}

#[tokio::test]
async fn token_requests_are_refused_without_being_carried_out() {
    let auth = AuthServer::start().await;
    let (client, said) = login(&auth, "a").await;
    let held = said.text("refresh_token");
    let form = refreshing(&client, &held);
    auth.arm(Twist::invalid_grant().on("refresh_token"));
    assert_eq!(token(&auth, &form).await.error(), (400, "invalid_grant".into()));
    auth.arm(Twist::invalid_client());
    assert_eq!(token(&auth, &form).await.error(), (401, "invalid_client".into()));
    auth.arm(Twist::busy(Duration::from_secs(7)).on("token"));
    let busy = token(&auth, &form).await;
    assert_eq!((busy.status, busy.header("retry-after")), (429, Some("7")));
    auth.arm(Twist::status(500).on("token"));
    assert_eq!(token(&auth, &form).await.status, 500);
    assert_eq!(token(&auth, &form).await.status, 200);
    let seen = auth.seen_of("refresh_token");
    assert_eq!(seen[0].error.as_deref(), Some("invalid_grant"));
    assert_eq!(seen.iter().map(|seen| seen.status).collect::<Vec<_>>(), [400, 401, 429, 500, 200]);
    assert_eq!((auth.refreshes(), auth.counts().refused), (1, 0));
}

#[tokio::test]
async fn secrets_in_queries_are_noted() {
    let auth = AuthServer::start().await;
    Browser::new().visit(&format!("{}?access_token=tk-secret-access-1", auth.endpoint("userinfo"))).await;
    assert_eq!(auth.violations().len(), 1);
    auth.forget_seen();
    assert!(auth.seen().is_empty());
    get(&auth.endpoint("jwks")).await;
    assert_eq!(auth.seen()[0].seq, 1);
}

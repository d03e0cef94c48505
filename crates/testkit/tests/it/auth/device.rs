//! Device codes: polling, deciding, ending.

use super::*;
use bowline_testkit::{AuthServer, Browser};
use std::time::Duration;

const GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";

async fn begin(auth: &AuthControl) -> (String, Value) {
    let client = public_client(auth).await;
    let form = [("client_id", client.as_str()), ("scope", "a"), ("resource", RESOURCE)];
    let said = post_with(&auth.endpoint("device"), &form, &[]).await.unwrap();
    assert_eq!(said.status, 200, "{said:?}");
    (client, said.json())
}

async fn poll(auth: &AuthControl, client: &str, begun: &Value) -> HttpReply {
    let code = begun["device_code"].as_str().unwrap();
    let form = [("grant_type", GRANT), ("client_id", client), ("device_code", code), ("resource", RESOURCE)];
    token(auth, &form).await
}

#[tokio::test]
async fn tokens_come_once_the_person_agrees() {
    let auth = AuthServer::builder().device(Duration::ZERO).start().await;
    let (client, begun) = begin(&auth).await;
    assert_eq!(poll(&auth, &client, &begun).await.error(), (400, "authorization_pending".into()));
    assert_eq!(auth.user_codes(), [begun["user_code"].as_str().unwrap()]);
    auth.approve_device(begun["user_code"].as_str().unwrap());
    let said = poll(&auth, &client, &begun).await;
    assert!(auth.is_valid_access_token(&said.text("access_token")));
    assert_eq!(token(&auth, &refresh_form(&client, &said.text("refresh_token"))).await.status, 200);
    assert_eq!(poll(&auth, &client, &begun).await.error().1, "invalid_grant");
    assert_eq!(auth.counts().tokens["device_code"], 3);
}

#[tokio::test]
async fn another_client_does_not_spend_an_approved_code() {
    let auth = AuthServer::builder().device(Duration::ZERO).start().await;
    let (client, begun) = begin(&auth).await;
    let other = public_client(&auth).await;
    auth.approve_device(begun["user_code"].as_str().unwrap());
    assert_eq!(poll(&auth, &other, &begun).await.error(), (400, "invalid_grant".into()));
    assert_eq!(poll(&auth, &client, &begun).await.status, 200);
}

#[tokio::test]
async fn denied_and_expired_device_codes_are_refused() {
    let auth = AuthServer::builder().device(Duration::ZERO).start().await;
    let (client, begun) = begin(&auth).await;
    auth.deny_device(begun["user_code"].as_str().unwrap());
    assert_eq!(poll(&auth, &client, &begun).await.error().1, "access_denied");
    let (client, begun) = begin(&auth).await;
    auth.advance_clock(Duration::from_secs(600));
    assert_eq!(poll(&auth, &client, &begun).await.error().1, "expired_token");
}

#[tokio::test]
async fn who_polls_too_fast_is_slowed_down() {
    let auth = AuthServer::builder().device(Duration::from_secs(5)).start().await;
    let (client, begun) = begin(&auth).await;
    assert_eq!(begun["interval"], 5);
    assert_eq!(poll(&auth, &client, &begun).await.error().1, "authorization_pending");
    assert_eq!(poll(&auth, &client, &begun).await.error().1, "slow_down");
    auth.advance_clock(Duration::from_secs(6));
    assert_eq!(poll(&auth, &client, &begun).await.error().1, "slow_down", "five seconds more each time");
    auth.advance_clock(Duration::from_secs(16));
    assert_eq!(poll(&auth, &client, &begun).await.error().1, "authorization_pending");
}

#[tokio::test]
async fn verification_page_approves_a_device() {
    let auth = AuthServer::builder().device(Duration::ZERO).start().await;
    let (client, begun) = begin(&auth).await;
    let page = Browser::new().visit(begun["verification_uri_complete"].as_str().unwrap()).await;
    assert!(page.body.contains(begun["user_code"].as_str().unwrap()));
    let form =
        [("user_code", begun["user_code"].as_str().unwrap()), ("decision", "approve"), ("account", "bob")];
    assert_eq!(post_with(&auth.endpoint("verify"), &form, &[]).await.unwrap().status, 200);
    assert_eq!(post_with(&auth.endpoint("verify"), &form, &[]).await.unwrap().status, 404);
    assert_eq!(poll(&auth, &client, &begun).await.status, 200);
}

//! Workload identity and enterprise-managed authorization.

use super::*;
use bowline_testkit::{AuthClient, AuthServer, SigningKey};
use std::time::SystemTime;

const BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";
const ID_TOKEN: &str = "urn:ietf:params:oauth:token-type:id_token";

fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()
}

#[tokio::test]
async fn a_workload_needs_no_client() {
    let (platform, forger) = (SigningKey::generate(), SigningKey::generate());
    let auth = AuthServer::builder().trusts("https://platform.example", platform.jwk()).start().await;
    let claims = json!({
        "iss": "https://platform.example", "sub": "job-1", "aud": auth.issuer(),
        "iat": now(), "exp": now() + 60, "jti": "a",
    });
    let try_it = async |key: &SigningKey, claims: &Value| {
        let assertion = key.sign(json!({"typ": "JWT"}), claims);
        token(&auth, &[("grant_type", BEARER), ("assertion", &assertion), ("resource", RESOURCE)]).await
    };
    assert_eq!(try_it(&forger, &claims).await.error(), (400, "invalid_grant".into()));
    for (member, value) in
        [("aud", json!("x")), ("exp", json!(now() - 90)), ("iss", json!("x")), ("sub", Value::Null)]
    {
        let mut bad = claims.clone();
        bad[member] = value;
        assert_eq!(try_it(&platform, &bad).await.error(), (400, "invalid_grant".into()), "{member}");
    }
    let said = try_it(&platform, &claims).await;
    assert!(auth.is_valid_access_token(&said.text("access_token")));
    assert_eq!(said.json().get("refresh_token"), None);
    assert_eq!(try_it(&platform, &claims).await.error().1, "invalid_grant", "jti is good once");
    assert_eq!(auth.received_at("jwt-bearer").last().unwrap().client_auth, "");
}

#[tokio::test]
async fn an_id_token_becomes_an_assertion_becomes_a_token() {
    let idp = AuthServer::builder()
        .client(AuthClient::basic("at-idp", "s1"))
        .client_there("at-idp", "at-as")
        .start()
        .await;
    let auth = AuthServer::builder()
        .client(AuthClient::basic("at-as", "s2"))
        .client(AuthClient::basic("somebody", "s3"))
        .trusts(&idp.issuer(), idp.jwk())
        .start()
        .await;
    let id_token = idp.id_token("alice", "at-idp");
    let issuer = auth.issuer();
    let exchange = [
        ("grant_type", EXCHANGE),
        ("requested_token_type", ID_JAG),
        ("audience", &issuer),
        ("resource", RESOURCE),
        ("scope", "a"),
        ("subject_token", &id_token),
        ("subject_token_type", ID_TOKEN),
    ];
    let header = basic("at-idp", "s1");
    let said = post_with(&idp.endpoint("token"), &exchange, &[("authorization", &header)]).await.unwrap();
    assert_eq!((said.text("issued_token_type"), said.text("token_type")), (ID_JAG.into(), "N_A".into()));
    let jag = said.text("access_token");
    let made = claims(&jag);
    assert_eq!(
        (&made["aud"], &made["sub"], &made["client_id"]),
        (&json!(issuer), &json!("alice"), &json!("at-as"))
    );
    let redeem = async |header: &str| {
        let form = [("grant_type", BEARER), ("assertion", jag.as_str())];
        post_with(&auth.endpoint("token"), &form, &[("authorization", header)]).await.unwrap()
    };
    assert_eq!(redeem(&basic("somebody", "s3")).await.error(), (400, "invalid_grant".into()));
    let said = redeem(&basic("at-as", "s2")).await;
    assert_eq!((said.status, said.text("scope")), (200, "a".into()));
    assert_eq!(redeem(&basic("at-as", "s2")).await.error(), (400, "invalid_grant".into()));

    let forged = auth.id_token("alice", "at-idp");
    let mut form = exchange;
    form[5].1 = &forged;
    let said = post_with(&idp.endpoint("token"), &form, &[("authorization", &header)]).await.unwrap();
    assert_eq!(said.error(), (400, "invalid_request".into()));
}

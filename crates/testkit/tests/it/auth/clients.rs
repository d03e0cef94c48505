//! Registration, and client authentication.

use super::*;
use bowline_testkit::{AuthClient, AuthFault, AuthServer, SigningKey};
use std::time::SystemTime;

fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()
}

async fn credentials(auth: &AuthControl, fields: &[(&str, &str)], headers: &[(&str, &str)]) -> HttpReply {
    let mut form = vec![("grant_type", "client_credentials"), ("resource", RESOURCE)];
    form.extend_from_slice(fields);
    post_with(&auth.endpoint("token"), &form, headers).await.unwrap()
}

#[tokio::test]
async fn registration_gives_what_was_asked_for() {
    let auth = AuthServer::start().await;
    let public = register(&auth, json!({"application_type": "native"})).await;
    assert_eq!((public.status, public.text("application_type")), (201, "native".into()));
    assert_eq!(public.json().get("client_secret"), None);
    let secret = register(&auth, json!({"token_endpoint_auth_method": "client_secret_post"})).await;
    assert!(secret.text("client_secret").starts_with("tk-secret-client-"));
    assert_eq!(secret.json()["client_secret_expires_at"], 0);
    assert_eq!(auth.registrations(), 2);
    assert_eq!(auth.received_at("register")[0].json["application_type"], "native");
    let none = register(&auth, json!({"redirect_uris": []})).await;
    assert_eq!(none.error(), (400, "invalid_redirect_uri".into()));
}

#[tokio::test]
async fn registration_can_refuse() {
    let auth = AuthServer::builder().registers_as("client_secret_basic").start().await;
    let named = register(&auth, json!({"redirect_uris": ["http://localhost:9/callback"]})).await;
    assert_eq!(named.text("token_endpoint_auth_method"), "client_secret_basic");
    auth.arm(AuthFault::error_with(403, "access_denied", "not here").on("register"));
    assert_eq!(register(&auth, json!({})).await.error(), (403, "access_denied".into()));
}

#[tokio::test]
async fn each_method_is_the_only_one_that_works() {
    let key = SigningKey::generate();
    let auth = AuthServer::builder()
        .client(AuthClient::basic("b", "tk:se&cret"))
        .client(AuthClient::post("p", "secret"))
        .client(AuthClient::key("k", key.jwk()))
        .client(AuthClient::public("n"))
        .start()
        .await;
    // RFC 6749 2.3.1: both parts are form-encoded.
    let header = basic("b", "tk%3Ase%26cret");
    assert_eq!(credentials(&auth, &[], &[("authorization", &header)]).await.status, 200);
    assert_eq!(credentials(&auth, &[("client_id", "p"), ("client_secret", "secret")], &[]).await.status, 200);
    let seen: Vec<_> =
        auth.received_at("token").iter().map(|s| (s.client_auth, s.client_id.clone())).collect();
    assert_eq!(seen, [("client_secret_basic", Some("b".into())), ("client_secret_post", Some("p".into()))]);
    for (fields, header) in [
        (vec![("client_id", "b"), ("client_secret", "tk:se&cret")], None),
        (vec![], Some(basic("p", "secret"))),
        (vec![], Some(basic("b", "wrong"))),
        (vec![("client_id", "p"), ("client_secret", "wrong")], None),
        (vec![("client_id", "p")], None),
        (vec![("client_id", "nobody")], None),
    ] {
        let headers: Vec<_> = header.iter().map(|value| ("authorization", value.as_str())).collect();
        assert_eq!(
            credentials(&auth, &fields, &headers).await.error(),
            (401, "invalid_client".into()),
            "{fields:?}"
        );
    }
    assert_eq!(
        credentials(&auth, &[("client_id", "n")], &[]).await.error(),
        (400, "unauthorized_client".into())
    );
}

#[tokio::test]
async fn an_assertion_is_signed_current_for_us_and_new() {
    let (key, other) = (SigningKey::generate(), SigningKey::generate());
    let auth = AuthServer::builder().client(AuthClient::key("k", key.jwk())).start().await;
    let good = json!({"iss": "k", "sub": "k", "aud": auth.issuer(), "exp": now() + 60, "jti": "1"});
    let try_it = async |key: &SigningKey, claims: &Value| {
        let assertion = key.sign(json!({"typ": "JWT"}), claims);
        let kind = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
        credentials(&auth, &[("client_assertion_type", kind), ("client_assertion", &assertion)], &[])
            .await
            .status
    };
    for (member, value) in [
        ("aud", json!("https://other.example")),
        ("exp", json!(now() - 120)),
        ("iss", json!("x")),
        ("jti", Value::Null),
    ] {
        let mut bad = good.clone();
        bad[member] = value;
        assert_eq!(try_it(&key, &bad).await, 401, "{member}");
    }
    assert_eq!(try_it(&other, &good).await, 401, "another key");
    assert_eq!(try_it(&key, &good).await, 200);
    assert_eq!(try_it(&key, &good).await, 401, "the same again");
    assert_eq!(auth.received_at("token")[0].client_auth, "private_key_jwt");
}

#[tokio::test]
async fn registrations_end() {
    let auth = AuthServer::start().await;
    let (client, said) = login(&auth, "a").await;
    auth.forget_registered_clients();
    let refused = token(&auth, &refresh_form(&client, &said.text("refresh_token"))).await;
    assert_eq!(refused.error(), (401, "invalid_client".into()));
    assert_eq!(get(&authorize_url(&auth, &client, "a")).await.status, 400);
}

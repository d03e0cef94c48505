//! DPoP proofs, at the token endpoint and at the MCP server.

use super::*;
use crate::support::initialize;
use bowline_testkit::{
    self as testkit, AuthClient, AuthFault, AuthServer, HttpServer, Protection, SigningKey,
};
use ring::digest::{SHA256, digest};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

/// Returns a proof with some of its claims changed.
fn proof(key: &SigningKey, method: &str, url: &str, changes: Value) -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let id = NUMBER.fetch_add(1, Ordering::Relaxed).to_string();
    let mut claims = json!({"jti": id, "htm": method, "htu": url, "iat": now});
    for (name, value) in changes.as_object().unwrap() {
        claims[name] = value.clone();
    }
    key.sign(json!({"typ": "dpop+jwt", "jwk": key.jwk()}), &claims)
}

fn ath(token: &str) -> String {
    URL_SAFE_NO_PAD.encode(digest(&SHA256, token.as_bytes()))
}

async fn ask(auth: &AuthControl, key: &SigningKey, changes: Value) -> HttpReply {
    let client = public_client(auth).await;
    let code = code(auth, &client, "a").await;
    let proof = proof(key, "POST", &auth.endpoint("token"), changes);
    post_with(&auth.endpoint("token"), &code_form(&client, &code), &[("dpop", &proof)]).await.unwrap()
}

async fn enter(server: &HttpServer, scheme: &str, token: &str, proof: Option<&str>) -> HttpReply {
    let authorization = format!("{scheme} {token}");
    let mut headers = vec![
        ("accept", "application/json, text/event-stream"),
        ("content-type", "application/json"),
        ("authorization", authorization.as_str()),
    ];
    headers.extend(proof.map(|proof| ("dpop", proof)));
    try_send("POST", &server.url(), &headers, &initialize("2025-11-25").to_string()).await.unwrap()
}

#[tokio::test]
async fn a_proof_binds_the_token() {
    let auth = AuthServer::builder().dpop_only().start().await;
    let key = SigningKey::generate();
    assert_eq!(ask(&auth, &key, json!({})).await.text("token_type"), "DPoP");
    for changes in [
        json!({"htm": "GET"}),
        json!({"htu": "http://127.0.0.1:1/token"}),
        json!({"iat": 1}),
        json!({"jti": null}),
        json!({"ath": "x"}),
    ] {
        assert_eq!(
            ask(&auth, &key, changes.clone()).await.error(),
            (400, "invalid_dpop_proof".into()),
            "{changes}"
        );
    }
    let client = public_client(&auth).await;
    let given = code(&auth, &client, "a").await;
    assert_eq!(token(&auth, &code_form(&client, &given)).await.error(), (400, "invalid_dpop_proof".into()));
    // The code was not spent.
    let proof = proof(&key, "POST", &auth.endpoint("token"), json!({}));
    let form = code_form(&client, &given);
    let said = post_with(&auth.endpoint("token"), &form, &[("dpop", &proof)]).await.unwrap();
    assert_eq!(said.status, 200);
    let held = said.text("refresh_token");
    let again =
        post_with(&auth.endpoint("token"), &refresh_form(&client, &held), &[("dpop", &proof)]).await.unwrap();
    assert_eq!(again.error(), (400, "invalid_dpop_proof".into()), "the same proof again");
    let thief = self::proof(&SigningKey::generate(), "POST", &auth.endpoint("token"), json!({}));
    let stolen =
        post_with(&auth.endpoint("token"), &refresh_form(&client, &held), &[("dpop", &thief)]).await.unwrap();
    assert_eq!(stolen.error(), (400, "invalid_dpop_proof".into()));
}

#[tokio::test]
async fn nonces_are_demanded_and_given() {
    let auth = AuthServer::builder().dpop_nonce().start().await;
    let key = SigningKey::generate();
    let said = ask(&auth, &key, json!({})).await;
    assert_eq!(said.error(), (400, "use_dpop_nonce".into()));
    let nonce = said.header("dpop-nonce").unwrap().to_owned();
    assert_eq!(ask(&auth, &key, json!({"nonce": nonce})).await.status, 200);
    auth.rotate_nonces();
    let said = ask(&auth, &key, json!({"nonce": nonce})).await;
    assert_eq!(said.error(), (400, "use_dpop_nonce".into()));

    let auth = AuthServer::builder().dpop().start().await;
    assert_eq!(ask(&auth, &key, json!({})).await.status, 200);
    auth.arm(AuthFault::nonce_challenge());
    let said = ask(&auth, &key, json!({})).await;
    assert_eq!(said.error(), (400, "use_dpop_nonce".into()));
    let nonce = said.header("dpop-nonce").unwrap();
    assert_eq!(ask(&auth, &key, json!({})).await.error().1, "use_dpop_nonce", "from now on");
    assert_eq!(ask(&auth, &key, json!({"nonce": nonce})).await.status, 200);
}

#[tokio::test]
async fn a_bound_token_needs_its_key() {
    let auth = AuthServer::builder().dpop().client(AuthClient::public("app")).start().await;
    let how = Protection::with_auth_server(&auth).dpop().any_audience();
    let server = testkit::server().sessionless().protected(how).run().await;
    let (key, url) = (SigningKey::generate(), server.url());
    let token = ask(&auth, &key, json!({})).await.text("access_token");
    let good = |changes: Value| {
        let mut all = json!({"ath": ath(&token)});
        all.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        proof(&key, "POST", &url, all)
    };
    let first = good(json!({}));
    assert_eq!(enter(&server, "DPoP", &token, Some(&first)).await.status, 200);
    assert_eq!(enter(&server, "DPoP", &token, Some(&first)).await.status, 401, "the same proof again");
    let refused = enter(&server, "Bearer", &token, Some(&good(json!({})))).await;
    assert!(refused.header("www-authenticate").unwrap().starts_with("DPoP error=\"invalid_token\""));
    assert_eq!(enter(&server, "DPoP", &token, None).await.status, 401);
    for changes in [json!({"ath": "x"}), json!({"htu": RESOURCE}), json!({"htm": "GET"})] {
        let said = enter(&server, "DPoP", &token, Some(&good(changes))).await;
        assert!(said.header("www-authenticate").unwrap().contains("invalid_dpop_proof"));
    }
    let thief = proof(&SigningKey::generate(), "POST", &url, json!({"ath": ath(&token)}));
    assert_eq!(enter(&server, "DPoP", &token, Some(&thief)).await.status, 401);
    let unbound = auth.issue("app", "a", &url).access_token;
    assert_eq!(enter(&server, "Bearer", &unbound, None).await.status, 401);

    auth.arm(AuthFault::nonce_challenge().on("mcp"));
    let said = enter(&server, "DPoP", &token, Some(&good(json!({})))).await;
    assert!(said.header("www-authenticate").unwrap().starts_with("DPoP error=\"use_dpop_nonce\""));
    let nonce = said.header("dpop-nonce").unwrap().to_owned();
    assert_eq!(enter(&server, "DPoP", &token, Some(&good(json!({})))).await.status, 401);
    assert_eq!(enter(&server, "DPoP", &token, Some(&good(json!({"nonce": nonce})))).await.status, 200);
}

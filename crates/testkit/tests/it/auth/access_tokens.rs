//! Access tokens that are JWTs, and the key that signs them.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bowline_testkit::AuthServer;
use serde_json::{Value, json};

use super::{RESOURCE, claims, get, login, refresh_form, token};

fn header(jwt: &str) -> Value {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(jwt.split('.').next().unwrap()).unwrap()).unwrap()
}

#[tokio::test]
async fn an_access_token_says_whose_it_is_and_what_for() {
    let auth = AuthServer::builder().jwt_access_tokens().start().await;
    let (client, said) = login(&auth, "a b").await;
    let refreshed = token(&auth, &refresh_form(&client, &said.text("refresh_token"))).await;
    let issued = auth.issue(&client, "a b", RESOURCE).access_token;
    for access in [said.text("access_token"), refreshed.text("access_token"), issued] {
        assert_eq!(header(&access), json!({"alg": "ES256", "typ": "at+jwt", "kid": auth.jwk()["kid"]}));
        let claims = claims(&access);
        assert_eq!(claims["iss"], auth.issuer());
        assert_eq!((&claims["sub"], &claims["client_id"]), (&json!("alice"), &json!(client)));
        assert_eq!((&claims["aud"], &claims["scope"]), (&json!([RESOURCE]), &json!("a b")));
        assert_eq!(claims["exp"].as_u64().unwrap() - claims["iat"].as_u64().unwrap(), 3600);
        assert!(auth.is_valid_access_token(&access));
    }
}

#[tokio::test]
async fn a_rotated_key_replaces_the_published_one() {
    let auth = AuthServer::builder().jwt_access_tokens().start().await;
    let before = auth.jwk();
    auth.rotate_key();
    assert_ne!(auth.jwk()["kid"], before["kid"]);
    assert_eq!(get(&auth.endpoint("jwks")).await.json(), json!({"keys": [auth.jwk()]}));
    let access = auth.sign_token(json!({"typ": "x"}), &json!({"sub": "a"}));
    assert_eq!(header(&access), json!({"alg": "ES256", "typ": "x", "kid": auth.jwk()["kid"]}));
}

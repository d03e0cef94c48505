//! Where metadata is published, and its members.

use super::get;
use bowline_testkit::AuthServer;
use serde_json::json;

const OAUTH: &str = "/.well-known/oauth-authorization-server";

#[tokio::test]
async fn members_follow_the_script() {
    let auth = AuthServer::builder()
        .no_registration()
        .no_iss()
        .dpop()
        .scopes(&["a", "offline_access"])
        .metadata("service_documentation", "x")
        .without_metadata("jwks_uri")
        .issuer("https://other.example")
        .start()
        .await;
    let document = get(&format!("{}{OAUTH}", auth.origin())).await.json();
    for absent in [
        "registration_endpoint",
        "authorization_response_iss_parameter_supported",
        "jwks_uri",
        "device_authorization_endpoint",
    ] {
        assert_eq!(document.get(absent), None, "{absent}");
    }
    assert_eq!(document["issuer"], "https://other.example");
    assert_eq!(document["scopes_supported"], json!(["a", "offline_access"]));
    assert_eq!(document["service_documentation"], "x");
    assert_eq!(get(&auth.endpoint("register")).await.status, 404);
}

#[tokio::test]
async fn the_key_is_published() {
    let auth = AuthServer::start().await;
    assert_eq!(get(&auth.endpoint("jwks")).await.json(), json!({"keys": [auth.jwk()]}));
}

//! Where metadata is published, and its members.

use super::get;
use bowline_testkit::{AuthServer, WellKnown};
use serde_json::json;

const OAUTH: &str = "/.well-known/oauth-authorization-server";
const OIDC: &str = "/.well-known/openid-configuration";

#[tokio::test]
async fn every_form_can_be_there_or_not() {
    let all = [
        (WellKnown::OAuth, format!("{OAUTH}/t")),
        (WellKnown::OAuthAppended, format!("/t{OAUTH}")),
        (WellKnown::Oidc, format!("{OIDC}/t")),
        (WellKnown::OidcAppended, format!("/t{OIDC}")),
        (WellKnown::OAuthRoot, OAUTH.to_owned()),
    ];
    for (form, path) in &all {
        let auth = AuthServer::builder().path("/t").well_known(&[*form]).start().await;
        assert_eq!(auth.issuer(), format!("{}/t", auth.origin()));
        for (_, other) in &all {
            let said = get(&format!("{}{other}", auth.origin())).await;
            assert_eq!(said.status, if other == path { 200 } else { 404 }, "{form:?} {other}");
        }
        assert_eq!(auth.count("metadata"), all.len(), "also those that found nothing");
        let document = get(&format!("{}{path}", auth.origin())).await.json();
        assert_eq!(document["issuer"], auth.issuer());
        assert_eq!(document["token_endpoint"], auth.endpoint("token"));
    }
}

#[tokio::test]
async fn members_follow_the_script() {
    let auth = AuthServer::builder()
        .no_registration()
        .no_pkce()
        .no_iss()
        .cimd()
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
        "code_challenge_methods_supported",
        "authorization_response_iss_parameter_supported",
        "jwks_uri",
        "device_authorization_endpoint",
    ] {
        assert_eq!(document.get(absent), None, "{absent}");
    }
    assert_eq!(document["issuer"], "https://other.example");
    assert_eq!(document["client_id_metadata_document_supported"], true);
    assert_eq!(document["scopes_supported"], json!(["a", "offline_access"]));
    assert_eq!(document["service_documentation"], "x");
    assert_eq!(get(&auth.endpoint("register")).await.status, 404);
}

#[tokio::test]
async fn the_key_is_published() {
    let auth = AuthServer::start().await;
    assert_eq!(get(&auth.endpoint("jwks")).await.json(), json!({"keys": [auth.jwk()]}));
}

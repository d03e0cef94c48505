//! Which registration requests are sent, and what each response means.

use bowline_config::AuthSettings;
use serde_json::json;

use super::*;
use crate::context::App;
use crate::test_site::{ReceivedRequest, TestSite};

fn metadata(site: &TestSite) -> Metadata {
    Metadata { issuer: site.origin().to_owned(), ..Metadata::default() }
}

async fn attempt(
    site: &TestSite,
    metadata: &Metadata,
    redirect: &str,
    scopes: &[&str],
) -> Result<Registration, AuthError> {
    let redirect = redirect.parse().unwrap();
    let scopes: Vec<String> = scopes.iter().map(ToString::to_string).collect();
    let wish = RegistrationRequest { redirect: &redirect, scopes: &scopes };
    let discovery = Discovery { metadata: metadata.clone(), ..crate::discovery::tests::bare_discovery() };
    register(&site.ctx("/mcp", AuthSettings::default()), &discovery, &site.url("/register"), &wish).await
}

const LOOPBACK: &str = "http://127.0.0.1:4000/callback";

fn list(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

fn bodies(site: &TestSite) -> Vec<Value> {
    site.requests().iter().map(ReceivedRequest::json).collect()
}

#[tokio::test]
async fn ar_03_the_body_says_what_we_are() {
    let site = TestSite::start().await;
    site.respond("/register", 201, json!({"client_id": "c"}));
    attempt(&site, &metadata(&site), LOOPBACK, &[]).await.unwrap();
    let asked = &site.requests()[0];
    assert_eq!(asked.line, "POST /register");
    assert_eq!(asked.headers["content-type"], "application/json");
    let expected = json!({
        "client_name": "Bowline",
        "redirect_uris": [LOOPBACK],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "application_type": "native",
    });
    assert_eq!(asked.json(), expected);
}

#[tokio::test]
async fn ar_03_optional_fields_are_sent_if_known() {
    let site = TestSite::start().await;
    let mut metadata = metadata(&site);
    metadata.device_authorization_endpoint = Some(site.url("/device"));
    metadata.token_endpoint_auth_methods_supported = Some(list(&["client_secret_post"]));
    let mut ctx = site.ctx("/mcp", AuthSettings::default());
    ctx.app =
        std::sync::Arc::new(App { uri: Some("https://b.example/".parse().unwrap()), ..(*ctx.app).clone() });
    let redirect = LOOPBACK.parse().unwrap();
    let scopes = ["a".to_owned(), "b".to_owned()];
    let body = Value::from(request_body(
        &ctx,
        &metadata,
        &RegistrationRequest { redirect: &redirect, scopes: &scopes },
    ));
    assert_eq!(body["scope"], "a b");
    assert_eq!(body["client_uri"], "https://b.example/");
    assert_eq!(body["token_endpoint_auth_method"], "client_secret_post");
    assert_eq!(body["grant_types"], json!(["authorization_code", "refresh_token", DEVICE_CODE_GRANT]));
    metadata.grant_types_supported = Some(list(&["authorization_code"]));
    let body =
        Value::from(request_body(&ctx, &metadata, &RegistrationRequest { redirect: &redirect, scopes: &[] }));
    assert_eq!(body["grant_types"], json!(["authorization_code", "refresh_token"]));
    assert_eq!(body.get("scope"), None);
}

#[tokio::test]
async fn ar_03_a_refused_redirect_is_written_by_name_once() {
    let site = TestSite::start().await;
    site.respond("/register", 400, json!({"error": "invalid_redirect_uri"}));
    site.respond("/register", 201, json!({"client_id": "c"}));
    let found = attempt(&site, &metadata(&site), LOOPBACK, &["a"]).await.unwrap();
    assert_eq!(found.redirect.as_str(), "http://localhost:4000/callback");
    let [first, second] = &bodies(&site)[..] else { panic!("two attempts") };
    assert_eq!(first["redirect_uris"], json!([LOOPBACK]));
    assert_eq!(second["redirect_uris"], json!(["http://localhost:4000/callback"]));
    assert_eq!((&second["scope"], &second["application_type"]), (&json!("a"), &json!("native")));
}

#[tokio::test]
async fn ar_03_refused_for_something_else_we_ask_for_less_once() {
    let site = TestSite::start().await;
    site.respond("/register", 400, json!({"error": "invalid_client_metadata"}));
    site.respond("/register", 201, json!({"client_id": "c"}));
    let mut metadata = metadata(&site);
    metadata.device_authorization_endpoint = Some(site.url("/device"));
    let found = attempt(&site, &metadata, LOOPBACK, &["a"]).await.unwrap();
    assert_eq!(found.redirect.as_str(), LOOPBACK);
    let expected = json!({
        "client_name": "Bowline",
        "redirect_uris": [LOOPBACK],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "application_type": "native",
    });
    assert_eq!(bodies(&site)[1], expected);
}

#[tokio::test]
async fn ar_03_refused_twice_is_a_readable_error() {
    let site = TestSite::start().await;
    let why = format!("loopback\u{1b}[2J is {}", "forbidden ".repeat(100));
    site.respond("/register", 400, json!({"error": "invalid_redirect_uri", "error_description": why}));
    let error = attempt(&site, &metadata(&site), LOOPBACK, &[]).await.unwrap_err();
    assert_eq!(error.kind, AuthErrorKind::Setup);
    assert!(error.what.contains("invalid_redirect_uri") && error.what.contains("loopback"), "{error}");
    assert!(error.what.len() < 500 && !error.what.contains('\u{1b}'), "{error}");
    assert!(error.hint.unwrap().contains("client_id"));
    assert_eq!(site.request_lines().len(), 2);
}

#[tokio::test]
async fn a_request_that_cannot_be_changed_is_sent_once() {
    let site = TestSite::start().await;
    site.respond("/register", 400, json!({"error": "invalid_redirect_uri"}));
    attempt(&site, &metadata(&site), "https://b.example/callback", &[]).await.unwrap_err();
    assert_eq!(site.request_lines().len(), 1);
}

#[tokio::test]
async fn closed_registration_differs_from_an_outage() {
    for (status, kind) in [
        (401, AuthErrorKind::Setup),
        (403, AuthErrorKind::Setup),
        (404, AuthErrorKind::Setup),
        (405, AuthErrorKind::Setup),
        (302, AuthErrorKind::Setup),
        (429, AuthErrorKind::Unavailable),
        (500, AuthErrorKind::Unavailable),
        (503, AuthErrorKind::Unavailable),
    ] {
        let site = TestSite::start().await;
        site.respond("/register", status, "<html>");
        let error = attempt(&site, &metadata(&site), LOOPBACK, &[]).await.unwrap_err();
        assert_eq!(error.kind, kind, "{status}");
        assert_eq!(site.request_lines().len(), 1, "{status}");
        if kind == AuthErrorKind::Setup {
            assert!(error.what.contains("accepts only registered clients"), "{error}");
            assert!(error.hint.unwrap().contains("client_id"));
        }
    }
}

#[tokio::test]
async fn ar_05_what_was_registered_is_believed() {
    let site = TestSite::start().await;
    let answer = json!({
        "client_id": "c",
        "client_secret": "s",
        "client_secret_expires_at": 1_900_000_000.0,
        "token_endpoint_auth_method": "client_secret_post",
    });
    site.respond("/register", 200, answer);
    let found = attempt(&site, &metadata(&site), LOOPBACK, &[]).await.unwrap();
    assert_eq!((found.id.as_str(), found.method), ("c", TokenAuth::Post));
    assert_eq!(found.secret, Some(Secret::new("s")));
    assert_eq!(found.secret_expires_at, Some(1_900_000_000));
    assert!(!format!("{found:?}").contains("\"s\""));
    // A public client has no use for a secret.
    let answer = json!({"client_id": "c", "client_secret": "s", "token_endpoint_auth_method": "none"});
    site.respond_only("/register", 200, answer);
    let found = attempt(&site, &metadata(&site), LOOPBACK, &[]).await.unwrap();
    assert_eq!((found.secret, found.method), (None, TokenAuth::None));
}

#[tokio::test]
async fn answers_that_name_no_client_are_errors() {
    for answer in [json!({"client_id": ""}), json!({"client_id": 7}), json!({"client_id": "x".repeat(5000)})]
    {
        let site = TestSite::start().await;
        site.respond("/register", 201, &answer);
        let error = attempt(&site, &metadata(&site), LOOPBACK, &[]).await.unwrap_err();
        assert_eq!(error.kind, AuthErrorKind::Untrusted, "{answer}");
    }
    for answer in [json!({}), json!([]), json!({"error": "no"}), json!("<html>")] {
        let site = TestSite::start().await;
        site.respond("/register", 200, &answer);
        let error = attempt(&site, &metadata(&site), LOOPBACK, &[]).await.unwrap_err();
        assert_eq!(error.kind, AuthErrorKind::Setup, "{answer}");
        if answer.get("error").is_none() {
            let issuer = &metadata(&site).issuer;
            let why = "its answer (status 200) is not a valid registration response";
            assert_eq!(error.what, format!("{issuer} refused to register this client: {why}"));
        }
    }
}

#[test]
fn a_number_however_it_is_written() {
    assert_eq!(seconds(&json!(7)), Some(7));
    assert_eq!(seconds(&json!(7.9)), Some(7));
    assert_eq!(seconds(&json!("7")), Some(7));
    assert_eq!(seconds(&json!(-7)), Some(0));
    assert_eq!(seconds(&json!(1e300)), Some(u64::MAX));
    assert_eq!(seconds(&json!(null)), None);
}

#[tokio::test]
async fn a_server_that_only_wants_a_key_is_not_taken_for_one_with_logins() {
    let site = TestSite::start().await;
    let discovery = Discovery {
        kind: DiscoveryKind::DefaultEndpoints,
        metadata: metadata(&site),
        ..crate::discovery::tests::bare_discovery()
    };
    let redirect = LOOPBACK.parse().unwrap();
    let wish = RegistrationRequest { redirect: &redirect, scopes: &[] };
    let ctx = site.ctx("/mcp", AuthSettings::default());
    let error = register(&ctx, &discovery, &site.url("/register"), &wish).await.unwrap_err();
    assert_eq!(error.kind, AuthErrorKind::Setup);
    assert!(error.what.contains("advertises no login method"), "{error}");
    assert!(error.hint.unwrap().contains("headers"));
}

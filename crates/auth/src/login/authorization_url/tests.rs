//! The parameters of the authorization URL.

use std::collections::BTreeMap;

use bowline_config::{AuthSettings, TokenAuth};
use bowline_testkit::{AuthServer, with};

use super::*;
use crate::dpop;
use crate::testing::{CLIENT_ID, RESOURCE, client, ctx, discovery};

const REDIRECT: &str = "http://127.0.0.1:1234/callback";

/// The authorization URL for these settings and this discovery result.
async fn address(
    auth: AuthSettings,
    change: impl FnOnce(&mut Discovery),
) -> Result<AuthorizationUrl, AuthError> {
    let server = AuthServer::start().await;
    let mut discovery = discovery(&server);
    change(&mut discovery);
    let (ctx, client) = (ctx(auth), client(&server, TokenAuth::None));
    let scopes = ["a".to_owned(), "b:c".to_owned()];
    let login = LoginParams {
        ctx: &ctx,
        discovery: &discovery,
        scopes: &scopes,
        resource: Some("https://h.example"),
        dpop: None,
    };
    build_authorization_url(&login, &client, &REDIRECT.parse().unwrap())
}

fn fields(url: &Url) -> BTreeMap<String, String> {
    url.query_pairs().into_owned().collect()
}

fn at(endpoint: &str) -> impl FnOnce(&mut Discovery) {
    let endpoint = endpoint.parse().unwrap();
    |discovery| discovery.metadata.authorization_endpoint = Some(endpoint)
}

// AF-01, AF-02, AF-03
#[tokio::test]
async fn a_page_says_what_is_asked_for() {
    let one =
        address(AuthSettings::default(), at("https://as.example/authorize?tenant=t%20x")).await.unwrap();
    assert!(one.url.as_str().starts_with("https://as.example/authorize?tenant=t%20x&response_type=code&"));
    let fields = fields(&one.url);
    assert_eq!(fields["client_id"], CLIENT_ID);
    assert_eq!(fields["redirect_uri"], REDIRECT);
    assert_eq!(fields["scope"], "a b:c");
    assert_eq!(fields["resource"], "https://h.example", "to the letter: no slash is added");
    assert_eq!(fields["code_challenge_method"], "S256");
    assert_eq!(fields["state"], one.state.expose());
    let challenge = ring::digest::digest(&ring::digest::SHA256, one.verifier.expose().as_bytes());
    let challenge = base64::Engine::encode(&base64::prelude::BASE64_URL_SAFE_NO_PAD, challenge);
    assert_eq!(fields["code_challenge"], challenge);
    assert!(!one.url.as_str().contains(one.verifier.expose()));
    assert_eq!(fields.len(), 9, "{fields:?}");

    let two = address(AuthSettings::default(), |_| {}).await.unwrap();
    assert!(one.state != two.state && one.verifier != two.verifier);
    assert!(one.state.expose().len() >= 22, "128 bits");
}

// SE-03, AF-07
#[tokio::test]
async fn a_person_is_not_sent_just_anywhere() {
    for bad in ["http://as.example/authorize", "javascript:alert(1)", "file:///bin/sh", "data:text/html,x"] {
        let error = address(AuthSettings::default(), at(bad)).await.unwrap_err();
        assert_eq!(error.kind, AuthErrorKind::Untrusted, "{bad}");
    }
    for good in ["http://localhost:1/a", "http://[::1]/a", "http://127.0.0.2/a"] {
        address(AuthSettings::default(), at(good)).await.unwrap();
    }
    let error =
        address(AuthSettings::default(), |discovery| discovery.metadata.authorization_endpoint = None)
            .await
            .unwrap_err();
    assert_eq!(error.kind, AuthErrorKind::Setup);
}

// SE-03: such a parameter in the endpoint's own query could change the request.
#[tokio::test]
async fn an_endpoint_sets_no_reserved_parameter() {
    for name in RESERVED_PARAMS.iter().chain(&FORBIDDEN_ENDPOINT_PARAMS).chain(&["STATE"]) {
        let bad = format!("https://as.example/authorize?tenant=t&{name}=x");
        let error = address(AuthSettings::default(), at(&bad)).await.unwrap_err();
        assert_eq!(error.kind, AuthErrorKind::Untrusted, "{name}");
        let end = format!(" sets {name}, a parameter reserved for the client");
        let start = "the address of the login page of ";
        assert!(error.what.starts_with(start) && error.what.ends_with(&end), "{error}");
    }
    let escaped = "https://as.example/authorize?re%64irect_uri=https%3A%2F%2Fevil.example";
    assert_eq!(
        address(AuthSettings::default(), at(escaped)).await.unwrap_err().kind,
        AuthErrorKind::Untrusted
    );
}

// AF-01
#[tokio::test]
async fn a_code_that_nothing_protects_is_not_asked_for() {
    for methods in [None, Some(vec![]), Some(vec!["plain".to_owned()])] {
        let change =
            |discovery: &mut Discovery| discovery.metadata.code_challenge_methods_supported = methods;
        assert_eq!(
            address(AuthSettings::default(), change).await.unwrap_err().kind,
            AuthErrorKind::Untrusted
        );
    }
}

// AF-07
#[tokio::test]
async fn a_redirect_is_https_or_on_this_machine() {
    let server = AuthServer::start().await;
    let (ctx, discovery, client) =
        (ctx(AuthSettings::default()), discovery(&server), client(&server, TokenAuth::None));
    let login = LoginParams { ctx: &ctx, discovery: &discovery, scopes: &[], resource: None, dpop: None };
    for (redirect, good) in [
        ("https://app.example/cb", true),
        ("http://localhost:1/cb", true),
        ("http://app.example/cb", false),
        ("app:/cb", false),
    ] {
        let outcome = build_authorization_url(&login, &client, &redirect.parse().unwrap());
        assert_eq!(
            outcome.map(|_| ()).map_err(|error| error.kind),
            if good { Ok(()) } else { Err(AuthErrorKind::Setup) },
            "{redirect}"
        );
    }
}

#[tokio::test]
async fn configured_parameters_are_added_and_take_nothing_over() {
    let params = |pairs: &[(&str, &str)]| {
        with!(AuthSettings::default(), authorize_params: pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect())
    };
    let page = address(params(&[("prompt", "consent"), ("access_type", "offline")]), |_| {}).await.unwrap();
    assert!(page.url.as_str().ends_with("&prompt=consent&access_type=offline"), "{}", page.url);
    for name in RESERVED_PARAMS {
        let error = address(params(&[(name, "x")]), |_| {}).await.unwrap_err();
        assert_eq!(error.kind, AuthErrorKind::Setup, "{name}");
    }
}

#[tokio::test]
async fn the_account_is_a_hint_where_it_can_be_one() {
    let hint = async |account: &str, authorize_params: Vec<(String, String)>| {
        let auth =
            with!(AuthSettings::default(), account: Some(account.into()), authorize_params: authorize_params);
        fields(&address(auth, |_| {}).await.unwrap().url).remove("login_hint")
    };
    assert_eq!(hint("a.b+c@example.org", vec![]).await.as_deref(), Some("a.b+c@example.org"));
    assert_eq!(hint("alice", vec![]).await.as_deref(), Some("alice"));
    assert_eq!(hint("the one for work", vec![]).await, None);
    let own = vec![("login_hint".to_owned(), "bob".to_owned())];
    assert_eq!(hint("alice", own).await.as_deref(), Some("bob"));
}

// AX-06
#[tokio::test]
async fn the_code_is_bound_to_the_key_as_well() {
    let server = AuthServer::start().await;
    let (ctx, discovery, client) =
        (ctx(AuthSettings::default()), discovery(&server), client(&server, TokenAuth::None));
    let key = dpop::Key::load_or_create(&ctx.store, "files").await.unwrap();
    let login = LoginParams {
        ctx: &ctx,
        discovery: &discovery,
        scopes: &[],
        resource: Some(RESOURCE),
        dpop: Some(&key),
    };
    let page = build_authorization_url(&login, &client, &REDIRECT.parse().unwrap()).unwrap();
    assert_eq!(fields(&page.url)["dpop_jkt"], key.thumbprint());
    assert!(!fields(&page.url).contains_key("scope"));
}

/// SC-05: without a new consent, a provider may omit the requested refresh token.
#[tokio::test]
async fn consent_is_asked_for_where_a_refresh_token_hangs_on_it() {
    let prompt = async |auth: AuthSettings, issuer: Option<&str>, scopes: &[&str]| {
        let server = AuthServer::start().await;
        let mut discovery = discovery(&server);
        if let Some(issuer) = issuer {
            discovery.metadata.issuer = issuer.to_owned();
        }
        let (ctx, client) = (ctx(auth), client(&server, TokenAuth::None));
        let scopes: Vec<String> = scopes.iter().map(|&scope| scope.to_owned()).collect();
        let login =
            LoginParams { ctx: &ctx, discovery: &discovery, scopes: &scopes, resource: None, dpop: None };
        let address = build_authorization_url(&login, &client, &REDIRECT.parse().unwrap()).unwrap();
        fields(&address.url).get("prompt").cloned()
    };
    let (plain, offline) = (["a"], ["a", "offline_access"]);
    assert_eq!(prompt(AuthSettings::default(), None, &plain).await, None);
    assert_eq!(prompt(AuthSettings::default(), None, &offline).await.as_deref(), Some("consent"));
    let entra = "https://login.microsoftonline.com/tenant/v2.0";
    assert_eq!(prompt(AuthSettings::default(), Some(entra), &offline).await, None);
    let authorize_params = vec![("prompt".to_owned(), "login".to_owned())];
    let auth = with!(AuthSettings::default(), authorize_params: authorize_params);
    assert_eq!(prompt(auth, None, &offline).await.as_deref(), Some("login"));
}

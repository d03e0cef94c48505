//! Authorization codes: who gets one, where it is sent, and what redeems it.

use super::*;
use bowline_testkit::{AuthServer, Browser, with_query_parameter};
use std::time::Duration;

#[tokio::test]
async fn a_code_goes_back_with_state_and_issuer() {
    let auth = AuthServer::start().await;
    let client = public_client(&auth).await;
    let back = follow_authorize_url(&authorize_url(&auth, &client, "a b")).await;
    assert!(back.starts_with(&format!("{REDIRECT}?")));
    assert_eq!(query_parameter(&back, "state").as_deref(), Some("s1"));
    assert_eq!(query_parameter(&back, "iss"), Some(auth.issuer()));
    assert!(query_parameter(&back, "code").unwrap().starts_with("tk-secret-code-"));
    let seen = &auth.received_at("authorize")[0];
    assert_eq!((seen.field("scope"), seen.field("resource")), (Some("a b"), Some(RESOURCE)));
    assert_eq!((seen.status, auth.authorizations()), (302, 1));
    assert_eq!(auth.violations(), [""; 0]);
}

#[tokio::test]
async fn unregistered_redirect_uris_are_refused() {
    let auth = AuthServer::start().await;
    let client = public_client(&auth).await;
    let url = authorize_url(&auth, &client, "");
    for (name, value) in [("redirect_uri", "http://127.0.0.1:9/other"), ("client_id", "nobody")] {
        let said = get(&with_query_parameter(&url, name, Some(value))).await;
        assert_eq!((said.status, said.header("location")), (400, None), "{name}");
    }
    // RFC 8252: another port is the same application.
    follow_authorize_url(&with_query_parameter(&url, "redirect_uri", Some("http://127.0.0.1:10/callback")))
        .await;
    auth.edit(bowline_testkit::AuthScript::exact_redirects);
    assert_eq!(
        get(&with_query_parameter(&url, "redirect_uri", Some("http://127.0.0.1:10/callback"))).await.status,
        400
    );
}

#[tokio::test]
async fn errors_are_sent_to_the_redirect_uri() {
    let auth = AuthServer::builder().scopes(&["a"]).strict_scopes().start().await;
    let client = public_client(&auth).await;
    let url = authorize_url(&auth, &client, "a");
    for (name, value, error) in [
        ("response_type", Some("token"), "unsupported_response_type"),
        ("code_challenge", None, "invalid_request"),
        ("code_challenge_method", Some("plain"), "invalid_request"),
        ("scope", Some("a z"), "invalid_scope"),
    ] {
        let back = follow_authorize_url(&with_query_parameter(&url, name, value)).await;
        assert_eq!(query_parameter(&back, "error").as_deref(), Some(error));
        assert_eq!(query_parameter(&back, "iss"), Some(auth.issuer()));
        assert_eq!(query_parameter(&back, "code"), None);
    }
    let back = Browser::new().deny().follow(&url).await;
    assert_eq!(query_parameter(&back, "error").as_deref(), Some("access_denied"));
    assert_eq!(auth.authorizations(), 0);
}

#[tokio::test]
async fn a_person_decides_on_a_form() {
    let auth = AuthServer::builder().interactive().start().await;
    let client = public_client(&auth).await;
    let url = with_query_parameter(&authorize_url(&auth, &client, "openid"), "state", Some("<\"&>"));
    let page = Browser::new().visit(&url).await;
    assert_eq!(page.status, 200);
    assert!(page.body.contains("value=\"&lt;&quot;&amp;&gt;\""), "{}", page.body);
    let denied = Browser::new().deny().follow(&url).await;
    assert_eq!(query_parameter(&denied, "error").as_deref(), Some("access_denied"));
    let back = Browser::new().account("bob").follow(&url).await;
    assert_eq!(query_parameter(&back, "state").as_deref(), Some("<\"&>"));
    let code = query_parameter(&back, "code").unwrap();
    let said = token(&auth, &code_form(&client, &code)).await;
    assert_eq!(claims(&said.text("id_token"))["sub"], "bob");
    let bearer = format!("Bearer {}", said.text("access_token"));
    let who = try_send("GET", &auth.endpoint("userinfo"), &[("authorization", &bearer)], "").await.unwrap();
    assert_eq!(who.json()["email"], "bob@example.com");
}

#[tokio::test]
async fn a_code_is_spent_once_and_by_its_owner() {
    for (name, value) in [
        ("code_verifier", "wrong-wrong-wrong-wrong-wrong-wrong-wrong-wrong"),
        ("redirect_uri", "http://127.0.0.1:9/other"),
        ("code", "tk-secret-code-made-up"),
    ] {
        let auth = AuthServer::start().await;
        let client = public_client(&auth).await;
        let code = code(&auth, &client, "a").await;
        let mut form = code_form(&client, &code);
        form.iter_mut().find(|(n, _)| *n == name).unwrap().1 = value;
        assert_eq!(token(&auth, &form).await.error(), (400, "invalid_grant".into()), "{name}");
        if name != "code" {
            // The code cannot be retried, either.
            assert_eq!(token(&auth, &code_form(&client, &code)).await.error(), (400, "invalid_grant".into()));
        }
    }
    let auth = AuthServer::start().await;
    let (client, other) = (public_client(&auth).await, public_client(&auth).await);
    let stolen = code(&auth, &client, "a").await;
    assert_eq!(token(&auth, &code_form(&other, &stolen)).await.error(), (400, "invalid_grant".into()));
    let missing = code(&auth, &client, "a").await;
    let mut form = code_form(&client, &missing);
    form.retain(|(name, _)| *name != "code_verifier");
    assert_eq!(token(&auth, &form).await.error(), (400, "invalid_grant".into()));
}

#[tokio::test]
async fn a_code_that_comes_twice_ends_the_login() {
    let auth = AuthServer::start().await;
    let client = public_client(&auth).await;
    let code = code(&auth, &client, "a").await;
    let said = token(&auth, &code_form(&client, &code)).await;
    assert!(auth.is_valid_access_token(&said.text("access_token")));
    assert_eq!(token(&auth, &code_form(&client, &code)).await.error(), (400, "invalid_grant".into()));
    assert!(!auth.is_valid_access_token(&said.text("access_token")));
    assert_eq!((auth.counts().families_revoked, auth.counts().refused), (1, 1));
}

#[tokio::test]
async fn codes_expire() {
    let auth = AuthServer::start().await;
    let client = public_client(&auth).await;
    let code = code(&auth, &client, "a").await;
    auth.advance_clock(Duration::from_secs(61));
    assert_eq!(token(&auth, &code_form(&client, &code)).await.error(), (400, "invalid_grant".into()));
}

#[tokio::test]
async fn missing_parameters_are_recorded() {
    let auth = AuthServer::start().await;
    let client = public_client(&auth).await;
    let mut url = authorize_url(&auth, &client, "a");
    for name in ["state", "resource"] {
        url = with_query_parameter(&url, name, None);
    }
    let code = query_parameter(&follow_authorize_url(&url).await, "code").unwrap();
    let mut form = code_form(&client, &code);
    form.retain(|(name, _)| *name != "resource");
    assert_eq!(token(&auth, &form).await.status, 200);
    let noted: Vec<String> = auth.violations().iter().map(|text| text[..5].to_owned()).collect();
    assert_eq!(noted, ["AF-03", "AF-02", "AF-02"]);
}

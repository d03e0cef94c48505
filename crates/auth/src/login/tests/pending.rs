//! Logins that one process begins and another finishes.

use bowline_store::{Key, Precondition};
use bowline_testkit::{AuthFault, Browser, with, with_query_parameter};

use super::*;

/// The context of the same server in another process: only the store is shared.
fn elsewhere(scene: &LoginScene) -> AuthContext {
    AuthContext { store: scene.ctx.store.clone(), ..testing::ctx(auth()) }
}

#[tokio::test]
async fn a_login_is_begun_here_and_finished_there() {
    let scene = LoginScene::new().await;
    let begun = begin(&scene.login()).await.unwrap();
    assert!(connect_to(&begun.redirect).is_err(), "nobody listens");
    let back = Browser::new().follow(begun.url.as_str()).await;
    assert!(back.starts_with(begun.redirect.as_str()), "{back}");
    let there = elsewhere(&scene);
    let finished = finish(&there, &back).await.unwrap();
    assert!(scene.server.is_valid_access_token(finished.tokens.access.expose()));
    assert_eq!(finished.metadata, scene.discovery.metadata);
    assert_eq!(finished.resource.as_deref(), Some(RESOURCE));
    assert_eq!((finished.client.id.as_str(), finished.dpop.is_some()), (CLIENT, false));
    // AF-03: it can be finished once.
    let again = finish(&scene.ctx, &back).await.unwrap_err();
    assert_eq!(again.kind, AuthErrorKind::LoginNeeded);
    assert_eq!(scene.server.count("token"), 1);
}

#[tokio::test]
async fn concurrent_finishes_spend_the_code_once() {
    let scene = LoginScene::new().await;
    let begun = begin(&scene.login()).await.unwrap();
    let back = Browser::new().follow(begun.url.as_str()).await;
    let (one, two) = (elsewhere(&scene), elsewhere(&scene));
    let (one, two) = tokio::join!(finish(&one, &back), finish(&two, &back));
    assert!(one.is_ok() != two.is_ok());
    assert_eq!(scene.server.count("token"), 1);
}

// AF-05
#[tokio::test]
async fn what_is_brought_is_checked_as_well() {
    let scene = LoginScene::new().await;
    let begun = begin(&scene.login()).await.unwrap();
    scene.server.arm(AuthFault::wrong_iss("https://evil.example"));
    let back = Browser::new().follow(begun.url.as_str()).await;
    assert_eq!(finish(&scene.ctx, &back).await.unwrap_err().kind, AuthErrorKind::Untrusted);
    for forged in [with_query_parameter(&back, "state", Some("forged")), "nonsense".to_owned()] {
        assert!(finish(&scene.ctx, &forged).await.is_err(), "{forged}");
    }
    assert_eq!(scene.server.count("token"), 0);
    // An input that was cut off or mistaken can be corrected.
    let good = with_query_parameter(&back, "iss", Some(&scene.server.issuer()));
    finish(&scene.ctx, &good).await.unwrap();
}

#[tokio::test]
async fn a_code_alone_is_enough_where_it_can_only_be_one() {
    let mut scene = LoginScene::with(AuthServer::builder().no_iss()).await;
    scene.discovery.metadata.authorization_response_iss_parameter_supported = false;
    let code = |back: &str| {
        let back: Url = back.parse().unwrap();
        back.query_pairs().find(|(name, _)| name == "code").unwrap().1.into_owned()
    };
    let begun = begin(&scene.login()).await.unwrap();
    let first = code(&Browser::new().follow(begun.url.as_str()).await);
    let other = begin(&scene.login()).await.unwrap();
    let error = finish(&scene.ctx, &first).await.unwrap_err();
    assert!(error.what.contains("several"), "{error}");
    let back = Browser::new().follow(other.url.as_str()).await;
    finish(&scene.ctx, &back).await.unwrap();
    finish(&scene.ctx, &first).await.unwrap();
}

/// A pending login can be finished once; an input that cannot be a code does not use it up.
#[tokio::test]
async fn what_is_no_code_does_not_end_a_begun_login() {
    let mut scene = LoginScene::with(AuthServer::builder().no_iss()).await;
    scene.discovery.metadata.authorization_response_iss_parameter_supported = false;
    let begun = begin(&scene.login()).await.unwrap();
    let error = finish(&scene.ctx, "hello").await.unwrap_err();
    assert!(error.hint.unwrap().contains(begun.redirect.as_str()));
    assert_eq!(scene.server.count("token"), 0);
    finish(&scene.ctx, &Browser::new().follow(begun.url.as_str()).await).await.unwrap();
}

#[tokio::test]
async fn a_login_that_was_begun_long_ago_cannot_be_finished() {
    let scene = LoginScene::new().await;
    let begun = begin(&scene.login()).await.unwrap();
    let back = Browser::new().follow(begun.url.as_str()).await;
    // Backdate the record, which is the only clock that two processes share.
    let all = scene.ctx.store.list::<serde_json::Value>("flow").await.unwrap();
    let [(key, mut flow, version)]: [(Key, serde_json::Value, _); 1] = all.try_into().unwrap();
    let at = flow["begun_at"]["secs_since_epoch"].as_u64().unwrap();
    flow["begun_at"]["secs_since_epoch"] = (at - 16 * 60).into();
    scene.ctx.store.put(&key, &flow, Precondition::AtVersion(version)).await.unwrap().unwrap();
    assert_eq!(finish(&scene.ctx, &back).await.unwrap_err().kind, AuthErrorKind::LoginNeeded);
    assert_eq!(scene.server.count("token"), 0);
    // The next login deletes it.
    begin(&scene.login()).await.unwrap();
    let all = scene.ctx.store.list::<serde_json::Value>("flow").await.unwrap();
    assert!(all.iter().all(|(other, _, _)| *other != key) && all.len() == 1);
}

#[tokio::test]
async fn what_was_begun_for_one_account_is_not_finished_for_another() {
    let scene = LoginScene::new().await;
    let begun = begin(&scene.login()).await.unwrap();
    let back = Browser::new().follow(begun.url.as_str()).await;
    let other = with!(auth(), account: Some("other".into()));
    let other = AuthContext { store: scene.ctx.store.clone(), ..testing::ctx(other) };
    assert_eq!(finish(&other, &back).await.unwrap_err().kind, AuthErrorKind::LoginNeeded);
    finish(&scene.ctx, &back).await.unwrap();
}

#[tokio::test]
async fn the_dpop_key_is_kept_with_the_pending_login() {
    let scene = LoginScene::with(AuthServer::builder().dpop_only()).await;
    let key = dpop::Key::load_or_create(&scene.ctx.store, "files").await.unwrap();
    let begun = begin(&LoginParams { dpop: Some(&key), ..scene.login() }).await.unwrap();
    let back = Browser::new().follow(begun.url.as_str()).await;
    let finished = finish(&elsewhere(&scene), &back).await.unwrap();
    assert_eq!(finished.tokens.scheme, crate::tokens::Scheme::Dpop);
    assert_eq!(finished.dpop.unwrap().thumbprint(), key.thumbprint());
}

#[tokio::test]
async fn nothing_of_a_begun_login_can_be_read_from_its_key() {
    let scene = LoginScene::new().await;
    let begun = begin(&scene.login()).await.unwrap();
    let state = begun.url.query_pairs().find(|(name, _)| name == "state").unwrap().1.into_owned();
    let all = scene.ctx.store.list::<serde_json::Value>("flow").await.unwrap();
    assert!(!all[0].0.id.contains(&state));
}

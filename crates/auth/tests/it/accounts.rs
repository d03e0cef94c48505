//! Logins of several accounts stay separate, and can be listed and exported.

use std::sync::Arc;

use bowline_auth::{AuthErrorKind, LoginOptions, Overwrite, accounts, export, import, import_with};
use bowline_config::AuthSettings;
use bowline_store::EncryptedStore;
use bowline_testkit::{AuthFault, auth_server, with};

use crate::support::{TestClient, TestPerson, TestStage};

/// A client that logs in under this name, with an account label.
fn host(stage: &TestStage, name: &str, label: Option<&str>, who: &str) -> TestClient {
    let auth = with!(AuthSettings::default(), account: label.map(str::to_owned));
    let person = TestPerson { name: Some(who.to_owned()), ..TestPerson::default() };
    TestClient::named(name, &stage.store, with!(stage.http(), auth: auth), Some(Arc::new(person)))
}

// One tenant's data must not be shown to another: logins are separated by server or label, never by
// URL alone.
#[tokio::test]
async fn entries_with_the_same_url_and_different_accounts_stay_apart() {
    let stage = TestStage::with(auth_server().interactive(), |it| it).await;
    let scope = LoginOptions::default().scopes(["openid"]);
    let hosts = [
        host(&stage, "work", None, "alice"),
        host(&stage, "home", None, "bob"),
        host(&stage, "work", Some("third"), "carol"),
    ];
    for host in &hosts {
        host.identity.login(&scope).await.unwrap();
    }
    stage.auth.revoke_all_access();
    for (host, who) in hosts.iter().zip(["alice", "bob", "carol"]) {
        assert_eq!(host.call("tools/list").await.unwrap(), 200);
        assert!(host.account().await.who.unwrap().starts_with(who));
    }
    let all = accounts(&stage.store).await.unwrap();
    let shown: Vec<_> = all.iter().map(|it| (it.server.as_str(), it.label.as_deref())).collect();
    assert_eq!(shown, [("home", None), ("work", None), ("work", Some("third"))]);
    hosts[0].identity.logout().await.unwrap();
    assert_eq!(accounts(&stage.store).await.unwrap().len(), 2);
    assert_eq!(hosts[1].call("tools/list").await.unwrap(), 200);
}

#[tokio::test]
async fn a_login_for_another_address_is_not_used() {
    let stage = TestStage::new().await;
    stage.logged_in_client().await;
    let mut http = stage.http();
    http.url.set_query(Some("tenant=2"));
    let other = TestClient::new(&stage.store, http, None);
    other.identity.load().await.unwrap();
    assert!(!other.identity.has_credentials());
}

#[tokio::test]
async fn a_login_is_carried_to_a_machine_without_a_browser() {
    let stage = TestStage::new().await;
    let host = stage.logged_in_client().await;
    let sealed = export(&stage.store, "correct horse battery", None).await.unwrap();
    for secret in [bowline_testkit::SECRET_PREFIX.as_bytes(), b"search", b"127.0.0.1"] {
        assert!(!sealed.windows(secret.len()).any(|window| window == secret));
    }
    let elsewhere = EncryptedStore::in_memory();
    let wrong = import(&elsewhere, &sealed, "wrong").await.unwrap_err();
    assert_eq!(wrong.kind, AuthErrorKind::Store);
    let taken = import(&elsewhere, &sealed, "correct horse battery").await.unwrap();
    assert_eq!(taken.len(), 1);
    assert_eq!(taken[0], host.account().await);
    let there = TestClient::new(&elsewhere, stage.http(), None);
    there.identity.load().await.unwrap();
    stage.auth.revoke_all_access();
    assert_eq!(there.call("tools/list").await.unwrap(), 200);
    assert_eq!(stage.auth.refreshes(), 1);
}

#[tokio::test]
async fn an_import_replaces_nothing_newer_unless_it_is_told_to() {
    let stage = TestStage::new().await;
    let host = stage.logged_in_client().await;
    let old = export(&stage.store, "a passphrase", Some(&["search".to_owned()])).await.unwrap();
    stage.auth.revoke_all_access();
    host.call("tools/list").await.unwrap();
    let refreshed = host.account().await;
    assert!(import(&stage.store, &old, "a passphrase").await.unwrap().is_empty());
    assert_eq!(host.account().await, refreshed);
    let forced = import_with(&stage.store, &old, "a passphrase", Overwrite::Anything).await.unwrap();
    assert_eq!(forced.len(), 1);
    assert_ne!(host.account().await, refreshed);
    let none = export(&stage.store, "a passphrase", Some(&["other".to_owned()])).await.unwrap();
    assert!(import(&EncryptedStore::in_memory(), &none, "a passphrase").await.unwrap().is_empty());
}

#[tokio::test]
async fn an_end_that_is_not_said_is_not_shown() {
    let stage = TestStage::new().await;
    stage.auth.arm(AuthFault::without_member("expires_in").on("authorization_code"));
    let host = stage.logged_in_client().await;
    let account = host.account().await;
    assert_eq!((account.expires_at, account.refreshable), (None, true));
    assert!(!host.identity.is_due(), "it is refreshed when it is refused");
    stage.auth.revoke_all_access();
    assert_eq!(host.call("tools/list").await.unwrap(), 200);
    assert!(host.account().await.expires_at.is_some());
}

//! Explicit logins, logins that another process finishes, and logouts.

use bowline_auth::{AuthErrorKind, LoginOptions, LogoutOutcome};
use bowline_config::{AuthSettings, Grant};
use bowline_testkit::{auth_server, follow_authorize_url, with};

use crate::support::TestStage;

#[tokio::test]
async fn a_login_is_begun_in_one_process_and_finished_in_another() {
    let stage = TestStage::new().await;
    let begun = stage.client_without_person().identity.begin_login(&LoginOptions::default()).await.unwrap();
    let back = follow_authorize_url(begun.url.as_str()).await;
    let other = stage.client_without_person();
    let account = other.identity.finish_login(&back).await.unwrap();
    assert_eq!(account.issuer, stage.auth.issuer());
    assert_eq!(other.call("tools/list").await.unwrap(), 200);
    let again = other.identity.finish_login(&back).await.unwrap_err();
    assert_eq!(again.kind, AuthErrorKind::LoginNeeded, "it is good once");
}

#[tokio::test]
async fn a_logout_ends_the_tokens_there_and_here() {
    let stage = TestStage::new().await;
    let host = stage.logged_in_client().await;
    let other = stage.client_without_person();
    other.identity.load().await.unwrap();
    assert_eq!(host.identity.logout().await.unwrap(), LogoutOutcome::Revoked);
    assert_eq!(host.identity.account().await.unwrap(), None);
    assert!(!host.identity.has_credentials());
    assert_eq!(host.send("tools/list").await.unwrap_err().status, 401);
    // A process that still holds the login is refused, and does not restore it.
    let error = other.call("tools/list").await.unwrap_err();
    assert_eq!(error.kind, AuthErrorKind::LoginNeeded);
    assert_eq!(host.identity.account().await.unwrap(), None);
    assert_eq!(host.identity.logout().await.unwrap(), LogoutOutcome::NotLoggedIn);
}

#[tokio::test]
async fn a_logout_says_what_could_not_be_done() {
    let stage = TestStage::with(auth_server().without_metadata("revocation_endpoint"), |it| it).await;
    let host = stage.logged_in_client().await;
    assert_eq!(host.identity.logout().await.unwrap(), LogoutOutcome::RevocationUnsupported);
    let stage = TestStage::new().await;
    let host = stage.logged_in_client().await;
    stage.auth.stop().await;
    assert!(matches!(host.identity.logout().await.unwrap(), LogoutOutcome::RevocationFailed(_)));
    assert_eq!(host.identity.account().await.unwrap(), None);
}

#[tokio::test]
async fn where_a_login_is_of_no_use_none_is_made() {
    let stage = TestStage::new().await;
    let off = stage.client_with_auth(with!(AuthSettings::default(), grant: Grant::Off));
    let error = off.call("tools/list").await.unwrap_err();
    assert_eq!(error.kind, AuthErrorKind::LoginNeeded);
    let error = off.identity.login(&LoginOptions::default()).await.unwrap_err();
    assert_eq!(error.kind, AuthErrorKind::Setup);
    assert_eq!((off.pages(), stage.auth.received().len()), (0, 0));
}

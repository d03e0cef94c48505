//! Token refresh: once for all callers, in time, and despite failures.

use std::pin::pin;
use std::time::Duration;

use bowline_auth::{AccountState, AuthErrorKind};
use bowline_config::AuthSettings;
use bowline_testkit::{AuthClient, AuthFault, auth_server, with};
use futures_util::future::join_all;
use tokio::time::timeout;

use crate::support::{TEST_TIMEOUT, TestClient, TestStage, client_settings};

#[tokio::test]
async fn tk_04_ten_refusals_at_once_cause_one_refresh() {
    let stage = TestStage::new().await;
    let host = stage.logged_in_client().await;
    stage.auth.revoke_all_access();
    let calls = join_all((0..10).map(|_| host.call("tools/list"))).await;
    assert!(calls.into_iter().all(|status| status.unwrap() == 200));
    assert_eq!(stage.auth.refreshes(), 1);
    assert_eq!(stage.auth.authorizations(), 1);
}

/// Cancels a call while the authorization server refreshes its token.
async fn cancel_call_during_refresh(stage: &TestStage, host: &TestClient) {
    stage.auth.revoke_all_access();
    stage.auth.arm(AuthFault::delay(Duration::from_secs(2)).on("refresh_token"));
    let sent = stage.auth.wait_for(|seen| seen.matches("refresh_token"), TEST_TIMEOUT);
    tokio::select! {
        biased;
        _ = sent => {}
        called = host.call("tools/list") => panic!("{called:?}: it was to be cancelled"),
    }
}

#[tokio::test]
async fn a_cancelled_call_does_not_lose_the_rotated_token() {
    let stage = TestStage::new().await;
    let host = stage.logged_in_client().await;
    cancel_call_during_refresh(&stage, &host).await;
    let mut changes = host.identity.watch_generation();
    timeout(TEST_TIMEOUT, changes.changed()).await.expect("the refresh goes on by itself").unwrap();
    // Another process finds it too.
    let other = stage.client_without_person();
    other.identity.load().await.unwrap();
    assert_eq!(other.call("tools/list").await.unwrap(), 200);
    assert_eq!(host.call("tools/list").await.unwrap(), 200);
    assert_eq!((stage.auth.refreshes(), stage.auth.reuse_detected()), (1, 0));
}

#[tokio::test]
async fn a_shutdown_waits_for_a_running_refresh() {
    let stage = TestStage::new().await;
    let host = stage.logged_in_client().await;
    cancel_call_during_refresh(&stage, &host).await;
    let before = host.account().await;
    host.identity.shut_down().await.unwrap();
    assert_ne!(host.account().await.refreshed_at, before.refreshed_at, "it is written down by now");
    // From here on, no refresh may start whose tokens could be lost.
    stage.auth.revoke_all_access();
    let error = host.call("tools/list").await.unwrap_err();
    assert_eq!(error.kind, AuthErrorKind::Unavailable);
    assert_eq!(stage.auth.count("refresh_token"), 1);
}

#[tokio::test]
async fn an_answer_without_a_refresh_token_keeps_the_old_one_good() {
    let stage = TestStage::new().await;
    let host = stage.logged_in_client().await;
    stage.auth.arm(AuthFault::no_refresh_token());
    for refreshes in 1..=3 {
        stage.auth.revoke_all_access();
        assert_eq!(host.call("tools/list").await.unwrap(), 200);
        assert_eq!(stage.auth.refreshes(), refreshes);
    }
    assert_eq!((stage.auth.reuse_detected(), stage.auth.authorizations()), (0, 1));
}

// AF-02
#[tokio::test]
async fn the_resource_goes_along_with_a_refresh() {
    let stage = TestStage::new().await;
    let host = stage.logged_in_client().await;
    stage.auth.revoke_all_access();
    host.call("tools/list").await.unwrap();
    let refresh = stage.auth.received_at("refresh_token").pop().unwrap();
    assert_eq!(refresh.field("resource"), Some(stage.server.url().as_str()));
}

#[tokio::test]
async fn an_idle_token_is_refreshed_in_time_also_after_a_restart() {
    let stage = TestStage::new().await;
    stage.auth.arm(AuthFault::lifetime(Duration::from_secs(2)).on("authorization_code"));
    let before = stage.logged_in_client().await;
    let end = before.account().await.expires_at;
    drop(before);
    let host = stage.client_without_person();
    host.identity.load().await.unwrap();
    assert_eq!(host.account().await.expires_at, end, "the end is absolute");
    assert_eq!(stage.auth.refreshes(), 0);
    let mut changes = host.identity.watch_generation();
    tokio::select! {
        () = host.identity.keep_refreshed() => unreachable!("it never ends"),
        refreshed = timeout(TEST_TIMEOUT, changes.changed()) => drop(refreshed.unwrap().unwrap()),
    }
    assert_eq!(stage.auth.refreshes(), 1);
    assert!(!host.identity.is_due());
    assert_eq!(host.call("tools/list").await.unwrap(), 200);
    assert_eq!(stage.auth.refreshes(), 1);
}

#[tokio::test]
async fn a_token_that_has_ended_is_renewed_before_the_call() {
    let stage = TestStage::new().await;
    stage.auth.arm(AuthFault::lifetime(Duration::from_secs(1)).on("authorization_code"));
    let host = stage.client();
    host.identity.login(&bowline_auth::LoginOptions::default()).await.unwrap();
    let ended = async {
        while !host.identity.is_due() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(TEST_TIMEOUT, ended).await.expect("it ends by the clock");
    host.identity.refresh_if_due().await.unwrap();
    assert!(!host.identity.is_due());
    assert_eq!(host.send("tools/list").await.unwrap(), 200, "nobody was refused");
    assert_eq!(stage.auth.refreshes(), 1);
}

#[tokio::test]
async fn what_another_process_renewed_is_taken_over() {
    let stage = TestStage::new().await;
    let (one, other) = (stage.logged_in_client().await, stage.client_without_person());
    other.identity.load().await.unwrap();
    stage.auth.revoke_all_access();
    assert_eq!(one.call("tools/list").await.unwrap(), 200);
    assert_eq!(other.call("tools/list").await.unwrap(), 200);
    assert_eq!(stage.auth.refreshes(), 1);
}

#[tokio::test]
async fn nothing_is_forgotten_while_the_authorization_server_is_away() {
    let stage = TestStage::new().await;
    let host = stage.logged_in_client().await;
    for twist in [
        AuthFault::status(503),
        AuthFault::html(502),
        AuthFault::too_many_requests(Duration::from_secs(1)),
        AuthFault::reset(),
        AuthFault::response(bowline_testkit::CannedResponse::new(500).text("{")),
    ] {
        // A new client each time, which has no backoff yet.
        let host = stage.client_without_person();
        host.identity.load().await.unwrap();
        stage.auth.revoke_all_access();
        stage.auth.arm(twist.clone().on("refresh_token"));
        let error = host.call("tools/list").await.unwrap_err();
        assert_eq!(error.kind, AuthErrorKind::Unavailable, "{twist:?}: {error}");
        // It fails at once, without another request.
        let asked = stage.auth.count("refresh_token");
        assert!(host.call("tools/list").await.unwrap_err().is_transient());
        assert_eq!(stage.auth.count("refresh_token"), asked);
        let account = host.account().await;
        assert!(matches!(account.state, AccountState::RefreshFailing(_)), "{account:?}");
        assert!(account.refreshable);
    }
    stage.auth.stop().await;
    assert!(host.call("tools/list").await.unwrap_err().is_transient());
    stage.auth.listen().await;
    // The longest backoff.
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(61)).await;
    tokio::time::resume();
    assert_eq!(host.call("tools/list").await.expect("it works again by itself"), 200);
    assert_eq!(host.account().await.state, AccountState::Ok);
    assert_eq!((stage.auth.authorizations(), stage.auth.reuse_detected()), (1, 0));
}

#[tokio::test]
async fn a_good_token_is_used_while_it_cannot_be_renewed() {
    let stage = TestStage::new().await;
    // Due at once, and valid for a while.
    stage.auth.arm(AuthFault::lifetime(Duration::from_secs(9)).on("authorization_code"));
    let host = stage.logged_in_client().await;
    let mut keep = pin!(host.identity.keep_refreshed());
    stage.auth.arm(AuthFault::status(503).on("refresh_token").always());
    tokio::select! {
        () = &mut keep => unreachable!("it never ends"),
        _ = stage.auth.wait_for(|seen| seen.matches("refresh_token") && seen.status == 503, TEST_TIMEOUT) => {}
    }
    let called = timeout(Duration::from_secs(3), host.call("tools/list")).await.expect("at once");
    assert_eq!(called.unwrap(), 200);
}

#[tokio::test]
async fn an_ended_login_is_replaced_by_a_login_elsewhere() {
    let stage = TestStage::new().await;
    stage.logged_in_client().await;
    let lonely = stage.client_without_person();
    lonely.identity.load().await.unwrap();
    stage.auth.revoke_all();
    let error = lonely.call("tools/list").await.unwrap_err();
    assert_eq!(error.kind, AuthErrorKind::LoginNeeded);
    assert!(error.hint.is_some());
    assert!(matches!(lonely.account().await.state, AccountState::NeedsLogin(_)));
    // The spent refresh token is not sent again.
    let asked = stage.auth.count("refresh_token");
    lonely.call("tools/list").await.unwrap_err();
    assert_eq!(stage.auth.count("refresh_token"), asked);

    let mut changes = lonely.identity.watch_generation();
    let elsewhere = async {
        stage.client().identity.login(&bowline_auth::LoginOptions::default()).await.unwrap();
        changes.changed().await.unwrap();
    };
    tokio::select! {
        () = lonely.identity.keep_refreshed() => unreachable!("it never ends"),
        () = elsewhere => {}
    }
    assert_eq!(lonely.call("tools/list").await.unwrap(), 200);
}

// TK-04: with a person present, one call does it all.
#[tokio::test]
async fn a_login_that_was_ended_is_had_again_in_the_same_call() {
    let stage = TestStage::new().await;
    let host = stage.logged_in_client().await;
    stage.auth.revoke_all();
    assert_eq!(host.call("tools/list").await.unwrap(), 200);
    assert_eq!(host.pages(), 2);
}

#[tokio::test]
async fn an_unknown_registered_client_is_registered_again_at_login() {
    let stage = TestStage::new().await;
    let host = stage.logged_in_client().await;
    stage.auth.revoke_all_access();
    stage.auth.forget_registered_clients();
    assert_eq!(host.call("tools/list").await.unwrap(), 200);
    assert_eq!((stage.auth.registrations(), host.pages()), (2, 2));
}

#[tokio::test]
async fn a_configured_client_is_never_touched() {
    let stage =
        TestStage::with(auth_server().client(AuthClient::basic("ours", "secret")).no_registration(), |it| it)
            .await;
    let auth = |secret| with!(AuthSettings::default(), client: Some(client_settings("ours", secret)));
    let host = stage.client_with_auth(auth("secret"));
    assert_eq!(host.call("tools/list").await.unwrap(), 200);
    let before = host.account().await;
    // The configuration has a wrong secret.
    stage.auth.revoke_all_access();
    let broken = stage.client_with_auth(auth("wrong"));
    broken.identity.load().await.unwrap();
    let error = broken.call("tools/list").await.unwrap_err();
    assert_eq!(error.kind, AuthErrorKind::Setup, "{error}");
    assert_eq!(broken.pages(), 0);
    assert_eq!(host.account().await, before);
    // It is corrected.
    let mended = stage.client_with_auth(auth("secret"));
    mended.identity.load().await.unwrap();
    assert_eq!(mended.call("tools/list").await.unwrap(), 200);
    assert_eq!((mended.pages(), stage.auth.refreshes()), (0, 1));
}

//! A login that cannot be saved for a while is not lost, and no older one replaces it.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bowline_auth::{AuthErrorKind, LoginOptions, LogoutOutcome, RefreshState};
use bowline_config::{KeyLocation, StoreBackend, StoreConfig};
use bowline_testkit::{AuthFault, AuthScript, RefreshTokenPolicy, auth_server, with};
use tokio::time::timeout;

use crate::failing_store::FailingStore;
use crate::support::{TEST_TIMEOUT, TestClient, TestStage};

const SAVE_ERROR: &str = "the refreshed login of `search` could not be stored: the disk is full";

async fn stage(script: AuthScript) -> (Arc<FailingStore>, TestStage) {
    let (store, encrypted) = FailingStore::new();
    (store, TestStage { store: encrypted, ..TestStage::with(script, |it| it).await })
}

/// Runs `work` while saves fail, until the login is used unsaved. The clock is paused to skip the
/// save retries.
fn with_failing_store<'a, T>(
    store: &'a FailingStore,
    host: &'a TestClient,
    work: impl Future<Output = T> + 'a,
) -> impl Future<Output = T> + 'a {
    let mut work = Box::pin(work);
    async move {
        store.set_failing(true);
        let mut changes = host.identity.watch_generation();
        tokio::select! {
            _ = &mut work => panic!("it was to be tried to be written down"),
            () = store.wait_for_failed_write() => {}
        }
        tokio::time::pause();
        changes.changed().await.unwrap();
        tokio::time::resume();
        timeout(TEST_TIMEOUT, work).await.expect("it is used all the same")
    }
}

/// Keeps the login refreshed until it is saved.
async fn keep_until_saved(store: &FailingStore, host: &TestClient) {
    tokio::time::pause();
    tokio::select! {
        () = host.identity.keep_refreshed() => unreachable!("it never ends"),
        written = timeout(TEST_TIMEOUT, store.wait_for_write()) => written.expect("it is written when it can be"),
    }
    tokio::time::resume();
}

#[tokio::test]
async fn a_renewed_token_is_written_when_it_can_be() {
    let (store, stage) = stage(auth_server()).await;
    let host = stage.logged_in_client().await;
    stage.auth.revoke_all_access();
    assert_eq!(with_failing_store(&store, &host, host.call("tools/list")).await.unwrap(), 200);
    store.set_failing(false);
    keep_until_saved(&store, &host).await;
    // Another process, or the next one.
    stage.auth.revoke_all_access();
    let next = stage.client_without_person();
    next.identity.load().await.unwrap();
    assert_eq!(next.call("tools/list").await.unwrap(), 200);
    assert_eq!(host.call("tools/list").await.unwrap(), 200);
    assert_eq!((stage.auth.refreshes(), stage.auth.reuse_detected()), (2, 0));
}

/// The next process finds the saved login, and refreshes it once more.
async fn check_next_process_finds_it(stage: &TestStage) {
    stage.auth.revoke_all_access();
    let next = stage.client_without_person();
    next.identity.load().await.unwrap();
    assert_eq!(next.call("tools/list").await.unwrap(), 200);
    assert_eq!((stage.auth.refreshes(), stage.auth.reuse_detected()), (2, 0));
}

#[tokio::test]
async fn a_shutdown_saves_the_login() {
    let (store, stage) = stage(auth_server()).await;
    let host = stage.logged_in_client().await;
    stage.auth.revoke_all_access();
    assert_eq!(with_failing_store(&store, &host, host.call("tools/list")).await.unwrap(), 200);
    store.set_failing(false);
    host.identity.shut_down().await.unwrap();
    check_next_process_finds_it(&stage).await;
}

#[tokio::test]
async fn a_program_that_ends_goes_on_trying_to_write_a_renewed_token() {
    let (store, stage) = stage(auth_server()).await;
    let host = stage.logged_in_client().await;
    stage.auth.revoke_all_access();
    with_failing_store(&store, &host, host.call("tools/list")).await.unwrap();
    let waiting = host.identity.refresh_state();
    assert!(matches!(waiting.current(), RefreshState::Store(error) if error.what == SAVE_ERROR));
    tokio::time::pause();
    let mended = async {
        tokio::time::sleep(Duration::from_secs(240)).await;
        store.set_failing(false);
    };
    let (settled, ()) = tokio::join!(host.identity.shut_down(), mended);
    tokio::time::resume();
    settled.unwrap();
    assert_eq!(waiting.current(), RefreshState::Idle);
    check_next_process_finds_it(&stage).await;
}

#[tokio::test]
async fn a_refreshed_token_that_stays_unsaved_is_reported_at_shutdown() {
    let (store, stage) = stage(auth_server()).await;
    let host = stage.logged_in_client().await;
    stage.auth.revoke_all_access();
    with_failing_store(&store, &host, host.call("tools/list")).await.unwrap();
    tokio::time::pause();
    let settled = timeout(Duration::from_secs(301), host.identity.shut_down()).await.expect("it ends");
    let error = settled.unwrap_err();
    assert_eq!(error.kind, AuthErrorKind::Store);
    assert_eq!(error.what, SAVE_ERROR);
    assert!(store.failed_writes() > 20, "it was tried again and again: {}", store.failed_writes());
}

#[tokio::test]
async fn an_unsaved_login_is_not_replaced_by_the_old_one_and_is_saved_later() {
    let (store, stage) = stage(auth_server().refresh_tokens(RefreshTokenPolicy::Never)).await;
    let host = stage.logged_in_client().await;
    stage.auth.revoke_all_access();
    assert_eq!(with_failing_store(&store, &host, host.call("tools/list")).await.unwrap(), 200);
    assert_eq!(host.pages(), 2);
    tokio::time::pause();
    let minutes = tokio::time::sleep(Duration::from_secs(180));
    tokio::select! {
        () = host.identity.keep_refreshed() => unreachable!("it never ends"),
        () = minutes => {}
    }
    tokio::time::resume();
    host.identity.load().await.unwrap();
    assert_eq!(host.call("tools/list").await.unwrap(), 200);
    assert_eq!(host.pages(), 2, "the new login is still held");
    store.set_failing(false);
    keep_until_saved(&store, &host).await;
    let next = stage.client_without_person();
    next.identity.load().await.unwrap();
    assert_eq!(next.call("tools/list").await.unwrap(), 200);
}

#[tokio::test]
async fn a_login_elsewhere_counts_more_than_one_that_was_not_written() {
    let (store, stage) = stage(auth_server().refresh_tokens(RefreshTokenPolicy::Never)).await;
    let host = stage.client();
    let login = LoginOptions::default();
    with_failing_store(&store, &host, host.identity.login(&login)).await.unwrap();
    store.set_failing(false);
    stage.client().identity.login(&login).await.unwrap();
    let elsewhere = host.account().await;
    host.identity.shut_down().await.unwrap();
    assert_eq!(host.account().await, elsewhere, "it is not overwritten");
    assert_eq!(host.call("tools/list").await.unwrap(), 200);
}

#[tokio::test]
async fn a_first_login_that_was_not_written_is_renewed_and_written() {
    let (store, stage) = stage(auth_server()).await;
    let host = stage.client();
    with_failing_store(&store, &host, host.identity.login(&LoginOptions::default())).await.unwrap();
    assert!(host.identity.account().await.unwrap().is_none());
    store.set_failing(false);
    stage.auth.revoke_all_access();
    assert_eq!(host.call("tools/list").await.unwrap(), 200);
    assert_eq!((host.pages(), stage.auth.refreshes()), (1, 1));
    let next = stage.client_without_person();
    next.identity.load().await.unwrap();
    assert_eq!(next.call("tools/list").await.unwrap(), 200);
}

#[tokio::test]
async fn a_logout_revokes_an_unsaved_login() {
    let (store, stage) = stage(auth_server()).await;
    let host = stage.client();
    with_failing_store(&store, &host, host.identity.login(&LoginOptions::default())).await.unwrap();
    store.set_failing(false);
    assert_eq!(host.identity.logout().await.unwrap(), LogoutOutcome::Revoked);
    assert!(!host.identity.has_credentials());
    host.identity.shut_down().await.unwrap();
    assert!(host.identity.account().await.unwrap().is_none());
}

#[tokio::test]
async fn a_login_that_was_unreadable_at_first_is_refreshed_without_a_prompt() {
    let (store, stage) = stage(auth_server()).await;
    stage.auth.arm(AuthFault::lifetime(Duration::from_secs(1)).on("authorization_code"));
    let before = stage.client();
    before.identity.login(&LoginOptions::default()).await.unwrap();
    let due = async {
        while !before.identity.is_due() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(TEST_TIMEOUT, due).await.expect("it ends by the clock");
    for host in [stage.client(), stage.client_without_person()] {
        store.fail_reads(1);
        host.identity.load().await.unwrap_err();
        assert_eq!(host.call("tools/list").await.unwrap(), 200);
        assert_eq!((host.pages(), stage.auth.refreshes()), (0, 1));
    }
}

// A store that was recreated restarts its versions.
#[cfg(unix)]
#[tokio::test]
async fn a_login_in_a_store_that_was_made_anew_is_found() {
    let mut stage = TestStage::new().await;
    let folder = tempfile::tempdir().unwrap();
    let keeping = with!(StoreConfig::default(), backend: StoreBackend::Sqlite(None), key: KeyLocation::File);
    stage.store = bowline_store::open(&keeping, folder.path()).await.unwrap().store;
    let host = stage.logged_in_client().await;
    for _ in 0..3 {
        stage.auth.revoke_all_access();
        assert_eq!(host.call("tools/list").await.unwrap(), 200);
    }
    for name in ["store.db", "store.db-wal", "store.db-shm"] {
        let _ = std::fs::remove_file(folder.path().join(name));
    }
    stage.store = bowline_store::open(&keeping, folder.path()).await.unwrap().store;
    stage.client().identity.login(&LoginOptions::default()).await.unwrap();
    let generation = host.identity.generation();
    host.identity.load().await.unwrap();
    assert!(host.identity.generation() > generation, "it is another login");
    assert_eq!(host.send("tools/list").await.unwrap(), 200);
}

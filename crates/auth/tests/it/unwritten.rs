//! A login that cannot be saved for a while is not lost, and no older one replaces it.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bowline_auth::{AuthErrorKind, LoggedOut, LoginOptions, RefreshState};
use bowline_config::{Backend, Keeping, KeyPlace};
use bowline_testkit::{AuthScript, RefreshTokens, Twist, auth_server};
use tokio::time::timeout;

use crate::flaky::Flaky;
use crate::support::{Host, SOON, Stage};

const UNWRITTEN: &str = "the renewed login of `search` could not be written down: the disk is full";

async fn stage(script: AuthScript) -> (Arc<Flaky>, Stage) {
    let (store, safe) = Flaky::new();
    (store, Stage { safe, ..Stage::with(script, |it| it).await })
}

/// Runs `work` while saves fail, until the login is used unsaved. The clock is paused to skip the
/// save retries.
fn unwritten<'a, T>(
    store: &'a Flaky,
    host: &'a Host,
    work: impl Future<Output = T> + 'a,
) -> impl Future<Output = T> + 'a {
    let mut work = Box::pin(work);
    async move {
        store.set_broken(true);
        let mut changes = host.identity.changes();
        tokio::select! {
            _ = &mut work => panic!("it was to be tried to be written down"),
            () = store.denied() => {}
        }
        tokio::time::pause();
        changes.changed().await.unwrap();
        tokio::time::resume();
        timeout(SOON, work).await.expect("it is used all the same")
    }
}

/// Keeps the login refreshed until it is saved.
async fn kept(store: &Flaky, host: &Host) {
    tokio::time::pause();
    tokio::select! {
        () = host.identity.keep() => unreachable!("it never ends"),
        written = timeout(SOON, store.written()) => written.expect("it is written when it can be"),
    }
    tokio::time::resume();
}

#[tokio::test]
async fn a_renewed_token_is_written_when_it_can_be() {
    let (store, stage) = stage(auth_server()).await;
    let host = stage.logged_in().await;
    stage.auth.revoke_all_access();
    assert_eq!(unwritten(&store, &host, host.call("tools/list")).await.unwrap(), 200);
    store.set_broken(false);
    kept(&store, &host).await;
    // Another process, or the next one.
    stage.auth.revoke_all_access();
    let next = stage.lonely();
    next.identity.load().await.unwrap();
    assert_eq!(next.call("tools/list").await.unwrap(), 200);
    assert_eq!(host.call("tools/list").await.unwrap(), 200);
    assert_eq!((stage.auth.refreshes(), stage.auth.reuse_detected()), (2, 0));
}

/// The next process finds the saved login, and refreshes it once more.
async fn is_found_by_the_next(stage: &Stage) {
    stage.auth.revoke_all_access();
    let next = stage.lonely();
    next.identity.load().await.unwrap();
    assert_eq!(next.call("tools/list").await.unwrap(), 200);
    assert_eq!((stage.auth.refreshes(), stage.auth.reuse_detected()), (2, 0));
}

#[tokio::test]
async fn a_program_that_ends_writes_it_down() {
    let (store, stage) = stage(auth_server()).await;
    let host = stage.logged_in().await;
    stage.auth.revoke_all_access();
    assert_eq!(unwritten(&store, &host, host.call("tools/list")).await.unwrap(), 200);
    store.set_broken(false);
    host.identity.settle().await.unwrap();
    is_found_by_the_next(&stage).await;
}

#[tokio::test]
async fn a_program_that_ends_goes_on_trying_to_write_a_renewed_token() {
    let (store, stage) = stage(auth_server()).await;
    let host = stage.logged_in().await;
    stage.auth.revoke_all_access();
    unwritten(&store, &host, host.call("tools/list")).await.unwrap();
    let waiting = host.identity.refresh_state();
    assert!(matches!(&*waiting.borrow(), RefreshState::Store(error) if error.what == UNWRITTEN));
    tokio::time::pause();
    let mended = async {
        tokio::time::sleep(Duration::from_secs(240)).await;
        store.set_broken(false);
    };
    let (settled, ()) = tokio::join!(host.identity.settle(), mended);
    tokio::time::resume();
    settled.unwrap();
    assert_eq!(*waiting.borrow(), RefreshState::Idle);
    is_found_by_the_next(&stage).await;
}

#[tokio::test]
async fn a_renewed_token_that_stays_unwritten_is_reported_when_a_program_ends() {
    let (store, stage) = stage(auth_server()).await;
    let host = stage.logged_in().await;
    stage.auth.revoke_all_access();
    unwritten(&store, &host, host.call("tools/list")).await.unwrap();
    tokio::time::pause();
    let settled = timeout(Duration::from_secs(301), host.identity.settle()).await.expect("it ends");
    let error = settled.unwrap_err();
    assert_eq!(error.kind, AuthErrorKind::Store);
    assert_eq!(error.what, UNWRITTEN);
    assert!(store.denials() > 20, "it was tried again and again: {}", store.denials());
}

#[tokio::test]
async fn a_new_login_is_not_replaced_by_the_old_one_and_written_when_it_can_be() {
    let (store, stage) = stage(auth_server().refresh_tokens(RefreshTokens::Never)).await;
    let host = stage.logged_in().await;
    stage.auth.revoke_all_access();
    assert_eq!(unwritten(&store, &host, host.call("tools/list")).await.unwrap(), 200);
    assert_eq!(host.pages(), 2);
    tokio::time::pause();
    let minutes = tokio::time::sleep(Duration::from_secs(180));
    tokio::select! {
        () = host.identity.keep() => unreachable!("it never ends"),
        () = minutes => {}
    }
    tokio::time::resume();
    host.identity.load().await.unwrap();
    assert_eq!(host.call("tools/list").await.unwrap(), 200);
    assert_eq!(host.pages(), 2, "the new login is still held");
    store.set_broken(false);
    kept(&store, &host).await;
    let next = stage.lonely();
    next.identity.load().await.unwrap();
    assert_eq!(next.call("tools/list").await.unwrap(), 200);
}

#[tokio::test]
async fn a_login_elsewhere_counts_more_than_one_that_was_not_written() {
    let (store, stage) = stage(auth_server().refresh_tokens(RefreshTokens::Never)).await;
    let host = stage.host();
    let login = LoginOptions::default();
    unwritten(&store, &host, host.identity.login(&login)).await.unwrap();
    store.set_broken(false);
    stage.host().identity.login(&login).await.unwrap();
    let elsewhere = host.account().await;
    host.identity.settle().await.unwrap();
    assert_eq!(host.account().await, elsewhere, "it is not overwritten");
    assert_eq!(host.call("tools/list").await.unwrap(), 200);
}

#[tokio::test]
async fn a_first_login_that_was_not_written_is_renewed_and_written() {
    let (store, stage) = stage(auth_server()).await;
    let host = stage.host();
    unwritten(&store, &host, host.identity.login(&LoginOptions::default())).await.unwrap();
    assert!(host.identity.account().await.unwrap().is_none());
    store.set_broken(false);
    stage.auth.revoke_all_access();
    assert_eq!(host.call("tools/list").await.unwrap(), 200);
    assert_eq!((host.pages(), stage.auth.refreshes()), (1, 1));
    let next = stage.lonely();
    next.identity.load().await.unwrap();
    assert_eq!(next.call("tools/list").await.unwrap(), 200);
}

#[tokio::test]
async fn what_was_not_written_is_ended_by_a_logout() {
    let (store, stage) = stage(auth_server()).await;
    let host = stage.host();
    unwritten(&store, &host, host.identity.login(&LoginOptions::default())).await.unwrap();
    store.set_broken(false);
    assert_eq!(host.identity.logout().await.unwrap(), LoggedOut::Revoked);
    assert!(!host.identity.has_credentials());
    host.identity.settle().await.unwrap();
    assert!(host.identity.account().await.unwrap().is_none());
}

#[tokio::test]
async fn a_login_that_could_not_be_read_at_first_is_renewed_and_nobody_is_asked() {
    let (store, stage) = stage(auth_server()).await;
    stage.auth.arm(Twist::lifetime(Duration::from_secs(1)).on("authorization_code"));
    let before = stage.host();
    before.identity.login(&LoginOptions::default()).await.unwrap();
    let due = async {
        while !before.identity.is_due() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(SOON, due).await.expect("it ends by the clock");
    for host in [stage.host(), stage.lonely()] {
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
    let mut stage = Stage::new().await;
    let folder = tempfile::tempdir().unwrap();
    let keeping = Keeping { backend: Backend::Sqlite(None), key: KeyPlace::File };
    stage.safe = bowline_store::open(&keeping, folder.path()).await.unwrap().safe;
    let host = stage.logged_in().await;
    for _ in 0..3 {
        stage.auth.revoke_all_access();
        assert_eq!(host.call("tools/list").await.unwrap(), 200);
    }
    for name in ["store.db", "store.db-wal", "store.db-shm"] {
        let _ = std::fs::remove_file(folder.path().join(name));
    }
    stage.safe = bowline_store::open(&keeping, folder.path()).await.unwrap().safe;
    stage.host().identity.login(&LoginOptions::default()).await.unwrap();
    let generation = host.identity.generation();
    host.identity.load().await.unwrap();
    assert!(host.identity.generation() > generation, "it is another login");
    assert_eq!(host.send("tools/list").await.unwrap(), 200);
}

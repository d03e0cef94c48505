//! Real processes that share a login in one SQLite file.

use std::time::{Duration, Instant};

use bowline_auth::{AccountState, LoginOptions};
use bowline_testkit::{AuthFault, auth_server};

use crate::support::{TEST_TIMEOUT, TestClient, TestStage};
use crate::worker::{Worker, open_store};

const PROCESSES: usize = 20;
const ROUNDS: u64 = 200;

/// A stage with its logins in a file, and a client that is logged in.
async fn stage(folder: &std::path::Path) -> (TestStage, TestClient) {
    // It rotates refresh tokens, and revokes the whole login when one is reused.
    let mut stage = TestStage::with(auth_server(), |it| it).await;
    stage.store = open_store(folder).await;
    let host = stage.client();
    host.identity.login(&LoginOptions::default()).await.unwrap();
    (stage, host)
}

// TK-04: in each round every token is revoked, and all are refused at once. One refreshes, nineteen
// adopt the result.
#[tokio::test(flavor = "multi_thread")]
async fn twenty_processes_never_use_a_refresh_token_twice() {
    let folder = tempfile::tempdir().unwrap();
    let (stage, host) = stage(folder.path()).await;
    let mut workers: Vec<Worker> =
        (0..PROCESSES).map(|_| Worker::start(folder.path(), &stage.server.url())).collect();
    for worker in &mut workers {
        assert_eq!(worker.outcome(), "ready");
    }
    for round in 1..=ROUNDS {
        stage.auth.revoke_all_access();
        workers.iter_mut().for_each(Worker::call);
        for worker in &mut workers {
            assert_eq!(worker.outcome(), "200", "round {round}");
        }
        assert_eq!(stage.auth.refreshes(), round, "one of them refreshed");
        stage.auth.clear_received();
    }
    let counts = stage.auth.counts();
    assert_eq!((counts.refreshes, counts.reuse_detected, counts.authorizations), (ROUNDS, 0, 1));
    assert_eq!(host.account().await.state, AccountState::Ok);
    assert_eq!(stage.auth.violations(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_process_blocks_refreshes_no_longer_than_its_lease() {
    let folder = tempfile::tempdir().unwrap();
    let (stage, host) = stage(folder.path()).await;
    let mut worker = Worker::start(folder.path(), &stage.server.url());
    assert_eq!(worker.outcome(), "ready");
    stage.auth.revoke_all_access();
    stage.auth.arm(AuthFault::silent().on("refresh_token"));
    worker.call();
    stage.auth.wait_for(|seen| seen.matches("refresh_token"), TEST_TIMEOUT).await;
    worker.kill();
    let killed = Instant::now();
    assert_eq!(host.call("tools/list").await.unwrap(), 200);
    assert!(killed.elapsed() < Duration::from_secs(35), "{:?}", killed.elapsed());
    let counts = stage.auth.counts();
    assert_eq!((counts.reuse_detected, counts.authorizations), (0, 1));
}

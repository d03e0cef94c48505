//! A server that stops, restarts, hangs, or requires a password.

use std::time::{Duration, Instant};

use bowline_config::{KeyLocation, Secret, StoreBackend, StoreConfig};
use bowline_store::{Precondition, Store as _, StoreError, StoreKeyLocation, ValkeyStore, Version, open};
use bowline_testkit::with;

use crate::key;
use crate::server::Server;

#[tokio::test]
async fn a_lost_connection_is_made_anew() {
    let mut server = Server::start();
    let store = server.store().await;
    let version = store.put(&key("a"), b"1", Precondition::Absent).await.unwrap().unwrap();
    for round in 0..5_u8 {
        server.kill();
        server.restart();
        // The server has lost its cached scripts too.
        let entry = store.get(&key("a")).await.unwrap().unwrap();
        assert!(entry.version >= version);
        let next = store.put(&key("a"), &[round], Precondition::AtVersion(entry.version)).await.unwrap();
        assert!(next > Some(entry.version), "round {round}");
    }
}

#[tokio::test]
async fn a_change_waits_for_a_server_that_is_being_restarted() {
    let mut server = Server::start();
    let store = server.store().await;
    let first = store.put(&key("a"), b"1", Precondition::Absent).await.unwrap().unwrap();
    server.kill();
    let changing =
        tokio::spawn(async move { store.put(&key("a"), b"2", Precondition::AtVersion(first)).await });
    // The server is down during the first attempts.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!changing.is_finished());
    server.restart();
    let changed = changing.await.unwrap().unwrap().expect("nobody else has changed it");
    assert_eq!(server.store().await.get(&key("a")).await.unwrap().unwrap().version, changed);
}

#[tokio::test]
async fn a_server_that_is_gone_is_told_in_time() {
    let mut server = Server::start();
    let store = server.store().await;
    server.kill();
    let since = Instant::now();
    let failed = store.put(&key("a"), b"1", Precondition::Any).await;
    assert!(matches!(failed, Err(StoreError::Unavailable(_))), "{failed:?}");
    assert!(since.elapsed() < Duration::from_secs(12), "{:?}", since.elapsed());
    let unreached = ValkeyStore::open(&server.url(), &mut Vec::new()).await;
    assert!(matches!(unreached, Err(StoreError::Unavailable(_))), "{unreached:?}");
}

#[tokio::test]
async fn a_server_that_hangs_is_given_up_on_and_taken_up_again() {
    let server = Server::start();
    let store = server.store().await;
    let version = store.put(&key("a"), b"1", Precondition::Absent).await.unwrap().unwrap();
    server.signal("-STOP");
    let since = Instant::now();
    let failed = store.get(&key("a")).await;
    server.signal("-CONT");
    assert!(matches!(failed, Err(StoreError::Unavailable(_))), "{failed:?}");
    assert!(since.elapsed() < Duration::from_secs(12), "{:?}", since.elapsed());
    assert_eq!(store.get(&key("a")).await.unwrap().unwrap().version, version);
}

#[tokio::test]
async fn a_change_whose_answer_was_lost_is_found_to_be_made() {
    let server = Server::start();
    let store = server.store().await;
    let first = store.put(&key("a"), b"1", Precondition::Absent).await.unwrap().unwrap();
    // The suspended server runs the command too late for the first attempt; by the second, the
    // change is made.
    server.signal("-STOP");
    let key = key("a");
    let (changed, ()) = tokio::join!(store.put(&key, b"2", Precondition::AtVersion(first)), async {
        tokio::time::sleep(Duration::from_millis(3500)).await;
        server.signal("-CONT");
    });
    let changed = changed.unwrap().expect("the change was ours, and is not reported as somebody else's");
    let entry = store.get(&key).await.unwrap().unwrap();
    assert_eq!((entry.value.as_slice(), entry.version), (&b"2"[..], changed));
}

#[tokio::test]
async fn versions_do_not_come_back_with_a_server_that_forgot_everything() {
    let mut server = Server::start_with(&["--appendonly", "no"]);
    let store = server.store().await;
    let before = store.put(&key("a"), b"1", Precondition::Absent).await.unwrap().unwrap();
    server.kill();
    server.restart();
    assert_eq!(store.get(&key("a")).await.unwrap(), None);
    let after = store.put(&key("a"), b"1", Precondition::Absent).await.unwrap().unwrap();
    assert!(after > before);
}

#[tokio::test]
async fn risky_server_settings_are_reported() {
    let mut notes = Vec::new();
    ValkeyStore::open(&Server::start().url(), &mut notes).await.unwrap();
    assert_eq!(notes, [""; 0]);

    let server = Server::start_with(&[
        "--appendonly",
        "no",
        "--maxmemory",
        "100mb",
        "--maxmemory-policy",
        "allkeys-lru",
    ]);
    ValkeyStore::open(&server.url(), &mut notes).await.unwrap();
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(notes[0].contains("appendonly") && notes[1].contains("maxmemory-policy"), "{notes:?}");
}

#[tokio::test]
async fn tk_03_a_password_is_used_and_not_told() {
    let (_server, port) = Server::start_on_port(|port| {
        vec!["--port".into(), port.to_string(), "--requirepass".into(), "hunter2".into()]
    });
    let url = |password: &str| Secret::new(format!("redis://:{password}@127.0.0.1:{port}/3"));
    let store = ValkeyStore::open(&url("hunter2"), &mut Vec::new()).await.unwrap();
    store.put(&key("a"), b"1", Precondition::Absent).await.unwrap().unwrap();
    let shown = format!("{store:?} {}", store.location());
    assert!(shown.contains(&port.to_string()) && shown.contains("database 3"), "{shown}");
    assert!(!shown.contains("hunter2"), "{shown}");

    match ValkeyStore::open(&url("hunter3"), &mut Vec::new()).await {
        Err(StoreError::Unusable(why)) => assert!(!why.contains("hunter3"), "{why}"),
        other => panic!("{other:?}"),
    }
    match ValkeyStore::open(&Secret::new("http://:hunter2@127.0.0.1"), &mut Vec::new()).await {
        Err(StoreError::Unusable(why)) => assert!(!why.contains("hunter2"), "{why}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn tk_03_what_is_kept_there_is_sealed() {
    let server = Server::start();
    let folder = tempfile::tempdir().unwrap();
    let keeping =
        with!(StoreConfig::default(), backend: StoreBackend::Valkey(server.url()), key: KeyLocation::File);
    let opened = open(&keeping, folder.path()).await.unwrap();
    assert_eq!(opened.key_location, StoreKeyLocation::File(folder.path().join("store.key")));
    opened.store.put(&key("a"), "a token", Precondition::Absent).await.unwrap().unwrap();
    let kept = server.store().await.get(&key("a")).await.unwrap().unwrap();
    assert!(!kept.value.windows(5).any(|it| it == b"token"));

    // Another machine, without the key.
    let other = tempfile::tempdir().unwrap();
    let refused = open(&keeping, other.path()).await;
    assert!(matches!(refused, Err(StoreError::Sealed(_))), "{refused:?}");
    // And with the key.
    std::fs::copy(folder.path().join("store.key"), other.path().join("store.key")).unwrap();
    let opened = open(&keeping, other.path()).await.unwrap();
    assert_eq!(opened.store.get::<String>(&key("a")).await.unwrap().unwrap().0, "a token");
}

#[tokio::test]
async fn what_is_not_ours_in_a_server_is_told() {
    let server = Server::start();
    let store = server.store().await;
    let client = redis::Client::open(server.url().expose()).unwrap();
    let mut raw = client.get_multiplexed_async_connection().await.unwrap();
    let _: () =
        redis::cmd("HSET").arg("bowline:entries:test").arg("a").arg("x").query_async(&mut raw).await.unwrap();
    assert!(matches!(store.get(&key("a")).await, Err(StoreError::Unusable(_))));
    assert_eq!(store.put(&key("a"), b"1", Precondition::AtVersion(Version(1))).await.unwrap(), None);
    let _: () = redis::cmd("SET").arg("bowline:entries:test").arg("x").query_async(&mut raw).await.unwrap();
    assert!(matches!(store.list("test").await, Err(StoreError::Unusable(_))));
    assert!(matches!(store.put(&key("a"), b"1", Precondition::Any).await, Err(StoreError::Unusable(_))));
}

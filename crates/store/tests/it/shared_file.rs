//! Many processes with one SQLite file.

use bowline_config::StoreConfig;
use bowline_store::{Precondition, StoreError, StoreKeyLocation, Version};

use crate::processes::{self, PROCESSES};
use crate::text;
use crate::worker::{INCREMENTS, Worker};

#[tokio::test]
async fn no_update_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    // The workers also create the file.
    let last = processes::no_update_is_lost(text(&folder.path().join("store.db"))).await;
    assert_eq!(last, Version(INCREMENTS * PROCESSES as u64), "one version for each change, and none besides");
}

#[tokio::test]
async fn a_killed_holder_frees_its_lease() {
    let folder = tempfile::tempdir().unwrap();
    processes::a_killed_holder_frees_its_lease(text(&folder.path().join("store.db"))).await;
}

#[tokio::test]
async fn tk_03_all_first_ones_agree_on_one_key() {
    let folder = tempfile::tempdir().unwrap();
    let workers: Vec<Worker> = (0..PROCESSES).map(|_| Worker::start("key", text(folder.path()))).collect();
    workers.into_iter().for_each(Worker::done);

    let opened = bowline_store::open(&StoreConfig::default(), folder.path()).await.unwrap();
    assert_eq!(opened.key_location, StoreKeyLocation::File(folder.path().join("store.key")));
    let values: Vec<(_, String, _)> = opened.store.list("test").await.unwrap();
    assert_eq!(values.len(), PROCESSES, "each wrote something, and all of it can be read with the one key");
    assert!(values.iter().all(|(key, value, _)| key.id == *value));
}

/// A process that is suspended during a change keeps the file locked.
#[tokio::test]
async fn a_file_that_another_process_keeps_locked_is_named_with_the_next_step() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let store = crate::sqlite(&path).await;
    let holder = rusqlite::Connection::open(&path).unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    let refused = store.put(&crate::key("a"), b"1", Precondition::Any).await.unwrap_err();
    let told = format!("{} is locked by another bowline process", path.display());
    assert!(matches!(refused, StoreError::Unavailable(_)), "{refused:?}");
    assert!(refused.to_string().starts_with(&told), "{refused}");
    assert!(refused.to_string().contains("`bowline ps`"), "{refused}");
    holder.execute_batch("ROLLBACK").unwrap();
    store.put(&crate::key("a"), b"1", Precondition::Any).await.unwrap();
}

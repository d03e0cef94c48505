//! Files as they lie on the disk: who can read them, and what is done with those that are not right.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use bowline_config::{Backend, Keeping, KeyPlace};
use bowline_store::{Expect, Opened, Sqlite, StoreError, open};

use crate::{key, sqlite};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn with_file_key() -> Keeping {
    Keeping { backend: Backend::Sqlite(None), key: KeyPlace::File }
}

async fn opened(state: &Path) -> Opened {
    open(&with_file_key(), state).await.unwrap()
}

async fn refused(path: &Path) -> String {
    match Sqlite::open(path, &mut Vec::new()).await {
        Err(StoreError::Unusable(why)) => {
            assert!(why.contains(path.to_str().unwrap()), "{why}");
            why
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn tk_03_only_the_owner_can_read_them() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("new/state");
    let opened = opened(&state).await;
    opened.safe.put(&key("a"), "x", Expect::Nothing).await.unwrap().unwrap();

    assert_eq!((mode(&folder.path().join("new")), mode(&state)), (0o700, 0o700));
    let mut names: Vec<String> = fs::read_dir(&state)
        .unwrap()
        .map(|file| {
            let path = file.unwrap().path();
            assert_eq!(mode(&path), 0o600, "{}", path.display());
            path.file_name().unwrap().to_str().unwrap().to_owned()
        })
        .collect();
    names.sort();
    assert_eq!(names, ["store.db", "store.db-shm", "store.db-wal", "store.key"]);
}

#[tokio::test]
async fn tk_03_looser_permissions_are_mended_and_told() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let first = opened(&state).await;
    first.safe.put(&key("a"), "x", Expect::Nothing).await.unwrap().unwrap();
    // The first one stays open: so do the files beside.
    let files = ["store.db", "store.db-wal", "store.db-shm", "store.key"].map(|name| state.join(name));
    for file in &files {
        fs::set_permissions(file, Permissions::from_mode(0o644)).unwrap();
    }
    fs::set_permissions(&state, Permissions::from_mode(0o755)).unwrap();

    let again = opened(&state).await;
    for file in files.iter().chain([&state]) {
        assert_eq!(mode(file) & 0o077, 0, "{}", file.display());
        let told = |note: &&String| note.contains(&format!("{} (mode", file.display()));
        assert_eq!(again.notes.iter().filter(told).count(), 1, "{:?}", again.notes);
    }
    assert_eq!(again.safe.get::<String>(&key("a")).await.unwrap().unwrap().0, "x");
    assert_eq!(opened(&state).await.notes, [""; 0]);
}

#[tokio::test]
async fn a_folder_that_is_shared_by_intent_stays_so() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o1777)).unwrap();
    opened(folder.path()).await;
    assert_eq!(mode(folder.path()), 0o777);
    assert_eq!(mode(&folder.path().join("store.db")), 0o600);
}

#[tokio::test]
async fn what_is_no_database_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    for content in [&b"dear diary"[..], &[0; 4096], b"SQLite format 3\0 and then something else entirely"] {
        let content = content.repeat(40);
        fs::write(&path, &content).unwrap();
        refused(&path).await;
        assert_eq!(fs::read(&path).unwrap(), content);
    }
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(refused(&path).await.contains("not a file"));
}

#[tokio::test]
async fn a_damaged_file_is_told_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let store = sqlite(&path).await;
    for number in 0..200 {
        store.put(&key(&number.to_string()), &[7; 500], Expect::Nothing).await.unwrap().unwrap();
    }
    drop(store);
    // By another connection, so that all is in the one file.
    let db = rusqlite::Connection::open(&path).unwrap();
    db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    drop(db);
    let mut content = fs::read(&path).unwrap();
    let length = content.len();
    content[8192..length - 4096].fill(0xa5);
    fs::write(&path, &content).unwrap();

    let store = sqlite(&path).await;
    match store.list("test").await {
        Err(StoreError::Unusable(why)) => assert!(why.contains("damaged"), "{why}"),
        other => panic!("{other:?}"),
    }
    drop(store);
    assert!(path.exists());
}

#[tokio::test]
async fn a_file_of_a_later_version_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    drop(sqlite(&path).await);
    let db = rusqlite::Connection::open(&path).unwrap();
    db.pragma_update(None, "user_version", 1000).unwrap();
    drop(db);
    assert!(refused(&path).await.contains("later version"), "says why");
    let db = rusqlite::Connection::open(&path).unwrap();
    let version: i64 = db.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
    assert_eq!(version, 1000);
}

#[tokio::test]
async fn the_database_of_another_program_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let db = rusqlite::Connection::open(&path).unwrap();
    db.execute_batch("CREATE TABLE bookmarks (url TEXT)").unwrap();
    drop(db);
    assert!(refused(&path).await.contains("another program"), "says why");
}

#[tokio::test]
async fn nothing_is_confirmed_that_went_into_a_deleted_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let store = sqlite(&path).await;
    store.put(&key("a"), b"1", Expect::Nothing).await.unwrap().unwrap();
    fs::remove_file(&path).unwrap();
    for attempt in 0..2 {
        match store.put(&key("a"), b"2", Expect::Anything).await {
            Err(StoreError::Unavailable(why)) => assert!(why.contains("replaced"), "{why}"),
            other => panic!("attempt {attempt}: {other:?}"),
        }
        fs::write(&path, b"").unwrap();
    }
}

#[tokio::test]
async fn a_clock_that_was_set_back_holds_up_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let store = sqlite(&path).await;
    let ttl = std::time::Duration::from_secs(30);
    let lease = store.acquire("a", ttl).await.unwrap().unwrap();
    // As if it had been granted a day from now.
    let db = rusqlite::Connection::open(&path).unwrap();
    db.execute("UPDATE leases SET ends = ends + 86400000", []).unwrap();
    drop(db);
    assert!(store.acquire("a", ttl).await.unwrap().is_some());
    assert!(!store.renew(&lease, ttl).await.unwrap());
}

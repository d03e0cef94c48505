//! The files on disk: their permissions, and how unusable ones are treated.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use bowline_config::{KeyLocation, StoreBackend, StoreConfig};
use bowline_store::{OpenedStore, Precondition, SqliteStore, StoreError, open};
use bowline_testkit::with;

use crate::{key, sqlite};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn with_file_key() -> StoreConfig {
    with!(StoreConfig::default(), backend: StoreBackend::Sqlite(None), key: KeyLocation::File)
}

async fn opened(state: &Path) -> OpenedStore {
    open(&with_file_key(), state).await.unwrap()
}

async fn refused(path: &Path) -> String {
    match SqliteStore::open(path, &mut Vec::new()).await {
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
    opened.store.put(&key("a"), "x", Precondition::Absent).await.unwrap().unwrap();

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
    // Files that were never exposed are not repaired, and no note mentions them.
    let mended: Vec<_> = opened.notes.iter().filter(|note| note.contains("others")).collect();
    assert!(mended.is_empty(), "{mended:?}");
}

#[tokio::test]
async fn tk_03_looser_permissions_are_mended_and_told() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let first = opened(&state).await;
    first.store.put(&key("a"), "x", Precondition::Absent).await.unwrap().unwrap();
    // The first store stays open, and with it the companion files.
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
    assert_eq!(again.store.get::<String>(&key("a")).await.unwrap().unwrap().0, "x");
    assert_eq!(opened(&state).await.notes, [""; 0]);
}

/// Anyone who can write to the folder can plant a key or a login, so it is neither used nor
/// repaired.
#[tokio::test]
async fn a_folder_that_others_can_write_to_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path();
    for shared in [0o1777, 0o770, 0o707] {
        fs::set_permissions(state, Permissions::from_mode(shared)).unwrap();
        let error = open(&with_file_key(), state).await.unwrap_err();
        assert!(matches!(&error, StoreError::Unusable(why) if why.contains("chmod 700")), "{error}");
        assert_eq!((mode(state), fs::read_dir(state).unwrap().count()), (shared & 0o777, 0));
    }
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
        store.put(&key(&number.to_string()), &[7; 500], Precondition::Absent).await.unwrap().unwrap();
    }
    drop(store);
    // With another connection, so that everything is in the main file.
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
    store.put(&key("a"), b"1", Precondition::Absent).await.unwrap().unwrap();
    fs::remove_file(&path).unwrap();
    match store.put(&key("a"), b"2", Precondition::Any).await {
        Err(StoreError::Unavailable(why)) => assert!(why.contains("removed"), "{why}"),
        other => panic!("{other:?}"),
    }
    assert!(!path.exists(), "it is not made anew behind anybody's back");
    // From here on, confirmed writes are in the file that everybody sees.
    fs::write(&path, b"").unwrap();
    store.put(&key("a"), b"3", Precondition::Absent).await.unwrap().unwrap();
    let seen = sqlite(&path).await.get(&key("a")).await.unwrap().unwrap();
    assert_eq!(seen.value, b"3");
}

/// Moves a store away, and creates another in its place.
async fn replace(state: &Path) -> OpenedStore {
    for name in ["store.db", "store.db-wal", "store.db-shm"] {
        let _ = fs::rename(state.join(name), state.join(format!("old-{name}")));
    }
    opened(state).await
}

#[tokio::test]
async fn a_file_that_takes_the_place_of_the_one_in_use_is_used() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path();
    let before = opened(state).await.store;
    for value in ["1", "2", "3"] {
        before.put(&key("a"), value, Precondition::Any).await.unwrap().unwrap();
    }
    let after = replace(state).await.store;
    after.put(&key("a"), "new", Precondition::Absent).await.unwrap().unwrap();
    fs::set_permissions(state.join("store.db"), Permissions::from_mode(0o644)).unwrap();
    let (read, _) = before.get::<String>(&key("a")).await.unwrap().unwrap();
    assert_eq!(read, "new");
    assert_eq!(mode(&state.join("store.db")), 0o600, "as when it is opened");
    before.put(&key("b"), "both", Precondition::Absent).await.unwrap().unwrap();
    assert_eq!(after.get::<String>(&key("b")).await.unwrap().unwrap().0, "both");
    let lease = before.acquire("x", std::time::Duration::from_secs(30)).await.unwrap();
    assert!(lease.is_some());
    assert!(after.acquire("x", std::time::Duration::from_secs(30)).await.unwrap().is_none());
}

#[tokio::test]
async fn tk_03_a_replacement_file_with_another_key_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path();
    let before = opened(state).await.store;
    before.put(&key("a"), "1", Precondition::Absent).await.unwrap().unwrap();
    let mut files = fs::read_dir(state).unwrap().map(|it| it.unwrap().path());
    let key_file = files.find(|it| !it.to_str().unwrap().contains("store.db")).unwrap();
    fs::rename(&key_file, folder.path().join("old-key")).unwrap();
    let after = replace(state).await.store;
    let written = before.put(&key("a"), "2", Precondition::Any).await;
    assert!(matches!(written, Err(StoreError::Sealed(_))), "{written:?}");
    let read = before.get::<String>(&key("a")).await;
    assert!(matches!(read, Err(StoreError::Sealed(_))), "{read:?}");
    assert!(after.get::<String>(&key("a")).await.unwrap().is_none(), "nothing of ours is in it");
    // A file without a mark may still get the right one.
    for name in ["store.db", "store.db-wal", "store.db-shm"] {
        let _ = fs::remove_file(state.join(name));
    }
    drop(sqlite(&state.join("store.db")).await);
    let written = before.put(&key("a"), "2", Precondition::Any).await;
    assert!(matches!(written, Err(StoreError::Unavailable(_))), "{written:?}");
}

#[tokio::test]
async fn a_lease_begins_when_it_is_granted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let store = sqlite(&path).await;
    let (ttl, busy) = (std::time::Duration::from_millis(1500), std::time::Duration::from_millis(2500));
    let kept_busy = |db: rusqlite::Connection| {
        db.execute_batch("BEGIN IMMEDIATE").unwrap();
        tokio::spawn(async move {
            tokio::time::sleep(busy).await;
            db.execute_batch("COMMIT").unwrap();
        })
    };
    let writer = kept_busy(rusqlite::Connection::open(&path).unwrap());
    let lease = store.acquire("a", ttl).await.unwrap().unwrap();
    assert!(store.acquire("a", ttl).await.unwrap().is_none(), "its whole time is left");
    writer.await.unwrap();
    assert!(store.renew(&lease, std::time::Duration::from_secs(30)).await.unwrap());
    let writer = kept_busy(rusqlite::Connection::open(&path).unwrap());
    assert!(store.renew(&lease, ttl).await.unwrap());
    assert!(store.acquire("a", ttl).await.unwrap().is_none(), "nor when it is renewed");
    writer.await.unwrap();
}

#[tokio::test]
async fn a_clock_that_was_set_back_blocks_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let store = sqlite(&path).await;
    let ttl = std::time::Duration::from_secs(30);
    let lease = store.acquire("a", ttl).await.unwrap().unwrap();
    // As if it had been granted one day in the future.
    let db = rusqlite::Connection::open(&path).unwrap();
    db.execute("UPDATE leases SET ends = ends + 86400000", []).unwrap();
    drop(db);
    assert!(store.acquire("a", ttl).await.unwrap().is_some());
    assert!(!store.renew(&lease, ttl).await.unwrap());
}

/// A lease that is acquired under a lock belongs to the holder of the lock: any other was left by a
/// dead process.
#[tokio::test]
async fn a_lease_is_not_waited_for_if_its_holder_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let (first, second) = (sqlite(&path).await, sqlite(&path).await);
    let ttl = std::time::Duration::from_secs(30);
    let lock = first.lock("a").await.unwrap().unwrap();
    let lease = first.acquire("a", ttl).await.unwrap().unwrap();
    // Under any name of the file.
    let link = folder.path().join("link.db");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    for store in [&second, &sqlite(&link).await] {
        assert!(store.lock("a").await.unwrap().is_err(), "it is held");
        assert!(store.acquire("a", ttl).await.unwrap().is_none());
    }
    assert!(first.renew(&lease, ttl).await.unwrap(), "nobody took it away");
    drop(lock);
    assert!(second.acquire("a", ttl).await.unwrap().is_none(), "without the lock it may be somebody's");
    let _lock = second.lock("a").await.unwrap().unwrap();
    assert!(second.acquire("a", ttl).await.unwrap().is_some());
    assert!(!first.renew(&lease, ttl).await.unwrap());
}

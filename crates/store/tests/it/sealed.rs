//! Stored values can be decrypted with their key, under their name, and not otherwise.

use std::sync::Arc;

use bowline_config::{KeyLocation, StoreBackend, StoreConfig};
use bowline_store::{
    AppendOptions, EncryptedStore, LogName, LogStore as _, MemoryStore, Position, Precondition, ReadLimits,
    SealKey, Store, StoreError, StoreKeyLocation, StoreRecord, open, open_with_key,
};
use bowline_testkit::with;

use crate::{key, sqlite};

const SECRET: &str = "rt-5uper5ecretRefreshToken";

fn with_file_key() -> StoreConfig {
    with!(StoreConfig::default(), backend: StoreBackend::Sqlite(None), key: KeyLocation::File)
}

#[tokio::test]
async fn tk_03_no_secret_is_in_the_bytes_on_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let opened = open(&with_file_key(), folder.path()).await.unwrap();
    opened.store.put(&key("a"), SECRET, Precondition::Absent).await.unwrap().unwrap();
    opened.store.put(&key("b"), &vec![SECRET; 300], Precondition::Absent).await.unwrap().unwrap();
    assert!(opened.store.remove(&key("b"), Precondition::Any).await.unwrap());
    let (log, minute) = (LogName::new("a"), std::time::Duration::from_secs(60));
    opened.store.put_for(&key("c"), SECRET, minute, Precondition::Absent).await.unwrap().unwrap();
    opened
        .store
        .append(&log, &[SECRET.into(), SECRET.repeat(300).into()], AppendOptions::default())
        .await
        .unwrap();
    let read = opened.store.after(&log, Position::START, ReadLimits::default()).await.unwrap();
    assert_eq!(read.entries[0].value, SECRET.as_bytes());
    assert_eq!(opened.store.get::<String>(&key("c")).await.unwrap().unwrap().0, SECRET);
    assert_eq!(opened.store.get::<String>(&key("a")).await.unwrap().unwrap().0, SECRET);
    let shown = format!("{opened:?}");
    assert!(!shown.contains("5uper") && shown.contains("store.db"), "{shown}");

    let mut files = 0;
    for file in std::fs::read_dir(folder.path()).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        assert!(!bytes.windows(10).any(|it| SECRET.as_bytes().starts_with(it)));
        files += usize::from(!bytes.is_empty());
    }
    // Precondition: the value is there, and every file was searched.
    assert_eq!(files, 4, "database, its two companions, and the key");
}

#[tokio::test]
async fn tk_03_what_one_login_says_is_no_good_for_another() {
    let store = MemoryStore::new();
    let safe = EncryptedStore::new(Arc::new(store.clone()), SealKey::from_bytes([1; 32]));
    safe.put(&key("mine"), "my token", Precondition::Absent).await.unwrap();
    safe.put(&key("theirs"), "their token", Precondition::Absent).await.unwrap();
    let StoreRecord { value, .. } = store.get(&key("mine")).await.unwrap().unwrap();
    store.put(&key("theirs"), &value, Precondition::Any).await.unwrap();

    let swapped = safe.get::<String>(&key("theirs")).await;
    assert!(matches!(swapped, Err(StoreError::Sealed(_))), "{swapped:?}");
    let listed: Vec<(_, String, _)> = safe.list("test").await.unwrap();
    assert_eq!(
        listed.iter().map(|(key, value, _)| (key.id.as_str(), value.as_str())).collect::<Vec<_>>(),
        [("mine", "my token")]
    );
}

#[tokio::test]
async fn tk_03_an_entry_of_one_log_is_no_good_for_another() {
    let store = MemoryStore::new();
    let safe = EncryptedStore::new(Arc::new(store.clone()), SealKey::from_bytes([1; 32]));
    let (mine, theirs, options) = (LogName::new("mine"), LogName::new("theirs"), AppendOptions::default());
    safe.append(&mine, &[b"my event".to_vec()], options).await.unwrap();
    safe.append(&theirs, &[b"their event".to_vec()], options).await.unwrap();
    let sealed = store.after(&mine, Position::START, ReadLimits::default()).await.unwrap().entries.remove(0);
    store.append(&theirs, std::slice::from_ref(&sealed.value), options).await.unwrap();
    let swapped = safe.after(&theirs, Position::START, ReadLimits::default()).await;
    assert!(matches!(swapped, Err(StoreError::Sealed(_))), "{swapped:?}");
    // Neither is it a record, nor a record an entry.
    store.put(&key("mine"), &sealed.value, Precondition::Any).await.unwrap();
    let swapped = safe.get::<String>(&key("mine")).await;
    assert!(matches!(swapped, Err(StoreError::Sealed(_))), "{swapped:?}");
    safe.put(&key("mine"), "a record", Precondition::Any).await.unwrap();
    let record = store.get(&key("mine")).await.unwrap().unwrap();
    store.remove_log(&mine).await.unwrap();
    store.append(&mine, &[record.value], options).await.unwrap();
    let swapped = safe.after(&mine, Position::START, ReadLimits::default()).await;
    assert!(matches!(swapped, Err(StoreError::Sealed(_))), "{swapped:?}");
}

#[tokio::test]
async fn a_sealed_log_is_appended_to_followed_and_trimmed() {
    let safe = EncryptedStore::in_memory();
    let (log, options) = (LogName::new("a"), AppendOptions::default());
    let minute = std::time::Duration::from_secs(60);
    let entries = [vec![1; 10], Vec::new(), vec![2; 10]];
    let (heard, positions) =
        tokio::join!(safe.wait(&log, Position::START, minute), safe.append(&log, &entries, options));
    let positions = positions.unwrap();
    assert!(heard.unwrap());
    // The limit is one of what was appended, not of what was stored.
    let limits = ReadLimits::default().max_entries(3).max_bytes(20);
    let slice = safe.after(&log, Position::START, limits).await.unwrap();
    assert_eq!(slice.entries.iter().map(|it| it.value.clone()).collect::<Vec<_>>(), entries);
    safe.trim(&log, positions[1]).await.unwrap();
    let slice = safe.after(&log, positions[0], limits).await.unwrap();
    assert_eq!((slice.entries.len(), slice.has_gap, slice.oldest), (1, true, Some(positions[2])));
    assert!(safe.remove_log(&log).await.unwrap());
    assert_eq!(safe.add("a", 2, minute).await.unwrap(), 2);
    assert!(!safe.touch(&key("a"), minute).await.unwrap());
    safe.put_for(&key("a"), "1", minute, Precondition::Absent).await.unwrap().unwrap();
    assert!(safe.touch(&key("a"), minute).await.unwrap());
}

#[tokio::test]
async fn tk_03_a_wrong_key_is_told_from_damage() {
    let folder = tempfile::tempdir().unwrap();
    let backend = StoreBackend::Sqlite(None);
    let right = SealKey::from_bytes([1; 32]);
    let opened = open_with_key(&backend, folder.path(), right.clone()).await.unwrap();
    assert_eq!(opened.key_location, StoreKeyLocation::Caller);
    opened.store.put(&key("a"), SECRET, Precondition::Absent).await.unwrap().unwrap();

    // A wrong key is noticed at once when opening, or else at the first read.
    let wrong = SealKey::from_bytes([2; 32]);
    let refused = open_with_key(&backend, folder.path(), wrong.clone()).await;
    assert!(matches!(refused, Err(StoreError::Sealed(_))), "{refused:?}");
    let store = sqlite(&folder.path().join("store.db")).await;
    let unread = EncryptedStore::new(store.clone(), wrong).get::<String>(&key("a")).await;
    assert!(matches!(unread, Err(StoreError::Sealed(_))), "{unread:?}");

    // So is a changed value.
    let mut value = store.get(&key("a")).await.unwrap().unwrap().value;
    value[20] ^= 1;
    store.put(&key("a"), &value, Precondition::Any).await.unwrap().unwrap();
    match opened.store.get::<String>(&key("a")).await {
        Err(StoreError::Unusable(why)) => assert!(why.contains("damaged"), "{why}"),
        other => panic!("{other:?}"),
    }
    // The right key still opens the store itself.
    open_with_key(&backend, folder.path(), right).await.unwrap();
}

#[tokio::test]
async fn tk_03_a_lost_key_file_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let opened = open(&with_file_key(), folder.path()).await.unwrap();
    let file = folder.path().join("store.key");
    assert_eq!(opened.key_location, StoreKeyLocation::File(file.clone()));
    assert!(opened.notes.iter().any(|note| note.contains("store.key")), "{:?}", opened.notes);
    opened.store.put(&key("a"), SECRET, Precondition::Absent).await.unwrap().unwrap();

    let elsewhere = folder.path().join("elsewhere");
    std::fs::rename(&file, &elsewhere).unwrap();
    for key in [KeyLocation::File, KeyLocation::Auto] {
        match open(&with!(with_file_key(), key: key), folder.path()).await {
            Err(StoreError::Sealed(why)) => assert!(why.contains(file.to_str().unwrap()), "{why}"),
            other => panic!("{other:?}"),
        }
        assert!(!file.exists());
    }

    std::fs::rename(&elsewhere, &file).unwrap();
    let again = open(&with_file_key(), folder.path()).await.unwrap();
    assert_eq!(again.store.get::<String>(&key("a")).await.unwrap().unwrap().0, SECRET);
    assert_eq!(again.notes, [""; 0], "nothing is new");
}

#[tokio::test]
async fn tk_03_another_key_in_the_file_is_told() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for folder in [&one, &other] {
        open(&with_file_key(), folder.path()).await.unwrap();
    }
    std::fs::copy(other.path().join("store.key"), one.path().join("store.key")).unwrap();
    let refused = open(&with_file_key(), one.path()).await;
    assert!(matches!(refused, Err(StoreError::Sealed(_))), "{refused:?}");

    std::fs::write(one.path().join("store.key"), "hunter2").unwrap();
    match open(&with_file_key(), one.path()).await {
        Err(StoreError::Unusable(why)) => assert!(!why.contains("hunter2"), "{why}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_value_of_another_form_is_told_without_its_content() {
    let safe = EncryptedStore::in_memory();
    safe.put(&key("a"), SECRET, Precondition::Absent).await.unwrap();
    match safe.get::<u32>(&key("a")).await {
        Err(StoreError::Unusable(why)) => assert!(!why.contains("5uper"), "{why}"),
        other => panic!("{other:?}"),
    }
    let large = "x".repeat(2 << 20);
    assert!(matches!(safe.put(&key("a"), &large, Precondition::Any).await, Err(StoreError::Unusable(_))));
}

#[tokio::test]
async fn a_safe_in_memory_keeps_and_leases() {
    let safe = EncryptedStore::in_memory();
    let version = safe.put(&key("a"), &vec![1, 2, 3], Precondition::Absent).await.unwrap().unwrap();
    assert_eq!(safe.get::<Vec<u8>>(&key("a")).await.unwrap(), Some((vec![1, 2, 3], version)));
    let minute = std::time::Duration::from_secs(60);
    let lease = safe.acquire("a", minute).await.unwrap().unwrap();
    assert!(safe.clone().acquire("a", minute).await.unwrap().is_none());
    assert!(safe.renew(&lease, minute).await.unwrap());
    safe.release(lease).await.unwrap();
    assert!(safe.acquire("a", minute).await.unwrap().is_some());
}

//! Keyrings that work, that lose what they are given, that are locked, and that hang.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bowline_config::{KeyLocation, StoreConfig};
use parking_lot::Mutex;
use tempfile::TempDir;
use zeroize::Zeroizing;

use super::keyring::{Keyring, KeyringBackend};
use crate::open::open_with_keyring;
use crate::{Key, OpenedStore, Precondition, StoreError, StoreKeyLocation};

/// How a fake keyring behaves.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Behavior {
    Works,
    LosesWrites,
    GarblesWrites,
    Locked,
    Hangs,
}

/// A keyring with scripted behavior. Clones share their state.
#[derive(Clone)]
struct FakeKeyring {
    behavior: Arc<Mutex<Behavior>>,
    stored: Arc<Mutex<HashMap<String, String>>>,
    reads: Arc<Mutex<usize>>,
}

impl FakeKeyring {
    fn new(mood: Behavior) -> Self {
        Self { behavior: Arc::new(Mutex::new(mood)), stored: Arc::default(), reads: Arc::default() }
    }

    fn set_behavior(&self, mood: Behavior) {
        *self.behavior.lock() = mood;
    }

    fn act(&self) -> Result<Behavior, String> {
        // Without holding the lock, because a test may change it meanwhile.
        let mood = *self.behavior.lock();
        match mood {
            Behavior::Locked => Err("the collection is locked".into()),
            Behavior::Hangs => loop {
                std::thread::park();
            },
            mood => Ok(mood),
        }
    }

    /// The keyring as a new process sees it, with an empty cache.
    fn keyring_of_new_process(&self) -> Keyring {
        Keyring::new(self.clone(), Duration::from_millis(300))
    }
}

impl KeyringBackend for FakeKeyring {
    fn read(&mut self, name: &str) -> Result<Option<Zeroizing<String>>, String> {
        *self.reads.lock() += 1;
        self.act()?;
        Ok(self.stored.lock().get(name).cloned().map(Zeroizing::new))
    }

    fn write(&mut self, name: &str, text: &str) -> Result<(), String> {
        let text = match self.act()? {
            Behavior::LosesWrites => return Ok(()),
            Behavior::GarblesWrites => text.to_lowercase(),
            _ => text.to_owned(),
        };
        self.stored.lock().insert(name.to_owned(), text);
        Ok(())
    }
}

fn store_config(key: KeyLocation) -> StoreConfig {
    let mut config = StoreConfig::default();
    config.key = key;
    config
}

fn login() -> Key {
    Key::new("login", "a")
}

async fn open(fake: &FakeKeyring, key: KeyLocation, state: &TempDir) -> Result<OpenedStore, StoreError> {
    open_with_keyring(&store_config(key), state.path(), fake.keyring_of_new_process()).await
}

/// A store with a login, whose key is in the keyring.
async fn store_with_login(fake: &FakeKeyring) -> TempDir {
    let state = tempfile::tempdir().unwrap();
    let opened = open(fake, KeyLocation::Auto, &state).await.unwrap();
    assert_eq!(opened.key_location, StoreKeyLocation::Keyring);
    opened.store.put(&login(), "a token", Precondition::Absent).await.unwrap().unwrap();
    state
}

async fn token(opened: &OpenedStore) -> String {
    opened.store.get::<String>(&login()).await.unwrap().unwrap().0
}

fn key_file(state: &TempDir) -> std::path::PathBuf {
    state.path().join("store.key")
}

#[tokio::test]
async fn tk_03_the_keyring_has_the_key_and_the_disk_does_not() {
    let fake = FakeKeyring::new(Behavior::Works);
    let state = store_with_login(&fake).await;
    assert!(!key_file(&state).exists());
    let again = open(&fake, KeyLocation::Auto, &state).await.unwrap();
    assert_eq!(
        (again.key_location.clone(), token(&again).await.as_str()),
        (StoreKeyLocation::Keyring, "a token")
    );
    assert_eq!(fake.stored.lock().len(), 1, "one key for one store");
}

#[tokio::test]
async fn the_keyring_is_asked_once_in_a_process() {
    let fake = FakeKeyring::new(Behavior::Works);
    let state = store_with_login(&fake).await;
    *fake.reads.lock() = 0;
    let process = fake.keyring_of_new_process();
    for _ in 0..3 {
        let opened =
            open_with_keyring(&store_config(KeyLocation::Auto), state.path(), process.clone()).await.unwrap();
        assert_eq!(token(&opened).await, "a token");
    }
    assert_eq!(*fake.reads.lock(), 1);
}

#[tokio::test]
async fn tk_03_a_keyring_that_loses_what_it_is_given_is_not_believed() {
    for mood in [Behavior::LosesWrites, Behavior::GarblesWrites] {
        let fake = FakeKeyring::new(mood);
        let state = tempfile::tempdir().unwrap();
        match open(&fake, KeyLocation::Keyring, &state).await {
            Err(StoreError::Unavailable(why)) => assert!(why.contains("not to be trusted"), "{why}"),
            other => panic!("{mood:?}: {other:?}"),
        }
        // With `auto`, a file is used instead, with a note that says why.
        let opened = open(&fake, KeyLocation::Auto, &state).await.unwrap();
        assert_eq!(opened.key_location, StoreKeyLocation::File(key_file(&state)));
        assert!(opened.notes.iter().any(|note| note.contains("not to be trusted")), "{:?}", opened.notes);
        opened.store.put(&login(), "a token", Precondition::Absent).await.unwrap().unwrap();

        // It stays in the file after the keyring has recovered.
        fake.set_behavior(Behavior::Works);
        let again = open(&fake, KeyLocation::Auto, &state).await.unwrap();
        assert_eq!(
            (again.key_location.clone(), &again.notes[..]),
            (StoreKeyLocation::File(key_file(&state)), &[][..])
        );
        assert_eq!(token(&again).await, "a token");
    }
}

#[tokio::test]
async fn tk_03_no_fresh_key_when_the_keyring_is_locked_today() {
    for mood in [Behavior::Locked, Behavior::Hangs] {
        let fake = FakeKeyring::new(Behavior::Works);
        let state = store_with_login(&fake).await;
        fake.set_behavior(mood);
        for key in [KeyLocation::Auto, KeyLocation::Keyring, KeyLocation::File] {
            match open(&fake, key, &state).await {
                Err(StoreError::Unavailable(why)) => assert!(why.contains("Unlock"), "{why}"),
                other => panic!("{mood:?} {key:?}: {other:?}"),
            }
            assert!(!key_file(&state).exists());
        }
        fake.set_behavior(Behavior::Works);
        assert_eq!(token(&open(&fake, KeyLocation::Auto, &state).await.unwrap()).await, "a token");
    }
}

#[tokio::test]
async fn tk_03_no_fresh_key_when_the_keyring_has_lost_it() {
    let fake = FakeKeyring::new(Behavior::Works);
    let state = store_with_login(&fake).await;
    let kept = std::mem::take(&mut *fake.stored.lock());
    match open(&fake, KeyLocation::Auto, &state).await {
        Err(StoreError::Sealed(why)) => assert!(why.contains("store key "), "{why}"),
        other => panic!("{other:?}"),
    }
    assert!(fake.stored.lock().is_empty() && !key_file(&state).exists());
    *fake.stored.lock() = kept;
    assert_eq!(token(&open(&fake, KeyLocation::Auto, &state).await.unwrap()).await, "a token");
}

#[tokio::test]
async fn a_keyring_that_hangs_holds_up_a_new_store_only_for_a_while() {
    let fake = FakeKeyring::new(Behavior::Hangs);
    let state = tempfile::tempdir().unwrap();
    let opened = open(&fake, KeyLocation::Auto, &state).await.unwrap();
    assert_eq!(opened.key_location, StoreKeyLocation::File(key_file(&state)));
    assert!(opened.notes.iter().any(|note| note.contains("did not answer")), "{:?}", opened.notes);
    let refused = open(&fake, KeyLocation::Keyring, &tempfile::tempdir().unwrap()).await;
    assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
}

#[tokio::test]
async fn a_key_moves_to_where_it_was_chosen_to_be() {
    let fake = FakeKeyring::new(Behavior::Works);
    let state = store_with_login(&fake).await;

    let moved = open(&fake, KeyLocation::File, &state).await.unwrap();
    assert_eq!(
        (moved.key_location.clone(), token(&moved).await.as_str()),
        (StoreKeyLocation::File(key_file(&state)), "a token")
    );
    assert!(moved.notes.iter().any(|note| note.starts_with("moved")), "{:?}", moved.notes);
    // It stays there, and the keyring is not needed any more.
    fake.set_behavior(Behavior::Locked);
    let stays = open(&fake, KeyLocation::Auto, &state).await.unwrap();
    assert_eq!(
        (stays.key_location.clone(), stays.notes.len()),
        (StoreKeyLocation::File(key_file(&state)), 0)
    );

    match open(&fake, KeyLocation::Keyring, &state).await {
        Err(StoreError::Unavailable(why)) => assert!(why.contains("locked"), "{why}"),
        other => panic!("{other:?}"),
    }
    fake.set_behavior(Behavior::Works);
    fake.stored.lock().clear();
    let back = open(&fake, KeyLocation::Keyring, &state).await.unwrap();
    assert_eq!(
        (back.key_location.clone(), token(&back).await.as_str()),
        (StoreKeyLocation::Keyring, "a token")
    );
    std::fs::remove_file(key_file(&state)).unwrap();
    assert_eq!(token(&open(&fake, KeyLocation::Auto, &state).await.unwrap()).await, "a token");
}

#[tokio::test]
async fn tk_03_all_first_ones_agree_on_one_key_of_the_keyring() {
    let fake = FakeKeyring::new(Behavior::Works);
    let state = tempfile::tempdir().unwrap();
    let opening = (0..8).map(|number| {
        let (keyring, path) = (fake.keyring_of_new_process(), state.path().to_owned());
        tokio::spawn(async move {
            let opened = open_with_keyring(&store_config(KeyLocation::Auto), &path, keyring).await.unwrap();
            let key = Key::new("login", number.to_string());
            opened.store.put(&key, &number, Precondition::Absent).await.unwrap().unwrap();
        })
    });
    for opening in opening.collect::<Vec<_>>() {
        opening.await.unwrap();
    }
    let opened = open(&fake, KeyLocation::Auto, &state).await.unwrap();
    let values: Vec<(Key, i32, _)> = opened.store.list("login").await.unwrap();
    assert_eq!(values.len(), 8);
    assert_eq!(fake.stored.lock().len(), 1, "the others waited, and left nothing behind");
}

#[tokio::test]
async fn tk_03_a_key_of_the_keyring_is_not_in_the_words_of_an_error() {
    let fake = FakeKeyring::new(Behavior::Works);
    let state = store_with_login(&fake).await;
    let text = fake.stored.lock().values_mut().map(|it| std::mem::replace(it, "x".into())).next().unwrap();
    match open(&fake, KeyLocation::Auto, &state).await {
        Err(error @ StoreError::Sealed(_)) => {
            assert!(!format!("{error:?}").contains(&text["bowline-key-1:".len()..]), "{error:?}");
        }
        other => panic!("{other:?}"),
    }
}

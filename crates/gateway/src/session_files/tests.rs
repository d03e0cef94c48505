use std::fs;

use super::*;

const LIFETIME: Duration = Duration::from_secs(60);
/// The name of a session.
const NAME: &str = "0a0b";

fn any() -> RecordCheck {
    Box::new(|_| true)
}

fn session(record: &str, journal: &[&str]) -> StoredSession {
    let journal = journal.iter().map(|entry| entry.as_bytes().to_vec()).collect();
    StoredSession { record: record.as_bytes().to_vec(), journal }
}

#[tokio::test]
async fn a_session_is_loaded_as_it_was_saved() {
    let folder = tempfile::tempdir().unwrap();
    let first = SessionFiles::open(folder.path()).unwrap();
    assert_eq!(first.load(NAME, any()).await, Ok(None));
    let early = first.append(NAME, b"early".to_vec(), LIFETIME).await;
    assert_eq!(early.unwrap_err(), "the session has no file");
    drop(first.save(NAME, b"one".to_vec(), LIFETIME));
    drop(first.append(NAME, b"a".to_vec(), LIFETIME));
    drop(first.save(NAME, b"two".to_vec(), LIFETIME));
    first.append(NAME, b"b".to_vec(), LIFETIME).await.unwrap();
    drop(first.save("other", b"three".to_vec(), LIFETIME));
    first.release();
    first.flush().await.unwrap();
    let second = SessionFiles::open(folder.path()).unwrap();
    assert_eq!(second.load(NAME, any()).await, Ok(Some(session("two", &["a", "b"]))));
    assert_eq!(second.load("other", any()).await, Ok(Some(session("three", &[]))));
    // Another process goes on where this one ends.
    second.append(NAME, b"c".to_vec(), LIFETIME).await.unwrap();
    drop(second.remove("other"));
    second.release();
    second.flush().await.unwrap();
    let third = SessionFiles::open(folder.path()).unwrap();
    assert_eq!(third.load(NAME, any()).await, Ok(Some(session("two", &["a", "b", "c"]))));
    assert_eq!(third.load("other", any()).await, Ok(None));
    let late = third.append("other", b"late".to_vec(), LIFETIME).await;
    assert_eq!(late.unwrap_err(), "the session has no file");
}

/// Two processes that have one folder do not serve the same session.
#[tokio::test]
async fn a_session_has_one_owner() {
    let folder = tempfile::tempdir().unwrap();
    let [first, second, third] = [(); 3].map(|()| SessionFiles::open(folder.path()).unwrap());
    drop(first.save(NAME, b"record".to_vec(), LIFETIME));
    first.append(NAME, b"open".to_vec(), LIFETIME).await.unwrap();
    assert_eq!(second.load(NAME, any()).await, Ok(None));
    first.release();
    first.flush().await.unwrap();
    assert_eq!(second.load(NAME, any()).await, Ok(Some(session("record", &["open"]))));
    assert_eq!(third.load(NAME, any()).await, Ok(None));
    // What is not accepted does not change hands.
    second.release();
    second.flush().await.unwrap();
    assert_eq!(first.load(NAME, Box::new(|record| record != b"record")).await, Ok(None));
    assert_eq!(third.load(NAME, any()).await, Ok(Some(session("record", &["open"]))));
    let second = third;
    // Its own it can have again.
    assert_eq!(second.load(NAME, any()).await, Ok(Some(session("record", &["open"]))));
}

/// Processes that want a session at the same moment do not both get it.
#[test]
fn a_session_changes_hands_once() {
    let folder = tempfile::tempdir().unwrap();
    for turn in 0..50 {
        let name = format!("{turn:04x}");
        let mut first = SessionFolder::open(folder.path()).unwrap();
        first.save(&name, b"record", LIFETIME).unwrap();
        first.release();
        let start = std::sync::Barrier::new(3);
        let loaded: Vec<_> = std::thread::scope(|scope| {
            let loads: Vec<_> = (0..3)
                .map(|_| {
                    let mut other = SessionFolder::open(folder.path()).unwrap();
                    let (start, name) = (&start, &name);
                    scope.spawn(move || {
                        start.wait();
                        let loaded = other.load(name, |_| true).unwrap().is_some();
                        // It stays alive until all have tried.
                        start.wait();
                        loaded
                    })
                })
                .collect();
            loads.into_iter().map(|load| load.join().unwrap()).collect()
        });
        assert_eq!(loaded.iter().filter(|loaded| **loaded).count(), 1, "{turn}");
    }
}

/// Something else in place of a file is none.
#[cfg(unix)]
#[tokio::test]
async fn a_folder_or_a_link_is_no_session() {
    let folder = tempfile::tempdir().unwrap();
    let files = SessionFiles::open(folder.path()).unwrap();
    std::os::unix::fs::symlink("/dev/zero", folder.path().join("link")).unwrap();
    fs::create_dir(folder.path().join("folder")).unwrap();
    for name in ["link", "folder"] {
        assert_eq!(files.load(name, any()).await, Ok(None));
    }
}

#[tokio::test]
async fn a_session_ends_with_its_lifetime() {
    let folder = tempfile::tempdir().unwrap();
    let files = SessionFiles::open(folder.path()).unwrap();
    drop(files.save(NAME, b"record".to_vec(), Duration::ZERO));
    assert_eq!(files.load(NAME, any()).await, Ok(None));
    files.touch(NAME, LIFETIME);
    files.touch("other", LIFETIME);
    assert_eq!(files.load(NAME, any()).await, Ok(Some(session("record", &[]))));
    drop(files.save(NAME, b"later".to_vec(), Duration::ZERO));
    assert_eq!(files.load(NAME, any()).await, Ok(None), "a record has its own lifetime");
}

/// A crash of the machine may leave half of a write.
#[tokio::test]
async fn what_follows_damage_is_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let first = SessionFiles::open(folder.path()).unwrap();
    drop(first.save(NAME, b"record".to_vec(), LIFETIME));
    first.append(NAME, b"a".to_vec(), LIFETIME).await.unwrap();
    first.append(NAME, b"b".to_vec(), LIFETIME).await.unwrap();
    first.release();
    first.flush().await.unwrap();
    let path = folder.path().join(NAME);
    let length = fs::metadata(&path).unwrap().len();
    fs::File::options().write(true).open(&path).unwrap().set_len(length - 1).unwrap();
    let second = SessionFiles::open(folder.path()).unwrap();
    assert_eq!(second.load(NAME, any()).await, Ok(Some(session("record", &["a"]))));
    second.append(NAME, b"c".to_vec(), LIFETIME).await.unwrap();
    assert_eq!(second.load(NAME, any()).await, Ok(Some(session("record", &["a", "c"]))));
    fs::write(&path, "something else").unwrap();
    assert_eq!(second.load(NAME, any()).await, Ok(None));
}

#[tokio::test]
async fn a_file_has_a_limited_length() {
    let folder = tempfile::tempdir().unwrap();
    let files = SessionFiles::open(folder.path()).unwrap();
    drop(files.save(NAME, b"record".to_vec(), LIFETIME));
    for number in 0..20_u8 {
        files.append(NAME, vec![number; 1024 * 1024], LIFETIME).await.unwrap();
    }
    assert!(fs::metadata(folder.path().join(NAME)).unwrap().len() <= 9 * 1024 * 1024);
    let loaded = files.load(NAME, any()).await.unwrap().unwrap();
    assert_eq!(loaded.record, b"record");
    // Half of it is left each time, so at least the last three are.
    let kept: Vec<_> = loaded.journal.iter().map(|entry| entry[0]).collect();
    assert!(kept.ends_with(&[17, 18, 19]) && kept.is_sorted() && kept.len() < 9, "{kept:?}");
}

/// The newest entry is the response that its host may come back for.
#[tokio::test]
async fn the_newest_entry_is_kept_though_it_is_large() {
    let folder = tempfile::tempdir().unwrap();
    let files = SessionFiles::open(folder.path()).unwrap();
    drop(files.save(NAME, b"record".to_vec(), LIFETIME));
    for number in 0..4_u8 {
        files.append(NAME, vec![number; 1024 * 1024], LIFETIME).await.unwrap();
    }
    files.append(NAME, vec![4; 6 * 1024 * 1024], LIFETIME).await.unwrap();
    let loaded = files.load(NAME, any()).await.unwrap().unwrap();
    assert_eq!(loaded.record, b"record");
    let kept: Vec<_> = loaded.journal.iter().map(|entry| (entry[0], entry.len())).collect();
    assert_eq!(kept, [(4, 6 * 1024 * 1024)]);
}

#[tokio::test]
async fn the_number_of_open_files_is_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let files = SessionFiles::open(folder.path()).unwrap();
    let names: Vec<_> = (0..400).map(|number| format!("{number:04x}")).collect();
    for turn in ["a", "b"] {
        for name in &names {
            if turn == "a" {
                drop(files.save(name, name.as_bytes().to_vec(), LIFETIME));
            }
            drop(files.append(name, turn.as_bytes().to_vec(), LIFETIME));
        }
    }
    for name in &names {
        assert_eq!(files.load(name, any()).await, Ok(Some(session(name, &["a", "b"]))));
    }
}

#[test]
fn files_of_sessions_that_have_ended_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let mut files = SessionFolder::open(folder.path()).unwrap();
    files.save("ended", b"record", Duration::ZERO).unwrap();
    files.save("goes-on", b"record", 2 * LIFETIME).unwrap();
    fs::write(folder.path().join("foreign"), "of somebody else").unwrap();
    let draft = fs::File::create(folder.path().join("goes-on.0a.new")).unwrap();
    let day = 24 * 60 * 60 * 1_000;
    let now = format::now_ms();
    files.sweep(now);
    assert!(folder.path().join("ended").exists(), "it may be renewed");
    files.sweep(now + day);
    let names = || {
        let names = fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().file_name());
        let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    };
    assert_eq!(names(), ["foreign", "goes-on", "goes-on.0a.new", "key", "owners"]);
    draft.set_modified(std::time::SystemTime::now() - Duration::from_secs(2 * 60 * 60)).unwrap();
    files.sweep(now);
    assert_eq!(names(), ["foreign", "goes-on", "key", "owners"]);
}

#[cfg(unix)]
#[tokio::test]
async fn files_are_private_and_their_content_is_secret() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = tempfile::tempdir().unwrap();
    let files = SessionFiles::open(&folder.path().join("sessions")).unwrap();
    drop(files.save(NAME, b"swordfish".to_vec(), LIFETIME));
    files.append(NAME, b"swordfish".to_vec(), LIFETIME).await.unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let sessions = folder.path().join("sessions");
    assert_eq!((mode(&sessions), mode(&sessions.join("owners"))), (0o700, 0o700));
    assert_eq!((mode(&sessions.join("key")), mode(&sessions.join(NAME))), (0o600, 0o600));
    let bytes = fs::read(sessions.join(NAME)).unwrap();
    assert!(!bytes.windows(9).any(|part| part == b"swordfish"));
}

#[test]
fn something_else_in_place_of_the_key_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    for content in [&b"no key"[..], &[0xff; 32], b""] {
        fs::write(folder.path().join("key"), content).unwrap();
        assert!(matches!(SessionFiles::open(folder.path()), Err(StoreError::Unusable(_))));
    }
}

/// The ids of sessions are of the key of their folder, and so are those that hosts already have.
#[test]
fn se_08_a_folder_keeps_the_key_of_its_ids() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let open = |folder: &tempfile::TempDir| SessionFolder::open(folder.path()).unwrap();
    let key_of_ids = |folder: &SessionFolder| *folder.key().derive("ids of sessions");
    let mut first = open(&folder);
    let key = key_of_ids(&first);
    assert_eq!(key_of_ids(&open(&folder)), key, "after a restart, and in other processes");
    assert_ne!(key_of_ids(&open(&other)), key);
    fs::remove_file(folder.path().join("key")).unwrap();
    first.save(NAME, b"record", LIFETIME).unwrap();
    assert_eq!(key_of_ids(&open(&folder)), key, "also if somebody has cleaned up meanwhile");
}

/// Somebody may clean up while the files are in use.
#[cfg(unix)]
#[tokio::test]
async fn what_was_removed_is_created_again() {
    let folder = tempfile::tempdir().unwrap();
    let sessions = folder.path().join("sessions");
    let first = SessionFiles::open(&sessions).unwrap();
    first.save(NAME, b"record".to_vec(), LIFETIME).await.unwrap();
    first.append(NAME, b"a".to_vec(), LIFETIME).await.unwrap();
    fs::remove_dir_all(&sessions).unwrap();
    // What was written to a file without a name would be lost.
    let lost = first.append(NAME, b"b".to_vec(), LIFETIME).await;
    assert_eq!(lost.unwrap_err(), "the session has no file");
    first.save(NAME, b"again".to_vec(), LIFETIME).await.unwrap();
    first.append(NAME, b"c".to_vec(), LIFETIME).await.unwrap();
    let second = SessionFiles::open(&sessions).unwrap();
    assert_eq!(second.load(NAME, any()).await, Ok(None), "the first one serves it");
    fs::remove_dir_all(sessions.join("owners")).unwrap();
    first.save("other", b"record".to_vec(), LIFETIME).await.unwrap();
    assert_eq!(second.load(NAME, any()).await, Ok(None), "it still does");
    first.release();
    first.flush().await.unwrap();
    assert_eq!(second.load(NAME, any()).await, Ok(Some(session("again", &["c"]))));
}

/// Whoever waits is told that nothing is stored.
#[cfg(unix)]
#[tokio::test]
async fn a_folder_that_cannot_be_written_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let sessions = folder.path().join("sessions");
    let files = SessionFiles::open(&sessions).unwrap();
    // After the first sweep, which creates what is missing.
    files.flush().await.unwrap();
    fs::remove_dir_all(&sessions).unwrap();
    fs::write(&sessions, "something else").unwrap();
    assert!(files.save(NAME, b"record".to_vec(), LIFETIME).await.is_err());
}

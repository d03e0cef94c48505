//! Processes that are killed at arbitrary moments.

use std::time::{Duration, Instant};

use bowline_store::{Store, Version};

use crate::worker::Worker;
use crate::{key, sqlite, text};

/// The stored number, which must be complete, and its version.
async fn number(store: &dyn Store) -> (u64, Version) {
    let entry = store.get(&key("written")).await.unwrap().expect("something was written");
    let number = u64::from_be_bytes(entry.value[..8].try_into().unwrap());
    assert_eq!(entry.value, number.to_be_bytes().repeat(1500), "a change was half made");
    (number, entry.version)
}

fn check_integrity(path: &std::path::Path) {
    let db = rusqlite::Connection::open(path).unwrap();
    let verdict: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(verdict, "ok");
}

/// Waits for an irregular time, so that the kill hits any point of a change.
fn spin_briefly(round: u32) {
    let (since, moment) = (Instant::now(), Duration::from_micros(u64::from(round * 7919 % 4001)));
    while since.elapsed() < moment {
        std::hint::spin_loop();
    }
}

#[tokio::test]
async fn tk_03_what_was_confirmed_survives_each_of_two_hundred_kills() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let mut confirmed = (0, Version(0));
    let mut died_writing = 0;
    for round in 0..200 {
        // In half of the rounds a reader has the file open before the kill; in the others one opens
        // it afterwards.
        let witness = if round % 2 == 0 { Some(sqlite(&path).await) } else { None };
        let mut writer = Worker::start("write", text(&path));
        assert_eq!(writer.says().as_deref(), Some("ready"));
        let mut last = None;
        for _ in 0..=round % 5 {
            last = writer.says();
        }
        spin_briefly(round);
        writer.kill();
        // Everything it printed before it died had been confirmed.
        while let Some(line) = writer.says() {
            last = Some(line);
        }
        let last = last.expect("at least one number is confirmed in each round");
        let (said, version) = last.split_once(' ').unwrap();
        let said: (u64, Version) = (said.parse().unwrap(), Version(version.parse().unwrap()));
        assert!(said > confirmed, "{said:?} comes after {confirmed:?}");

        let store = match witness {
            Some(store) => store,
            None => sqlite(&path).await,
        };
        confirmed = number(&*store).await;
        assert!(confirmed >= said, "confirmed {said:?}, and found {confirmed:?}");
        assert!(confirmed.0 <= said.0 + 1, "confirmed {said:?}, and found {confirmed:?}");
        died_writing += u32::from(confirmed > said);
        drop(store);
    }
    check_integrity(&path);
    println!("{died_writing} of 200 died between writing and saying so; {confirmed:?} at the end");
}

#[tokio::test]
async fn a_file_that_was_being_made_is_never_left_unusable() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..25 {
        let path = folder.path().join(format!("{round}.db"));
        let mut writer = Worker::start("write", text(&path));
        let since = Instant::now();
        while !path.exists() {
            assert!(since.elapsed() < Duration::from_secs(20), "the file is never made");
            std::thread::yield_now();
        }
        spin_briefly(round);
        writer.kill();
        let store = sqlite(&path).await;
        store.put(&key("b"), b"1", bowline_store::Precondition::Absent).await.unwrap().unwrap();
        drop(store);
        check_integrity(&path);
    }
}

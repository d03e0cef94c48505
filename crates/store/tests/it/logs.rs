//! Logs in one SQLite file: many processes, killed writers, and disk space.

use std::time::{Duration, Instant};

use bowline_store::{AppendOptions, Durability, LogName, Position, Precondition};

use crate::worker::{Worker, numbers_after};
use crate::{key, processes, sqlite, text};

#[tokio::test]
async fn all_entries_of_all_processes_are_heard() {
    let folder = tempfile::tempdir().unwrap();
    processes::all_entries_of_all_processes_are_heard(text(&folder.path().join("store.db"))).await;
}

/// Kills a writer many times. Whatever it said must be there, in order and without holes.
async fn confirmed_appends_survive(task: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let witness = sqlite(&path).await;
    let (mut last_position, mut found) = (Position::START, Vec::new());
    for round in 0..30_u32 {
        let mut writer = Worker::start(task, text(&path));
        assert_eq!(writer.says().as_deref(), Some("ready"));
        let mut said = None;
        for _ in 0..=round % 7 {
            said = writer.says();
        }
        let (since, moment) = (Instant::now(), Duration::from_micros(u64::from(round * 7919 % 4001)));
        while since.elapsed() < moment {
            std::hint::spin_loop();
        }
        writer.kill();
        while let Some(line) = writer.says() {
            said = Some(line);
        }
        let said: u64 = said.expect("something is confirmed in each round").parse().unwrap();
        found.extend(numbers_after(&*witness, last_position).await);
        let (position, number) = *found.last().unwrap();
        assert!(number >= said, "confirmed {said}, and found {number}");
        assert!(number <= said + 5, "at most one append was not confirmed: {said} and {number}");
        last_position = position;
    }
    assert!(found.is_sorted_by(|(earlier, _), (later, _)| earlier < later));
    let numbers: Vec<u64> = found.iter().map(|(_, number)| *number).collect();
    assert_eq!(numbers, (0..numbers.len() as u64).collect::<Vec<_>>(), "no holes, and nothing twice");
    assert_eq!(numbers_after(&*sqlite(&path).await, Position::START).await, found);
}

#[tokio::test]
async fn confirmed_appends_survive_killed_writers() {
    confirmed_appends_survive("append").await;
}

#[tokio::test]
async fn confirmed_appends_without_sync_survive_killed_writers() {
    confirmed_appends_survive("append-unsynced").await;
}

#[tokio::test]
async fn a_bounded_log_and_expired_values_do_not_grow_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let store = sqlite(&path).await;
    let options = AppendOptions::default().max_bytes(100_000).durability(Durability::Process);
    let log = LogName::new("a");
    let size = || {
        let size =
            |suffix: &str| std::fs::metadata(format!("{}{suffix}", path.display())).map_or(0, |it| it.len());
        size("") + size("-wal")
    };
    let mut sizes = Vec::new();
    for _ in 0..4 {
        for number in 0..400 {
            store.append(&log, &[vec![7; 5000]], options).await.unwrap();
            let id = format!("{}-{number}", sizes.len());
            store.put_for(&key(&id), &[7; 200], Duration::from_millis(1), Precondition::Any).await.unwrap();
        }
        sizes.push(size());
    }
    // 8 MB went through it. SQLite's log has up to 4 MB before it is merged into the file.
    assert!(sizes.iter().all(|size| *size < 6_000_000), "{sizes:?}");
}

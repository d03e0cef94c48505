//! Tests with many processes that use one store, for every backend.

use std::time::{Duration, Instant};

use std::collections::BTreeMap;

use bowline_store::{MAX_TTL, Position, Version};

use crate::worker::{CONTRIBUTIONS, HELD_LEASE_TTL, INCREMENTS, Worker, numbers_after, shared_log};
use crate::{key, open};

pub(crate) const PROCESSES: usize = 8;

/// Several processes increment a counter at once, starting from nothing. Returns the last version.
pub(crate) async fn no_update_is_lost(at: &str) -> Version {
    let workers: Vec<Worker> = (0..PROCESSES).map(|_| Worker::start("count", at)).collect();
    workers.into_iter().for_each(Worker::done);
    let entry = open(at).await.unwrap().get(&key("count")).await.unwrap().unwrap();
    assert_eq!(u64::from_be_bytes(entry.value.try_into().unwrap()), INCREMENTS * PROCESSES as u64);
    entry.version
}

/// A killed process blocks its lease no longer than the lease lasts.
pub(crate) async fn a_killed_holder_frees_its_lease(at: &str) {
    let store = open(at).await.unwrap();
    let mut holder = Worker::start("hold", at);
    holder.says().expect("the lease is taken");
    let since = Instant::now();
    assert_eq!(store.acquire("held", HELD_LEASE_TTL).await.unwrap(), None);
    holder.kill();
    let early = store.acquire("held", HELD_LEASE_TTL).await.unwrap();
    assert_eq!(early, None, "not before its time: nobody knows that it died");
    while store.acquire("held", HELD_LEASE_TTL).await.unwrap().is_none() {
        assert!(
            since.elapsed() < HELD_LEASE_TTL + Duration::from_secs(10),
            "the lease of a dead process never ends"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Several processes append to one log and add to one counter, while this one follows the log.
pub(crate) async fn all_entries_of_all_processes_are_heard(at: &str) {
    let store = open(at).await.unwrap();
    let workers: Vec<Worker> = (0..PROCESSES).map(|_| Worker::start("contribute", at)).collect();
    let (mut last, mut heard) = (Position::START, Vec::new());
    while heard.len() < PROCESSES * usize::try_from(CONTRIBUTIONS).unwrap() {
        let (since, timeout) = (Instant::now(), Duration::from_secs(30));
        assert!(store.wait(&shared_log(), last, timeout).await.unwrap(), "{}", heard.len());
        assert!(since.elapsed() < timeout, "it was not woken");
        heard.extend(numbers_after(&*store, last).await);
        last = heard.last().unwrap().0;
    }
    workers.into_iter().for_each(Worker::done);
    assert!(heard.is_sorted_by(|(earlier, _), (later, _)| earlier < later));
    assert_eq!(numbers_after(&*store, Position::START).await, heard, "nothing appeared behind the reader");
    let mut by_process: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for (_, number) in heard {
        by_process.entry(number >> 32).or_default().push(number & 0xffff_ffff);
    }
    assert_eq!(by_process.len(), PROCESSES);
    for numbers in by_process.values() {
        assert_eq!(*numbers, (0..CONTRIBUTIONS).collect::<Vec<_>>(), "each once, and in order");
    }
    let count = store.add("contributions", 0, MAX_TTL).await.unwrap();
    assert_eq!(count.cast_unsigned(), CONTRIBUTIONS * PROCESSES as u64);
}

//! Tests with many processes that use one store, for every backend.

use std::time::{Duration, Instant};

use bowline_store::Version;

use crate::worker::{HELD_LEASE_TTL, INCREMENTS, Worker};
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

//! The contract of every store. Each test gets two handles of one store, which is all that two
//! processes would have.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bowline_store::{Lease, MAX_LEASE_TTL, Precondition, Store, Version};

use crate::key;

const LONG_TTL: Duration = Duration::from_secs(60);

/// Two handles of one store.
pub(crate) type StoreHandles = [Arc<dyn Store>; 2];

/// Creates one test for each part of the contract. `$make` creates a store, and returns two handles
/// together with what has to outlive them.
macro_rules! contract {
    ($make:path) => {
        $crate::contract::contract!(contract, $make: keeps_what_it_is_given any_bytes_and_any_id a_kind_is_listed_by_itself the_first_one_wins
            a_refused_change_changes_nothing a_version_never_comes_back removing_needs_what_was_expected
            one_holder_at_a_time leases_of_different_names_are_apart an_abandoned_lease_ends
            a_renewed_lease_goes_on an_ended_lease_is_not_given_back_for_its_successor no_lease_is_for_ever);
    };
    ($module:ident, $make:path: $($part:ident)+) => {
        $(#[tokio::test]
        async fn $part() {
            let (_alive, [one, other]) = $make().await;
            $crate::$module::$part(one, other).await;
        })+
    };
}
pub(crate) use contract;

pub(crate) async fn keeps_what_it_is_given(one: Arc<dyn Store>, other: Arc<dyn Store>) {
    assert_eq!(one.get(&key("a")).await.unwrap(), None);
    let version = one.put(&key("a"), b"value", Precondition::Any).await.unwrap().unwrap();
    let entry = other.get(&key("a")).await.unwrap().unwrap();
    assert_eq!((entry.value.as_slice(), entry.version), (&b"value"[..], version));

    assert!(other.remove(&key("a"), Precondition::Any).await.unwrap());
    assert_eq!(one.get(&key("a")).await.unwrap(), None);
    assert!(!one.remove(&key("a"), Precondition::Any).await.unwrap());
}

pub(crate) async fn any_bytes_and_any_id(one: Arc<dyn Store>, other: Arc<dyn Store>) {
    let all: Vec<u8> = (0..=255).collect();
    let large = vec![b':'; 300_000];
    for id in ["", " ", "a:b", "12:", "*", "-", "\0", "ü–𝄞", "x' OR 1=1 --", &"long".repeat(500)] {
        for value in [&b""[..], b"0", b"7:7", &all, &large] {
            one.put(&key(id), value, Precondition::Any).await.unwrap().unwrap();
            assert_eq!(other.get(&key(id)).await.unwrap().unwrap().value, value, "{id:?}");
        }
    }
    assert_eq!(one.list("test").await.unwrap().len(), 10);
}

pub(crate) async fn a_kind_is_listed_by_itself(one: Arc<dyn Store>, other: Arc<dyn Store>) {
    assert_eq!(one.list("test").await.unwrap(), []);
    for id in ["b", "a", "c"] {
        one.put(&key(id), id.as_bytes(), Precondition::Absent).await.unwrap().unwrap();
    }
    one.put(&bowline_store::Key::new("test-2", "d"), b"d", Precondition::Absent).await.unwrap().unwrap();
    let listed = other.list("test").await.unwrap();
    let seen: Vec<_> =
        listed.iter().map(|(key, entry)| (key.kind, key.id.as_str(), &entry.value[..])).collect();
    assert_eq!(seen, [("test", "a", &b"a"[..]), ("test", "b", b"b"), ("test", "c", b"c")]);
    for (key, entry) in listed {
        assert_eq!(other.get(&key).await.unwrap().unwrap(), entry);
    }
}

pub(crate) async fn the_first_one_wins(one: Arc<dyn Store>, other: Arc<dyn Store>) {
    let made = one.put(&key("a"), b"1", Precondition::Absent).await.unwrap().unwrap();
    assert_eq!(other.put(&key("a"), b"2", Precondition::Absent).await.unwrap(), None);

    let changed = other.put(&key("a"), b"3", Precondition::AtVersion(made)).await.unwrap().unwrap();
    assert!(changed > made);
    assert_eq!(one.put(&key("a"), b"4", Precondition::AtVersion(made)).await.unwrap(), None);
    assert_eq!(one.get(&key("a")).await.unwrap().unwrap().value, b"3");
}

pub(crate) async fn a_refused_change_changes_nothing(one: Arc<dyn Store>, other: Arc<dyn Store>) {
    assert_eq!(one.put(&key("a"), b"1", Precondition::AtVersion(Version(1))).await.unwrap(), None);
    assert_eq!(other.get(&key("a")).await.unwrap(), None);
    assert_eq!(other.list("test").await.unwrap(), []);

    one.put(&key("a"), b"1", Precondition::Absent).await.unwrap().unwrap();
    let before = other.get(&key("a")).await.unwrap();
    assert_eq!(one.put(&key("a"), b"2", Precondition::Absent).await.unwrap(), None);
    assert_eq!(
        one.put(&key("a"), b"2", Precondition::AtVersion(Version(u64::MAX >> 1))).await.unwrap(),
        None
    );
    assert_eq!(other.get(&key("a")).await.unwrap(), before);
}

pub(crate) async fn a_version_never_comes_back(one: Arc<dyn Store>, other: Arc<dyn Store>) {
    let first = one.put(&key("a"), b"1", Precondition::Absent).await.unwrap().unwrap();
    assert!(one.remove(&key("a"), Precondition::AtVersion(first)).await.unwrap());
    let again = other.put(&key("a"), b"1", Precondition::Absent).await.unwrap().unwrap();
    assert!(again > first);
    assert_eq!(one.put(&key("a"), b"2", Precondition::AtVersion(first)).await.unwrap(), None);
}

pub(crate) async fn removing_needs_what_was_expected(one: Arc<dyn Store>, other: Arc<dyn Store>) {
    let old = one.put(&key("a"), b"1", Precondition::Absent).await.unwrap().unwrap();
    let new = other.put(&key("a"), b"2", Precondition::AtVersion(old)).await.unwrap().unwrap();
    assert!(!one.remove(&key("a"), Precondition::AtVersion(old)).await.unwrap());
    assert!(!one.remove(&key("a"), Precondition::Absent).await.unwrap());
    assert!(other.get(&key("a")).await.unwrap().is_some());
    assert!(one.remove(&key("a"), Precondition::AtVersion(new)).await.unwrap());
    assert!(!one.remove(&key("a"), Precondition::AtVersion(new)).await.unwrap());
}

pub(crate) async fn one_holder_at_a_time(one: Arc<dyn Store>, other: Arc<dyn Store>) {
    let lease = one.acquire("refresh", LONG_TTL).await.unwrap().unwrap();
    assert_eq!(other.acquire("refresh", LONG_TTL).await.unwrap(), None);
    assert_eq!(one.acquire("refresh", LONG_TTL).await.unwrap(), None);
    assert!(one.renew(&lease, LONG_TTL).await.unwrap());
    one.release(lease).await.unwrap();
    assert!(other.acquire("refresh", LONG_TTL).await.unwrap().is_some());
}

pub(crate) async fn leases_of_different_names_are_apart(one: Arc<dyn Store>, other: Arc<dyn Store>) {
    let a = one.acquire("a", LONG_TTL).await.unwrap().unwrap();
    let b = other.acquire("b", LONG_TTL).await.unwrap().unwrap();
    assert_ne!(a.token, b.token);
    one.release(a).await.unwrap();
    assert!(other.renew(&b, LONG_TTL).await.unwrap());
}

pub(crate) async fn an_abandoned_lease_ends(one: Arc<dyn Store>, other: Arc<dyn Store>) {
    let ttl = Duration::from_millis(300);
    let since = Instant::now();
    let lease = one.acquire("a", ttl).await.unwrap().unwrap();
    let successor = acquire_when_free(&*other, "a").await;
    // Both clocks have a resolution of one millisecond.
    assert!(since.elapsed() + Duration::from_millis(5) >= ttl, "{:?}", since.elapsed());
    assert!(!one.renew(&lease, LONG_TTL).await.unwrap());
    assert!(other.renew(&successor, LONG_TTL).await.unwrap());
}

pub(crate) async fn a_renewed_lease_goes_on(one: Arc<dyn Store>, other: Arc<dyn Store>) {
    let ttl = Duration::from_millis(500);
    let since = Instant::now();
    let lease = one.acquire("a", ttl).await.unwrap().unwrap();
    assert!(one.renew(&lease, 2 * ttl).await.unwrap(), "after {:?}", since.elapsed());
    let _successor = acquire_when_free(&*other, "a").await;
    assert!(since.elapsed() + Duration::from_millis(5) >= 2 * ttl, "{:?}", since.elapsed());
}

pub(crate) async fn an_ended_lease_is_not_given_back_for_its_successor(
    one: Arc<dyn Store>,
    other: Arc<dyn Store>,
) {
    let lease = one.acquire("a", Duration::from_millis(50)).await.unwrap().unwrap();
    let successor = acquire_when_free(&*other, "a").await;
    one.release(lease).await.unwrap();
    assert_eq!(one.acquire("a", LONG_TTL).await.unwrap(), None, "the successor's lease was given back");
    assert!(other.renew(&successor, LONG_TTL).await.unwrap());
}

pub(crate) async fn no_lease_is_for_ever(one: Arc<dyn Store>, other: Arc<dyn Store>) {
    // A lease for ever is reduced; no backend may overflow.
    let lease = one.acquire("a", Duration::MAX).await.unwrap().unwrap();
    assert!(one.renew(&lease, Duration::MAX).await.unwrap());
    assert_eq!(other.acquire("a", MAX_LEASE_TTL).await.unwrap(), None);
    one.release(lease).await.unwrap();
    // A lease for no time expires.
    one.acquire("b", Duration::ZERO).await.unwrap().unwrap();
    acquire_when_free(&*other, "b").await;
}

/// Acquires a lease as soon as it is free.
async fn acquire_when_free(store: &dyn Store, name: &str) -> Lease {
    let since = Instant::now();
    loop {
        if let Some(lease) = store.acquire(name, LONG_TTL).await.unwrap() {
            return lease;
        }
        assert!(since.elapsed() < Duration::from_secs(20), "the lease never ended");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

//! The contract of every store for lifetimes, counters and logs. Each test gets two handles of one
//! store.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bowline_store::{
    AppendOptions, LogName, LogSlice, MAX_TTL, Position, Precondition, ReadLimits, Store, StoreError,
};

use crate::key;

const LONG: Duration = Duration::from_secs(60);

/// Creates one test for each part of the contract, like `contract::contract`.
macro_rules! log_contract {
    ($make:path) => {
        $crate::contract::contract!(log_contract, $make: a_value_ends_with_its_lifetime a_touched_value_goes_on
            a_write_sets_or_ends_a_lifetime only_values_with_a_lifetime_are_touched no_lifetime_overflows
            a_counter_adds_up_across_handles a_counter_ends_after_its_first_addition a_counter_saturates
            entries_are_read_in_order a_read_is_bounded the_oldest_entries_go_first too_large_an_entry_is_refused
            a_reader_learns_what_was_trimmed positions_do_not_come_back a_log_ends_unless_it_is_appended_to
            logs_of_any_name_are_apart a_wait_ends_with_an_append a_wait_ends_at_its_timeout
            every_waiting_reader_is_woken a_wait_outlives_the_removal_of_its_log);
    };
}
pub(crate) use log_contract;

fn log(name: &str) -> LogName {
    LogName::new(name)
}

fn entries(values: &[&str]) -> Vec<Vec<u8>> {
    values.iter().map(|it| it.as_bytes().to_vec()).collect()
}

fn values(slice: &LogSlice) -> Vec<&str> {
    slice.entries.iter().map(|it| std::str::from_utf8(&it.value).unwrap()).collect()
}

fn keeping(max_entries: u64, max_bytes: u64) -> AppendOptions {
    AppendOptions::default().max_entries(max_entries).max_bytes(max_bytes)
}

async fn append(store: &dyn Store, name: &str, values: &[&str]) -> Vec<Position> {
    store.append(&log(name), &entries(values), AppendOptions::default()).await.unwrap()
}

async fn read(store: &dyn Store, name: &str, after: Position) -> LogSlice {
    store.after(&log(name), after, ReadLimits::default()).await.unwrap()
}

/// Waits for an entry, which must wake the wait: at its timeout, a wait looks for itself.
async fn hears(store: &dyn Store, name: &str, after: Position) {
    let since = Instant::now();
    assert!(store.wait(&log(name), after, LONG).await.unwrap());
    assert!(since.elapsed() < LONG, "it was not woken");
}

/// Waits until something has expired, which must not be before its time.
async fn expires(since: Instant, ttl: Duration, is_there: impl AsyncFn() -> bool) {
    while is_there().await {
        assert!(since.elapsed() < Duration::from_secs(20), "it never ends");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // All clocks have a resolution of one millisecond.
    assert!(since.elapsed() + Duration::from_millis(5) >= ttl, "after {:?}", since.elapsed());
}

pub(crate) async fn a_value_ends_with_its_lifetime(one: Arc<dyn Store>, other: Arc<dyn Store>) {
    let (ttl, since) = (Duration::from_millis(400), Instant::now());
    let version = one.put_for(&key("a"), b"1", ttl, Precondition::Absent).await.unwrap().unwrap();
    let kept = other.get(&key("a")).await.unwrap().unwrap();
    assert_eq!((kept.value.as_slice(), kept.version), (&b"1"[..], version));
    assert_eq!(other.list("test").await.unwrap(), [(key("a"), kept)]);
    assert_eq!(other.put(&key("a"), b"2", Precondition::Absent).await.unwrap(), None);

    expires(since, ttl, async || other.get(&key("a")).await.unwrap().is_some()).await;
    assert_eq!(other.list("test").await.unwrap(), []);
    assert!(!other.remove(&key("a"), Precondition::Any).await.unwrap());
    assert!(!other.touch(&key("a"), LONG).await.unwrap());
    assert_eq!(other.put(&key("a"), b"2", Precondition::AtVersion(version)).await.unwrap(), None);
    let again = other.put(&key("a"), b"2", Precondition::Absent).await.unwrap().unwrap();
    assert!(again > version);
}

pub(crate) async fn a_touched_value_goes_on(one: Arc<dyn Store>, other: Arc<dyn Store>) {
    let (ttl, since) = (Duration::from_millis(500), Instant::now());
    let version = one.put_for(&key("a"), b"1", ttl, Precondition::Absent).await.unwrap().unwrap();
    assert!(other.touch(&key("a"), 2 * ttl).await.unwrap(), "after {:?}", since.elapsed());
    let kept = one.get(&key("a")).await.unwrap().unwrap();
    assert_eq!((kept.value.as_slice(), kept.version), (&b"1"[..], version), "nothing else has changed");
    expires(since, 2 * ttl, async || one.get(&key("a")).await.unwrap().is_some()).await;
}

pub(crate) async fn a_write_sets_or_ends_a_lifetime(one: Arc<dyn Store>, other: Arc<dyn Store>) {
    let ttl = Duration::from_millis(300);
    // One value gets a lifetime, another loses it.
    one.put(&key("ends"), b"1", Precondition::Absent).await.unwrap().unwrap();
    let long = one.put_for(&key("stays"), b"1", LONG, Precondition::Absent).await.unwrap().unwrap();
    other.put(&key("stays"), b"2", Precondition::AtVersion(long)).await.unwrap().unwrap();
    assert!(!one.touch(&key("stays"), ttl).await.unwrap());
    let since = Instant::now();
    other.put_for(&key("ends"), b"2", ttl, Precondition::Any).await.unwrap().unwrap();
    assert_eq!(one.list("test").await.unwrap().len(), 2);
    expires(since, ttl, async || one.get(&key("ends")).await.unwrap().is_some()).await;
    let listed = one.list("test").await.unwrap();
    assert_eq!(
        listed.iter().map(|(key, it)| (key.id.as_str(), &it.value[..])).collect::<Vec<_>>(),
        [("stays", &b"2"[..])]
    );
}

pub(crate) async fn only_values_with_a_lifetime_are_touched(one: Arc<dyn Store>, other: Arc<dyn Store>) {
    assert!(!one.touch(&key("a"), LONG).await.unwrap());
    one.put(&key("a"), b"1", Precondition::Absent).await.unwrap().unwrap();
    assert!(!other.touch(&key("a"), Duration::ZERO).await.unwrap());
    assert!(other.get(&key("a")).await.unwrap().is_some());
    assert!(one.remove(&key("a"), Precondition::Any).await.unwrap());
    one.put_for(&key("a"), b"1", LONG, Precondition::Absent).await.unwrap().unwrap();
    assert!(other.remove(&key("a"), Precondition::Any).await.unwrap());
    assert!(!one.touch(&key("a"), LONG).await.unwrap());
}

pub(crate) async fn no_lifetime_overflows(one: Arc<dyn Store>, other: Arc<dyn Store>) {
    for ttl in [MAX_TTL, Duration::MAX] {
        one.put_for(&key("a"), b"1", ttl, Precondition::Any).await.unwrap().unwrap();
        assert!(other.touch(&key("a"), ttl).await.unwrap());
        assert_eq!(one.add(&format!("{ttl:?}"), 1, ttl).await.unwrap(), 1);
        let options = AppendOptions::default().ttl(ttl).max_bytes(u64::MAX).max_entries(u64::MAX);
        one.append(&log("a"), &entries(&["1"]), options).await.unwrap();
    }
    let limits = ReadLimits::default().max_entries(usize::MAX).max_bytes(usize::MAX);
    assert_eq!(values(&other.after(&log("a"), Position::START, limits).await.unwrap()), ["1", "1"]);
    assert_eq!(read(&*other, "a", Position(u64::MAX)).await.entries, []);
    other.trim(&log("a"), Position(u64::MAX)).await.unwrap();
    assert_eq!(read(&*other, "a", Position::START).await.newest, None);
    one.put_for(&key("b"), b"1", Duration::ZERO, Precondition::Any).await.unwrap().unwrap();
    expires(Instant::now(), Duration::ZERO, async || other.get(&key("b")).await.unwrap().is_some()).await;
}

pub(crate) async fn a_counter_adds_up_across_handles(one: Arc<dyn Store>, other: Arc<dyn Store>) {
    assert_eq!(one.add("a", 2, LONG).await.unwrap(), 2);
    assert_eq!(other.add("a", 3, LONG).await.unwrap(), 5);
    assert_eq!(one.add("a", 0, LONG).await.unwrap(), 5);
    assert_eq!(one.add("a}", -7, LONG).await.unwrap(), -7, "another counter");
    let adding = (0..50).map(|_| {
        let (one, other) = (Arc::clone(&one), Arc::clone(&other));
        tokio::spawn(
            async move { (one.add("a", 1, LONG).await.unwrap(), other.add("a", 1, LONG).await.unwrap()) },
        )
    });
    let mut seen = Vec::new();
    for added in adding.collect::<Vec<_>>() {
        let (first, second) = added.await.unwrap();
        seen.extend([first, second]);
    }
    seen.sort_unstable();
    assert_eq!(seen, (6..=105).collect::<Vec<i64>>(), "each addition has a result of its own");
}

pub(crate) async fn a_counter_ends_after_its_first_addition(one: Arc<dyn Store>, other: Arc<dyn Store>) {
    let (ttl, since) = (Duration::from_millis(400), Instant::now());
    assert_eq!(one.add("a", 1, ttl).await.unwrap(), 1);
    // Each look is an addition too, and does not renew it.
    expires(since, ttl, async || other.add("a", 1, LONG).await.unwrap() > 1).await;
    assert_eq!(one.add("a", 1, LONG).await.unwrap(), 2, "it has begun anew");
}

pub(crate) async fn a_counter_saturates(one: Arc<dyn Store>, other: Arc<dyn Store>) {
    assert_eq!(one.add("a", i64::MAX, LONG).await.unwrap(), i64::MAX);
    assert_eq!(other.add("a", 1, LONG).await.unwrap(), i64::MAX);
    assert_eq!(one.add("a", -1, LONG).await.unwrap(), i64::MAX - 1);
    assert_eq!(one.add("b", i64::MIN, LONG).await.unwrap(), i64::MIN);
    assert_eq!(other.add("b", -1, LONG).await.unwrap(), i64::MIN);
}

pub(crate) async fn entries_are_read_in_order(one: Arc<dyn Store>, other: Arc<dyn Store>) {
    assert_eq!(append(&*one, "a", &[]).await, []);
    let nothing = read(&*other, "a", Position::START).await;
    assert_eq!(nothing, LogSlice::new(Vec::new()));

    let first = append(&*one, "a", &["1", "2"]).await;
    let second = append(&*other, "a", &["3", ""]).await;
    let positions = [first, second].concat();
    assert!(positions.is_sorted_by(|earlier, later| earlier < later) && positions[0] > Position::START);
    let slice = read(&*one, "a", Position::START).await;
    assert_eq!(values(&slice), ["1", "2", "3", ""]);
    assert_eq!(slice.entries.iter().map(|it| it.position).collect::<Vec<_>>(), positions);
    assert_eq!((slice.oldest, slice.newest), (Some(positions[0]), Some(positions[3])));
    for (index, position) in positions.iter().enumerate() {
        let slice = read(&*other, "a", *position).await;
        assert_eq!(values(&slice), ["1", "2", "3", ""][index + 1..]);
        assert!(!slice.has_gap);
    }
    let all: Vec<u8> = (0..=255).collect();
    let at = one.append(&log("a"), std::slice::from_ref(&all), AppendOptions::default()).await.unwrap();
    assert_eq!(read(&*other, "a", positions[3]).await.entries[0].value, all);
    assert_eq!(read(&*other, "a", at[0]).await.entries, []);
}

pub(crate) async fn a_read_is_bounded(one: Arc<dyn Store>, other: Arc<dyn Store>) {
    let numbers: Vec<String> = (100..200).map(|it| it.to_string()).collect();
    let numbers: Vec<&str> = numbers.iter().map(String::as_str).collect();
    let positions = append(&*one, "a", &numbers).await;
    for (max_entries, max_bytes, expected) in
        [(1, 1000, 1), (40, 1000, 40), (1000, 9, 3), (1000, 11, 3), (1000, 1000, 100), (0, 0, 1), (5, 2, 1)]
    {
        let limits = ReadLimits::default().max_entries(max_entries).max_bytes(max_bytes);
        let slice = other.after(&log("a"), Position::START, limits).await.unwrap();
        assert_eq!(values(&slice), numbers[..expected], "{limits:?}");
        assert_eq!((slice.oldest, slice.newest), (Some(positions[0]), Some(positions[99])), "{limits:?}");
    }
}

pub(crate) async fn the_oldest_entries_go_first(one: Arc<dyn Store>, other: Arc<dyn Store>) {
    for value in ["1", "2", "3", "4"] {
        one.append(&log("few"), &entries(&[value]), keeping(3, 100)).await.unwrap();
        one.append(&log("small"), &entries(&[value]), keeping(100, 3)).await.unwrap();
    }
    for name in ["few", "small"] {
        assert_eq!(values(&read(&*other, name, Position::START).await), ["2", "3", "4"]);
    }
    other.append(&log("small"), &entries(&["55"]), keeping(100, 3)).await.unwrap();
    assert_eq!(values(&read(&*one, "small", Position::START).await), ["4", "55"]);
    let at = other.append(&log("few"), &entries(&["5", "6", "7", "8"]), keeping(2, 100)).await.unwrap();
    let slice = read(&*one, "few", Position::START).await;
    assert_eq!((values(&slice), slice.oldest), (vec!["7", "8"], Some(at[2])), "of one append as well");
    assert!(slice.has_gap);
    other.append(&log("few"), &entries(&["9"]), keeping(0, 100)).await.unwrap();
    assert_eq!(values(&read(&*one, "few", Position::START).await), ["9"]);
}

pub(crate) async fn too_large_an_entry_is_refused(one: Arc<dyn Store>, other: Arc<dyn Store>) {
    one.append(&log("a"), &entries(&["1"]), keeping(9, 3)).await.unwrap();
    let refused = one.append(&log("a"), &entries(&["2", "4444"]), keeping(9, 3)).await;
    assert!(matches!(refused, Err(StoreError::Unusable(_))), "{refused:?}");
    assert_eq!(values(&read(&*other, "a", Position::START).await), ["1"], "nothing has changed");
}

pub(crate) async fn a_reader_learns_what_was_trimmed(one: Arc<dyn Store>, other: Arc<dyn Store>) {
    let positions = append(&*one, "a", &["1", "2", "3", "4"]).await;
    other.trim(&log("a"), positions[1]).await.unwrap();
    for (after, has_gap) in
        [(Position::START, true), (positions[0], true), (positions[1], false), (positions[2], false)]
    {
        let slice = read(&*one, "a", after).await;
        assert_eq!((slice.has_gap, slice.oldest), (has_gap, Some(positions[2])), "{after:?}");
    }
    assert_eq!(values(&read(&*one, "a", positions[0]).await), ["3", "4"]);
    // What is trimmed again, or is nothing, changes nothing.
    one.trim(&log("a"), positions[0]).await.unwrap();
    one.trim(&log("b"), positions[0]).await.unwrap();
    assert!(!read(&*other, "a", positions[1]).await.has_gap);
    one.trim(&log("a"), positions[3]).await.unwrap();
    let slice = read(&*other, "a", positions[3]).await;
    assert_eq!(slice, LogSlice::new(Vec::new()));
    assert!(read(&*other, "a", positions[2]).await.has_gap);
}

pub(crate) async fn positions_do_not_come_back(one: Arc<dyn Store>, other: Arc<dyn Store>) {
    let mut given = append(&*one, "a", &["1", "2", "3"]).await;
    one.trim(&log("a"), given[2]).await.unwrap();
    given.extend(append(&*other, "a", &["4"]).await);
    assert!(other.remove_log(&log("a")).await.unwrap());
    assert!(!one.remove_log(&log("a")).await.unwrap());
    let gone = read(&*one, "a", given[3]).await;
    let mut expected = LogSlice::new(Vec::new());
    expected.has_gap = true;
    assert_eq!(gone, expected);
    assert!(!read(&*one, "a", Position::START).await.has_gap);

    let again = append(&*one, "a", &["5"]).await;
    assert!(again[0] > given[3], "{again:?} after {given:?}");
    let slice = read(&*other, "a", given[1]).await;
    assert_eq!((values(&slice), slice.has_gap), (vec!["5"], true));
    assert!(!read(&*other, "a", Position::START).await.has_gap, "the new log is complete");
}

pub(crate) async fn a_log_ends_unless_it_is_appended_to(one: Arc<dyn Store>, other: Arc<dyn Store>) {
    let ttl = Duration::from_millis(400);
    let options = |ttl| AppendOptions::default().ttl(ttl);
    let mut since = Instant::now();
    let first = one.append(&log("a"), &entries(&["1"]), options(ttl)).await.unwrap()[0];
    for value in ["2", "3"] {
        since = Instant::now();
        other.append(&log("a"), &entries(&[value]), options(ttl)).await.unwrap();
        assert!(!read(&*one, "a", first).await.has_gap);
    }
    expires(since, ttl, async || read(&*one, "a", Position::START).await.newest.is_some()).await;
    assert!(read(&*one, "a", first).await.has_gap);
    assert!(!one.wait(&log("a"), Position::START, Duration::ZERO).await.unwrap());
    assert!(!one.remove_log(&log("a")).await.unwrap());
    let again = other.append(&log("a"), &entries(&["4"]), options(LONG)).await.unwrap()[0];
    assert!(again > first);
    let slice = read(&*one, "a", first).await;
    assert_eq!((values(&slice), slice.has_gap), (vec!["4"], true));
}

pub(crate) async fn logs_of_any_name_are_apart(one: Arc<dyn Store>, other: Arc<dyn Store>) {
    let long = "long".repeat(500);
    let names = ["", "a", "a:entries", "}", "{a}", "%7D", "%257D", "\0", "ü–𝄞", "x' OR 1=1 --", &long];
    for name in names {
        append(&*one, name, &[name, "2"]).await;
    }
    for name in names {
        assert_eq!(values(&read(&*other, name, Position::START).await), [name, "2"]);
    }
    assert!(one.remove_log(&log("")).await.unwrap());
    assert_eq!(read(&*other, "a", Position::START).await.entries.len(), 2);
}

pub(crate) async fn a_wait_ends_with_an_append(one: Arc<dyn Store>, other: Arc<dyn Store>) {
    let mut last = Position::START;
    // The log does not exist at first. The other handle is like another process.
    for writer in [&one, &other, &one, &other] {
        let name = log("a");
        let ((), positions) = tokio::join!(hears(&*one, "a", last), append(&**writer, "a", &["1"]));
        assert!(one.wait(&name, last, Duration::ZERO).await.unwrap(), "it is there already");
        last = positions[0];
    }
}

pub(crate) async fn a_wait_ends_at_its_timeout(one: Arc<dyn Store>, other: Arc<dyn Store>) {
    let last = append(&*one, "a", &["1"]).await[0];
    let (timeout, since) = (Duration::from_millis(200), Instant::now());
    let name = log("a");
    let (waited, _) = tokio::join!(other.wait(&name, last, timeout), append(&*one, "b", &["of another log"]));
    assert!(!waited.unwrap());
    assert!(since.elapsed() >= timeout, "{:?}", since.elapsed());
}

pub(crate) async fn every_waiting_reader_is_woken(one: Arc<dyn Store>, other: Arc<dyn Store>) {
    let last = append(&*one, "a", &["1"]).await[0];
    // One waits for what is far ahead, and must not hide the next entry from the others.
    let far = Arc::clone(&one);
    let far = tokio::spawn(async move { far.wait(&log("a"), Position(u64::MAX), LONG).await.unwrap() });
    let readers: Vec<_> = (0..20)
        .map(|number| {
            let store = Arc::clone(if number % 2 == 0 { &one } else { &other });
            tokio::spawn(async move { hears(&*store, "a", last).await })
        })
        .collect();
    tokio::task::yield_now().await;
    append(&*other, "a", &["2"]).await;
    for reader in readers {
        reader.await.unwrap();
    }
    assert!(!far.is_finished());
    far.abort();
}

pub(crate) async fn a_wait_outlives_the_removal_of_its_log(one: Arc<dyn Store>, other: Arc<dyn Store>) {
    let last = append(&*one, "a", &["1"]).await[0];
    tokio::join!(hears(&*one, "a", last), async {
        assert!(other.remove_log(&log("a")).await.unwrap());
        append(&*other, "a", &["2"]).await;
    });
    assert_eq!(values(&read(&*one, "a", last).await), ["2"]);
}

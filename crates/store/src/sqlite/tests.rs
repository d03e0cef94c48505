//! Lifetimes and logs on a clock that the test sets, and the file itself.

use std::sync::atomic::{AtomicI64, Ordering};

use tempfile::TempDir;

use super::*;
use crate::{AppendOptions, LogName, LogStore as _, Position, ReadLimits};

#[path = "../../tests/support/log_histories.rs"]
mod log_histories;

const START_MS: i64 = 1_800_000_000_000;
const MINUTE: Duration = Duration::from_secs(60);

/// A store whose clock the test sets, and another connection to its file.
struct Bench {
    folder: TempDir,
    now: Arc<AtomicI64>,
    store: SqliteStore,
    db: Connection,
}

impl Bench {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let now = Arc::new(AtomicI64::new(START_MS));
        let store = open(&folder.path().join("store.db"), &now).await;
        let db = Connection::open(folder.path().join("store.db")).unwrap();
        Self { folder, now, store, db }
    }

    fn advance(&self, by: i64) {
        self.now.fetch_add(by, Ordering::SeqCst);
    }

    /// How many rows the tables have: entries, counters, logs, entries of logs.
    fn rows(&self) -> [i64; 4] {
        ["entries", "counters", "logs", "log_entries"]
            .map(|table| self.number(&format!("SELECT count(*) FROM {table}")))
    }

    fn number(&self, query: &str) -> i64 {
        self.db.query_row(query, [], |row| row.get(0)).unwrap()
    }

    async fn append(&self, name: &str, count: usize) -> Vec<Position> {
        let options = AppendOptions { ttl: MINUTE, max_entries: 10_000, ..AppendOptions::default() };
        self.store.append(&LogName::new(name), &vec![b"x".to_vec(); count], options).await.unwrap()
    }

    async fn newest(&self, name: &str) -> Option<Position> {
        let log = LogName::new(name);
        self.store.after(&log, Position::START, ReadLimits::default()).await.unwrap().newest
    }
}

async fn open(path: &Path, now: &Arc<AtomicI64>) -> SqliteStore {
    SqliteStore::open_with_clock(path, WallClock::settable(Arc::clone(now)), &mut Vec::new()).await.unwrap()
}

fn value(id: &str) -> Key {
    Key::new("test", id)
}

/// Waits for an entry, which must wake the wait: at its timeout, a wait looks for itself.
async fn hears(store: &SqliteStore, log: &LogName, after: Position) {
    let since = std::time::Instant::now();
    assert!(store.wait(log, after, MINUTE).await.unwrap());
    assert!(since.elapsed() < MINUTE, "it was not woken");
}

#[test]
fn any_history_of_logs() {
    let folder = tempfile::tempdir().unwrap();
    let count = std::cell::Cell::new(0);
    log_histories::check(60, async || {
        count.set(count.get() + 1);
        let path = folder.path().join(format!("{}.db", count.get()));
        let now = Arc::new(AtomicI64::new(START_MS));
        let hands: [Arc<dyn Store>; 2] =
            [Arc::new(open(&path, &now).await), Arc::new(open(&path, &now).await)];
        (hands, log_histories::StoreClock::Settable(now))
    });
}

#[tokio::test]
async fn what_has_expired_is_deleted_along_with_other_writes() {
    let bench = Bench::new().await;
    for number in 0..300 {
        let key = value(&number.to_string());
        bench.store.put_for(&key, b"1", MINUTE, Precondition::Absent).await.unwrap().unwrap();
        bench.store.add(&number.to_string(), 1, MINUTE).await.unwrap();
    }
    bench.append("a", 600).await;
    bench.append("b", 1).await;
    bench.store.put(&value("stays"), b"1", Precondition::Absent).await.unwrap().unwrap();
    assert_eq!(bench.rows(), [301, 300, 2, 601]);

    bench.advance(60_000);
    assert_eq!(bench.store.list("test").await.unwrap().len(), 1, "what has expired is absent at once");
    assert_eq!(bench.rows(), [301, 300, 2, 601], "reading deletes nothing");
    // Each write deletes a batch, as long as something is left over.
    for left in [[45, 44, 2, 345], [1, 0, 2, 89], [1, 0, 0, 0]] {
        bench.store.put(&value("stays"), b"1", Precondition::Any).await.unwrap().unwrap();
        assert_eq!(bench.rows(), left);
    }
}

#[tokio::test]
async fn a_large_log_is_gone_at_once_and_deleted_in_batches() {
    let bench = Bench::new().await;
    let last = bench.append("a", 1000).await[999];
    assert!(bench.store.remove_log(&LogName::new("a")).await.unwrap());
    assert_eq!(bench.newest("a").await, None);
    assert!(bench.rows()[3] > 0, "precondition: it is too large for one batch");
    let again = bench.append("a", 2).await;
    assert!(again[0] > last);
    for _ in 0..8 {
        bench.advance(1000);
        bench.store.add("other", 1, MINUTE).await.unwrap();
    }
    assert_eq!(bench.rows(), [0, 1, 1, 2]);
    assert_eq!(bench.newest("a").await, Some(again[1]));
}

#[tokio::test]
async fn a_clock_that_was_set_back_does_not_make_lifetimes_endless() {
    let bench = Bench::new().await;
    // The clock was a year ahead.
    let year = 365 * 24 * 60 * 60 * 1000;
    bench.advance(year);
    bench.store.put_for(&value("a"), b"1", MINUTE, Precondition::Absent).await.unwrap().unwrap();
    bench.store.add("a", 1, MINUTE).await.unwrap();
    let before = bench.append("a", 1).await[0];
    bench.advance(-year);
    assert!(bench.store.get(&value("a")).await.unwrap().is_some(), "nothing is lost by it");
    let after = bench.append("b", 1).await[0];
    assert!(after > before, "positions go on");

    bench.advance(59_999);
    assert!(bench.store.get(&value("a")).await.unwrap().is_some());
    assert_eq!(bench.newest("a").await, Some(before));
    bench.advance(1);
    assert_eq!(bench.store.get(&value("a")).await.unwrap(), None);
    assert_eq!(bench.newest("a").await, None);
    assert_eq!(bench.store.add("a", 1, MINUTE).await.unwrap(), 1);
    assert_eq!(bench.rows(), [0, 1, 0, 0], "only the new counter is left");
}

#[tokio::test]
async fn positions_go_on_after_the_file_was_closed_with_its_clock_set_back() {
    let bench = Bench::new().await;
    let mut last = bench.append("a", 3).await[2];
    let path = bench.folder.path().join("store.db");
    for _ in 0..3 {
        bench.advance(-3_600_000);
        let store = open(&path, &bench.now).await;
        let log = LogName::new("a");
        assert!(store.remove_log(&log).await.unwrap());
        let next = store.append(&log, &[b"x".to_vec()], AppendOptions::default()).await.unwrap()[0];
        assert!(next > last, "{next:?} after {last:?}");
        last = next;
    }
}

#[tokio::test]
async fn a_change_that_fails_does_not_fail_those_beside_it() {
    let bench = Bench::new().await;
    // Nothing runs until all are queued, so they share a transaction.
    bench.db.execute_batch("BEGIN IMMEDIATE").unwrap();
    let first = bench.store.add("a", 1, MINUTE);
    let failing = bench.store.change(Durability::Disk, |change, _| change.execute("nonsense", []));
    let second = bench.store.add("a", 1, MINUTE);
    bench.db.execute_batch("COMMIT").unwrap();
    assert_eq!(first.await.unwrap(), 1);
    assert!(matches!(failing.await, Err(StoreError::Unusable(_))));
    assert_eq!(second.await.unwrap(), 2, "it ran once");
}

#[tokio::test]
async fn changes_that_wait_share_a_transaction() {
    let bench = Bench::new().await;
    bench.append("a", 1).await;
    let (entered, entering) = tokio::sync::oneshot::channel();
    let (release, released) = std::sync::mpsc::channel::<()>();
    let mut entered = Some(entered);
    let blocker = bench.store.run(move |_| {
        entered.take().map(|entered| entered.send(()));
        let _ = released.recv();
        Ok(())
    });
    entering.await.unwrap();
    let before = bench.number("PRAGMA data_version");
    let log = LogName::new("a");
    let entry = [b"x".to_vec()];
    let appends: Vec<_> =
        (0..50).map(|_| bench.store.append(&log, &entry, AppendOptions::default())).collect();
    release.send(()).unwrap();
    blocker.await.unwrap();
    let mut positions = Vec::new();
    for append in appends {
        positions.extend(append.await.unwrap());
    }
    assert!(positions.is_sorted_by(|earlier, later| earlier < later));
    assert_eq!(bench.number("PRAGMA data_version"), before + 1, "one commit");
}

/// Killing a process does not reveal a missing sync; only a power loss would.
#[tokio::test]
async fn only_changes_that_allow_it_are_committed_without_sync() {
    let bench = Bench::new().await;
    let level = |change: &Connection| change.query_row("PRAGMA synchronous", [], |row| row.get::<_, i64>(0));
    let (normal, full) = (1, 2);
    for (durability, expected) in
        [(Durability::Disk, full), (Durability::Process, normal), (Durability::Disk, full)]
    {
        let found = bench.store.change(durability, move |change, _| level(change)).await.unwrap();
        assert_eq!(found, expected, "{durability:?}");
        assert_eq!(bench.store.run(move |db| level(db)).await.unwrap(), full, "afterwards");
    }
    // A group is as durable as the most durable change in it.
    bench.db.execute_batch("BEGIN IMMEDIATE").unwrap();
    let unsynced = bench.store.change(Durability::Process, move |change, _| level(change));
    let durable = bench.store.change(Durability::Disk, move |change, _| level(change));
    bench.db.execute_batch("COMMIT").unwrap();
    unsynced.await.unwrap();
    assert_eq!(durable.await.unwrap(), full);
}

/// A reader is woken by commits of other processes that append, and not confused by those that do not.
#[tokio::test]
async fn a_wait_hears_another_process_among_its_other_changes() {
    let bench = Bench::new().await;
    let other = open(&bench.folder.path().join("store.db"), &bench.now).await;
    let log = LogName::new("a");
    let mut last = Position::START;
    for round in 0..5_i64 {
        let ((), position) = tokio::join!(hears(&bench.store, &log, last), async {
            for count in 1..4 {
                assert_eq!(other.add("a", 1, MINUTE).await.unwrap(), round * 3 + count);
            }
            bench.append("b", 1).await;
            other.append(&log, &[b"x".to_vec()], AppendOptions::default()).await.unwrap()[0]
        });
        last = position;
    }
}

#[tokio::test]
async fn an_append_is_heard_even_if_its_future_was_dropped() {
    let bench = Bench::new().await;
    let log = LogName::new("a");
    tokio::join!(hears(&bench.store, &log, Position::START), async {
        drop(bench.store.append(&log, &[b"x".to_vec()], AppendOptions::default()));
    });
}

#[tokio::test]
async fn a_file_of_the_first_form_is_upgraded_and_keeps_its_content() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    fs::write(&path, b"").unwrap();
    schema::create_form(&path, 1);
    let old = Connection::open(&path).unwrap();
    old.execute("INSERT INTO entries VALUES ('test', 'a', 7, x'31')", []).unwrap();
    old.execute("UPDATE versions SET last = 7", []).unwrap();

    let store = SqliteStore::open(&path, &mut Vec::new()).await.unwrap();
    let kept = store.get(&value("a")).await.unwrap().unwrap();
    assert_eq!((kept.value.as_slice(), kept.version), (&b"1"[..], Version(7)));
    assert!(!store.touch(&value("a"), MINUTE).await.unwrap(), "it has no lifetime");
    // A process of the earlier version that has the file open goes on, and what it writes has no lifetime.
    store.put_for(&value("b"), b"1", MINUTE, Precondition::Absent).await.unwrap().unwrap();
    old.execute(
        "INSERT OR REPLACE INTO entries (kind, id, version, value) VALUES ('test', 'b', 9, x'32')",
        [],
    )
    .unwrap();
    assert!(!store.touch(&value("b"), MINUTE).await.unwrap());
    assert_eq!(store.get(&value("b")).await.unwrap().unwrap().value, b"2");
}

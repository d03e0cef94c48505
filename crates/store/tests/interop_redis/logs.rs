//! Logs, lifetimes and counters of a server that hangs, restarts, or has lost its content.

use std::time::{Duration, Instant};

use bowline_store::{
    AppendOptions, LogName, LogSlice, MAX_TTL, Position, Precondition, ReadLimits, Store, StoreError,
};

use crate::key;
use crate::server::Server;

const MINUTE: Duration = Duration::from_secs(60);

fn log() -> LogName {
    LogName::new("a")
}

async fn append(store: &dyn Store, values: &[&str], ttl: Duration) -> Vec<Position> {
    let entries: Vec<Vec<u8>> = values.iter().map(|it| it.as_bytes().to_vec()).collect();
    store.append(&log(), &entries, AppendOptions::default().ttl(ttl)).await.unwrap()
}

async fn read(store: &dyn Store, after: Position) -> LogSlice {
    store.after(&log(), after, ReadLimits::default()).await.unwrap()
}

#[tokio::test]
async fn what_must_not_happen_twice_does_not_when_its_answer_was_lost() {
    let server = Server::start();
    let store = server.store().await;
    let before = append(&*store, &["1"], MINUTE).await;
    store.add("a", 1, MINUTE).await.unwrap();
    // The suspended server runs the first attempt too late, and then the second one as well.
    server.signal("-STOP");
    let (positions, count, ()) =
        tokio::join!(append(&*store, &["2", "3"], MINUTE), store.add("a", 5, MINUTE), async {
            tokio::time::sleep(Duration::from_millis(3500)).await;
            server.signal("-CONT");
        });
    assert_eq!(count.unwrap(), 6);
    assert_eq!(store.add("a", 0, MINUTE).await.unwrap(), 6);
    let slice = read(&*store, Position::START).await;
    let found: Vec<_> = slice.entries.iter().map(|it| (it.position, it.value.as_slice())).collect();
    assert_eq!(found, [(before[0], &b"1"[..]), (positions[0], b"2"), (positions[1], b"3")]);
}

#[tokio::test]
async fn a_wait_goes_on_while_the_server_is_restarted() {
    let mut server = Server::start();
    let (reader, writer) = (server.store().await, server.store().await);
    let last = append(&*writer, &["1"], MINUTE).await[0];
    let since = Instant::now();
    let waiting = tokio::spawn(async move { reader.wait(&log(), last, MINUTE).await });
    // It waits, with a connection of its own.
    let mut raw =
        redis::Client::open(server.url().expose()).unwrap().get_multiplexed_async_connection().await.unwrap();
    loop {
        let clients: String = redis::cmd("CLIENT").arg("LIST").query_async(&mut raw).await.unwrap();
        if clients.contains("cmd=xread") {
            break;
        }
        tokio::task::yield_now().await;
    }
    server.kill();
    server.restart();
    append(&*writer, &["2"], MINUTE).await;
    assert!(waiting.await.unwrap().unwrap());
    assert!(since.elapsed() < MINUTE, "it was not woken: at its timeout, a wait looks for itself");
}

#[tokio::test]
async fn nothing_is_read_when_nobody_waits() {
    let server = Server::start();
    let (reader, writer) = (server.store().await, server.store().await);
    let name = log();
    let (heard, _) =
        tokio::join!(reader.wait(&name, Position::START, MINUTE), append(&*writer, &["1"], MINUTE));
    assert!(heard.unwrap());
    let mut raw =
        redis::Client::open(server.url().expose()).unwrap().get_multiplexed_async_connection().await.unwrap();
    let mut reads = async || -> Option<String> {
        let stats: String = redis::cmd("INFO").arg("commandstats").query_async(&mut raw).await.unwrap();
        stats.lines().find(|line| line.starts_with("cmdstat_xread")).map(str::to_owned)
    };
    // The last read ends by itself, and no other one follows. Each blocks for 100 milliseconds.
    let (since, mut before) = (Instant::now(), reads().await);
    assert!(before.is_some(), "precondition: it has waited");
    loop {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let now = reads().await;
        if now == before {
            break;
        }
        assert!(since.elapsed() < Duration::from_secs(20), "it reads on: {now:?}");
        before = now;
    }
}

#[tokio::test]
async fn positions_do_not_come_back_with_a_server_that_forgot_everything() {
    let mut server = Server::start_with(&["--appendonly", "no"]);
    let store = server.store().await;
    let before = append(&*store, &["1", "2", "3"], MINUTE).await;
    server.kill();
    server.restart();
    assert!(read(&*store, before[2]).await.has_gap);
    let after = append(&*store, &["4"], MINUTE).await;
    assert!(after[0] > before[2]);
    let slice = read(&*store, before[0]).await;
    assert_eq!((slice.entries.len(), slice.has_gap), (1, true));
}

#[tokio::test]
async fn everything_with_a_lifetime_leaves_the_server_by_itself() {
    let server = Server::start();
    let store = server.store().await;
    let short = Duration::from_millis(50);
    store.put_for(&key("a"), b"1", short, Precondition::Absent).await.unwrap().unwrap();
    store.put_for(&key("b"), b"1", MINUTE, Precondition::Absent).await.unwrap().unwrap();
    store.put_for(&key("b"), b"1", short, Precondition::Any).await.unwrap().unwrap();
    store.touch(&key("b"), MINUTE).await.unwrap();
    store.add("a", 1, short).await.unwrap();
    append(&*store, &["1"], short).await;
    let mut raw =
        redis::Client::open(server.url().expose()).unwrap().get_multiplexed_async_connection().await.unwrap();
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query_async(&mut raw).await.unwrap();
    assert!(keys.len() >= 7, "{keys:?}");
    for key in keys.iter().filter(|key| *key != "bowline:version") {
        let left: i64 = redis::cmd("PTTL").arg(key).query_async(&mut raw).await.unwrap();
        // It may have expired meanwhile.
        assert!(left > 0 || left == -2, "{key} stays for ever");
        let longest = i64::try_from(MAX_TTL.as_millis()).unwrap();
        assert!(left < longest, "{key}");
    }
}

#[tokio::test]
async fn the_keys_of_a_log_are_in_one_slot() {
    let server = Server::start();
    let store = server.store().await;
    for name in ["a", "", "}", "{}", "{a}b"] {
        let log = LogName::new(name);
        store.append(&log, &[b"1".to_vec()], AppendOptions::default()).await.unwrap();
    }
    let mut raw =
        redis::Client::open(server.url().expose()).unwrap().get_multiplexed_async_connection().await.unwrap();
    for tag in ["{a}", "{%}", "{%7D}", "{{%7D}", "{{a%7Db}"] {
        let pattern = format!("bowline:log:{tag}:*");
        let keys: Vec<String> = redis::cmd("KEYS").arg(&pattern).query_async(&mut raw).await.unwrap();
        assert_eq!(keys.len(), 4, "{pattern}: {keys:?}");
        let tags: Vec<_> = keys.iter().map(|key| hash_tag(key)).collect();
        assert!(tags.iter().all(|tag| *tag == tags[0]), "{tags:?}");
    }
}

/// The part of a key that chooses its slot.
fn hash_tag(key: &str) -> &str {
    let Some((_, rest)) = key.split_once('{') else { return key };
    match rest.split_once('}') {
        Some((tag, _)) if !tag.is_empty() => tag,
        _ => key,
    }
}

#[tokio::test]
async fn what_is_not_ours_in_a_log_is_told() {
    let server = Server::start();
    let store = server.store().await;
    let mut raw =
        redis::Client::open(server.url().expose()).unwrap().get_multiplexed_async_connection().await.unwrap();
    let _: () = redis::cmd("SET").arg("bowline:log:{a}:about").arg("x").query_async(&mut raw).await.unwrap();
    let _: () = redis::cmd("SET").arg("bowline:counter:{a}").arg("x").query_async(&mut raw).await.unwrap();
    let read = store.after(&log(), Position::START, ReadLimits::default()).await;
    assert!(matches!(read, Err(StoreError::Unusable(_))), "{read:?}");
    let waited = store.wait(&log(), Position::START, MINUTE).await;
    assert!(matches!(waited, Err(StoreError::Unusable(_))), "{waited:?}");
    let added = store.add("a", 1, MINUTE).await;
    assert!(matches!(added, Err(StoreError::Unusable(_))), "{added:?}");
}

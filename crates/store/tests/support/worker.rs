//! The worker process of the tests: this same program, which gets its task from the environment.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use bowline_config::StoreConfig;
use bowline_store::{AppendOptions, Durability, LogName, Position, Precondition, ReadLimits, Store, Version};
use bowline_testkit::with;

use crate::{key, open};

/// The task of a worker, and the store it uses.
const TASK: &str = "STORE_TEST_TASK";
const STORE: &str = "STORE_TEST_STORE";

/// A running worker. It is killed when this is dropped.
pub(crate) struct Worker {
    pub(crate) child: Child,
    pub(crate) lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Worker {
    /// Starts a worker.
    pub(crate) fn start(task: &str, store: &str) -> Self {
        Self::start_by(Command::new(std::env::current_exe().unwrap()), task, store)
    }

    /// Starts a worker with a prepared command.
    pub(crate) fn start_by(mut command: Command, task: &str, store: &str) -> Self {
        let mut child = command
            .args(["--exact", "worker::works_when_told_to", "--nocapture", "--test-threads", "1"])
            .envs([(TASK, task), (STORE, store)])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// The next line it prints, without the output of the test harness; `None` if it has exited.
    pub(crate) fn says(&mut self) -> Option<String> {
        self.lines.by_ref().map_while(Result::ok).find_map(|line| line.strip_prefix("> ").map(str::to_owned))
    }

    /// Kills it like a crash would.
    pub(crate) fn kill(&mut self) {
        // It may have exited by itself.
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }

    /// Waits until it exits, which must be successful.
    pub(crate) fn done(mut self) {
        self.lines.by_ref().for_each(drop);
        assert!(self.child.wait().unwrap().success(), "a worker failed");
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Prints a line to the parent process at once.
fn say(what: impl std::fmt::Display) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\n> {what}").unwrap();
    out.flush().unwrap();
}

/// The entry point of [`Worker::start`]. Without a task it does nothing; a failing worker fails the
/// test that started it.
#[tokio::test]
async fn works_when_told_to() {
    let (Ok(task), Ok(at)) = (std::env::var(TASK), std::env::var(STORE)) else { return };
    match task.as_str() {
        "count" => count(&*open(&at).await.unwrap()).await,
        "write" => write(&*open(&at).await.unwrap()).await,
        "append" => append(&*open(&at).await.unwrap(), Durability::Disk).await,
        "append-unsynced" => append(&*open(&at).await.unwrap(), Durability::Process).await,
        "contribute" => contribute(&*open(&at).await.unwrap()).await,
        "hold" => hold(&*open(&at).await.unwrap()).await,
        "reach" => reach(&at).await,
        "key" => make_key(Path::new(&at)).await,
        other => panic!("no such task: {other}"),
    }
}

/// How often [`count`] increments.
pub(crate) const INCREMENTS: u64 = 40;

/// Increments a number repeatedly, in competition with other processes.
async fn count(store: &dyn Store) {
    for _ in 0..INCREMENTS {
        loop {
            let entry = store.get(&key("count")).await.unwrap();
            let expect =
                entry.as_ref().map_or(Precondition::Absent, |it| Precondition::AtVersion(it.version));
            let number = entry.map_or(0, |it| u64::from_be_bytes(it.value.try_into().unwrap()));
            if store.put(&key("count"), &(number + 1).to_be_bytes(), expect).await.unwrap().is_some() {
                break;
            }
        }
    }
}

/// Writes increasing numbers, and prints each one that is confirmed.
async fn write(store: &dyn Store) {
    let entry = store.get(&key("written")).await.unwrap();
    let (mut number, mut expect) = entry.map_or((0, Precondition::Absent), |it| {
        (u64::from_be_bytes(it.value[..8].try_into().unwrap()), Precondition::AtVersion(it.version))
    });
    say("ready");
    loop {
        number += 1;
        // Several database pages, so that a partial write would show.
        let value = number.to_be_bytes().repeat(1500);
        let Version(version) = store.put(&key("written"), &value, expect).await.unwrap().unwrap();
        expect = Precondition::AtVersion(Version(version));
        say(format_args!("{number} {version}"));
    }
}

/// The log that [`append`] and [`contribute`] write to.
pub(crate) fn shared_log() -> LogName {
    LogName::new("shared")
}

/// Limits that no test reaches.
pub(crate) fn unlimited(durability: Durability) -> AppendOptions {
    AppendOptions::default()
        .max_entries(u64::MAX)
        .max_bytes(u64::MAX)
        .ttl(bowline_store::MAX_TTL)
        .durability(durability)
}

/// All entries of the log after a position, as numbers.
pub(crate) async fn numbers_after(store: &dyn Store, mut after: Position) -> Vec<(Position, u64)> {
    let mut numbers = Vec::new();
    loop {
        let slice = store.after(&shared_log(), after, ReadLimits::default()).await.unwrap();
        let Some(last) = slice.entries.last() else { return numbers };
        after = last.position;
        numbers.extend(slice.entries.iter().map(|entry| {
            let number = u64::from_be_bytes(entry.value[..8].try_into().unwrap());
            assert_eq!(entry.value, number.to_be_bytes().repeat(200), "an entry is damaged");
            (entry.position, number)
        }));
    }
}

fn numbered_entries(numbers: std::ops::Range<u64>) -> Vec<Vec<u8>> {
    numbers.map(|number| number.to_be_bytes().repeat(200)).collect()
}

/// Appends increasing numbers, several at a time, and prints the last number of each confirmed append.
async fn append(store: &dyn Store, durability: Durability) {
    let mut next = numbers_after(store, Position::START).await.last().map_or(0, |(_, number)| number + 1);
    say("ready");
    loop {
        let count = next % 5 + 1;
        let entries = numbered_entries(next..next + count);
        store.append(&shared_log(), &entries, unlimited(durability)).await.unwrap();
        next += count;
        say(next - 1);
    }
}

/// How many entries [`contribute`] appends.
pub(crate) const CONTRIBUTIONS: u64 = 60;

/// Appends numbers of its own, and counts each of them, in competition with other processes.
async fn contribute(store: &dyn Store) {
    let base = u64::from(std::process::id()) << 32;
    for number in 0..CONTRIBUTIONS {
        let entries = numbered_entries(base + number..base + number + 1);
        store.append(&shared_log(), &entries, unlimited(Durability::Process)).await.unwrap();
        store.add("contributions", 1, bowline_store::MAX_TTL).await.unwrap();
    }
}

/// The lifetime of the lease that [`hold`] acquires.
pub(crate) const HELD_LEASE_TTL: Duration = Duration::from_secs(2);

/// Acquires a lease and never releases it.
async fn hold(store: &dyn Store) {
    let lease = store.acquire("held", HELD_LEASE_TTL).await.unwrap().unwrap();
    say(lease.token);
    std::future::pending::<()>().await;
}

/// Opens a store that may be new, and writes a value with its key.
async fn make_key(state: &Path) {
    let keeping = with!(StoreConfig::default(), key: bowline_config::KeyLocation::File);
    let opened = bowline_store::open(&keeping, state).await.unwrap();
    let id = std::process::id().to_string();
    opened.store.put(&key(&id), &id, Precondition::Absent).await.unwrap().unwrap();
}

/// Prints whether a store can be used.
async fn reach(at: &str) {
    match open(at).await {
        Err(error) => say(format_args!("failed: {error}")),
        Ok(store) => {
            store.put(&key("a"), b"1", Precondition::Absent).await.unwrap().unwrap();
            say(format_args!("kept in {}", store.location()));
        }
    }
}

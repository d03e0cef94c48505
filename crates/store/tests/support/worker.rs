//! What a process does that tests start: this same program, told by its environment what to do.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use bowline_config::Keeping;
use bowline_store::{Expect, Store, Version};

use crate::{key, open};

/// What a worker is to do, and with which store.
const TASK: &str = "STORE_TEST_TASK";
const STORE: &str = "STORE_TEST_STORE";

/// A process at work. It is killed when this goes.
pub(crate) struct Worker {
    pub(crate) child: Child,
    pub(crate) lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Worker {
    /// Starts one.
    pub(crate) fn start(task: &str, store: &str) -> Self {
        Self::start_by(Command::new(std::env::current_exe().unwrap()), task, store)
    }

    /// Starts one by a command that has the program to run in it already.
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

    /// What it says next, without what the test harness says. `None`: it has ended.
    pub(crate) fn says(&mut self) -> Option<String> {
        self.lines.by_ref().map_while(Result::ok).find_map(|line| line.strip_prefix("> ").map(str::to_owned))
    }

    /// Ends it as a crash would.
    pub(crate) fn kill(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }

    /// Waits until it is done, and has to be well.
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

/// Says something to whoever started us, at once.
fn say(what: impl std::fmt::Display) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\n> {what}").unwrap();
    out.flush().unwrap();
}

/// Without a task there is nothing to do: this is the way in for [`Worker::start`], and a failing worker fails
/// the test that started it.
#[tokio::test]
async fn works_when_told_to() {
    let (Ok(task), Ok(at)) = (std::env::var(TASK), std::env::var(STORE)) else { return };
    match task.as_str() {
        "count" => count(&*open(&at).await.unwrap()).await,
        "write" => write(&*open(&at).await.unwrap()).await,
        "hold" => hold(&*open(&at).await.unwrap()).await,
        "reach" => reach(&at).await,
        "key" => make_key(Path::new(&at)).await,
        other => panic!("no such task: {other}"),
    }
}

/// How often [`count`] counts.
pub(crate) const COUNTS: u64 = 40;

/// Adds one to a number, again and again, against all others who do the same.
async fn count(store: &dyn Store) {
    for _ in 0..COUNTS {
        loop {
            let entry = store.get(&key("count")).await.unwrap();
            let expect = entry.as_ref().map_or(Expect::Nothing, |it| Expect::At(it.version));
            let number = entry.map_or(0, |it| u64::from_be_bytes(it.value.try_into().unwrap()));
            if store.put(&key("count"), &(number + 1).to_be_bytes(), expect).await.unwrap().is_some() {
                break;
            }
        }
    }
}

/// Writes number after number and says each that is confirmed.
async fn write(store: &dyn Store) {
    let entry = store.get(&key("written")).await.unwrap();
    let (mut number, mut expect) = entry.map_or((0, Expect::Nothing), |it| {
        (u64::from_be_bytes(it.value[..8].try_into().unwrap()), Expect::At(it.version))
    });
    say("ready");
    loop {
        number += 1;
        // Of several pages, so that a change half made would show.
        let value = number.to_be_bytes().repeat(1500);
        let Version(version) = store.put(&key("written"), &value, expect).await.unwrap().unwrap();
        expect = Expect::At(Version(version));
        say(format_args!("{number} {version}"));
    }
}

/// How long [`hold`] has its lease for.
pub(crate) const HELD: Duration = Duration::from_secs(2);

/// Takes a lease and never gives it back.
async fn hold(store: &dyn Store) {
    let lease = store.acquire("held", HELD).await.unwrap().unwrap();
    say(lease.token);
    std::future::pending::<()>().await;
}

/// Opens a store that may be new, and writes what only its key opens.
async fn make_key(state: &Path) {
    let keeping = Keeping { key: bowline_config::KeyPlace::File, ..Keeping::default() };
    let opened = bowline_store::open(&keeping, state).await.unwrap();
    let id = std::process::id().to_string();
    opened.safe.put(&key(&id), &id, Expect::Nothing).await.unwrap().unwrap();
}

/// Says whether a store can be used.
async fn reach(at: &str) {
    match open(at).await {
        Err(error) => say(format_args!("failed: {error}")),
        Ok(store) => {
            store.put(&key("a"), b"1", Expect::Nothing).await.unwrap().unwrap();
            say(format_args!("kept in {}", store.place()));
        }
    }
}

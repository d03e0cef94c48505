//! What a process does that tests start: this same program, told by its environment what to do.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use bowline_config::{Backend, Http};
use bowline_store::{Safe, SealKey, open_with};

use crate::support::Host;

const FOLDER: &str = "AUTH_TEST_FOLDER";
const SERVER: &str = "AUTH_TEST_SERVER";

/// A process at work. It is killed when this goes.
pub(crate) struct Worker {
    child: Child,
    say: ChildStdin,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Worker {
    pub(crate) fn start(folder: &Path, server: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "worker::works_when_told_to", "--nocapture", "--test-threads", "1"])
            .env(FOLDER, folder)
            .env(SERVER, server)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { say: child.stdin.take().unwrap(), child, lines }
    }

    /// Has it call the server once.
    pub(crate) fn call(&mut self) {
        writeln!(self.say, "call").unwrap();
    }

    /// What came of it, without what the test harness says.
    pub(crate) fn outcome(&mut self) -> String {
        let mut says = self.lines.by_ref().map_while(Result::ok);
        says.find_map(|line| line.strip_prefix("> ").map(str::to_owned)).expect("it is alive")
    }

    /// Ends it as a crash would.
    pub(crate) fn kill(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The store that all of them share: one SQLite file, and a key that they all know.
pub(crate) async fn safe(folder: &Path) -> Safe {
    let key = SealKey::from_bytes([7; 32]);
    let file = folder.join("logins.db");
    open_with(&Backend::Sqlite(Some(file)), folder, key).await.unwrap().safe
}

/// Without a task there is nothing to do: this is the way in for [`Worker::start`], and what a worker says is looked
/// at by the test that started it.
#[tokio::test]
async fn works_when_told_to() {
    let (Ok(folder), Ok(server)) = (std::env::var(FOLDER), std::env::var(SERVER)) else { return };
    let safe = safe(Path::new(&folder)).await;
    let host = Host::new(&safe, Http::plain(server.parse().unwrap()), None);
    host.identity.load().await.unwrap();
    say("ready");
    let orders = std::io::stdin().lines();
    for order in orders.map_while(Result::ok) {
        assert_eq!(order, "call");
        match host.call("tools/list").await {
            Ok(status) => say(&status.to_string()),
            Err(error) => say(&format!("{:?}: {error}", error.kind)),
        }
    }
    host.identity.settle().await.unwrap();
}

/// Says something to whoever started us, at once.
fn say(what: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\n> {what}").unwrap();
    out.flush().unwrap();
}

//! The worker process of the tests: this same program, which gets its task from the environment.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use bowline_config::{Http, StoreBackend};
use bowline_store::{EncryptedStore, SealKey, open_with_key};

use crate::support::TestClient;

const FOLDER: &str = "AUTH_TEST_FOLDER";
const SERVER: &str = "AUTH_TEST_SERVER";

/// A running worker. It is killed when this is dropped.
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

    /// Makes it call the server once.
    pub(crate) fn call(&mut self) {
        writeln!(self.say, "call").unwrap();
    }

    /// The result of the call, without the output of the test harness.
    pub(crate) fn outcome(&mut self) -> String {
        let mut says = self.lines.by_ref().map_while(Result::ok);
        says.find_map(|line| line.strip_prefix("> ").map(str::to_owned)).expect("it is alive")
    }

    /// Kills it like a crash would.
    pub(crate) fn kill(&mut self) {
        // It may have exited by itself.
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The shared store: one SQLite file, and a key that all workers know.
pub(crate) async fn open_store(folder: &Path) -> EncryptedStore {
    let key = SealKey::from_bytes([7; 32]);
    let file = folder.join("logins.db");
    open_with_key(&StoreBackend::Sqlite(Some(file)), folder, key).await.unwrap().store
}

/// The entry point of [`Worker::start`]. Without a task it does nothing; the test that started a
/// worker checks its output.
#[tokio::test]
async fn works_when_told_to() {
    let (Ok(folder), Ok(server)) = (std::env::var(FOLDER), std::env::var(SERVER)) else { return };
    let store = open_store(Path::new(&folder)).await;
    let host = TestClient::new(&store, Http::from_url(server.parse().unwrap()), None);
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
    host.identity.shut_down().await.unwrap();
}

/// Prints a line to the parent process at once.
fn say(what: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\n> {what}").unwrap();
    out.flush().unwrap();
}

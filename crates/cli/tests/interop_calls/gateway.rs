//! `bowline serve` as a process that is killed, and the daemons that its fronts start.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::lab::{BOWLINE, confine};
use crate::limit::within;
use crate::restart::stable_port;

/// `bowline serve` over HTTP. Dropping it kills it.
pub(crate) struct Gateway {
    home: PathBuf,
    port: u16,
    url: String,
    child: Child,
}

impl Gateway {
    /// Starts it on a port of its own, and waits until it says that it serves.
    pub(crate) async fn start(home: &Path) -> Self {
        let port = stable_port();
        let (child, url) = Self::spawn(home, port).await;
        Self { home: home.to_owned(), port, url, child }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Sends SIGKILL, and starts another process on the same port.
    pub(crate) async fn kill_and_restart(&mut self) {
        self.child.kill().await.expect("it still runs");
        (self.child, self.url) = Self::spawn(&self.home, self.port).await;
    }

    async fn spawn(home: &Path, port: u16) -> (Child, String) {
        let mut command = Command::new(BOWLINE);
        confine(&mut command, home);
        command.args(["serve", "--listen", &format!("127.0.0.1:{port}")]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().expect("bowline starts");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        let note = within("a note", lines.next_line()).await.expect("text").expect("a line");
        let url = note
            .split([' ', ';'])
            .find(|word| word.starts_with("http://"))
            .unwrap_or_else(|| panic!("{note}"));
        // What else it says is shown if the test fails.
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                println!("gateway: {line}");
            }
        });
        (child, url.to_owned())
    }
}

/// The daemons that `bowline serve --stdio` starts in a home. Dropping this kills them.
pub(crate) struct Daemons {
    run_folder: PathBuf,
}

impl Daemons {
    pub(crate) fn of(home: &Path) -> Self {
        Self { run_folder: home.join(".local/state/bowline/run") }
    }

    /// Kills the only daemon, and waits until it is gone.
    pub(crate) async fn kill_only(&self) {
        let ids = self.ids();
        let [id] = ids[..] else { panic!("one daemon, not {ids:?}") };
        kill(id);
        while Path::new(&format!("/proc/{id}")).exists() {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    fn ids(&self) -> Vec<i32> {
        let files = std::fs::read_dir(&self.run_folder).into_iter().flatten().flatten();
        let files = files.map(|file| file.path());
        let files = files.filter(|file| file.extension().is_some_and(|extension| extension == "pid"));
        let id = |file: PathBuf| {
            let text = std::fs::read_to_string(file).ok()?;
            text.split_whitespace().next()?.parse().ok()
        };
        files.filter_map(id).collect()
    }
}

impl Drop for Daemons {
    fn drop(&mut self) {
        self.ids().into_iter().for_each(kill);
    }
}

fn kill(id: i32) {
    if let Some(id) = rustix::process::Pid::from_raw(id) {
        let _ = rustix::process::kill_process(id, rustix::process::Signal::KILL);
    }
}

const POLL_INTERVAL: Duration = Duration::from_millis(5);

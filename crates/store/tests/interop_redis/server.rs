//! A real server, started for one test and stopped with it.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use bowline_config::Secret;
use bowline_store::{Store, ValkeyStore};
use tempfile::TempDir;

/// A running server.
pub(crate) struct Server {
    child: Child,
    folder: TempDir,
    args: Vec<String>,
}

impl Server {
    /// Starts a server with a socket in its folder.
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a server with more settings.
    pub(crate) fn start_with(args: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let args: Vec<String> = args.iter().map(|it| (*it).to_owned()).collect();
        let child = run(folder.path(), &args).expect("the server starts");
        Self { child, folder, args }
    }

    /// Starts a server on TCP. Also returns its port.
    pub(crate) fn start_on_port(args: impl Fn(u16) -> Vec<String>) -> (Self, u16) {
        let folder = tempfile::tempdir().unwrap();
        // Another program may take the port before the server does.
        for _ in 0..20 {
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let args = args(port);
            if let Some(child) = run(folder.path(), &args) {
                return (Self { child, folder, args }, port);
            }
        }
        panic!("the server found no free port");
    }

    /// The URL of the server.
    pub(crate) fn url(&self) -> Secret {
        Secret::new(format!("unix://{}", self.socket().display()))
    }

    /// The socket it listens on.
    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    /// Opens a connection to it.
    pub(crate) async fn store(&self) -> Arc<dyn Store> {
        Arc::new(ValkeyStore::open(&self.url(), &mut Vec::new()).await.unwrap())
    }

    /// Kills it like a crash would.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again in the same folder.
    pub(crate) fn restart(&mut self) {
        self.child = run(self.folder.path(), &self.args).expect("the server starts again");
    }

    /// Sends it a signal, such as to suspend it.
    pub(crate) fn signal(&self, signal: &str) {
        let done = Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        assert!(done.success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a server and waits until it listens. Returns `None` if it exits before.
fn run(folder: &Path, args: &[String]) -> Option<Child> {
    let mut child = Command::new(binary())
        .args(["--port", "0", "--save", "", "--appendonly", "yes", "--appendfsync", "always"])
        .args(["--unixsocket", "socket", "--bind", "127.0.0.1", "--dir"])
        .arg(folder)
        .args(args)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    if lines.any(|line| line.is_ok_and(|line| line.contains("eady to accept connections"))) {
        // It must not block on a pipe that nobody reads.
        std::thread::spawn(move || lines.for_each(drop));
        Some(child)
    } else {
        let _ = child.wait();
        None
    }
}

/// The path of the server's program. These tests need a real server, and fail without one.
fn binary() -> PathBuf {
    if let Some(named) = std::env::var_os("BOWLINE_REDIS_SERVER") {
        return named.into();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .flat_map(|folder| ["valkey-server", "redis-server"].map(|name| folder.join(name)))
        .find(|program| program.is_file())
        .expect("no Valkey or Redis: run `cargo xtask test --only interop`, which installs one")
}

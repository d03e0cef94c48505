//! A real Valkey with a password, started for one test and removed with it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use bowline_testkit::canary;
use tempfile::TempDir;

/// The server's password. It is a credential that must never be shown.
pub(crate) const PASSWORD: &str = "tk-secret-valkey-0123456789abcdef";

pub(crate) struct Server {
    child: Child,
    folder: TempDir,
    addr: SocketAddr,
}

impl Server {
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        // Another process may take the port before the server binds it.
        for _ in 0..20 {
            let addr = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
            if let Some(child) = start_server(&folder, addr) {
                return Self { child, folder, addr };
            }
        }
        panic!("the server found no free port");
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Expires the one held lease, as its time to live would.
    pub(crate) fn end_lease(&self) {
        let mut stream = TcpStream::connect(self.addr).unwrap();
        let script = "local found = redis.call('KEYS', 'bowline:lease:*') redis.call('DEL', unpack(found)) return #found";
        for words in [&["AUTH", PASSWORD][..], &["EVAL", script, "0"], &["QUIT"]] {
            write!(stream, "*{}\r\n", words.len()).unwrap();
            for word in words {
                write!(stream, "${}\r\n{word}\r\n", word.len()).unwrap();
            }
        }
        let mut answers = String::new();
        stream.read_to_string(&mut answers).unwrap();
        assert_eq!(answers, "+OK\r\n:1\r\n+OK\r\n");
    }

    /// Checks that its files contain no credential in any encoding.
    pub(crate) fn assert_no_credential(&self) {
        let mut folders = vec![self.folder.path().to_owned()];
        let mut size = 0;
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap().flatten() {
                if entry.path().is_dir() {
                    folders.push(entry.path());
                } else if entry.path().is_file() {
                    let bytes = std::fs::read(entry.path()).unwrap();
                    size += bytes.len();
                    assert_eq!(canary::find_secret(&bytes, &[]), None, "{}", entry.path().display());
                }
            }
        }
        assert!(size > 0, "there must be something to look at");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a server and waits until it listens. Returns `None` if it ends before.
fn start_server(folder: &TempDir, addr: SocketAddr) -> Option<Child> {
    let mut child = Command::new(server_binary())
        .args(["--port", &addr.port().to_string(), "--bind", "127.0.0.1", "--requirepass", PASSWORD])
        .args(["--save", "", "--appendonly", "yes", "--appendfsync", "always", "--dir"])
        .arg(folder.path())
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    if lines.any(|line| line.is_ok_and(|line| line.contains("eady to accept connections"))) {
        // A pipe that nobody reads could block the server.
        std::thread::spawn(move || lines.for_each(drop));
        Some(child)
    } else {
        let _ = child.wait();
        None
    }
}

/// Finds the server's program. These tests need a real one, so they fail without it.
fn server_binary() -> PathBuf {
    if let Some(named) = std::env::var_os("BOWLINE_REDIS_SERVER") {
        return named.into();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .flat_map(|folder| ["valkey-server", "redis-server"].map(|name| folder.join(name)))
        .find(|program| program.is_file())
        .expect("no Valkey or Redis: run `cargo xtask test --only interop`, which installs one")
}

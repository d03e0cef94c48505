//! Starts and stops servers written by others, which the test command has installed.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::sync::watch;

use crate::limit::within;

/// Returns a variable that the test command sets. Without it the test fails: a missing peer must
/// not look like a working one.
pub(crate) fn required_variable(variable: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| {
        panic!("{variable} is not set: run `cargo xtask test --only interop`, which installs the peers")
    })
}

/// An HTTP server in its own process, on a free loopback port. Dropping it ends the process.
pub(crate) struct HttpPeer {
    port: u16,
    log: watch::Receiver<Vec<String>>,
    process: Child,
}

impl HttpPeer {
    /// Starts the command for a free port and waits until the server accepts connections.
    pub(crate) async fn start(command: impl Fn(u16) -> Command) -> Self {
        let mut log = Vec::new();
        // Another process can take the free port before the server binds it, so try several.
        for _ in 0..MAX_PORT_ATTEMPTS {
            let port = free_port();
            let mut peer = Self::spawn(command(port), port);
            if peer.wait_until_accepting().await {
                return peer;
            }
            log.clone_from(&peer.log.borrow());
        }
        panic!("the server never listened; its last words:\n{}", log.join("\n"));
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port)
    }

    /// Waits until the server has written a line that contains `part`, and returns that line.
    pub(crate) async fn wait_for_line(&self, part: &str) -> String {
        self.wait_for_log(part, |lines| lines.iter().find(|line| line.contains(part)).cloned()).await
    }

    /// Waits until `find` finds something in the lines that the server has written so far.
    pub(crate) async fn wait_for_log<T>(&self, what: &str, find: impl Fn(&[String]) -> Option<T>) -> T {
        let mut log = self.log.clone();
        let lines = within(what, log.wait_for(|lines| find(lines).is_some())).await;
        find(&lines.expect("the server still runs")).expect("just seen")
    }

    fn spawn(mut command: Command, port: u16) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut process = command.spawn().expect("the server can be started");
        let (sink, log) = watch::channel(Vec::new());
        tokio::spawn(collect(process.stdout.take().expect("piped"), sink.clone()));
        tokio::spawn(collect(process.stderr.take().expect("piped"), sink));
        Self { port, log, process }
    }

    /// Waits for connections to be accepted. Returns false if the process ends or the attempts run
    /// out.
    async fn wait_until_accepting(&mut self) -> bool {
        for _ in 0..MAX_CONNECT_ATTEMPTS {
            if self.process.try_wait().expect("a child can be asked").is_some() {
                return false;
            }
            if TcpStream::connect(("127.0.0.1", self.port)).await.is_ok() {
                return true;
            }
            tokio::time::sleep(CONNECT_INTERVAL).await;
        }
        false
    }
}

async fn collect(pipe: impl AsyncRead + Unpin, sink: watch::Sender<Vec<String>>) {
    let mut lines = BufReader::new(pipe).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        sink.send_modify(|log| log.push(line));
    }
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("the loopback has a free port");
    listener.local_addr().expect("a bound socket has an address").port()
}

const MAX_PORT_ATTEMPTS: usize = 3;
const MAX_CONNECT_ATTEMPTS: usize = 600;
const CONNECT_INTERVAL: Duration = Duration::from_millis(50);

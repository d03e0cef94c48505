//! Servers that are killed and restarted quickly on the same port.

use std::process::Stdio;
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::sync::watch;

use crate::limit::within;

/// How to start one kind of server.
pub(crate) struct LaunchConfig {
    /// Makes the command that listens on a port.
    pub(crate) command: fn(u16) -> Command,
    /// Set for a server that loads slowly: it prints `loaded`, and listens only when it reads a
    /// line. The next process can then be loaded before the current one is killed.
    pub(crate) preloads: bool,
}

/// A server that can be killed and restarted. Dropping it ends its processes.
pub(crate) struct RestartableServer {
    recipe: LaunchConfig,
    port: u16,
    process: ServerProcess,
    preloaded: Vec<ServerProcess>,
}

struct ServerProcess {
    child: Child,
    log: watch::Receiver<Vec<String>>,
}

impl RestartableServer {
    /// Starts the server on a port of its own and waits until it accepts connections. It can be
    /// restarted `deaths` times.
    pub(crate) async fn start(recipe: LaunchConfig, deaths: usize) -> Self {
        let port = stable_port();
        let process = ServerProcess::spawn(&recipe, port);
        let mut spares = Vec::new();
        if recipe.preloads {
            spares.resize_with(deaths, || ServerProcess::spawn(&recipe, port));
        }
        let mut mortal = Self { recipe, port, process, preloaded: spares };
        if mortal.recipe.preloads {
            mortal.process.release().await;
            for spare in &mut mortal.preloaded {
                spare.wait_for_line("loaded").await;
            }
        }
        mortal.wait_until_accepting().await;
        mortal
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// Sends SIGKILL and waits for the process to end.
    pub(crate) async fn kill(&mut self) {
        self.process.child.kill().await.expect("it still runs");
    }

    /// Starts another process in its place. Returns the time at which it accepts connections.
    pub(crate) async fn restart(&mut self) -> Instant {
        self.process = match self.preloaded.pop() {
            Some(mut spare) => {
                spare.release().await;
                spare
            }
            None => ServerProcess::spawn(&self.recipe, self.port),
        };
        self.wait_until_accepting().await
    }

    async fn wait_until_accepting(&mut self) -> Instant {
        within("the server listens", async {
            loop {
                if let Some(status) = self.process.child.try_wait().expect("a child can be asked") {
                    panic!("the server ended ({status}):\n{}", self.process.log.borrow().join("\n"));
                }
                if TcpStream::connect(("127.0.0.1", self.port)).await.is_ok() {
                    return Instant::now();
                }
                tokio::time::sleep(CONNECT_INTERVAL).await;
            }
        })
        .await
    }
}

impl ServerProcess {
    fn spawn(recipe: &LaunchConfig, port: u16) -> Self {
        let mut command = (recipe.command)(port);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().expect("the server can be started");
        let (sink, log) = watch::channel(Vec::new());
        tokio::spawn(collect(child.stdout.take().expect("piped"), sink.clone()));
        tokio::spawn(collect(child.stderr.take().expect("piped"), sink));
        Self { child, log }
    }

    async fn wait_for_line(&mut self, word: &str) {
        let said = self.log.wait_for(|lines| lines.iter().any(|line| line == word));
        within(word, said).await.expect("the server still runs");
    }

    async fn release(&mut self) {
        self.wait_for_line("loaded").await;
        let stdin = self.child.stdin.as_mut().expect("piped");
        stdin.write_all(b"go\n").await.expect("it waits for this");
    }
}

/// Collects the last lines for failure messages. Bounded, because a server may log every request.
async fn collect(pipe: impl AsyncRead + Unpin, sink: watch::Sender<Vec<String>>) {
    let mut lines = BufReader::new(pipe).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        sink.send_modify(|log| {
            if log.len() == MAX_LOG_LINES {
                log.remove(0);
            }
            log.push(line);
        });
    }
}

/// Finds a free port below the ephemeral range. While the server is down, an outgoing connection
/// could otherwise take its port or even connect to itself.
pub(crate) fn stable_port() -> u16 {
    let start = std::process::id() ^ u32::from(free_port());
    for step in 0..PORT_RANGE.len() {
        let offset = (start as usize * 31 + step) % PORT_RANGE.len();
        let port = PORT_RANGE.start + u16::try_from(offset).expect("a port");
        if std::net::TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no port of {PORT_RANGE:?} is free");
}

/// Finds any free port, which differs from caller to caller.
fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("the loopback has a free port");
    listener.local_addr().expect("a bound socket has an address").port()
}

const PORT_RANGE: std::ops::Range<u16> = 20_000..32_000;
const MAX_LOG_LINES: usize = 200;
const CONNECT_INTERVAL: Duration = Duration::from_millis(5);

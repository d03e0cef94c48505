//! The servers of the recovery comparison: how they are started, and which faults strike them.

use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, bail, ensure};
use bowline_testkit::{self as testkit, CannedResponse, HttpServer, Tool};
use serde_json::{Value, json};

use super::figures::Outage;

/// A server and the fault that strikes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServerKind {
    Everything,
    EverythingSse,
    FastMcp,
    Rmcp,
    Lost404,
    Lost400Text,
    Lost400Json,
}

/// A running server.
pub(crate) enum TestServer {
    Process(ServerProcess),
    /// A scripted server that loses sessions and stays up.
    Scripted(Box<HttpServer>),
}

pub(crate) struct ServerProcess {
    kind: ServerKind,
    port: u16,
    running: SpawnedServer,
    /// Processes that have loaded and wait for the signal to listen.
    spares: Vec<SpawnedServer>,
    handshakes: Arc<AtomicUsize>,
}

struct SpawnedServer {
    child: Child,
    /// Signals that the process has loaded and waits for the signal to listen.
    loaded: Receiver<()>,
}

impl ServerKind {
    pub(crate) const ALL: [Self; 7] = [
        Self::Everything,
        Self::EverythingSse,
        Self::FastMcp,
        Self::Rmcp,
        Self::Lost404,
        Self::Lost400Text,
        Self::Lost400Json,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Everything => "everything-http",
            Self::EverythingSse => "everything-sse",
            Self::FastMcp => "fastmcp",
            Self::Rmcp => "rmcp",
            Self::Lost404 => "sessions-404",
            Self::Lost400Text => "sessions-400-text",
            Self::Lost400Json => "sessions-400-json",
        }
    }

    pub(crate) fn describe(self) -> &'static str {
        match self {
            Self::Everything => "server-everything over Streamable HTTP, killed and restarted twice",
            Self::EverythingSse => "server-everything over HTTP+SSE, killed and restarted twice",
            Self::FastMcp => "a FastMCP server, killed and restarted twice",
            Self::Rmcp => "an rmcp server, killed and restarted twice",
            Self::Lost404 => "sessions forgotten every second, answered with 404",
            Self::Lost400Text => "sessions forgotten every second, answered with 400 and a line of text",
            Self::Lost400Json => "sessions forgotten every second, answered with 400 and a JSON-RPC error",
        }
    }

    /// Returns a tool that the server itself declares read-only.
    pub(crate) fn tool(self) -> &'static str {
        match self {
            Self::Everything | Self::EverythingSse => "echo",
            _ => "look",
        }
    }

    pub(crate) fn arguments(self) -> Value {
        match self {
            Self::Everything | Self::EverythingSse => json!({ "message": "still there?" }),
            _ => json!({ "number": 1 }),
        }
    }

    /// Returns the pause before each fault.
    pub(crate) fn pauses(self) -> &'static [Duration] {
        const KILLS: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(3)];
        const LOSSES: [Duration; 8] = [Duration::from_secs(1); 8];
        match self {
            Self::Everything | Self::EverythingSse | Self::FastMcp | Self::Rmcp => &KILLS,
            Self::Lost404 | Self::Lost400Text | Self::Lost400Json => &LOSSES,
        }
    }

    /// Returns the response to a request with an unknown session.
    fn session_loss_response(self) -> Option<CannedResponse> {
        let error = |code: i64, message: &str| json!({ "jsonrpc": "2.0", "id": null, "error": { "code": code, "message": message } });
        match self {
            Self::Lost404 => Some(CannedResponse::new(404).json(&error(-32001, "Session not found"))),
            Self::Lost400Text => {
                Some(CannedResponse::new(400).text("Bad Request: No valid session ID provided"))
            }
            Self::Lost400Json => {
                Some(CannedResponse::new(400).json(&error(-32600, "Bad Request: Missing session ID")))
            }
            _ => None,
        }
    }

    fn path(self) -> &'static str {
        if self == Self::EverythingSse { "/sse" } else { "/mcp" }
    }

    /// Whether the server is slow to load, and then waits for the signal to listen.
    fn waits_for_release(self) -> bool {
        self == Self::FastMcp
    }

    /// Returns what the server logs for each handshake, if it does.
    fn handshake_log_line(self) -> Option<&'static str> {
        match self {
            Self::Everything => Some("Session initialized with ID"),
            Self::FastMcp | Self::Rmcp => Some("initialize"),
            _ => None,
        }
    }

    fn command(self, port: u16) -> anyhow::Result<Command> {
        let need = |name: &str| std::env::var(name).with_context(|| format!("{name} is not set"));
        let everything = |transport: &str| -> anyhow::Result<Command> {
            let mut command = Command::new(need("BOWLINE_NODE")?);
            command.arg(need("BOWLINE_EVERYTHING")?).arg(transport).env("PORT", port.to_string());
            Ok(command)
        };
        match self {
            Self::Everything => everything("streamableHttp"),
            Self::EverythingSse => everything("sse"),
            Self::FastMcp => {
                let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/client/tests");
                let mut command = Command::new(need("BOWLINE_FASTMCP_PYTHON")?);
                command.arg(tests.join("servers/fastmcp_spare.py")).arg(port.to_string());
                Ok(command)
            }
            Self::Rmcp => {
                let mut command = Command::new(std::env::current_exe()?);
                command.args(["serve-rmcp", &port.to_string()]);
                Ok(command)
            }
            Self::Lost404 | Self::Lost400Text | Self::Lost400Json => bail!("no process of its own"),
        }
    }
}

impl TestServer {
    /// Starts the server and waits until it can be called.
    pub(crate) fn start(kind: ServerKind) -> anyhow::Result<Self> {
        if let Some(gone) = kind.session_loss_response() {
            let script = testkit::server()
                .legacy()
                .tool(Tool::named("look").read_only())
                .unknown_session_response(gone);
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            return Ok(Self::Scripted(Box::new(runtime.block_on(script.run()))));
        }
        let port = non_ephemeral_port()?;
        let handshakes = Arc::default();
        let running = SpawnedServer::spawn(kind, port, &handshakes)?;
        let mut process = ServerProcess { kind, port, running, spares: Vec::new(), handshakes };
        if kind.waits_for_release() {
            for _ in kind.pauses() {
                process.spares.push(SpawnedServer::spawn(kind, port, &process.handshakes)?);
            }
            process.running.wait_until_loaded()?;
            process.running.release()?;
            for spare in &process.spares {
                spare.wait_until_loaded()?;
            }
        }
        process.wait_until_accepting()?;
        Ok(Self::Process(process))
    }

    pub(crate) fn url(&self) -> String {
        match self {
            Self::Process(process) => format!("http://127.0.0.1:{}{}", process.port, process.kind.path()),
            Self::Scripted(server) => server.url(),
        }
    }

    /// Strikes the server with one fault.
    pub(crate) fn inject_fault(&mut self) -> anyhow::Result<Option<Outage>> {
        match self {
            Self::Process(process) => process.kill_and_restart().map(Some),
            Self::Scripted(server) => {
                server.drop_sessions();
                Ok(None)
            }
        }
    }

    pub(crate) fn handshakes(&self) -> Option<usize> {
        match self {
            Self::Process(process) => {
                process.kind.handshake_log_line().map(|_| process.handshakes.load(Ordering::SeqCst))
            }
            Self::Scripted(server) => Some(server.initialize_count()),
        }
    }
}

impl ServerProcess {
    fn kill_and_restart(&mut self) -> anyhow::Result<Outage> {
        let killed = now();
        self.running.child.kill()?;
        self.running.child.wait()?;
        self.running = match self.spares.pop() {
            Some(mut spare) => {
                spare.release()?;
                spare
            }
            None => SpawnedServer::spawn(self.kind, self.port, &self.handshakes)?,
        };
        self.wait_until_accepting()?;
        Ok(Outage { killed, back: now() })
    }

    fn wait_until_accepting(&mut self) -> anyhow::Result<()> {
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            ensure!(self.running.child.try_wait()?.is_none(), "the server ended by itself");
            ensure!(
                begun.elapsed() < START_TIMEOUT,
                "the server does not listen within {} s",
                START_TIMEOUT.as_secs()
            );
            sleep(POLL_INTERVAL);
        }
        Ok(())
    }
}

impl SpawnedServer {
    fn spawn(kind: ServerKind, port: u16, handshakes: &Arc<AtomicUsize>) -> anyhow::Result<Self> {
        let mut command = kind.command(port)?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context("start the server")?;
        let (load, loaded) = channel();
        let pipes: [Option<Box<dyn Read + Send>>; 2] = [
            child.stdout.take().map(|pipe| Box::new(pipe) as _),
            child.stderr.take().map(|pipe| Box::new(pipe) as _),
        ];
        for pipe in pipes.into_iter().flatten() {
            let (load, handshakes) = (load.clone(), Arc::clone(handshakes));
            std::thread::spawn(move || {
                for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                    if line == "loaded" {
                        let _ = load.send(());
                    }
                    if kind.handshake_log_line().is_some_and(|words| line.contains(words)) {
                        handshakes.fetch_add(1, Ordering::SeqCst);
                    }
                }
            });
        }
        Ok(Self { child, loaded })
    }

    fn wait_until_loaded(&self) -> anyhow::Result<()> {
        self.loaded.recv_timeout(START_TIMEOUT).context("the server did not load")
    }

    fn release(&mut self) -> anyhow::Result<()> {
        let stdin = self.child.stdin.as_mut().context("stdin")?;
        stdin.write_all(b"go\n").context("tell the server to listen")
    }
}

impl Drop for SpawnedServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sleeps. Nothing signals when a port is listened on, nor when the next fault is due.
#[expect(clippy::disallowed_methods, reason = "there is no runtime here to block")]
pub(crate) fn sleep(time: Duration) {
    std::thread::sleep(time);
}

/// Returns a port below the ephemeral range. While the server is down, an outgoing connection could
/// take an ephemeral port, or even connect to itself there.
pub(crate) fn non_ephemeral_port() -> anyhow::Result<u16> {
    let start = u16::try_from(std::process::id() % 10_000)?;
    let mut ports = (0..10_000).map(|step| 20_000 + (start + step) % 10_000);
    ports.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).context("a free port")
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// Time for an interpreter to start on a loaded machine.
const START_TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(2);

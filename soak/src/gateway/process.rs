//! The process of the gateway: how it is started, killed and measured, and what it does.

use std::collections::BTreeSet;
use std::io::{BufRead as _, Read as _, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use bowline::Server;
use bowline::config::Share;
use bowline_gateway::{FolderCatalog, Gateway, HttpListener, HttpSettings, Naming, SessionFiles};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use super::PROCESS_ROLE;

/// How the gateway reaches a server.
#[derive(Clone, Serialize, Deserialize)]
pub(super) enum UpstreamPlan {
    /// By its URL.
    Http(String),
    /// By starting it. All sessions of hosts share one process.
    Stdio { program: PathBuf, args: Vec<String>, env: Vec<(String, String)> },
}

/// What the process of the gateway is told.
#[derive(Serialize, Deserialize)]
struct Plan {
    /// By their names.
    servers: Vec<(String, UpstreamPlan)>,
    /// Where it listens.
    address: SocketAddr,
    state: PathBuf,
    /// How long a session may be idle, in milliseconds, if not as long as by default.
    session_idle_ms: Option<u64>,
}

/// A folder for what outlives the process, removed at the end.
pub(super) struct StateFolder(PathBuf);

/// What a process holds of the system.
#[derive(Clone, Copy)]
pub(super) struct Usage {
    /// Resident memory in kilobytes.
    pub(super) memory: u64,
    /// Open files, most of which are connections.
    pub(super) files: u64,
}

/// The running process of the gateway.
pub(super) struct GatewayProcess {
    child: Child,
    address: SocketAddr,
}

impl StateFolder {
    pub(super) fn create() -> anyhow::Result<Self> {
        let path =
            std::env::temp_dir().join(format!("bowline-soak-{}-{:x}", std::process::id(), fastrand::u64(..)));
        std::fs::create_dir(&path).context("a folder for the state of the gateway")?;
        Ok(Self(path))
    }

    /// The names of the files of sessions.
    pub(super) fn session_files(&self) -> anyhow::Result<BTreeSet<String>> {
        let names: Result<BTreeSet<_>, _> = std::fs::read_dir(self.0.join("sessions"))?
            .map(|file| file.map(|file| file.file_name().to_string_lossy().into_owned()))
            .collect();
        Ok(names?.into_iter().filter(|name| name != "key" && name != "owners").collect())
    }

    /// The sessions that are recorded although their hosts have left: a host does not wait for long until the gateway
    /// says that it has ended its session.
    pub(super) async fn wait_for_leftovers(&self) -> anyhow::Result<BTreeSet<String>> {
        let end = Instant::now() + LEAVE_LIMIT;
        loop {
            let left = self.session_files()?;
            if left.is_empty() || Instant::now() >= end {
                return Ok(left);
            }
            sleep(LEAVE_POLL_INTERVAL).await;
        }
    }
}

impl Drop for StateFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl GatewayProcess {
    pub(super) async fn start(
        servers: &[(String, UpstreamPlan)],
        folder: &StateFolder,
    ) -> anyhow::Result<Self> {
        Self::start_at(servers, &folder.0, SocketAddr::from(([127, 0, 0, 1], 0)), None).await
    }

    /// Starts a gateway whose sessions may be idle for this long.
    pub(super) async fn start_with_idle(
        servers: &[(String, UpstreamPlan)],
        folder: &StateFolder,
        idle: Duration,
    ) -> anyhow::Result<Self> {
        let idle_ms = u64::try_from(idle.as_millis())?;
        Self::start_at(servers, &folder.0, SocketAddr::from(([127, 0, 0, 1], 0)), Some(idle_ms)).await
    }

    async fn start_at(
        servers: &[(String, UpstreamPlan)],
        state: &Path,
        address: SocketAddr,
        session_idle_ms: Option<u64>,
    ) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("the path of this program")?;
        let mut child = Command::new(program)
            .arg(PROCESS_ROLE)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("starting the gateway")?;
        let plan = Plan { servers: servers.to_vec(), address, state: state.to_owned(), session_idle_ms };
        let mut line = serde_json::to_string(&plan)?;
        line.push('\n');
        child.stdin.as_mut().context("it has a stdin")?.write_all(line.as_bytes()).await?;
        let mut address = String::new();
        let stdout = child.stdout.as_mut().context("it has a stdout")?;
        BufReader::new(stdout).read_line(&mut address).await?;
        let address = address.trim().parse().context("the gateway says where it listens")?;
        Ok(Self { child, address })
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Kills the process and starts another one in its place.
    pub(super) async fn kill_and_restart(
        mut self,
        servers: &[(String, UpstreamPlan)],
        folder: &StateFolder,
    ) -> anyhow::Result<Self> {
        self.child.kill().await?;
        Self::start_at(servers, &folder.0, self.address, None).await
    }

    /// Its resident memory in kilobytes. `None` if the system cannot tell.
    pub(super) fn resident_memory(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()?)).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.trim().strip_suffix(" kB")?.trim().parse().ok()
    }

    /// What it holds of the system. `None` if the system cannot tell.
    pub(super) fn usage(&self) -> Option<Usage> {
        let files = std::fs::read_dir(format!("/proc/{}/fd", self.child.id()?)).ok()?;
        Some(Usage { memory: self.resident_memory()?, files: u64::try_from(files.count()).ok()? })
    }

    /// Ends the process in good order. Returns whether it did.
    pub(super) async fn stop(mut self) -> anyhow::Result<bool> {
        drop(self.child.stdin.take());
        Ok(tokio::time::timeout(STOP_LIMIT, self.child.wait())
            .await
            .context("the end of the gateway")??
            .success())
    }
}

impl Usage {
    /// Whether the memory has grown since then by more than what happens to be open explains. A slow machine may still
    /// be opening connections of sessions that were restored.
    pub(super) fn has_grown_since(self, earlier: Self) -> bool {
        let opened = self.files.saturating_sub(earlier.files);
        self.memory > earlier.memory + earlier.memory / 4 + MEMORY_ALLOWANCE + opened * MEMORY_PER_FILE
    }
}

impl UpstreamPlan {
    fn configured(&self, name: &str) -> anyhow::Result<Server> {
        match self {
            Self::Http(url) => Ok(Server::http(name, url).reconnect_wait(RECONNECT_WAIT).build()?),
            Self::Stdio { program, args, env } => {
                let program = program.to_str().context("the path of the server is UTF-8")?;
                let server = Server::stdio(name, program).reconnect_wait(RECONNECT_WAIT);
                let mut server = server.args(args.iter().cloned());
                for (name, value) in env {
                    server = server.env(name, value.as_str());
                }
                Ok(server.build()?.with_share(Share::All))
            }
        }
    }
}

/// How long a call waits for a server, or for the gateway, that is away: a slow machine takes longer to bring it back.
pub(super) const RECONNECT_WAIT: Duration = Duration::from_secs(30);
/// How much memory may come and go with what happens to be going on, in kilobytes.
const MEMORY_ALLOWANCE: u64 = 16 * 1024;
/// How much memory an open connection may take, in kilobytes, with its share of a session.
const MEMORY_PER_FILE: u64 = 64;
/// How long the gateway may take to end.
const STOP_LIMIT: Duration = Duration::from_secs(30);
/// How long sessions may be recorded after their hosts have left, on a slow machine.
const LEAVE_LIMIT: Duration = Duration::from_secs(20);
/// The time between two looks at what is recorded.
const LEAVE_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Is the gateway, until stdin is closed.
pub(crate) fn run() -> anyhow::Result<()> {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    let plan: Plan = serde_json::from_str(&line).context("a plan")?;
    tokio::runtime::Runtime::new()?.block_on(serve(plan))
}

async fn serve(plan: Plan) -> anyhow::Result<()> {
    let servers: Result<Vec<_>, _> =
        plan.servers.iter().map(|(name, upstream)| upstream.configured(name)).collect();
    let gateway = Gateway::builder(servers?)
        .naming(Naming::Prefixed)
        .catalog_cache(FolderCatalog::new(plan.state.join("catalog")))
        .build();
    let sessions = SessionFiles::open(&plan.state.join("sessions"))?;
    let socket = tokio::net::TcpListener::bind(plan.address).await?;
    println!("{}", socket.local_addr()?);
    std::io::stdout().flush()?;
    let mut settings = HttpSettings::new().with_session_store(Arc::new(sessions));
    if let Some(idle) = plan.session_idle_ms {
        settings = settings.with_idle_timeout(Duration::from_millis(idle));
    }
    let listener = HttpListener::tcp(socket, settings);
    let (ended, stop) = tokio::sync::oneshot::channel::<()>();
    std::thread::spawn(move || {
        let _ = std::io::stdin().lock().read_to_end(&mut Vec::new());
        drop(ended);
    });
    gateway
        .serve_hosts(listener, Duration::from_secs(5), async {
            let _ = stop.await;
        })
        .await;
    Ok(())
}

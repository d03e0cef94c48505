//! The ways from a host to a server, and how each is set up.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;
use serde::Serialize;

use super::http_host::{HttpHost, IDS_PER_LANE};
use super::messages::Tool;
use super::process::{GatewayProcess, HostEndpoint, Upstream, connect_command, serve_stdio_command};
use super::stdio_host::StdioHost;
use crate::client::lanes;
use crate::command::TempHome;
use crate::job::{Limits, Sample};
use crate::recovery::test_server::non_ephemeral_port;
use crate::runner::Server;

/// A way from a host to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Way {
    /// No gateway, over HTTP.
    Direct,
    /// No gateway, over pipes.
    DirectStdio,
    /// A proxy that parses nothing.
    Floor,
    /// `bowline serve`, HTTP to HTTP.
    ServeLegacy,
    ServeModern,
    /// `bowline serve --stdio` to HTTP.
    ServeStdioLegacy,
    ServeStdioModern,
    /// `bowline serve` over HTTP to a process.
    ServeToStdio,
    /// `bowline connect` to HTTP.
    Connect,
    FastMcp,
    McpRemote,
    SupergatewayToHttp,
    SupergatewayToStdio,
    NodeMcpProxy,
    PythonMcpProxyToHttp,
    PythonMcpProxyToStdio,
}

/// A way that was set up, with a host on it.
pub(super) struct OpenWay {
    host: WayHost,
    process: Option<GatewayProcess>,
    next_id: u64,
    // Removed at the end.
    _home: Option<TempHome>,
}

enum WayHost {
    Http(HttpHost),
    Stdio(Box<StdioHost>),
}

// === impl Way ===

impl Way {
    pub(super) const OURS: [Self; 9] = [
        Self::Direct,
        Self::DirectStdio,
        Self::Floor,
        Self::ServeLegacy,
        Self::ServeModern,
        Self::ServeStdioLegacy,
        Self::ServeStdioModern,
        Self::ServeToStdio,
        Self::Connect,
    ];

    pub(super) const PEERS: [Self; 7] = [
        Self::FastMcp,
        Self::McpRemote,
        Self::SupergatewayToHttp,
        Self::SupergatewayToStdio,
        Self::NodeMcpProxy,
        Self::PythonMcpProxyToHttp,
        Self::PythonMcpProxyToStdio,
    ];

    /// Returns a name, with the transports of the host and of the server.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct, HTTP",
            Self::DirectStdio => "direct, stdio",
            Self::Floor => "floor, HTTP-HTTP",
            Self::ServeLegacy => "serve, HTTP-HTTP legacy",
            Self::ServeModern => "serve, HTTP-HTTP modern",
            Self::ServeStdioLegacy => "serve, stdio-HTTP legacy",
            Self::ServeStdioModern => "serve, stdio-HTTP modern",
            Self::ServeToStdio => "serve, HTTP-stdio",
            Self::Connect => "connect, stdio-HTTP",
            Self::FastMcp => "FastMCP, HTTP-HTTP",
            Self::McpRemote => "mcp-remote, stdio-HTTP",
            Self::SupergatewayToHttp => "supergateway, stdio-HTTP",
            Self::SupergatewayToStdio => "supergateway, HTTP-stdio",
            Self::NodeMcpProxy => "mcp-proxy (npm), HTTP-stdio",
            Self::PythonMcpProxyToHttp => "mcp-proxy (PyPI), stdio-HTTP",
            Self::PythonMcpProxyToStdio => "mcp-proxy (PyPI), HTTP-stdio",
        }
    }

    /// Whether a call with effects can differ from one without.
    pub(super) fn tells_effects_apart(self) -> bool {
        matches!(
            self,
            Self::ServeLegacy
                | Self::ServeModern
                | Self::ServeStdioLegacy
                | Self::ServeStdioModern
                | Self::ServeToStdio
                | Self::Connect
        )
    }

    /// Sets up the way to the server, and opens a session of a host on it.
    pub(super) async fn open(self, server: &Server) -> anyhow::Result<OpenWay> {
        let origin = server.origins.first().context("a server")?;
        let (legacy, modern) = (format!("{origin}/legacy"), format!("{origin}/modern"));
        let program = std::env::current_exe()?.display().to_string();
        match self {
            Self::Direct => OpenWay::http(None, HostEndpoint { url: legacy, token: None }).await,
            Self::DirectStdio => {
                let mut command = Command::new(program);
                command.arg("serve-stdio");
                OpenWay::stdio(command, None).await
            }
            Self::Floor => {
                let upstream = origin.trim_start_matches("http://");
                let (process, address) = GatewayProcess::of_this_program(&["proxy", upstream])?;
                let url = format!("http://{address}/legacy");
                OpenWay::http(Some(process), HostEndpoint { url, token: None }).await
            }
            Self::ServeLegacy => OpenWay::serve(Upstream::Url(legacy)).await,
            Self::ServeModern => OpenWay::serve(Upstream::Url(modern)).await,
            Self::ServeToStdio => OpenWay::serve(Upstream::Stdio).await,
            Self::ServeStdioLegacy => OpenWay::serve_stdio(legacy).await,
            Self::ServeStdioModern => OpenWay::serve_stdio(modern).await,
            Self::Connect => {
                let home = TempHome::create()?;
                OpenWay::stdio(connect_command(&home, &legacy)?, Some(home)).await
            }
            Self::McpRemote => OpenWay::stdio_peer(self.peer_command(&legacy, 0)?).await,
            Self::SupergatewayToHttp | Self::PythonMcpProxyToHttp => {
                OpenWay::stdio_peer(self.peer_command(&legacy, 0)?).await
            }
            Self::FastMcp | Self::SupergatewayToStdio | Self::NodeMcpProxy | Self::PythonMcpProxyToStdio => {
                let port = non_ephemeral_port()?;
                let command = self.peer_command(&legacy, port)?;
                let url = format!("http://127.0.0.1:{port}/mcp");
                let (process, endpoint) = GatewayProcess::other(command, url).await?;
                OpenWay::http(Some(process), endpoint).await
            }
        }
    }

    /// Returns the command of a peer in front of the server at `url`, or of the one that is a
    /// process. `port` is the one that it listens on, if it does.
    pub(crate) fn peer_command(self, url: &str, port: u16) -> anyhow::Result<Command> {
        let need = |name: &str| std::env::var(name).with_context(|| format!("{name} is not set"));
        let program = std::env::current_exe()?.display().to_string();
        let port = port.to_string();
        let node = |script: &str| -> anyhow::Result<Command> {
            let mut command = Command::new(need("BOWLINE_NODE")?);
            command.arg(Path::new(&need("BOWLINE_GATEWAY_NODE_MODULES")?).join(script));
            Ok(command)
        };
        let python = || -> anyhow::Result<Command> {
            let mut command = Command::new(need("BOWLINE_GATEWAY_PYTHON")?);
            command.args(["-m", "mcp_proxy", "--log-level", "ERROR"]);
            Ok(command)
        };
        let mut command = match self {
            Self::FastMcp => Command::new(need("BOWLINE_FASTMCP_PYTHON")?),
            Self::McpRemote => node("mcp-remote/dist/proxy.js")?,
            Self::SupergatewayToHttp | Self::SupergatewayToStdio => node("supergateway/dist/index.js")?,
            Self::NodeMcpProxy => node("mcp-proxy/dist/bin/mcp-proxy.mjs")?,
            _ => python()?,
        };
        match self {
            Self::FastMcp => {
                let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/fastmcp_proxy.py");
                command.arg(script).args([url, &port])
            }
            Self::McpRemote => command.args([url, "--allow-http", "--transport", "http-only"]),
            Self::SupergatewayToHttp => command.args(["--streamableHttp", url, "--logLevel", "none"]),
            Self::SupergatewayToStdio => command
                .args(["--stdio", &format!("{program} serve-stdio"), "--outputTransport", "streamableHttp"])
                .args(["--stateful", "--logLevel", "none", "--port", &port]),
            Self::NodeMcpProxy => command
                .args(["--host", "127.0.0.1", "--port", &port, "--server", "stream", "--"])
                .args([&program, "serve-stdio"]),
            Self::PythonMcpProxyToHttp => command.args(["--transport", "streamablehttp", url]),
            _ => command.args(["--port", &port, "--", &program, "serve-stdio"]),
        };
        Ok(command)
    }
}

// === impl OpenWay ===

impl OpenWay {
    async fn http(process: Option<GatewayProcess>, endpoint: HostEndpoint) -> anyhow::Result<Self> {
        let host = HttpHost::open(&endpoint.url, endpoint.token.as_deref()).await?;
        // A host lists the tools before it calls one.
        host.connect().await?.count_tools().await?;
        Ok(Self { host: WayHost::Http(host), process, next_id: IDS_PER_LANE, _home: None })
    }

    async fn serve(server: Upstream) -> anyhow::Result<Self> {
        let (process, endpoint) = GatewayProcess::serve(TempHome::create()?, &[server])?;
        Self::http(Some(process), endpoint).await
    }

    async fn serve_stdio(url: String) -> anyhow::Result<Self> {
        let home = TempHome::create()?;
        let command = serve_stdio_command(&home, &[Upstream::Url(url)])?;
        Self::stdio(command, Some(home)).await
    }

    async fn stdio_peer(mut command: Command) -> anyhow::Result<Self> {
        let home = TempHome::create()?;
        command.envs(home.variables());
        Self::stdio(command, Some(home)).await
    }

    async fn stdio(command: Command, home: Option<TempHome>) -> anyhow::Result<Self> {
        let mut host = StdioHost::start(command)?;
        let opened = tokio::time::timeout(OPEN_TIMEOUT, async {
            host.open_session().await?;
            host.count_tools().await
        });
        opened.await.context("no session in time")??;
        Ok(Self { host: WayHost::Stdio(Box::new(host)), process: None, next_id: 0, _home: home })
    }

    /// Keeps `lanes` calls in flight, and measures them.
    pub(super) async fn measure(
        &mut self,
        tool: Tool,
        lanes: usize,
        limits: Limits,
    ) -> anyhow::Result<Sample> {
        match &mut self.host {
            WayHost::Stdio(host) => host.measure(tool, lanes, limits).await,
            WayHost::Http(host) => {
                let callers = host.lanes(tool, lanes, self.next_id).await?;
                self.next_id += lanes as u64 * IDS_PER_LANE;
                lanes::drive(callers, limits).await
            }
        }
    }

    /// Returns the id of the process between host and server, or that of the server on a pipe.
    pub(super) fn pid(&self) -> Option<u32> {
        match &self.host {
            WayHost::Stdio(host) => host.pid(),
            WayHost::Http(_) => self.process.as_ref().map(GatewayProcess::pid),
        }
    }
}

/// Time for an interpreter to start and connect on a loaded machine.
const OPEN_TIMEOUT: Duration = Duration::from_secs(40);

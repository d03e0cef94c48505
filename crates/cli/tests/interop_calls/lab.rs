//! Two real servers, the ways to reach them, and the faults that strike them between calls.

use std::path::{Path, PathBuf};

use bowline_testkit::{self as testkit, CannedResponse, HttpServer, Tool};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;

use crate::gateway::{Daemons, Gateway};
use crate::limit::within;
use crate::restart::{LaunchConfig, RestartableServer};

/// A folder to live in, two servers, and what leads to them.
pub(crate) struct Lab {
    // Dropped first, while the folder with its files exists.
    daemons: Daemons,
    gateway: Option<Gateway>,
    everything: RestartableServer,
    knots: HttpServer,
    home: TempDir,
}

/// A way from a client to the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// The URL of the one server that the calls are for.
    Direct(ServerName),
    /// mcp-remote in front of that server.
    McpRemote(ServerName),
    /// `bowline connect` in front of that server.
    Connect(ServerName),
    /// `bowline serve --stdio` in front of both.
    ServeStdio,
    /// `bowline serve` in front of both, over HTTP.
    ServeHttp,
}

/// One of the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerName {
    /// The reference server, a process of its own. It can be killed and restarted.
    Everything,
    /// The server of the test kit. It can forget its sessions.
    Knots,
}

/// How a client reaches the servers.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// A program that speaks MCP on stdin and stdout.
    Command { program: String, args: Vec<String> },
    /// An endpoint of Streamable HTTP, and its token if it needs one.
    Url { url: String, token: Option<String> },
}

/// What strikes between two calls. Nothing is under way then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LabFault {
    /// The server of the test kit forgets all sessions.
    ForgetSessions,
    /// The server of the test kit forgets all sessions, and from then on answers those with 400 and a text
    /// instead of 404.
    ForgetSessionsWith400,
    /// The reference server is killed and started again.
    KillServer,
    /// The gateway, or its daemon, is killed. Over HTTP the next one listens before the next call.
    KillGateway,
}

/// One call, and the text of its only right answer.
pub(crate) struct LabCall {
    pub(crate) tool: &'static str,
    pub(crate) arguments: Value,
    pub(crate) answer: String,
}

impl Lab {
    /// Starts the servers, and writes the configuration of both.
    pub(crate) async fn start() -> Self {
        let home = TempDir::new().expect("a folder");
        let everything = RestartableServer::start(EVERYTHING, 0).await;
        let knots = testkit::server().legacy().tool(Tool::like(KNOTS_TOOL, "echo")).run().await;
        let folder = home.path().join(".config/bowline");
        std::fs::create_dir_all(&folder).expect("a folder");
        let config = format!(
            "[servers.everything]\nurl = '{}'\n[servers.knots]\nurl = '{}'\n",
            everything.url("/mcp"),
            knots.url()
        );
        std::fs::write(folder.join("config.toml"), config).expect("a file");
        let daemons = Daemons::of(home.path());
        Self { daemons, gateway: None, everything, knots, home }
    }

    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    /// Sets up a way, and returns how a client gets on it.
    pub(crate) async fn open(&mut self, way: Way) -> Target {
        let program = BOWLINE.to_owned();
        match way {
            Way::Direct(server) => Target::Url { url: self.url(server), token: None },
            Way::McpRemote(server) => {
                let modules = PathBuf::from(required_variable("BOWLINE_GATEWAY_NODE_MODULES"));
                let script = modules.join("mcp-remote/dist/proxy.js").to_string_lossy().into_owned();
                let url = self.url(server);
                let args = [&*script, &url, "--allow-http", "--transport", "http-only"].map(str::to_owned);
                Target::Command { program: required_variable("BOWLINE_NODE"), args: args.into() }
            }
            Way::Connect(server) => {
                Target::Command { program, args: vec!["connect".to_owned(), self.url(server)] }
            }
            Way::ServeStdio => {
                Target::Command { program, args: ["serve", "--stdio"].map(str::to_owned).into() }
            }
            Way::ServeHttp => {
                let gateway = Gateway::start(self.home.path()).await;
                let url = gateway.url().to_owned();
                self.gateway = Some(gateway);
                let token = self.home.path().join(".local/state/bowline/serve-token");
                let token = std::fs::read_to_string(token).expect("a token").trim().to_owned();
                Target::Url { url, token: Some(token) }
            }
        }
    }

    fn url(&self, server: ServerName) -> String {
        match server {
            ServerName::Everything => self.everything.url("/mcp"),
            ServerName::Knots => self.knots.url(),
        }
    }

    pub(crate) async fn strike(&mut self, fault: LabFault) {
        match fault {
            LabFault::ForgetSessions => self.knots.drop_sessions(),
            LabFault::ForgetSessionsWith400 => {
                let answer = CannedResponse::new(400).text("Bad Request: No valid session ID provided");
                self.knots.edit(|script| script.unknown_session_response(answer));
                self.knots.drop_sessions();
            }
            LabFault::KillServer => {
                self.everything.kill().await;
                self.everything.restart().await;
            }
            LabFault::KillGateway => match &mut self.gateway {
                Some(gateway) => within("the gateway is restarted", gateway.kill_and_restart()).await,
                None => within("the daemon is killed", self.daemons.kill_only()).await,
            },
        }
    }

    /// Returns how often the tool of the test kit was executed.
    pub(crate) fn executions(&self) -> u64 {
        self.knots.executions(KNOTS_TOOL)
    }

    /// Returns the name that a client or host gave for itself to the server of the test kit.
    pub(crate) fn client_name(&self) -> String {
        let hello = self.knots.received_with_method("initialize").pop().expect("it came");
        hello.params()["clientInfo"]["name"].as_str().expect("a name").to_owned()
    }
}

impl Lab {
    /// Returns what the server of the test kit was told in the handshake, the methods that it received, and what
    /// the client did against the protocol.
    pub(crate) fn handshake(&self) -> String {
        let hello = self.knots.received_with_method("initialize").pop().expect("it came");
        let received = self.knots.received();
        let methods: Vec<_> = received.iter().map(|message| &*message.method).collect();
        let violations = self.knots.violations();
        format!("{}, {}, against the protocol: {violations:?}", hello.params(), methods.join(" "))
    }
}

impl LabCall {
    /// Returns the call of this number to this server.
    pub(crate) fn new(server: ServerName, number: usize) -> Self {
        let message = format!("knot {number}");
        let arguments = json!({ "message": message });
        match server {
            ServerName::Everything => Self { tool: "echo", arguments, answer: format!("Echo: {message}") },
            ServerName::Knots => Self { tool: KNOTS_TOOL, answer: arguments.to_string(), arguments },
        }
    }
}

/// Returns a variable that the test command sets. Without it the test fails: a missing peer must not look like a
/// working one.
pub(crate) fn required_variable(variable: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| {
        panic!("{variable} is not set: run `cargo xtask test --only interop`, which installs the peers")
    })
}

/// Sets what every program of others needs: its own home, and no way to leave this machine. The proxy variables
/// lead to a closed port.
pub(crate) fn confine(command: &mut Command, home: &Path) {
    command.env_clear().env("HOME", home).current_dir(home);
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "npm_config_registry"] {
        command.env(name, "http://127.0.0.1:9");
    }
    command.env("NO_PROXY", "127.0.0.1,localhost").env("NO_COLOR", "1");
}

pub(crate) const BOWLINE: &str = env!("CARGO_BIN_EXE_bowline");

/// The tool of the test kit's server. It declares nothing about its effects.
const KNOTS_TOOL: &str = "tie_knot";

const EVERYTHING: LaunchConfig = LaunchConfig { command: everything_command, preloads: false };

fn everything_command(port: u16) -> Command {
    let mut command = Command::new(required_variable("BOWLINE_NODE"));
    command.args([&*required_variable("BOWLINE_EVERYTHING"), "streamableHttp"]).env("PORT", port.to_string());
    command
}

//! A world: one server that faults are injected into, and the ledger of its calls.

use std::sync::Arc;

use anyhow::Context as _;
use bowline::config::Protocol;
use bowline_testkit::{self as testkit, Control, FaultProxy, HttpServer, Script, StdioServer, Tool};
use serde_json::{Value, json};

use crate::fault_log::FaultLog;
use crate::ledger::{CallLedger, Rule, Tally, Violations};
use crate::messages::{Endpoint, WorldPlan};
use crate::processes;

/// Which worlds to run, and how.
pub(crate) struct Selection {
    pub(crate) seed: u64,
    /// Only worlds whose name contains this.
    pub(crate) only: String,
    /// Whether faults and failed calls are printed as they happen.
    pub(crate) verbose: bool,
}

/// A server, the faults that strike it, and the ledger of the calls to it.
pub(crate) struct World {
    pub(crate) kind: usize,
    pub(crate) seed: u64,
    pub(crate) server: Arc<WorldServer>,
    pub(crate) ledger: Arc<CallLedger>,
    pub(crate) faults: Arc<FaultLog>,
    verbose: bool,
}

/// The server of a world, and with it the faults that are possible.
pub(crate) enum WorldServer {
    Http(HttpServer),
    Proxied(HttpServer, FaultProxy),
    /// HTTP+SSE.
    HttpSse(HttpServer),
    Stdio(StdioServer),
}

/// The result of a world.
pub(crate) struct WorldResult {
    pub(crate) name: &'static str,
    pub(crate) tally: Tally,
    pub(crate) faults: Arc<FaultLog>,
    pub(crate) violations: Violations,
}

impl World {
    /// Starts the servers of all selected worlds.
    pub(crate) async fn start_all(selection: &Selection) -> Vec<Self> {
        let mut worlds = Vec::new();
        for (index, kind) in KINDS.iter().enumerate().filter(|(_, kind)| kind.name.contains(&selection.only))
        {
            // A different random sequence for each world, whichever others run.
            let seed = selection.seed.wrapping_add((index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            worlds.push(Self::start(index, kind, seed, selection.verbose).await);
        }
        worlds
    }

    async fn start(index: usize, kind: &WorldKind, seed: u64, verbose: bool) -> Self {
        let book = Arc::new(CallLedger::default());
        let script = (kind.script)(build_script(&book));
        let place = match kind.setup {
            ServerSetup::Http => WorldServer::Http(script.run().await),
            ServerSetup::Proxied => {
                let server = script.run().await;
                let proxy = FaultProxy::start(server.addr()).await;
                WorldServer::Proxied(server, proxy)
            }
            ServerSetup::HttpSse => WorldServer::HttpSse(script.run().await),
            ServerSetup::Stdio => WorldServer::Stdio(script.stdio().await),
        };
        Self { kind: index, seed, server: Arc::new(place), ledger: book, faults: Arc::default(), verbose }
    }

    pub(crate) fn name(&self) -> &'static str {
        KINDS[self.kind].name
    }

    /// Returns the name to print faults under, if they are printed.
    pub(crate) fn log_name(&self) -> Option<&'static str> {
        self.verbose.then_some(self.name())
    }

    pub(crate) fn plan(&self) -> anyhow::Result<WorldPlan> {
        Ok(WorldPlan { kind: self.kind, seed: self.seed, endpoint: self.server.endpoint()? })
    }

    /// Records what the closed clients left behind. Must be called before the client process ends,
    /// which would take its servers along.
    pub(crate) fn check_closed_clients(&self) {
        if let WorldServer::Stdio(server) = &*self.server {
            let started = server.processes();
            for pid in started
                .iter()
                .map(|process| process.pid)
                .filter(|pid| processes::is_running(*pid, STDIO_PROGRAM))
            {
                self.ledger.record_violation(Rule::NoLeak, format!("process {pid} outlived its client"));
            }
        }
    }

    /// Stops the server, and then audits the ledger.
    pub(crate) async fn finish(self) -> WorldResult {
        for wrong in self.server.control().violations() {
            self.ledger.record_violation(Rule::Wire, wrong);
        }
        let name = self.name();
        // Dropping the server waits for its thread.
        let place = self.server;
        if let Err(error) = tokio::task::spawn_blocking(move || drop(place)).await {
            self.ledger.record_violation(Rule::Recovers, format!("the server itself: {error}"));
        }
        let (tally, mut violations) = self.ledger.audit(&self.faults);
        if tally.harmless.calls() == 0 {
            violations.add(Rule::Recovers, "no call was made".to_owned());
        }
        WorldResult { name, tally, faults: self.faults, violations }
    }
}

impl WorldServer {
    fn endpoint(&self) -> anyhow::Result<Endpoint> {
        Ok(match self {
            Self::Http(server) => Endpoint::Http { url: server.url() },
            Self::Proxied(_, proxy) => Endpoint::Http { url: proxy.url("/mcp") },
            Self::HttpSse(server) => Endpoint::Sse { url: server.url() },
            Self::Stdio(server) => {
                let command = server.command();
                let program = command.program.to_str().context("a path in UTF-8")?.to_owned();
                Endpoint::Stdio { program, args: command.args, env: command.env }
            }
        })
    }

    pub(crate) fn control(&self) -> Control {
        match self {
            Self::Http(server) | Self::Proxied(server, _) | Self::HttpSse(server) => server.control(),
            Self::Stdio(server) => server.control(),
        }
    }
}

/// Returns the script of every server: one tool that must not run twice, one idempotent tool, and
/// one that only reads.
fn build_script(book: &Arc<CallLedger>) -> Script {
    let book = Arc::clone(book);
    let act = move |arguments: &Value| {
        let number = arguments["n"].as_u64().unwrap_or(u64::MAX);
        book.record_execution(number);
        json!(number.to_string())
    };
    testkit::server()
        .tool_fn("act", json!({ "type": "object" }), act)
        .tool(Tool::like("put", "echo").idempotent())
        .tool(Tool::like("look", "echo").read_only())
}

/// The kind of server of a world, and how the clients speak to it.
pub(crate) struct WorldKind {
    pub(crate) name: &'static str,
    setup: ServerSetup,
    pub(crate) protocol: Protocol,
    script: fn(Script) -> Script,
}

enum ServerSetup {
    Http,
    Proxied,
    HttpSse,
    Stdio,
}

pub(crate) const KINDS: [WorldKind; 8] = [
    WorldKind { name: "http", setup: ServerSetup::Http, protocol: Protocol::Legacy, script: Script::legacy },
    WorldKind {
        name: "http-streams",
        setup: ServerSetup::Http,
        protocol: Protocol::Legacy,
        script: |script| script.legacy().reply_sse().event_ids(),
    },
    WorldKind {
        name: "http-modern",
        setup: ServerSetup::Http,
        protocol: Protocol::Modern,
        script: Script::modern,
    },
    WorldKind {
        name: "proxied",
        setup: ServerSetup::Proxied,
        protocol: Protocol::Legacy,
        script: Script::legacy,
    },
    WorldKind {
        name: "proxied-modern",
        setup: ServerSetup::Proxied,
        protocol: Protocol::Auto,
        script: Script::dual,
    },
    WorldKind {
        name: "http-sse",
        setup: ServerSetup::HttpSse,
        protocol: Protocol::Legacy,
        script: Script::http_sse,
    },
    WorldKind {
        name: "stdio",
        setup: ServerSetup::Stdio,
        protocol: Protocol::Legacy,
        script: Script::legacy,
    },
    WorldKind {
        name: "stdio-modern",
        setup: ServerSetup::Stdio,
        protocol: Protocol::Auto,
        script: Script::dual,
    },
];

/// The program of a stdio server, as the system truncates its name.
const STDIO_PROGRAM: &str = "testkit-stdio";

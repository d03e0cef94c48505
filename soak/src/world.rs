//! A world: one server that is treated badly, and the clients that call it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use bowline::config::Protocol;
use bowline::{CallOptions, Client, Server};
use bowline_testkit::{self as testkit, Control, FaultProxy, HttpServer, Script, StdioServer, Tool};
use serde_json::{Value, json};

use crate::book::{Book, Tally};
use crate::leaks;

/// Which worlds there are to be.
pub(crate) struct Chosen {
    pub(crate) seed: u64,
    /// A part of their names.
    pub(crate) only: String,
    pub(crate) verbose: bool,
}

/// A server and its clients.
pub(crate) struct World {
    pub(crate) name: &'static str,
    pub(crate) seed: u64,
    pub(crate) place: Arc<Place>,
    pub(crate) clients: Vec<Client>,
    pub(crate) book: Arc<Book>,
    /// How often each kind of fault was injected.
    pub(crate) faults: Arc<Faults>,
}

/// Counts faults.
#[derive(Default)]
pub(crate) struct Faults(Mutex<BTreeMap<&'static str, u64>>);

/// Where the server is, and with it what can go wrong there.
pub(crate) enum Place {
    Http(HttpServer),
    Proxied(HttpServer, FaultProxy),
    /// HTTP+SSE.
    Events(HttpServer),
    Stdio(StdioServer),
}

/// What a world came to.
pub(crate) struct Ended {
    pub(crate) name: &'static str,
    pub(crate) tally: Tally,
    pub(crate) faults: BTreeMap<&'static str, u64>,
    pub(crate) recoveries: u64,
    pub(crate) sessions_lost: u64,
    pub(crate) violations: Vec<String>,
}

impl World {
    /// All that were chosen, up and connected.
    pub(crate) async fn all(chosen: &Chosen) -> anyhow::Result<Vec<Self>> {
        let mut worlds = Vec::new();
        for (index, kind) in KINDS.iter().enumerate().filter(|(_, kind)| kind.name.contains(&chosen.only)) {
            // Another stream of choices for each world, whichever others there are.
            let seed = chosen.seed.wrapping_add((index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let world = Self::start(kind, seed, chosen.verbose).await;
            worlds.push(world.with_context(|| format!("the world {}", kind.name))?);
        }
        Ok(worlds)
    }

    async fn start(kind: &Kind, seed: u64, verbose: bool) -> anyhow::Result<Self> {
        let book = Arc::new(Book::new(verbose.then_some(kind.name)));
        let script = (kind.script)(script(&book));
        let place = match kind.front {
            Front::Http => Place::Http(script.run().await),
            Front::Proxied => {
                let server = script.run().await;
                let proxy = FaultProxy::start(server.addr()).await;
                Place::Proxied(server, proxy)
            }
            Front::Events => Place::Events(script.run().await),
            Front::Stdio => Place::Stdio(script.stdio().await),
        };
        let mut clients = Vec::new();
        for _ in 0..CLIENTS {
            let server = place.server(kind)?.with_connect_timeout(CONNECT);
            let client = Client::connect(server).await?;
            // As a host does, which is how the client learns what may be repeated.
            client.list_tools().await?;
            clients.push(client);
        }
        Ok(Self { name: kind.name, seed, place: Arc::new(place), clients, book, faults: Arc::default() })
    }

    /// Whether each client can call, now that all faults have ended.
    pub(crate) async fn works_again(&self) -> Vec<String> {
        let mut silent = Vec::new();
        let options = CallOptions::new().timeout(CONNECT).max_timeout(CONNECT);
        for (number, client) in self.clients.iter().enumerate() {
            let begun = Instant::now();
            loop {
                match client.call_tool_with("look", &json!({ "n": 0 }), &options).await {
                    Ok(_) => break,
                    Err(_) if begun.elapsed() < AGAIN => {}
                    Err(error) => {
                        silent.push(format!(
                            "{}: client {number} is not back {AGAIN:?} after the last fault: {error}",
                            self.name
                        ));
                        break;
                    }
                }
            }
        }
        silent
    }

    /// Closes the clients, then the server, and then the books.
    pub(crate) async fn end(self) -> Ended {
        let (mut recoveries, mut sessions_lost) = (0, 0);
        let mut violations = Vec::new();
        for client in self.clients {
            let health = client.health();
            recoveries += health.recoveries;
            sessions_lost += health.sessions_lost;
            if tokio::time::timeout(CLOSE, client.close()).await.is_err() {
                violations.push(format!("a client was not closed within {CLOSE:?}"));
            }
        }
        if let Place::Stdio(server) = &*self.place {
            let started = server.processes();
            let alive = started.iter().map(|process| process.pid).filter(|pid| leaks::runs(*pid, PROGRAM));
            violations.extend(alive.map(|pid| format!("process {pid} outlived its client")));
        }
        violations
            .extend(self.place.control().violations().into_iter().map(|what| format!("on the wire: {what}")));
        // To drop it is to wait for its thread.
        let place = self.place;
        let gone = tokio::task::spawn_blocking(move || drop(place)).await;
        violations.extend(gone.err().map(|error| format!("the server: {error}")));

        let (tally, wrong) = self.book.audit();
        violations.extend(wrong);
        let violations = violations.into_iter().map(|what| format!("{}: {what}", self.name)).collect();
        let faults = self.faults.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Ended { name: self.name, tally, faults, recoveries, sessions_lost, violations }
    }
}

impl Faults {
    pub(crate) fn count(&self, kind: &'static str) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(kind).or_default() += 1;
    }
}

impl Place {
    fn server(&self, kind: &Kind) -> anyhow::Result<Server> {
        let server = match self {
            Self::Http(server) => Server::http(kind.name, server.url())?,
            Self::Proxied(_, proxy) => Server::http(kind.name, proxy.url("/mcp"))?,
            Self::Events(server) => Server::sse(kind.name, server.url())?,
            Self::Stdio(server) => {
                let command = server.command();
                let program = command.program.to_str().context("a path in UTF-8")?;
                let mut entry = Server::stdio(kind.name, program, command.args);
                for (name, value) in command.env {
                    entry = entry.with_env(name, value)?;
                }
                entry
            }
        };
        Ok(server.with_protocol(kind.protocol))
    }

    pub(crate) fn control(&self) -> Control {
        match self {
            Self::Http(server) | Self::Proxied(server, _) | Self::Events(server) => server.control(),
            Self::Stdio(server) => server.control(),
        }
    }
}

/// What every server offers: one tool that must not run twice, one that may, one that only reads.
fn script(book: &Arc<Book>) -> Script {
    let book = Arc::clone(book);
    let act = move |arguments: &Value| {
        let number = arguments["n"].as_u64().unwrap_or(u64::MAX);
        book.acted(number);
        json!(number.to_string())
    };
    testkit::server()
        .tool_fn("act", json!({ "type": "object" }), act)
        .tool(Tool::like("put", "echo").idempotent())
        .tool(Tool::like("look", "echo").read_only())
}

struct Kind {
    name: &'static str,
    front: Front,
    protocol: Protocol,
    script: fn(Script) -> Script,
}

enum Front {
    Http,
    Proxied,
    Events,
    Stdio,
}

const KINDS: [Kind; 8] = [
    Kind { name: "http", front: Front::Http, protocol: Protocol::Legacy, script: Script::legacy },
    Kind {
        name: "http-streams",
        front: Front::Http,
        protocol: Protocol::Legacy,
        script: |script| script.legacy().reply_sse().event_ids(),
    },
    Kind { name: "http-modern", front: Front::Http, protocol: Protocol::Modern, script: Script::modern },
    Kind { name: "proxied", front: Front::Proxied, protocol: Protocol::Legacy, script: Script::legacy },
    Kind { name: "proxied-modern", front: Front::Proxied, protocol: Protocol::Auto, script: Script::dual },
    Kind { name: "http-sse", front: Front::Events, protocol: Protocol::Legacy, script: Script::http_sse },
    Kind { name: "stdio", front: Front::Stdio, protocol: Protocol::Legacy, script: Script::legacy },
    Kind { name: "stdio-modern", front: Front::Stdio, protocol: Protocol::Auto, script: Script::dual },
];

const CLIENTS: usize = 2;
const CONNECT: Duration = Duration::from_secs(10);
/// To shut a process down takes two graces at most.
const CLOSE: Duration = Duration::from_secs(20);
/// After the last fault every connection must work within this.
const AGAIN: Duration = Duration::from_secs(20);
/// The program behind a stdio server, as the system shortens it.
const PROGRAM: &str = "testkit-stdio";

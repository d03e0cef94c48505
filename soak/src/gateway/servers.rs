//! The servers behind the gateway, and what happens to them.

use std::sync::Arc;
use std::time::Duration;

use bowline_testkit::{
    self as testkit, CannedResponse, Control, Fault, HttpServer, Script, StdioServer, Tool,
};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::books::Books;
use super::process::UpstreamPlan;

/// The servers behind the gateway.
pub(super) struct Servers(Vec<TestServer>);

/// A server.
enum TestServer {
    /// It has sessions.
    LegacyHttp(HttpServer),
    ModernHttp(HttpServer),
    /// A process for all sessions of hosts, of either era.
    Stdio(StdioServer),
}

/// The tool of every server that can be called again.
pub(super) const HARMLESS_TOOL: &str = "look";
/// The tool of every server that must not be executed twice.
pub(super) const EFFECT_TOOL: &str = "book";

/// The name of a server.
pub(super) fn server_name(number: u32) -> String {
    format!("s{number:02}")
}

impl Servers {
    /// Starts servers of both eras and transports, which forget sessions in different words.
    pub(super) async fn start(count: u32, books: &Arc<Books>) -> Self {
        let mut servers = Vec::new();
        for number in 0..count {
            let script = build_script(server_name(number), Arc::clone(books));
            let not_found = CannedResponse::new(404).text("Session not found");
            let bad_request = CannedResponse::new(400).text("Bad Request: No valid session ID provided");
            servers.push(match number % 5 {
                0 => TestServer::LegacyHttp(script.legacy().unknown_session_response(not_found).run().await),
                1 => {
                    let script = script.legacy().unknown_session_response(bad_request);
                    TestServer::LegacyHttp(script.reply_sse().event_ids().run().await)
                }
                2 => TestServer::ModernHttp(script.modern().run().await),
                3 => TestServer::ModernHttp(script.modern().reply_sse().run().await),
                _ if number % 2 == 0 => TestServer::Stdio(script.legacy().stdio().await),
                _ => TestServer::Stdio(script.modern().stdio().await),
            });
        }
        Self(servers)
    }

    /// The name of each server, and how it is reached.
    pub(super) fn plan(&self) -> Vec<(String, UpstreamPlan)> {
        (0..).map(server_name).zip(self.0.iter().map(TestServer::plan)).collect()
    }

    /// Lets things happen to servers until the end. Returns how many.
    ///
    /// A server is left alone until its hosts have had some results since the last fault, so that a slow machine gets
    /// fewer faults, and recovers from each of them as a fast one does.
    pub(super) async fn inject_faults(self: Arc<Self>, books: Arc<Books>, seed: u64, end: Instant) -> u64 {
        let mut random = fastrand::Rng::with_seed(seed);
        let names: Vec<String> = (0..).map(server_name).take(self.0.len()).collect();
        let mut answers_at_fault = vec![0; self.0.len()];
        let mut count = 0;
        while Instant::now() + FAULT_INTERVAL < end {
            sleep(FAULT_INTERVAL).await;
            let number = random.usize(..self.0.len());
            let answers = books.count_answers(&names[number]);
            if answers < answers_at_fault[number] + ANSWERS_BETWEEN_FAULTS {
                continue;
            }
            answers_at_fault[number] = answers;
            match &self.0[number] {
                TestServer::LegacyHttp(server) | TestServer::ModernHttp(server) => match random.u32(..8) {
                    0..4 => server.drop_sessions(),
                    4 => server.arm(Fault::reset().on("tools/call")),
                    5 => server.arm(Fault::status(503).on("tools/call")),
                    6 => server.arm(Fault::cut_after(20).on("tools/call")),
                    _ => server.restart().await,
                },
                TestServer::Stdio(server) => match random.u32(..8) {
                    0 => server.exit(1),
                    1 => server.arm(Fault::exit(1).on("tools/call")),
                    2 => server.arm(Fault::cut_after(20).on("tools/call")),
                    3..6 => server.arm(Fault::noise("no message at all").on("tools/call")),
                    _ => server.arm(Fault::delay(STDIO_DELAY).on("tools/call")),
                },
            }
            count += 1;
        }
        for server in &self.0 {
            server.control().disarm();
        }
        count
    }

    /// Forgets all sessions.
    pub(super) fn drop_sessions(&self) {
        for server in &self.0 {
            if let TestServer::LegacyHttp(server) | TestServer::ModernHttp(server) = server {
                server.drop_sessions();
            }
        }
    }

    /// What the gateway has left behind. A server learns later than the gateway that its process has ended,
    /// so this waits for it.
    pub(super) async fn wait_for_leftovers(&self) -> Vec<String> {
        let end = Instant::now() + EXIT_LIMIT;
        while !self.leftovers().is_empty() && Instant::now() < end {
            sleep(EXIT_POLL_INTERVAL).await;
        }
        self.leftovers()
    }

    /// What the gateway has left behind so far.
    pub(super) fn leftovers(&self) -> Vec<String> {
        let mut leftovers = Vec::new();
        for (number, server) in (0..).zip(&self.0) {
            let name = server_name(number);
            match server {
                TestServer::LegacyHttp(server) => {
                    let sessions = server.sessions().len();
                    if sessions > 0 {
                        leftovers.push(format!("{name}: {sessions} sessions were not ended"));
                    }
                }
                // It has one entry for all its clients.
                TestServer::ModernHttp(_) => {}
                TestServer::Stdio(server) => {
                    let processes = server.processes().iter().filter(|process| process.is_running()).count();
                    if processes > 0 {
                        leftovers.push(format!("{name}: {processes} processes were not ended"));
                    }
                }
            }
            let violations = server.control().violations();
            leftovers.extend(violations.into_iter().map(|violation| format!("{name}: {violation}")));
        }
        leftovers
    }
}

impl TestServer {
    fn plan(&self) -> UpstreamPlan {
        match self {
            Self::LegacyHttp(server) | Self::ModernHttp(server) => UpstreamPlan::Http(server.url()),
            Self::Stdio(server) => {
                let command = server.command();
                UpstreamPlan::Stdio { program: command.program, args: command.args, env: command.env }
            }
        }
    }

    fn control(&self) -> &Control {
        match self {
            Self::LegacyHttp(server) | Self::ModernHttp(server) => server,
            Self::Stdio(server) => server,
        }
    }
}

/// The tools of a server.
fn build_script(name: String, books: Arc<Books>) -> Script {
    let schema = json!({"type": "object", "properties": {"call": {"type": "string"}}});
    let effect = move |arguments: &Value| {
        let call = arguments["call"].as_str().unwrap_or_default();
        books.executed(call);
        json!(format!("{name} {call}"))
    };
    testkit::server().tool(Tool::like(HARMLESS_TOOL, "echo").read_only()).tool_fn(EFFECT_TOOL, schema, effect)
}

/// The time between two faults.
const FAULT_INTERVAL: Duration = Duration::from_millis(150);
/// How many results hosts get from a server before the next fault of it.
const ANSWERS_BETWEEN_FAULTS: u64 = 15;
/// How long a call of a process is held up.
const STDIO_DELAY: Duration = Duration::from_millis(500);
/// How long a server may take to learn that its processes have ended.
const EXIT_LIMIT: Duration = Duration::from_secs(10);
const EXIT_POLL_INTERVAL: Duration = Duration::from_millis(20);

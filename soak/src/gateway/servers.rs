//! The servers behind the gateway, and what happens to them.

use std::sync::Arc;
use std::time::Duration;

use bowline_testkit::{self as testkit, CannedResponse, Fault, HttpServer, Tool};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::books::Books;

/// The servers behind the gateway.
pub(super) struct Servers(Vec<HttpServer>);

/// The tool of every server that can be called again.
pub(super) const HARMLESS_TOOL: &str = "look";
/// The tool of every server that must not be executed twice.
pub(super) const EFFECT_TOOL: &str = "book";

/// The name of a server.
pub(super) fn server_name(number: u32) -> String {
    format!("s{number:02}")
}

impl Servers {
    /// Starts servers of both eras, which forget sessions in different words.
    pub(super) async fn start(count: u32, books: &Arc<Books>) -> Self {
        let mut servers = Vec::new();
        for number in 0..count {
            let (book, name) = (Arc::clone(books), server_name(number));
            let schema = json!({"type": "object", "properties": {"call": {"type": "string"}}});
            let script = testkit::server().tool(Tool::like(HARMLESS_TOOL, "echo").read_only()).tool_fn(
                EFFECT_TOOL,
                schema,
                move |arguments: &Value| {
                    let call = arguments["call"].as_str().unwrap_or_default();
                    book.executed(call);
                    json!(format!("{name} {call}"))
                },
            );
            let not_found = CannedResponse::new(404).text("Session not found");
            let bad_request = CannedResponse::new(400).text("Bad Request: No valid session ID provided");
            let script = match number % 4 {
                0 => script.legacy().unknown_session_response(not_found),
                1 => script.legacy().unknown_session_response(bad_request).reply_sse().event_ids(),
                2 => script.modern(),
                _ => script.modern().reply_sse(),
            };
            servers.push(script.run().await);
        }
        Self(servers)
    }

    /// The name and URL of each server.
    pub(super) fn plan(&self) -> Vec<(String, String)> {
        (0..).map(server_name).zip(self.0.iter().map(HttpServer::url)).collect()
    }

    /// Lets things happen to servers until the end. Returns how many.
    pub(super) async fn inject_faults(self: Arc<Self>, seed: u64, end: Instant) -> u64 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut count = 0;
        while Instant::now() + FAULT_INTERVAL < end {
            sleep(FAULT_INTERVAL).await;
            let server = &self.0[random.usize(..self.0.len())];
            match random.u32(..8) {
                0..4 => server.drop_sessions(),
                4 => server.arm(Fault::reset().on("tools/call")),
                5 => server.arm(Fault::status(503).on("tools/call")),
                6 => server.arm(Fault::cut_after(20).on("tools/call")),
                _ => server.restart().await,
            }
            count += 1;
        }
        for server in &self.0 {
            server.disarm();
        }
        count
    }

    /// Forgets all sessions.
    pub(super) fn drop_sessions(&self) {
        for server in &self.0 {
            server.drop_sessions();
        }
    }

    /// What the gateway has left behind.
    pub(super) fn leftovers(&self) -> Vec<String> {
        let mut leftovers = Vec::new();
        for (number, server) in (0..).zip(&self.0) {
            let name = server_name(number);
            // A server without sessions has one entry for all its clients.
            let sessions = server.sessions().len();
            if number % 4 < 2 && sessions > 0 {
                leftovers.push(format!("{name}: {sessions} sessions were not ended"));
            }
            leftovers.extend(server.violations().into_iter().map(|violation| format!("{name}: {violation}")));
        }
        leftovers
    }
}

/// The time between two faults.
const FAULT_INTERVAL: Duration = Duration::from_millis(150);

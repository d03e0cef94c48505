//! A host: a session that calls servers at random, and knows each of its calls.

use std::sync::Arc;
use std::time::Duration;

use bowline::{Client, ErrorKind, Execution, Server};
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use super::books::{Books, Outcome};
use super::servers::{EFFECT_TOOL, HARMLESS_TOOL, server_name};

/// A host.
pub(super) struct Host {
    pub(super) number: u32,
    pub(super) seed: u64,
    /// How many servers there are.
    pub(super) servers: u32,
    pub(super) url: String,
    pub(super) end: Instant,
}

impl Host {
    /// Calls servers until the end.
    pub(super) async fn run(self, books: Arc<Books>) {
        let mut random = fastrand::Rng::with_seed(self.seed.wrapping_add(u64::from(self.number)));
        let server = Server::http(format!("host-{}", self.number), &self.url).build();
        let server = server.expect("a loopback URL").with_keepalive(None);
        let client = match Client::builder(server).open() {
            Ok(client) => client,
            Err(error) => return books.violate(format!("host {}: {error}", self.number)),
        };
        for turn in 0.. {
            sleep(Duration::from_millis(random.u64(..MAX_PAUSE_MS))).await;
            if Instant::now() >= self.end {
                break;
            }
            let server = server_name(random.u32(..self.servers));
            let is_harmless = random.bool();
            let call = format!("{}/{turn}", self.number);
            let tool = if is_harmless { HARMLESS_TOOL } else { EFFECT_TOOL };
            let name = format!("{server}__{tool}");
            let arguments = json!({ "call": call });
            let Ok(called) = timeout(CALL_LIMIT, client.call_tool(&name, &arguments)).await else {
                books.violate(format!("{call} of {name} has no outcome"));
                continue;
            };
            let outcome = match called {
                Ok(result) => {
                    let text = result.text();
                    let expected =
                        if is_harmless { arguments.to_string() } else { format!("{server} {call}") };
                    if text != expected {
                        books.violate(format!("{call} of {name} has the result {text:?}"));
                    }
                    Outcome::Result
                }
                Err(error) => match execution(&error) {
                    Execution::NotExecuted => Outcome::NotExecuted(error.to_string()),
                    Execution::Unknown => Outcome::Unknown(error.to_string()),
                },
            };
            books.ended(call, is_harmless, outcome);
        }
        client.close().await;
    }
}

/// What the gateway says about the execution, or the client if it got no response.
fn execution(error: &bowline::Error) -> Execution {
    let ErrorKind::Server(response) = error.kind() else { return error.execution() };
    let data = response.data.as_ref().and_then(|data| data.member("bowline")?.member("execution"));
    match data.and_then(|execution| execution.decode::<String>().ok()).as_deref() {
        Some("not_executed") => Execution::NotExecuted,
        _ => Execution::Unknown,
    }
}

/// The longest pause between two calls of a host.
const MAX_PAUSE_MS: u64 = 4_000;
/// How long a call may take, with all that happens to its server and to the gateway.
const CALL_LIMIT: Duration = Duration::from_secs(60);

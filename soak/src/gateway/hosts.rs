//! A host: a session, or requests on their own, that calls servers at random and knows each of its calls.

use std::sync::Arc;
use std::time::Duration;

use anyhow::ensure;
use bowline::config::Protocol;
use bowline::{Client, Era, ErrorKind, Execution, Server};
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use super::books::{Books, Outcome};
use super::process::RECONNECT_WAIT;
use super::servers::{EFFECT_TOOL, HARMLESS_TOOL, server_name};

/// A host that is connected.
pub(super) struct Host {
    number: u32,
    client: Client,
}

/// How a host calls servers.
#[derive(Clone, Copy)]
pub(super) struct Load {
    pub(super) seed: u64,
    /// How many servers there are.
    pub(super) servers: u32,
    pub(super) end: Instant,
}

/// The era of a host. Every other one has a session.
pub(super) fn era(number: u32) -> Era {
    if number.is_multiple_of(2) { Era::Legacy } else { Era::Modern }
}

impl Host {
    /// Connects to the gateway.
    pub(super) async fn connect(number: u32, url: String) -> anyhow::Result<Self> {
        let era = era(number);
        let protocol = match era {
            Era::Legacy => Protocol::Legacy,
            Era::Modern => Protocol::Modern,
        };
        // Whether a session is there after a kill is what is tested, and not how soon the gateway says so.
        let server = Server::http(format!("host-{number}"), &url).probe_timeout(PROBE_LIMIT);
        let server = server.connect_timeout(2 * PROBE_LIMIT).reconnect_wait(RECONNECT_WAIT).build()?;
        let client = Client::connect(server.with_keepalive(None).with_protocol(protocol)).await?;
        let peer = client.ready().await?;
        ensure!(peer.era() == era, "host {number} speaks {:?}", peer.era());
        Ok(Self { number, client })
    }

    /// Calls servers until the end.
    pub(super) async fn run(self, load: Load, books: Arc<Books>) -> Self {
        let Self { number, client } = &self;
        let mut random = fastrand::Rng::with_seed(load.seed.wrapping_add(u64::from(*number)));
        let mut last_call = Duration::ZERO;
        for turn in 0.. {
            // Where calls take long, the machine is too slow for all hosts at this rate.
            let pause = Duration::from_millis(random.u64(..MAX_PAUSE_MS)).max(last_call * PAUSE_PER_CALL);
            sleep(pause.min(load.end.saturating_duration_since(Instant::now()))).await;
            if Instant::now() >= load.end {
                break;
            }
            let server = server_name(random.u32(..load.servers));
            let is_harmless = random.bool();
            let call = format!("{number}/{turn}");
            let tool = if is_harmless { HARMLESS_TOOL } else { EFFECT_TOOL };
            let name = format!("{server}__{tool}");
            let arguments = json!({ "call": call });
            let begun = Instant::now();
            let called = timeout(CALL_LIMIT, client.call_tool(&name, &arguments)).await;
            last_call = begun.elapsed();
            let Ok(called) = called else {
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
                    books.answered(&server);
                    Outcome::Result
                }
                Err(error) => match execution(&error) {
                    Execution::NotExecuted => Outcome::NotExecuted(format!("{name}: {error}")),
                    Execution::Unknown => Outcome::Unknown(format!("{name}: {error}")),
                },
            };
            books.ended(call, is_harmless, outcome);
        }
        self
    }

    /// Ends its session, if it has one.
    pub(super) async fn leave(self) {
        self.client.close().await;
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

/// How long a host waits to hear whether its session is still there.
const PROBE_LIMIT: Duration = Duration::from_secs(40);
/// The longest pause between two calls of a host that do not take long.
const MAX_PAUSE_MS: u64 = 4_000;
/// How many times as long as its last call a host pauses at least.
const PAUSE_PER_CALL: u32 = 4;
/// How long a call may take, with all that happens to its server and to the gateway.
const CALL_LIMIT: Duration = Duration::from_secs(60);

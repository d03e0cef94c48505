//! The load: callers that make calls, compare each result with what they asked for, and sometimes
//! drop a call.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bowline::{CallOptions, Client, Error, ToolResult};
use fastrand::Rng;
use serde_json::json;
use tokio::task::JoinHandle;

use super::{ClientWorld, emit};
use crate::limits::{HANG_TIMEOUT, IDLE_LIMIT, TOTAL_LIMIT};
use crate::messages::{CallRecord, Failure, Message, Micros, Outcome, Tool};

/// Starts the callers of a world.
pub(super) fn start(world: &ClientWorld, until: Instant) -> Vec<JoinHandle<()>> {
    let acts = Arc::new(AtomicU64::new(0));
    let mut callers = Vec::new();
    for (client, handle) in world.clients.iter().enumerate() {
        for caller in 0..CALLERS_PER_CLIENT {
            let seed = world.seed.wrapping_add((client * CALLERS_PER_CLIENT + caller + 1) as u64);
            let caller = Caller {
                client: handle.clone(),
                world: world.index,
                verbose: world.verbose,
                acts: Arc::clone(&acts),
                rng: Rng::with_seed(seed),
            };
            callers.push(tokio::spawn(caller.run(until)));
        }
    }
    callers
}

struct Caller {
    client: Client,
    world: usize,
    verbose: bool,
    /// Next number of a call that must not run twice, shared by all callers of the world.
    acts: Arc<AtomicU64>,
    rng: Rng,
}

impl Caller {
    async fn run(mut self, until: Instant) {
        while Instant::now() < until {
            match self.rng.u8(..100) {
                0..40 => self.call_act().await,
                40..45 => self.call_and_drop().await,
                45..70 => self.call_harmless(Tool::Put).await,
                70..98 => self.call_harmless(Tool::Look).await,
                _ => self.list_tools().await,
            }
            tokio::time::sleep(Duration::from_millis(self.rng.u64(PAUSE_MILLIS))).await;
        }
    }

    async fn call_act(&mut self) {
        let (number, begin) = (self.next_act(), Micros::now());
        let outcome = self.call(Tool::Act, number).await;
        self.record(Tool::Act, number, begin, outcome);
    }

    /// Drops the call after a few milliseconds, whatever its state.
    async fn call_and_drop(&mut self) {
        let (number, begin) = (self.next_act(), Micros::now());
        let patience = Duration::from_millis(self.rng.u64(0..15));
        let outcome = tokio::time::timeout(patience, self.call(Tool::Act, number)).await;
        self.record(Tool::Act, number, begin, outcome.unwrap_or(Outcome::Left));
    }

    async fn call_harmless(&mut self, tool: Tool) {
        let (number, begin) = (self.rng.u64(..1_000_000), Micros::now());
        let outcome = self.call(tool, number).await;
        self.record(tool, number, begin, outcome);
    }

    async fn list_tools(&mut self) {
        let begin = Micros::now();
        let outcome = match tokio::time::timeout(HANG_TIMEOUT, self.client.list_tools()).await {
            Ok(Ok(_)) => Outcome::Succeeded,
            Ok(Err(error)) => Outcome::Failed(Failure::from(&error)),
            Err(_) => Outcome::Hung,
        };
        self.record(Tool::List, 0, begin, outcome);
    }

    async fn call(&self, tool: Tool, number: u64) -> Outcome {
        let options = CallOptions::new().idle_timeout(IDLE_LIMIT).timeout(TOTAL_LIMIT);
        let arguments = json!({ "n": number });
        let call = self.client.call_tool_with(tool.name(), &arguments, &options);
        let result: Result<ToolResult, Error> = match tokio::time::timeout(HANG_TIMEOUT, call).await {
            Ok(result) => result,
            Err(_) => return Outcome::Hung,
        };
        match result {
            Ok(result) => {
                let text = result.text();
                let own = text == number.to_string() || text == format!(r#"{{"n":{number}}}"#);
                if own && !result.is_error { Outcome::Succeeded } else { Outcome::WrongAnswer(text) }
            }
            Err(error) => Outcome::Failed(Failure::from(&error)),
        }
    }

    fn next_act(&self) -> u64 {
        self.acts.fetch_add(1, Ordering::Relaxed)
    }

    fn record(&self, tool: Tool, number: u64, begin: Micros, outcome: Outcome) {
        let record = CallRecord { world: self.world, tool, number, begin, end: Micros::now(), outcome };
        if let (true, Outcome::Failed(failure)) = (self.verbose, &record.outcome) {
            eprintln!("{} {number}: failed after {:?}: {}", tool.name(), record.took(), failure.text);
        }
        emit(&Message::Call(record));
    }
}

/// Callers per client. With the pause below, each makes some ten calls a second.
const CALLERS_PER_CLIENT: usize = 3;
const PAUSE_MILLIS: std::ops::Range<u64> = 40..120;

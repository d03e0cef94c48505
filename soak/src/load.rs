//! The load: callers that call, check what they get, and sometimes leave.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bowline::view::CallToolResult;
use bowline::{CallOptions, Client, Error};
use fastrand::Rng;
use serde_json::json;
use tokio::task::JoinHandle;

use crate::book::Book;
use crate::world::World;

/// Starts the callers of a world.
pub(crate) fn start(world: &World, until: Instant) -> Vec<JoinHandle<()>> {
    let mut callers = Vec::new();
    for (client, handle) in world.clients.iter().enumerate() {
        for caller in 0..CALLERS {
            let seed = world.seed.wrapping_add((client * CALLERS + caller + 1) as u64);
            let caller =
                Caller { client: handle.clone(), book: Arc::clone(&world.book), rng: Rng::with_seed(seed) };
            callers.push(tokio::spawn(caller.run(until)));
        }
    }
    callers
}

struct Caller {
    client: Client,
    book: Arc<Book>,
    rng: Rng,
}

impl Caller {
    async fn run(mut self, until: Instant) {
        while Instant::now() < until {
            match self.rng.u8(..100) {
                0..40 => self.act().await,
                40..45 => self.leave().await,
                45..70 => self.harmless("put").await,
                70..98 => self.harmless("look").await,
                _ => self.list().await,
            }
            tokio::time::sleep(Duration::from_millis(self.rng.u64(PAUSE))).await;
        }
    }

    /// A call that must not run twice.
    async fn act(&mut self) {
        let number = self.book.act();
        if let Some((outcome, took)) = self.call("act", number).await {
            self.book.close_act(number, &outcome, took);
        }
    }

    /// The same by a caller who does not wait for the end.
    async fn leave(&mut self) {
        let number = self.book.act();
        let patience = Duration::from_millis(self.rng.u64(0..15));
        match tokio::time::timeout(patience, self.call("act", number)).await {
            Ok(Some((outcome, took))) => self.book.close_act(number, &outcome, took),
            Ok(None) => {}
            Err(_) => self.book.leave_act(number),
        }
    }

    async fn harmless(&mut self, tool: &str) {
        let number = self.rng.usize(..1_000_000);
        if let Some((outcome, took)) = self.call(tool, number).await {
            self.book.harmless(&outcome, took);
        }
    }

    async fn list(&mut self) {
        // Several requests may be behind it, so its time is not that of one call.
        let begun = Instant::now();
        match tokio::time::timeout(HUNG, self.client.list_tools()).await {
            Ok(outcome) => self.book.harmless(&outcome.map(drop), begun.elapsed()),
            Err(_) => self.book.violation(format!("tools/list: no outcome within {HUNG:?}")),
        }
    }

    /// One call. `None` if it has no outcome, which is written down.
    async fn call(&self, tool: &str, number: usize) -> Option<(Result<(), Error>, Duration)> {
        let options = CallOptions::new().timeout(IDLE).max_timeout(TOTAL);
        let arguments = json!({ "n": number });
        let begun = Instant::now();
        let call = self.client.call_tool_with(tool, &arguments, &options);
        let Ok(outcome) = tokio::time::timeout(HUNG, call).await else {
            self.book.violation(format!("{tool} {number}: no outcome within {HUNG:?}"));
            return None;
        };
        let lasted = begun.elapsed();
        if lasted > TOTAL + SLACK {
            let how = outcome.as_ref().err().map_or("it succeeded".to_owned(), ToString::to_string);
            self.book.violation(format!("{tool} {number}: {lasted:?}, though it may take {TOTAL:?}: {how}"));
        }
        if let Err(error) = &outcome {
            self.book.say(|| format!("{tool} {number}: failed after {lasted:?}: {error}"));
        }
        Some((outcome.map(|result| self.check(tool, number, &result)), lasted))
    }

    /// Whether the answer is the one to this call.
    fn check(&self, tool: &str, number: usize, result: &CallToolResult) {
        let text = result.text();
        let own = text == number.to_string() || text == format!(r#"{{"n":{number}}}"#);
        if !own || result.is_error {
            self.book.violation(format!("{tool} {number}: got the answer {text:?}"));
        }
    }
}

/// Callers per client. With the pause below: some ten calls a second from each.
const CALLERS: usize = 3;
const PAUSE: std::ops::Range<u64> = 40..120;
/// The limits of a call: silence, and all in all.
const IDLE: Duration = Duration::from_secs(3);
const TOTAL: Duration = Duration::from_secs(6);
/// What a loaded machine may add.
const SLACK: Duration = Duration::from_secs(2);
/// Beyond this a call has no outcome.
const HUNG: Duration = Duration::from_secs(60);

//! Makes calls at a steady rate and records how each of them ends.

use std::time::{Duration, Instant};

use bowline::fault::CallOutcome;
use bowline::{CallOptions, Client, Error};
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Whether a call may be repeated, as the server declares its tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Harmless,
    Once,
}

/// A call that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) kind: Kind,
    pub(crate) at: Instant,
    pub(crate) took: Duration,
    pub(crate) outcome: Result<(), Error>,
}

/// The tools to call.
#[derive(Clone, Copy)]
pub(crate) struct Tools {
    /// A tool that may be repeated.
    pub(crate) harmless: &'static str,
    /// A tool that may not be repeated, if the server has one. Every fifth call uses it.
    pub(crate) once: Option<&'static str>,
    /// The name of the argument that both tools take, and whether it is a string.
    pub(crate) argument: &'static str,
    pub(crate) text: bool,
}

/// Makes calls at a steady rate until `stop` is canceled, then waits for all of them. Also returns
/// a counter of the calls that have succeeded so far.
pub(crate) fn calls(
    client: Client,
    tools: Tools,
    stop: CancellationToken,
) -> (JoinHandle<Vec<Ended>>, watch::Receiver<usize>) {
    let (succeeded, seen) = watch::channel(0);
    let calls = tokio::spawn(async move {
        let mut tick = tokio::time::interval(EVERY);
        let mut open = Vec::new();
        while !stop.is_cancelled() {
            tick.tick().await;
            let number = open.len();
            let (kind, tool) = match tools.once {
                Some(once) if number % 5 == 4 => (Kind::Once, once),
                _ => (Kind::Harmless, tools.harmless),
            };
            let value = if tools.text { json!(number.to_string()) } else { json!(number) };
            let arguments = json!({ tools.argument: value });
            let (client, succeeded) = (client.clone(), succeeded.clone());
            open.push(tokio::spawn(async move {
                let started = Instant::now();
                let options = CallOptions::new().timeout(LIMIT).max_timeout(LIMIT);
                let outcome = client.call_tool_with(tool, &arguments, &options).await;
                let outcome = outcome.map(|result| {
                    succeeded.send_modify(|calls| *calls += 1);
                    let wanted = number.to_string();
                    assert!(!result.is_error && result.text().contains(&wanted), "{wanted}: {result:?}");
                });
                Ended { kind, at: Instant::now(), took: started.elapsed(), outcome }
            }));
        }
        let mut ended = Vec::new();
        for call in open {
            ended.push(call.await.expect("a call ends, and with its own answer"));
        }
        ended
    });
    (calls, seen)
}

/// Describes all failed calls, except calls that may not be repeated and report an unknown outcome.
pub(crate) fn failures(ended: &[Ended]) -> Vec<String> {
    let failed = ended.iter().filter_map(|call| {
        let error = call.outcome.as_ref().err()?;
        let lost = call.kind == Kind::Once && error.outcome() == CallOutcome::Unknown;
        (!lost).then(|| format!("{:?} after {:?}: {error}", call.kind, call.took))
    });
    failed.collect()
}

/// Makes fifty calls a second.
const EVERY: Duration = Duration::from_millis(20);
/// Longer than any outage in these tests.
const LIMIT: Duration = Duration::from_secs(20);

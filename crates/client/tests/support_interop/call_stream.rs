//! Makes calls at a steady rate and records how each of them ends.

use std::time::{Duration, Instant};

use bowline::{CallOptions, Client, Error, Execution};
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Whether a call may be repeated, as the server declares its tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallKind {
    Harmless,
    Once,
}

/// A call that has ended.
#[derive(Debug)]
pub(crate) struct FinishedCall {
    pub(crate) kind: CallKind,
    pub(crate) at: Instant,
    pub(crate) took: Duration,
    pub(crate) outcome: Result<(), Error>,
}

/// The tools to call.
#[derive(Clone, Copy)]
pub(crate) struct ToolNames {
    /// A tool that may be repeated.
    pub(crate) harmless: &'static str,
    /// A tool that may not be repeated, if the server has one. Every fifth call uses it.
    pub(crate) once: Option<&'static str>,
    /// The name of the argument that both tools take, and whether it is a string.
    pub(crate) argument: &'static str,
    pub(crate) is_text: bool,
}

/// Makes calls at a steady rate until `stop` is canceled, then waits for all of them. Also returns
/// a counter of the calls that have succeeded so far.
pub(crate) fn run_calls(
    client: Client,
    tools: ToolNames,
    stop: CancellationToken,
) -> (JoinHandle<Vec<FinishedCall>>, watch::Receiver<usize>) {
    let (succeeded, seen) = watch::channel(0);
    let calls = tokio::spawn(async move {
        let mut tick = tokio::time::interval(CALL_INTERVAL);
        let mut open = Vec::new();
        while !stop.is_cancelled() {
            tick.tick().await;
            let number = open.len();
            let (kind, tool) = match tools.once {
                Some(once) if number % 5 == 4 => (CallKind::Once, once),
                _ => (CallKind::Harmless, tools.harmless),
            };
            let value = if tools.is_text { json!(number.to_string()) } else { json!(number) };
            let arguments = json!({ tools.argument: value });
            let (client, succeeded) = (client.clone(), succeeded.clone());
            open.push(tokio::spawn(async move {
                let started = Instant::now();
                let options = CallOptions::new().idle_timeout(CALL_TIMEOUT).timeout(CALL_TIMEOUT);
                let outcome = client.call_tool_with(tool, &arguments, &options).await;
                let outcome = outcome.map(|result| {
                    succeeded.send_modify(|calls| *calls += 1);
                    let wanted = number.to_string();
                    assert!(!result.is_error && result.text().contains(&wanted), "{wanted}: {result:?}");
                });
                FinishedCall { kind, at: Instant::now(), took: started.elapsed(), outcome }
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
pub(crate) fn failures(ended: &[FinishedCall]) -> Vec<String> {
    let failed = ended.iter().filter_map(|call| {
        let error = call.outcome.as_ref().err()?;
        let lost = call.kind == CallKind::Once && error.execution() == Execution::Unknown;
        (!lost).then(|| format!("{:?} after {:?}: {error}", call.kind, call.took))
    });
    failed.collect()
}

/// Makes fifty calls a second.
const CALL_INTERVAL: Duration = Duration::from_millis(20);
/// Longer than any outage in these tests.
const CALL_TIMEOUT: Duration = Duration::from_secs(20);

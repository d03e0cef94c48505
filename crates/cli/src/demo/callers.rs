//! Makes the calls of the demo: several callers, each with one call at a time, at a steady rate.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bowline::Client;
use bowline::types::CallToolResult;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use super::recorder::CallRecorder;
use super::tools::Tool;

/// How many callers there are.
pub(crate) const CALLERS: u32 = 10;
/// How often each caller makes a call: fifty calls a second in all.
const CALL_INTERVAL: Duration = Duration::from_millis(200);
/// How many callers call at the same moment, so that a failure affects several calls.
const CALLERS_PER_GROUP: u32 = 5;

/// Makes calls until `stop` is set, and waits for those that were begun.
pub(crate) async fn call_steadily(client: Client, board: Arc<CallRecorder>, stop: watch::Receiver<bool>) {
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let (client, board, stop) = (client.clone(), Arc::clone(&board), stop.clone());
        callers.spawn(call_one_by_one(
            client,
            board,
            stop,
            CALL_INTERVAL * (caller / CALLERS_PER_GROUP) / (CALLERS / CALLERS_PER_GROUP),
        ));
    }
    while callers.join_next().await.is_some() {}
}

async fn call_one_by_one(
    client: Client,
    board: Arc<CallRecorder>,
    mut stop: watch::Receiver<bool>,
    offset: Duration,
) {
    let mut ticks = tokio::time::interval_at((Instant::now() + offset).into(), CALL_INTERVAL);
    // After an outage, the callers must not get into step.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => return,
            _ = ticks.tick() => {}
        }
        let ticket = board.begin_call();
        let tool = choose_tool(ticket);
        let begun = Instant::now();
        let result = client.call_tool(tool.name(), &arguments(tool, ticket)).await;
        let outcome = match result {
            Ok(result) => check_result(ticket, &result),
            Err(error) => Err(error.to_string()),
        };
        board.end_call(ticket, tool, begun.elapsed(), outcome);
    }
}

/// Chooses the tool: half of the calls must not run twice, a fifth have a stream, the rest only
/// read.
fn choose_tool(ticket: u64) -> Tool {
    match ticket % 10 {
        0 | 2 | 4 | 6 | 8 => Tool::Stow,
        1 | 5 => Tool::Tie,
        _ => Tool::Strength,
    }
}

fn arguments(tool: Tool, ticket: u64) -> Value {
    match tool {
        Tool::Strength => json!({"ticket": ticket, "millimeters": 11}),
        Tool::Stow | Tool::Tie => json!({ "ticket": ticket }),
    }
}

/// Checks that the result belongs to this call.
fn check_result(ticket: u64, result: &CallToolResult) -> Result<(), String> {
    let answered = result.structured.as_ref().and_then(|json| json.decode::<Value>().ok());
    match answered.as_ref().and_then(|json| json["ticket"].as_u64()) {
        Some(answered) if answered == ticket && !result.is_error => Ok(()),
        Some(answered) => Err(format!("call {ticket} got the answer to call {answered}")),
        None => Err(format!("call {ticket} got no answer to speak of")),
    }
}

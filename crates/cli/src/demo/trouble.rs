//! Causes the failures: one at a time, and the next one when the callers have recovered. No call is
//! hit twice, since a call is retried once and a second failure would prove nothing.

use std::io;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};

use super::http::DemoServer;
use super::plan::{Plan, Trouble};
use super::state::{CutPoint, DemoState};

/// A failure, and when it begins.
pub(crate) type TroubleEvent = (Instant, Trouble);

/// Causes failures until `stop` is set or `until` is reached. Each one that was begun is completed,
/// so the server is up afterwards.
pub(crate) async fn make_trouble(
    mut server: DemoServer,
    plan: Plan,
    until: Instant,
    news: mpsc::UnboundedSender<TroubleEvent>,
    mut stop: watch::Receiver<bool>,
) -> io::Result<DemoServer> {
    for (pause, trouble) in plan {
        if Instant::now() + pause + MIN_REMAINING > until {
            break;
        }
        if Instant::now() + pause + trouble.max_duration() > until {
            continue;
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = stop.wait_for(|stop| *stop) => break,
        }
        let _ = news.send((Instant::now(), trouble));
        apply_trouble(&mut server, trouble, &mut stop).await?;
        let before = server.state.counters().served;
        wait_until(&server.state, &mut stop, |state| state.counters().served >= before + RECOVERY_CALLS)
            .await;
        if *stop.borrow() {
            break;
        }
    }
    Ok(server)
}

async fn apply_trouble(
    server: &mut DemoServer,
    trouble: Trouble,
    stop: &mut watch::Receiver<bool>,
) -> io::Result<()> {
    match trouble {
        Trouble::Expire(signature) => {
            let mut memory = server.state.lock();
            memory.signature = signature;
            memory.sessions.clear();
        }
        Trouble::Restart(down) => {
            server.stop().await;
            tokio::time::sleep(down).await;
            server.restart().await?;
        }
        Trouble::Cut(connections) => {
            let ways = [CutPoint::Before, CutPoint::After, CutPoint::Halfway];
            server.state.lock().cuts.extend(ways.into_iter().cycle().take(connections));
            wait_until(&server.state, stop, is_recovered).await;
        }
        Trouble::CutStreams(calls) => {
            {
                let mut memory = server.state.lock();
                memory.streams.clear();
                memory.stream_cuts += calls;
            }
            wait_until(&server.state, stop, is_recovered).await;
        }
    }
    Ok(())
}

/// Returns whether all planned cuts were made, and all calls that they hit were answered.
fn is_recovered(state: &DemoState) -> bool {
    let memory = state.lock();
    memory.cuts.is_empty() && memory.stream_cuts == 0 && memory.pending.is_empty()
}

/// Waits until `condition` holds, `stop` is set, or [`RECOVERY_TIMEOUT`] is over.
async fn wait_until(
    state: &DemoState,
    stop: &mut watch::Receiver<bool>,
    condition: impl Fn(&DemoState) -> bool,
) {
    let begun = Instant::now();
    while !condition(state) && !*stop.borrow() && begun.elapsed() < RECOVERY_TIMEOUT {
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// How many calls have to be answered before the callers count as recovered.
const RECOVERY_CALLS: u64 = 12;
/// Longer than any call waits for a server that is unreachable.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(12);
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// No failure begins with less time left.
const MIN_REMAINING: Duration = Duration::from_millis(200);

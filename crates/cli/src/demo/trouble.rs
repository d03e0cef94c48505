//! Causes the failures: one at a time, and the next one when the callers have recovered. No call is
//! hit twice, since a call is retried once and a second failure would prove nothing.

use std::io;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};

use super::http::DemoServer;
use super::plan::{Plan, Trouble};
use super::state::{Cut, State};

/// A failure, and when it begins.
pub(crate) type News = (Instant, Trouble);

/// Causes failures until `stop` is set or `until` is reached. Each one that was begun is completed,
/// so the server is up afterwards.
pub(crate) async fn make_trouble(
    mut server: DemoServer,
    plan: Plan,
    until: Instant,
    news: mpsc::UnboundedSender<News>,
    mut stop: watch::Receiver<bool>,
) -> io::Result<DemoServer> {
    for (pause, trouble) in plan {
        if Instant::now() + pause + SHORTEST > until {
            break;
        }
        if Instant::now() + pause + trouble.longest() > until {
            continue;
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = stop.wait_for(|stop| *stop) => break,
        }
        let _ = news.send((Instant::now(), trouble));
        make(&mut server, trouble, &mut stop).await?;
        let before = server.state().done().served;
        settled(server.state(), &mut stop, |state| state.done().served >= before + CALM).await;
        if *stop.borrow() {
            break;
        }
    }
    Ok(server)
}

async fn make(server: &mut DemoServer, trouble: Trouble, stop: &mut watch::Receiver<bool>) -> io::Result<()> {
    match trouble {
        Trouble::Expire(signature) => {
            let mut memory = server.state().lock();
            memory.signature = signature;
            memory.sessions.clear();
        }
        Trouble::Restart(down) => {
            server.stop().await;
            tokio::time::sleep(down).await;
            server.come_back().await?;
        }
        Trouble::Cut(connections) => {
            let ways = [Cut::Before, Cut::After, Cut::Halfway];
            server.state().lock().cuts.extend(ways.into_iter().cycle().take(connections));
            settled(server.state(), stop, mended).await;
        }
        Trouble::CutStreams(calls) => {
            {
                let mut memory = server.state().lock();
                memory.streams.clear();
                memory.stream_cuts += calls;
            }
            settled(server.state(), stop, mended).await;
        }
    }
    Ok(())
}

/// Returns whether all planned cuts were made, and all calls that they hit were answered.
fn mended(state: &State) -> bool {
    let memory = state.lock();
    memory.cuts.is_empty() && memory.stream_cuts == 0 && memory.pending.is_empty()
}

/// Waits until `condition` holds, `stop` is set, or [`RECOVERY_TIMEOUT`] is over.
async fn settled(state: &State, stop: &mut watch::Receiver<bool>, is_so: impl Fn(&State) -> bool) {
    let begun = Instant::now();
    while !is_so(state) && !*stop.borrow() && begun.elapsed() < PATIENCE {
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// How many calls have to be answered before the callers count as recovered.
const CALM: u64 = 12;
/// Longer than any call waits for a server that is unreachable.
const PATIENCE: Duration = Duration::from_secs(12);
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// No failure begins with less time left.
const SHORTEST: Duration = Duration::from_millis(200);

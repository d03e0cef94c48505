//! Keeps a server listened to: opens, replaces, and opens again what was cut.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bowline_proto::backoff::Backoff;
use bowline_proto::fault::{Cause, Fault, Limit};
use bowline_proto::wire::view::Acknowledged;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use super::super::{Live, Shared};
use super::listening::{Ending, Listen, Listening};
use super::{Filter, Granted, Part};

impl Shared {
    /// Keeps the server listened to for what is wanted, for as long as the link lasts. `gap`: what was missed
    /// before it is looked at as soon as nothing more can be.
    pub(in super::super) async fn supervise(self: Arc<Self>, live: Arc<Live>, part: Part, gap: bool) {
        let mut wants = self.subscriptions.wants.subscribe();
        let offered = live.peer.capabilities.clone();
        let mut pace = Pace { backoff: Backoff::new(FLOOR, CAP, fastrand::u64(..)), trouble: None };
        let mut gap = gap;
        // The subscription that is open, and for what.
        let mut current: Option<Current> = None;
        // The subscription that it has replaced, heard for a moment longer.
        let mut replaced: Option<Replaced> = None;
        // What the server will not tell, and how often something had been wanted by then.
        let mut settled: Option<(Filter, u64)> = None;
        // Whether the server was ever listened to.
        let mut proven = false;
        self.answer_is(part, None, 0);
        loop {
            let (filter, times) = {
                let wants = wants.borrow_and_update();
                (Filter::of(part, &wants, &offered), wants.times)
            };
            let is_open = current.as_ref().is_some_and(|current| current.filter == filter);
            let is_settled = settled.as_ref().is_some_and(|(no, at)| *no == filter && *at == times);
            if filter.is_empty() {
                current = None;
                self.answer_is(part, None, times);
            }
            if filter.is_empty() || is_open || is_settled {
                if gap && !is_open {
                    // There is nothing to listen to, so there is nothing to wait for.
                    gap = false;
                    self.after_gap(&live);
                }
                if let Some(current) = current.as_ref().filter(|_| is_open) {
                    self.answer_is(part, Some((&filter, Ok(current.answer.clone()))), times);
                }
                let since = current.as_ref().map(|current| current.since);
                // SB-06: nobody asks how long it is quiet.
                tokio::select! {
                    ended = ending(&mut current) => match ended {
                        Ending::Over => {
                            tracing::debug!(server = %self.name, "the server ended the subscription");
                            self.answer_is(part, Some((&filter, Err(ended.to_string()))), times);
                            settled = Some((filter, times));
                        }
                        Ending::Refused(_) | Ending::Unfit(_) | Ending::Cut(_) => {
                            self.suspect_server(&live);
                            self.answer_is(part, None, times);
                            gap = part == Part::Changes;
                            if since.is_some_and(|since| since.elapsed() > HELD) {
                                pace.trouble = None;
                            }
                            pace.wait(&self, &ended).await;
                        }
                    },
                    () = heard_out(&mut replaced) => {}
                    changed = wants.changed() => if changed.is_err() {
                        return;
                    },
                }
                continue;
            }
            let opened = Arc::new(AtomicBool::new(false));
            let (sender, acknowledged) = oneshot::channel();
            let listening =
                Listen { filter: filter.clone(), acknowledged: sender, opened: Arc::clone(&opened) };
            let mut new: Listening = Box::pin(Arc::clone(&self).listen(Arc::clone(&live), listening));
            match acknowledge(&mut new, &mut current, acknowledged, &opened).await {
                Ok(answer) => {
                    proven = true;
                    let answer = answer.unwrap_or_else(|| filter.granted());
                    // What was kept of lists that were not listened to may be old.
                    if filter.adds_lists(current.as_ref().map(|current| &current.filter)) {
                        self.outdate_all();
                        gap |= self.is_tracking();
                    }
                    let new = Current { filter, since: Instant::now(), answer, listening: new };
                    replaced = current.replace(new).map(|old| -> Replaced {
                        Box::pin(async { drop(timeout(LINGER, old.listening).await) })
                    });
                    if std::mem::take(&mut gap) {
                        self.after_gap(&live);
                    }
                }
                // SB-05: nothing is remembered, so it is asked again.
                Err(ended @ Ending::Cut(_)) => pace.wait_beside(&self, &ended, &mut current).await,
                // A server that was listened to before is having trouble, unless it says that it knows no such thing.
                Err(ended @ Ending::Unfit(_)) if proven => {
                    pace.wait_beside(&self, &ended, &mut current).await;
                }
                Err(ended @ Ending::Refused(_)) if proven && current.is_none() && !ended.is_final() => {
                    pace.wait_beside(&self, &ended, &mut current).await;
                }
                Err(ended) => {
                    let why = ended.to_string();
                    tracing::info!(server = %self.name, why, "the server does not tell of changes");
                    // What is told already goes on being told.
                    let mut no = filter.clone();
                    if let Some(current) = &current {
                        no.resource_subscriptions
                            .retain(|uri| !current.filter.resource_subscriptions.contains(uri));
                    }
                    self.answer_is(part, Some((&no, Err(why))), times);
                    settled = Some((filter, times));
                }
            }
        }
    }

    /// What came of asking, for whoever waits for it.
    fn answer_is(&self, part: Part, answer: Option<(&Filter, Result<Acknowledged, String>)>, times: u64) {
        if part == Part::Changes {
            let granted = answer.map(|(asked, answer)| Granted { asked: asked.clone(), times, answer });
            self.subscriptions.granted.send_if_modified(|before| {
                let changed = *before != granted;
                *before = granted;
                changed
            });
        }
    }

    /// Something may have been missed: it is looked at, or said to have changed (SB-05).
    fn after_gap(self: &Arc<Self>, live: &Arc<Live>) {
        let (shared, live) = (Arc::clone(self), Arc::clone(live));
        self.errands.serve(async move { shared.look_again(live).await });
    }
}

/// How soon what was cut is opened again.
struct Pace {
    backoff: Backoff,
    /// Since when there is trouble.
    trouble: Option<Instant>,
}

impl Pace {
    async fn wait(&mut self, shared: &Shared, ended: &Ending) {
        let since = *self.trouble.get_or_insert_with(Instant::now);
        let wait = self.backoff.wait_after(since.elapsed());
        tracing::debug!(server = %shared.name, %ended, ?wait, "the subscription is opened again");
        sleep(wait).await;
    }

    /// The same while another subscription is still heard.
    async fn wait_beside(&mut self, shared: &Shared, ended: &Ending, current: &mut Option<Current>) {
        let wait = self.wait(shared, ended);
        tokio::pin!(wait);
        tokio::select! {
            () = &mut wait => {}
            _ = ending(current) => wait.await,
        }
    }
}

/// The subscription that is open.
struct Current {
    filter: Filter,
    since: Instant,
    answer: Acknowledged,
    listening: Listening,
}

/// The end of the subscription that is open. Without one there is none.
async fn ending(current: &mut Option<Current>) -> Ending {
    match current {
        Some(open) => {
            let ended = (&mut open.listening).await;
            *current = None;
            ended
        }
        None => std::future::pending().await,
    }
}

/// What was said before the new subscription began may still be on its way by the old one. What both of them say is
/// heard twice, which costs no more than one look too many.
type Replaced = Pin<Box<dyn Future<Output = ()> + Send>>;

async fn heard_out(replaced: &mut Option<Replaced>) {
    match replaced {
        Some(hearing) => {
            hearing.await;
            *replaced = None;
        }
        None => std::future::pending().await,
    }
}

/// Waits for the first word of a new subscription, while the old one goes on. A server that opens one and never
/// acknowledges is taken at its silence. `Err`: it ended instead.
async fn acknowledge(
    new: &mut Listening,
    current: &mut Option<Current>,
    acknowledged: oneshot::Receiver<Acknowledged>,
    opened: &AtomicBool,
) -> Result<Option<Acknowledged>, Ending> {
    let word = timeout(FIRST_WORD, acknowledged);
    tokio::pin!(word);
    loop {
        tokio::select! {
            biased;
            ended = &mut *new => return Err(ended),
            word = &mut word => {
                return match word.ok().and_then(Result::ok) {
                    None if !opened.load(Ordering::Relaxed) => {
                        Err(Ending::Cut(Fault::new(Cause::Timeout(Limit::Connect))))
                    }
                    word => Ok(word),
                };
            }
            _ = ending(current) => {}
        }
    }
}

/// For what is on its way by a subscription that was replaced.
const LINGER: Duration = Duration::from_secs(1);
/// For the acknowledgement, which is the first thing that a server says.
const FIRST_WORD: Duration = Duration::from_secs(10);
/// Between attempts to open what was cut.
const FLOOR: Duration = Duration::from_millis(250);
const CAP: Duration = Duration::from_secs(30);
/// A subscription that lasted this long was a good one.
const HELD: Duration = Duration::from_secs(5);

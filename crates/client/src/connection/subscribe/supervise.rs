//! Keeps a subscription open: opens it, replaces it when the demand changes, and reopens it when it
//! was cut.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bowline_proto::backoff::Backoff;
use bowline_proto::fault::{Cause, Fault, Limit};
use bowline_proto::wire::view::SubscriptionAcknowledgment;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use super::super::{Live, Shared};
use super::listening::{Ending, Listen, Listening};
use super::{Filter, Granted, Part};

impl Shared {
    /// Keeps the subscription for `kind` open while the link lasts. With `gap`, changes that were
    /// missed before are looked for as soon as it is open.
    pub(in super::super) async fn supervise(self: Arc<Self>, live: Arc<Live>, part: Part, gap: bool) {
        let mut wants = self.subscriptions.wants.subscribe();
        let offered = live.peer.capabilities.clone();
        let mut pace = Pace { backoff: Backoff::new(FLOOR, CAP, fastrand::u64(..)), trouble: None };
        let mut gap = gap;
        // The open subscription.
        let mut current: Option<Current> = None;
        // The subscription that it replaced, which is still drained.
        let mut replaced: Option<Replaced> = None;
        // The filter that the server refused or ended, and the generation of the demand at that
        // time.
        let mut settled: Option<(Filter, u64)> = None;
        // Whether a subscription was ever open.
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
                    // There is nothing to subscribe to, so nothing to wait for.
                    gap = false;
                    self.after_gap(&live);
                }
                if let Some(current) = current.as_ref().filter(|_| is_open) {
                    self.answer_is(part, Some((&filter, Ok(current.answer.clone()))), times);
                }
                let since = current.as_ref().map(|current| current.since);
                // SB-06: an open subscription has no idle timeout.
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
                    // Cached lists that were not subscribed to may be stale.
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
                // SB-05: nothing can be resumed, so it is opened again.
                Err(ended @ Ending::Cut(_)) => pace.wait_beside(&self, &ended, &mut current).await,
                // A server that had a subscription before is failing now, unless it says that it
                // does not support them.
                Err(ended @ Ending::Unfit(_)) if proven => {
                    pace.wait_beside(&self, &ended, &mut current).await;
                }
                Err(ended @ Ending::Refused(_)) if proven && current.is_none() && !ended.is_final() => {
                    pace.wait_beside(&self, &ended, &mut current).await;
                }
                Err(ended) => {
                    let why = ended.to_string();
                    tracing::info!(server = %self.name, why, "the server does not tell of changes");
                    // What the current subscription covers stays granted.
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

    /// Publishes the outcome for callers that wait for it.
    fn answer_is(
        &self,
        part: Part,
        answer: Option<(&Filter, Result<SubscriptionAcknowledgment, String>)>,
        times: u64,
    ) {
        if part == Part::Changes {
            let granted = answer.map(|(asked, answer)| Granted { asked: asked.clone(), times, answer });
            self.subscriptions.granted.send_if_modified(|before| {
                let changed = *before != granted;
                *before = granted;
                changed
            });
        }
    }

    /// Refreshes what may have changed unnoticed, in the background (SB-05).
    fn after_gap(self: &Arc<Self>, live: &Arc<Live>) {
        let (shared, live) = (Arc::clone(self), Arc::clone(live));
        self.errands.serve(async move { shared.look_again(live).await });
    }
}

/// Delays for reopening a subscription that was cut.
struct Pace {
    backoff: Backoff,
    /// Start of the current series of failures.
    trouble: Option<Instant>,
}

impl Pace {
    async fn wait(&mut self, shared: &Shared, ended: &Ending) {
        let since = *self.trouble.get_or_insert_with(Instant::now);
        let wait = self.backoff.wait_after(since.elapsed());
        tracing::debug!(server = %shared.name, %ended, ?wait, "the subscription is opened again");
        sleep(wait).await;
    }

    /// Waits while the current subscription stays open.
    async fn wait_beside(&mut self, shared: &Shared, ended: &Ending, current: &mut Option<Current>) {
        let wait = self.wait(shared, ended);
        tokio::pin!(wait);
        tokio::select! {
            () = &mut wait => {}
            _ = ending(current) => wait.await,
        }
    }
}

/// The open subscription.
struct Current {
    filter: Filter,
    since: Instant,
    answer: SubscriptionAcknowledgment,
    listening: Listening,
}

/// Waits for the end of the open subscription; forever if there is none.
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

/// Notifications from before the replacement may still be in flight on the old subscription. One
/// that both deliver is handled twice, which only costs an extra refresh.
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

/// Waits for the acknowledgment of a new subscription, while the old one stays open. A server that
/// opens a stream and never acknowledges is taken to have granted everything. `Err` if the
/// subscription ended instead.
async fn acknowledge(
    new: &mut Listening,
    current: &mut Option<Current>,
    acknowledged: oneshot::Receiver<SubscriptionAcknowledgment>,
    opened: &AtomicBool,
) -> Result<Option<SubscriptionAcknowledgment>, Ending> {
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

/// How long a replaced subscription is drained.
const LINGER: Duration = Duration::from_secs(1);
/// Maximum time to wait for the acknowledgment, which is the first message of a subscription.
const FIRST_WORD: Duration = Duration::from_secs(10);
/// Delay before a subscription is reopened.
const FLOOR: Duration = Duration::from_millis(250);
const CAP: Duration = Duration::from_secs(30);
/// A subscription that lasted this long resets the backoff.
const HELD: Duration = Duration::from_secs(5);

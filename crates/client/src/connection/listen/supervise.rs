//! Keeps a subscription open: opens it, replaces it when the demand changes, and reopens it when it
//! was cut.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bowline_proto::backoff::Backoff;
use bowline_proto::fault::{Cause, Fault, Limit};
use bowline_proto::wire::view::SubscriptionAcknowledgment;
use tokio::sync::{oneshot, watch};
use tokio::time::{sleep, timeout};

use super::request::{ListenRequest, SubscriptionEnd, SubscriptionFuture};
use super::{NotificationFilter, SubscriptionDemand, SubscriptionKind};
use crate::clock;
use crate::connection::{Connection, LiveLink};
use crate::random::random_u64;

impl Connection {
    /// Keeps the subscription for `kind` open while the link lasts. With `gap`, changes that were
    /// missed before are looked for as soon as it is open.
    pub(crate) async fn supervise(
        self: Arc<Self>,
        live: Arc<LiveLink>,
        kind: SubscriptionKind,
        mut gap: bool,
    ) {
        let subscriptions = &self.session.subscriptions;
        let mut wants = subscriptions.demand.subscribe();
        let offered = live.peer.capabilities.clone();
        let mut backoff = ReopenBackoff::new();
        // The open subscription.
        let mut current: Option<CurrentSubscription> = None;
        // The subscription that it replaced, which is still drained.
        let mut replaced: Option<ReplacedSubscription> = None;
        // The filter that the server refused or ended, and the generation of the demand at that
        // time.
        let mut settled: Option<(NotificationFilter, u64)> = None;
        // Whether a subscription was ever open.
        let mut proven = false;
        subscriptions.publish_outcome(kind, None, 0);
        loop {
            let (filter, times) = {
                let wants = wants.borrow_and_update();
                (NotificationFilter::from_demand(kind, &wants, &offered), wants.generation)
            };
            let is_open = current.as_ref().is_some_and(|current| current.filter == filter);
            let is_settled = settled.as_ref().is_some_and(|(no, at)| *no == filter && *at == times);
            if filter.is_empty() {
                current = None;
                subscriptions.publish_outcome(kind, None, times);
            }
            if filter.is_empty() || is_open || is_settled {
                if gap && !is_open {
                    // There is nothing to subscribe to, so nothing to wait for.
                    gap = false;
                    self.spawn_gap_refresh(&live);
                }
                if let Some(current) = current.as_ref().filter(|_| is_open) {
                    let granted = Ok(current.acknowledged.clone());
                    subscriptions.publish_outcome(kind, Some((&filter, granted)), times);
                }
                let since = current.as_ref().map(|current| current.since);
                // SB-06: an open subscription has no idle timeout.
                tokio::select! {
                    ended = current_end(&mut current) => match ended {
                        SubscriptionEnd::Ended => {
                            tracing::debug!(server = %self.server.name, "the server ended the subscription");
                            subscriptions.publish_outcome(kind, Some((&filter, Err(ended.to_string()))), times);
                            settled = Some((filter, times));
                        }
                        SubscriptionEnd::Refused(_) | SubscriptionEnd::Unavailable(_) | SubscriptionEnd::Cut(_) => {
                            self.suspect_server(&live);
                            subscriptions.publish_outcome(kind, None, times);
                            gap = kind == SubscriptionKind::Changes;
                            if since.is_some_and(|since| clock::elapsed(since) > MIN_STABLE_DURATION) {
                                backoff.failing_since = None;
                            }
                            backoff.wait_for_demand(&self, &ended, &mut wants).await;
                        }
                    },
                    () = drain_replaced(&mut replaced) => {}
                    changed = wants.changed() => if changed.is_err() {
                        return;
                    },
                }
                continue;
            }
            let opened = Arc::new(AtomicBool::new(false));
            let (sender, acknowledged) = oneshot::channel();
            let listening = ListenRequest {
                filter: filter.clone(),
                acknowledge_sender: sender,
                opened: Arc::clone(&opened),
            };
            let mut new: SubscriptionFuture =
                Box::pin(Arc::clone(&self).run_subscription(Arc::clone(&live), listening));
            match wait_for_acknowledgment(&mut new, &mut current, acknowledged, &opened).await {
                Ok(answer) => {
                    proven = true;
                    let answer = answer.unwrap_or_else(|| filter.to_acknowledged());
                    // Cached lists that were not subscribed to may be stale.
                    if filter.adds_lists(current.as_ref().map(|current| &current.filter)) {
                        self.lists.invalidate_all();
                        gap |= self.lists.is_tracking();
                    }
                    let new = CurrentSubscription::new(filter, answer, new);
                    replaced = current.replace(new).map(CurrentSubscription::drain);
                    if std::mem::take(&mut gap) {
                        self.spawn_gap_refresh(&live);
                    }
                }
                Err(ended)
                    if match ended {
                        // SB-05: nothing can be resumed, so it is opened again.
                        SubscriptionEnd::Cut(_) => true,
                        // A server that had a subscription before is failing now, unless it says
                        // that it does not support them.
                        SubscriptionEnd::Unavailable(_) => proven,
                        SubscriptionEnd::Refused(_) => proven && current.is_none() && !ended.is_final(),
                        SubscriptionEnd::Ended => false,
                    } =>
                {
                    backoff.wait_while_open(&self, &ended, &mut current).await;
                }
                Err(ended) => {
                    let why = ended.to_string();
                    tracing::info!(server = %self.server.name, why, "the server does not tell of changes");
                    // What the current subscription covers stays granted.
                    let refused = filter.without_resources(current.as_ref().map(|current| &current.filter));
                    subscriptions.publish_outcome(kind, Some((&refused, Err(why))), times);
                    settled = Some((filter, times));
                }
            }
        }
    }

    /// Refreshes what may have changed unnoticed, in the background (SB-05).
    fn spawn_gap_refresh(self: &Arc<Self>, live: &Arc<LiveLink>) {
        let (connection, live) = (Arc::clone(self), Arc::clone(live));
        self.background.spawn(async move { connection.refresh_after_gap(live).await });
    }
}

/// Delays for reopening a subscription that was cut.
struct ReopenBackoff {
    backoff: Backoff,
    /// Start of the current series of failures.
    failing_since: Option<Instant>,
}

impl ReopenBackoff {
    fn new() -> Self {
        let backoff = Backoff::new(MIN_REOPEN_DELAY, MAX_REOPEN_DELAY, random_u64());
        Self { backoff, failing_since: None }
    }

    async fn wait(&mut self, connection: &Connection, ended: &SubscriptionEnd) {
        let since = *self.failing_since.get_or_insert_with(clock::now);
        let wait = self.backoff.wait_after(clock::elapsed(since));
        tracing::debug!(server = %connection.server.name, %ended, ?wait, "the subscription is opened again");
        sleep(wait).await;
    }

    /// Waits, or until the demand changes: then somebody waits for a subscription, and the server may be back.
    async fn wait_for_demand(
        &mut self,
        connection: &Connection,
        ended: &SubscriptionEnd,
        wants: &mut watch::Receiver<SubscriptionDemand>,
    ) {
        tokio::select! {
            () = self.wait(connection, ended) => {}
            _ = wants.changed() => {}
        }
    }

    /// Waits while the current subscription stays open.
    async fn wait_while_open(
        &mut self,
        connection: &Connection,
        ended: &SubscriptionEnd,
        current: &mut Option<CurrentSubscription>,
    ) {
        let wait = self.wait(connection, ended);
        tokio::pin!(wait);
        tokio::select! {
            () = &mut wait => {}
            _ = current_end(current) => wait.await,
        }
    }
}

struct CurrentSubscription {
    filter: NotificationFilter,
    since: Instant,
    acknowledged: SubscriptionAcknowledgment,
    future: SubscriptionFuture,
}

impl CurrentSubscription {
    fn new(
        filter: NotificationFilter,
        acknowledged: SubscriptionAcknowledgment,
        future: SubscriptionFuture,
    ) -> Self {
        Self { filter, since: clock::now(), acknowledged, future }
    }

    /// Reads what is still in flight after the subscription was replaced, for a bounded time.
    fn drain(self) -> ReplacedSubscription {
        Box::pin(async { drop(timeout(REPLACED_DRAIN_TIMEOUT, self.future).await) })
    }
}

/// Waits for the end of the open subscription; forever if there is none.
async fn current_end(current: &mut Option<CurrentSubscription>) -> SubscriptionEnd {
    match current {
        Some(open) => {
            let ended = (&mut open.future).await;
            *current = None;
            ended
        }
        None => std::future::pending().await,
    }
}

/// Notifications from before the replacement may still be in flight on the old subscription. One
/// that both deliver is handled twice, which only costs an extra refresh.
type ReplacedSubscription = Pin<Box<dyn Future<Output = ()> + Send>>;

async fn drain_replaced(replaced: &mut Option<ReplacedSubscription>) {
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
async fn wait_for_acknowledgment(
    new: &mut SubscriptionFuture,
    current: &mut Option<CurrentSubscription>,
    acknowledged: oneshot::Receiver<SubscriptionAcknowledgment>,
    opened: &AtomicBool,
) -> Result<Option<SubscriptionAcknowledgment>, SubscriptionEnd> {
    let word = timeout(ACKNOWLEDGE_TIMEOUT, acknowledged);
    tokio::pin!(word);
    loop {
        tokio::select! {
            biased;
            ended = &mut *new => return Err(ended),
            word = &mut word => {
                return match word.ok().and_then(Result::ok) {
                    None if !opened.load(Ordering::Relaxed) => {
                        Err(SubscriptionEnd::Cut(Fault::new(Cause::Timeout(Limit::Connect))))
                    }
                    word => Ok(word),
                };
            }
            _ = current_end(current) => {}
        }
    }
}

/// How long a replaced subscription is drained.
const REPLACED_DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum time to wait for the acknowledgment, which is the first message of a subscription.
const ACKNOWLEDGE_TIMEOUT: Duration = Duration::from_secs(10);
/// Delay before a subscription is reopened.
const MIN_REOPEN_DELAY: Duration = Duration::from_millis(250);
const MAX_REOPEN_DELAY: Duration = Duration::from_secs(30);
/// A subscription that lasted this long resets the backoff.
const MIN_STABLE_DURATION: Duration = Duration::from_secs(5);

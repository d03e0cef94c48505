//! [`ListFetches`]: which lists of a server are requested, and when.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bowline::types::code;
use bowline::{Client, Error, Json, Result};
use tokio::time::{Instant, sleep_until};

use super::ListKind;

/// Requests the lists of one server, one after the other. A list that takes long does not hold up the next one, and a list
/// that fails is retried without the others.
pub(super) struct ListFetches {
    client: Client,
    /// By [`ListKind::index`].
    plans: [FetchPlan; 4],
}

/// When one list is requested.
struct FetchPlan {
    /// When the list is to be requested, if it is.
    due: Option<Instant>,
    running: Option<RunningFetch>,
    /// How long after the next failure the list is requested again, unless it changes.
    retry_delay: Duration,
    /// Earliest time of the next request after a failure, even if the list changes.
    not_before: Option<Instant>,
}

struct RunningFetch {
    since: Instant,
    list: Pin<Box<dyn Future<Output = Result<Vec<Json>>> + Send>>,
}

impl ListFetches {
    pub(super) fn new(client: Client) -> Self {
        Self { client, plans: ListKind::ALL.map(|_| FetchPlan::new(None)) }
    }

    /// Requests every list now, over a new connection. Fetches over the earlier connection are canceled, and its failures
    /// delay nothing.
    pub(super) fn restart(&mut self) {
        let now = Instant::now();
        self.plans = ListKind::ALL.map(|_| FetchPlan::new(Some(now)));
    }

    /// Requests lists that may have changed, a moment later: a change is often announced more than once. A list that is
    /// being fetched is requested again after that.
    pub(super) fn request(&mut self, kinds: &[ListKind]) {
        let now = Instant::now();
        for kind in kinds {
            self.plans[kind.index()].request(now);
        }
    }

    /// Whether no list is being requested, and none is to be requested now.
    pub(super) fn is_idle(&self) -> bool {
        let now = Instant::now();
        self.plans.iter().all(|plan| plan.running.is_none() && plan.due.is_none_or(|due| due > now))
    }

    /// Waits until a list has been fetched to its end or has failed. Without `is_connected`, no further list is requested.
    /// A list that the server does not know is empty, unless it `is_expected` of the server: then it has failed.
    ///
    /// Dropping the future loses nothing.
    pub(super) async fn next(
        &mut self,
        is_connected: bool,
        is_expected: impl Fn(ListKind) -> bool,
    ) -> (ListKind, Result<Vec<Json>>) {
        loop {
            let next_start = if is_connected { self.start_due() } else { None };
            let wait = async {
                match next_start {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                ended = poll_fn(|context| self.poll_running(context, &is_expected)) => return ended,
                () = wait => {}
            }
        }
    }

    /// Starts what is due. Returns when something else can be started at the earliest, if anything can.
    fn start_due(&mut self) -> Option<Instant> {
        let now = Instant::now();
        let mut next_start: Option<Instant> = None;
        for kind in ListKind::ALL {
            let running = self.plans.iter().filter_map(|plan| plan.running.as_ref());
            let overlap_start = running.map(|fetch| fetch.since + OVERLAP_DELAY).max();
            let plan = &mut self.plans[kind.index()];
            let (None, Some(due)) = (&plan.running, plan.due) else { continue };
            let start = overlap_start.map_or(due, |overlap_start| due.max(overlap_start));
            if start > now {
                next_start = Some(next_start.map_or(start, |earlier| earlier.min(start)));
                continue;
            }
            plan.due = None;
            let list = Box::pin(fetch_list(self.client.clone(), kind));
            plan.running = Some(RunningFetch { since: now, list });
        }
        next_start
    }

    fn poll_running(
        &mut self,
        context: &mut Context<'_>,
        is_expected: impl Fn(ListKind) -> bool,
    ) -> Poll<(ListKind, Result<Vec<Json>>)> {
        for kind in ListKind::ALL {
            let plan = &mut self.plans[kind.index()];
            let Some(running) = &mut plan.running else { continue };
            let Poll::Ready(list) = running.list.as_mut().poll(context) else { continue };
            let list = empty_if_unknown(&self.client, kind, list, || is_expected(kind));
            plan.finish(Instant::now(), list.is_ok());
            return Poll::Ready((kind, list));
        }
        Poll::Pending
    }
}

impl FetchPlan {
    fn new(due: Option<Instant>) -> Self {
        Self { due, running: None, retry_delay: MIN_RETRY_DELAY, not_before: None }
    }

    /// Requests the list once changes have settled. A request that is due earlier stays.
    fn request(&mut self, now: Instant) {
        let settled = now + SETTLE_DELAY;
        let at = self.not_before.map_or(settled, |not_before| not_before.max(settled));
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    /// Ends the running fetch. One that failed is retried.
    fn finish(&mut self, now: Instant, is_ok: bool) {
        self.running = None;
        if is_ok {
            self.not_before = None;
            self.retry_delay = MIN_RETRY_DELAY;
            return;
        }
        let not_before = now + MIN_RETRY_DELAY;
        self.not_before = Some(not_before);
        // The list may have changed during the fetch, and is due then.
        self.due = Some(self.due.map_or(now + self.retry_delay, |due| due.max(not_before)));
        self.retry_delay = (self.retry_delay * 2).min(MAX_RETRY_DELAY);
    }
}

/// Fetches one list over all pages.
async fn fetch_list(client: Client, kind: ListKind) -> Result<Vec<Json>> {
    match kind {
        ListKind::Tools => client.list_tools().await.map(|items| jsons(items, |item| item.json)),
        ListKind::Prompts => client.list_prompts().await.map(|items| jsons(items, |item| item.json)),
        ListKind::Resources => client.list_resources().await.map(|items| jsons(items, |item| item.json)),
        ListKind::Templates => {
            client.list_resource_templates().await.map(|items| jsons(items, |item| item.json))
        }
    }
}

/// Fetches one list over all pages. One that the server does not know is empty.
pub(super) async fn fetch_list_or_empty(client: &Client, kind: ListKind) -> Result<Vec<Json>> {
    empty_if_unknown(client, kind, fetch_list(client.clone(), kind).await, || false)
}

/// A server that does not know the method of a list has nothing to list, unless the list `is_expected` of it.
fn empty_if_unknown(
    client: &Client,
    kind: ListKind,
    list: Result<Vec<Json>>,
    is_expected: impl FnOnce() -> bool,
) -> Result<Vec<Json>> {
    let is_unknown =
        |error: &Error| error.server_error().is_some_and(|error| error.code == code::METHOD_NOT_FOUND);
    match list {
        Err(error) if is_unknown(&error) && !is_expected() => {
            tracing::debug!(
                server = client.name(),
                method = kind.method(),
                "the server does not know a list"
            );
            Ok(Vec::new())
        }
        list => list,
    }
}

/// The elements of a list as the server wrote them. They take no more room than they need: collecting
/// them uses the memory of the larger elements again.
fn jsons<T>(items: Vec<T>, json: impl Fn(T) -> Json) -> Vec<Json> {
    let mut jsons: Vec<Json> = items.into_iter().map(json).collect();
    jsons.shrink_to_fit();
    jsons
}

/// How long changes are collected before lists are fetched.
const SETTLE_DELAY: Duration = Duration::from_millis(20);
/// How long a list is fetched before the next one is requested beside it.
const OVERLAP_DELAY: Duration = Duration::from_millis(250);
/// Delay of the retry after the first failure of a list, and least delay after any. Each failure in a row doubles it.
const MIN_RETRY_DELAY: Duration = Duration::from_secs(1);
/// Longest delay before a list that failed is retried.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use bowline::Server;

    use super::*;

    #[test]
    fn repeated_changes_do_not_postpone_a_fetch() {
        let now = Instant::now();
        let mut plan = FetchPlan::new(None);
        plan.request(now);
        plan.request(now + SETTLE_DELAY / 2);
        assert_eq!(plan.due, Some(now + SETTLE_DELAY));
    }

    #[test]
    fn a_change_after_a_failure_does_not_cancel_the_backoff() {
        let now = Instant::now();
        let mut plan = FetchPlan::new(None);
        for failures in 0..3 {
            plan.due = None;
            plan.finish(now, false);
            assert_eq!(plan.due, Some(now + MIN_RETRY_DELAY * (1 << failures)));
        }
        plan.request(now);
        assert_eq!(plan.due, Some(now + MIN_RETRY_DELAY), "a change shortens a longer delay");
        plan.finish(now, true);
        plan.due = None;
        plan.request(now);
        assert_eq!(plan.due, Some(now + SETTLE_DELAY), "a success ends the backoff");
    }

    #[test]
    fn a_change_during_a_fetch_that_fails_is_not_lost() {
        let now = Instant::now();
        let mut plan = FetchPlan::new(None);
        plan.retry_delay = MAX_RETRY_DELAY;
        plan.request(now);
        plan.finish(now, false);
        assert_eq!((plan.due, plan.retry_delay), (Some(now + MIN_RETRY_DELAY), MAX_RETRY_DELAY));
    }

    #[tokio::test(start_paused = true)]
    async fn a_restart_cancels_running_fetches_and_ends_the_backoff() {
        let server = Server::http("one", "http://127.0.0.1:1/").build().unwrap();
        let client = Client::builder(server).without_negotiation_cache().open().unwrap();
        let mut fetches = ListFetches::new(client);
        let now = Instant::now();
        for plan in &mut fetches.plans {
            plan.finish(now, false);
            plan.running = Some(RunningFetch { since: now, list: Box::pin(std::future::pending()) });
        }
        fetches.restart();
        for plan in &fetches.plans {
            assert!(plan.running.is_none() && plan.not_before.is_none());
            assert_eq!((plan.due, plan.retry_delay), (Some(now), MIN_RETRY_DELAY));
        }
    }
}

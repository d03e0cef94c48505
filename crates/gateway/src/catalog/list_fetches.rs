//! [`ListFetches`]: which lists of a server are requested, and when.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bowline::types::code;
use bowline::{Client, Json, Result};
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
    /// How long the next failure is waited out.
    retry_delay: Duration,
}

struct RunningFetch {
    since: Instant,
    list: Pin<Box<dyn Future<Output = Result<Vec<Json>>> + Send>>,
}

impl ListFetches {
    pub(super) fn new(client: Client) -> Self {
        let plan = |_| FetchPlan { due: None, running: None, retry_delay: MIN_RETRY_DELAY };
        Self { client, plans: ListKind::ALL.map(plan) }
    }

    /// Requests every list now. One that is being requested is requested again after that.
    pub(super) fn request_all(&mut self) {
        let now = Instant::now();
        for plan in &mut self.plans {
            plan.due = Some(now);
        }
    }

    /// Requests lists that have changed, a moment later: a change is often announced more than once.
    pub(super) fn request(&mut self, kinds: &[ListKind]) {
        let now = Instant::now();
        for kind in kinds {
            let plan = &mut self.plans[kind.index()];
            if plan.due.is_none_or(|due| due > now) {
                plan.due = Some(now + SETTLE_DELAY);
            }
        }
    }

    /// Whether no list is being requested, and none is to be requested now.
    pub(super) fn is_idle(&self) -> bool {
        let now = Instant::now();
        self.plans.iter().all(|plan| plan.running.is_none() && plan.due.is_none_or(|due| due > now))
    }

    /// Waits until a list has been fetched to its end or has failed. Without `is_connected`, no further list is requested.
    ///
    /// Dropping the future loses nothing.
    pub(super) async fn next(&mut self, is_connected: bool) -> (ListKind, Result<Vec<Json>>) {
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
                ended = poll_fn(|context| self.poll_running(context)) => return ended,
                () = wait => {}
            }
        }
    }

    /// Starts what is due. Returns when something else can be started at the earliest, if anything can.
    fn start_due(&mut self) -> Option<Instant> {
        let now = Instant::now();
        let mut next_start: Option<Instant> = None;
        for kind in ListKind::ALL {
            let patience =
                self.plans.iter().filter_map(|plan| Some(plan.running.as_ref()?.since + PATIENCE)).max();
            let plan = &mut self.plans[kind.index()];
            let (None, Some(due)) = (&plan.running, plan.due) else { continue };
            let start = patience.map_or(due, |patience| due.max(patience));
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

    fn poll_running(&mut self, context: &mut Context<'_>) -> Poll<(ListKind, Result<Vec<Json>>)> {
        for kind in ListKind::ALL {
            let plan = &mut self.plans[kind.index()];
            let Some(running) = &mut plan.running else { continue };
            let Poll::Ready(list) = running.list.as_mut().poll(context) else { continue };
            plan.running = None;
            if list.is_ok() {
                plan.retry_delay = MIN_RETRY_DELAY;
            } else {
                plan.due = Some(Instant::now() + plan.retry_delay);
                plan.retry_delay = (plan.retry_delay * 2).min(MAX_RETRY_DELAY);
            }
            return Poll::Ready((kind, list));
        }
        Poll::Pending
    }
}

/// Fetches one list over all pages. A server that does not know the method has nothing to list.
pub(super) async fn fetch_list(client: Client, kind: ListKind) -> Result<Vec<Json>> {
    let list = match kind {
        ListKind::Tools => client.list_tools().await.map(|items| jsons(items, |item| item.json)),
        ListKind::Prompts => client.list_prompts().await.map(|items| jsons(items, |item| item.json)),
        ListKind::Resources => client.list_resources().await.map(|items| jsons(items, |item| item.json)),
        ListKind::Templates => {
            client.list_resource_templates().await.map(|items| jsons(items, |item| item.json))
        }
    };
    match list {
        Err(error) if error.server_error().is_some_and(|error| error.code == code::METHOD_NOT_FOUND) => {
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
/// How long a list is waited for before the next one is requested beside it.
const PATIENCE: Duration = Duration::from_millis(250);
const MIN_RETRY_DELAY: Duration = Duration::from_secs(1);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(60);

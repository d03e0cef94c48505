//! Limits of sampling: requests per server, tool rounds, tokens of all servers, and concurrency
//! (SA-02, SA-07).

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_config::Sampling;
use bowline_proto::wire::view::SamplingRequest;
use tokio::time::{Instant, timeout};

use crate::host::Refusal;
use crate::host::line::{Line, Turn};

/// Counts requests and tokens. Only numbers are kept, for at most an hour.
#[derive(Debug)]
pub(super) struct Meter {
    per_minute: usize,
    tool_rounds: usize,
    per_hour: Option<u64>,
    /// Maximum time that a request waits for others.
    patience: Duration,
    turns: Line,
    person: Line,
    asked: Arc<Mutex<HashMap<Arc<str>, Asker>>>,
    spent: Arc<Mutex<Spent>>,
}

/// The requests of one server.
#[derive(Debug, Default)]
struct Asker {
    open: usize,
    recent: VecDeque<Instant>,
}

/// An admitted request, until it is answered or canceled.
#[derive(Debug)]
pub(super) struct Open {
    server: Arc<str>,
    asked: Arc<Mutex<HashMap<Arc<str>, Asker>>>,
}

#[derive(Debug, Default)]
struct Spent {
    /// When, and how many.
    used: VecDeque<(Instant, u64)>,
    /// Tokens reserved for requests in flight.
    reserved: u64,
}

/// Tokens reserved for one request. Without a settled cost all of them count as used, since a
/// request that was sent may have cost that much.
#[derive(Debug)]
pub(super) struct Budget {
    tokens: u64,
    /// Tokens charged when this is dropped.
    cost: u64,
    spent: Arc<Mutex<Spent>>,
}

/// Maximum number of open requests of one server: waiting for a person, for others or for the
/// model.
const MOST_OPEN: usize = 8;
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(60 * 60);

impl Meter {
    pub(super) fn new(settings: &Sampling) -> Self {
        let whole = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
        Self {
            per_minute: whole(settings.per_minute),
            tool_rounds: whole(settings.tool_rounds),
            per_hour: settings.tokens_per_hour,
            patience: settings.timeout,
            turns: Line::new(whole(settings.concurrent)),
            person: Line::new(1),
            asked: Arc::default(),
            spent: Arc::default(),
        }
    }

    /// Refuses a conversation with too many tool rounds. The history is the count, so none has to
    /// be kept; it is the server's text, whoever speaks last (SA-07).
    pub(super) fn rounds(&self, request: &SamplingRequest) -> Result<(), Refusal> {
        let rounds = super::tool_rounds(request);
        if rounds > self.tool_rounds {
            let why = format!("{rounds} rounds of tool calls; {} are allowed", self.tool_rounds);
            return Err(Refusal::Limited(why));
        }
        Ok(())
    }

    /// Counts a request of `server`, or refuses it.
    pub(super) fn admit(&self, server: &Arc<str>) -> Result<Open, Refusal> {
        let now = Instant::now();
        let mut servers = lock(&self.asked);
        // A server that was idle for a minute is removed.
        servers.retain(|_, asker| {
            while asker.recent.front().is_some_and(|time| now.duration_since(*time) >= MINUTE) {
                asker.recent.pop_front();
            }
            asker.open > 0 || !asker.recent.is_empty()
        });
        let asker = servers.entry(Arc::clone(server)).or_default();
        if asker.recent.len() >= self.per_minute {
            return Err(Refusal::Limited(format!("more than {} requests in a minute", self.per_minute)));
        }
        if asker.open >= MOST_OPEN {
            return Err(Refusal::Limited(format!("more than {MOST_OPEN} requests are open")));
        }
        asker.recent.push_back(now);
        asker.open += 1;
        Ok(Open { server: Arc::clone(server), asked: Arc::clone(&self.asked) })
    }

    /// Waits for the model. Servers take turns.
    pub(super) async fn turn(&self, server: &Arc<str>) -> Result<Turn, Refusal> {
        let busy = |_| Refusal::Limited("too many requests are under way".to_owned());
        timeout(self.patience, self.turns.turn(server)).await.map_err(busy)
    }

    /// Waits for the person. Servers take turns.
    pub(super) async fn person(&self, server: &Arc<str>) -> Turn {
        self.person.turn(server).await
    }

    /// Returns `tokens`, or as many as are left, without reserving them.
    pub(super) fn left(&self, tokens: u64) -> Result<u64, Refusal> {
        self.left_of(&mut lock(&self.spent), tokens)
    }

    /// Reserves `tokens`, or as many as are left.
    pub(super) fn budget(&self, tokens: u64) -> Result<Budget, Refusal> {
        let mut spent = lock(&self.spent);
        let tokens = self.left_of(&mut spent, tokens)?;
        spent.reserved = spent.reserved.saturating_add(tokens);
        drop(spent);
        Ok(Budget { tokens, cost: 0, spent: Arc::clone(&self.spent) })
    }

    fn left_of(&self, spent: &mut Spent, tokens: u64) -> Result<u64, Refusal> {
        let Some(most) = self.per_hour else { return Ok(tokens) };
        spent.forget(Instant::now());
        let used = spent.used.iter().fold(spent.reserved, |all, (_, used)| all.saturating_add(*used));
        match most.saturating_sub(used) {
            0 => Err(Refusal::Limited("the tokens of this hour are used up".to_owned())),
            left => Ok(tokens.min(left)),
        }
    }
}

impl Budget {
    /// Maximum number of tokens of the answer.
    pub(super) fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Marks the request as sent: from now on it may cost all its tokens.
    pub(super) fn start(&mut self) {
        self.cost = self.tokens;
    }

    /// Sets the actual cost.
    pub(super) fn settle(&mut self, tokens: u64) {
        self.cost = tokens;
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if let Some(asker) = lock(&self.asked).get_mut(&self.server) {
            asker.open -= 1;
        }
    }
}

impl Drop for Budget {
    fn drop(&mut self) {
        let mut spent = lock(&self.spent);
        spent.reserved = spent.reserved.saturating_sub(self.tokens);
        if self.cost > 0 {
            let now = Instant::now();
            spent.forget(now);
            spent.used.push_back((now, self.cost));
        }
    }
}

impl Spent {
    fn forget(&mut self, now: Instant) {
        while self.used.front().is_some_and(|(time, _)| now.duration_since(*time) >= HOUR) {
            self.used.pop_front();
        }
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use bowline_config::SamplingApi;
    use tokio::time::advance;

    use super::*;

    fn meter(change: impl FnOnce(&mut Sampling)) -> Meter {
        let mut settings = Sampling::new(SamplingApi::OpenAi, "http://h/", "m").unwrap();
        change(&mut settings);
        Meter::new(&settings)
    }

    fn limited<T: std::fmt::Debug>(outcome: Result<T, Refusal>) -> String {
        match outcome {
            Err(Refusal::Limited(why)) => why,
            other => panic!("{other:?}"),
        }
    }

    /// SA-02: requests per minute are limited for each server.
    #[tokio::test(start_paused = true)]
    async fn sa_02_a_server_asks_so_often_and_no_more() {
        let meter = meter(|settings| settings.per_minute = 2);
        let (one, other) = (Arc::from("one"), Arc::from("other"));
        meter.admit(&one).unwrap();
        advance(Duration::from_secs(40)).await;
        meter.admit(&one).unwrap();
        assert_eq!(limited(meter.admit(&one)), "more than 2 requests in a minute");
        meter.admit(&other).unwrap();
        advance(Duration::from_secs(20)).await;
        meter.admit(&one).unwrap();
        limited(meter.admit(&one));
        advance(MINUTE).await;
        meter.admit(&other).unwrap();
        assert_eq!(lock(&meter.asked).len(), 1, "the quiet one is forgotten");
    }

    #[tokio::test(start_paused = true)]
    async fn tokens_of_an_hour_are_shared_and_come_back() {
        let meter = meter(|settings| settings.tokens_per_hour = Some(100));
        let mut first = meter.budget(60).unwrap();
        first.start();
        // Tokens of requests in flight are reserved, and the next gets the rest.
        let second = meter.budget(60).unwrap();
        assert_eq!(second.tokens(), 40);
        assert_eq!(limited(meter.budget(1)), "the tokens of this hour are used up");
        assert_eq!(limited(meter.left(1)), "the tokens of this hour are used up");
        first.settle(5);
        drop((first, second));
        assert_eq!(meter.left(200), Ok(95), "the second asked nobody");
        assert_eq!(meter.budget(200).unwrap().tokens(), 95, "to look takes nothing");
        let mut lost = meter.budget(90).unwrap();
        lost.start();
        drop(lost);
        assert_eq!(meter.budget(200).unwrap().tokens(), 5, "nobody knows what it cost");
        advance(HOUR).await;
        assert_eq!(meter.budget(200).unwrap().tokens(), 100);
    }

    #[tokio::test(start_paused = true)]
    async fn requests_wait_for_each_other_and_not_for_ever() {
        let meter = meter(|settings| settings.concurrent = 1);
        let server = Arc::from("one");
        let first = meter.turn(&server).await.unwrap();
        assert_eq!(limited(meter.turn(&server).await), "too many requests are under way");
        let (second, ()) = tokio::join!(meter.turn(&server), async { drop(first) });
        drop(second.unwrap());
    }

    /// SA-02: open requests of one server are limited, however slowly they come.
    #[tokio::test(start_paused = true)]
    async fn sa_02_open_requests_are_limited() {
        let meter = meter(|_| {});
        let (one, other) = (Arc::from("one"), Arc::from("other"));
        let mut open = Vec::new();
        for _ in 0..MOST_OPEN {
            open.push(meter.admit(&one).unwrap());
            advance(MINUTE).await;
        }
        assert_eq!(limited(meter.admit(&one)), "more than 8 requests are open");
        meter.admit(&other).unwrap();
        open.pop();
        meter.admit(&one).unwrap();
    }
}

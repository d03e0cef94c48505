//! Owns what servers may cost: how often one may ask, how long a loop of tools may go on, how many tokens all may
//! use, and how much happens at the same time (SA-02, SA-07).

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_config::Sampling;
use bowline_proto::wire::view::SamplingRequest;
use tokio::time::{Instant, timeout};

use crate::host::Refusal;
use crate::host::line::{Line, Turn};

/// What was asked and used so far. Only numbers are kept, and none for longer than an hour.
#[derive(Debug)]
pub(super) struct Meter {
    per_minute: usize,
    tool_rounds: usize,
    per_hour: Option<u64>,
    /// How long a request waits for others to end.
    patience: Duration,
    turns: Line,
    person: Line,
    asked: Arc<Mutex<HashMap<Arc<str>, Asker>>>,
    spent: Arc<Mutex<Spent>>,
}

/// What one server has asked.
#[derive(Debug, Default)]
struct Asker {
    open: usize,
    recent: VecDeque<Instant>,
}

/// A request that was let in, until it is answered or taken back.
#[derive(Debug)]
pub(super) struct Open {
    server: Arc<str>,
    asked: Arc<Mutex<HashMap<Arc<str>, Asker>>>,
}

#[derive(Debug, Default)]
struct Spent {
    /// When, and how many.
    used: VecDeque<(Instant, u64)>,
    /// Set aside for requests under way.
    reserved: u64,
}

/// Tokens set aside for one request. What it did not settle counts as used: once a model was asked, nobody can
/// tell what it cost.
#[derive(Debug)]
pub(super) struct Budget {
    tokens: u64,
    /// What is charged at the end.
    cost: u64,
    spent: Arc<Mutex<Spent>>,
}

/// How many requests of one server may be open: waiting for a person, for others or for the model.
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

    /// SA-07: a conversation that has used tools often enough does not go on, whoever speaks last in it: those are
    /// the server's words too. The history itself is the count, so that none has to be kept.
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
        // Servers that were quiet for a minute leave nothing behind.
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

    /// Waits until there is room for another request at the model. Servers take turns.
    pub(super) async fn turn(&self, server: &Arc<str>) -> Result<Turn, Refusal> {
        let busy = |_| Refusal::Limited("too many requests are under way".to_owned());
        timeout(self.patience, self.turns.turn(server)).await.map_err(busy)
    }

    /// Waits until the person is free. Servers take turns.
    pub(super) async fn person(&self, server: &Arc<str>) -> Turn {
        self.person.turn(server).await
    }

    /// `tokens`, or as many as are left just now. Nothing is set aside.
    pub(super) fn left(&self, tokens: u64) -> Result<u64, Refusal> {
        self.left_of(&mut lock(&self.spent), tokens)
    }

    /// Sets `tokens` aside, or as many as are left.
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
    /// How many tokens the answer may have.
    pub(super) fn tokens(&self) -> u64 {
        self.tokens
    }

    /// From here on the model may be at work.
    pub(super) fn start(&mut self) {
        self.cost = self.tokens;
    }

    /// It is known what it cost.
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

    /// SA-02: within any minute, and each server by itself.
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
        // What is under way is set aside, and the next gets what is left.
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

    /// SA-02: requests of one server that are not answered yet do not pile up, however slowly they come.
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

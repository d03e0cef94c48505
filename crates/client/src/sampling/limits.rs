//! Limits of sampling: requests per server, tool rounds, tokens of all servers, and concurrency
//! (SA-02, SA-07).

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bowline_config::Sampling;
use bowline_proto::wire::view::SamplingRequest;
use parking_lot::Mutex;
use tokio::time::{Instant, timeout};

use crate::host::SamplingRefusal;
use crate::host::fair_queue::{FairPermit, FairQueue};

/// Counts requests and tokens. Only numbers are kept, for at most an hour.
#[derive(Debug)]
pub(super) struct UsageMeter {
    per_minute: usize,
    tool_rounds: usize,
    per_hour: Option<u64>,
    /// Maximum time that a request waits for others.
    queue_timeout: Duration,
    model_queue: FairQueue,
    person_queue: FairQueue,
    servers: Arc<Mutex<HashMap<Arc<str>, ServerUsage>>>,
    token_usage: Arc<Mutex<TokenUsage>>,
}

/// The requests of one server.
#[derive(Debug, Default)]
struct ServerUsage {
    open: usize,
    recent: VecDeque<Instant>,
}

/// An admitted request, until it is answered or canceled.
#[derive(Debug)]
pub(super) struct OpenRequest {
    server: Arc<str>,
    servers: Arc<Mutex<HashMap<Arc<str>, ServerUsage>>>,
}

#[derive(Debug, Default)]
struct TokenUsage {
    /// When, and how many.
    used: VecDeque<(Instant, u64)>,
    /// Tokens reserved for requests in flight.
    reserved: u64,
}

/// Tokens reserved for one request. Without a settled cost all of them count as used, since a
/// request that was sent may have cost that much.
#[derive(Debug)]
pub(super) struct TokenBudget {
    /// Maximum number of tokens of the answer.
    pub(super) tokens: u64,
    /// Tokens charged when this is dropped.
    cost: u64,
    usage: Arc<Mutex<TokenUsage>>,
}

/// Maximum number of open requests of one server: waiting for a person, for others or for the
/// model.
const MAX_OPEN_REQUESTS: usize = 8;
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(60 * 60);

impl UsageMeter {
    pub(super) fn new(settings: &Sampling) -> Self {
        let whole = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
        Self {
            per_minute: whole(settings.per_minute),
            tool_rounds: whole(settings.tool_rounds),
            per_hour: settings.tokens_per_hour,
            queue_timeout: settings.timeout,
            model_queue: FairQueue::new(whole(settings.concurrent)),
            person_queue: FairQueue::new(1),
            servers: Arc::default(),
            token_usage: Arc::default(),
        }
    }

    /// Refuses a conversation with too many tool rounds. The history is the count, so none has to
    /// be kept; it is the server's text, whoever speaks last (SA-07).
    pub(super) fn check_tool_rounds(&self, request: &SamplingRequest) -> Result<(), SamplingRefusal> {
        let rounds = super::tool_rounds(request);
        if rounds > self.tool_rounds {
            let why = format!("{rounds} rounds of tool calls; {} are allowed", self.tool_rounds);
            return Err(SamplingRefusal::Limited(why));
        }
        Ok(())
    }

    /// Counts a request of `server`, or refuses it.
    pub(super) fn admit(&self, server: &Arc<str>) -> Result<OpenRequest, SamplingRefusal> {
        let now = Instant::now();
        let mut servers = self.servers.lock();
        // A server that was idle for a minute is removed.
        servers.retain(|_, asker| {
            while asker.recent.front().is_some_and(|time| now.duration_since(*time) >= MINUTE) {
                asker.recent.pop_front();
            }
            asker.open > 0 || !asker.recent.is_empty()
        });
        let asker = servers.entry(Arc::clone(server)).or_default();
        if asker.recent.len() >= self.per_minute {
            return Err(SamplingRefusal::Limited(format!(
                "more than {} requests in a minute",
                self.per_minute
            )));
        }
        if asker.open >= MAX_OPEN_REQUESTS {
            return Err(SamplingRefusal::Limited(format!("more than {MAX_OPEN_REQUESTS} requests are open")));
        }
        asker.recent.push_back(now);
        asker.open += 1;
        Ok(OpenRequest { server: Arc::clone(server), servers: Arc::clone(&self.servers) })
    }

    /// Waits for the model. Servers take turns.
    pub(super) async fn wait_for_model(&self, server: &Arc<str>) -> Result<FairPermit, SamplingRefusal> {
        let busy = |_| SamplingRefusal::Limited("too many requests are under way".to_owned());
        timeout(self.queue_timeout, self.model_queue.acquire(server)).await.map_err(busy)
    }

    /// Waits for the person. Servers take turns.
    pub(super) async fn wait_for_person(&self, server: &Arc<str>) -> FairPermit {
        self.person_queue.acquire(server).await
    }

    /// Returns `tokens`, or as many as are left, without reserving them.
    pub(super) fn tokens_left(&self, tokens: u64) -> Result<u64, SamplingRefusal> {
        self.tokens_left_in(&mut self.token_usage.lock(), tokens)
    }

    /// Reserves `tokens`, or as many as are left.
    pub(super) fn reserve_tokens(&self, tokens: u64) -> Result<TokenBudget, SamplingRefusal> {
        let mut spent = self.token_usage.lock();
        let tokens = self.tokens_left_in(&mut spent, tokens)?;
        spent.reserved = spent.reserved.saturating_add(tokens);
        drop(spent);
        Ok(TokenBudget { tokens, cost: 0, usage: Arc::clone(&self.token_usage) })
    }

    fn tokens_left_in(&self, spent: &mut TokenUsage, tokens: u64) -> Result<u64, SamplingRefusal> {
        let Some(most) = self.per_hour else { return Ok(tokens) };
        spent.drop_expired(Instant::now());
        let used = spent.used.iter().fold(spent.reserved, |all, (_, used)| all.saturating_add(*used));
        match most.saturating_sub(used) {
            0 => Err(SamplingRefusal::Limited("the tokens of this hour are used up".to_owned())),
            left => Ok(tokens.min(left)),
        }
    }
}

impl TokenBudget {
    /// Marks the request as sent: from now on it may cost all its tokens.
    pub(super) fn mark_sent(&mut self) {
        self.cost = self.tokens;
    }

    /// Sets the actual cost.
    pub(super) fn set_cost(&mut self, tokens: u64) {
        self.cost = tokens;
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        if let Some(asker) = self.servers.lock().get_mut(&self.server) {
            asker.open -= 1;
        }
    }
}

impl Drop for TokenBudget {
    fn drop(&mut self) {
        let mut spent = self.usage.lock();
        spent.reserved = spent.reserved.saturating_sub(self.tokens);
        if self.cost > 0 {
            let now = Instant::now();
            spent.drop_expired(now);
            spent.used.push_back((now, self.cost));
        }
    }
}

impl TokenUsage {
    fn drop_expired(&mut self, now: Instant) {
        while self.used.front().is_some_and(|(time, _)| now.duration_since(*time) >= HOUR) {
            self.used.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use bowline_config::SamplingApi;
    use tokio::time::advance;

    use super::*;

    fn meter(change: impl FnOnce(&mut Sampling)) -> UsageMeter {
        let mut settings = Sampling::new(SamplingApi::OpenAi, "http://h/", "m").unwrap();
        change(&mut settings);
        UsageMeter::new(&settings)
    }

    fn limited<T: std::fmt::Debug>(outcome: Result<T, SamplingRefusal>) -> String {
        match outcome {
            Err(SamplingRefusal::Limited(why)) => why,
            other => panic!("{other:?}"),
        }
    }

    /// SA-02: requests per minute are limited for each server.
    #[tokio::test(start_paused = true)]
    async fn sa_02_requests_per_minute_are_limited() {
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
        assert_eq!(meter.servers.lock().len(), 1, "the quiet one is forgotten");
    }

    #[tokio::test(start_paused = true)]
    async fn tokens_of_an_hour_are_shared_and_come_back() {
        let meter = meter(|settings| settings.tokens_per_hour = Some(100));
        let mut first = meter.reserve_tokens(60).unwrap();
        first.mark_sent();
        // Tokens of requests in flight are reserved, and the next gets the rest.
        let second = meter.reserve_tokens(60).unwrap();
        assert_eq!(second.tokens, 40);
        assert_eq!(limited(meter.reserve_tokens(1)), "the tokens of this hour are used up");
        assert_eq!(limited(meter.tokens_left(1)), "the tokens of this hour are used up");
        first.set_cost(5);
        drop((first, second));
        assert_eq!(meter.tokens_left(200), Ok(95), "the second asked nobody");
        assert_eq!(meter.reserve_tokens(200).unwrap().tokens, 95, "to look takes nothing");
        let mut lost = meter.reserve_tokens(90).unwrap();
        lost.mark_sent();
        drop(lost);
        assert_eq!(meter.reserve_tokens(200).unwrap().tokens, 5, "nobody knows what it cost");
        advance(HOUR).await;
        assert_eq!(meter.reserve_tokens(200).unwrap().tokens, 100);
    }

    #[tokio::test(start_paused = true)]
    async fn requests_wait_for_each_other_and_not_for_ever() {
        let meter = meter(|settings| settings.concurrent = 1);
        let server = Arc::from("one");
        let first = meter.wait_for_model(&server).await.unwrap();
        assert_eq!(limited(meter.wait_for_model(&server).await), "too many requests are under way");
        let (second, ()) = tokio::join!(meter.wait_for_model(&server), async { drop(first) });
        drop(second.unwrap());
    }

    /// SA-02: open requests of one server are limited, however slowly they come.
    #[tokio::test(start_paused = true)]
    async fn sa_02_open_requests_are_limited() {
        let meter = meter(|_| {});
        let (one, other) = (Arc::from("one"), Arc::from("other"));
        let mut open = Vec::new();
        for _ in 0..MAX_OPEN_REQUESTS {
            open.push(meter.admit(&one).unwrap());
            advance(MINUTE).await;
        }
        assert_eq!(limited(meter.admit(&one)), "more than 8 requests are open");
        meter.admit(&other).unwrap();
        open.pop();
        meter.admit(&one).unwrap();
    }
}

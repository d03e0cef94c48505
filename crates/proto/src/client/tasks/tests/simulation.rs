//! Random runs of tasks on a virtual clock, with servers that lose replies, drop tasks, repeat
//! themselves, send notifications and request inputs. The invariants asserted here hold in all of
//! them.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::*;

/// Number of seeds to run.
const SEEDS: u64 = 4_000;

/// `TASK_SEED=n` runs one seed alone.
#[test]
fn invariants_hold_for_every_seed() {
    if let Some(seed) = std::env::var("TASK_SEED").ok().and_then(|seed| seed.parse().ok()) {
        println!("{:?}", Simulation::new(seed).run());
        return;
    }
    let mut ends: HashMap<&'static str, u32> = HashMap::new();
    for seed in 0..SEEDS {
        let ended = std::panic::catch_unwind(|| Simulation::new(seed).run());
        let end = ended.unwrap_or_else(|cause| {
            eprintln!("seed {seed} failed; live it alone: TASK_SEED={seed}");
            std::panic::resume_unwind(cause);
        });
        *ends.entry(outcome_name(&end)).or_default() += 1;
    }
    // Runs that all end alike prove little.
    for end in ["result", "error", "cancelled", "gone", "lost", "timeout"] {
        assert!(ends.get(end).is_some_and(|count| *count > 20), "{end}: {ends:?}");
    }
}

fn outcome_name(end: &TaskOutcome) -> &'static str {
    match end {
        TaskOutcome::Result(_) => "result",
        TaskOutcome::Error(_) => "error",
        TaskOutcome::Cancelled => "cancelled",
        TaskOutcome::NotFound => "gone",
        TaskOutcome::Expired => "lost",
        TaskOutcome::Timeout(_) => "timeout",
        TaskOutcome::Malformed(_) => "nonsense",
        TaskOutcome::TooManyInputs => "insatiable",
    }
}

struct Simulation {
    rng: fastrand::Rng,
    dialect: TaskDialect,
    now: Instant,
    started_at: Instant,
    follow: TaskFollower,
    limits: Limits,
    /// The poll interval of the server.
    interval: Option<Duration>,
    /// The poll interval that the server announced last.
    announced_interval: Option<Duration>,
    last_poll: Option<Instant>,
    /// The time that a person took, which does not count for the call.
    time_asking: Duration,
    status: TaskStatus,
    /// Number of changes of the task.
    changes: u32,
    open_keys: Vec<u32>,
    next_key: u32,
    requested_inputs: HashSet<Box<str>>,
    fetching: bool,
    /// Whether the last request for the result was answered with an error.
    was_refused: bool,
}

impl Simulation {
    fn new(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let dialect = if random.bool() { TaskDialect::Experiment } else { TaskDialect::Extension };
        let millis = |millis: u64| Duration::from_millis(millis);
        let limits = Limits { idle: millis(random.u64(1..60_000)), total: millis(random.u64(1..300_000)) };
        let (now, interval) =
            (Instant::now(), random.bool().then_some(()).map(|()| millis(random.u64(0..20_000))));
        let start = TaskStart {
            dialect,
            age: Duration::ZERO,
            ttl: random.bool().then(|| millis(random.u64(0..100_000))),
            poll_interval: interval,
            state: None,
            fetches_early: random.bool(),
            limits,
        };
        Self {
            dialect,
            now,
            started_at: now,
            follow: TaskFollower::new(now, start),
            limits,
            interval,
            announced_interval: interval,
            last_poll: None,
            time_asking: Duration::ZERO,
            status: TaskStatus::Working,
            changes: 0,
            open_keys: Vec::new(),
            next_key: 0,
            requested_inputs: HashSet::new(),
            fetching: false,
            was_refused: false,
            rng: random,
        }
    }

    fn run(mut self) -> TaskOutcome {
        // Far more steps than a run needs, to detect a livelock.
        for _ in 0..200_000 {
            self.change_task();
            if let Some(end) = self.perform_actions() {
                return end;
            }
            let due = self.follow.poll_timeout(self.now).expect("what is not over has a deadline");
            // The result may come before the timeout.
            if self.fetching && self.rng.u8(..10) == 0 {
                self.give_outcome();
            } else {
                self.now = self.now.max(due);
                self.follow.handle_timeout(self.now);
            }
            if let Some(end) = self.perform_actions() {
                return end;
            }
        }
        panic!("it does not end");
    }

    /// Performs all actions at once, as a driver does.
    fn perform_actions(&mut self) -> Option<TaskOutcome> {
        while let Some(action) = self.follow.poll_action() {
            if let Action::End(end) = action {
                assert_eq!(self.follow.poll_action(), None, "an end is the last thing");
                assert_eq!(self.follow.poll_timeout(self.now), None);
                let lived = (self.now - self.started_at).saturating_sub(self.time_asking);
                assert!(lived <= self.limits.total, "it ended after {lived:?}");
                return Some(end);
            }
            self.act(action);
        }
        None
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::PollState => {
                // After an error in place of the result, the state is asked for at once.
                if let Some(before) = self.last_poll.filter(|_| !std::mem::take(&mut self.was_refused)) {
                    let floor = self.announced_interval.unwrap_or_default().max(MIN_POLL_INTERVAL);
                    assert!(self.now - before >= floor, "polled too soon: {:?}", self.now - before);
                }
                self.last_poll = Some(self.now);
                self.advance_clock(500);
                match self.rng.u8(..20) {
                    0 | 1 => self.follow.handle_poll_lost(self.now),
                    2 => self.follow.handle_poll_error(self.now, error(-32603)),
                    3 if self.rng.u8(..8) == 0 => {
                        self.follow.handle_poll_error(self.now, error(code::INVALID_PARAMS));
                    }
                    _ => {
                        let task = self.current_state();
                        self.follow.handle_state(self.now, &task, StateSource::Poll);
                    }
                }
            }
            Action::FetchResult => {
                assert_eq!(self.dialect, TaskDialect::Experiment, "TN-10");
                assert!(!std::mem::replace(&mut self.fetching, true), "fetched twice at once");
            }
            Action::RequestInputs(wanted) => {
                assert_eq!(self.dialect, TaskDialect::Extension);
                assert!(!wanted.is_empty());
                for (key, _) in &wanted {
                    assert!(self.requested_inputs.insert(key.clone()), "{key} was asked twice");
                }
                let begun = self.now;
                for _ in 0..self.rng.u8(..100) {
                    self.advance_clock(2_000);
                }
                self.time_asking += self.now - begun;
                let answers = wanted.into_iter().map(|(key, _)| (key, json("{}"))).collect();
                self.follow.handle_inputs(self.now, answers);
            }
            Action::Update(answers) => {
                assert_eq!(self.dialect, TaskDialect::Extension, "TN-10");
                assert!(
                    answers.iter().all(|(key, _)| self.requested_inputs.contains(key)),
                    "nobody gave that answer"
                );
                self.advance_clock(500);
                match self.rng.u8(..10) {
                    0 => self.follow.handle_update_lost(self.now),
                    1 => {
                        let code = if self.rng.bool() { code::INVALID_PARAMS } else { code::INTERNAL_ERROR };
                        self.follow.handle_update_error(self.now, error(code));
                    }
                    _ => {
                        // The server acts on them now or never.
                        if self.rng.bool() {
                            self.open_keys.clear();
                            self.set_status(TaskStatus::Working);
                        }
                        self.follow.handle_updated(self.now);
                    }
                }
            }
            Action::End(_) => unreachable!("the caller looks at it"),
        }
    }

    fn give_outcome(&mut self) {
        self.fetching = false;
        match self.rng.u8(..6) {
            0 => self.follow.handle_fetch_lost(self.now),
            number @ (1 | 2) => {
                self.was_refused = true;
                let code = if number == 1 { -32000 } else { code::INVALID_PARAMS };
                self.follow.handle_outcome(self.now, Err(error(code)));
            }
            _ if self.status.is_terminal() => self.follow.handle_outcome(self.now, Ok(json("{}"))),
            _ => self.follow.handle_fetch_lost(self.now),
        }
    }

    /// Lets the server change the task at random.
    fn change_task(&mut self) {
        if self.status.is_terminal() {
            return;
        }
        match self.rng.u8(..40) {
            0 => self.set_status(TaskStatus::Completed),
            1 => self.set_status(TaskStatus::Failed),
            2 => self.set_status(TaskStatus::Cancelled),
            3..8 => self.set_status(self.status),
            8..13 => {
                for _ in 0..self.rng.u8(1..3) {
                    self.open_keys.push(self.next_key);
                    self.next_key += 1;
                }
                self.set_status(TaskStatus::InputRequired);
            }
            13 => self.interval = Some(Duration::from_millis(self.rng.u64(..10_000))),
            _ => return,
        }
        // Some servers notify about the change, and some do so late.
        if self.rng.u8(..4) == 0 {
            let task = self.current_state();
            self.follow.handle_state(self.now, &task, StateSource::Notification);
        }
    }

    fn set_status(&mut self, status: TaskStatus) {
        self.status = status;
        self.changes += 1;
    }

    fn current_state(&mut self) -> Task {
        self.announced_interval = self.interval;
        let mut more = format!(r#""lastUpdatedAt":"{}""#, self.changes);
        if let Some(interval) = self.interval {
            let name = if self.dialect == TaskDialect::Extension { "pollIntervalMs" } else { "pollInterval" };
            write!(more, r#","{name}":{}"#, interval.as_millis()).unwrap();
        }
        match self.status {
            TaskStatus::InputRequired => {
                let keys = self.open_keys.iter().map(|key| format!(r#""{key}":{{"method":"roots/list"}}"#));
                write!(more, r#","inputRequests":{{{}}}"#, keys.collect::<Vec<_>>().join(",")).unwrap();
            }
            TaskStatus::Completed => more += r#","result":{}"#,
            TaskStatus::Failed => more += r#","error":{"code":-32000,"message":""}"#,
            TaskStatus::Working | TaskStatus::Cancelled => {}
        }
        state(self.dialect, self.status.as_str(), &more)
    }

    /// Advances the clock, but not past a deadline.
    fn advance_clock(&mut self, most: u64) {
        let later = self.now + Duration::from_millis(self.rng.u64(..most));
        self.now = self.follow.poll_timeout(self.now).map_or(later, |due| later.min(due));
        self.follow.handle_timeout(self.now);
    }
}

fn error(code: i64) -> RpcError {
    RpcError { code, message: String::new(), data: None }
}

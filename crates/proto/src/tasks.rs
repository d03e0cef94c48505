//! Following one task to its end: when it is asked about, with which method, and what its answers mean.
//!
//! Both generations of tasks go through here (groups TA and TN). The driver does what [`Follow::poll_action`]
//! says, tells what came of it, and looks again at [`Follow::poll_timeout`]. At most one poll, question or
//! update is under way at a time; beside it, in the experiment of 2025-11-25, the request for the outcome,
//! which the server may hold back until there is one.
//!
//! A server that lets itself be asked as often as it said, says each thing once, and ends, costs no more than
//! that. One that does not is bounded: by the clocks of the call that waits, by the life the task was
//! given, and by how much may be asked of the host.

mod handle;
#[cfg(test)]
mod tests;

use std::collections::{HashSet, VecDeque};
use std::time::{Duration, Instant};

pub use handle::TaskHandle;

use crate::calls::{Calls, Due, Limits};
use crate::fault::Limit;
use crate::wire::view::{Dialect, InputRequests, Task, TaskStatus};
use crate::wire::{Json, RpcError, code};

/// One task, from the moment its handle is known until its outcome is.
#[derive(Debug)]
pub struct Follow {
    dialect: Dialect,
    phase: Phase,
    fetch: Fetch,
    /// The clocks of the call that waits. An answer about the task starts the idle one anew, and it does not run
    /// while the server wants to be left alone.
    clock: Calls<()>,
    /// Whether they stand still.
    paused: bool,
    call: u64,
    pace: Pace,
    /// When the server was last asked for the state, or has answered that.
    looked: Instant,
    /// How old the task was, and when that was.
    age: (Duration, Instant),
    ttl: Option<Duration>,
    seen: Option<Seen>,
    /// Keys that were put to the host (TN-05).
    asked: HashSet<Box<str>>,
    /// Answers of the host that no server has acknowledged.
    unsent: Vec<(Box<str>, Json)>,
    /// Errors in a row where a state or an acknowledgement should have come.
    strikes: u32,
    /// Why the server did not take the last answers.
    refused: Option<RpcError>,
    actions: VecDeque<Action>,
}

/// What it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The time of the next poll.
    NextPoll(Instant),
    /// The state, from a poll that is under way.
    State,
    /// The host's answers.
    Answers,
    /// The acknowledgement of an update.
    Acknowledgement,
    /// The outcome of a task that is over, from a request that is under way.
    Outcome,
    /// Nothing more.
    Over,
}

/// Experiment: the request for the outcome. It is made early of a task that asks, so that its questions reach
/// us (TA-04).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fetch {
    Not,
    UnderWay,
}

/// How a task was last seen. What differs is progress.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    status: TaskStatus,
    updated: Option<String>,
    message: Option<String>,
}

/// How often a task is looked at.
#[derive(Debug)]
struct Pace {
    given: Option<Duration>,
    /// Used where the server says nothing: longer each time that nothing has changed.
    guess: Duration,
}

/// What the driver is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Ask for the state: `tasks/get`.
    Get,
    /// Ask for the outcome: `tasks/result`. The server answers when there is one.
    Fetch,
    /// Have the host answer these.
    Ask(InputRequests),
    /// Give the server these answers: `tasks/update`.
    Update(Vec<(Box<str>, Json)>),
    /// It is over. Whatever is under way is no longer wanted.
    End(End),
}

/// How following a task ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// With its result.
    Result(Json),
    /// With an error of the server's.
    Error(RpcError),
    /// It was cancelled.
    Cancelled,
    /// The server does not know it, or no longer.
    Gone,
    /// It outlived its time without a change.
    Lost,
    /// The call that waits has no more time. The task may go on.
    Timeout(Limit),
    /// What the server says of it makes no sense.
    Nonsense(&'static str),
    /// It asks for more input than any honest task (MR-06).
    Insatiable,
}

/// Where a state of the task comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The answer to [`Action::Get`].
    Polled,
    /// A notification.
    Told,
}

/// What is known when the following begins.
#[derive(Clone, Copy, Debug)]
pub struct Start<'a> {
    /// In which form the task is asked about.
    pub dialect: Dialect,
    /// How long ago it was created.
    pub age: Duration,
    /// How long after that it may be forgotten.
    pub ttl: Option<Duration>,
    /// How long to wait between polls, if said.
    pub poll_interval: Option<Duration>,
    /// The state that came in this moment, if one did. Without it the first poll is made at once (TN-03).
    pub state: Option<&'a Task>,
    /// The clocks of the call that waits.
    pub limits: Limits,
}

impl Follow {
    /// Begins to follow a task.
    pub fn new(now: Instant, start: Start<'_>) -> Self {
        let mut clock = Calls::default();
        let call = clock.begin(now, start.limits, ());
        let mut follow = Self {
            dialect: start.dialect,
            phase: Phase::NextPoll(now),
            fetch: Fetch::Not,
            clock,
            paused: false,
            call,
            pace: Pace { given: start.poll_interval, guess: GUESS },
            looked: now,
            age: (start.age, now),
            ttl: start.ttl,
            seen: None,
            asked: HashSet::new(),
            unsent: Vec::new(),
            strikes: 0,
            refused: None,
            actions: VecDeque::new(),
        };
        if let Some(task) = start.state {
            follow.phase = Phase::State;
            follow.handle_state(now, task, Source::Polled);
        }
        follow
    }

    /// A state of the task has come.
    pub fn handle_state(&mut self, now: Instant, task: &Task, source: Source) {
        if matches!(self.phase, Phase::Outcome | Phase::Over) {
            return;
        }
        // A poll that is not under way any more was answered by something quicker.
        if source == Source::Polled && self.phase != Phase::State {
            return;
        }
        self.pace.given = task.poll_interval.or(self.pace.given);
        self.ttl = task.ttl.or(self.ttl);
        let seen =
            Seen { status: task.status, updated: task.last_updated_at(), message: task.status_message() };
        let changed = self.seen.as_ref() != Some(&seen);
        let first = self.seen.is_none();
        self.seen = Some(seen);
        self.heard(now);
        if changed {
            self.pace.guess = GUESS;
        }
        if source == Source::Polled {
            if self.unsent.is_empty() {
                self.strikes = 0;
            }
            self.looked = now;
            self.phase = Phase::NextPoll(now);
            if !changed && !first {
                self.pace.guess = (self.pace.guess * 3 / 2).min(LONGEST_GUESS);
            }
        }
        match task.status {
            TaskStatus::Completed | TaskStatus::Failed => self.finish(task),
            TaskStatus::Cancelled => self.end(End::Cancelled),
            // What was said unasked waits for its turn: a poll, a question or an update is under way.
            _ if !matches!(self.phase, Phase::NextPoll(_)) => {}
            _ if source == Source::Polled && !changed && self.is_expired(now) => self.end(End::Lost),
            TaskStatus::InputRequired => self.provide(now, task),
            TaskStatus::Working => self.wait(now),
        }
    }

    /// The server answered a poll with an error.
    pub fn handle_poll_error(&mut self, now: Instant, error: RpcError) {
        if self.phase != Phase::State {
            return;
        }
        self.strikes += 1;
        match error.code {
            // TA-05, TN-09
            code::INVALID_PARAMS => self.end(End::Gone),
            code::METHOD_NOT_FOUND => self.end(End::Error(error)),
            _ if self.strikes >= STRIKES => self.end(End::Error(error)),
            _ => self.recover(now),
        }
    }

    /// A poll was not answered. Whether it is tried again is a matter of time alone.
    pub fn handle_poll_lost(&mut self, now: Instant) {
        if self.phase == Phase::State {
            self.recover(now);
        }
    }

    /// The host has answered all it was asked.
    pub fn handle_answers(&mut self, now: Instant, answers: Vec<(Box<str>, Json)>) {
        if self.phase == Phase::Answers {
            self.resume(now);
            self.unsent.extend(answers);
            self.update();
        }
    }

    /// The server has acknowledged an update. It may act on it later (TN-06).
    pub fn handle_updated(&mut self, now: Instant) {
        if self.phase == Phase::Acknowledgement {
            self.unsent.clear();
            self.strikes = 0;
            self.refused = None;
            self.wait(now);
        }
    }

    /// The server answered an update with an error. A person's answers are not given up for one that may pass: they
    /// are sent again if the next poll still asks for them.
    pub fn handle_update_error(&mut self, now: Instant, error: RpcError) {
        if self.phase == Phase::Acknowledgement {
            self.strikes += 1;
            if error.code == code::INVALID_PARAMS || self.strikes >= STRIKES {
                self.unsent.clear();
            }
            self.refused = Some(error);
            self.recover(now);
        }
    }

    /// An update was not answered. It is sent again if the next poll still asks for it.
    pub fn handle_update_lost(&mut self, now: Instant) {
        if self.phase == Phase::Acknowledgement {
            self.recover(now);
        }
    }

    /// Experiment: the outcome has come, exactly as the call itself would have been answered.
    pub fn handle_outcome(&mut self, now: Instant, outcome: Result<Json, RpcError>) {
        let failed = self.seen.as_ref().is_some_and(|seen| seen.status == TaskStatus::Failed);
        match (outcome, self.phase) {
            (_, Phase::Over) => {}
            (Ok(result), _) => self.end(End::Result(result)),
            // Of a task that is done it can only mean that it is no longer kept.
            (Err(error), Phase::Outcome) if error.code == code::INVALID_PARAMS && !failed => {
                self.end(End::Gone);
            }
            (Err(error), Phase::Outcome) => self.end(End::Error(error)),
            // It may be the outcome, and it may be about the request for it. The next poll will tell.
            (Err(_), _) => self.handle_fetch_lost(now),
        }
    }

    /// Experiment: the request for the outcome was not answered.
    pub fn handle_fetch_lost(&mut self, now: Instant) {
        self.fetch = Fetch::Not;
        if self.phase == Phase::Outcome {
            self.recover(now);
        }
    }

    /// Something else shows that the task is being worked on: progress (PR-03).
    pub fn heard(&mut self, now: Instant) {
        self.clock.heard(now, self.call);
    }

    /// A person is being asked: that time is not the server's.
    pub fn pause(&mut self, now: Instant) {
        if !std::mem::replace(&mut self.paused, true) {
            self.clock.pause(now, self.call);
        }
    }

    /// The person has answered.
    pub fn resume(&mut self, now: Instant) {
        if std::mem::take(&mut self.paused) {
            self.clock.resume(now, self.call);
        }
    }

    /// Looks at the clock.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.phase == Phase::Over {
            return;
        }
        if let Due::Expired((), limit) = self.clock.due(now, self.call) {
            return self.end(End::Timeout(limit));
        }
        if let Phase::NextPoll(at) = self.phase
            && now >= at
        {
            self.phase = Phase::State;
            self.looked = now;
            self.actions.push_back(Action::Get);
        }
    }

    /// When to call [`Follow::handle_timeout`]. `None`: it is over.
    pub fn poll_timeout(&self, now: Instant) -> Option<Instant> {
        let end = self.clock.poll_timeout(now)?;
        match self.phase {
            Phase::Over => None,
            Phase::NextPoll(at) => Some(at.min(end)),
            _ => Some(end),
        }
    }

    /// What to do now.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// A task that is over: its outcome.
    fn finish(&mut self, task: &Task) {
        match (self.dialect, task.status) {
            (Dialect::Experiment, _) => {
                self.phase = Phase::Outcome;
                if std::mem::replace(&mut self.fetch, Fetch::UnderWay) == Fetch::Not {
                    self.actions.push_back(Action::Fetch);
                }
            }
            // TN-04: a tool that failed is completed, and its result says so.
            (Dialect::Extension, TaskStatus::Completed) => match task.result().filter(Json::is_object) {
                Some(result) => self.end(End::Result(result)),
                None => self.end(End::Nonsense("a completed task has no result")),
            },
            (Dialect::Extension, _) => match task.rpc_error() {
                Some(error) => self.end(End::Error(error)),
                None => self.end(End::Nonsense("a failed task has no error")),
            },
        }
    }

    /// A task that wants input.
    fn provide(&mut self, now: Instant, task: &Task) {
        if self.dialect == Dialect::Experiment {
            if std::mem::replace(&mut self.fetch, Fetch::UnderWay) == Fetch::Not {
                self.actions.push_back(Action::Fetch);
            }
            return self.wait(now);
        }
        let Ok(mut wanted) = task.input_requests() else {
            return self.end(End::Nonsense("what the task asks cannot be read"));
        };
        // Only what is still wanted is worth sending again.
        self.unsent.retain(|(key, _)| wanted.iter().any(|(wanted, _)| wanted == key));
        wanted.retain(|(key, _)| !self.asked.contains(key));
        if self.asked.len() + wanted.len() > MOST_INPUTS {
            return self.end(End::Insatiable);
        }
        if !wanted.is_empty() {
            self.asked.extend(wanted.iter().map(|(key, _)| key.clone()));
            self.phase = Phase::Answers;
            self.pause(now);
            self.actions.push_back(Action::Ask(wanted));
        } else if !self.unsent.is_empty() {
            self.update();
        } else if let Some(error) = self.refused.take() {
            // It still asks for what it did not take.
            self.end(End::Error(error));
        } else {
            self.wait(now);
        }
    }

    fn update(&mut self) {
        self.phase = Phase::Acknowledgement;
        self.actions.push_back(Action::Update(self.unsent.clone()));
    }

    /// The next poll, not before its time (TA-03, TN-04).
    fn wait(&mut self, now: Instant) {
        let at = (self.looked + self.pace.interval()).max(now);
        // Until then the server owes nothing.
        self.heard(at);
        self.phase = Phase::NextPoll(at);
    }

    /// The next poll after one that failed.
    fn recover(&mut self, now: Instant) {
        self.phase = Phase::NextPoll(now + self.pace.interval().max(AFTER_FAILURE));
    }

    fn is_expired(&self, now: Instant) -> bool {
        let (age, at) = self.age;
        self.ttl.is_some_and(|ttl| age.saturating_add(now.saturating_duration_since(at)) >= ttl)
    }

    fn end(&mut self, end: End) {
        self.phase = Phase::Over;
        // What was not begun is not begun any more.
        self.actions.clear();
        self.actions.push_back(Action::End(end));
    }
}

impl Pace {
    fn interval(&self) -> Duration {
        self.given.unwrap_or(self.guess).clamp(FLOOR, CAP)
    }
}

/// A server that wants to be asked more often is asked this often.
const FLOOR: Duration = Duration::from_millis(50);
/// A server that wants to be left alone for longer would not be followed at all.
const CAP: Duration = Duration::from_secs(60 * 60);
/// Where the server does not say how often: at first, and in the end.
const GUESS: Duration = Duration::from_millis(500);
const LONGEST_GUESS: Duration = Duration::from_secs(5);
/// After a poll that failed, whatever the server said.
const AFTER_FAILURE: Duration = Duration::from_secs(1);
/// Errors in a row that are no answer to the question.
const STRIKES: u32 = 3;
/// More questions than any person answers for one task.
const MOST_INPUTS: usize = 256;

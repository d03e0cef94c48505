//! [`TaskFollower`]: follows one task to its end. It decides when to poll, with which method, and
//! what the replies mean.
//!
//! It handles both dialects of tasks. The driver performs what [`TaskFollower::poll_action`] says,
//! reports the result, and calls again at [`TaskFollower::poll_timeout`]. At most one poll, input
//! request or update is pending at a time. Beside it, in the experiment of 2025-11-25, the request
//! for the result may be pending, which the server may hold back until there is one.
//!
//! A misbehaving server is bounded by the limits of the waiting call, by the lifetime of the task,
//! and by the number of inputs that may be requested of the host.
// Groups TA and TN

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

/// The state of following one task, from its handle to its outcome.
#[derive(Debug)]
pub struct Follow {
    dialect: Dialect,
    phase: Phase,
    fetch: Fetch,
    /// The limits of the waiting call. A state of the task restarts the idle limit, which does not
    /// run while the server wants to be left alone.
    clock: Calls<()>,
    /// Whether the limits are paused.
    paused: bool,
    call: u64,
    pace: Pace,
    /// Time of the last poll, or of its reply.
    looked: Instant,
    /// The age of the task, and when it had that age.
    age: (Duration, Instant),
    ttl: Option<Duration>,
    seen: Option<Seen>,
    /// Keys of inputs that were requested of the host. Each is requested once (TN-05).
    asked: HashSet<Box<str>>,
    /// Inputs of the host that the server has not acknowledged.
    unsent: Vec<(Box<str>, Json)>,
    /// Number of errors in a row in place of a state or an acknowledgment.
    strikes: u32,
    /// The error with which the server refused the last inputs.
    refused: Option<RpcError>,
    actions: VecDeque<Action>,
}

/// The phases, named for what they wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Waits for the time of the next poll.
    NextPoll(Instant),
    /// Waits for the state, from a pending poll.
    State,
    /// Waits for the host's inputs.
    Answers,
    /// Waits for the acknowledgment of an update.
    Acknowledgement,
    /// Waits for the result of an ended task, from a pending request.
    Outcome,
    /// The outcome was reported.
    Over,
}

/// The request for the result, in the experiment. It is sent early for a task that requires input,
/// so that its elicitations reach us (TA-04).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fetch {
    Not,
    UnderWay,
}

/// The last known state of a task. A difference is progress.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    status: TaskStatus,
    updated: Option<String>,
    message: Option<String>,
}

/// How often a task is polled.
#[derive(Debug)]
struct Pace {
    /// The interval that the server asked for.
    given: Option<Duration>,
    /// The interval used if the server names none. It grows with each poll that shows no change.
    guess: Duration,
}

/// What the driver must do now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Request the state with `tasks/get`.
    Get,
    /// Request the result with `tasks/result`. The server answers when there is one.
    Fetch,
    /// Request these inputs of the host.
    Ask(InputRequests),
    /// Send these inputs to the server with `tasks/update`.
    Update(Vec<(Box<str>, Json)>),
    /// The task ended. Abandon whatever is pending.
    End(End),
}

/// How following a task ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The task completed with this result.
    Result(Json),
    /// The task failed, or the server refused a request about it, with this error.
    Error(RpcError),
    /// The task was cancelled.
    Cancelled,
    /// The server does not know the task, or no longer.
    Gone,
    /// The task outlived its `ttl` without a change.
    Lost,
    /// The waiting call ran out of time. The task may go on.
    Timeout(Limit),
    /// A state of the task is malformed, for this reason.
    Nonsense(&'static str),
    // MR-06
    /// The task requested too many inputs.
    Insatiable,
}

/// The source of a state of the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The reply to [`Action::PollState`].
    Polled,
    /// A notification.
    Told,
}

/// What is known when following a task begins.
#[derive(Clone, Copy, Debug)]
pub struct Start<'a> {
    /// The dialect in which requests about the task are made.
    pub dialect: Dialect,
    /// Time since the task was created.
    pub age: Duration,
    /// Time after creation from which the server may drop the task.
    pub ttl: Option<Duration>,
    /// The interval between polls that the server asked for.
    pub poll_interval: Option<Duration>,
    // TN-03
    /// The state that was just received, if any. Without it the first poll is made at once.
    pub state: Option<&'a Task>,
    /// The limits of the waiting call.
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

    /// Takes a state of the task.
    pub fn handle_state(&mut self, now: Instant, task: &Task, source: Source) {
        if matches!(self.phase, Phase::Outcome | Phase::Over) {
            return;
        }
        // The poll is no longer pending: a notification was quicker.
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
            // A notification changes nothing while a poll, an input request or an update is
            // pending.
            _ if !matches!(self.phase, Phase::NextPoll(_)) => {}
            _ if source == Source::Polled && !changed && self.is_expired(now) => self.end(End::Lost),
            TaskStatus::InputRequired => self.provide(now, task),
            TaskStatus::Working => self.wait(now),
        }
    }

    /// Takes the error with which the server answered a poll.
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

    /// Takes note that a poll was not answered. Polls are repeated until the limits run out.
    pub fn handle_poll_lost(&mut self, now: Instant) {
        if self.phase == Phase::State {
            self.recover(now);
        }
    }

    /// Takes the inputs of the host, for all that were requested.
    pub fn handle_answers(&mut self, now: Instant, answers: Vec<(Box<str>, Json)>) {
        if self.phase == Phase::Answers {
            self.resume(now);
            self.unsent.extend(answers);
            self.update();
        }
    }

    /// Takes the acknowledgment of an update. The server may act on it later.
    // TN-06
    pub fn handle_updated(&mut self, now: Instant) {
        if self.phase == Phase::Acknowledgement {
            self.unsent.clear();
            self.strikes = 0;
            self.refused = None;
            self.wait(now);
        }
    }

    /// Takes the error with which the server answered an update. A person's inputs are not given up
    /// for an error that may pass: they are sent again if the next poll still requests them.
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

    /// Takes note that an update was not answered. It is sent again if the next poll still requests
    /// it.
    pub fn handle_update_lost(&mut self, now: Instant) {
        if self.phase == Phase::Acknowledgement {
            self.recover(now);
        }
    }

    /// Takes the result in the experiment, exactly as the call itself would have been answered.
    pub fn handle_outcome(&mut self, now: Instant, outcome: Result<Json, RpcError>) {
        let failed = self.seen.as_ref().is_some_and(|seen| seen.status == TaskStatus::Failed);
        match (outcome, self.phase) {
            (_, Phase::Over) => {}
            (Ok(result), _) => self.end(End::Result(result)),
            // For a completed task this can only mean that the server dropped it.
            (Err(error), Phase::Outcome) if error.code == code::INVALID_PARAMS && !failed => {
                self.end(End::Gone);
            }
            (Err(error), Phase::Outcome) => self.end(End::Error(error)),
            // The error may be the outcome, or concern the request for it. The next poll shows
            // which.
            (Err(_), _) => self.handle_fetch_lost(now),
        }
    }

    /// Takes note that the request for the result was not answered, in the experiment.
    pub fn handle_fetch_lost(&mut self, now: Instant) {
        self.fetch = Fetch::Not;
        if self.phase == Phase::Outcome {
            self.recover(now);
        }
    }

    /// Records another sign of life of the task, such as progress.
    // PR-03
    pub fn heard(&mut self, now: Instant) {
        self.clock.heard(now, self.call);
    }

    /// Pauses the limits of the call while a person is asked.
    pub fn pause(&mut self, now: Instant) {
        if !std::mem::replace(&mut self.paused, true) {
            self.clock.pause(now, self.call);
        }
    }

    /// Ends the pause when the person has answered.
    pub fn resume(&mut self, now: Instant) {
        if std::mem::take(&mut self.paused) {
            self.clock.resume(now, self.call);
        }
    }

    /// Checks the limits, and polls if it is time.
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

    /// When to call [`TaskFollower::handle_timeout`]. `None` if the task has ended.
    pub fn poll_timeout(&self, now: Instant) -> Option<Instant> {
        let end = self.clock.poll_timeout(now)?;
        match self.phase {
            Phase::Over => None,
            Phase::NextPoll(at) => Some(at.min(end)),
            _ => Some(end),
        }
    }

    /// The next action for the driver.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Handles a task that ended: reports its outcome, or requests it.
    fn finish(&mut self, task: &Task) {
        match (self.dialect, task.status) {
            (Dialect::Experiment, _) => {
                self.phase = Phase::Outcome;
                if std::mem::replace(&mut self.fetch, Fetch::UnderWay) == Fetch::Not {
                    self.actions.push_back(Action::Fetch);
                }
            }
            // TN-04: a task whose tool failed is completed, and its result says so.
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

    /// Handles a task that requires input.
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
        // Only inputs that are still requested are sent again.
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
            // It still requests an input that it refused.
            self.end(End::Error(error));
        } else {
            self.wait(now);
        }
    }

    fn update(&mut self) {
        self.phase = Phase::Acknowledgement;
        self.actions.push_back(Action::Update(self.unsent.clone()));
    }

    /// Schedules the next poll at the server's interval (TA-03, TN-04).
    fn wait(&mut self, now: Instant) {
        let at = (self.looked + self.pace.interval()).max(now);
        // Until then the server owes no sign of life.
        self.heard(at);
        self.phase = Phase::NextPoll(at);
    }

    /// Schedules the next poll after a failure.
    fn recover(&mut self, now: Instant) {
        self.phase = Phase::NextPoll(now + self.pace.interval().max(AFTER_FAILURE));
    }

    fn is_expired(&self, now: Instant) -> bool {
        let (age, at) = self.age;
        self.ttl.is_some_and(|ttl| age.saturating_add(now.saturating_duration_since(at)) >= ttl)
    }

    fn end(&mut self, end: End) {
        self.phase = Phase::Over;
        // Actions that were not performed yet are dropped.
        self.actions.clear();
        self.actions.push_back(Action::End(end));
    }
}

impl Pace {
    fn interval(&self) -> Duration {
        self.given.unwrap_or(self.guess).clamp(FLOOR, CAP)
    }
}

/// Minimum interval between polls, even if the server asks for a shorter one.
const FLOOR: Duration = Duration::from_millis(50);
/// Maximum interval between polls, even if the server asks for a longer one.
const CAP: Duration = Duration::from_secs(60 * 60);
/// First interval between polls if the server names none.
const GUESS: Duration = Duration::from_millis(500);
/// Maximum interval between polls if the server names none.
const LONGEST_GUESS: Duration = Duration::from_secs(5);
/// Minimum interval after a poll that failed.
const AFTER_FAILURE: Duration = Duration::from_secs(1);
/// Number of errors in a row after which the task is given up.
const STRIKES: u32 = 3;
/// Maximum number of inputs that one task may request.
const MOST_INPUTS: usize = 256;

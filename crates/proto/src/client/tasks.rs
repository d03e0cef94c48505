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

use crate::client::calls::{Calls, DeadlineCheck, Limits};
use crate::fault::Limit;
use crate::wire::view::{InputRequests, Task, TaskDialect, TaskStatus};
use crate::wire::{Json, RpcError, code};

/// The state of following one task, from its handle to its outcome.
#[derive(Debug)]
pub struct TaskFollower {
    dialect: TaskDialect,
    phase: Phase,
    fetch: ResultFetch,
    /// Whether the result is requested before the task is known to have ended.
    fetches_early: bool,
    /// The limits of the waiting call. A state of the task restarts the idle limit, which does not
    /// run while the server wants to be left alone.
    clock: Calls<()>,
    /// Whether the limits are paused.
    paused: bool,
    call_id: u64,
    poll_pace: PollPace,
    /// Time of the last poll, or of its reply.
    last_poll: Instant,
    /// The age of the task, and when it had that age.
    age: (Duration, Instant),
    ttl: Option<Duration>,
    last_snapshot: Option<TaskSnapshot>,
    /// Keys of inputs that were requested of the host. Each is requested once (TN-05).
    requested_inputs: HashSet<Box<str>>,
    /// Inputs of the host that the server has not acknowledged.
    unacknowledged_inputs: Vec<(Box<str>, Json)>,
    /// Number of errors in a row in place of a state or an acknowledgment.
    consecutive_errors: u32,
    /// The error with which the server refused the last inputs.
    update_error: Option<RpcError>,
    actions: VecDeque<Action>,
}

/// The phases, named for what they wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Waits for the time of the next poll.
    NextPoll(Instant),
    /// Waits for the state, from a pending poll.
    ExpectState,
    /// Waits for the host's inputs.
    ExpectInputs,
    /// Waits for the acknowledgment of an update.
    ExpectAcknowledgment,
    /// Waits for the result of an ended task, from a pending request.
    ExpectOutcome,
    /// The outcome was reported.
    Ended,
}

/// The request for the result, in the experiment. It is sent early for a task that requires input,
/// so that its elicitations reach us (TA-04), and where that is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ResultFetch {
    Idle,
    InFlight,
}

/// The last known state of a task. A difference is progress.
#[derive(Debug, PartialEq, Eq)]
struct TaskSnapshot {
    status: TaskStatus,
    updated: Option<String>,
    message: Option<String>,
}

/// How often a task is polled.
#[derive(Debug)]
struct PollPace {
    /// The interval that the server asked for.
    requested: Option<Duration>,
    /// The interval used if the server names none. It grows with each poll that shows no change.
    estimate: Duration,
}

/// What the driver must do now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Request the state with `tasks/get`.
    PollState,
    /// Request the result with `tasks/result`. The server answers when there is one.
    FetchResult,
    /// Request these inputs of the host.
    RequestInputs(InputRequests),
    /// Send these inputs to the server with `tasks/update`.
    Update(Vec<(Box<str>, Json)>),
    /// The task ended. Abandon whatever is pending.
    End(TaskOutcome),
}

/// How following a task ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskOutcome {
    /// The task completed with this result.
    Result(Json),
    /// The task failed, or the server refused a request about it, with this error.
    Error(RpcError),
    /// The task was cancelled.
    Cancelled,
    /// The server does not know the task, or no longer.
    NotFound,
    /// The task outlived its `ttl` without a change.
    Expired,
    /// The waiting call ran out of time. The task may go on.
    Timeout(Limit),
    /// A state of the task is malformed, for this reason.
    Malformed(&'static str),
    // MR-06
    /// The task requested too many inputs.
    TooManyInputs,
}

/// The source of a state of the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateSource {
    /// The reply to [`Action::PollState`].
    Poll,
    /// A notification.
    Notification,
}

/// What is known when following a task begins.
#[derive(Clone, Copy, Debug)]
pub struct TaskStart<'a> {
    /// The dialect in which requests about the task are made.
    pub dialect: TaskDialect,
    /// Time since the task was created.
    pub age: Duration,
    /// Time after creation from which the server may drop the task.
    pub ttl: Option<Duration>,
    /// The interval between polls that the server asked for.
    pub poll_interval: Option<Duration>,
    // TN-03
    /// The state that was just received, if any. Without it the first poll is made at once.
    pub state: Option<&'a Task>,
    // TA-04
    /// Whether to request the result at once in the experiment, and not only when a poll shows that the task
    /// has ended. The server holds its answer back until then.
    pub fetches_early: bool,
    /// The limits of the waiting call.
    pub limits: Limits,
}

impl TaskFollower {
    /// Begins to follow a task.
    pub fn new(now: Instant, start: TaskStart<'_>) -> Self {
        let mut clock = Calls::default();
        let call = clock.begin(now, start.limits, ());
        let mut follow = Self {
            dialect: start.dialect,
            phase: Phase::NextPoll(now),
            fetch: ResultFetch::Idle,
            fetches_early: start.fetches_early && start.dialect == TaskDialect::Experiment,
            clock,
            paused: false,
            call_id: call,
            poll_pace: PollPace { requested: start.poll_interval, estimate: INITIAL_POLL_ESTIMATE },
            last_poll: now,
            age: (start.age, now),
            ttl: start.ttl,
            last_snapshot: None,
            requested_inputs: HashSet::new(),
            unacknowledged_inputs: Vec::new(),
            consecutive_errors: 0,
            update_error: None,
            actions: VecDeque::new(),
        };
        follow.fetch_early();
        if let Some(task) = start.state {
            follow.phase = Phase::ExpectState;
            follow.handle_state(now, task, StateSource::Poll);
        }
        follow
    }

    /// Takes a state of the task.
    pub fn handle_state(&mut self, now: Instant, task: &Task, source: StateSource) {
        if matches!(self.phase, Phase::ExpectOutcome | Phase::Ended) {
            return;
        }
        // The poll is no longer pending: a notification was quicker.
        if source == StateSource::Poll && self.phase != Phase::ExpectState {
            return;
        }
        self.poll_pace.requested = task.poll_interval.or(self.poll_pace.requested);
        self.ttl = task.ttl.or(self.ttl);
        let seen = TaskSnapshot {
            status: task.status,
            updated: task.last_updated_at(),
            message: task.status_message(),
        };
        let changed = self.last_snapshot.as_ref() != Some(&seen);
        let first = self.last_snapshot.is_none();
        self.last_snapshot = Some(seen);
        self.record_activity(now);
        if changed {
            self.poll_pace.estimate = INITIAL_POLL_ESTIMATE;
        }
        if source == StateSource::Poll {
            if self.unacknowledged_inputs.is_empty() {
                self.consecutive_errors = 0;
            }
            self.last_poll = now;
            self.phase = Phase::NextPoll(now);
            if !changed && !first {
                self.poll_pace.estimate = (self.poll_pace.estimate * 3 / 2).min(MAX_POLL_ESTIMATE);
            }
        }
        match task.status {
            TaskStatus::Completed | TaskStatus::Failed => self.finish(task),
            TaskStatus::Cancelled => self.end(TaskOutcome::Cancelled),
            // A notification changes nothing while a poll, an input request or an update is
            // pending.
            _ if !matches!(self.phase, Phase::NextPoll(_)) => {}
            _ if source == StateSource::Poll && !changed && self.is_expired(now) => {
                self.end(TaskOutcome::Expired);
            }
            TaskStatus::InputRequired => self.handle_input_required(now, task),
            TaskStatus::Working => {
                self.fetch_early();
                self.schedule_poll(now);
            }
        }
    }

    /// Takes the error with which the server answered a poll.
    pub fn handle_poll_error(&mut self, now: Instant, error: RpcError) {
        if self.phase != Phase::ExpectState {
            return;
        }
        self.consecutive_errors += 1;
        match error.code {
            // TA-05, TN-09
            code::INVALID_PARAMS => self.end(TaskOutcome::NotFound),
            code::METHOD_NOT_FOUND => self.end(TaskOutcome::Error(error)),
            _ if self.consecutive_errors >= MAX_CONSECUTIVE_ERRORS => self.end(TaskOutcome::Error(error)),
            _ => self.schedule_poll_after_failure(now),
        }
    }

    /// Takes note that a poll was not answered. Polls are repeated until the limits run out.
    pub fn handle_poll_lost(&mut self, now: Instant) {
        if self.phase == Phase::ExpectState {
            self.schedule_poll_after_failure(now);
        }
    }

    /// Takes the inputs of the host, for all that were requested.
    pub fn handle_inputs(&mut self, now: Instant, answers: Vec<(Box<str>, Json)>) {
        if self.phase == Phase::ExpectInputs {
            self.resume(now);
            self.unacknowledged_inputs.extend(answers);
            self.send_update();
        }
    }

    /// Takes the acknowledgment of an update. The server may act on it later.
    // TN-06
    pub fn handle_updated(&mut self, now: Instant) {
        if self.phase == Phase::ExpectAcknowledgment {
            self.unacknowledged_inputs.clear();
            self.consecutive_errors = 0;
            self.update_error = None;
            self.schedule_poll(now);
        }
    }

    /// Takes the error with which the server answered an update. A person's inputs are not given up
    /// for an error that may pass: they are sent again if the next poll still requests them.
    pub fn handle_update_error(&mut self, now: Instant, error: RpcError) {
        if self.phase == Phase::ExpectAcknowledgment {
            self.consecutive_errors += 1;
            if error.code == code::INVALID_PARAMS || self.consecutive_errors >= MAX_CONSECUTIVE_ERRORS {
                self.unacknowledged_inputs.clear();
            }
            self.update_error = Some(error);
            self.schedule_poll_after_failure(now);
        }
    }

    /// Takes note that an update was not answered. It is sent again if the next poll still requests
    /// it.
    pub fn handle_update_lost(&mut self, now: Instant) {
        if self.phase == Phase::ExpectAcknowledgment {
            self.schedule_poll_after_failure(now);
        }
    }

    /// Takes the result in the experiment, exactly as the call itself would have been answered.
    pub fn handle_outcome(&mut self, now: Instant, outcome: Result<Json, RpcError>) {
        let failed = self.last_snapshot.as_ref().is_some_and(|seen| seen.status == TaskStatus::Failed);
        match (outcome, self.phase) {
            (_, Phase::Ended) => {}
            (Ok(result), _) => self.end(TaskOutcome::Result(result)),
            // For a completed task this can only mean that the server dropped it.
            (Err(error), Phase::ExpectOutcome) if error.code == code::INVALID_PARAMS && !failed => {
                self.end(TaskOutcome::NotFound);
            }
            (Err(error), Phase::ExpectOutcome) => self.end(TaskOutcome::Error(error)),
            // The error may be the outcome, or concern the request for it. The next poll shows
            // which, and is made at once after a request that was early. That is not repeated: the
            // server may be one that does not hold its answer back.
            (Err(_), phase) => {
                self.handle_fetch_lost(now);
                if std::mem::take(&mut self.fetches_early) && matches!(phase, Phase::NextPoll(_)) {
                    self.phase = Phase::NextPoll(now);
                }
            }
        }
    }

    /// Takes note that the request for the result was not answered, in the experiment.
    pub fn handle_fetch_lost(&mut self, now: Instant) {
        self.fetch = ResultFetch::Idle;
        if self.phase == Phase::ExpectOutcome {
            self.schedule_poll_after_failure(now);
        }
    }

    /// Records another sign of life of the task, such as progress.
    // PR-03
    pub fn record_activity(&mut self, now: Instant) {
        self.clock.record_activity(now, self.call_id);
    }

    /// Pauses the limits of the call while a person is asked.
    pub fn pause(&mut self, now: Instant) {
        if !std::mem::replace(&mut self.paused, true) {
            self.clock.pause(now, self.call_id);
        }
    }

    /// Ends the pause when the person has answered.
    pub fn resume(&mut self, now: Instant) {
        if std::mem::take(&mut self.paused) {
            self.clock.resume(now, self.call_id);
        }
    }

    /// Checks the limits, and polls if it is time.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.phase == Phase::Ended {
            return;
        }
        if let DeadlineCheck::Expired((), limit) = self.clock.check_deadline(now, self.call_id) {
            return self.end(TaskOutcome::Timeout(limit));
        }
        if let Phase::NextPoll(at) = self.phase
            && now >= at
        {
            self.phase = Phase::ExpectState;
            self.last_poll = now;
            self.actions.push_back(Action::PollState);
        }
    }

    /// When to call [`TaskFollower::handle_timeout`]. `None` if the task has ended.
    pub fn poll_timeout(&self, now: Instant) -> Option<Instant> {
        let end = self.clock.poll_timeout(now)?;
        match self.phase {
            Phase::Ended => None,
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
            (TaskDialect::Experiment, _) => {
                self.phase = Phase::ExpectOutcome;
                self.fetch();
            }
            // TN-04: a task whose tool failed is completed, and its result says so.
            (TaskDialect::Extension, TaskStatus::Completed) => match task.result().filter(Json::is_object) {
                Some(result) => self.end(TaskOutcome::Result(result)),
                None => self.end(TaskOutcome::Malformed("a completed task has no result")),
            },
            (TaskDialect::Extension, _) => match task.rpc_error() {
                Some(error) => self.end(TaskOutcome::Error(error)),
                None => self.end(TaskOutcome::Malformed("a failed task has no error")),
            },
        }
    }

    /// Handles a task that requires input.
    fn handle_input_required(&mut self, now: Instant, task: &Task) {
        if self.dialect == TaskDialect::Experiment {
            self.fetch();
            return self.schedule_poll(now);
        }
        let Ok(mut wanted) = task.input_requests() else {
            return self.end(TaskOutcome::Malformed("what the task asks cannot be read"));
        };
        // Only inputs that are still requested are sent again.
        self.unacknowledged_inputs.retain(|(key, _)| wanted.iter().any(|(wanted, _)| wanted == key));
        wanted.retain(|(key, _)| !self.requested_inputs.contains(key));
        if self.requested_inputs.len() + wanted.len() > MAX_INPUTS {
            return self.end(TaskOutcome::TooManyInputs);
        }
        if !wanted.is_empty() {
            self.requested_inputs.extend(wanted.iter().map(|(key, _)| key.clone()));
            self.phase = Phase::ExpectInputs;
            self.pause(now);
            self.actions.push_back(Action::RequestInputs(wanted));
        } else if !self.unacknowledged_inputs.is_empty() {
            self.send_update();
        } else if let Some(error) = self.update_error.take() {
            // It still requests an input that it refused.
            self.end(TaskOutcome::Error(error));
        } else {
            self.schedule_poll(now);
        }
    }

    /// Requests the result, unless that is pending.
    fn fetch(&mut self) {
        if std::mem::replace(&mut self.fetch, ResultFetch::InFlight) == ResultFetch::Idle {
            self.actions.push_back(Action::FetchResult);
        }
    }

    fn fetch_early(&mut self) {
        if self.fetches_early {
            self.fetch();
        }
    }

    fn send_update(&mut self) {
        self.phase = Phase::ExpectAcknowledgment;
        self.actions.push_back(Action::Update(self.unacknowledged_inputs.clone()));
    }

    /// Schedules the next poll at the server's interval (TA-03, TN-04).
    fn schedule_poll(&mut self, now: Instant) {
        let at = (self.last_poll + self.poll_pace.interval()).max(now);
        // Until then the server owes no sign of life.
        self.record_activity(at);
        self.phase = Phase::NextPoll(at);
    }

    /// Schedules the next poll after a failure.
    fn schedule_poll_after_failure(&mut self, now: Instant) {
        self.phase = Phase::NextPoll(now + self.poll_pace.interval().max(MIN_INTERVAL_AFTER_FAILURE));
    }

    fn is_expired(&self, now: Instant) -> bool {
        let (age, at) = self.age;
        self.ttl.is_some_and(|ttl| age.saturating_add(now.saturating_duration_since(at)) >= ttl)
    }

    fn end(&mut self, end: TaskOutcome) {
        self.phase = Phase::Ended;
        // Actions that were not performed yet are dropped.
        self.actions.clear();
        self.actions.push_back(Action::End(end));
    }
}

impl PollPace {
    fn interval(&self) -> Duration {
        self.requested.unwrap_or(self.estimate).clamp(MIN_POLL_INTERVAL, MAX_POLL_INTERVAL)
    }
}

/// Minimum interval between polls, even if the server asks for a shorter one.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Maximum interval between polls, even if the server asks for a longer one.
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(60);
/// First interval between polls if the server names none.
const INITIAL_POLL_ESTIMATE: Duration = Duration::from_millis(500);
/// Maximum interval between polls if the server names none.
const MAX_POLL_ESTIMATE: Duration = Duration::from_secs(5);
/// Minimum interval after a poll that failed.
const MIN_INTERVAL_AFTER_FAILURE: Duration = Duration::from_secs(1);
/// Number of errors in a row after which the task is given up.
const MAX_CONSECUTIVE_ERRORS: u32 = 3;
/// Maximum number of inputs that one task may request.
const MAX_INPUTS: usize = 256;

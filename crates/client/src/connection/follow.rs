//! Waits for a task to end, within the caller's own future (groups TA and TN).
//!
//! [`TaskFollower`] decides what is requested and when; this file performs it. A poll is sent like
//! any other request, so a lost session or a restarted server only costs time.

mod doing;

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bowline_proto::calls::Limits;
use bowline_proto::fault::{CallOutcome, Cause, Fault, Misbehavior};
use bowline_proto::tasks::{TaskFollower, TaskHandle, TaskOutcome, TaskStart};
use bowline_proto::wire::object::Edit;
use bowline_proto::wire::outgoing::{self, ProgressMode};
use bowline_proto::wire::view::{Task, TaskDialect};
use bowline_proto::wire::{Json, extension, method};
use tokio::sync::broadcast::error::RecvError;
use tokio::time::sleep_until;

use doing::{Doing, Seen, slot};

use super::retry::Ask;
use super::tokens::Tracked;
use super::{CallOptions, Failure, Shared, Wire};
use crate::error::{Error, ErrorKind, Result, TaskEnd};
use crate::events::{Event, EventReceiver};

/// Receives the states of a task.
pub(crate) type TaskListener = dyn Fn(&Task) + Send + Sync;

/// Options for the task that a call may become.
#[derive(Clone, Default)]
pub(crate) struct TaskOptions {
    /// 2025-11-25: how long the server is asked to keep the task.
    pub(crate) ttl: Option<Duration>,
    /// Receives each state that differs from the previous one.
    pub(crate) listener: Option<Arc<TaskListener>>,
    /// 2025-11-25: receives progress, also after the call was answered with a task (PR-03).
    pub(crate) tracked: Option<Arc<Tracked>>,
    /// Whether this is a request about a task. Dropping it sends no cancellation; the task itself
    /// is canceled if needed (CN-02).
    pub(crate) is_poll: bool,
}

/// A task to wait for, and on whose behalf.
pub(crate) struct Followed<'a> {
    /// The method that errors name.
    pub(crate) method: &'static str,
    pub(crate) handle: &'a TaskHandle,
    /// The last known state of the task.
    pub(crate) state: Option<&'a Task>,
    /// Events since before the call was sent, if a caller subscribed then: a fast server may notify
    /// early.
    pub(crate) told: Option<EventReceiver<Event>>,
    /// What the task is for, shown to a person who is prompted.
    pub(crate) during: Arc<str>,
    pub(crate) limits: Limits,
    pub(crate) options: &'a CallOptions,
    pub(crate) leaving: Leaving,
}

/// What happens to a task when its waiter is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaving {
    /// The task belongs to the call and is canceled with it.
    Cancel,
    /// Someone holds the task's handle, so the task continues.
    Leave,
}

impl Shared {
    /// Whether modern servers were told that a call may become a task (TN-01).
    pub(crate) fn declares_tasks(&self) -> bool {
        let extensions = self.identity.modern.member("extensions");
        extensions.is_some_and(|extensions| extensions.member(extension::TASKS).is_some())
    }

    /// Waits for the task that answered a call, and returns its result as the result of the call.
    pub(super) async fn follow_created(
        self: &Arc<Self>,
        ask: Ask<'_>,
        during: Arc<str>,
        created: &Json,
        total: Duration,
    ) -> Result<Json> {
        let task = Task::decode_created(created, TaskDialect::Extension);
        let task = task.map_err(|error| self.fault(ask.method, nonsense(created, error.to_string())))?;
        let limits = Limits { total, ..self.limits(ask.options) };
        self.follow(Followed {
            method: method::TOOLS_CALL,
            handle: &TaskHandle::new(&task, SystemTime::now()),
            state: Some(&task),
            told: None,
            during,
            limits,
            options: ask.options,
            leaving: Leaving::Cancel,
        })
        .await
    }

    /// Waits for a task to end and returns its result.
    pub(crate) async fn follow(self: &Arc<Self>, followed: Followed<'_>) -> Result<Json> {
        let Followed { method, handle, state, told, during, limits, options, leaving } = followed;
        let mut told = told.unwrap_or_else(|| self.overhear());
        let mut watch = Watch::begin(self, handle, leaving);
        let tracked = options.task.tracked.clone().or_else(|| self.tokens.of_task(&handle.id));
        let start = TaskStart {
            dialect: handle.dialect,
            age: handle.age(SystemTime::now()),
            ttl: handle.ttl,
            poll_interval: handle.poll_interval,
            state,
            limits,
        };
        let mut doing = Doing {
            shared: self,
            method,
            handle,
            during,
            polls: poll_options(self.timeouts.call.min(limits.idle), options),
            follow: TaskFollower::new(Instant::now(), start),
            seen: Seen { listener: options.task.listener.as_deref(), last: None },
            work: None,
            fetch: None,
            trouble: None,
        };
        if let Some(state) = state {
            doing.seen.tell(state);
        }
        loop {
            while let Some(action) = doing.follow.poll_action() {
                if let Some(end) = doing.perform(action) {
                    return self.ended(method, end, doing.trouble, &mut watch);
                }
            }
            let due = doing.due(Instant::now());
            tokio::select! {
                biased;
                done = slot(&mut doing.work) => doing.done(done)?,
                outcome = slot(&mut doing.fetch) => doing.fetched(outcome)?,
                event = told.recv() => match event {
                    Ok(event) => doing.told(&event),
                    // TA-03: notifications are hints; polling does not depend on them.
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => {
                        return Err(self.fault(method, Fault::new(Cause::Closed)));
                    }
                },
                () = heard(tracked.as_deref()) => doing.follow.record_activity(Instant::now()),
                () = sleep_until(due.into()) => doing.follow.handle_timeout(Instant::now()),
            }
        }
    }

    /// Subscribes to events without asking a modern server for notifications.
    pub(crate) fn overhear(&self) -> EventReceiver<Event> {
        self.events.subscribe()
    }

    /// Sends one request about a task, on whatever link is live by then.
    pub(crate) fn about_task(
        self: &Arc<Self>,
        method: &'static str,
        id: &str,
        answers: Option<Json>,
        options: CallOptions,
    ) -> impl Future<Output = Result<Json, Failure>> + Send + use<> {
        let shared = Arc::clone(self);
        let mut edit = Edit::new().set_str("taskId", id);
        if let Some(answers) = &answers {
            edit = edit.set("inputResponses", answers);
        }
        let params = edit.apply(None).expect("a new object is one");
        async move {
            let live = shared.ready(shared.patience(&options)).await?;
            let ask = Ask { method, params: Some(&params), options: &options };
            let (_, result) = shared.deliver(&live, ask).await?;
            Ok(result)
        }
    }

    /// Decodes the state of a task and checks that it is the requested task.
    pub(crate) fn state(&self, method: &str, handle: &TaskHandle, json: &Json) -> Result<Task> {
        let task = Task::decode(json, handle.dialect);
        let task = task.map_err(|error| self.fault(method, nonsense(json, error.to_string())))?;
        if task.id != handle.id {
            return Err(self.fault(method, nonsense(json, "it is about another task".to_owned())));
        }
        Ok(task)
    }

    fn ended(
        self: &Arc<Self>,
        method: &str,
        end: TaskOutcome,
        trouble: Option<Fault>,
        watch: &mut Watch<'_>,
    ) -> Result<Json> {
        let told = |end| Err(Error::new(ErrorKind::Task(end), &self.name, method));
        // The task has ended on the server too, except in the cases below.
        watch.is_over = true;
        match end {
            TaskOutcome::Result(result) => Ok(result),
            TaskOutcome::Error(error) => Err(self.error(method, Failure::Server(error))),
            TaskOutcome::Cancelled => told(TaskEnd::Cancelled),
            TaskOutcome::NotFound => told(TaskEnd::Gone),
            TaskOutcome::Expired => told(TaskEnd::Expired),
            TaskOutcome::Timeout(limit) => {
                watch.is_over = false;
                let fault = trouble.unwrap_or_else(|| Fault::new(Cause::Timeout(limit)));
                // The task was started, whatever happened to the last poll.
                Err(self.fault(method, Fault { outcome: CallOutcome::Unknown, ..fault }))
            }
            TaskOutcome::Malformed(what) => {
                Err(self.fault(method, Fault::protocol(Misbehavior::BadResult).with_note(what)))
            }
            TaskOutcome::TooManyInputs => {
                watch.is_over = false;
                Err(self.fault(method, Fault::protocol(Misbehavior::TooManyInputRounds)))
            }
        }
    }

    /// The fault of a failure that may be transient. Other failures end the wait.
    fn passing(&self, method: &str, failure: Failure) -> Result<Option<Fault>> {
        match failure {
            Failure::Left => Ok(None),
            Failure::Fault(fault) if may_pass(&fault) => Ok(Some(fault)),
            Failure::Fault(fault) => {
                Err(self.fault(method, Fault { outcome: CallOutcome::Unknown, ..fault }))
            }
            other => Err(self.error(method, other)),
        }
    }

    /// Whether a handler is working on a server request.
    fn is_serving(&self) -> bool {
        !super::link::lock(&self.serving).is_empty()
    }

    /// Cancels an abandoned task in the background, unless the server does not offer that (TA-05).
    fn cancel_later(self: &Arc<Self>, handle: &TaskHandle) {
        let shared = Arc::clone(self);
        let Some(live) = self.live() else {
            // Try once the server is back, if that is soon.
            let cancel = self.about_task(
                method::TASKS_CANCEL,
                &handle.id,
                None,
                poll_options(CANCELLING, &CallOptions::new()),
            );
            return self.errands.send(async move { drop(cancel.await) });
        };
        if handle.dialect == TaskDialect::Experiment
            && live.peer.capabilities.get_path(&["tasks", "cancel"]).is_none()
        {
            return;
        }
        let id = self.core().calls.next_id();
        let params = Edit::new().set_str("taskId", &handle.id).apply(None).expect("a new object is one");
        let frame =
            outgoing::request(id, method::TASKS_CANCEL, Some(&params), &live.meta, ProgressMode::Unwanted)
                .expect("the params are an object");
        // Sent without waiting for the response, since the connection may be closed next.
        self.errands.send(async move {
            let sent = match &live.wire {
                Wire::Http { link, headers } => {
                    let headers =
                        shared.call_headers(&live, headers, method::TASKS_CANCEL, Some(&params)).into_owned();
                    link.post(frame.body(), &headers).await.map(drop)
                }
                wire @ (Wire::Pipe(_) | Wire::EventStream { .. }) => shared.say(wire, &frame).await,
            };
            if let Err(fault) = sent {
                tracing::debug!(server = %shared.name, %fault, "a task that nobody waits for was not cancelled");
            }
        });
    }
}

/// Guards a task that is waited for. Dropped before the end, it cancels the task if the policy says
/// so.
struct Watch<'a> {
    shared: &'a Arc<Shared>,
    handle: &'a TaskHandle,
    leaving: Leaving,
    is_told: bool,
    is_over: bool,
}

impl<'a> Watch<'a> {
    fn begin(shared: &'a Arc<Shared>, handle: &'a TaskHandle, leaving: Leaving) -> Self {
        // TN-08: a subscription pays off only where polls are far apart.
        let is_told = handle.dialect == TaskDialect::Extension
            && handle.poll_interval.is_some_and(|interval| interval >= WORTH_TELLING);
        if is_told {
            shared.want_task(&handle.id);
        }
        Self { shared, handle, leaving, is_told, is_over: false }
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if self.is_told {
            self.shared.unwant_task(&self.handle.id);
        }
        if self.is_over || self.leaving == Leaving::Cancel {
            self.shared.tokens.forget_task(&self.handle.id);
        }
        // CN-02
        if !self.is_over && self.leaving == Leaving::Cancel {
            self.shared.cancel_later(self.handle);
        }
    }
}

/// Call options for a request about a task.
pub(crate) fn poll_options(idle: Duration, of: &CallOptions) -> CallOptions {
    CallOptions {
        idle: Some(idle),
        trace: of.trace.clone(),
        task: TaskOptions { is_poll: true, ..TaskOptions::default() },
        ..CallOptions::new()
    }
}

/// Whether a later request may succeed: the server is down, busy, or did not answer in time.
fn may_pass(fault: &Fault) -> bool {
    match fault.cause {
        Cause::Timeout(_) => true,
        Cause::Status { code, .. } => matches!(code, 408 | 425 | 429 | 500..),
        _ => fault.is_outage(),
    }
}

fn nonsense(json: &Json, what: String) -> Fault {
    Fault::protocol(Misbehavior::BadResult).with_note(what).with_body(json.as_bytes())
}

async fn heard(tracked: Option<&Tracked>) {
    match tracked {
        Some(tracked) => tracked.heard().await,
        None => std::future::pending().await,
    }
}

/// Minimum poll interval for which a task is subscribed to. More frequent polls are cheaper than a
/// subscription.
const WORTH_TELLING: Duration = Duration::from_secs(2);
/// Timeout for canceling an abandoned task.
const CANCELLING: Duration = Duration::from_secs(5);

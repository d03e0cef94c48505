//! Performs the requests for one task: a poll, an input or an update at a time, and the result
//! request beside it.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bowline_proto::client::tasks::{Action, StateSource, TaskFollower, TaskHandle, TaskOutcome};
use bowline_proto::fault::Fault;
use bowline_proto::wire::object::Edit;
use bowline_proto::wire::view::{Task, TaskDialect, TaskStatus};
use bowline_proto::wire::{Json, method};

use crate::clock;
use crate::connection::engine::MAX_WAIT;
use crate::connection::options::TaskListener;
use crate::connection::{CallMeter, CallOptions, Connection, Failure};
use crate::error::Result;
use crate::events::Event;

/// Performs the actions of a [`TaskFollower`].
pub(super) struct TaskDriver<'a> {
    pub(super) connection: &'a Arc<Connection>,
    pub(super) method: &'static str,
    pub(super) handle: &'a TaskHandle,
    pub(super) purpose: Arc<str>,
    /// Call options for requests about the task.
    pub(super) request_options: CallOptions,
    pub(super) follower: TaskFollower,
    pub(super) reporter: StateReporter<'a>,
    pub(super) work: PendingFuture<WorkOutcome>,
    pub(super) fetch: PendingFuture<Result<Json, Failure>>,
    /// Why the last request got no answer; `None` if it got one.
    pub(super) last_fault: Option<Fault>,
    pub(super) meter: Arc<CallMeter>,
}

impl TaskDriver<'_> {
    /// Starts an action. Returns the outcome if the task has ended.
    pub(super) fn perform(&mut self, action: Action) -> Option<TaskOutcome> {
        let request = |method, answers| {
            let (options, meter) = (self.request_options.clone(), Arc::clone(&self.meter));
            self.connection.request_for_task(method, &self.handle.id, answers, options, meter)
        };
        match action {
            Action::PollState => {
                let get = request(method::TASKS_GET, None);
                self.work = Some(Box::pin(async { WorkOutcome::State(get.await) }));
            }
            Action::FetchResult => self.fetch = Some(Box::pin(request(method::TASKS_RESULT, None))),
            Action::RequestInputs(wanted) => {
                let (connection, method, during) =
                    (Arc::clone(self.connection), self.method, Arc::clone(&self.purpose));
                let handler = self.request_options.handler.clone();
                let asking =
                    async move { connection.collect_inputs(handler.as_ref(), method, &wanted, during).await };
                self.work = Some(Box::pin(async { WorkOutcome::Inputs(asking.await) }));
            }
            Action::Update(answers) => {
                let answers = answers.iter().fold(Edit::new(), |edit, (key, json)| edit.set(key, json));
                let answers = answers.apply(None).expect("a new object is one");
                let update = request(method::TASKS_UPDATE, Some(answers));
                self.work = Some(Box::pin(async { WorkOutcome::Updated(update.await) }));
            }
            Action::End(end) => return Some(end),
        }
        None
    }

    /// When the follower's timeout must be handled next.
    pub(super) fn next_timeout(&mut self, now: Instant) -> Instant {
        if self.handle.dialect == TaskDialect::Experiment {
            // A server of 2025-11-25 sends its own requests, and the time a person takes must not
            // count.
            if self.connection.inbound.is_serving_requests() {
                self.follower.pause(now);
            } else {
                self.follower.resume(now);
            }
        }
        let due = self.follower.poll_timeout(now).unwrap_or(now).min(now + MAX_WAIT);
        if self.fetch.is_some() { due.min(now + SERVING_CHECK_INTERVAL) } else { due }
    }

    pub(super) fn handle_work(&mut self, done: WorkOutcome) -> Result<()> {
        self.work = None;
        let now = clock::now();
        match done {
            WorkOutcome::State(Ok(json)) => {
                self.last_fault = None;
                let task = self.connection.server.decode_task_state(self.method, self.handle, &json)?;
                self.reporter.report_change(&task);
                self.follower.handle_state(now, &task, StateSource::Poll);
            }
            WorkOutcome::State(Err(Failure::Server(error))) => self.follower.handle_poll_error(now, error),
            WorkOutcome::State(Err(failure)) => {
                self.last_fault = self.connection.server.transient_fault(self.method, failure)?;
                self.follower.handle_poll_lost(now);
            }
            WorkOutcome::Inputs(answers) => self.follower.handle_inputs(now, answers?),
            WorkOutcome::Updated(Ok(_)) => self.follower.handle_updated(now),
            WorkOutcome::Updated(Err(Failure::Server(error))) => {
                self.follower.handle_update_error(now, error);
            }
            WorkOutcome::Updated(Err(failure)) => {
                self.last_fault = self.connection.server.transient_fault(self.method, failure)?;
                self.follower.handle_update_lost(now);
            }
        }
        Ok(())
    }

    pub(super) fn handle_fetch(&mut self, outcome: Result<Json, Failure>) -> Result<()> {
        self.fetch = None;
        let now = clock::now();
        match outcome {
            Ok(result) => self.follower.handle_outcome(now, Ok(result)),
            Err(Failure::Server(error)) => self.follower.handle_outcome(now, Err(error)),
            Err(failure) => {
                self.last_fault = self.connection.server.transient_fault(self.method, failure)?;
                self.follower.handle_fetch_lost(now);
            }
        }
        Ok(())
    }

    pub(super) fn handle_notification(&mut self, event: &Event) {
        if let Some(task) = task_from_event(event, self.handle) {
            self.reporter.report_change(&task);
            self.follower.handle_state(clock::now(), &task, StateSource::Notification);
        }
    }
}

/// The outcome of a finished request.
pub(super) enum WorkOutcome {
    State(Result<Json, Failure>),
    Inputs(Result<Vec<(Box<str>, Json)>>),
    Updated(Result<Json, Failure>),
}

pub(super) type PendingFuture<T> = Option<Pin<Box<dyn Future<Output = T> + Send>>>;

/// Reports state changes of the task to the listener.
pub(super) struct StateReporter<'a> {
    pub(super) listener: Option<&'a TaskListener>,
    pub(super) last: Option<(TaskStatus, Option<String>, Option<String>)>,
}

impl StateReporter<'_> {
    pub(super) fn report_change(&mut self, task: &Task) {
        let Some(listener) = self.listener else { return };
        let now = Some((task.status, task.last_updated_at(), task.status_message()));
        if self.last != now {
            self.last = now;
            listener(task);
        }
    }
}

/// The state in a notification about this task.
fn task_from_event(event: &Event, handle: &TaskHandle) -> Option<Task> {
    let Event::Notification(said) = event else { return None };
    let method = match handle.dialect {
        TaskDialect::Experiment => method::TASK_STATUS,
        TaskDialect::Extension => method::TASK,
    };
    let task =
        (*said.method == *method).then(|| Task::decode(said.params.as_ref()?, handle.dialect).ok())??;
    (task.id == handle.id).then_some(task)
}

/// Awaits the future, or forever if there is none.
pub(super) async fn await_pending<T>(pending: &mut PendingFuture<T>) -> T {
    match pending {
        Some(pending) => pending.await,
        None => std::future::pending().await,
    }
}

/// How often it is checked whether a handler is working on a server request.
const SERVING_CHECK_INTERVAL: Duration = Duration::from_secs(1);

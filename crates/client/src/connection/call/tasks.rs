//! Waits for a task to end, within the caller's own future (groups TA and TN).
//!
//! [`TaskFollower`] decides what is requested and when; this file performs it. A poll is sent like
//! any other request, so a lost session or a restarted server only costs time.

mod driver;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bowline_proto::client::calls::Limits;
use bowline_proto::client::tasks::{TaskFollower, TaskHandle, TaskOutcome, TaskStart};
use bowline_proto::fault::{Cause, Execution, Fault, Misbehavior};
use bowline_proto::wire::object::Edit;
use bowline_proto::wire::outgoing::{self, ProgressMode};
use bowline_proto::wire::view::{Task, TaskDialect};
use bowline_proto::wire::{Json, method};
use tokio::time::sleep_until;

use driver::{StateReporter, TaskDriver, await_pending};

use super::meter::CallMeter;
use super::request::CallRequest;
use crate::clock;
use crate::connection::options::TaskOptions;
use crate::connection::progress::TaskProgress;
use crate::connection::server::ServerSettings;
use crate::connection::{CallOptions, Connection, Failure, Wire};
use crate::error::{Error, ErrorKind, Result, TaskEnd};
use crate::events::{Event, EventReceiver};

/// A task to wait for, and on whose behalf.
pub(crate) struct TaskWait<'a> {
    /// The method that errors name.
    pub(crate) method: &'static str,
    pub(crate) handle: &'a TaskHandle,
    /// The last known state of the task.
    pub(crate) state: Option<&'a Task>,
    /// Events since before the call was sent, if a caller subscribed then: a fast server may notify
    /// early.
    pub(crate) notifications: Option<EventReceiver<Event>>,
    /// What the task is for, shown to a person who is prompted.
    pub(crate) purpose: Arc<str>,
    pub(crate) limits: Limits,
    pub(crate) options: &'a CallOptions,
    pub(crate) drop_policy: TaskDropPolicy,
    /// Counts the requests about the task.
    pub(crate) meter: Arc<CallMeter>,
}

/// What happens to a task when its waiter is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskDropPolicy {
    /// The task belongs to the call and is canceled with it.
    Cancel,
    /// Someone holds the task's handle, so the task continues.
    Keep,
}

impl Connection {
    /// Waits for the task that answered a call, and returns its result as the result of the call.
    pub(crate) async fn wait_for_created_task(
        self: &Arc<Self>,
        ask: CallRequest<'_>,
        during: Arc<str>,
        created: &Json,
        total: Duration,
    ) -> Result<Json> {
        let task = Task::decode_created(created, TaskDialect::Extension);
        let task = task.map_err(|error| {
            self.server.fault_error(ask.method, bad_task_fault(created, error.to_string()))
        })?;
        let limits = Limits { total, ..self.server.limits(ask.options) };
        self.wait_for_task(TaskWait {
            method: method::TOOLS_CALL,
            handle: &TaskHandle::new(&task, SystemTime::now()),
            state: Some(&task),
            notifications: None,
            purpose: during,
            limits,
            options: ask.options,
            drop_policy: TaskDropPolicy::Cancel,
            // The requests about the task are no attempts of the call.
            meter: Arc::new(CallMeter::start()),
        })
        .await
    }

    pub(crate) async fn wait_for_task(self: &Arc<Self>, followed: TaskWait<'_>) -> Result<Json> {
        let TaskWait { method, handle, state, notifications, purpose, limits, options, drop_policy, meter } =
            followed;
        let mut notifications = notifications.unwrap_or_else(|| self.events.subscribe());
        let mut watch = TaskGuard::new(self, handle, drop_policy);
        let tracked =
            options.task.progress.clone().or_else(|| self.engine.progress_tokens.find_by_task(&handle.id));
        let start = TaskStart {
            dialect: handle.dialect,
            age: handle.age(SystemTime::now()),
            ttl: handle.ttl,
            poll_interval: handle.poll_interval,
            state,
            fetches_early: options.task.fetches_early,
            limits,
        };
        let mut doing = TaskDriver {
            connection: self,
            method,
            handle,
            purpose,
            request_options: poll_options(self.server.timeouts.idle.min(limits.idle), options),
            follower: TaskFollower::new(clock::now(), start),
            reporter: StateReporter { listener: options.task.listener.as_deref(), last: None },
            work: None,
            fetch: None,
            last_fault: None,
            meter,
        };
        if let Some(state) = state {
            doing.reporter.report_change(state);
        }
        loop {
            while let Some(action) = doing.follower.poll_action() {
                if let Some(end) = doing.perform(action) {
                    return task_result(&self.server, method, end, doing.last_fault, &mut watch);
                }
            }
            let due = doing.next_timeout(clock::now());
            tokio::select! {
                biased;
                done = await_pending(&mut doing.work) => doing.handle_work(done)?,
                outcome = await_pending(&mut doing.fetch) => doing.handle_fetch(outcome)?,
                event = notifications.next() => match event {
                    // TA-03: notifications are hints; polling does not depend on them, so missed
                    // ones are ignored.
                    Some(event) => doing.handle_notification(&event),
                    None => {
                        return Err(self.server.fault_error(method, Fault::new(Cause::Closed)));
                    }
                },
                () = wait_for_progress(tracked.as_deref()) => doing.follower.record_activity(clock::now()),
                () = sleep_until(due.into()) => doing.follower.handle_timeout(clock::now()),
            }
        }
    }

    /// Sends one request about a task, on whatever link is live by then.
    pub(crate) fn request_for_task(
        self: &Arc<Self>,
        method: &'static str,
        id: &str,
        answers: Option<Json>,
        options: CallOptions,
        meter: Arc<CallMeter>,
    ) -> impl Future<Output = Result<Json, Failure>> + Send + use<> {
        let connection = Arc::clone(self);
        let mut edit = Edit::new().set_str("taskId", id);
        if let Some(answers) = &answers {
            edit = edit.set("inputResponses", answers);
        }
        let params = edit.apply(None).expect("a new object is one");
        async move {
            let live = connection.wait_for_link_metered(&options, &meter).await?;
            let ask = CallRequest { method, params: Some(&params), options: &options, meter: &meter };
            let (_, result) = connection.send_with_retry(&live, ask).await?;
            Ok(result)
        }
    }

    /// Cancels an abandoned task in the background, unless the server does not offer that (TA-05).
    fn spawn_task_cancel(self: &Arc<Self>, handle: &TaskHandle) {
        let connection = Arc::clone(self);
        let Some(live) = self.links.live() else {
            // Try once the server is back, if that is soon.
            let cancel = self.request_for_task(
                method::TASKS_CANCEL,
                &handle.id,
                None,
                poll_options(CANCEL_TIMEOUT, &CallOptions::new()),
                Arc::new(CallMeter::start()),
            );
            return self.background.spawn_send(async move { drop(cancel.await) });
        };
        if handle.dialect == TaskDialect::Experiment
            && live.peer.capabilities.get_path(&["tasks", "cancel"]).is_none()
        {
            return;
        }
        let id = self.engine.state().calls.next_id();
        let params = Edit::new().set_str("taskId", &handle.id).apply(None).expect("a new object is one");
        let frame =
            outgoing::request(id, method::TASKS_CANCEL, Some(&params), &live.meta, ProgressMode::Unwanted)
                .expect("the params are an object");
        // Sent without waiting for the response, since the connection may be closed next.
        self.background.spawn_send(async move {
            let sent = match &live.wire {
                Wire::Http { link, headers } => {
                    let (method, params) = (method::TASKS_CANCEL, Some(&params));
                    let headers = connection.lists.call_headers(&live, headers, method, params);
                    link.post(frame.body(), &headers).await.map(drop)
                }
                wire @ (Wire::Pipe(_) | Wire::EventStream { .. }) => {
                    wire.send_one_way(&connection.login, &frame).await.map(drop)
                }
            };
            if let Err(fault) = sent {
                tracing::debug!(server = %connection.server.name, %fault, "a task that nobody waits for was not cancelled");
            }
        });
    }
}

impl ServerSettings {
    /// Decodes the state of a task and checks that it is the requested task.
    pub(crate) fn decode_task_state(&self, method: &str, handle: &TaskHandle, json: &Json) -> Result<Task> {
        let task = Task::decode(json, handle.dialect);
        let task = task.map_err(|error| self.fault_error(method, bad_task_fault(json, error.to_string())))?;
        if task.id != handle.id {
            return Err(self.fault_error(method, bad_task_fault(json, "it is about another task".to_owned())));
        }
        Ok(task)
    }

    /// The fault of a failure that may be transient. Other failures end the wait.
    fn transient_fault(&self, method: &str, failure: Failure) -> Result<Option<Fault>> {
        match failure {
            Failure::LinkSuperseded => Ok(None),
            Failure::Fault(fault) if is_transient(&fault) => Ok(Some(fault)),
            Failure::Fault(fault) => Err(self.fault_error(method, fault.with_execution(Execution::Unknown))),
            other => Err(self.request_error(method, other)),
        }
    }
}

/// The result of a task that has ended, or that is no longer waited for.
fn task_result(
    server: &ServerSettings,
    method: &str,
    end: TaskOutcome,
    trouble: Option<Fault>,
    watch: &mut TaskGuard<'_>,
) -> Result<Json> {
    let told = |end| Err(Error::new(ErrorKind::Task(end), &server.name, method));
    // The task has ended on the server too, except in the cases below.
    watch.is_over = true;
    match end {
        TaskOutcome::Result(result) => Ok(result),
        TaskOutcome::Error(error) => Err(server.request_error(method, Failure::Server(error))),
        TaskOutcome::Cancelled => told(TaskEnd::Cancelled),
        TaskOutcome::NotFound => told(TaskEnd::NotFound),
        TaskOutcome::Expired => told(TaskEnd::Expired),
        TaskOutcome::Timeout(limit) => {
            watch.is_over = false;
            let fault = trouble.unwrap_or_else(|| Fault::new(Cause::Timeout(limit)));
            // The task was started, whatever happened to the last poll.
            Err(server.fault_error(method, fault.with_execution(Execution::Unknown)))
        }
        TaskOutcome::Malformed(what) => {
            Err(server.fault_error(method, Fault::protocol(Misbehavior::BadResult).with_note(what)))
        }
        TaskOutcome::TooManyInputs => {
            watch.is_over = false;
            Err(server.fault_error(method, Fault::protocol(Misbehavior::TooManyInputRounds)))
        }
    }
}

/// Guards a task that is waited for. Dropped before the end, it cancels the task if the policy says
/// so.
struct TaskGuard<'a> {
    connection: &'a Arc<Connection>,
    handle: &'a TaskHandle,
    drop_policy: TaskDropPolicy,
    is_subscribed: bool,
    is_over: bool,
}

impl<'a> TaskGuard<'a> {
    fn new(connection: &'a Arc<Connection>, handle: &'a TaskHandle, leaving: TaskDropPolicy) -> Self {
        // TN-08: a subscription pays off only where polls are far apart.
        let is_told = handle.dialect == TaskDialect::Extension
            && handle.poll_interval.is_some_and(|interval| interval >= MIN_SUBSCRIBED_POLL_INTERVAL);
        if is_told {
            connection.session.subscriptions.demand_task(&handle.id);
        }
        Self { connection, handle, drop_policy: leaving, is_subscribed: is_told, is_over: false }
    }
}

impl Drop for TaskGuard<'_> {
    fn drop(&mut self) {
        if self.is_subscribed {
            self.connection.session.subscriptions.release_task(&self.handle.id);
        }
        if self.is_over || self.drop_policy == TaskDropPolicy::Cancel {
            self.connection.engine.progress_tokens.remove_task(&self.handle.id);
        }
        // CN-02
        if !self.is_over && self.drop_policy == TaskDropPolicy::Cancel {
            self.connection.spawn_task_cancel(self.handle);
        }
    }
}

/// Call options for a request about a task.
pub(crate) fn poll_options(idle: Duration, of: &CallOptions) -> CallOptions {
    CallOptions {
        idle: Some(idle),
        trace: of.trace.clone(),
        handler: of.handler.clone(),
        task: TaskOptions { is_poll: true, ..TaskOptions::default() },
        ..CallOptions::new()
    }
}

/// Whether a later request may succeed: the server is down, busy, or did not answer in time.
fn is_transient(fault: &Fault) -> bool {
    match fault.cause {
        Cause::Timeout(_) => true,
        Cause::Status { code, .. } => matches!(code, 408 | 425 | 429 | 500..),
        _ => fault.is_outage(),
    }
}

fn bad_task_fault(json: &Json, what: String) -> Fault {
    Fault::protocol(Misbehavior::BadResult).with_note(what).with_body(json.as_bytes())
}

async fn wait_for_progress(tracked: Option<&TaskProgress>) {
    match tracked {
        Some(tracked) => tracked.wait_for_progress().await,
        None => std::future::pending().await,
    }
}

/// Minimum poll interval for which a task is subscribed to. More frequent polls are cheaper than a
/// subscription.
const MIN_SUBSCRIBED_POLL_INTERVAL: Duration = Duration::from_secs(2);
/// Timeout for canceling an abandoned task.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

//! Tasks: calls that continue after their response, in both protocol forms (groups TA and TN).
//!
//! The revision of the connection decides the form (TN-10). A server of 2026-07-28 decides itself
//! which call becomes a task; one of 2025-11-25 is asked to, where the tool allows it.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bowline_proto::client::calls::Limits;
use bowline_proto::client::tasks::TaskHandle;
use bowline_proto::revision::{Era, Revision};
use bowline_proto::timestamp;
use bowline_proto::wire::object::Edit;
use bowline_proto::wire::view::{CallToolResult, ResultType, Task, TaskDialect, TaskSupport, result_type};
use bowline_proto::wire::{Json, code, method, outgoing};
use serde::Serialize;
use tracing::{Instrument as _, Span};

use super::Feature;
use crate::client::Client;
use crate::connection::{
    CallMeter, CallOptions, CallRequest, CallScope, Connection, Failure, List, LiveLink, TaskDropPolicy,
    TaskProgress, TaskWait, poll_options, tool_name,
};
use crate::error::{Error, ErrorKind, Result, TaskEnd};
use crate::report::{Outcome, ToolResult};

/// The response to a call that may become a task.
///
/// Complete: a call is answered, or it continues as a task.
#[derive(Clone, Debug, PartialEq)]
pub enum TaskOrResult<T> {
    /// The call was answered at once.
    Result(T),
    /// The call continues in the background.
    Task(TaskHandle),
}

impl CallOptions {
    /// Sets a listener for the states of a task: of a call that becomes one, or in
    /// [`Client::wait_task`]. The state holds the task's id, from which a handle can be stored
    /// while the call is waited for.
    ///
    /// It is called from the future that waits, so it must not block.
    #[must_use]
    pub fn on_task(mut self, listener: impl Fn(&Task) + Send + Sync + 'static) -> Self {
        self.task.listener = Some(Arc::new(listener));
        self
    }

    /// Requests the result of a task of 2025-11-25 at once in [`Client::wait_task`], and not only when a poll
    /// shows that the task has ended: the server holds its answer back until then, so the result is there
    /// sooner. Polls go on beside it.
    // TA-04
    #[must_use]
    pub fn fetch_task_result_early(mut self) -> Self {
        self.task.fetches_early = true;
        self
    }

    /// Sets how long a server of 2025-11-25 is asked to keep a task. The server may decide
    /// otherwise; the handle says so.
    #[must_use]
    pub fn task_ttl(mut self, ttl: Duration) -> Self {
        self.task.ttl = Some(ttl);
        self
    }
}

impl Client {
    /// Calls a tool as a task if possible. Then the handle is returned at once, and
    /// [`Client::wait_task`] returns the result, now, later, or in another process.
    ///
    /// A server of 2026-07-28 may turn any call into a task; one of 2025-11-25 is asked to if it
    /// offers that and the tool allows it. Any other call is answered as usual. Dropping the future
    /// before there is a handle cancels the call on the server.
    // TA-01
    pub async fn call_tool_task<A: Serialize + ?Sized>(
        &self,
        name: &str,
        arguments: &A,
        options: &CallOptions,
    ) -> Result<TaskOrResult<ToolResult>> {
        let method = method::TOOLS_CALL;
        let params = outgoing::call_params(name, arguments)
            .map_err(|error| self.usage_error(method, error.to_string()))?;
        let meter = &CallMeter::start();
        let ask = CallRequest { method, params: Some(&params), options, meter };
        let mut scope = CallScope::begin(self.connection(), ask);
        let called = match scope.pass_layers().await {
            Ok(changed) => {
                let changed_name = changed.as_ref().and_then(|params| tool_name(method, Some(params)));
                let ask = CallRequest { params: changed.as_ref().or(ask.params), ..ask };
                let name = changed_name.as_deref().unwrap_or(name);
                let span = scope.span().unwrap_or_else(Span::none);
                self.call_task_unobserved(name, ask).instrument(span).await
            }
            Err(error) => Err(error),
        };
        let is_error = |called: &TaskOrResult<CallToolResult>| matches!(called, TaskOrResult::Result(result) if result.is_error);
        Ok(match scope.finish_with_report(called, is_error)? {
            (TaskOrResult::Result(result), report) => TaskOrResult::Result(ToolResult { result, report }),
            (TaskOrResult::Task(task), _) => TaskOrResult::Task(task),
        })
    }

    async fn call_task_unobserved(
        &self,
        name: &str,
        ask: CallRequest<'_>,
    ) -> Result<TaskOrResult<CallToolResult>> {
        let (connection, method) = (self.connection(), ask.method);
        let (live, left) = connection.link_for_call(method, ask.options, ask.meter).await?;
        let ask = CallRequest { options: left.as_deref().unwrap_or(ask.options), ..ask };
        let options = ask.options;
        Feature::Tools.require(connection, &live.peer, method)?;
        let answered = |result: &Json| {
            let result = connection.server.decode_result(method, result, CallToolResult::decode(result));
            result.map(TaskOrResult::Result)
        };
        if live.peer.era() == Era::Modern {
            let raw = options.clone().raw();
            let (result, _) =
                connection.perform_unobserved(&live, CallRequest { options: &raw, ..ask }).await?;
            if result_type(&result) != ResultType::Task {
                return answered(&result);
            }
            let task = connection.server.decode_result(
                method,
                &result,
                Task::decode_created(&result, TaskDialect::Extension),
            )?;
            notify_task_listener(options, &task);
            return Ok(TaskOrResult::Task(TaskHandle::new(&task, SystemTime::now())));
        }
        match fetch_task_support(connection, &live, name, options).await? {
            TaskSupport::Forbidden => answered(&connection.perform_unobserved(&live, ask).await?.0),
            _ => match call_as_task(connection, &live, ask).await? {
                TaskCallResult::Task(task, _) => {
                    notify_task_listener(options, &task);
                    Ok(TaskOrResult::Task(TaskHandle::new(&task, SystemTime::now())))
                }
                TaskCallResult::Result(result) => answered(&result),
            },
        }
    }

    /// Sends `tools/call` with these params as a task if possible, as [`Client::call_tool_task`] does,
    /// and returns the server's answer as it is: the result of the call, or the task that it became
    /// ([`Task::decode_created`] reads it). For programs that relay messages.
    ///
    /// Dropping the future before there is an answer cancels the call on the server.
    // TA-01
    pub async fn request_task<P: Serialize + ?Sized>(
        &self,
        params: &P,
        options: &CallOptions,
    ) -> Result<Json> {
        let method = method::TOOLS_CALL;
        let params = self.params(method, params)?;
        let meter = &CallMeter::start();
        let ask = CallRequest { method, params: params.as_ref(), options, meter };
        let mut scope = CallScope::begin(self.connection(), ask);
        let called = match scope.pass_layers().await {
            Ok(changed) => {
                let ask = CallRequest { params: changed.as_ref().or(ask.params), ..ask };
                let name = tool_name(method, ask.params).unwrap_or_default();
                let span = scope.span().unwrap_or_else(Span::none);
                self.call_raw_task(&name, ask).instrument(span).await
            }
            Err(error) => Err(error),
        };
        scope.finish(called, |result| CallToolResult::decode(result).is_ok_and(|result| result.is_error))
    }

    async fn call_raw_task(&self, name: &str, ask: CallRequest<'_>) -> Result<Json> {
        let (connection, method) = (self.connection(), ask.method);
        let (live, left) = connection.link_for_call(method, ask.options, ask.meter).await?;
        let ask = CallRequest { options: left.as_deref().unwrap_or(ask.options), ..ask };
        Feature::Tools.require(connection, &live.peer, method)?;
        if live.peer.era() == Era::Modern {
            // Only such a server decides by itself; the experiment has no `raw` results.
            let raw = CallOptions { raw: true, ..ask.options.clone() };
            let ask = CallRequest { options: &raw, ..ask };
            return connection.perform_unobserved(&live, ask).await.map(|(result, _)| result);
        }
        match fetch_task_support(connection, &live, name, ask.options).await? {
            TaskSupport::Forbidden => {
                connection.perform_unobserved(&live, ask).await.map(|(result, _)| result)
            }
            _ => match call_as_task(connection, &live, ask).await? {
                TaskCallResult::Task(_, created) => Ok(created),
                TaskCallResult::Result(result) => Ok(result),
            },
        }
    }

    /// Requests the current state of a task. Dropping the future cancels the request.
    ///
    /// A task that the server does not know (any more) is [`TaskEnd::NotFound`].
    pub async fn task(&self, handle: &TaskHandle) -> Result<Task> {
        let method = method::TASKS_GET;
        self.link_for_handle(handle, method).await?;
        let json = self.request_for_task(method, handle).await?;
        self.connection().server.decode_task_state(method, handle, &json)
    }

    /// Waits for a task to end and returns its result as the call would have returned it: a server
    /// error becomes an `Err`, and a failed tool says so in its result.
    ///
    /// Input that the task requires is requested from the host's handler. The wait continues across
    /// lost sessions and restarted servers. Without a timeout in `options` it lasts as long as the
    /// server keeps the task, or a day if the server does not say. Any change of state counts as
    /// progress.
    ///
    /// The report, in the result or the error, is that of the wait and not of the call that created
    /// the task: its attempts are the requests about the task that were sent.
    ///
    /// Dropping the future leaves the task running: it can be waited for again.
    pub async fn wait_task(&self, handle: &TaskHandle, options: &CallOptions) -> Result<ToolResult> {
        let meter = Arc::new(CallMeter::start());
        match self.wait_task_metered(handle, options, &meter).await {
            Ok(result) => {
                let outcome = if result.is_error { Outcome::ToolError } else { Outcome::Done };
                Ok(ToolResult { result, report: meter.report(outcome) })
            }
            Err(error) => {
                let report = meter.report(error.outcome());
                Err(error.with_report(report))
            }
        }
    }

    async fn wait_task_metered(
        &self,
        handle: &TaskHandle,
        options: &CallOptions,
        meter: &Arc<CallMeter>,
    ) -> Result<CallToolResult> {
        let method = method::TASKS_GET;
        let (live, _) = self.connection().link_for_call(method, &CallOptions::new(), meter).await?;
        self.check_dialect(handle, &live, method)?;
        let left = handle.ttl.map_or(DEFAULT_TASK_TTL, |ttl| {
            // The last poll is made after the lifetime has ended.
            ttl.saturating_sub(handle.age(SystemTime::now())).saturating_add(TTL_GRACE)
        });
        let total = options.total.unwrap_or(left);
        let followed = TaskWait {
            method,
            handle,
            state: None,
            notifications: None,
            purpose: format!("task {}", handle.id.chars().take(MAX_SHOWN_ID_CHARS).collect::<String>())
                .into(),
            limits: Limits { idle: options.idle.unwrap_or(total), total },
            options,
            drop_policy: TaskDropPolicy::Keep,
            meter: Arc::clone(meter),
        };
        let result = Box::pin(self.connection().wait_for_task(followed)).await?;
        self.connection().server.decode_result(method, &result, CallToolResult::decode(&result))
    }

    /// Lists our tasks on the server, over all pages. Only some servers of 2025-11-25 offer this;
    /// otherwise it is [`ErrorKind::NotOffered`]. Dropping the future cancels it.
    // TA-05, TN-10
    pub async fn list_tasks(&self) -> Result<List<Task>> {
        let method = method::TASKS_LIST;
        let live = self.live_link(method).await?;
        if !supports_task_list(&live) {
            return Err(self.connection().server.not_offered("list of tasks", method));
        }
        self.connection().fetch_all(&live, method, &CallOptions::new()).await
    }

    /// Asks the server to cancel a task and returns its state after that. The state need not be
    /// canceled: the server may take its time, and the task may still complete. An ended task keeps
    /// its state.
    ///
    /// Dropping the future may leave the server untold.
    // TN-06
    pub async fn cancel_task(&self, handle: &TaskHandle) -> Result<Task> {
        let method = method::TASKS_CANCEL;
        let live = self.link_for_handle(handle, method).await?;
        if handle.dialect == TaskDialect::Experiment
            && live.peer.capabilities.get_path(&["tasks", "cancel"]).is_none()
        {
            return Err(self.connection().server.not_offered("cancelling of tasks", method));
        }
        match self.request_for_task(method, handle).await {
            // A server of 2025-11-25 answers with the state.
            Ok(json) if handle.dialect == TaskDialect::Experiment && json.member("taskId").is_some() => {
                self.connection().server.decode_task_state(method, handle, &json)
            }
            Ok(_) => self.task(handle).await,
            // The task is unknown or has ended.
            Err(error) if matches!(error.kind(), ErrorKind::Task(TaskEnd::NotFound)) => {
                self.task(handle).await
            }
            Err(error) => Err(error),
        }
    }

    /// Creates a handle for a task from [`Client::list_tasks`]. The creation time is the server's.
    pub fn task_handle(&self, task: &Task) -> TaskHandle {
        let created = task.created_at().and_then(|at| timestamp::parse(&at));
        TaskHandle::new(task, created.unwrap_or_else(SystemTime::now))
    }

    /// Creates a handle for a stored task id, in the form of this connection. Creation time and
    /// lifetime are unknown.
    ///
    /// Nothing is sent: it waits while the connection is being made. Dropping the future has no effect.
    pub async fn task_by_id(&self, id: &str) -> Result<TaskHandle> {
        let live = self.live_link(method::TASKS_GET).await?;
        Ok(TaskHandle::from_id(id, dialect(&live), SystemTime::now()))
    }

    /// Returns a link whose revision has the handle's form of tasks.
    async fn link_for_handle(&self, handle: &TaskHandle, method: &str) -> Result<Arc<LiveLink>> {
        let live = self.live_link(method).await?;
        self.check_dialect(handle, &live, method)?;
        Ok(live)
    }

    fn check_dialect(&self, handle: &TaskHandle, live: &LiveLink, method: &str) -> Result<()> {
        if dialect(live) == handle.dialect {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Task(TaskEnd::WrongRevision), &self.connection().server.name, method))
    }

    async fn request_for_task(&self, method: &'static str, handle: &TaskHandle) -> Result<Json> {
        let connection = self.connection();
        let options = poll_options(connection.server.timeouts.idle, &CallOptions::new());
        let meter = Arc::new(CallMeter::start());
        let answered = connection.request_for_task(method, &handle.id, None, options, meter).await;
        answered.map_err(|failure| match failure {
            Failure::Server(error) if error.code == code::INVALID_PARAMS => {
                Error::new(ErrorKind::Task(TaskEnd::NotFound), &connection.server.name, method)
            }
            failure => connection.server.request_error(method, failure),
        })
    }

    /// Calls a tool of 2025-11-25 that can only be called as a task, and waits for the result
    /// (TA-01). Dropping the future cancels the task.
    pub(crate) async fn call_as_required_task(
        &self,
        live: &Arc<LiveLink>,
        ask: CallRequest<'_>,
    ) -> Result<Json> {
        let (connection, method, options) = (self.connection(), method::TOOLS_CALL, ask.options);
        let told = connection.events.subscribe();
        match call_as_task(connection, live, ask).await? {
            TaskCallResult::Result(result) => Ok(result),
            TaskCallResult::Task(task, _) => {
                connection
                    .wait_for_task(TaskWait {
                        method,
                        handle: &TaskHandle::new(&task, SystemTime::now()),
                        state: Some(&task),
                        notifications: Some(told),
                        purpose: crate::connection::describe_request(method, ask.params),
                        limits: connection.server.limits(options),
                        options,
                        drop_policy: TaskDropPolicy::Cancel,
                        // The requests about the task are no attempts of the call.
                        meter: Arc::new(CallMeter::start()),
                    })
                    .await
            }
        }
    }
}

/// The response to a call that was requested as a task.
enum TaskCallResult {
    /// The task, and the result that created it.
    Task(Task, Json),
    /// The server answered at once instead.
    Result(Json),
}

/// Calls a tool of 2025-11-25 as a task (TA-02).
async fn call_as_task(
    connection: &Arc<Connection>,
    live: &Arc<LiveLink>,
    ask: CallRequest<'_>,
) -> Result<TaskCallResult> {
    let CallRequest { method, params, options, .. } = ask;
    let millis = |ttl: Duration| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
    let task = options.task.ttl.map_or_else(Edit::new, |ttl| Edit::new().set_int("ttl", millis(ttl)));
    let task = task.apply(None).expect("a new object is one");
    // Whoever relays a call may have written what it wants of the task.
    let own = params.and_then(|params| params.member("task")).filter(Json::is_object);
    let task = own.as_ref().unwrap_or(&task);
    let params = Edit::new().set("task", task).apply(params).expect("params are an object");
    let tracked = TaskProgress::new(options.progress.clone());
    let mut tracking = options.clone();
    tracking.task.progress = Some(Arc::clone(&tracked));
    let ask = CallRequest { params: Some(&params), options: &tracking, ..ask };
    let result = connection.perform_unobserved(live, ask).await.map(|(result, _)| result);
    match result {
        Ok(result) if result.member("task").is_some_and(|task| task.is_object()) => {
            let task = connection.server.decode_result(
                method,
                &result,
                Task::decode_created(&result, TaskDialect::Experiment),
            );
            match &task {
                Ok(task) => tracked.set_task(&task.id),
                Err(_) => connection.engine.progress_tokens.remove(&tracked),
            }
            task.map(|task| TaskCallResult::Task(task, result))
        }
        other => {
            connection.engine.progress_tokens.remove(&tracked);
            other.map(TaskCallResult::Result)
        }
    }
}

/// Whether a tool of 2025-11-25 may be called as a task. Lists the tools if that was not done yet.
async fn fetch_task_support(
    connection: &Arc<Connection>,
    live: &Arc<LiveLink>,
    tool: &str,
    options: &CallOptions,
) -> Result<TaskSupport> {
    if !supports_task_calls(live) {
        return Ok(TaskSupport::Forbidden);
    }
    if connection.lists.task_support(tool).is_none() {
        let limits = connection.server.limits(options);
        let limits = CallOptions::new().idle_timeout(limits.idle).timeout(limits.total);
        connection.list_tools(live, &limits).await?;
    }
    Ok(connection.lists.task_support(tool).unwrap_or_default())
}

/// Whether a tool can only be called as a task (TA-01). `None` if the tools were not listed yet.
pub(crate) fn is_required(connection: &Connection, live: &LiveLink, tool: &str) -> Option<bool> {
    // Cheap checks first: hardly any server has such tools.
    if live.peer.revision != Revision::V2025_11_25 || !supports_task_calls(live) {
        return Some(false);
    }
    match connection.lists.task_support(tool) {
        Some(support) => Some(support == TaskSupport::Required),
        None if live.is_unlistable() => Some(false),
        None => None,
    }
}

/// Whether a tool can only be called as a task, listing the tools if needed. Servers react
/// differently to a wrong kind of call, so it is worth knowing. If listing fails, the call is sent
/// as usual.
///
/// The list is fetched within the call's own timeout.
pub(crate) async fn fetch_is_required(
    connection: &Arc<Connection>,
    live: &Arc<LiveLink>,
    tool: &str,
    options: &CallOptions,
) -> bool {
    let Ok(support) = fetch_task_support(connection, live, tool, options).await else {
        live.mark_unlistable();
        return false;
    };
    support == TaskSupport::Required
}

/// Whether the server accepts tool calls as tasks (TA-01).
fn supports_task_calls(live: &LiveLink) -> bool {
    live.peer.revision == Revision::V2025_11_25
        && live.peer.capabilities.get_path(&["tasks", "requests", "tools", "call"]).is_some()
}

fn supports_task_list(live: &LiveLink) -> bool {
    live.peer.era() == Era::Legacy && live.peer.capabilities.get_path(&["tasks", "list"]).is_some()
}

fn dialect(live: &LiveLink) -> TaskDialect {
    match live.peer.era() {
        Era::Legacy => TaskDialect::Experiment,
        Era::Modern => TaskDialect::Extension,
    }
}

fn notify_task_listener(options: &CallOptions, task: &Task) {
    if let Some(listener) = &options.task.listener {
        listener(task);
    }
}

/// Assumed lifetime of a task if the server does not give one.
const DEFAULT_TASK_TTL: Duration = Duration::from_secs(24 * 60 * 60);
/// How much longer than its lifetime a task is waited for.
const TTL_GRACE: Duration = Duration::from_secs(60);
/// Maximum length of a task id that is shown to a person.
const MAX_SHOWN_ID_CHARS: usize = 80;

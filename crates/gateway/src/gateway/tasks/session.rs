//! Requests of hosts of 2025-11-25 about their tasks.
// Group TA

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bowline::types::{Task, TaskDialect, TaskStatus, code, method};
use bowline::{CallOptions, HandlerResult, Json, RpcError};
use bowline_proto::server::task_states::{state_for_experiment, with_related_task};
use bowline_proto::wire::object::Edit;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, timeout};

use super::super::session::HostSession;
use super::super::upstream::{HostTasks, SessionLink, UpstreamUse, Upstreams};
use super::owners::{TaskHandler, TaskHost, TaskOwner};
use super::{FoundTask, task_error, unknown_task};
use crate::error_response::{self, unknown_method};
use crate::exposed_result::with_exposed_uris;
use crate::open_calls::OpenCall;
use crate::task_id::TaskPlace;

/// The tasks of one session, for `tasks/list`, with their last known states.
///
/// Their ids are recorded with the session, which begins with requests for them after a restart. What a
/// server lists itself cannot be used, since it can be of other hosts.
#[derive(Default)]
pub(in super::super) struct SessionTasks(Mutex<VecDeque<ListedTask>>);

#[derive(Clone)]
struct ListedTask {
    task: FoundTask,
    /// `None` if it was not fetched yet.
    state: Option<Json>,
}

/// Most tasks of a session that are listed. The oldest make room; their ids stay valid.
const MAX_LISTED_TASKS: usize = 100;
/// How long the list waits for the states of servers. Then it has those that were known before.
const LIST_WAIT: Duration = Duration::from_secs(5);
/// How long the response to a cancellation waits for a server that cancels in its own time.
const CANCEL_WAIT: Duration = Duration::from_secs(2);
const CANCEL_POLL_INTERVAL: Duration = Duration::from_millis(50);

impl SessionTasks {
    pub(super) fn insert(&self, task: FoundTask, state: Option<Json>) {
        let mut listed = self.0.lock();
        match listed.iter_mut().find(|listed| listed.task.id == task.id) {
            Some(known) => known.state = state.or(known.state.take()),
            None => listed.push_back(ListedTask { task, state }),
        }
        while listed.len() > MAX_LISTED_TASKS {
            listed.pop_front();
        }
    }

    /// Takes note of the state of a task, which is listed from now on: also one that the host knows
    /// from before a restart.
    fn record(&self, task: &FoundTask, state: &Json) {
        self.insert(task.clone(), Some(state.clone()));
    }

    fn remove(&self, id: &str) {
        self.0.lock().retain(|listed| *listed.task.id != *id);
    }

    fn all(&self) -> Vec<ListedTask> {
        self.0.lock().iter().cloned().collect()
    }
}

impl HostSession {
    /// Answers a request about tasks. `None` if it is another request. Without tasks that the host could
    /// have, there is no such method; no server is asked, since the task could be of another host.
    // SE-09
    pub(in super::super) async fn answer_task_request(
        &self,
        upstreams: &Upstreams,
        open: &Arc<OpenCall>,
        method: &str,
        params: Option<&Json>,
    ) -> Option<HandlerResult> {
        let is_known = matches!(
            method,
            method::TASKS_GET | method::TASKS_RESULT | method::TASKS_CANCEL | method::TASKS_LIST
        );
        if !is_known {
            return None;
        }
        if upstreams.host_tasks() != HostTasks::Experiment
            || !upstreams.catalog().offers_tasks(self.gateway.list_wait).await
        {
            return Some(Err(unknown_method(method)));
        }
        if method == method::TASKS_LIST {
            return Some(self.list_tasks(upstreams, params).await);
        }
        let task = match self.gateway.tasks.find(&upstreams.audience(), params) {
            Ok(task) => task,
            Err(error) => return Some(Err(error)),
        };
        Some(match method {
            method::TASKS_GET => self.task_state(upstreams, &task).await,
            method::TASKS_CANCEL => self.cancel_task(upstreams, &task).await,
            _ => self.task_result(upstreams, open, &task).await,
        })
    }

    /// Lists the task that a request names from now on. It is called in the order of the requests of the
    /// host, so that the list has what it asked for before.
    pub(in super::super) fn list_task(&self, upstreams: &Upstreams, params: Option<&Json>) {
        if let Ok(task) = self.gateway.tasks.find(&upstreams.audience(), params) {
            self.tasks.insert(task, None);
        }
    }

    /// The state of a task, as of now.
    async fn task_state(&self, upstreams: &Upstreams, task: &FoundTask) -> HandlerResult {
        let fetched = self.fetch_state(upstreams, task).await;
        match fetched {
            Ok(state) => {
                let state = state_for_experiment(&state, &task.id);
                self.tasks.record(task, &state);
                Ok(state)
            }
            Err(error) => {
                if error.code == code::INVALID_PARAMS {
                    self.tasks.remove(&task.id);
                }
                Err(error)
            }
        }
    }

    /// Fetches the state of a task, as its server writes it.
    async fn fetch_state(&self, upstreams: &Upstreams, task: &FoundTask) -> Result<Task, RpcError> {
        let Some(handle) = task.record.handle() else {
            return self.kept_task(task).map(|kept| kept.state);
        };
        let used = upstreams.connect(&task.record.server).ok_or_else(unknown_task)??;
        Self::remember_owner(&used, task, &handle.id);
        let client = &used.connection.client;
        let state = client.task(&handle).await.map_err(|error| task_error(&used.upstream, client, &error))?;
        if state.status.is_terminal() {
            used.connection.task_owners.remove(&handle.id);
        }
        Ok(state)
    }

    fn kept_task(&self, task: &FoundTask) -> Result<super::KeptTask, RpcError> {
        match task.record.place {
            TaskPlace::Kept(number) => self.gateway.tasks.kept(task, number),
            TaskPlace::Server { .. } => Err(unknown_task()),
        }
    }

    /// Takes note that the task is of this session, for what its server asks and reports. After a
    /// restart nothing else says so.
    fn remember_owner(used: &UpstreamUse, task: &FoundTask, server_id: &str) {
        if !used.connection.task_owners.is_known(server_id, &task.id)
            && let Some(owner) = Self::new_owner(used, task)
        {
            used.connection.task_owners.insert(server_id, owner);
        }
    }

    fn new_owner(used: &UpstreamUse, task: &FoundTask) -> Option<Arc<TaskOwner>> {
        let session: SessionLink = used.upstream.session()?.clone();
        let timeout = used.upstream.server.config.timeouts.total;
        Some(TaskOwner::new(&task.id, TaskHost::Session(session), timeout))
    }

    /// Waits for a task to end. Returns what the call would have returned.
    // TA-04
    async fn task_result(
        &self,
        upstreams: &Upstreams,
        open: &Arc<OpenCall>,
        task: &FoundTask,
    ) -> HandlerResult {
        let Some(handle) = task.record.handle() else {
            return self.kept_task(task).map(|kept| with_related_task(&kept.result, &task.id));
        };
        let used = upstreams.connect(&task.record.server).ok_or_else(unknown_task)??;
        let (upstream, client) = (&used.upstream, &used.connection.client);
        let Some(_permit) = upstream.count_call() else {
            return Err(error_response::too_many_requests(&upstream.server.config.name));
        };
        // The server answers when there is a result, and at the interval of its polls only if it fails to.
        let mut options = CallOptions::new().fetch_task_result_early();
        // It takes the place of another session of the same hosts, which has left.
        let owner = Self::new_owner(&used, task);
        if let Some(owner) = &owner {
            owner.attach(open);
            used.connection.task_owners.insert(&handle.id, Arc::clone(owner));
            if handle.dialect == TaskDialect::Extension {
                // Such a server reports nothing by itself.
                let owner = Arc::clone(owner);
                options = options.on_task(move |state| owner.report_state(state));
            }
            let (owner, on_question) = (Arc::clone(owner), used.connection.question_observer());
            options = options.handler(TaskHandler { owner, on_question });
        }
        let waiting = Box::pin(client.wait_task(&handle, &options));
        let waited = tokio::select! {
            waited = waiting => Some(waited),
            () = open.request.wait_until_abandoned() => None,
        };
        // What the server said during the task comes before its end.
        used.connection.queue.wait_until_delivered().await;
        if let Some(owner) = owner {
            used.connection.task_owners.remove_owner(&handle.id, &owner);
        }
        // Nobody waits any more. The task goes on, and its result can be requested again.
        let Some(waited) = waited else { return Err(error_response::abandoned()) };
        let result = waited.map_err(|error| task_error(upstream, client, &error))?.result.json;
        let snapshot = upstreams.catalog().snapshot();
        let result = with_exposed_uris(result, &snapshot, &upstream.server.config.name);
        Ok(with_related_task(&result, &task.id))
    }

    /// Cancels a task, and returns its state after that.
    // CN-02, TA-05
    async fn cancel_task(&self, upstreams: &Upstreams, task: &FoundTask) -> HandlerResult {
        let state = self.fetch_state(upstreams, task).await?;
        if state.status.is_terminal() {
            let message = format!("Cannot cancel the task: it is {}", state.status.as_str());
            return Err(RpcError::new(code::INVALID_PARAMS, message));
        }
        let handle = task.record.handle().ok_or_else(unknown_task)?;
        let used = upstreams.connect(&task.record.server).ok_or_else(unknown_task)??;
        let client = &used.connection.client;
        let failed = |error: bowline::Error| task_error(&used.upstream, client, &error);
        let mut state = client.cancel_task(&handle).await.map_err(failed)?;
        // A server with the extension acts in its own time; this host expects the task to be canceled.
        let until = Instant::now() + CANCEL_WAIT;
        while handle.dialect == TaskDialect::Extension
            && matches!(state.status, TaskStatus::Working | TaskStatus::InputRequired)
            && Instant::now() < until
        {
            sleep(handle.poll_interval.unwrap_or_default().max(CANCEL_POLL_INTERVAL)).await;
            state = client.task(&handle).await.map_err(failed)?;
        }
        let state = state_for_experiment(&state, &task.id);
        self.tasks.record(task, &state);
        Ok(state)
    }

    /// The tasks of this session.
    // TA-05
    async fn list_tasks(&self, upstreams: &Upstreams, params: Option<&Json>) -> HandlerResult {
        let cursor = params.and_then(|params| params.member("cursor")).filter(|cursor| !cursor.is_null());
        if cursor.is_some() {
            return Err(RpcError::new(code::INVALID_PARAMS, "the cursor is unknown: lists have one page"));
        }
        let refresh = async {
            for ListedTask { task, state } in self.tasks.all() {
                let state = state.and_then(|state| Task::decode(&state, TaskDialect::Experiment).ok());
                let is_open = state.is_none_or(|state| !state.status.is_terminal());
                let is_kept = matches!(task.record.place, TaskPlace::Kept(_));
                if is_open || is_kept {
                    // It is recorded, or removed if it is gone. Otherwise the last known state stays.
                    let _ = self.task_state(upstreams, &task).await;
                }
            }
        };
        let _ = timeout(LIST_WAIT, refresh).await;
        let tasks: Vec<Json> = self.tasks.all().into_iter().filter_map(|listed| listed.state).collect();
        let tasks = Json::encode(&tasks).expect("a list is JSON");
        Ok(Edit::new().set("tasks", &tasks).apply(None).expect("a new object is one"))
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::task_id::TaskRecord;

    #[test]
    fn the_list_is_bounded_and_keeps_the_last_states() {
        let tasks = SessionTasks::default();
        let task = |number: usize| {
            let record = TaskRecord::kept("s", 0, Duration::ZERO, SystemTime::UNIX_EPOCH);
            FoundTask { id: number.to_string().into(), record }
        };
        for number in 0..=MAX_LISTED_TASKS {
            tasks.insert(task(number), None);
        }
        let ids: Vec<_> = tasks.all().into_iter().map(|listed| listed.task.id).collect();
        assert_eq!((ids.len(), &*ids[0]), (MAX_LISTED_TASKS, "1"));
        tasks.record(&task(1), &Json::empty_object());
        // A request for the task does not make its state unknown.
        tasks.insert(task(1), None);
        assert_eq!(tasks.all()[0].state, Some(Json::empty_object()));
        tasks.remove("1");
        assert_eq!(&*tasks.all()[0].task.id, "2");
    }
}

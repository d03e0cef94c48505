//! Tasks of hosts: calls that a host does not wait for, in either dialect, on servers of either
//! dialect.
//!
//! The gateway keeps no state of a task that is on its server: the id that a host has says where the
//! task is, and each request about it is made there. So a task outlives the gateway. Kept in memory
//! is only what cannot be had again: results of calls that a server answered at once, though the host
//! wanted a task, and the questions of a server that asks in requests of its own.
// GW-14, GW-16

mod kept_results;
mod owners;
mod questions;
mod session;
mod stateless;
mod task_call;

use std::time::{Duration, SystemTime};

use bowline::types::{Task, TaskDialect, code};
use bowline::{Client, ErrorKind, Json, RpcError, TaskEnd};
use bowline_proto::server::task_states::{ended_state, is_tool_error};
use bowline_proto::timestamp;
use parking_lot::Mutex;

use super::upstream::Upstream;
use crate::task_id::{TaskKey, TaskPlace, TaskRecord};
use kept_results::KeptResults;
pub(super) use owners::TaskOwners;
use questions::TaskFollowers;
pub(super) use session::SessionTasks;
pub(super) use stateless::{StatelessTask, TaskIssuer};
pub(super) use task_call::{TaskCall, without_task};

/// What the gateway knows of tasks.
pub(super) struct Tasks {
    key: TaskKey,
    kept: Mutex<KeptResults>,
    /// The tasks of hosts without a session whose servers ask in requests of their own.
    followers: TaskFollowers,
}

/// A task that a host names, and may name.
#[derive(Clone)]
pub(super) struct FoundTask {
    /// Its id, as the host knows it.
    pub(super) id: Box<str>,
    pub(super) record: TaskRecord,
}

/// A task whose result is kept here.
struct KeptTask {
    /// Its state, in the form of 2025-11-25.
    state: Task,
    result: Json,
}

/// For how long a result is kept if the host does not say.
const DEFAULT_KEPT_TTL: Duration = Duration::from_secs(10 * 60);
/// For how long a result is kept at most.
const MAX_KEPT_TTL: Duration = Duration::from_secs(60 * 60);

impl Tasks {
    pub(super) fn new(key: TaskKey) -> Self {
        Self { key, kept: Mutex::default(), followers: TaskFollowers::default() }
    }

    /// Waits for no task any more that hosts without a session have. The tasks go on.
    pub(super) fn stop_following(&self) {
        self.followers.close();
    }

    /// Gives a new task of a server an id for the hosts of this audience.
    fn expose(&self, audience: &str, server: &str, task: &Task) -> Result<FoundTask, RpcError> {
        let record = TaskRecord::of_server(server, task, SystemTime::now());
        let id = self.key.seal(audience, &record);
        let id = id.ok_or_else(|| RpcError::new(code::INTERNAL_ERROR, "the task cannot be given an id"))?;
        Ok(FoundTask { id, record })
    }

    /// Keeps the answer to a call that the host wanted to be a task.
    fn keep(
        &self,
        audience: &str,
        server: &str,
        result: Json,
        ttl: Option<Duration>,
    ) -> Result<(FoundTask, Task), RpcError> {
        let now = SystemTime::now();
        let ttl = ttl.unwrap_or(DEFAULT_KEPT_TTL).min(MAX_KEPT_TTL);
        let number = self.kept.lock().insert(result, (now, ttl));
        let record = TaskRecord::kept(server, number, ttl, now);
        let id = self.key.seal(audience, &record);
        let id = id.ok_or_else(|| RpcError::new(code::INTERNAL_ERROR, "the task cannot be given an id"))?;
        let task = FoundTask { id, record };
        let state = self.kept(&task, number)?.state;
        Ok((task, state))
    }

    /// The task whose answer is kept under this number.
    fn kept(&self, task: &FoundTask, number: u64) -> Result<KeptTask, RpcError> {
        let kept = self.kept.lock();
        let entry = kept.get(number, SystemTime::now()).ok_or_else(unknown_task)?;
        let is_failed = is_tool_error(&entry.result);
        let ttl = u64::try_from(entry.ttl.as_millis()).unwrap_or(u64::MAX);
        let state = ended_state(&task.id, is_failed, &timestamp::format(entry.since), ttl);
        let state = Task::decode(&state, TaskDialect::Experiment).expect("it has a valid state");
        Ok(KeptTask { state, result: entry.result.clone() })
    }

    /// The task that the params of a request name, if it is one of this audience. All others are
    /// unknown: an id proves nothing about who sends it.
    // SE-09
    pub(super) fn find(&self, audience: &str, params: Option<&Json>) -> Result<FoundTask, RpcError> {
        let id: Option<String> = params.and_then(|params| params.member("taskId")?.decode().ok());
        let id = id.ok_or_else(|| RpcError::new(code::INVALID_PARAMS, "params need taskId"))?;
        self.find_by_id(audience, &id).ok_or_else(unknown_task)
    }

    pub(super) fn find_by_id(&self, audience: &str, id: &str) -> Option<FoundTask> {
        let record = self.key.open(audience, id, SystemTime::now())?;
        if let TaskPlace::Kept(number) = record.place
            && self.kept.lock().get(number, SystemTime::now()).is_none()
        {
            return None;
        }
        Some(FoundTask { id: id.into(), record })
    }
}

/// The error for a request about a task that does not exist, or not for this host.
// TA-05, TN-09
fn unknown_task() -> RpcError {
    RpcError::new(code::INVALID_PARAMS, "Task not found")
}

/// The error response to a request about a task that failed.
fn task_error(upstream: &Upstream, client: &Client, error: &bowline::Error) -> RpcError {
    match error.kind() {
        ErrorKind::Task(TaskEnd::Cancelled) => RpcError::new(code::INTERNAL_ERROR, "The task was cancelled"),
        ErrorKind::Task(_) => unknown_task(),
        _ => upstream.error_response(client, error),
    }
}

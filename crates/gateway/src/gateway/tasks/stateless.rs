//! Tasks of hosts of 2026-07-28 that declare the tasks extension.
// Group TN

use std::sync::Arc;
use std::time::Duration;

use bowline::types::{Task, TaskDialect, TaskStatus, code, method};
use bowline::{CallOptions, HandlerResult, Json, RpcError};
use bowline_proto::server::modern::input::InputRetry;
use bowline_proto::server::task_states::{
    TaskDetail, created_for_extension, created_task, state_for_extension,
};
use bowline_proto::wire::object::Edit;
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::super::Shared;
use super::super::shared_upstreams::UpstreamLease;
use super::super::upstream::{Upstream, UpstreamUse};
use super::questions::FollowedTask;
use super::{FoundTask, task_error, unknown_task};
use crate::catalog::Snapshot;
use crate::exposed_result::with_exposed_uris;
use crate::forwarded_call::call_options;
use crate::task_id::TaskPlace;

/// Gives tasks of servers ids for one host.
pub(in super::super) struct TaskIssuer {
    pub(in super::super) gateway: Arc<Shared>,
    pub(in super::super) audience: String,
}

impl TaskIssuer {
    /// The answer to a call that may have become a task, for the host.
    // TN-01, TN-03
    pub(in super::super) fn expose_answer(
        &self,
        upstream: &Upstream,
        snapshot: &Snapshot,
        answer: Json,
    ) -> HandlerResult {
        let server = &upstream.server.config.name;
        let created =
            created_task(&answer).map_err(|defect| crate::error_response::unusable_task(server, &defect))?;
        let Some(created) = created else {
            return Ok(with_exposed_uris(answer, snapshot, server));
        };
        let task = self.gateway.tasks.expose(&self.audience, server, &created)?;
        Ok(created_for_extension(&state_for_extension(&created, &task.id, &TaskDetail::None)))
    }
}

/// A task that a host without a session asks about.
pub(in super::super) struct StatelessTask {
    pub(in super::super) gateway: Arc<Shared>,
    /// The connections of the host.
    pub(in super::super) lease: UpstreamLease,
    /// What the host can be asked.
    pub(in super::super) capabilities: Json,
    pub(in super::super) task: FoundTask,
}

/// The interval between polls for a host that listens, if the server names none.
const DEFAULT_POLL_INTERVAL: Duration = Duration::from_secs(1);
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(50);
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(60);

impl StatelessTask {
    /// Answers a request of the tasks extension.
    pub(in super::super) async fn answer(&self, method: &str, params: Option<&Json>) -> HandlerResult {
        match method {
            method::TASKS_GET => self.state().await,
            method::TASKS_UPDATE => self.update(params).await,
            _ => self.cancel().await,
        }
    }

    /// The state of the task, with its result or its questions.
    // TN-04, TN-05
    async fn state(&self) -> HandlerResult {
        let id = &self.task.id;
        let Some(handle) = self.task.record.handle() else {
            let kept = self.kept()?;
            return Ok(state_for_extension(&kept.state, id, &TaskDetail::Outcome(Ok(kept.result))));
        };
        let used = self.connect()?;
        let (upstream, client) = (&used.upstream, &used.connection.client);
        let failed = |error: bowline::Error| task_error(upstream, client, &error);
        let state = client.task(&handle).await.map_err(failed)?;
        let snapshot = self.lease.catalog().snapshot();
        let exposed = |result: Json| with_exposed_uris(result, &snapshot, &upstream.server.config.name);
        let detail = match (state.dialect, state.status) {
            (TaskDialect::Extension, _) => {
                let shown = state_for_extension(&state, id, &TaskDetail::None);
                let Some(result) = state.result() else { return Ok(shown) };
                let shown = Edit::new().set("result", &exposed(result)).apply(Some(&shown));
                return Ok(shown.expect("a state is an object"));
            }
            (TaskDialect::Experiment, TaskStatus::Completed | TaskStatus::Failed) => {
                match Box::pin(client.wait_task(&handle, &CallOptions::new())).await {
                    Ok(result) => TaskDetail::Outcome(Ok(exposed(result.result.json))),
                    Err(error) => match error.server_error() {
                        Some(error) => TaskDetail::Outcome(Err(error.clone())),
                        None => return Err(failed(error)),
                    },
                }
            }
            (TaskDialect::Experiment, TaskStatus::InputRequired) => {
                let questions = self.follow(used)?.questions().await;
                if questions.is_empty() { TaskDetail::None } else { TaskDetail::Inputs(questions) }
            }
            (TaskDialect::Experiment, _) => TaskDetail::None,
        };
        Ok(state_for_extension(&state, id, &detail))
    }

    /// Waits for the task, so that its server asks what it has to.
    fn follow(&self, used: UpstreamUse) -> Result<Arc<super::questions::TaskFollower>, RpcError> {
        let handle = self.task.record.handle().ok_or_else(unknown_task)?;
        self.gateway.tasks.followers.follow(FollowedTask {
            audience: self.lease.audience().into(),
            id: self.task.id.clone(),
            handle,
            used,
            lease: self.lease.clone(),
            capabilities: self.capabilities.clone(),
            idle_timeout: self.gateway.input_timeout,
        })
    }

    /// Passes the answers of the host on. The state shows what comes of them.
    // TN-05, TN-06
    async fn update(&self, params: Option<&Json>) -> HandlerResult {
        let invalid = || RpcError::new(code::INVALID_PARAMS, "inputResponses must be an object");
        let responses = InputRetry::parse(params).ok().flatten().ok_or_else(invalid)?;
        match &self.task.record.place {
            TaskPlace::Kept(_) => self.kept().map(|_| Json::empty_object()),
            TaskPlace::Server { dialect: TaskDialect::Experiment, .. } => {
                // A follower of an earlier process is gone with its questions, which are asked again.
                if let Some(follower) = self.gateway.tasks.followers.get(&self.task.id) {
                    follower.answer(&responses)?;
                }
                Ok(Json::empty_object())
            }
            TaskPlace::Server { dialect: TaskDialect::Extension, id } => {
                let used = self.connect()?;
                let (upstream, client) = (&used.upstream, &used.connection.client);
                let edit = Edit::new().set_str("taskId", id).set("inputResponses", &responses.responses);
                let params = edit.apply(None).expect("a new object is one");
                let options = call_options(&upstream.server.config.timeouts);
                let updated = client.request_with(method::TASKS_UPDATE, &params, &options).await;
                updated.map_err(|error| task_error(upstream, client, &error))?;
                Ok(Json::empty_object())
            }
        }
    }

    /// Asks the server to cancel the task. The state shows what comes of it.
    // CN-02, TN-06
    async fn cancel(&self) -> HandlerResult {
        let Some(handle) = self.task.record.handle() else {
            return self.kept().map(|_| Json::empty_object());
        };
        let used = self.connect()?;
        let (upstream, client) = (&used.upstream, &used.connection.client);
        match client.cancel_task(&handle).await {
            Ok(_) => Ok(Json::empty_object()),
            // To cancel is a wish: a server that cannot goes on.
            Err(error) if matches!(error.kind(), bowline::ErrorKind::NotOffered(_)) => {
                Ok(Json::empty_object())
            }
            Err(error) => Err(task_error(upstream, client, &error)),
        }
    }

    fn kept(&self) -> Result<super::KeptTask, RpcError> {
        match self.task.record.place {
            TaskPlace::Kept(number) => self.gateway.tasks.kept(&self.task, number),
            TaskPlace::Server { .. } => Err(unknown_task()),
        }
    }

    fn connect(&self) -> Result<UpstreamUse, RpcError> {
        self.lease.connect(&self.task.record.server).ok_or_else(unknown_task)?
    }

    /// Sends each state of the task that differs from the one before, until it has ended or is gone.
    // TN-08
    pub(in super::super) async fn watch(self, states: mpsc::Sender<Json>) {
        let mut last = None;
        let mut pace = self.task.record.handle().and_then(|handle| handle.poll_interval);
        loop {
            match self.state().await {
                Ok(state) => {
                    let state = without_result_members(&state);
                    let task = Task::decode(&state, TaskDialect::Extension).ok();
                    pace = task.as_ref().and_then(|task| task.poll_interval).or(pace);
                    if last.as_ref() != Some(&state) {
                        if states.send(state.clone()).await.is_err() {
                            return;
                        }
                        last = Some(state);
                    }
                    if task.is_none_or(|task| task.status.is_terminal()) {
                        return;
                    }
                }
                Err(error) if error.code == code::INVALID_PARAMS => return,
                // The server may come back.
                Err(_) => {}
            }
            sleep(pace.unwrap_or(DEFAULT_POLL_INTERVAL).clamp(MIN_POLL_INTERVAL, MAX_POLL_INTERVAL)).await;
        }
    }
}

/// The state without what the result of `tasks/get` has beside it.
fn without_result_members(state: &Json) -> Json {
    let bare = Edit::new().remove("resultType").remove("_meta").apply(Some(state));
    bare.unwrap_or_else(|_| state.clone())
}

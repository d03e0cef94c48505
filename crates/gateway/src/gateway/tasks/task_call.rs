//! [`TaskCall`]: a call of a host of 2025-11-25 that asks for a task.
// TA-01, TA-02

use std::sync::Arc;
use std::time::Duration;

use bowline::types::{TaskSupport, code};
use bowline::{HandlerResult, Json, RpcError};
use bowline_proto::server::task_states::{created_for_experiment, created_task, state_for_experiment};
use bowline_proto::wire::object::Edit;

use super::super::request::{CallKind, CallOrigin, forward_call};
use super::super::session::HostSession;
use super::super::upstream::{UpstreamUse, Upstreams};
use super::Tasks;
use super::owners::{TaskHost, TaskOwner};
use crate::catalog::Snapshot;
use crate::open_calls::OpenCall;
use crate::task_id::TaskPlace;

/// A call of a host that is to become a task.
pub(in super::super) struct TaskCall<'a> {
    pub(in super::super) session: &'a HostSession,
    pub(in super::super) audience: String,
    pub(in super::super) open: Arc<OpenCall>,
    /// For how long the host wants the task to be kept.
    ttl: Option<Duration>,
}

impl<'a> TaskCall<'a> {
    /// The call that the params of `tools/call` request as a task. `None` if they do not.
    // TA-01
    pub(in super::super) fn parse(
        session: &'a HostSession,
        upstreams: &Upstreams,
        open: &Arc<OpenCall>,
        params: Option<&Json>,
    ) -> Option<Self> {
        let task = params?.member("task").filter(Json::is_object)?;
        let ttl = task.member("ttl").and_then(|ttl| ttl.decode::<u64>().ok()).map(Duration::from_millis);
        Some(Self { session, audience: upstreams.audience(), open: Arc::clone(open), ttl })
    }

    /// Refuses a tool that cannot be called as a task.
    // TA-01
    pub(in super::super) fn check_support(
        snapshot: &Snapshot,
        params: Option<&Json>,
    ) -> Result<(), RpcError> {
        let name: Option<String> = params.and_then(|params| params.member("name")?.decode().ok());
        let Some(name) = name else { return Ok(()) };
        match snapshot.task_support(&name) {
            TaskSupport::Forbidden => {
                let message = format!("the tool {name} cannot be called as a task");
                Err(RpcError::new(code::METHOD_NOT_FOUND, message))
            }
            TaskSupport::Optional | TaskSupport::Required => Ok(()),
        }
    }

    fn tasks(&self) -> &Tasks {
        &self.session.gateway.tasks
    }
}

/// The params without what requests a task: whether and how one is created is up to the gateway.
pub(in super::super) fn without_task(params: Option<Json>) -> Option<Json> {
    let stripped = params.as_ref().filter(|params| params.member("task").is_some());
    let stripped = stripped.and_then(|params| Edit::new().remove("task").apply(Some(params)).ok());
    stripped.or(params)
}

impl CallOrigin for TaskCall<'_> {
    async fn forward(
        &self,
        used: UpstreamUse,
        snapshot: &Snapshot,
        method: &str,
        params: Option<Json>,
    ) -> HandlerResult {
        let server: Box<str> = used.upstream.server.config.name.as_str().into();
        let connection = Arc::clone(used.connection.shared());
        let (session, response_timeout) =
            (used.upstream.session().cloned(), used.upstream.server.config.timeouts.max);
        let kind = CallKind::Task { ttl: self.ttl };
        let answer = forward_call(&self.open, used, snapshot, (method, params), kind).await?;
        let created =
            created_task(&answer).map_err(|defect| crate::error_response::unusable_task(&server, &defect))?;
        let (task, state) = match created {
            Some(created) => {
                let task = self.tasks().expose(&self.audience, &server, &created)?;
                if let Some(session) = session {
                    let owner = TaskOwner::new(&task.id, TaskHost::Session(session), response_timeout);
                    connection.task_owners.insert(&created.id, owner);
                }
                (task, created)
            }
            // The server has answered at once. The host waits for a task all the same.
            None => self.tasks().keep(&self.audience, &server, answer.clone(), self.ttl)?,
        };
        let state = state_for_experiment(&state, &task.id);
        if matches!(task.record.place, TaskPlace::Server { .. }) {
            self.open.request.record_task(&task.id).await;
        }
        self.session.tasks.insert(task, Some(state.clone()));
        Ok(created_for_experiment(&state, &answer))
    }
}

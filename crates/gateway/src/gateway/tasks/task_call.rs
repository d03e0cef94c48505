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
    /// The call that the params of `tools/call` request as a task. `None` if they do not. What cannot be understood
    /// refuses the call before anything runs, and so does a task that nobody could ask for any more.
    // TA-01
    pub(in super::super) fn parse(
        session: &'a HostSession,
        upstreams: &Upstreams,
        open: &Arc<OpenCall>,
        params: Option<&Json>,
    ) -> Result<Option<Self>, RpcError> {
        let Some(task) = params.and_then(|params| params.member("task")) else { return Ok(None) };
        let ttl = requested_ttl(&task)?;
        Ok(Some(Self { session, audience: upstreams.audience(), open: Arc::clone(open), ttl }))
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
            _ => Ok(()),
        }
    }

    fn tasks(&self) -> &Tasks {
        &self.session.gateway.tasks
    }
}

/// For how long the host wants its task to be kept, if it says so.
fn requested_ttl(task: &Json) -> Result<Option<Duration>, RpcError> {
    let refuse = |message: &str| RpcError::new(code::INVALID_PARAMS, message);
    if !task.is_object() {
        return Err(refuse("task has to be an object"));
    }
    let Some(ttl) = task.member("ttl").filter(|ttl| !ttl.is_null()) else { return Ok(None) };
    match ttl.decode::<f64>() {
        Ok(ttl) if ttl > 0.0 && ttl <= MAX_TTL_MS => {
            Ok(Some(Duration::from_secs_f64((ttl / 1000.0).max(0.001))))
        }
        _ => Err(refuse("task.ttl has to be a time in milliseconds that is greater than 0")),
    }
}

/// Longest lifetime of a task that a host can request, in milliseconds: a hundred years.
const MAX_TTL_MS: f64 = 100.0 * 366.0 * 24.0 * 60.0 * 60.0 * 1000.0;

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
            (used.upstream.session().cloned(), used.upstream.server.config.timeouts.total);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// TA-01: a call is refused before it runs if what it requests as a task cannot be understood.
    #[test]
    fn ta_01_a_malformed_task_is_refused() {
        let ttl = |task: &str| requested_ttl(&Json::try_from(task).unwrap());
        for (task, expected) in [
            ("{}", None),
            (r#"{"ttl":null}"#, None),
            (r#"{"ttl":60000}"#, Some(60_000)),
            (r#"{"ttl":1500.0}"#, Some(1_500)),
            (r#"{"ttl":1}"#, Some(1)),
        ] {
            assert_eq!(ttl(task).unwrap(), expected.map(Duration::from_millis), "{task}");
        }
        for task in ["5", "[]", "null", r#""x""#, "true"] {
            let error = ttl(task).unwrap_err();
            assert_eq!((error.code, &*error.message), (-32602, "task has to be an object"), "{task}");
        }
        for ttl_text in ["0", "-1", "-0.0", r#""60000""#, "[]", "{}", "true", "1e300"] {
            let error = ttl(&format!(r#"{{"ttl":{ttl_text}}}"#)).unwrap_err();
            assert_eq!(error.code, -32602, "{ttl_text}");
            assert_eq!(error.message, "task.ttl has to be a time in milliseconds that is greater than 0");
        }
    }
}

//! [`TaskOwners`]: which host the tasks on one connection belong to, and how it is asked something.
//!
//! A server of 2025-11-25 asks and reports on any stream, and names the task that it means. Nothing
//! else says which host that is, if several share the connection or no call is open.
// GW-15

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bowline::types::{Task, TaskDialect, method};
use bowline::{Handler, HandlerResult, Json, ServerRequest};
use bowline_proto::server::session::out_of_order;
use bowline_proto::server::task_states::{
    related_task, state_for_experiment, with_related_task, without_related_task,
};
use parking_lot::Mutex;
use tokio::time::timeout;

use super::super::members::QuestionObserver;
use super::super::questions::CallQuestions;
use super::super::upstream::SessionLink;
use crate::error_response;
use crate::open_calls::OpenCall;

/// The tasks on one connection that hosts know of, by the id of the server.
#[derive(Default)]
pub(in super::super) struct TaskOwners(Mutex<Owners>);

#[derive(Default)]
struct Owners {
    by_id: HashMap<Box<str>, Arc<TaskOwner>>,
    /// The ids in the order in which they were added.
    order: VecDeque<Box<str>>,
}

/// The host of one task.
pub(in super::super) struct TaskOwner {
    /// The id of the task, as the host knows it.
    id: Box<str>,
    host: TaskHost,
    /// The request of the host for the result. Over HTTP, questions go onto its stream.
    waiting: Mutex<Weak<OpenCall>>,
    /// How long the host may take to answer.
    response_timeout: Duration,
}

/// How the host of a task is reached.
pub(super) enum TaskHost {
    Session(SessionLink),
    /// It has no session, and finds the questions in the state of the task.
    Stateless(CallQuestions),
}

/// Most tasks of one connection whose hosts are remembered. The oldest make room: their hosts are
/// remembered anew when they ask for the task.
const MAX_OWNERS: usize = 1_000;

impl TaskOwners {
    /// Remembers the host of a task, in place of what was known before.
    pub(super) fn insert(&self, server_id: &str, owner: Arc<TaskOwner>) {
        let mut owners = self.0.lock();
        if owners.by_id.insert(server_id.into(), owner).is_none() {
            owners.order.push_back(server_id.into());
        }
        while owners.order.len() > MAX_OWNERS {
            if let Some(oldest) = owners.order.pop_front() {
                owners.by_id.remove(&oldest);
            }
        }
    }

    /// Whether the host is remembered that knows a task by this id.
    pub(super) fn is_known(&self, server_id: &str, id: &str) -> bool {
        self.0.lock().by_id.get(server_id).is_some_and(|owner| *owner.id == *id)
    }

    /// Forgets a host of a task, unless another one has taken its place.
    pub(super) fn remove_owner(&self, server_id: &str, owner: &Arc<TaskOwner>) {
        let is_same = |known: &Arc<TaskOwner>| Arc::ptr_eq(known, owner);
        if self.0.lock().by_id.get(server_id).is_some_and(is_same) {
            self.remove(server_id);
        }
    }

    /// Forgets a task that has ended.
    pub(super) fn remove(&self, server_id: &str) {
        let mut owners = self.0.lock();
        if owners.by_id.remove(server_id).is_some() {
            owners.order.retain(|id| **id != *server_id);
        }
    }

    /// The host of the task that a request of the server belongs to. `None` if it names none, or one
    /// that no host is known to have.
    pub(in super::super) fn owner_of(&self, request: &ServerRequest) -> Option<Arc<TaskOwner>> {
        let task = related_task(&request.params)?;
        self.0.lock().by_id.get(&*task).cloned()
    }

    /// Names the task that a message of the server belongs to by the id that its host knows.
    // GW-14, TA-04
    pub(in super::super) fn rename_task(&self, message: &Json) -> Json {
        let owner = related_task(message).and_then(|task| self.0.lock().by_id.get(&*task).cloned());
        match owner {
            Some(owner) => with_related_task(message, &owner.id),
            None => without_related_task(message),
        }
    }

    /// Passes a state that the server reports on to the host of the task.
    // TA-03
    pub(in super::super) fn report_state(&self, params: Option<&Json>) {
        let state = params.and_then(|params| Task::decode(params, TaskDialect::Experiment).ok());
        let Some(state) = state else { return };
        let owner = self.0.lock().by_id.get(&*state.id).cloned();
        if let Some(owner) = owner {
            owner.report_state(&state);
            if state.status.is_terminal() && owner.waiting.lock().strong_count() == 0 {
                self.remove(&state.id);
            }
        }
    }
}

impl TaskOwner {
    pub(super) fn new(id: &str, host: TaskHost, response_timeout: Duration) -> Arc<Self> {
        Arc::new(Self { id: id.into(), host, waiting: Mutex::default(), response_timeout })
    }

    /// Lets a request of the host wait for the result: over HTTP, questions go onto its stream.
    pub(super) fn attach(&self, call: &Arc<OpenCall>) {
        *self.waiting.lock() = Arc::downgrade(call);
    }

    /// Tells a host with a session of a state. A host that does not read misses it: it may rely on
    /// polls only.
    pub(super) fn report_state(&self, state: &Task) {
        if let TaskHost::Session(session) = &self.host
            && session.handshake.is_ready()
        {
            session.link.try_notify(method::TASK_STATUS, Some(&state_for_experiment(state, &self.id)));
        }
    }

    /// Asks the host what the server asks because of the task.
    // TA-04
    pub(in super::super) async fn ask(&self, request: ServerRequest) -> HandlerResult {
        match &self.host {
            TaskHost::Stateless(questions) => {
                let mut request = request;
                request.params = without_related_task(&request.params);
                questions.handle(request).await
            }
            TaskHost::Session(session) => {
                let params = with_related_task(&request.params, &self.id);
                let answer = async {
                    if !session.handshake.wait_until_ready().await {
                        return Err(out_of_order("the host was turned away"));
                    }
                    let waiting = self.waiting.lock().upgrade();
                    match waiting {
                        Some(call) => call.request.send_request(&request.method, &params).await,
                        None => session.link.send_request(&request.method, &params).await,
                    }
                };
                let answer = timeout(self.response_timeout, answer).await;
                // The server is told of the task by the id that it knows.
                answer.map_or_else(
                    |_| Err(error_response::host_timeout()),
                    |answer| answer.map(|result| without_related_task(&result)),
                )
            }
        }
    }
}

/// Handles what a server asks because of one task.
pub(super) struct TaskHandler {
    pub(super) owner: Arc<TaskOwner>,
    /// Called for each request of the server, if hosts with sessions use the connection.
    pub(super) on_question: Option<QuestionObserver>,
}

impl Handler for TaskHandler {
    fn capabilities(&self) -> Json {
        // Those of the connection count.
        Json::empty_object()
    }

    fn handle(&self, request: ServerRequest) -> Pin<Box<dyn Future<Output = HandlerResult> + Send + '_>> {
        if let Some(on_question) = &self.on_question {
            on_question();
        }
        Box::pin(self.owner.ask(request))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(id: &str) -> Arc<TaskOwner> {
        let (questions, _) = CallQuestions::new(true);
        TaskOwner::new(id, TaskHost::Stateless(questions), Duration::ZERO)
    }

    #[test]
    fn owners_are_bounded_and_the_latest_counts() {
        let owners = TaskOwners::default();
        for number in 0..=MAX_OWNERS {
            owners.insert(&number.to_string(), owner("mine"));
        }
        assert!(!owners.is_known("0", "mine") && owners.is_known("1", "mine"));
        assert!(!owners.is_known("1", "other"));
        let (first, second) = (owner("mine"), owner("mine"));
        owners.insert("1", Arc::clone(&first));
        owners.insert("1", Arc::clone(&second));
        owners.remove_owner("1", &first);
        assert!(owners.is_known("1", "mine"), "another one has taken its place");
        owners.remove_owner("1", &second);
        assert!(!owners.is_known("1", "mine"));
        assert_eq!(owners.0.lock().order.len(), MAX_OWNERS - 1);
    }
}

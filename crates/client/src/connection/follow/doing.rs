//! Performs the requests for one task: a poll, an input or an update at a time, and the result
//! request beside it.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bowline_proto::fault::Fault;
use bowline_proto::tasks::{Action, StateSource, TaskFollower, TaskHandle, TaskOutcome};
use bowline_proto::wire::object::Edit;
use bowline_proto::wire::view::{Task, TaskDialect, TaskStatus};
use bowline_proto::wire::{Json, method};

use super::TaskListener;
use crate::connection::call::FAR;
use crate::connection::{CallOptions, Failure, Shared};
use crate::error::Result;
use crate::events::Event;

/// Performs the actions of a [`TaskFollower`].
pub(super) struct Doing<'a> {
    pub(super) shared: &'a Arc<Shared>,
    pub(super) method: &'static str,
    pub(super) handle: &'a TaskHandle,
    pub(super) during: Arc<str>,
    /// Call options for requests about the task.
    pub(super) polls: CallOptions,
    pub(super) follow: TaskFollower,
    pub(super) seen: Seen<'a>,
    pub(super) work: Pending<Done>,
    pub(super) fetch: Pending<Result<Json, Failure>>,
    /// Why the last request got no answer; `None` if it got one.
    pub(super) trouble: Option<Fault>,
}

impl Doing<'_> {
    /// Starts an action. Returns the outcome if the task has ended.
    pub(super) fn perform(&mut self, action: Action) -> Option<TaskOutcome> {
        let request =
            |method, answers| self.shared.about_task(method, &self.handle.id, answers, self.polls.clone());
        match action {
            Action::PollState => {
                let get = request(method::TASKS_GET, None);
                self.work = Some(Box::pin(async { Done::State(get.await) }));
            }
            Action::FetchResult => self.fetch = Some(Box::pin(request(method::TASKS_RESULT, None))),
            Action::RequestInputs(wanted) => {
                let (shared, method, during) =
                    (Arc::clone(self.shared), self.method, Arc::clone(&self.during));
                let asking = async move { shared.ask_inputs(method, &wanted, during).await };
                self.work = Some(Box::pin(async { Done::Answers(asking.await) }));
            }
            Action::Update(answers) => {
                let answers = answers.iter().fold(Edit::new(), |edit, (key, json)| edit.set(key, json));
                let answers = answers.apply(None).expect("a new object is one");
                let update = request(method::TASKS_UPDATE, Some(answers));
                self.work = Some(Box::pin(async { Done::Updated(update.await) }));
            }
            Action::End(end) => return Some(end),
        }
        None
    }

    /// When the follower's timeout must be handled next.
    pub(super) fn due(&mut self, now: Instant) -> Instant {
        if self.handle.dialect == TaskDialect::Experiment {
            // A server of 2025-11-25 sends its own requests, and the time a person takes must not
            // count.
            if self.shared.is_serving() {
                self.follow.pause(now);
            } else {
                self.follow.resume(now);
            }
        }
        let due = self.follow.poll_timeout(now).unwrap_or(now).min(now + FAR);
        if self.fetch.is_some() { due.min(now + LOOK) } else { due }
    }

    pub(super) fn done(&mut self, done: Done) -> Result<()> {
        self.work = None;
        let now = Instant::now();
        match done {
            Done::State(Ok(json)) => {
                self.trouble = None;
                let task = self.shared.state(self.method, self.handle, &json)?;
                self.seen.tell(&task);
                self.follow.handle_state(now, &task, StateSource::Poll);
            }
            Done::State(Err(Failure::Server(error))) => self.follow.handle_poll_error(now, error),
            Done::State(Err(failure)) => {
                self.trouble = self.shared.passing(self.method, failure)?;
                self.follow.handle_poll_lost(now);
            }
            Done::Answers(answers) => self.follow.handle_inputs(now, answers?),
            Done::Updated(Ok(_)) => self.follow.handle_updated(now),
            Done::Updated(Err(Failure::Server(error))) => self.follow.handle_update_error(now, error),
            Done::Updated(Err(failure)) => {
                self.trouble = self.shared.passing(self.method, failure)?;
                self.follow.handle_update_lost(now);
            }
        }
        Ok(())
    }

    pub(super) fn fetched(&mut self, outcome: Result<Json, Failure>) -> Result<()> {
        self.fetch = None;
        let now = Instant::now();
        match outcome {
            Ok(result) => self.follow.handle_outcome(now, Ok(result)),
            Err(Failure::Server(error)) => self.follow.handle_outcome(now, Err(error)),
            Err(failure) => {
                self.trouble = self.shared.passing(self.method, failure)?;
                self.follow.handle_fetch_lost(now);
            }
        }
        Ok(())
    }

    pub(super) fn told(&mut self, event: &Event) {
        if let Some(task) = about(event, self.handle) {
            self.seen.tell(&task);
            self.follow.handle_state(Instant::now(), &task, StateSource::Notification);
        }
    }
}

/// The outcome of a finished request.
pub(super) enum Done {
    State(Result<Json, Failure>),
    Answers(Result<Vec<(Box<str>, Json)>>),
    Updated(Result<Json, Failure>),
}

pub(super) type Pending<T> = Option<Pin<Box<dyn Future<Output = T> + Send>>>;

/// Reports state changes of the task to the listener.
pub(super) struct Seen<'a> {
    pub(super) listener: Option<&'a TaskListener>,
    pub(super) last: Option<(TaskStatus, Option<String>, Option<String>)>,
}

impl Seen<'_> {
    pub(super) fn tell(&mut self, task: &Task) {
        let Some(listener) = self.listener else { return };
        let now = Some((task.status, task.last_updated_at(), task.status_message()));
        if self.last != now {
            self.last = now;
            listener(task);
        }
    }
}

/// The state in a notification about this task.
fn about(event: &Event, handle: &TaskHandle) -> Option<Task> {
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
pub(super) async fn slot<T>(pending: &mut Pending<T>) -> T {
    match pending {
        Some(pending) => pending.await,
        None => std::future::pending().await,
    }
}

/// How often it is checked whether a handler is working on a server request.
const LOOK: Duration = Duration::from_secs(1);

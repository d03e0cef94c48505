//! [`TaskFollowers`]: waits for tasks of servers of 2025-11-25 that require input, for hosts without a
//! session.
//!
//! Such a server asks in requests of its own while somebody waits for the result. A host of the tasks
//! extension finds the questions in the state of the task and answers when it likes, so somebody has
//! to wait in between. Nothing is lost with a follower: the server asks again when the next one
//! waits.
// GW-16, TN-05

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bowline::types::{InputRequests, code};
use bowline::{CallOptions, Json, RpcError, TaskHandle};
use bowline_proto::server::modern::input::{InputRetry, check_question};
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::task::AbortOnDropHandle;

use super::super::questions::{CallQuestions, MAX_OPEN_QUESTIONS, Question};
use super::super::shared_upstreams::UpstreamLease;
use super::super::upstream::UpstreamUse;
use super::owners::{TaskHandler, TaskHost, TaskOwner};
use crate::error_response;

/// The followers, by the id of their task as the host knows it. Clones share everything.
#[derive(Clone, Default)]
pub(super) struct TaskFollowers(Arc<Mutex<HashMap<Box<str>, Arc<TaskFollower>>>>);

/// Waits for one task, and holds the questions of its server.
pub(super) struct TaskFollower {
    /// Whose task it is.
    audience: Box<str>,
    state: Mutex<FollowerState>,
    /// Notified of each question.
    asked: Notify,
    task: Mutex<Option<AbortOnDropHandle<()>>>,
}

struct FollowerState {
    /// The questions without an answer, by their key.
    open: Vec<(Box<str>, Question)>,
    /// How many there were.
    count: usize,
    /// Begins the keys. A host never answers a key twice, so they differ from those of the follower
    /// before.
    prefix: String,
    /// When the host was last interested in the task.
    last_use: Instant,
}

/// What a follower needs to wait for a task.
pub(super) struct FollowedTask {
    /// Whose task it is.
    pub(super) audience: Box<str>,
    /// The id of the task, as the host knows it.
    pub(super) id: Box<str>,
    pub(super) handle: TaskHandle,
    pub(super) used: UpstreamUse,
    /// Keeps the connections open.
    pub(super) lease: UpstreamLease,
    /// What the host can be asked.
    pub(super) capabilities: Json,
    /// After how long without interest of the host the follower ends.
    pub(super) idle_timeout: Duration,
}

/// Most tasks that are waited for.
const MAX_FOLLOWERS: usize = 1_000;
/// Most tasks of one audience that are waited for.
const MAX_FOLLOWERS_PER_AUDIENCE: usize = 64;
/// Most questions of one task over all its followers' time. Further ones are refused.
const MAX_QUESTIONS: usize = 256;
/// How long the state of a task that requires input waits for the questions.
const QUESTION_WAIT: Duration = Duration::from_secs(2);
/// For how long questions that come after the first are asked together with it.
const COLLECT_TIME: Duration = Duration::from_millis(10);
/// How long a task is waited for after its questions were given up.
const GIVE_UP_TIME: Duration = Duration::from_secs(1);

impl TaskFollowers {
    /// The follower of a task, if there is one.
    pub(super) fn get(&self, id: &str) -> Option<Arc<TaskFollower>> {
        self.0.lock().get(id).cloned()
    }

    /// Begins to wait for a task, unless somebody does.
    pub(super) fn follow(&self, task: FollowedTask) -> Result<Arc<TaskFollower>, RpcError> {
        let mut followers = self.0.lock();
        if let Some(follower) = followers.get(&task.id) {
            return Ok(Arc::clone(follower));
        }
        let own = followers.values().filter(|follower| follower.audience == task.audience).count();
        if followers.len() >= MAX_FOLLOWERS || own >= MAX_FOLLOWERS_PER_AUDIENCE {
            return Err(error_response::too_many_questions());
        }
        let id = task.id.clone();
        let follower = Arc::new(TaskFollower {
            audience: task.audience.clone(),
            state: Mutex::new(FollowerState {
                open: Vec::new(),
                count: 0,
                prefix: format!("q{:08x}", fastrand::u32(..)),
                last_use: Instant::now(),
            }),
            asked: Notify::new(),
            task: Mutex::default(),
        });
        followers.insert(id.clone(), Arc::clone(&follower));
        drop(followers);
        let (all, running) = (self.clone(), Arc::clone(&follower));
        let handle = tokio::spawn(async move {
            running.run(task).await;
            all.0.lock().remove(&id);
        });
        *follower.task.lock() = Some(AbortOnDropHandle::new(handle));
        Ok(follower)
    }

    /// Ends all of them. Their tasks go on.
    pub(super) fn close(&self) {
        let followers = std::mem::take(&mut *self.0.lock());
        for follower in followers.into_values() {
            // The follower holds itself while it runs.
            drop(follower.task.lock().take());
        }
    }
}

impl TaskFollower {
    async fn run(&self, followed: FollowedTask) {
        let FollowedTask { id, handle, audience: _, used, lease, capabilities, idle_timeout } = followed;
        let (asking, mut questions) = CallQuestions::new(true);
        let response_timeout = used.upstream.server.config.timeouts.total;
        let owner = TaskOwner::new(&id, TaskHost::Stateless(asking), response_timeout);
        used.connection.task_owners.insert(&handle.id, Arc::clone(&owner));
        let handler = TaskHandler { owner: Arc::clone(&owner), on_question: None };
        let options = CallOptions::new().handler(handler);
        let ended = async {
            let mut waiting = std::pin::pin!(used.connection.client.wait_task(&handle, &options));
            tokio::select! {
                _ = &mut waiting => {}
                () = self.collect(&mut questions, &capabilities) => {}
                () = self.wait_until_idle(idle_timeout) => {
                    tracing::info!("a host did not ask about its task in time; its questions get no answer");
                    let open = std::mem::take(&mut self.state.lock().open);
                    for (_, question) in open {
                        question.give_up();
                    }
                    // The server is told before nobody waits for the task any more.
                    let _ = timeout(GIVE_UP_TIME, waiting).await;
                }
            }
        };
        ended.await;
        used.connection.task_owners.remove_owner(&handle.id, &owner);
        drop(lease);
    }

    /// Takes the questions of the server. Never returns while they can come.
    async fn collect(&self, questions: &mut mpsc::Receiver<Question>, capabilities: &Json) {
        while let Some(question) = questions.recv().await {
            self.add(question, capabilities);
        }
    }

    // GW-04
    fn add(&self, question: Question, capabilities: &Json) {
        if let Err(error) = check_question(&question.request, capabilities) {
            return question.answer(Err(error.refusal().error));
        }
        let mut state = self.state.lock();
        state.open.retain(|(_, question)| question.is_open());
        if state.count >= MAX_QUESTIONS || state.open.len() >= MAX_OPEN_QUESTIONS {
            drop(state);
            return question.answer(Err(error_response::too_many_questions()));
        }
        state.count += 1;
        let key = format!("{}-{}", state.prefix, state.count).into();
        state.open.push((key, question));
        drop(state);
        self.asked.notify_waiters();
    }

    async fn wait_until_idle(&self, limit: Duration) {
        loop {
            let until = self.state.lock().last_use + limit;
            if until <= Instant::now() {
                return;
            }
            sleep_until(until).await;
        }
    }

    /// The questions for the host. Waits for the first a short time.
    pub(super) async fn questions(&self) -> InputRequests {
        let asked = async {
            loop {
                let next = self.asked.notified();
                if !self.open().is_empty() {
                    return;
                }
                next.await;
            }
        };
        if timeout(QUESTION_WAIT, asked).await.is_ok() {
            tokio::time::sleep(COLLECT_TIME).await;
        }
        self.open()
    }

    fn open(&self) -> InputRequests {
        let mut state = self.state.lock();
        state.last_use = Instant::now();
        state.open.retain(|(_, question)| question.is_open());
        state.open.iter().map(|(key, question)| (key.clone(), question.request.clone())).collect()
    }

    /// Gives the server the answers of the host. Others than those to open questions are ignored, and
    /// questions without one stay. An invalid answer refuses all.
    pub(super) fn answer(&self, responses: &InputRetry) -> Result<(), RpcError> {
        let mut given = Vec::new();
        for (key, answer) in responses.answers(&self.open()).given {
            let answer =
                answer.map_err(|invalid| RpcError::new(code::INVALID_PARAMS, invalid.to_string()))?;
            given.push((key, answer));
        }
        let mut state = self.state.lock();
        for (key, answer) in given {
            if let Some(at) = state.open.iter().position(|(asked, _)| *asked == key) {
                state.open.remove(at).1.answer(Ok(answer));
            }
        }
        Ok(())
    }
}

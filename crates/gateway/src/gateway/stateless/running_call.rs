//! [`RunningCall`]: a call of a host without a session, which runs in a task of its own. It outlives
//! the request that began it, if a server asks the host something.

use std::collections::HashSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bowline::types::{LogLevel, method};
use bowline::{HandlerResult, Json, RpcError};
use bowline_proto::server::modern::Refusal;
use bowline_proto::server::modern::input::{InputRetry, check_question};
use bowline_proto::server::modern::methods::may_require_input;
use bowline_proto::server::modern::request::ModernRequest;
use bowline_proto::wire::meta;
use bowline_proto::wire::object::Edit;
use bowline_proto::wire::view::InputRequests;
use bowline_server::{BodyMemory, OpenRequest};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::task::AbortOnDropHandle;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::super::Shared;
use super::super::questions::{CallQuestions, MAX_OPEN_QUESTIONS, Question};
use super::super::request::{CallContext, CallOrigin, RoutedCall};
use super::super::shared_calls::CallHost;
use super::super::shared_upstreams::UpstreamLease;
use super::super::tasks::TaskIssuer;
use super::super::upstream::UpstreamUse;
use super::call_parking::HostRequest;
use crate::catalog::Snapshot;
use crate::error_response;
use crate::exposed_result::with_exposed_uris;
use crate::forwarded_call::{MAX_PROGRESS_BYTES, call_options};
use crate::trace;

/// A running call. Dropping it cancels the call on its server.
pub(super) struct RunningCall {
    result: AbortOnDropHandle<HandlerResult>,
    questions: mpsc::Receiver<Question>,
    /// The questions that wait for the host, by their key.
    open: Vec<(Box<str>, Question)>,
    /// The keys of all questions so far: none is used twice, so that no answer is taken for that to
    /// another question.
    // MR-08
    keys: HashSet<Box<str>>,
    /// How many rounds of questions there were.
    rounds: usize,
    current: Arc<CurrentRequest>,
    /// The lists by which the call was routed.
    snapshot: Arc<Snapshot>,
}

/// What a call begins with.
pub(super) struct CallStart {
    pub(super) gateway: Arc<Shared>,
    pub(super) lease: UpstreamLease,
    /// Gives a task of the server an id, if the host declares tasks.
    pub(super) tasks: Option<TaskIssuer>,
    pub(super) routed: RoutedCall,
    pub(super) method: Box<str>,
    pub(super) params: Option<Json>,
    /// The least severe log messages that the host wants. `None`: it wants none.
    pub(super) log_level: Option<LogLevel>,
    pub(super) memory: BodyMemory,
    /// Held until the call has ended or was canceled.
    pub(super) token: TaskTrackerToken,
}

/// What a call has come to.
pub(super) enum CallTurn {
    /// It has ended.
    Ended(HandlerResult),
    /// There are questions for the host.
    Asks,
}

/// For how long questions that come after the first are asked together with it.
const COLLECT_TIME: Duration = Duration::from_millis(10);
/// Most rounds of questions of one call. Further questions are refused.
// MR-06
pub(super) const MAX_ROUNDS: usize = 16;
/// Longest key of a server that hosts are asked under.
const MAX_KEY_BYTES: usize = 128;
/// How long a call that is given up may go on, to end by itself after its questions were answered.
const GIVE_UP_TIME: Duration = Duration::from_secs(1);

impl RunningCall {
    /// Starts a call, for which this request of the host waits first.
    pub(super) fn spawn(start: CallStart, request: &Arc<OpenRequest>, host: &HostRequest) -> Self {
        let CallStart { gateway, lease, tasks, routed, method, params, log_level, memory, token } = start;
        let (asking, questions) = CallQuestions::new(may_require_input(&method));
        // Before the call begins: what its server says at once is for that request.
        let current = Arc::new(CurrentRequest(Mutex::new(waiting_request(request, host))));
        let origin = StatelessOrigin { asking, current: Arc::clone(&current), log_level, tasks };
        let snapshot = Arc::clone(routed.snapshot());
        let result = tokio::spawn(async move {
            let context = CallContext { gateway: &gateway, upstreams: &lease, method: &method };
            let answer = routed.answer(context, &origin, params).await;
            drop((memory, token));
            answer
        });
        let result = AbortOnDropHandle::new(result);
        Self { result, questions, open: Vec::new(), keys: HashSet::new(), rounds: 0, current, snapshot }
    }

    /// Lets a request of the host wait for the call: it gets progress and log messages from now on.
    pub(super) fn attach(&self, request: &Arc<OpenRequest>, host: &HostRequest) {
        *self.current.0.lock() = waiting_request(request, host);
    }

    /// Waits until the call has ended, or has questions for a host with these capabilities.
    ///
    /// Dropping the future loses nothing.
    pub(super) async fn wait(&mut self, capabilities: &Json) -> CallTurn {
        loop {
            self.open.retain(|(_, question)| question.is_open());
            if self.rounds >= MAX_ROUNDS {
                // A host that sends no answers must not hold the call forever.
                self.refuse_questions(&error_response::too_many_questions());
            }
            if self.open.is_empty() {
                let first = tokio::select! {
                    biased;
                    ended = &mut self.result => {
                        return CallTurn::Ended(ended.unwrap_or_else(|_| Err(error_response::internal_error())));
                    }
                    Some(question) = self.questions.recv() => question,
                };
                self.add(first, capabilities);
            }
            let until = Instant::now() + COLLECT_TIME;
            while let Ok(Some(question)) = timeout_at(until, self.questions.recv()).await {
                self.add(question, capabilities);
            }
            self.open.retain(|(_, question)| question.is_open());
            if self.result.is_finished() {
                // Whatever was asked does not matter any more.
                self.open.clear();
            }
            if !self.open.is_empty() {
                self.rounds += 1;
                return CallTurn::Asks;
            }
        }
    }

    /// Adds a question to those for the host, or refuses it.
    // GW-04
    fn add(&mut self, question: Question, capabilities: &Json) {
        if self.rounds >= MAX_ROUNDS || self.open.len() >= MAX_OPEN_QUESTIONS {
            return question.answer(Err(error_response::too_many_questions()));
        }
        match check_question(&question.request, capabilities) {
            Ok(()) => {
                let key = self.choose_key(question.key.as_deref());
                self.open.push((key, question));
            }
            Err(error) => question.answer(Err(error.refusal().error)),
        }
    }

    /// A key that no question of the call had: that of the server, if possible.
    fn choose_key(&mut self, of_server: Option<&str>) -> Box<str> {
        let is_usable = |key: &&str| key.len() <= MAX_KEY_BYTES && !self.keys.contains(*key);
        let key: Box<str> = of_server.filter(is_usable).map_or_else(
            || {
                let mut numbered =
                    (self.keys.len() + 1..).map(|number| format!("q{number}").into_boxed_str());
                numbered.find(|key| !self.keys.contains(key)).expect("there are more numbers than keys")
            },
            Box::from,
        );
        self.keys.insert(key.clone());
        key
    }

    /// The questions for the host.
    pub(super) fn open_questions(&self) -> InputRequests {
        self.open.iter().map(|(key, question)| (key.clone(), question.request.clone())).collect()
    }

    /// The lists by which the call was routed.
    pub(super) fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// The answers of a retry to the questions. An invalid one refuses the retry.
    pub(super) fn find_answers(&self, retry: &InputRetry) -> Result<Vec<(Box<str>, Json)>, Refusal> {
        let given = retry.answers(&self.open_questions()).given.into_iter();
        given.map(|(key, answer)| Ok((key, answer.map_err(|invalid| invalid.refusal())?))).collect()
    }

    /// Gives the server the answers of the host. Questions without one stay.
    pub(super) fn answer(&mut self, answers: Vec<(Box<str>, Json)>) {
        for (key, answer) in answers {
            if let Some(at) = self.open.iter().position(|(asked, _)| *asked == key) {
                self.open.remove(at).1.answer(Ok(answer));
            }
        }
    }

    /// Answers all questions with an error.
    pub(super) fn refuse_questions(&mut self, error: &RpcError) {
        for (_, question) in self.open.drain(..) {
            question.answer(Err(error.clone()));
        }
    }

    /// Tells the server that its questions get no answer, and cancels the call unless it ends then.
    pub(super) async fn give_up(mut self) {
        self.open.drain(..).for_each(|(_, question)| question.give_up());
        let end = async {
            loop {
                tokio::select! {
                    biased;
                    _ = &mut self.result => return,
                    Some(question) = self.questions.recv() => question.give_up(),
                }
            }
        };
        if timeout(GIVE_UP_TIME, end).await.is_err() {
            tracing::debug!("a call whose host has left is canceled");
        }
    }
}

/// The request of the host that waits for a call, or that was the last to do so.
struct CurrentRequest(Mutex<WaitingRequest>);

/// A request of the host, and what it says about itself.
type WaitingRequest = (Weak<OpenRequest>, ModernRequest);

fn waiting_request(request: &Arc<OpenRequest>, host: &HostRequest) -> WaitingRequest {
    (Arc::downgrade(request), host.client.clone())
}

impl CurrentRequest {
    /// Sends progress to the host, if it wants any.
    // PR-02
    fn send_progress(&self, params: &Json) {
        let token = self.0.lock().1.progress_token.clone();
        if let Some(token) = token
            && let Ok(params) = Edit::new().set(meta::PROGRESS_TOKEN, &token).apply(Some(params))
        {
            self.send(method::PROGRESS, &params);
        }
    }

    /// Sends a notification on the stream of the request, if the host wants it and reads fast enough. A
    /// slow host must not delay the others that share the connection.
    // GW-09
    fn send(&self, method: &str, params: &Json) {
        let (request, client) = self.0.lock().clone();
        if params.as_bytes().len() <= MAX_PROGRESS_BYTES
            && let Some(request) = request.upgrade()
            && client.accepts_notification(method, Some(params))
        {
            request.try_notify(method, Some(params));
        }
    }
}

/// The host's end of a call without a session.
struct StatelessOrigin {
    asking: CallQuestions,
    current: Arc<CurrentRequest>,
    log_level: Option<LogLevel>,
    tasks: Option<TaskIssuer>,
}

impl StatelessOrigin {
    /// The end of the call that what a server says reaches.
    fn call_host(&self) -> CallHost {
        let current = Arc::clone(&self.current);
        CallHost {
            questions: self.asking.clone(),
            logs: Arc::new(move |params| current.send(method::LOG, params)),
        }
    }
}

impl CallOrigin for StatelessOrigin {
    async fn forward(
        &self,
        used: UpstreamUse,
        snapshot: &Snapshot,
        method: &str,
        params: Option<Json>,
    ) -> HandlerResult {
        let UpstreamUse { upstream, connection: connected } = used;
        let server = &upstream.server.config;
        let Some(_permit) = upstream.count_call() else {
            return Err(error_response::too_many_requests(&server.name));
        };
        let host = self.call_host();
        let (current, logs) = (Arc::clone(&self.current), Arc::clone(&host.logs));
        let mut options = call_options(&server.timeouts)
            .handler(self.asking.clone())
            .on_raw_progress(move |params| current.send_progress(&params));
        if let Some(level) = self.log_level {
            options = options.log_level(level).on_log(move |params| logs(&params));
            connected.enable_logs(level).await;
        }
        let open = connected.shared_calls.open(host);
        let params = params.map(trace::continue_trace);
        let client = &connected.client;
        let result = match &self.tasks {
            _ if method != method::TOOLS_CALL => client.request_with(method, &params, &options).await,
            // A host that declares tasks wants long calls to be some, and a tool that can be called as
            // one may take long.
            Some(_) => client.request_task(&params, &options).await,
            None => client.request_tool(&params, &options).await,
        };
        if self.log_level.is_some() {
            // What the server said during the call comes before its response.
            connected.queue.wait_until_delivered().await;
        }
        drop(open);
        match (result, &self.tasks) {
            (Ok(result), Some(tasks)) if method == method::TOOLS_CALL => {
                tasks.expose_answer(&upstream, snapshot, result)
            }
            (Ok(result), _) => Ok(with_exposed_uris(result, snapshot, &server.name)),
            (Err(error), _) => Err(upstream.error_response(&connected.client, &error)),
        }
    }
}

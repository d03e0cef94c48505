//! Resolves modern results that require input, with the handler that also serves legacy servers
//! (group MR).

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bowline_proto::client::calls::MAX_PAUSE;
use bowline_proto::client::session::Status;
use bowline_proto::fault::{Cause, Execution, Fault, Limit, Misbehavior};
use bowline_proto::wire::object::Edit;
use bowline_proto::wire::view::{InputRequests, InputRequired, ResultType, result_type};
use bowline_proto::wire::{Json, method};
use tokio::time::timeout;

use super::server_requests::ServerQuestion;
use crate::clock;
use crate::connection::call::{CallRequest, describe_request};
use crate::connection::{CallOptions, Connection, Failure, LiveLink};
use crate::error::Result;
use crate::handler::Handler;

impl Connection {
    /// Resolves a modern result by its type (BM-05): provides required input, a bounded number of
    /// times, and waits for tasks (MR-01 to MR-08). `spent` is how much of its total time the call
    /// has used.
    pub(crate) async fn resolve_input_required(
        self: &Arc<Self>,
        live: &Arc<LiveLink>,
        ask: CallRequest<'_>,
        mut result: Json,
        spent: Duration,
    ) -> Result<Json> {
        let CallRequest { method, params, options, .. } = ask;
        let mut live = Arc::clone(live);
        let broken =
            |misbehavior| self.server.request_error(method, Failure::Fault(Fault::protocol(misbehavior)));
        // The total timeout covers all rounds together, without the time that the host takes to
        // answer. Of that time at most `MAX_PAUSE` is left out, as for legacy servers.
        let limits = self.server.limits(options);
        let mut left = limits.total.saturating_sub(spent);
        let mut pause_left = MAX_PAUSE;
        for _ in 0..MAX_INPUT_ROUNDS {
            match result_type(&result) {
                ResultType::Complete => return Ok(result),
                ResultType::InputRequired if may_require_input(method) => {}
                // TN-02: a task is valid only for tool calls, and only if it was offered.
                ResultType::Task if method == method::TOOLS_CALL && self.server.declaration.has_tasks() => {
                    if options.raw {
                        return Ok(result);
                    }
                    let during = describe_request(method, params);
                    return self.wait_for_created_task(ask, during, &result, left).await;
                }
                ResultType::InputRequired | ResultType::Task | ResultType::Unknown(_) => {
                    return Err(broken(Misbehavior::UnknownResultType));
                }
            }
            let wanted = InputRequired::decode(&result).map_err(|_| broken(Misbehavior::BadResult))?;
            let (asked_at, counted) = (clock::now(), left.min(limits.idle));
            let collecting = self.build_retry_params(ask, &wanted);
            let Ok(retry) = timeout(pause_left.saturating_add(counted), collecting).await else {
                let limit = if left < limits.idle { Limit::Total } else { Limit::Idle };
                let fault = Fault::new(Cause::Timeout(limit));
                return Err(self.server.request_error(method, Failure::Fault(fault)));
            };
            let (retry, paused) = (retry?, clock::elapsed(asked_at));
            left = left.saturating_sub(paused.saturating_sub(pause_left));
            pause_left = pause_left.saturating_sub(paused);
            let round = CallOptions { total: Some(left), ..options.clone() };
            let begun = clock::now();
            let ask = CallRequest { params: Some(&retry), options: &round, ..ask };
            // The server has begun work, so the outcome of this round can no longer be "not
            // executed".
            let delivered = self.send_with_retry(&live, ask).await.map_err(|failure| match failure {
                Failure::Fault(fault) => Failure::Fault(fault.with_execution(Execution::Unknown)),
                other => other,
            });
            let (saved, given) = delivered.map_err(|failure| self.server.request_error(method, failure))?;
            live = saved.unwrap_or(live);
            result = given;
            left = left.saturating_sub(clock::elapsed(begun));
        }
        Err(broken(Misbehavior::TooManyInputRounds))
    }

    /// Builds the params of the retry: the original ones, the responses under their keys, and the
    /// state as it came (MR-02 to MR-05).
    async fn build_retry_params(&self, ask: CallRequest<'_>, wanted: &InputRequired) -> Result<Json> {
        let CallRequest { method, params, options, .. } = ask;
        let during = describe_request(method, params);
        let given = self.collect_inputs(options.handler.as_ref(), method, &wanted.requests, during).await?;
        let answers = given.iter().fold(Edit::new(), |answers, (key, answer)| answers.set(key, answer));
        let answers = answers.apply(None).map_err(|error| self.server.usage_error(method, error))?;
        let mut edit = Edit::new();
        if !given.is_empty() {
            edit = edit.set("inputResponses", &answers);
        }
        if let Some(state) = &wanted.state {
            edit = edit.set("requestState", state);
        }
        edit.apply(params).map_err(|error| self.server.usage_error(method, error))
    }

    /// Has the handler of a call, or that of the client, answer all input requests of a call or task.
    /// Fails if one is refused.
    ///
    /// The client's handler is asked one after the other. That of a call is asked all at once, since
    /// whoever answers for it may want to see what belongs together.
    pub(crate) async fn collect_inputs(
        &self,
        own_handler: Option<&Arc<dyn Handler>>,
        method: &str,
        wanted: &InputRequests,
        during: Arc<str>,
    ) -> Result<Vec<(Box<str>, Json)>> {
        // MR-07
        if let Some((_, request)) =
            wanted.iter().find(|(_, request)| !self.server.declaration.allows(&request.method))
        {
            let asked: String = request.method.chars().take(80).collect();
            let fault = Fault::protocol(Misbehavior::UndeclaredInput).with_note(asked);
            return Err(self.server.request_error(method, Failure::Fault(fault)));
        }
        let collecting = wanted.iter().map(|(key, request)| {
            let question = ServerQuestion {
                method: request.method.clone(),
                params: request.params.clone(),
                purpose: Some(Arc::clone(&during)),
                key: Some(key.clone()),
            };
            async move { Ok((key.clone(), self.collect_input(own_handler, method, question).await?)) }
        });
        if own_handler.is_some() {
            return try_join_all(collecting).await;
        }
        let mut given = Vec::with_capacity(wanted.len());
        for input in collecting {
            given.push(input.await?);
        }
        Ok(given)
    }

    async fn collect_input(
        &self,
        own_handler: Option<&Arc<dyn Handler>>,
        method: &str,
        question: ServerQuestion,
    ) -> Result<Json> {
        let mut status = self.links.status();
        let answer = tokio::select! {
            biased;
            answer = self.call_handler(own_handler, question) => answer,
            _ = status.wait_for(|status| *status == Status::Closed) => {
                let closed = Failure::Fault(Fault::new(Cause::Closed));
                return Err(self.server.request_error(method, closed));
            }
        };
        answer.map_err(|error| self.server.request_error(method, Failure::Declined(error)))
    }
}

/// Runs futures at once. Returns their values in order, or the first error, which drops the others.
async fn try_join_all<T>(futures: impl Iterator<Item = impl Future<Output = Result<T>>>) -> Result<Vec<T>> {
    let mut running: Vec<_> = futures.map(|future| (Box::pin(future), None)).collect();
    poll_fn(|cx| {
        for (future, value) in running.iter_mut().filter(|(_, value)| value.is_none()) {
            if let Poll::Ready(done) = future.as_mut().poll(cx) {
                *value = Some(done?);
            }
        }
        if running.iter().all(|(_, value)| value.is_some()) { Poll::Ready(Ok(())) } else { Poll::Pending }
    })
    .await?;
    Ok(running.into_iter().filter_map(|(_, value)| value).collect())
}

/// Whether a method may require input (MR-01).
fn may_require_input(method: &str) -> bool {
    matches!(method, method::TOOLS_CALL | method::PROMPTS_GET | method::RESOURCES_READ)
}

/// Maximum number of input rounds for one call (MR-06).
const MAX_INPUT_ROUNDS: usize = 16;

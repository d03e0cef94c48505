//! One call, from the caller's future to its single outcome.

mod audit;
mod link_wait;
mod meta;
mod meter;
mod probe;
mod request;
mod retry;
mod scope;
mod span;
pub(super) mod tasks;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bowline_proto::client::negotiation::Reply;
use bowline_proto::client::session::{Attempt, Event as SessionEvent};
use bowline_proto::fault::{Cause, Fault, Limit};
use bowline_proto::revision::Era;
use bowline_proto::wire::object::Edit;
use bowline_proto::wire::outgoing::{self, Frame};
use bowline_proto::wire::view::{ResultType, result_type};
use bowline_proto::wire::{Json, method};
use bowline_transport::http::HttpLink;
use bowline_transport::pipe::{PipeWriter, Urgency};
use http::HeaderMap;
use tokio::sync::oneshot;
use tracing::Instrument as _;

use super::engine::{DriverEvent, PendingRequest, SendState};
use super::failure::{RequestOutcome, closed_outcome};
use super::link::event_stream;
use super::link::exchange::Exchange;
use super::link::wire::Delivery;
use super::{CallOptions, Connection, Failure, LiveLink, Wire};
use crate::clock;
use crate::error::Result;
pub(crate) use audit::AuditLog;
pub(crate) use meter::CallMeter;
pub(crate) use request::{CallRequest, describe_request};
use retry::FirstFailure;
pub(crate) use scope::{CallScope, tool_name};

impl Connection {
    /// Sends a request and waits for its result.
    ///
    /// Dropping the future cancels the request on the server.
    pub(crate) async fn request(
        self: &Arc<Self>,
        method: &str,
        params: Option<&Json>,
        options: &CallOptions,
    ) -> Result<Json> {
        let meter = &CallMeter::start();
        let ask = CallRequest { method, params, options, meter };
        let mut scope = CallScope::begin(self, ask);
        let result = async {
            let changed = scope.pass_layers().await?;
            let ask = CallRequest { params: changed.as_ref().or(params), ..ask };
            match scope.span() {
                None => self.link_and_perform(ask).await,
                Some(span) => Box::pin(self.link_and_perform(ask).instrument(span)).await,
            }
        };
        let result = result.await;
        scope.finish(result, |result| scope::is_tool_error(method, result))
    }

    async fn link_and_perform(self: &Arc<Self>, ask: CallRequest<'_>) -> Result<Json> {
        let (live, left) = self.link_for_call(ask.method, ask.options, ask.meter).await?;
        let ask = CallRequest { options: left.as_deref().unwrap_or(ask.options), ..ask };
        self.perform_unobserved(&live, ask).await.map(|(result, _)| result)
    }

    /// Returns the live link, and waits for it if there is none. After a wait it also returns the
    /// options for the rest of the call, whose total limit the wait has used up in part.
    pub(crate) async fn link_for_call(
        &self,
        method: &str,
        options: &CallOptions,
        meter: &CallMeter,
    ) -> Result<(Arc<LiveLink>, Option<Box<CallOptions>>)> {
        if let Some(live) = self.links.live() {
            return Ok((live, None));
        }
        let (begun, prompts) = (clock::now(), self.login.prompt_time());
        let ready = self.wait_for_link_metered(options, meter).await;
        let live = ready.map_err(|failure| self.server.request_error(method, failure))?;
        // What a person took to log in does not count.
        let prompts = self.login.prompt_time().saturating_sub(prompts);
        let waited = clock::elapsed(begun).saturating_sub(prompts);
        let total = self.server.limits(options).total.saturating_sub(waited);
        Ok((live, Some(Box::new(CallOptions { total: Some(total), ..options.clone() }))))
    }

    /// Returns the live link. The wait for it, if there is none, is one of the meter.
    pub(crate) async fn wait_for_link_metered(
        &self,
        options: &CallOptions,
        meter: &CallMeter,
    ) -> Result<Arc<LiveLink>, Failure> {
        if let Some(live) = self.links.live() {
            return Ok(live);
        }
        let _wait = meter.start_wait();
        // Rare and large: boxed to keep it out of the future of every call.
        Box::pin(self.wait_for_link(self.server.link_timeout(options))).await
    }

    /// Sends a request on a given link and waits for its result. If the link is lost, the call
    /// continues on the next one.
    pub(crate) async fn request_on(
        self: &Arc<Self>,
        live: &Arc<LiveLink>,
        method: &str,
        params: Option<&Json>,
        options: &CallOptions,
    ) -> Result<Json> {
        let ask = CallRequest { method, params, options, meter: &CallMeter::start() };
        self.perform_request(live, ask).await.map(|(result, _)| result)
    }

    /// Sends a request and reports its end to observers. The flag is true if the result answers
    /// this very request, and false if it came from a later input round or a task.
    pub(crate) async fn perform_request(
        self: &Arc<Self>,
        live: &Arc<LiveLink>,
        ask: CallRequest<'_>,
    ) -> Result<(Json, bool)> {
        let mut scope = CallScope::begin(self, ask);
        let outcome = match scope.pass_layers().await {
            Ok(changed) => {
                let ask = CallRequest { params: changed.as_ref().or(ask.params), ..ask };
                match scope.span() {
                    None => self.perform_unobserved(live, ask).await,
                    Some(span) => Box::pin(self.perform_unobserved(live, ask).instrument(span)).await,
                }
            }
            Err(error) => Err(error),
        };
        scope.finish(outcome, |(result, _)| scope::is_tool_error(ask.method, result))
    }

    /// [`Connection::perform_request`] as a part of a call whose end is reported by its scope.
    pub(crate) async fn perform_unobserved(
        self: &Arc<Self>,
        live: &Arc<LiveLink>,
        ask: CallRequest<'_>,
    ) -> Result<(Json, bool)> {
        // A progress listener sees one call, however often and in however many rounds it is sent.
        let listening;
        let ask = match &ask.options.progress {
            None => ask,
            Some(listener) => {
                listening = CallOptions { progress: Some(listener.for_call()), ..ask.options.clone() };
                CallRequest { options: &listening, ..ask }
            }
        };
        let CallRequest { method, params, meter, .. } = ask;
        let (begun, waited) = (clock::now(), meter.waited());
        let delivered = match self.send_with_retry(live, ask).await {
            Err(Failure::Server(error)) if self.requires_url_elicitation(live, ask, &error) => {
                Box::pin(self.elicit_urls_and_retry(live, ask, error)).await
            }
            delivered => delivered,
        };
        let (saved, result) = delivered.map_err(|failure| self.server.request_error(method, failure))?;
        let live = saved.as_ref().unwrap_or(live);
        if live.peer.era() == Era::Legacy {
            self.record_replay_state(live, method, params);
            return Ok((result, true));
        }
        if result_type(&result) == ResultType::Complete {
            return Ok((result, true));
        }
        // A person may have logged in during a wait, so waits do not count here.
        let spent = clock::elapsed(begun).saturating_sub(meter.waited().saturating_sub(waited));
        Box::pin(self.resolve_input_required(live, ask, result, spent)).await.map(|result| (result, false))
    }

    /// Sends a request and retries it on failure. Returns the link that answered if it is not
    /// `live`.
    pub(crate) async fn send_with_retry(
        self: &Arc<Self>,
        live: &Arc<LiveLink>,
        ask: CallRequest<'_>,
    ) -> Result<(Option<Arc<LiveLink>>, Json), Failure> {
        if let Some(listener) = &ask.options.progress {
            listener.restart();
        }
        let (begun, generation) = (clock::now(), self.login.credentials_generation());
        let prompted = ask.meter.prompt_time();
        match self.send_once(live, ask).await {
            Ok(result) => {
                live.mark_proven();
                Ok((None, result))
            }
            // The rare path is boxed, so that the future of every call stays small.
            Err(failure) => {
                let prompt_time = ask.meter.prompt_time().saturating_sub(prompted);
                let was_heard_of = ask.meter.take_was_heard_of();
                let first = FirstFailure { started: begun, generation, prompt_time, was_heard_of, failure };
                let (live, result) = Box::pin(self.retry_request(live, ask, first)).await?;
                Ok((Some(live), result))
            }
        }
    }

    /// Sends one request once and waits for its outcome.
    pub(crate) async fn send_once(
        self: &Arc<Self>,
        live: &Arc<LiveLink>,
        ask: CallRequest<'_>,
    ) -> RequestOutcome {
        let CallRequest { method, params, options, meter } = ask;
        if self.login.identity().is_some_and(crate::auth::Identity::is_due) {
            let _wait = meter.start_wait();
            Box::pin(self.login.ensure_fresh_token(self.server.link_timeout(options))).await?;
        }
        let (sender, answer) = oneshot::channel();
        let (id, pace) = self.engine.begin_call(live, options, self.server.limits(options), sender)?;
        // Cancels the call if this future is dropped before the outcome.
        let guard = CallGuard { connection: self, id, options };
        let request = self.params_with_meta(live, params, options).and_then(|dressed| {
            let params = dressed.as_ref().or(params);
            outgoing::request(id, method, params, &live.meta, outgoing::ProgressMode::Wanted)
        });
        let Ok(frame) = request else {
            guard.finish_failed();
            return Err(Failure::Usage("params and their _meta must be objects"));
        };
        meter.count_attempt();
        let sending = OutgoingCall { live, guard, frame, answer };
        let outcome = match &live.wire {
            Wire::Pipe(writer) => sending.write_to_pipe(writer, pace).await,
            Wire::Http { link, headers } => {
                let headers = self.lists.call_headers(live, headers, method, params);
                sending.exchange(link, &headers).await
            }
            Wire::EventStream { post, headers } => sending.post_for_stream(post, headers).await,
        };
        outcome.map_err(|refused| {
            meter.record_failed(id, self.engine.take_failed(id));
            match refused {
                Refusal::Reply(reply) => live.judge_reply(&self.login, method, options.origin, reply),
                Refusal::Failure(failure) => failure,
            }
        })
    }

    /// Fails the calls whose deadline has passed. Returns the attempt of a link on which the server
    /// left a call unanswered.
    pub(crate) fn expire_calls(self: &Arc<Self>, now: Instant) -> Option<Attempt> {
        let mut unanswered = None;
        for (id, call, limit) in self.engine.take_expired_calls(now) {
            let unsent = call.sent == SendState::Unsent;
            if !unsent && limit == Limit::Idle {
                unanswered = Some(call.live.attempt);
                call.live.wire.forget_connections();
            }
            let mut fault = Fault::new(Cause::Timeout(limit));
            if unsent {
                fault = fault.not_executed();
            }
            // The outcome comes before the cancellation, so that what the server sends or closes in
            // response to the cancellation does not become the outcome.
            let _ = call.answer.send(Err(Failure::Fault(fault)));
            if !unsent {
                self.cancel_request(&call.live, id, "the call timed out");
            }
        }
        unanswered
    }

    /// Sends a notification. One that the server refuses is not sent again, but the session is probed,
    /// so that it is restored if the server forgot it.
    pub(crate) async fn notify(
        &self,
        live: &LiveLink,
        method: &str,
        params: Option<&Json>,
    ) -> std::result::Result<(), Fault> {
        let frame = outgoing::notification(method, params);
        if live.wire.send_one_way(&self.login, &frame).await? == Delivery::Refused {
            tracing::debug!(server = %self.server.name, method, "the server refused a notification");
            self.engine.send(DriverEvent::ServerSuspect(live.attempt));
        }
        Ok(())
    }

    /// Tells the server that a response is no longer wanted. Modern HTTP needs no message: dropping
    /// the exchange closes its stream (HM-12).
    pub(crate) fn cancel_request(self: &Arc<Self>, live: &Arc<LiveLink>, id: u64, reason: &str) {
        if live.wire.is_http() && live.peer.era() == Era::Modern {
            return;
        }
        let params = Edit::new().set_int("requestId", id).set_str("reason", reason).apply(None);
        let frame = outgoing::notification(method::CANCELLED, params.ok().as_ref());
        let (connection, live) = (Arc::clone(self), Arc::clone(live));
        let send = async move {
            if let Err(fault) = live.wire.send_one_way(&connection.login, &frame).await {
                tracing::debug!(server = %connection.server.name, %fault, "a cancellation was not delivered");
            }
        };
        self.background.spawn_send(send);
    }
}

/// A call on its way to the server: one method per carrier.
struct OutgoingCall<'a> {
    live: &'a Arc<LiveLink>,
    guard: CallGuard<'a>,
    frame: Frame,
    answer: oneshot::Receiver<RequestOutcome>,
}

/// A response other than a result, or a failure that needs no judgment.
enum Refusal {
    Reply(Reply),
    Failure(Failure),
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl OutgoingCall<'_> {
    async fn write_to_pipe(mut self, writer: &PipeWriter, pace: Urgency) -> Result<Json, Refusal> {
        let connection = self.guard.connection;
        // The pipe nearly always accepts the frame at once.
        let written = match writer.try_send(&self.frame, pace) {
            Ok(true) => Ok(()),
            Err(fault) => Err(fault),
            Ok(false) => match Box::pin(self.wait_for_pipe(writer)).await {
                PipeWait::Written(written) => written,
                PipeWait::CallEnded(outcome) => {
                    self.guard.disarm();
                    return Ok(outcome?);
                }
            },
        };
        if let Err(fault) = written {
            self.guard.finish_failed();
            if fault.cause == Cause::Closed {
                // The link was replaced at this moment, and its pipe closed. Nothing was sent.
                return Err(Failure::LinkSuperseded.into());
            }
            // A pipe that accepts nothing is unusable, even if messages still arrive.
            connection.links.retire(self.live.attempt);
            connection.engine.report_link_event(self.live.attempt, SessionEvent::LinkLost(fault.clone()));
            return Err(Failure::Fault(fault).into());
        }
        let outcome = self.answer.await.unwrap_or_else(|_| closed_outcome());
        self.guard.disarm();
        Ok(outcome?)
    }

    /// Waits until the pipe accepts the frame. The call's deadline keeps running, and the server
    /// knows nothing of the call yet.
    async fn wait_for_pipe(&mut self, writer: &PipeWriter) -> PipeWait {
        let (engine, id) = (&self.guard.connection.engine, self.guard.id);
        engine.mark_sent(id, SendState::Unsent);
        tokio::select! {
            biased;
            // A call that has ended is no longer sent.
            outcome = &mut self.answer => PipeWait::CallEnded(outcome.unwrap_or_else(|_| closed_outcome())),
            written = writer.send(&self.frame) => {
                engine.mark_sent(id, SendState::Sent);
                PipeWait::Written(written)
            }
        }
    }

    async fn exchange(self, link: &HttpLink, headers: &HeaderMap) -> Result<Json, Refusal> {
        let Self { live, guard, frame, mut answer } = self;
        let exchange = Exchange {
            connection: guard.connection,
            link,
            wire: &live.wire,
            id: guard.id,
            era: live.peer.era(),
            resume_wait: guard.options.resume_wait,
        };
        let exchange = exchange.run(frame.body(), headers);
        tokio::pin!(exchange);
        // The outcome comes through the table if the response arrived on another stream, the
        // deadline passed, or the connection was closed.
        tokio::select! {
            biased;
            reply = &mut exchange => {
                // A call that timed out has been canceled, and the server may have ended the
                // exchange because of that.
                if !matches!(reply, Reply::Result(_))
                    && let Ok(outcome) = answer.try_recv()
                {
                    guard.disarm();
                    return Ok(outcome?);
                }
                // Drop the receiver first: ending the call drops the sender, which would wake this
                // task for nothing.
                drop(answer);
                match reply {
                    Reply::Result(result) => {
                        guard.finish_answered();
                        Ok(result)
                    }
                    Reply::Error { .. } => {
                        guard.finish_refused();
                        Err(Refusal::Reply(reply))
                    }
                    reply => {
                        guard.finish_failed();
                        Err(Refusal::Reply(reply))
                    }
                }
            }
            outcome = &mut answer => {
                let outcome = outcome.unwrap_or_else(|_| closed_outcome());
                guard.disarm();
                Ok(outcome?)
            }
        }
    }

    async fn post_for_stream(self, post: &HttpLink, headers: &HeaderMap) -> Result<Json, Refusal> {
        let Self { live, guard, frame, mut answer } = self;
        let (connection, id) = (guard.connection, guard.id);
        let posting = event_stream::post(connection, &live.wire, id, post, frame.body(), headers);
        tokio::pin!(posting);
        let outcome = tokio::select! {
            biased;
            outcome = &mut answer => outcome.unwrap_or_else(|_| closed_outcome()),
            refused = &mut posting => match refused {
                Some(reply) => {
                    guard.finish_failed();
                    return Err(Refusal::Reply(reply));
                }
                None if connection.engine.mark_posted(live, id) => {
                    answer.await.unwrap_or_else(|_| closed_outcome())
                }
                None => {
                    connection.engine.end_failed_call(id);
                    // The response may have arrived at this moment.
                    answer.try_recv().unwrap_or_else(|_| {
                        let note = "the stream ended before the answer";
                        Err(Failure::Fault(Fault::new(Cause::Cut).with_note(note)))
                    })
                }
            },
        };
        guard.disarm();
        // A server may have kept the stream and lost the handshake.
        outcome.map_err(|failure| match failure {
            Failure::Server(error) => Refusal::Reply(Reply::Error { status: None, error, stray: false }),
            other => other.into(),
        })
    }
}

/// How waiting for the pipe ended.
enum PipeWait {
    Written(Result<(), Fault>),
    CallEnded(RequestOutcome),
}

/// Cancels the call on the server if its future is dropped before the outcome.
struct CallGuard<'a> {
    connection: &'a Arc<Connection>,
    id: u64,
    options: &'a CallOptions,
}

impl CallGuard<'_> {
    /// Removes the call, which failed without a response, from the table and disarms the guard.
    fn finish_failed(self) {
        self.connection.engine.end_failed_call(self.id);
        self.disarm();
    }

    /// Removes the call after a result of the server, which counts as a sign of life.
    fn finish_answered(self) {
        self.connection.engine.end_answered_call(self.id);
        self.disarm();
    }

    /// Removes the call after an error of the server, which counts as a sign of life.
    fn finish_refused(self) {
        self.connection.engine.end_refused_call(self.id);
        self.disarm();
    }

    /// Disarms the guard. The call is no longer in the table.
    fn disarm(self) {
        self.connection.inbound.cancel_requests_of_call(self.id);
        std::mem::forget(self);
    }
}

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        self.connection.inbound.cancel_requests_of_call(self.id);
        // CN-01: only a call that is still open is canceled.
        let (silence, open) = {
            let mut core = self.connection.engine.state();
            (core.calls.silence(clock::now(), self.id), core.calls.end(self.id))
        };
        if let Some(PendingRequest::Call(call)) = open
            && call.sent != SendState::Unsent
        {
            // CN-02: a call that polls a task is not canceled.
            if !self.options.task.is_poll {
                let reason = self.options.reason_for_cancel();
                let reason = reason.as_deref().unwrap_or("the caller no longer waits");
                self.connection.cancel_request(&call.live, self.id, reason);
            }
            // A host with a shorter timeout than ours has also noticed that the server does not
            // answer.
            if let Some((waited, left)) = silence
                && waited >= MIN_SUSPECT_SILENCE
            {
                call.live.wire.forget_connections();
                // Over HTTP, one hanging call says nothing about the others.
                if !call.live.wire.is_http() {
                    self.connection.engine.send(DriverEvent::CallAbandoned(call.live.attempt, self.id, left));
                }
            }
        }
    }
}

/// Minimum silence after which a dropped call makes the server suspect.
const MIN_SUSPECT_SILENCE: Duration = Duration::from_secs(5);

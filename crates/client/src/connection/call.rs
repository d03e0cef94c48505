//! One call, from the caller's future to its single outcome.

pub(super) mod audit;
pub(super) mod link_wait;
pub(super) mod meta;
pub(super) mod probe;
pub(super) mod retry;
pub(super) mod tasks;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bowline_proto::client::calls::{DeadlineCheck, Limits};
use bowline_proto::client::loss::Verdict;
use bowline_proto::client::negotiation::Reply;
use bowline_proto::client::session::{Attempt, Event as SessionEvent};
use bowline_proto::fault::{Cause, Fault, Limit};
use bowline_proto::revision::Era;
use bowline_proto::wire::object::{Edit, NotAnObject};
use bowline_proto::wire::outgoing;
use bowline_proto::wire::view::{ResultType, result_type};
use bowline_proto::wire::{Json, method};
use bowline_transport::pipe::{PipeWriter, Urgency};
use tokio::sync::oneshot;

use crate::connection::call::audit::CallAudit;
use crate::connection::call::retry::{CallRequest, FirstFailure};
use crate::connection::link::event_stream;
use crate::connection::link::exchange::Exchange;
use crate::connection::options::RequestOrigin;
use crate::connection::{
    CallOptions, DriverEvent, Failure, JudgedReply, LiveLink, PendingRequest, RequestOutcome, SendState,
    Shared, Wire,
};
use crate::error::{Error, ErrorKind, Result};

impl Shared {
    /// Sends a request and waits for its result.
    ///
    /// Dropping the future cancels the request on the server.
    pub(crate) async fn request(
        self: &Arc<Self>,
        method: &str,
        params: Option<&Json>,
        options: &CallOptions,
    ) -> Result<Json> {
        let live = self
            .wait_for_link(self.link_timeout(options))
            .await
            .map_err(|failure| self.request_error(method, failure))?;
        self.request_on(&live, method, params, options).await
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
        self.perform_request(live, CallRequest { method, params, options }).await.map(|(result, _)| result)
    }

    /// Sends a request and logs tool calls. The flag is true if the result answers this very
    /// request, and false if it came from a later input round or a task.
    pub(crate) async fn perform_request(
        self: &Arc<Self>,
        live: &Arc<LiveLink>,
        ask: CallRequest<'_>,
    ) -> Result<(Json, bool)> {
        let record = CallAudit::start(&self.name, ask.method, ask.params);
        let outcome = self.perform_unaudited(live, ask).await;
        if let Some(mut record) = record {
            record.set_outcome(&outcome, |(result, _)| result);
        }
        outcome
    }

    async fn perform_unaudited(
        self: &Arc<Self>,
        live: &Arc<LiveLink>,
        ask: CallRequest<'_>,
    ) -> Result<(Json, bool)> {
        let CallRequest { method, params, .. } = ask;
        let delivered = match self.send_with_retry(live, ask).await {
            Err(Failure::Server(error)) if self.requires_url_elicitation(live, ask, &error) => {
                Box::pin(self.elicit_urls_and_retry(live, ask, error)).await
            }
            delivered => delivered,
        };
        let (saved, result) = delivered.map_err(|failure| self.request_error(method, failure))?;
        let live = saved.as_ref().unwrap_or(live);
        if live.peer.era() == Era::Legacy {
            self.record_replay_state(live, method, params);
            return Ok((result, true));
        }
        if result_type(&result) == ResultType::Complete {
            return Ok((result, true));
        }
        Box::pin(self.resolve_input_required(live, ask, result)).await.map(|result| (result, false))
    }

    /// Sends a request and retries it on failure. Returns the link that answered if it is not
    /// `live`.
    pub(crate) async fn send_with_retry(
        self: &Arc<Self>,
        live: &Arc<LiveLink>,
        ask: CallRequest<'_>,
    ) -> Result<(Option<Arc<LiveLink>>, Json), Failure> {
        // A progress listener sees one call, however often the request is sent.
        let listening;
        let ask = match &ask.options.progress {
            None => ask,
            Some(listener) => {
                listening = CallOptions { progress: Some(listener.for_call()), ..ask.options.clone() };
                CallRequest { options: &listening, ..ask }
            }
        };
        let (begun, generation) = (Instant::now(), self.credentials_generation());
        match self.send_once(live, ask.method, ask.params, ask.options).await {
            Ok(result) => {
                live.mark_proven();
                Ok((None, result))
            }
            // The rare path is boxed, so that the future of every call stays small.
            Err(failure) => {
                let first = FirstFailure { started: begun, generation, failure };
                let (live, result) = Box::pin(self.retry_request(live, ask, first)).await?;
                Ok((Some(live), result))
            }
        }
    }

    /// Sends a notification.
    pub(crate) async fn notify(
        &self,
        live: &LiveLink,
        method: &str,
        params: Option<&Json>,
    ) -> Result<(), Fault> {
        self.send_one_way(&live.wire, &outgoing::notification(method, params)).await
    }

    /// Sends one request once and waits for its outcome.
    pub(crate) async fn send_once(
        self: &Arc<Self>,
        live: &Arc<LiveLink>,
        method: &str,
        params: Option<&Json>,
        options: &CallOptions,
    ) -> RequestOutcome {
        if let Some(auth) = &self.auth
            && auth.is_due()
        {
            Box::pin(self.ensure_fresh_token(self.link_timeout(options))).await?;
        }
        let (sender, mut answer) = oneshot::channel();
        let (id, pace) = self.begin_call(live, options, sender)?;
        // Cancels the call if this future is dropped before the outcome.
        let guard = CallGuard { shared: self, id, is_poll: options.task.is_poll };
        let request = self.params_with_meta(live, params, options).and_then(|dressed| {
            let params = dressed.as_ref().or(params);
            outgoing::request(id, method, params, &live.meta, outgoing::ProgressMode::Wanted)
        });
        let Ok(frame) = request else {
            guard.finish();
            return Err(Failure::Usage("params and their _meta must be objects"));
        };
        let outcome = match &live.wire {
            Wire::Pipe(writer) => {
                // The pipe nearly always accepts the frame at once.
                let handed = match writer.try_send(&frame, pace) {
                    Ok(true) => Ok(()),
                    Err(fault) => Err(fault),
                    Ok(false) => match Box::pin(self.wait_for_pipe(id, writer, &frame, &mut answer)).await {
                        PipeWait::Written(handed) => handed,
                        PipeWait::CallEnded(outcome) => {
                            guard.disarm();
                            return outcome;
                        }
                    },
                };
                if let Err(fault) = handed {
                    guard.finish();
                    // A pipe that accepts nothing is unusable, even if messages still arrive.
                    self.retire_link(live.attempt);
                    self.report_link_event(live.attempt, SessionEvent::LinkLost(fault.clone()));
                    return Err(Failure::Fault(fault));
                }
                answer.await.unwrap_or_else(|_| closed_outcome())
            }
            Wire::Http { link, headers } => {
                let headers = self.call_headers(live, headers, method, params);
                let exchange = Exchange { shared: self, link, wire: &live.wire, id, era: live.peer.era() };
                let exchange = exchange.run(frame.body(), &headers);
                tokio::pin!(exchange);
                // The outcome comes through the table if the response arrived on another stream,
                // the deadline passed, or the connection was closed.
                tokio::select! {
                    biased;
                    reply = &mut exchange => {
                        // Drop the receiver first: ending the call drops the sender, which would
                        // wake this task for nothing.
                        drop(answer);
                        if matches!(reply, Reply::Result(_) | Reply::Error { .. }) {
                            guard.finish_answered();
                        } else {
                            guard.finish();
                        }
                        return match reply {
                            Reply::Result(result) => Ok(result),
                            reply => Err(self.judge_reply(live, method, options, reply)),
                        };
                    }
                    outcome = &mut answer => outcome.unwrap_or_else(|_| closed_outcome()),
                }
            }
            Wire::EventStream { post, headers } => {
                let posting = event_stream::post(self, &live.wire, id, post, frame.body(), headers);
                tokio::pin!(posting);
                let outcome = tokio::select! {
                    biased;
                    outcome = &mut answer => outcome.unwrap_or_else(|_| closed_outcome()),
                    refused = &mut posting => match refused {
                        Some(reply) => {
                            guard.finish();
                            return Err(self.judge_reply(live, method, options, reply));
                        }
                        None if self.mark_posted(live, id) => answer.await.unwrap_or_else(|_| closed_outcome()),
                        None => {
                            self.core().calls.end(id);
                            // The response may have arrived at this moment.
                            answer.try_recv().unwrap_or_else(|_| {
                                let note = "the stream ended before the answer";
                                Err(Failure::Fault(Fault::new(Cause::Cut).with_note(note)))
                            })
                        }
                    },
                };
                // A server may have kept the stream and lost the handshake.
                outcome.map_err(|failure| match failure {
                    Failure::Server(error) => {
                        let reply = Reply::Error { status: None, error, stray: false };
                        self.judge_reply(live, method, options, reply)
                    }
                    other => other,
                })
            }
        };
        guard.disarm();
        outcome
    }

    /// Classifies a response other than a result: is it about the request, or about the session?
    fn judge_reply(&self, live: &LiveLink, method: &str, options: &CallOptions, reply: Reply) -> Failure {
        let verdict = reply.session_verdict(method, live.has_session, self.sends_credentials(live));
        let refused = JudgedReply { verdict, reply };
        match verdict {
            // For a probe, every response is evidence about the session.
            Verdict::Answer if options.origin != RequestOrigin::Probe => refused.into_failure(),
            _ => Failure::Session(Box::new(refused)),
        }
    }

    /// Waits until the pipe accepts a frame. The call's deadline keeps running, and the server
    /// knows nothing of the call yet.
    async fn wait_for_pipe(
        &self,
        id: u64,
        writer: &PipeWriter,
        frame: &outgoing::Frame,
        answer: &mut oneshot::Receiver<RequestOutcome>,
    ) -> PipeWait {
        self.mark_sent(id, SendState::Unsent);
        tokio::select! {
            biased;
            // A call that has ended is no longer sent.
            outcome = answer => PipeWait::CallEnded(outcome.unwrap_or_else(|_| closed_outcome())),
            handed = writer.send(frame) => {
                self.mark_sent(id, SendState::Sent);
                PipeWait::Written(handed)
            }
        }
    }

    /// Registers a call. The driver checks its deadline and is woken only if it would check too
    /// late, which happens about once a minute and not once per call.
    fn begin_call(
        &self,
        live: &Arc<LiveLink>,
        options: &CallOptions,
        answer: oneshot::Sender<RequestOutcome>,
    ) -> Result<(u64, Urgency), Failure> {
        let progress = options.progress.clone();
        let sent = match live.wire {
            Wire::EventStream { .. } => SendState::Posting,
            Wire::Pipe(_) | Wire::Http { .. } => SendState::Sent,
        };
        let waiter = PendingRequest::Call { answer, progress, live: Arc::clone(live), sent };
        let limits = self.limits(options);
        let now = Instant::now();
        let mut core = self.core();
        // The session replaces a link under the same lock, and then fails its calls; a call
        // registered later on that link would never end. A probe concerns the old session, which
        // can be reached over HTTP as long as its id is known.
        let may_be_late = options.origin == RequestOrigin::Probe && live.wire.is_http();
        if core.session.attempt() != live.attempt && !may_be_late {
            return Err(Failure::LinkSuperseded);
        }
        core.traffic.record_call(now);
        let id = core.calls.begin(now, limits, waiter);
        if let Some(tracked) = &options.task.progress {
            self.progress_tokens.insert(id, tracked);
        }
        let pace = if core.calls.len() > MAX_UNBATCHED_CALLS { Urgency::Batched } else { Urgency::Immediate };
        let due = now + limits.idle.min(limits.total).min(MAX_WAIT);
        if core.next_deadline_check.is_none_or(|watched| due < watched) {
            core.next_deadline_check = Some(due);
            drop(core);
            let _ = self.driver_events.send(DriverEvent::EarlierDeadline);
        }
        Ok((id, pace))
    }

    fn mark_sent(&self, id: u64, now: SendState) {
        if let Some(PendingRequest::Call { sent, .. }) = self.core().calls.get_mut(id) {
            *sent = now;
        }
    }

    /// Marks a POST as accepted. Returns whether the response can still arrive on the stream.
    fn mark_posted(&self, live: &LiveLink, id: u64) -> bool {
        self.mark_sent(id, SendState::Sent);
        self.core().session.attempt() == live.attempt
    }

    /// Fails the calls whose deadline has passed. Returns the attempt of a link on which the server
    /// left a call unanswered.
    pub(crate) fn expire_calls(self: &Arc<Self>, now: Instant) -> Option<Attempt> {
        let mut expired = Vec::new();
        {
            let mut core = self.core();
            if core.next_deadline_check.is_none_or(|watched| now < watched) {
                return None;
            }
            let ids: Vec<_> = core.calls.ids().collect();
            let mut next = None;
            for id in ids {
                match core.calls.check_deadline(now, id) {
                    DeadlineCheck::At(at) => next = Some(next.map_or(at, |next: Instant| next.min(at))),
                    DeadlineCheck::Expired(waiter, limit) => expired.push((id, waiter, limit)),
                    DeadlineCheck::Ended => {}
                }
            }
            core.next_deadline_check = next;
        }
        let mut unanswered = None;
        for (id, waiter, limit) in expired {
            if let PendingRequest::Call { answer, live, sent, .. } = waiter {
                if sent != SendState::Unsent && limit == Limit::Idle {
                    unanswered = Some(live.attempt);
                    live.wire.forget_connections();
                }
                let mut fault = Fault::new(Cause::Timeout(limit));
                if sent == SendState::Unsent {
                    fault = fault.not_executed();
                } else {
                    self.cancel_request(&live, id, "the call timed out");
                }
                let _ = answer.send(Err(Failure::Fault(fault)));
            }
        }
        unanswered
    }

    /// Tells the server that a response is no longer wanted. Modern HTTP needs no message: dropping
    /// the exchange closes its stream (HM-12).
    pub(crate) fn cancel_request(self: &Arc<Self>, live: &Arc<LiveLink>, id: u64, reason: &str) {
        if live.wire.is_http() && live.peer.era() == Era::Modern {
            return;
        }
        let params = Edit::new().set_int("requestId", id).set_str("reason", reason).apply(None);
        let frame = outgoing::notification(method::CANCELLED, params.ok().as_ref());
        let (shared, live) = (Arc::clone(self), Arc::clone(live));
        let send = async move {
            if let Err(fault) = shared.send_one_way(&live.wire, &frame).await {
                tracing::debug!(server = %shared.name, %fault, "a cancellation was not delivered");
            }
        };
        self.background.spawn_send(send);
    }

    pub(crate) fn limits(&self, options: &CallOptions) -> Limits {
        let idle = options.idle.unwrap_or(self.timeouts.call);
        Limits { idle, total: options.total.unwrap_or(self.timeouts.max.max(idle)) }
    }

    /// Maximum time that a call waits for a link.
    pub(crate) fn link_timeout(&self, options: &CallOptions) -> Duration {
        let limits = self.limits(options);
        limits.idle.min(limits.total)
    }

    pub(crate) fn fault_error(&self, method: &str, fault: Fault) -> Error {
        self.request_error(method, Failure::Fault(fault))
    }

    pub(crate) fn usage_error(&self, method: &str, error: NotAnObject) -> Error {
        Error::new(ErrorKind::Usage(error.to_string()), &self.name, method)
    }

    pub(crate) fn request_error(&self, method: &str, failure: Failure) -> Error {
        let kind = match failure {
            Failure::Server(error) => ErrorKind::Server(error),
            Failure::Fault(fault) => ErrorKind::Fault(fault),
            Failure::Declined(error) => ErrorKind::Declined(error),
            Failure::Usage(what) => ErrorKind::Usage(what.to_owned()),
            Failure::Session(refused) => return self.request_error(method, refused.into_failure()),
            Failure::LinkSuperseded => ErrorKind::Fault(Fault::before_sending(Cause::Closed)),
        };
        Error::new(kind, &self.name, method)
    }
}

/// How waiting for the pipe ended.
enum PipeWait {
    Written(Result<(), Fault>),
    CallEnded(RequestOutcome),
}

/// Cancels the call on the server if its future is dropped before the outcome.
struct CallGuard<'a> {
    shared: &'a Arc<Shared>,
    id: u64,
    /// Whether the call polls a task; then no cancellation is sent (CN-02).
    is_poll: bool,
}

impl CallGuard<'_> {
    /// Removes the call from the table and disarms the guard.
    fn finish(self) {
        self.shared.core().calls.end(self.id);
        self.disarm();
    }

    /// Removes the call after a response of the server, which counts as a sign of life.
    fn finish_answered(self) {
        let mut core = self.shared.core();
        core.traffic.record_reply();
        core.calls.end(self.id);
        drop(core);
        self.disarm();
    }

    /// Disarms the guard. The call is no longer in the table.
    fn disarm(self) {
        self.shared.cancel_server_requests_of_call(self.id);
        std::mem::forget(self);
    }
}

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        self.shared.cancel_server_requests_of_call(self.id);
        // CN-01: only a call that is still open is canceled.
        let (silence, open) = {
            let mut core = self.shared.core();
            (core.calls.silence(Instant::now(), self.id), core.calls.end(self.id))
        };
        if let Some(PendingRequest::Call { live, sent: SendState::Posting | SendState::Sent, .. }) = open {
            if !self.is_poll {
                self.shared.cancel_request(&live, self.id, "the caller no longer waits");
            }
            // A host with a shorter timeout than ours has also noticed that the server does not
            // answer.
            if let Some((waited, left)) = silence
                && waited >= MIN_SUSPECT_SILENCE
            {
                live.wire.forget_connections();
                // Over HTTP, one hanging call says nothing about the others.
                if !live.wire.is_http() {
                    let _ = self.shared.driver_events.send(DriverEvent::CallAbandoned(
                        live.attempt,
                        self.id,
                        left,
                    ));
                }
            }
        }
    }
}

/// The outcome of a call whose table was dropped, which happens only with the whole connection.
fn closed_outcome() -> RequestOutcome {
    Err(Failure::Fault(Fault::new(Cause::Closed)))
}

/// Minimum silence after which a dropped call makes the server suspect.
const MIN_SUSPECT_SILENCE: Duration = Duration::from_secs(5);

/// With more open calls than this, frames are batched.
const MAX_UNBATCHED_CALLS: usize = 8;

/// Maximum wait. `Instant + Duration::MAX` would overflow.
pub(crate) const MAX_WAIT: Duration = Duration::from_secs(86_400 * 365);

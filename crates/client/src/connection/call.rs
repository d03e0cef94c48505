//! One call, from the caller's future to its single outcome.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bowline_proto::calls::{DeadlineCheck, Limits};
use bowline_proto::era::Reply;
use bowline_proto::fault::{Cause, Fault, Limit};
use bowline_proto::loss::Verdict;
use bowline_proto::revision::Era;
use bowline_proto::session::{Attempt, Event as SessionEvent};
use bowline_proto::wire::object::{Edit, NotAnObject};
use bowline_proto::wire::outgoing;
use bowline_proto::wire::view::{ResultType, result_type};
use bowline_proto::wire::{Json, method};
use bowline_transport::pipe::{Pace, PipeWriter};
use tokio::sync::oneshot;

use super::event_stream;
use super::exchange::Exchange;
use super::options::Purpose;
use super::record::Record;
use super::retry::{Ask, FirstFailure};
use super::{CallOptions, Failure, JudgedReply, Live, News, Outcome, Sent, Shared, Waiter, Wire};
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
        let live = self.ready(self.patience(options)).await.map_err(|failure| self.error(method, failure))?;
        self.request_on(&live, method, params, options).await
    }

    /// Sends a request on a given link and waits for its result. If the link is lost, the call
    /// continues on the next one.
    pub(crate) async fn request_on(
        self: &Arc<Self>,
        live: &Arc<Live>,
        method: &str,
        params: Option<&Json>,
        options: &CallOptions,
    ) -> Result<Json> {
        self.answered(live, Ask { method, params, options }).await.map(|(result, _)| result)
    }

    /// Sends a request and logs tool calls. The flag is true if the result answers this very
    /// request, and false if it came from a later input round or a task.
    pub(super) async fn answered(self: &Arc<Self>, live: &Arc<Live>, ask: Ask<'_>) -> Result<(Json, bool)> {
        let record = Record::begin(&self.name, ask.method, ask.params);
        let outcome = self.conclude(live, ask).await;
        if let Some(mut record) = record {
            record.end(&outcome, |(result, _)| result);
        }
        outcome
    }

    async fn conclude(self: &Arc<Self>, live: &Arc<Live>, ask: Ask<'_>) -> Result<(Json, bool)> {
        let Ask { method, params, .. } = ask;
        let delivered = match self.deliver(live, ask).await {
            Err(Failure::Server(error)) if self.wants_pages(live, ask, &error) => {
                Box::pin(self.at_pages(live, ask, error)).await
            }
            delivered => delivered,
        };
        let (saved, result) = delivered.map_err(|failure| self.error(method, failure))?;
        let live = saved.as_ref().unwrap_or(live);
        if live.peer.era() == Era::Legacy {
            self.remember(live, method, params);
            return Ok((result, true));
        }
        if result_type(&result) == ResultType::Complete {
            return Ok((result, true));
        }
        Box::pin(self.rounds(live, ask, result)).await.map(|result| (result, false))
    }

    /// Sends a request and retries it on failure. Returns the link that answered if it is not
    /// `live`.
    pub(super) async fn deliver(
        self: &Arc<Self>,
        live: &Arc<Live>,
        ask: Ask<'_>,
    ) -> Result<(Option<Arc<Live>>, Json), Failure> {
        // A progress listener sees one call, however often the request is sent.
        let listening;
        let ask = match &ask.options.progress {
            None => ask,
            Some(listener) => {
                listening = CallOptions { progress: Some(listener.for_call()), ..ask.options.clone() };
                Ask { options: &listening, ..ask }
            }
        };
        let (begun, generation) = (Instant::now(), self.generation());
        match self.once(live, ask.method, ask.params, ask.options).await {
            Ok(result) => {
                live.prove();
                Ok((None, result))
            }
            // The rare path is boxed, so that the future of every call stays small.
            Err(failure) => {
                let first = FirstFailure { begun, generation, failure };
                let (live, result) = Box::pin(self.retry_request(live, ask, first)).await?;
                Ok((Some(live), result))
            }
        }
    }

    /// Sends a notification.
    pub(crate) async fn notify(&self, live: &Live, method: &str, params: Option<&Json>) -> Result<(), Fault> {
        self.say(&live.wire, &outgoing::notification(method, params)).await
    }

    /// Sends one request once and waits for its outcome.
    pub(super) async fn once(
        self: &Arc<Self>,
        live: &Arc<Live>,
        method: &str,
        params: Option<&Json>,
        options: &CallOptions,
    ) -> Outcome {
        if let Some(auth) = &self.auth
            && auth.is_due()
        {
            Box::pin(self.freshen(self.patience(options))).await?;
        }
        let (sender, mut answer) = oneshot::channel();
        let (id, pace) = self.begin(live, options, sender)?;
        // Cancels the call if this future is dropped before the outcome.
        let guard = Guard { shared: self, id, is_poll: options.task.is_poll };
        let request = self.dressed(live, params, options).and_then(|dressed| {
            let params = dressed.as_ref().or(params);
            outgoing::request(id, method, params, &live.meta, outgoing::ProgressMode::Wanted)
        });
        let Ok(frame) = request else {
            guard.end();
            return Err(Failure::Usage("params and their _meta must be objects"));
        };
        let outcome = match &live.wire {
            Wire::Pipe(writer) => {
                // The pipe nearly always accepts the frame at once.
                let handed = match writer.try_send(&frame, pace) {
                    Ok(true) => Ok(()),
                    Err(fault) => Err(fault),
                    Ok(false) => match Box::pin(self.wait_for_room(id, writer, &frame, &mut answer)).await {
                        Room::Handed(handed) => handed,
                        Room::Ended(outcome) => {
                            guard.ended();
                            return outcome;
                        }
                    },
                };
                if let Err(fault) = handed {
                    guard.end();
                    // A pipe that accepts nothing is unusable, even if messages still arrive.
                    self.leave(live.attempt);
                    self.report(live.attempt, SessionEvent::LinkLost(fault.clone()));
                    return Err(Failure::Fault(fault));
                }
                answer.await.unwrap_or_else(|_| gone())
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
                            guard.answered();
                        } else {
                            guard.end();
                        }
                        return match reply {
                            Reply::Result(result) => Ok(result),
                            reply => Err(self.judged(live, method, options, reply)),
                        };
                    }
                    outcome = &mut answer => outcome.unwrap_or_else(|_| gone()),
                }
            }
            Wire::EventStream { post, headers } => {
                let posting = event_stream::post(self, &live.wire, id, post, frame.body(), headers);
                tokio::pin!(posting);
                let outcome = tokio::select! {
                    biased;
                    outcome = &mut answer => outcome.unwrap_or_else(|_| gone()),
                    refused = &mut posting => match refused {
                        Some(reply) => {
                            guard.end();
                            return Err(self.judged(live, method, options, reply));
                        }
                        None if self.mark_taken(live, id) => answer.await.unwrap_or_else(|_| gone()),
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
                        self.judged(live, method, options, reply)
                    }
                    other => other,
                })
            }
        };
        guard.ended();
        outcome
    }

    /// Classifies a response other than a result: is it about the request, or about the session?
    fn judged(&self, live: &Live, method: &str, options: &CallOptions, reply: Reply) -> Failure {
        let verdict = reply.session_verdict(method, live.session, self.proves_who(live));
        let refused = JudgedReply { verdict, reply };
        match verdict {
            // For a probe, every response is evidence about the session.
            Verdict::Answer if options.purpose != Purpose::Probe => refused.shown(),
            _ => Failure::Session(Box::new(refused)),
        }
    }

    /// Waits until the pipe accepts a frame. The call's deadline keeps running, and the server
    /// knows nothing of the call yet.
    async fn wait_for_room(
        &self,
        id: u64,
        writer: &PipeWriter,
        frame: &outgoing::Frame,
        answer: &mut oneshot::Receiver<Outcome>,
    ) -> Room {
        self.mark_sent(id, Sent::No);
        tokio::select! {
            biased;
            // A call that has ended is no longer sent.
            outcome = answer => Room::Ended(outcome.unwrap_or_else(|_| gone())),
            handed = writer.send(frame) => {
                self.mark_sent(id, Sent::Yes);
                Room::Handed(handed)
            }
        }
    }

    /// Registers a call. The driver checks its deadline and is woken only if it would check too
    /// late, which happens about once a minute and not once per call.
    fn begin(
        &self,
        live: &Arc<Live>,
        options: &CallOptions,
        answer: oneshot::Sender<Outcome>,
    ) -> Result<(u64, Pace), Failure> {
        let progress = options.progress.clone();
        let sent = match live.wire {
            Wire::EventStream { .. } => Sent::Posting,
            Wire::Pipe(_) | Wire::Http { .. } => Sent::Yes,
        };
        let waiter = Waiter::Call { answer, progress, live: Arc::clone(live), sent };
        let limits = self.limits(options);
        let now = Instant::now();
        let mut core = self.core();
        // The session replaces a link under the same lock, and then fails its calls; a call
        // registered later on that link would never end. A probe concerns the old session, which
        // can be reached over HTTP as long as its id is known.
        let may_be_late = options.purpose == Purpose::Probe && live.wire.is_http();
        if core.session.attempt() != live.attempt && !may_be_late {
            return Err(Failure::Left);
        }
        core.traffic.begun(now);
        let id = core.calls.begin(now, limits, waiter);
        if let Some(tracked) = &options.task.tracked {
            self.tokens.add(id, tracked);
        }
        let pace = if core.calls.len() > CROWD { Pace::Soon } else { Pace::Now };
        let due = now + limits.idle.min(limits.total).min(FAR);
        if core.watched.is_none_or(|watched| due < watched) {
            core.watched = Some(due);
            drop(core);
            let _ = self.news.send(News::Deadline);
        }
        Ok((id, pace))
    }

    fn mark_sent(&self, id: u64, now: Sent) {
        if let Some(Waiter::Call { sent, .. }) = self.core().calls.get_mut(id) {
            *sent = now;
        }
    }

    /// Marks a POST as accepted. Returns whether the response can still arrive on the stream.
    fn mark_taken(&self, live: &Live, id: u64) -> bool {
        self.mark_sent(id, Sent::Yes);
        self.core().session.attempt() == live.attempt
    }

    /// Fails the calls whose deadline has passed. Returns the attempt of a link on which the server
    /// left a call unanswered.
    pub(super) fn expire_calls(self: &Arc<Self>, now: Instant) -> Option<Attempt> {
        let mut expired = Vec::new();
        {
            let mut core = self.core();
            if core.watched.is_none_or(|watched| now < watched) {
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
            core.watched = next;
        }
        let mut unanswered = None;
        for (id, waiter, limit) in expired {
            if let Waiter::Call { answer, live, sent, .. } = waiter {
                if sent != Sent::No && limit == Limit::Idle {
                    unanswered = Some(live.attempt);
                    live.wire.distrust();
                }
                let mut fault = Fault::new(Cause::Timeout(limit));
                if sent == Sent::No {
                    fault = fault.not_executed();
                } else {
                    self.cancel(&live, id, "the call timed out");
                }
                let _ = answer.send(Err(Failure::Fault(fault)));
            }
        }
        unanswered
    }

    /// Tells the server that a response is no longer wanted. Modern HTTP needs no message: dropping
    /// the exchange closes its stream (HM-12).
    pub(super) fn cancel(self: &Arc<Self>, live: &Arc<Live>, id: u64, reason: &str) {
        if live.wire.is_http() && live.peer.era() == Era::Modern {
            return;
        }
        let params = Edit::new().set_int("requestId", id).set_str("reason", reason).apply(None);
        let frame = outgoing::notification(method::CANCELLED, params.ok().as_ref());
        let (shared, live) = (Arc::clone(self), Arc::clone(live));
        let send = async move {
            if let Err(fault) = shared.say(&live.wire, &frame).await {
                tracing::debug!(server = %shared.name, %fault, "a cancellation was not delivered");
            }
        };
        self.errands.send(send);
    }

    pub(crate) fn limits(&self, options: &CallOptions) -> Limits {
        let idle = options.idle.unwrap_or(self.timeouts.call);
        Limits { idle, total: options.total.unwrap_or(self.timeouts.max.max(idle)) }
    }

    /// Maximum time that a call waits for a link.
    pub(crate) fn patience(&self, options: &CallOptions) -> Duration {
        let limits = self.limits(options);
        limits.idle.min(limits.total)
    }

    pub(crate) fn fault(&self, method: &str, fault: Fault) -> Error {
        self.error(method, Failure::Fault(fault))
    }

    pub(super) fn usage(&self, method: &str, error: NotAnObject) -> Error {
        Error::new(ErrorKind::Usage(error.to_string()), &self.name, method)
    }

    pub(crate) fn error(&self, method: &str, failure: Failure) -> Error {
        let kind = match failure {
            Failure::Server(error) => ErrorKind::Server(error),
            Failure::Fault(fault) => ErrorKind::Fault(fault),
            Failure::Declined(error) => ErrorKind::Declined(error),
            Failure::Usage(what) => ErrorKind::Usage(what.to_owned()),
            Failure::Session(refused) => return self.error(method, refused.shown()),
            Failure::Left => ErrorKind::Fault(Fault::before_sending(Cause::Closed)),
        };
        Error::new(kind, &self.name, method)
    }
}

/// How waiting for the pipe ended.
enum Room {
    Handed(Result<(), Fault>),
    Ended(Outcome),
}

/// Cancels the call on the server if its future is dropped before the outcome.
struct Guard<'a> {
    shared: &'a Arc<Shared>,
    id: u64,
    /// Whether the call polls a task; then no cancellation is sent (CN-02).
    is_poll: bool,
}

impl Guard<'_> {
    /// Removes the call from the table and disarms the guard.
    fn end(self) {
        self.shared.core().calls.end(self.id);
        self.ended();
    }

    /// Removes the call after a response of the server, which counts as a sign of life.
    fn answered(self) {
        let mut core = self.shared.core();
        core.traffic.heard();
        core.calls.end(self.id);
        drop(core);
        self.ended();
    }

    /// Disarms the guard. The call is no longer in the table.
    fn ended(self) {
        self.shared.stop_serving_during(self.id);
        std::mem::forget(self);
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.shared.stop_serving_during(self.id);
        // CN-01: only a call that is still open is canceled.
        let (silence, open) = {
            let mut core = self.shared.core();
            (core.calls.silence(Instant::now(), self.id), core.calls.end(self.id))
        };
        if let Some(Waiter::Call { live, sent: Sent::Posting | Sent::Yes, .. }) = open {
            if !self.is_poll {
                self.shared.cancel(&live, self.id, "the caller no longer waits");
            }
            // A host with a shorter timeout than ours has also noticed that the server does not
            // answer.
            if let Some((waited, left)) = silence
                && waited >= LONG_SILENCE
            {
                live.wire.distrust();
                // Over HTTP, one hanging call says nothing about the others.
                if !live.wire.is_http() {
                    let _ = self.shared.news.send(News::Doubt(live.attempt, self.id, left));
                }
            }
        }
    }
}

/// The outcome of a call whose table was dropped, which happens only with the whole connection.
fn gone() -> Outcome {
    Err(Failure::Fault(Fault::new(Cause::Closed)))
}

/// Minimum silence after which a dropped call makes the server suspect.
const LONG_SILENCE: Duration = Duration::from_secs(5);

/// With more open calls than this, frames are batched.
const CROWD: usize = 8;

/// Maximum wait. `Instant + Duration::MAX` would overflow.
pub(super) const FAR: Duration = Duration::from_secs(86_400 * 365);

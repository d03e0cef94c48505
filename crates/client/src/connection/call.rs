//! One call, from the caller's future to its single outcome.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bowline_proto::calls::{Due, Limits};
use bowline_proto::era::Reply;
use bowline_proto::fault::{Cause, Fault, Limit, Misbehaviour};
use bowline_proto::revision::Era;
use bowline_proto::session::{Command, Event as SessionEvent, Status};
use bowline_proto::wire::object::{Edit, NotAnObject};
use bowline_proto::wire::outgoing;
use bowline_proto::wire::view::{Progress, ResultType, result_type};
use bowline_proto::wire::{Json, code, method};
use bowline_transport::pipe::{Pace, PipeWriter};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::exchange::Exchange;
use super::{Failure, Live, News, Outcome, Shared, Waiter, Wire};
use crate::error::{Error, ErrorKind, Result};

/// Called with each progress notification of a call, from the task that reads the link: be quick.
pub(crate) type ProgressFn = Arc<dyn Fn(Progress) + Send + Sync>;

/// What differs from the server's configuration for one call.
#[derive(Clone, Default)]
pub struct CallOptions {
    pub(crate) idle: Option<Duration>,
    pub(crate) total: Option<Duration>,
    pub(crate) progress: Option<ProgressFn>,
}

impl CallOptions {
    /// As configured.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives up when nothing was heard for this long. Progress starts it anew.
    #[must_use]
    pub fn timeout(mut self, idle: Duration) -> Self {
        self.idle = Some(idle);
        self
    }

    /// Gives up after this long, whatever progress says.
    #[must_use]
    pub fn max_timeout(mut self, total: Duration) -> Self {
        self.total = Some(total);
        self
    }

    /// Is told of progress. It is called from the task that reads the connection, so it must not block.
    #[must_use]
    pub fn on_progress(mut self, listener: impl Fn(Progress) + Send + Sync + 'static) -> Self {
        self.progress = Some(Arc::new(listener));
        self
    }
}

impl std::fmt::Debug for CallOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallOptions")
            .field("idle", &self.idle)
            .field("total", &self.total)
            .finish_non_exhaustive()
    }
}

impl Shared {
    /// Sends a request and waits for its result.
    ///
    /// Dropping the future cancels the request on the server, in the way of the connection.
    pub(crate) async fn request(
        self: &Arc<Self>,
        method: &str,
        params: Option<&Json>,
        options: &CallOptions,
    ) -> Result<Json> {
        let live = self.ready(method, self.patience(options)).await?;
        self.request_on(&live, method, params, options).await
    }

    /// The same on a link that the caller has already seen.
    pub(crate) async fn request_on(
        self: &Arc<Self>,
        live: &Arc<Live>,
        method: &str,
        params: Option<&Json>,
        options: &CallOptions,
    ) -> Result<Json> {
        let fail = |failure| self.error(method, failure);
        let outcome = self.once(live, method, params, options).await;
        // What is rare is boxed, so that the future of every call stays small.
        let result = match outcome {
            // HM-10: the schema we hold is out of date. Get the newest, then once more.
            Err(Failure::Server(error))
                if error.code == code::HEADER_MISMATCH && method == method::TOOLS_CALL =>
            {
                self.refresh_annotations(live).await;
                Box::pin(self.once(live, method, params, options)).await.map_err(fail)?
            }
            outcome => outcome.map_err(fail)?,
        };
        if live.peer.era() == Era::Legacy || result_type(&result) == ResultType::Complete {
            return Ok(result);
        }
        Box::pin(self.rounds(live, method, params, options, result)).await
    }

    /// One request, one outcome.
    pub(super) async fn once(
        self: &Arc<Self>,
        live: &Arc<Live>,
        method: &str,
        params: Option<&Json>,
        options: &CallOptions,
    ) -> Outcome {
        let (sender, mut answer) = oneshot::channel();
        let (id, pace) = self.begin(live, options, sender)?;
        // Dropped before the outcome is there, it cancels the call.
        let guard = Guard { shared: self, id };
        let request = outgoing::request(id, method, params, &live.meta, outgoing::Progress::Wanted);
        let Ok(frame) = request else {
            guard.end();
            return Err(Failure::Usage("params and their _meta must be objects"));
        };
        let outcome = match &live.wire {
            Wire::Pipe(writer) => {
                // Nearly always the link takes it at once.
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
                    // A link that takes nothing is no link, though it may still be heard.
                    self.leave(live.attempt);
                    self.report(live.attempt, SessionEvent::Lost(fault.clone()));
                    return Err(Failure::Fault(fault));
                }
                answer.await.unwrap_or_else(|_| gone())
            }
            Wire::Http { link, headers } => {
                let headers = self.call_headers(live, headers, method, params);
                let exchange = Exchange { shared: self, link, wire: &live.wire, id, era: live.peer.era() };
                let exchange = exchange.run(frame.body(), &headers);
                tokio::pin!(exchange);
                // The answer comes through the table if it came on another stream, if the deadline struck, or
                // if the connection was closed.
                tokio::select! {
                    biased;
                    reply = &mut exchange => {
                        // In this order: ending the call drops the sender, which would wake us for nothing.
                        drop(answer);
                        guard.end();
                        return into_outcome(reply);
                    }
                    outcome = &mut answer => outcome.unwrap_or_else(|_| gone()),
                }
            }
        };
        guard.ended();
        outcome
    }

    /// Waits for room on a link that takes no more at the moment. The call's time runs all the same, and the
    /// server knows nothing of it yet.
    async fn wait_for_room(
        &self,
        id: u64,
        writer: &PipeWriter,
        frame: &outgoing::Frame,
        answer: &mut oneshot::Receiver<Outcome>,
    ) -> Room {
        self.mark_sent(id, false);
        tokio::select! {
            biased;
            handed = writer.send(frame) => {
                self.mark_sent(id, true);
                Room::Handed(handed)
            }
            outcome = answer => Room::Ended(outcome.unwrap_or_else(|_| gone())),
        }
    }

    /// Opens a call. The driver watches its deadline; it is told only if it would look too late, which is
    /// once a minute and not once a call.
    fn begin(
        &self,
        live: &Arc<Live>,
        options: &CallOptions,
        answer: oneshot::Sender<Outcome>,
    ) -> Result<(u64, Pace), Failure> {
        let progress = options.progress.clone();
        let waiter = Waiter::Call { answer, progress, live: Arc::clone(live), sent: true };
        let limits = self.limits(options);
        let now = Instant::now();
        let mut core = self.core();
        // Under the same lock the session leaves a link, and then its calls are failed. Whoever comes later
        // with that link in hand would wait for nobody.
        if core.session.attempt() != live.attempt {
            return Err(Failure::Fault(Fault::before_sending(Cause::Closed)));
        }
        let id = core.calls.begin(now, limits, waiter);
        let pace = if core.calls.len() > CROWD { Pace::Soon } else { Pace::Now };
        let due = now + limits.idle.min(limits.total).min(FAR);
        if core.watched.is_none_or(|watched| due < watched) {
            core.watched = Some(due);
            drop(core);
            let _ = self.news.send(News::Deadline);
        }
        Ok((id, pace))
    }

    fn mark_sent(&self, id: u64, now: bool) {
        if let Some(Waiter::Call { sent, .. }) = self.core().calls.get_mut(id) {
            *sent = now;
        }
    }

    /// Ends the calls whose time is up. Says when to look again.
    pub(super) fn expire_calls(self: &Arc<Self>, now: Instant) {
        let mut expired = Vec::new();
        {
            let mut core = self.core();
            if core.watched.is_none_or(|watched| now < watched) {
                return;
            }
            let ids: Vec<_> = core.calls.ids().collect();
            let mut next = None;
            for id in ids {
                match core.calls.due(now, id) {
                    Due::At(at) => next = Some(next.map_or(at, |next: Instant| next.min(at))),
                    Due::Expired(waiter, limit) => expired.push((id, waiter, limit)),
                    Due::Gone => {}
                }
            }
            core.watched = next;
        }
        for (id, waiter, limit) in expired {
            if let Waiter::Call { answer, live, sent, .. } = waiter {
                let mut fault = Fault::new(Cause::Timeout(limit));
                if sent {
                    self.cancel(&live, id, "the call timed out");
                } else {
                    fault = fault.not_executed();
                }
                let _ = answer.send(Err(Failure::Fault(fault)));
            }
        }
    }

    /// The live link; waits for it while the connection is being made.
    pub(crate) async fn ready(&self, method: &str, patience: Duration) -> Result<Arc<Live>> {
        if let Some(live) = self.live() {
            return Ok(live);
        }
        let mut status = self.status();
        // What only a person can mend is not tried again for every call.
        let hopeless = match &*status.borrow() {
            Status::NeedsLogin(fault) | Status::Failed(fault) => Some(fault.clone()),
            _ => None,
        };
        if let Some(fault) = hopeless {
            return Err(self.error(method, Failure::Fault(fault.not_executed())));
        }
        self.command(Command::Connect);
        let settled = timeout(patience, async {
            loop {
                let seen = status.borrow_and_update().clone();
                match seen {
                    Status::Ready(_) => {
                        if let Some(live) = self.live() {
                            return Ok(live);
                        }
                    }
                    Status::NeedsLogin(fault) | Status::Failed(fault) => return Err(fault),
                    Status::Closed => return Err(Fault::new(Cause::Closed)),
                    Status::Idle | Status::Connecting | Status::BackingOff { .. } => {}
                }
                if status.changed().await.is_err() {
                    return Err(Fault::new(Cause::Closed));
                }
            }
        });
        let fault = match settled.await {
            Ok(Ok(live)) => return Ok(live),
            Ok(Err(fault)) => fault,
            Err(_) => match &*self.status.borrow() {
                Status::BackingOff { cause, .. } => cause.clone(),
                _ => Fault::new(Cause::Timeout(Limit::Connect)),
            },
        };
        Err(self.error(method, Failure::Fault(fault.not_executed())))
    }

    /// Tells the server that an answer is no longer wanted, where that is done by a message: modern HTTP
    /// is told by closing the stream, which dropping the exchange does (HM-12).
    fn cancel(self: &Arc<Self>, live: &Arc<Live>, id: u64, reason: &str) {
        if matches!(live.wire, Wire::Http { .. }) && live.peer.era() == Era::Modern {
            return;
        }
        let params = Edit::new().set_int("requestId", id).set_str("reason", reason).apply(None);
        let frame = outgoing::notification(method::CANCELLED, params.ok().as_ref());
        let (shared, live) = (Arc::clone(self), Arc::clone(live));
        let send = async move {
            if let Err(fault) = live.wire.send(&frame).await {
                tracing::debug!(server = %shared.name, %fault, "a cancellation was not delivered");
            }
        };
        self.errands.send(send);
    }

    pub(super) fn limits(&self, options: &CallOptions) -> Limits {
        let idle = options.idle.unwrap_or(self.timeouts.call);
        Limits { idle, total: options.total.unwrap_or(self.timeouts.max.max(idle)) }
    }

    /// How long a call waits for a connection.
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

    pub(super) fn error(&self, method: &str, failure: Failure) -> Error {
        let kind = match failure {
            Failure::Server(error) => ErrorKind::Server(error),
            Failure::Fault(fault) => ErrorKind::Fault(fault),
            Failure::Declined(error) => ErrorKind::Declined(error),
            Failure::Usage(what) => ErrorKind::Usage(what.to_owned()),
        };
        Error::new(kind, &self.name, method)
    }
}

/// What came of waiting for room.
enum Room {
    Handed(Result<(), Fault>),
    Ended(Outcome),
}

/// Cancels the call if its future is dropped before the outcome.
struct Guard<'a> {
    shared: &'a Arc<Shared>,
    id: u64,
}

impl Guard<'_> {
    /// The outcome is there: takes the call out of the table.
    fn end(self) {
        self.shared.core().calls.end(self.id);
        self.ended();
    }

    /// The outcome came through the table, which is done with the call.
    fn ended(self) {
        std::mem::forget(self);
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        // CN-01: only a call that is still open is cancelled.
        let open = self.shared.core().calls.end(self.id);
        if let Some(Waiter::Call { live, sent: true, .. }) = open {
            self.shared.cancel(&live, self.id, "the caller no longer waits");
        }
    }
}

fn into_outcome(reply: Reply) -> Outcome {
    match reply {
        Reply::Result(result) => Ok(result),
        Reply::Error { error, .. } => Err(Failure::Server(error)),
        Reply::Fault(fault) => Err(Failure::Fault(fault)),
        Reply::Accepted | Reply::Silence => Err(Failure::Fault(Fault::protocol(Misbehaviour::NoAnswer))),
    }
}

/// The table was dropped with the call in it: only when the whole connection is.
fn gone() -> Outcome {
    Err(Failure::Fault(Fault::new(Cause::Closed)))
}

/// With more calls than this under way, frames are gathered.
const CROWD: usize = 8;

/// `Instant + Duration::MAX` overflows; nobody waits longer than this.
const FAR: Duration = Duration::from_secs(86_400 * 365);

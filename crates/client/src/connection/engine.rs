//! The protocol state that calls share with the driver: the session, and the table of open requests.

pub(super) mod traffic;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bowline_proto::client::calls::{Calls, DeadlineCheck, FailedCall, Limits};
use bowline_proto::client::keepalive::ProbeResult;
use bowline_proto::client::negotiation::Reply;
use bowline_proto::client::session::{Attempt, Command, Event, Session};
use bowline_proto::fault::{Cause, Fault, Limit};
use bowline_transport::pipe::Urgency;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{mpsc, oneshot};

use super::failure::RequestOutcome;
use super::link::OpenLink;
use super::options::{LogListener, RequestOrigin};
use super::progress::{ProgressListener, ProgressTokens};
use super::{CallOptions, Failure, LiveLink, Wire};
use crate::clock;
use crate::handler::Handler;
use traffic::CallTraffic;

/// The session and the open requests of one connection, and the way to its driver.
pub(crate) struct Engine {
    state: Mutex<EngineState>,
    driver_events: mpsc::UnboundedSender<DriverEvent>,
    /// Progress listeners of calls that became tasks.
    pub(crate) progress_tokens: ProgressTokens,
}

/// What the lock of an [`Engine`] guards.
pub(crate) struct EngineState {
    pub(crate) session: Session,
    pub(crate) calls: Calls<PendingRequest>,
    /// When the driver next checks the deadlines of calls. A timer per call would wake another
    /// thread for each.
    pub(crate) next_deadline_check: Option<Instant>,
    /// Times of recent calls, for the keepalive.
    pub(crate) traffic: CallTraffic,
}

/// A request that waits for its response.
pub(crate) enum PendingRequest {
    Call(PendingCall),
    Negotiation(Attempt),
}

/// A call that waits for its response.
pub(crate) struct PendingCall {
    pub(crate) answer: oneshot::Sender<RequestOutcome>,
    progress: Option<ProgressListener>,
    /// Answers what the server asks because of this call.
    handler: Option<Arc<dyn Handler>>,
    log: Option<Arc<LogListener>>,
    pub(crate) live: Arc<LiveLink>,
    pub(crate) sent: SendState,
}

/// How far a request has been sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendState {
    /// The link has not accepted it: the server knows nothing of it.
    Unsent,
    /// The POST is in flight. Its response says more about the request than the loss of the link
    /// does.
    Posting,
    Sent,
}

/// An input of the driver.
pub(crate) enum DriverEvent {
    Command(Command),
    Link(Attempt, Event),
    /// The response to the negotiation message with this id.
    HandshakeReply(Attempt, u64, Reply),
    /// The outcome of a keepalive probe.
    ProbeFinished(Attempt, ProbeOutcome),
    /// A call has an earlier deadline than all calls before it.
    EarlierDeadline,
    /// A caller dropped this call after a long silence. The duration is the time that it would
    /// still have waited.
    CallAbandoned(Attempt, u64, Duration),
    /// A stream or an idle connection of the link has ended: the server may be down.
    ServerSuspect(Attempt),
    /// A link that was opened in a background task.
    LinkOpened(Attempt, Box<OpenLink>),
}

/// The outcome of a keepalive probe.
pub(crate) enum ProbeOutcome {
    /// The server is alive and knows the session.
    Alive(ProbeResult),
    /// The server is down, or has lost the session.
    Dead(Event),
    /// The link was replaced meanwhile; whoever replaced it reports why.
    LinkSuperseded,
}

/// A call that failed and may be sent again, and is watched for late messages until this is dropped.
pub(crate) struct FailedCallWatch<'a> {
    engine: &'a Engine,
    id: u64,
}

impl Engine {
    pub(crate) fn new(
        session: Session,
        calls: Calls<PendingRequest>,
        driver_events: mpsc::UnboundedSender<DriverEvent>,
    ) -> Self {
        let traffic = CallTraffic::new(clock::now());
        Self {
            state: Mutex::new(EngineState { session, calls, next_deadline_check: None, traffic }),
            driver_events,
            progress_tokens: ProgressTokens::default(),
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, EngineState> {
        self.state.lock()
    }

    pub(crate) fn send(&self, event: DriverEvent) {
        // The driver ends only after `Close`; then there is nothing left to tell it.
        let _ = self.driver_events.send(event);
    }

    pub(crate) fn send_command(&self, command: Command) {
        self.send(DriverEvent::Command(command));
    }

    pub(crate) fn report_link_event(&self, attempt: Attempt, event: Event) {
        self.send(DriverEvent::Link(attempt, event));
    }

    /// Registers a call. The driver checks its deadline and is woken only if it would check too
    /// late, which happens about once a minute and not once per call.
    pub(crate) fn begin_call(
        &self,
        live: &Arc<LiveLink>,
        options: &CallOptions,
        limits: Limits,
        answer: oneshot::Sender<RequestOutcome>,
    ) -> Result<(u64, Urgency), Failure> {
        let (progress, handler, log) =
            (options.progress.clone(), options.handler.clone(), options.log.clone());
        let sent = match live.wire {
            Wire::EventStream { .. } => SendState::Posting,
            Wire::Pipe(_) | Wire::Http { .. } => SendState::Sent,
        };
        let waiter = PendingRequest::Call(PendingCall {
            answer,
            progress,
            handler,
            log,
            live: Arc::clone(live),
            sent,
        });
        let now = clock::now();
        let mut state = self.state();
        // The session replaces a link under the same lock, and then fails its calls; a call
        // registered later on that link would never end. A probe concerns the old session, which
        // can be reached over HTTP as long as its id is known.
        let may_be_late = options.origin == RequestOrigin::Probe && live.wire.is_http();
        if state.session.attempt() != live.attempt && !may_be_late {
            return Err(Failure::LinkSuperseded);
        }
        state.traffic.record_call(now);
        let id = state.calls.begin(now, limits, waiter);
        if let Some(tracked) = &options.task.progress {
            self.progress_tokens.insert(id, tracked);
        }
        let pace =
            if state.calls.len() > MAX_UNBATCHED_CALLS { Urgency::Batched } else { Urgency::Immediate };
        let due = now + limits.idle.min(limits.total).min(MAX_WAIT);
        if state.next_deadline_check.is_none_or(|watched| due < watched) {
            state.next_deadline_check = Some(due);
            drop(state);
            self.send(DriverEvent::EarlierDeadline);
        }
        Ok((id, pace))
    }

    pub(crate) fn mark_sent(&self, id: u64, now: SendState) {
        if let Some(PendingRequest::Call(call)) = self.state().calls.get_mut(id) {
            call.sent = now;
        }
    }

    /// Marks a POST as accepted. Returns whether the response can still arrive on the stream.
    pub(crate) fn mark_posted(&self, live: &LiveLink, id: u64) -> bool {
        self.mark_sent(id, SendState::Sent);
        self.is_current(live)
    }

    /// Whether the session still uses this link.
    pub(crate) fn is_current(&self, live: &LiveLink) -> bool {
        self.state().session.attempt() == live.attempt
    }

    /// Removes a call after a result of the server, which counts as a sign of life.
    pub(crate) fn end_answered_call(&self, id: u64) {
        let mut state = self.state();
        state.traffic.record_reply();
        state.calls.end(id);
    }

    /// Removes a call after an error of the server, which counts as a sign of life.
    pub(crate) fn end_refused_call(&self, id: u64) {
        let mut state = self.state();
        state.traffic.record_reply();
        state.calls.end_failed(clock::now(), id);
    }

    /// Removes a call that failed without a response.
    pub(crate) fn end_failed_call(&self, id: u64) {
        self.state().calls.end_failed(clock::now(), id);
    }

    /// Takes what the retry of a call that failed has to know.
    pub(crate) fn take_failed(&self, id: u64) -> FailedCall {
        self.state().calls.take_failed(id)
    }

    /// Records that the server sent a message about a call.
    pub(crate) fn record_message(&self, id: u64) {
        self.state().calls.record_message(id);
    }

    /// Records that the server sent a message that may be about any call that it was sent, or about one that failed
    /// and is watched.
    pub(crate) fn record_message_about_any(&self) {
        let mut state = self.state();
        state.calls.record_message_about_any(|waiter| match waiter {
            PendingRequest::Call(call) => call.sent != SendState::Unsent,
            PendingRequest::Negotiation(_) => false,
        });
    }

    /// Watches a call that failed and may be sent again, until the result is dropped.
    pub(crate) fn watch_failed(&self, id: u64) -> FailedCallWatch<'_> {
        self.state().calls.watch_failed(id);
        FailedCallWatch { engine: self, id }
    }

    /// The id of the open call, if exactly one is open.
    pub(crate) fn only_open_call(&self) -> Option<u64> {
        let state = self.state();
        let id = state.calls.ids().next().filter(|_| state.calls.len() == 1)?;
        match state.calls.get(id) {
            Some(PendingRequest::Call(call)) if call.sent == SendState::Sent => Some(id),
            _ => None,
        }
    }

    /// The handler of an open call, if it has one of its own.
    pub(crate) fn handler_of_call(&self, id: u64) -> Option<Arc<dyn Handler>> {
        match self.state().calls.get(id) {
            Some(PendingRequest::Call(call)) => call.handler.clone(),
            _ => None,
        }
    }

    /// The listener for log messages of an open call, if it has one.
    pub(crate) fn log_listener_of_call(&self, id: u64) -> Option<Arc<LogListener>> {
        match self.state().calls.get(id) {
            Some(PendingRequest::Call(call)) => call.log.clone(),
            _ => None,
        }
    }

    /// Ends a call with its outcome. Returns the outcome if no call with this id is open.
    pub(crate) fn finish_call(&self, id: u64, outcome: RequestOutcome) -> Option<RequestOutcome> {
        let waiter = {
            let mut state = self.state();
            state.traffic.record_reply();
            match &outcome {
                Ok(_) => state.calls.end(id),
                Err(_) => state.calls.end_failed(clock::now(), id),
            }
        };
        match waiter {
            Some(PendingRequest::Call(call)) => {
                // The caller may have dropped its future at this moment.
                let _ = call.answer.send(outcome);
            }
            Some(PendingRequest::Negotiation(attempt)) => {
                // Nobody retries a message of a handshake.
                self.take_failed(id);
                let reply = outcome.map_or_else(Failure::into_reply, Reply::Result);
                self.send(DriverEvent::HandshakeReply(attempt, id, reply));
            }
            None => {
                // A call that failed and is answered after all was executed.
                self.record_message(id);
                return Some(outcome);
            }
        }
        None
    }

    /// Records progress under a token. Returns the listener of its call or task.
    pub(crate) fn record_progress(&self, token: u64) -> Option<ProgressListener> {
        let mut state = self.state();
        state.traffic.record_reply();
        match state.calls.record_activity(clock::now(), token) {
            Some(PendingRequest::Call(call)) => call.progress.clone(),
            // PR-03: progress of a call that was answered with a task goes to the task's listener.
            _ => self.progress_tokens.notify_progress(token),
        }
    }

    /// Fails the open calls after the loss of their link.
    pub(crate) fn fail_calls(&self, fault: &Fault) {
        let mut ended = Vec::new();
        {
            let (mut state, now) = (self.state(), clock::now());
            let ids: Vec<_> = state.calls.ids().collect();
            for id in ids {
                match state.calls.get(id) {
                    Some(PendingRequest::Call(call)) => {
                        if call.sent != SendState::Posting || fault.cause == Cause::Closed {
                            ended.extend(state.calls.end_failed(now, id));
                        }
                    }
                    // Nobody retries a message of a handshake.
                    _ => drop(state.calls.end(id)),
                }
            }
        }
        let fault = fault.for_pending_calls();
        for waiter in ended {
            if let PendingRequest::Call(call) = waiter {
                let unsent = call.sent == SendState::Unsent;
                let fault = if unsent { fault.clone().not_executed() } else { fault.clone() };
                let _ = call.answer.send(Err(Failure::Fault(fault)));
            }
        }
    }

    /// Removes the calls whose deadline has passed, with the limit that each exceeded.
    pub(crate) fn take_expired_calls(&self, now: Instant) -> Vec<(u64, PendingCall, Limit)> {
        let mut expired = Vec::new();
        let mut state = self.state();
        if state.next_deadline_check.is_none_or(|watched| now < watched) {
            return expired;
        }
        let ids: Vec<_> = state.calls.ids().collect();
        let mut next = None;
        for id in ids {
            match state.calls.check_deadline(now, id) {
                DeadlineCheck::At(at) => next = Some(next.map_or(at, |next: Instant| next.min(at))),
                DeadlineCheck::Expired(PendingRequest::Call(call), limit) => expired.push((id, call, limit)),
                DeadlineCheck::Expired(PendingRequest::Negotiation(_), _) | DeadlineCheck::Ended => {}
            }
        }
        state.next_deadline_check = next;
        expired
    }

    /// Pauses the deadlines of the open calls, because the time in which a person is prompted is
    /// not the server's; of `only` one of them, if the person is prompted on its behalf alone.
    /// Returns the calls that were paused.
    pub(crate) fn pause_calls(&self, only: Option<u64>) -> Vec<u64> {
        let mut state = self.state();
        let now = clock::now();
        let ids: Vec<_> = state.calls.ids().filter(|id| only.is_none_or(|only| *id == only)).collect();
        ids.into_iter().filter(|id| state.calls.pause(now, *id)).collect()
    }

    /// Resumes the deadlines of calls that were paused.
    pub(crate) fn resume_calls(&self, calls: &[u64]) {
        let mut state = self.state();
        let now = clock::now();
        for id in calls {
            state.calls.resume(now, *id);
        }
        // Make the driver compute its deadline again; it may have seen none while all were paused.
        state.next_deadline_check = Some(now);
        drop(state);
        self.send(DriverEvent::EarlierDeadline);
    }
}

impl FailedCallWatch<'_> {
    /// Whether the server has sent a message about the call since it failed.
    pub(crate) fn was_heard_of(&self) -> bool {
        self.engine.state().calls.was_heard_of_late(self.id)
    }
}

impl Drop for FailedCallWatch<'_> {
    fn drop(&mut self) {
        self.engine.state().calls.unwatch_failed(self.id);
    }
}

/// With more open calls than this, frames are batched.
const MAX_UNBATCHED_CALLS: usize = 8;

/// Maximum wait. `Instant + Duration::MAX` would overflow.
pub(crate) const MAX_WAIT: Duration = Duration::from_secs(86_400 * 365);

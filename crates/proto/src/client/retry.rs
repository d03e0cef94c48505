//! [`Retry`]: whether a failed request is sent again, after what, and what its caller is told.
//!
//! `Retry` decides this for every method, era and transport, by the rule of evidence in
//! `retry/evidence.rs`: the text of a reply never causes a second execution. A request that may
//! have effects is sent again only on proof that it was not executed. A harmless one (it only
//! reads, or the server declares the tool idempotent) needs a session and time, but no proof.
//!
//! It does no I/O. The driver performs a [`Step`], reports the result with the `handle_*` method
//! that the step names, and drains [`Retry::poll_report`] after each. The driver waits for nothing
//! longer than [`Retry::deadline`], and reports that with [`Retry::handle_timeout`].
//!
//! ```text
//! Send ─ failed ─▶ error of the server ──────────────────────────────▶ Finish
//!   ▲              refused, perhaps for its session ─▶ Probe ─ alive ─▶ Finish
//!   │                                                   │ lost
//!   │              link or session lost ◀───────────────┘
//!   │                 │ may be sent again               │ may not
//!   └── Wait ◀── Reconnect (─▶ CheckHarmless)           └────────────▶ Finish
//! ```

mod credentials;
mod evidence;
mod failures;
mod harmless;
mod messages;

#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use crate::client::calls::Limits;
use crate::client::keepalive::Probe;
use crate::client::loss::{LossWording, Verdict};
use crate::client::negotiation::Reply;
use crate::fault::{Cause, Execution, Fault};
use crate::wire::{RpcError, code, method};

use evidence::{ProbeConclusion, ProbeReply, Refusal};
use failures::{asked_wait, mark_not_executed, mark_unknown};

pub use evidence::{SessionLiveness, assess_session};
pub use failures::{failure_from_reply, session_loss_fault};
pub use harmless::is_harmless_method;
pub use messages::{FinalFailure, LinkFacts, Report, RequestFacts, SendFailure, Step};

/// The retry state of one request, from its first failure to its final failure or success.
#[derive(Debug)]
pub struct Retry {
    request: RequestFacts,
    limits: Limits,
    /// Start of the call, moved forward by the time that a person took.
    started_at: Instant,
    /// Time of the first failure since the last sign of life.
    first_failure: Option<Instant>,
    last_sending: Sending,
    link: LinkFacts,
    state: State,
    /// Outcome of all sendings before the last one.
    execution: Execution,
    /// Number of times the request was sent again.
    resends: u32,
    /// Number of sessions in a row that were lost before they answered anything.
    unproven_losses: u32,
    /// Number of times the request was refused for its session.
    session_refusals: u32,
    /// Number of times credentials were requested.
    logins: u32,
    /// Whether a new session was tried because a 401 may have meant the session.
    reconnected_for_login: bool,
    /// Whether the tool's header annotations were fetched again (HM-10).
    refetched_annotations: bool,
    /// Whether a 404 or 410 was believed without a probe.
    believed_not_found: bool,
    /// Time before which the server does not want the request again (`Retry-After`).
    not_before: Option<Instant>,
    report: Option<Report>,
}

/// The state, named for what it waits for. Each keeps the failure to report if the time runs out.
#[derive(Debug)]
enum State {
    /// Waits for the reply to the request.
    ExpectReply,
    /// Waits for the reply to a probe that follows a refusal.
    /// `is_repeated`: an earlier one of the same kind was cut.
    ExpectProbe { words: LossWording, refusal: Reply, probe: Probe, after: AfterProbe, is_repeated: bool },
    /// Waits for the next link. Holds the failure on the last one and what is known of its
    /// execution.
    ExpectLink { failed: FinalFailure, execution: Execution },
    /// Waits to learn whether the request is harmless.
    ExpectHarmless { failed: FinalFailure },
    /// Waits for the tool's header annotations.
    ExpectAnnotations { failed: FinalFailure },
    /// Waits for credentials.
    ExpectLogin { failed: FinalFailure, for_session: bool },
    /// Waits for a point in time.
    ExpectTime { until: Instant, failed: FinalFailure },
    /// Waits for nothing: the final failure was reported.
    Finished,
}

/// The last time that the request was sent.
#[derive(Clone, Copy, Debug)]
struct Sending {
    at: Instant,
    /// Whether the server has sent a message about the request since then.
    was_heard_of: bool,
}

/// What follows if a probe is refused in the same way as the request.
#[derive(Clone, Copy, Debug)]
enum AfterProbe {
    /// The server refuses the session, so a new one is needed.
    Reconnect,
    /// A rate limit refuses everything, so the same link is used after this wait.
    Wait(Duration),
}

// === impl Retry ===

impl Retry {
    /// Creates the retry state of a request that was first sent at `begun`.
    pub fn new(request: RequestFacts, begun: Instant, limits: Limits) -> Self {
        Self {
            request,
            limits,
            started_at: begun,
            first_failure: None,
            last_sending: Sending { at: begun, was_heard_of: false },
            link: LinkFacts::default(),
            state: State::ExpectReply,
            execution: Execution::NotExecuted,
            resends: 0,
            unproven_losses: 0,
            session_refusals: 0,
            logins: 0,
            reconnected_for_login: false,
            refetched_annotations: false,
            believed_not_found: false,
            not_before: None,
            report: None,
        }
    }

    /// The report to pass on to the session before the next step is performed.
    pub fn poll_report(&mut self) -> Option<Report> {
        self.report.take()
    }

    /// Number of times the request was sent again.
    pub fn resends(&self) -> u32 {
        self.resends
    }

    /// The deadline of every step but [`Step::Send`]: the total limit of the call, or its idle
    /// limit since the first failure, whichever comes first.
    pub fn deadline(&self) -> Instant {
        let silent = self.first_failure.map(|failed| add_clamped(failed, self.limits.idle));
        silent.into_iter().fold(add_clamped(self.started_at, self.limits.total), Instant::min)
    }

    /// The limits of the next sending.
    pub fn limits(&self, now: Instant) -> Limits {
        let total = add_clamped(self.started_at, self.limits.total).saturating_duration_since(now);
        Limits { idle: self.limits.idle, total }
    }

    /// Excludes the time that a person took to answer from all limits.
    pub fn exclude_pause(&mut self, pause: Duration) {
        self.started_at += pause;
        self.last_sending.at += pause;
        self.first_failure = self.first_failure.map(|failed| failed + pause);
    }

    /// Takes note that the server sent a message about the request since it was last sent: progress, a
    /// question, or its stream. A server that refuses every request in front of its tools does not, so
    /// no refusal proves any more that the request was not executed. The message may come after the
    /// refusal, as long as the request was not sent again.
    pub fn record_message(&mut self) {
        self.last_sending.was_heard_of = true;
    }

    /// Takes the failure of a sending, with the current facts of the link that it was sent over.
    pub fn handle_failure(&mut self, now: Instant, link: LinkFacts, failure: SendFailure) -> Step {
        self.link = link;
        // A sending that outlasted the idle limit must have shown signs of life meanwhile.
        if now.saturating_duration_since(self.last_sending.at) > self.limits.idle {
            self.first_failure = None;
        }
        self.first_failure.get_or_insert(now);
        self.not_before = match &failure {
            SendFailure::Reply(_, reply) => asked_wait(reply).map(|wait| add_clamped(now, wait)),
            SendFailure::NotSent => self.not_before,
        };
        match failure {
            SendFailure::NotSent => {
                self.report = Some(Report::LinkSuperseded);
                self.reconnect(FinalFailure::NotSent, Execution::NotExecuted)
            }
            SendFailure::Reply(verdict, Reply::Fault(fault))
                if self.last_sending.was_heard_of && fault.execution == Execution::NotExecuted =>
            {
                let fault = Fault { execution: Execution::Unknown, ..fault };
                self.handle_failure(now, link, SendFailure::Reply(verdict, Reply::Fault(fault)))
            }
            // The first 404 is believed. A second one in the same call, on a session that was
            // opened for it, may come from the tool.
            SendFailure::Reply(Verdict::Lost, reply) if self.believed_not_found => {
                self.probe(LossWording::Plain, reply, AfterProbe::Reconnect)
            }
            SendFailure::Reply(Verdict::Lost, reply) => {
                self.believed_not_found = true;
                let execution = self.count_session_refusal();
                self.lose_session(failure_from_reply(&reply), execution)
            }
            SendFailure::Reply(Verdict::Suspect(words), reply) => {
                self.probe(words, reply, AfterProbe::Reconnect)
            }
            SendFailure::Reply(Verdict::Login | Verdict::Answer, reply) => match reply {
                Reply::Fault(fault) if matches!(fault.cause, Cause::LoginRequired { .. }) => {
                    match fault.execution {
                        Execution::NotExecuted => self.request_login(fault),
                        Execution::Unknown if self.last_sending.was_heard_of => {
                            self.finish(FinalFailure::Fault(fault))
                        }
                        // Another request was refused while this one was pending.
                        Execution::Unknown => {
                            self.reconnect_if_safe(FinalFailure::Fault(fault), Execution::Unknown)
                        }
                    }
                }
                Reply::Fault(fault) => self.handle_fault(now, fault),
                Reply::Error { status: Some(400), ref error, .. } if self.is_header_mismatch(error) => {
                    self.refetched_annotations = true;
                    self.state = State::ExpectAnnotations { failed: failure_from_reply(&reply) };
                    Step::RefetchAnnotations
                }
                reply => self.finish(failure_from_reply(&reply)),
            },
        }
    }

    /// Takes the reply to a probe, with its verdict on the session. `None`: the link is gone, so
    /// the probe could not be sent.
    pub fn handle_probe(&mut self, now: Instant, answer: Option<(Verdict, Reply)>) -> Step {
        let State::ExpectProbe { words, refusal, probe, after, is_repeated } = self.take_state() else {
            return self.out_of_order();
        };
        let finding = match &answer {
            None => ProbeConclusion::Session(SessionLiveness::Unanswered),
            Some((verdict, reply)) => {
                let refused = Refusal { method: &self.request.method, wording: words, reply: &refusal };
                let method = self.link.probe_method(probe);
                let answer = ProbeReply { probe, method, verdict: *verdict, reply };
                evidence::weigh_probe_reply(refused, answer, self.link.list_method)
            }
        };
        let is_cut = matches!(&answer, Some((_, Reply::Fault(fault))) if fault.cause == Cause::Cut);
        match (finding, after) {
            (ProbeConclusion::SameRefusal, AfterProbe::Wait(wait)) if !self.last_sending.was_heard_of => {
                self.wait(now, wait, mark_not_executed(failure_from_reply(&refusal)))
            }
            (ProbeConclusion::SameRefusal, AfterProbe::Reconnect) => {
                let execution = self.count_session_refusal();
                self.lose_session(failure_from_reply(&refusal), execution)
            }
            (_, AfterProbe::Wait(_)) => {
                self.repeat_if_harmless(now, mark_unknown(failure_from_reply(&refusal)))
            }
            (ProbeConclusion::Session(liveness), AfterProbe::Reconnect) => match liveness {
                SessionLiveness::NeedsProbe(probe) => {
                    self.state = State::ExpectProbe { words, refusal, probe, after, is_repeated: false };
                    Step::Probe(probe)
                }
                // The connection may have been cut by whatever lost the session. Over HTTP the session
                // can be asked again on another one.
                SessionLiveness::Unanswered if is_cut && self.link.http && !is_repeated => {
                    self.state = State::ExpectProbe { words, refusal, probe, after, is_repeated: true };
                    Step::Probe(probe)
                }
                SessionLiveness::Alive => self.accept_refusal(now, &refusal),
                SessionLiveness::Lost => self.lose_session(failure_from_reply(&refusal), Execution::Unknown),
                SessionLiveness::Unanswered => {
                    self.handle_unanswered_probe(now, &refusal, answer.map(|(_, reply)| reply))
                }
            },
        }
    }

    /// Takes the next link, or the fault that there is none in time.
    pub fn handle_link(&mut self, now: Instant, found: Result<LinkFacts, Fault>) -> Step {
        let State::ExpectLink { failed, execution } = self.take_state() else { return self.out_of_order() };
        match found {
            Ok(link) => {
                self.link = link;
                match (execution, self.request.harmless) {
                    (Execution::NotExecuted, _) | (_, Some(true)) => self.resend(now, failed),
                    (Execution::Unknown, None) => {
                        self.state = State::ExpectHarmless { failed };
                        Step::CheckHarmless
                    }
                    (Execution::Unknown, Some(false)) => self.finish(failed),
                }
            }
            // The missing link is the cause, but what is known of the request's outcome still
            // holds.
            Err(missing) => self.finish(FinalFailure::Fault(Fault { execution, ..missing })),
        }
    }

    /// Takes whether the request is harmless, by the server's declaration.
    pub fn handle_harmless(&mut self, now: Instant, harmless: bool) -> Step {
        let State::ExpectHarmless { failed } = self.take_state() else { return self.out_of_order() };
        self.request.harmless = Some(harmless);
        if !harmless {
            return self.finish(failed);
        }
        self.resend(now, failed)
    }

    /// Takes note that the annotations are as new as can be had.
    pub fn handle_annotations(&mut self, now: Instant) -> Step {
        let State::ExpectAnnotations { failed } = self.take_state() else { return self.out_of_order() };
        self.resend(now, failed)
    }

    /// Takes the result of a login.
    pub fn handle_login(&mut self, now: Instant, entered: Result<(), Fault>) -> Step {
        let State::ExpectLogin { failed, for_session } = self.take_state() else {
            return self.out_of_order();
        };
        match entered {
            Ok(()) => self.resend(now, failed),
            Err(why) if for_session => self.reconnect_for_login(FinalFailure::Fault(why)),
            Err(why) => self.finish(FinalFailure::Fault(why)),
        }
    }

    /// Takes the end of a [`Step::Wait`], or the [`deadline`](Self::deadline) of any other step.
    pub fn handle_timeout(&mut self, now: Instant) -> Step {
        match self.take_state() {
            State::ExpectTime { until, failed } if now >= until && now < self.deadline() => {
                if self.last_sending.was_heard_of && self.request.harmless != Some(true) {
                    return self.give_up_proof(failed);
                }
                self.send(now)
            }
            State::ExpectProbe { refusal, .. } => self.finish(mark_unknown(failure_from_reply(&refusal))),
            State::ExpectTime { failed, .. }
            | State::ExpectLink { failed, .. }
            | State::ExpectHarmless { failed }
            | State::ExpectAnnotations { failed }
            | State::ExpectLogin { failed, .. } => self.finish(failed),
            State::ExpectReply | State::Finished => self.out_of_order(),
        }
    }

    // === what a failure means ===

    fn handle_fault(&mut self, now: Instant, fault: Fault) -> Step {
        let harmless = self.request.harmless == Some(true);
        match fault.cause {
            // The server is busy. If it says for how long, a probe tells whether a rate limit or the
            // tool said so.
            Cause::Status { code: 429, retry_after } => {
                let wait = retry_after.unwrap_or_else(|| self.backoff());
                self.not_before = Some(add_clamped(now, wait));
                if wait > self.request.max_retry_after || add_clamped(now, wait) >= self.deadline() {
                    return self.finish(FinalFailure::Fault(fault));
                }
                if harmless || retry_after.is_none() {
                    return self.repeat_if_harmless(now, FinalFailure::Fault(fault));
                }
                self.probe(LossWording::None, Reply::Fault(fault), AfterProbe::Wait(wait))
            }
            _ if fault.is_outage() => self.lose_link(fault.clone(), FinalFailure::Fault(fault)),
            _ => self.finish(FinalFailure::Fault(fault)),
        }
    }

    /// Accepts the refusal as the server's own answer, since the session is alive.
    fn accept_refusal(&mut self, now: Instant, refusal: &Reply) -> Step {
        let failed = mark_unknown(failure_from_reply(refusal));
        match refusal {
            // A proxy did not reach the server, or the reply was cut.
            Reply::Fault(fault) if fault.is_outage() => self.repeat_if_harmless(now, failed),
            _ => self.finish(failed),
        }
    }

    /// Sends the request again on the same link if it is harmless.
    fn repeat_if_harmless(&mut self, now: Instant, failed: FinalFailure) -> Step {
        match self.request.harmless {
            Some(false) => self.finish(failed),
            Some(true) => {
                self.execution = Execution::Unknown;
                let wait = self.backoff().max(self.asked_wait(now));
                self.wait(now, wait, failed)
            }
            None => {
                self.execution = Execution::Unknown;
                self.state = State::ExpectHarmless { failed };
                Step::CheckHarmless
            }
        }
    }

    /// Handles a refusal whose probe got no answer. Nothing is proved, and nothing is discarded but
    /// a link that does not answer.
    fn handle_unanswered_probe(&mut self, now: Instant, refusal: &Reply, answer: Option<Reply>) -> Step {
        let shown = mark_unknown(failure_from_reply(refusal));
        match answer {
            Some(Reply::Fault(fault)) if matches!(fault.cause, Cause::Timeout(_)) => {
                let note = "the server answers nothing, not even a probe";
                self.lose_link(Fault::new(Cause::Cut).with_note(note), shown)
            }
            Some(Reply::Fault(fault)) if fault.is_outage() => self.lose_link(fault, shown),
            None => self.reconnect_if_safe(shown, Execution::Unknown),
            Some(_) => self.repeat_if_harmless(now, shown),
        }
    }

    fn probe(&mut self, words: LossWording, refusal: Reply, after: AfterProbe) -> Step {
        let probe = evidence::first_probe(words, self.link.list_method);
        self.state = State::ExpectProbe { words, refusal, probe, after, is_repeated: false };
        Step::Probe(probe)
    }

    /// Handles a lost link. `failed` is the failure of the request, `fault` why the link is lost.
    fn lose_link(&mut self, fault: Fault, failed: FinalFailure) -> Step {
        // On a pipe or a stream the reader reports the loss, though perhaps a moment later. Where
        // no connection came about there is no reader.
        if self.link.http || fault.is_connect_failure() {
            self.report = Some(Report::LinkLost(fault));
        }
        let execution = match &failed {
            FinalFailure::Fault(fault) => fault.execution,
            FinalFailure::ServerError(_) | FinalFailure::NotSent => Execution::Unknown,
        };
        self.reconnect_if_safe(failed, execution)
    }

    /// Reports the loss of the session and requests a new one.
    fn lose_session(&mut self, failed: FinalFailure, execution: Execution) -> Step {
        let fault = Fault { execution, ..session_loss_fault(&failed) };
        self.report = Some(Report::SessionLost(fault.clone()));
        self.unproven_losses = if self.link.proven { 0 } else { self.unproven_losses + 1 };
        if self.unproven_losses >= MAX_UNPROVEN_LOSSES {
            return self.finish(FinalFailure::Fault(Fault { cause: Cause::NotAffine, ..fault }));
        }
        self.reconnect_if_safe(FinalFailure::Fault(fault), execution)
    }

    fn reconnect_if_safe(&mut self, failed: FinalFailure, execution: Execution) -> Step {
        if execution == Execution::Unknown && self.request.harmless == Some(false) {
            return self.finish(failed);
        }
        self.reconnect(failed, execution)
    }

    fn reconnect(&mut self, failed: FinalFailure, execution: Execution) -> Step {
        if execution == Execution::Unknown {
            self.execution = execution;
        }
        if self.request.pinned {
            return self.finish(failed);
        }
        self.state = State::ExpectLink { failed, execution };
        Step::Reconnect
    }

    // === going on ===

    /// Sends the request again: at once the first time unless the server asked for a wait, then with
    /// backoff.
    fn resend(&mut self, now: Instant, failed: FinalFailure) -> Step {
        if self.last_sending.was_heard_of && self.request.harmless != Some(true) {
            return self.give_up_proof(failed);
        }
        let mut wait = self.asked_wait(now);
        if self.resends > 0 && failed != FinalFailure::NotSent {
            wait = wait.max(self.backoff());
        }
        if !wait.is_zero() {
            return self.wait(now, wait, failed);
        }
        if now >= self.deadline() {
            return self.finish(failed);
        }
        // A request that was never sent does not count as sent again.
        self.resends += u32::from(failed != FinalFailure::NotSent);
        self.send(now)
    }

    /// Handles a message about the request that came after the failure which proved that it was not executed.
    fn give_up_proof(&mut self, failed: FinalFailure) -> Step {
        self.execution = Execution::Unknown;
        let failed = mark_unknown(failed);
        if self.request.harmless == Some(false) {
            return self.finish(failed);
        }
        self.state = State::ExpectHarmless { failed };
        Step::CheckHarmless
    }

    /// Sends the request again on the same link after `wait`.
    fn wait(&mut self, now: Instant, wait: Duration, failed: FinalFailure) -> Step {
        self.resends += 1;
        let until = add_clamped(now, wait).min(self.deadline());
        self.state = State::ExpectTime { until, failed };
        Step::Wait(until)
    }

    fn send(&mut self, now: Instant) -> Step {
        self.last_sending = Sending { at: now, was_heard_of: false };
        self.state = State::ExpectReply;
        Step::Send
    }

    /// The wait that is left of what the server asked for. A caller is not made to wait for an hour.
    fn asked_wait(&self, now: Instant) -> Duration {
        let left = self.not_before.map(|at| at.saturating_duration_since(now));
        left.unwrap_or_default().min(self.request.max_retry_after)
    }

    fn backoff(&self) -> Duration {
        (BACKOFF_FLOOR * (1 << self.resends.min(10))).min(BACKOFF_CAP)
    }

    /// Finishes with the outcome over all sendings: once the request may have been executed, it
    /// stays `Unknown`.
    fn finish(&mut self, outcome: FinalFailure) -> Step {
        self.state = State::Finished;
        Step::Finish(match outcome {
            FinalFailure::Fault(fault) if self.execution == Execution::Unknown => {
                FinalFailure::Fault(Fault { execution: Execution::Unknown, ..fault })
            }
            // The driver sends a pinned request no more, and knows why. To the caller of any other
            // the session was lost, and an earlier sending may have been executed.
            FinalFailure::NotSent if self.execution == Execution::Unknown || !self.request.pinned => {
                FinalFailure::Fault(Fault::new(Cause::SessionLost).with_execution(self.execution))
            }
            other => other,
        })
    }

    /// Counts a refusal of the session, and returns what is known of the request. A tool that ends its
    /// own session is refused alike after each execution.
    fn count_session_refusal(&mut self) -> Execution {
        self.session_refusals += 1;
        let proves = !self.last_sending.was_heard_of && self.session_refusals <= MAX_SESSION_PROOFS;
        if proves { Execution::NotExecuted } else { Execution::Unknown }
    }

    fn take_state(&mut self) -> State {
        std::mem::replace(&mut self.state, State::Finished)
    }

    /// Ends the request, claiming nothing, because the driver reported something it was not asked
    /// for.
    fn out_of_order(&mut self) -> Step {
        debug_assert!(false, "reported out of order");
        self.finish(FinalFailure::Fault(Fault::new(Cause::Closed)))
    }

    /// Whether the error says that our copy of the tool's schema is out of date. Outside of
    /// `tools/call` of a modern server over HTTP the code has no such meaning.
    // HM-10
    fn is_header_mismatch(&self, error: &RpcError) -> bool {
        error.code == code::HEADER_MISMATCH
            && *self.request.method == *method::TOOLS_CALL
            && self.link.http
            && self.link.modern
            && !self.last_sending.was_heard_of
            && !self.refetched_annotations
    }
}

/// `at + wait`, with the wait cut to a year so that a caller's `Duration::MAX` does not overflow.
fn add_clamped(at: Instant, wait: Duration) -> Instant {
    at + wait.min(Duration::from_secs(86_400 * 365))
}

/// Number of refusals of its session that prove, in one call, that the request was not executed.
const MAX_SESSION_PROOFS: u32 = 5;
/// Number of unproven sessions lost in a row after which the server counts as not affine.
const MAX_UNPROVEN_LOSSES: u32 = 5;
/// Minimum wait before a request is sent a third time. It doubles with each sending.
const BACKOFF_FLOOR: Duration = Duration::from_millis(50);
/// Maximum wait between two sendings.
const BACKOFF_CAP: Duration = Duration::from_secs(5);

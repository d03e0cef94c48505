//! The fate of a request that failed: whether it is sent again, after what, and what its caller is told.
//!
//! [`Retry`] is the only thing that decides it, for every method, era and transport, by the rule of evidence in
//! `retry/evidence.rs`: words never cause a second execution. A request that may have effects is sent again only on
//! proof that it was not executed. A harmless one (it only reads, or the server declares the tool idempotent) needs a
//! session and time, and no proof.
//!
//! It does no I/O. Its driver performs a [`Step`], reports how that ended with the `handle_*` method that the step
//! names, and drains [`Retry::poll_report`] after each. Whatever the driver waits for, it waits no longer than
//! [`Retry::deadline`], and says so with [`Retry::handle_timeout`].
//!
//! ```text
//! Send ─ failed ─▶ answer of the server ─────────────────────────────▶ Finish
//!   ▲              refused, perhaps for its session ─▶ Probe ─ lives ─▶ Finish
//!   │                                                   │ gone
//!   │              link or session lost ◀───────────────┘
//!   │                 │ may go again                    │ may not
//!   └── Wait ◀── Reconnect (─▶ LookUp: is it harmless?) └────────────▶ Finish
//! ```

mod evidence;
mod messages;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use crate::calls::Limits;
use crate::era::Reply;
use crate::fault::{Cause, Execution, Fault, Misbehaviour};
use crate::keepalive::Probe;
use crate::loss::{Verdict, Words};
use crate::wire::{RpcError, code, method};
use evidence::{Finding, ProbeReply, Refusal};

pub use evidence::{Standing, standing};
pub use messages::{Failure, Link, Outcome, Report, Request, Step};

/// The fate of one request, from its first failure to its outcome.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "what was learned of the request, beside its state")]
pub struct Retry {
    request: Request,
    limits: Limits,
    /// When the call began. Time that a person took is added to it.
    begun: Instant,
    /// When the first failure since the last sign of life came.
    failed: Option<Instant>,
    /// When the request was last sent.
    sent: Instant,
    link: Link,
    state: State,
    /// Whether one of the sendings may have been executed.
    possibly_executed: bool,
    /// How often the request was sent again.
    resends: u32,
    /// Sessions in a row that were lost before they answered anything.
    unproven_losses: u32,
    /// How often credentials were asked for.
    logins: u32,
    /// A new session was tried because refused credentials may have meant the session.
    renewed_for_login: bool,
    /// HM-10: the annotations were fetched again for it.
    corrected: bool,
    /// A 404 or 410 was believed without a probe.
    not_found: bool,
    report: Option<Report>,
}

/// What is waited for. Each state keeps what the caller is told if the time runs out.
#[derive(Debug)]
enum State {
    /// The request is on its way.
    ExpectReply,
    /// A probe is on its way, for a refusal.
    ExpectProbe { words: Words, refusal: Reply, probe: Probe, after: AfterProbe },
    /// The next link; what failed on the last, and whether the request can have been executed there.
    ExpectLink { failed: Outcome, execution: Execution },
    /// Whether the request is harmless.
    ExpectHarmless { failed: Outcome },
    /// The annotations of the tool.
    ExpectAnnotations { failed: Outcome },
    /// Credentials.
    ExpectLogin { failed: Outcome, for_session: bool },
    /// A moment.
    ExpectTime { until: Instant, failed: Outcome },
    /// Nothing: the outcome was told.
    Finished,
}

/// What follows if a probe is refused by the gate that refused the request.
#[derive(Clone, Copy, Debug)]
enum AfterProbe {
    /// The gate is the session's: a new session.
    Reconnect,
    /// The gate is a limit: the same link, after this wait.
    Wait(Duration),
}

// === impl Retry ===

impl Retry {
    /// A request that was first sent at `begun`.
    pub fn new(request: Request, begun: Instant, limits: Limits) -> Self {
        Self {
            request,
            limits,
            begun,
            failed: None,
            sent: begun,
            link: Link::default(),
            state: State::ExpectReply,
            possibly_executed: false,
            resends: 0,
            unproven_losses: 0,
            logins: 0,
            renewed_for_login: false,
            corrected: false,
            not_found: false,
            report: None,
        }
    }

    /// What others are to be told, before the next step is performed.
    pub fn poll_report(&mut self) -> Option<Report> {
        self.report.take()
    }

    /// How often the request was sent again.
    pub fn resends(&self) -> u32 {
        self.resends
    }

    /// When a step that is not [`Step::Send`] has to be given up: what the call may take in all, and how long it may
    /// go on without a sign of life.
    pub fn deadline(&self) -> Instant {
        let silent = self.failed.map(|failed| far(failed, self.limits.idle));
        silent.into_iter().fold(far(self.begun, self.limits.total), Instant::min)
    }

    /// What the next sending may take.
    pub fn limits(&self, now: Instant) -> Limits {
        let total = far(self.begun, self.limits.total).saturating_duration_since(now);
        Limits { idle: self.limits.idle, total }
    }

    /// A person was asked for this long, and that does not count.
    pub fn exclude(&mut self, pause: Duration) {
        self.begun += pause;
        self.sent += pause;
        self.failed = self.failed.map(|failed| failed + pause);
    }

    /// The request failed, over a link of which this is known now.
    pub fn handle_failure(&mut self, now: Instant, link: Link, failure: Failure) -> Step {
        self.link = link;
        // A sending that lasted longer than a call may be silent was heard of meanwhile.
        if now.saturating_duration_since(self.sent) > self.limits.idle {
            self.failed = None;
        }
        self.failed.get_or_insert(now);
        match failure {
            Failure::Unsent => {
                self.report = Some(Report::LinkLeft);
                self.reconnect(Outcome::Left, Execution::NotExecuted)
            }
            // The first 404 is believed. A second in the same call, on a session that was opened for it, may be the
            // tool's own.
            Failure::Reply(Verdict::Lost, reply) if self.not_found => {
                self.probe(Words::Plain, reply, AfterProbe::Reconnect)
            }
            Failure::Reply(Verdict::Lost, reply) => {
                self.not_found = true;
                self.lose_session(outcome(&reply), Execution::NotExecuted)
            }
            Failure::Reply(Verdict::Suspect(words), reply) => self.probe(words, reply, AfterProbe::Reconnect),
            Failure::Reply(Verdict::Login | Verdict::Answer, reply) => match reply {
                Reply::Fault(fault) if matches!(fault.cause, Cause::LoginRequired { .. }) => {
                    match fault.execution {
                        Execution::NotExecuted => self.log_in(fault),
                        // Somebody else was refused, while this one was under way.
                        Execution::Unknown => {
                            self.reconnect_unless_effects(Outcome::Fault(fault), Execution::Unknown)
                        }
                    }
                }
                Reply::Fault(fault) => self.take_fault(now, fault),
                Reply::Error { ref error, .. } if self.is_header_mismatch(error) => {
                    self.corrected = true;
                    self.state = State::ExpectAnnotations { failed: outcome(&reply) };
                    Step::Correct
                }
                reply => self.finish(outcome(&reply)),
            },
        }
    }

    /// The answer to a probe. `verdict`: what it means for the session. `None`: the link is gone, and nobody could be
    /// asked.
    pub fn handle_probe(&mut self, now: Instant, answer: Option<(Verdict, Reply)>) -> Step {
        let State::ExpectProbe { words, refusal, probe, after } = self.take_state() else {
            return self.out_of_order();
        };
        let finding = match &answer {
            None => Finding::Standing(Standing::Unanswered),
            Some((verdict, reply)) => {
                let refused = Refusal { method: &self.request.method, words, reply: &refusal };
                let method = self.link.probe_method(probe);
                let answer = ProbeReply { probe, method, verdict: *verdict, reply };
                evidence::weigh(refused, answer, self.link.list)
            }
        };
        match (finding, after) {
            (Finding::SameGate, AfterProbe::Wait(wait)) => self.wait(now, wait, proved(outcome(&refusal))),
            (Finding::SameGate, AfterProbe::Reconnect) => {
                self.lose_session(outcome(&refusal), Execution::NotExecuted)
            }
            (Finding::Standing(_), AfterProbe::Wait(_)) => self.finish(unproved(outcome(&refusal))),
            (Finding::Standing(standing), AfterProbe::Reconnect) => match standing {
                Standing::Ask(probe) => {
                    self.state = State::ExpectProbe { words, refusal, probe, after };
                    Step::Probe(probe)
                }
                Standing::Lives => self.take_own_answer(now, &refusal),
                Standing::Gone => self.lose_session(outcome(&refusal), Execution::Unknown),
                Standing::Unanswered => self.take_silence(now, &refusal, answer.map(|(_, reply)| reply)),
            },
        }
    }

    /// The next link, or why there is none in time.
    pub fn handle_link(&mut self, now: Instant, found: Result<Link, Fault>) -> Step {
        let State::ExpectLink { failed, execution } = self.take_state() else { return self.out_of_order() };
        match found {
            Ok(link) => {
                self.link = link;
                match (execution, self.request.harmless) {
                    (Execution::NotExecuted, _) | (_, Some(true)) => self.resend(now, failed),
                    (Execution::Unknown, None) => {
                        self.state = State::ExpectHarmless { failed };
                        Step::LookUp
                    }
                    (Execution::Unknown, Some(false)) => self.finish(failed),
                }
            }
            // The server did not come back: that is why, but what is known of the request still holds.
            Err(missing) => self.finish(Outcome::Fault(Fault { execution, ..missing })),
        }
    }

    /// Whether the request is harmless, as far as the server says.
    pub fn handle_look_up(&mut self, now: Instant, harmless: bool) -> Step {
        let State::ExpectHarmless { failed } = self.take_state() else { return self.out_of_order() };
        self.request.harmless = Some(harmless);
        if harmless { self.resend(now, failed) } else { self.finish(failed) }
    }

    /// The annotations are the newest that can be had.
    pub fn handle_corrected(&mut self, now: Instant) -> Step {
        let State::ExpectAnnotations { failed } = self.take_state() else { return self.out_of_order() };
        self.resend(now, failed)
    }

    /// Credentials were had, or why they were not.
    pub fn handle_login(&mut self, now: Instant, entered: Result<(), Fault>) -> Step {
        let State::ExpectLogin { failed, for_session } = self.take_state() else {
            return self.out_of_order();
        };
        match entered {
            Ok(()) => self.resend(now, failed),
            Err(why) if for_session => self.renew_for_login(Outcome::Fault(why)),
            Err(why) => self.finish(Outcome::Fault(why)),
        }
    }

    /// The moment of [`Step::Wait`] has come, or the [`deadline`](Self::deadline) of any other step.
    pub fn handle_timeout(&mut self, now: Instant) -> Step {
        match self.take_state() {
            State::ExpectTime { until, .. } if now >= until && now < self.deadline() => self.send(now),
            State::ExpectProbe { refusal, .. } => self.finish(unproved(outcome(&refusal))),
            State::ExpectTime { failed, .. }
            | State::ExpectLink { failed, .. }
            | State::ExpectHarmless { failed }
            | State::ExpectAnnotations { failed }
            | State::ExpectLogin { failed, .. } => self.finish(failed),
            State::ExpectReply | State::Finished => self.out_of_order(),
        }
    }

    // === what a failure means ===

    fn take_fault(&mut self, now: Instant, fault: Fault) -> Step {
        let harmless = self.request.harmless == Some(true);
        match fault.cause {
            // The server is busy and says for how long. Whether a limit or a tool said so, a probe tells.
            Cause::Status { code: 429, retry_after } if harmless || retry_after.is_some() => {
                let wait = retry_after.unwrap_or_else(|| self.backoff());
                if wait > self.request.patience || far(now, wait) >= self.deadline() {
                    return self.finish(Outcome::Fault(fault));
                }
                if harmless {
                    self.possibly_executed = true;
                    return self.wait(now, wait, Outcome::Fault(fault));
                }
                self.probe(Words::None, Reply::Fault(fault), AfterProbe::Wait(wait))
            }
            _ if fault.is_outage() => self.lose_link(fault.clone(), Outcome::Fault(fault)),
            _ => self.finish(Outcome::Fault(fault)),
        }
    }

    /// The session is there, so the refusal was meant as it was said.
    fn take_own_answer(&mut self, now: Instant, refusal: &Reply) -> Step {
        let failed = unproved(outcome(refusal));
        match refusal {
            // What stands in front of the server did not reach it, or what came back was cut.
            Reply::Fault(fault) if fault.is_outage() => self.repeat_if_harmless(now, failed),
            _ => self.finish(failed),
        }
    }

    /// Sends it again on the same link, if nothing needs to be proved for that.
    fn repeat_if_harmless(&mut self, now: Instant, failed: Outcome) -> Step {
        match self.request.harmless {
            Some(false) => self.finish(failed),
            Some(true) => {
                self.possibly_executed = true;
                let backoff = self.backoff();
                self.wait(now, backoff, failed)
            }
            None => {
                self.possibly_executed = true;
                self.state = State::ExpectHarmless { failed };
                Step::LookUp
            }
        }
    }

    /// A refusal about which nobody could be asked: nothing is proved, and nothing is thrown away for it but a link
    /// that does not answer.
    fn take_silence(&mut self, now: Instant, refusal: &Reply, answer: Option<Reply>) -> Step {
        let shown = unproved(outcome(refusal));
        match answer {
            Some(Reply::Fault(fault)) if matches!(fault.cause, Cause::Timeout(_)) => {
                let note = "the server answers nothing, not even a probe";
                self.lose_link(Fault::new(Cause::Cut).note(note), shown)
            }
            Some(Reply::Fault(fault)) if fault.is_outage() => self.lose_link(fault, shown),
            None => self.reconnect_unless_effects(shown, Execution::Unknown),
            Some(_) => self.repeat_if_harmless(now, shown),
        }
    }

    fn probe(&mut self, words: Words, refusal: Reply, after: AfterProbe) -> Step {
        let probe = evidence::first_probe(words, self.link.list);
        self.state = State::ExpectProbe { words, refusal, probe, after };
        Step::Probe(probe)
    }

    /// The server cannot be reached. `failed` is what is known of the request, `fault` why the link is lost.
    fn lose_link(&mut self, fault: Fault, failed: Outcome) -> Step {
        // On a pipe or a stream its reader notices, though perhaps a moment later; but where nobody can be reached
        // there is nothing to wait for.
        if self.link.http || fault.is_connect_failure() {
            self.report = Some(Report::LinkLost(fault));
        }
        let execution = match &failed {
            Outcome::Fault(fault) => fault.execution,
            Outcome::Server(_) | Outcome::Left => Execution::Unknown,
        };
        self.reconnect_unless_effects(failed, execution)
    }

    /// The server forgot the session.
    fn lose_session(&mut self, failed: Outcome, execution: Execution) -> Step {
        let fault = Fault { execution, ..loss(&failed) };
        self.report = Some(Report::SessionLost(fault.clone()));
        self.unproven_losses = if self.link.proven { 0 } else { self.unproven_losses + 1 };
        if self.unproven_losses >= MAX_UNPROVEN_LOSSES {
            return self.finish(Outcome::Fault(Fault { cause: Cause::NotAffine, ..fault }));
        }
        self.reconnect_unless_effects(Outcome::Fault(fault), execution)
    }

    fn reconnect_unless_effects(&mut self, failed: Outcome, execution: Execution) -> Step {
        if execution == Execution::Unknown && self.request.harmless == Some(false) {
            return self.finish(failed);
        }
        self.reconnect(failed, execution)
    }

    fn reconnect(&mut self, failed: Outcome, execution: Execution) -> Step {
        self.possibly_executed |= execution == Execution::Unknown;
        if self.request.pinned {
            return self.finish(failed);
        }
        self.state = State::ExpectLink { failed, execution };
        Step::Reconnect
    }

    // === credentials ===

    /// Refused for who we are. Some servers say so to a session they have forgotten: with credentials that were good a
    /// moment ago, one new session comes before a person is asked.
    fn log_in(&mut self, refused: Fault) -> Step {
        let Link { session, credentials, proven, challenged, authorizes, .. } = self.link;
        let for_session = session && credentials && proven && !challenged && !self.renewed_for_login;
        let failed = Outcome::Fault(refused.clone());
        if authorizes && self.logins < MAX_LOGINS {
            self.logins += 1;
            self.state = State::ExpectLogin { failed, for_session };
            return Step::LogIn { refused, quietly: for_session || self.request.quiet };
        }
        if for_session {
            return self.renew_for_login(failed);
        }
        self.report = Some(Report::NeedsLogin(refused));
        self.finish(failed)
    }

    fn renew_for_login(&mut self, failed: Outcome) -> Step {
        self.renewed_for_login = true;
        self.lose_session(failed, Execution::NotExecuted)
    }

    // === going on ===

    /// Sends it again: at once the first time, and then after waits that grow.
    fn resend(&mut self, now: Instant, failed: Outcome) -> Step {
        if self.resends > 0 && failed != Outcome::Left {
            let backoff = self.backoff();
            return self.wait(now, backoff, failed);
        }
        if now >= self.deadline() {
            return self.finish(failed);
        }
        // What was not sent is not sent again.
        self.resends += u32::from(failed != Outcome::Left);
        self.send(now)
    }

    /// Sends it again on the same link, after this wait.
    fn wait(&mut self, now: Instant, wait: Duration, failed: Outcome) -> Step {
        self.resends += 1;
        let until = far(now, wait).min(self.deadline());
        self.state = State::ExpectTime { until, failed };
        Step::Wait(until)
    }

    fn send(&mut self, now: Instant) -> Step {
        self.sent = now;
        self.state = State::ExpectReply;
        Step::Send
    }

    fn backoff(&self) -> Duration {
        (BACKOFF_FLOOR * (1 << self.resends.min(10))).min(BACKOFF_CAP)
    }

    /// The outcome, with what is known of all sendings: once it may have been executed, nothing makes that undone.
    fn finish(&mut self, outcome: Outcome) -> Step {
        self.state = State::Finished;
        Step::Finish(match outcome {
            Outcome::Fault(fault) if self.possibly_executed => {
                Outcome::Fault(Fault { execution: Execution::Unknown, ..fault })
            }
            other => other,
        })
    }

    fn take_state(&mut self) -> State {
        std::mem::replace(&mut self.state, State::Finished)
    }

    /// A driver that reports what it was not asked for is wrong; the request ends with nothing claimed.
    fn out_of_order(&mut self) -> Step {
        debug_assert!(false, "reported out of order");
        self.finish(Outcome::Fault(Fault::new(Cause::Closed)))
    }

    /// HM-10: the schema we hold is out of date. Elsewhere the code is the server's own.
    fn is_header_mismatch(&self, error: &RpcError) -> bool {
        error.code == code::HEADER_MISMATCH
            && *self.request.method == *method::TOOLS_CALL
            && self.link.http
            && self.link.modern
            && !self.corrected
    }
}

/// What a failed sending is to its caller, if nothing more is learned.
pub fn outcome(reply: &Reply) -> Outcome {
    match reply {
        Reply::Error { error, .. } => Outcome::Server(error.clone()),
        Reply::Fault(fault) => Outcome::Fault(fault.clone()),
        Reply::Result(_) | Reply::Accepted | Reply::Silence => {
            Outcome::Fault(Fault::protocol(Misbehaviour::NoAnswer))
        }
    }
}

/// Labels a refusal as unknown: one that leaves its reason open may come after the work.
fn unproved(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Fault(fault) => Outcome::Fault(Fault { execution: Execution::Unknown, ..fault }),
        other => other,
    }
}

/// Labels a refusal as not executed: the gate that refused the request refuses everything.
fn proved(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Fault(fault) => Outcome::Fault(fault.not_executed()),
        other => other,
    }
}

/// The failure as the loss of a session, with the server's words as evidence.
pub fn loss(failed: &Outcome) -> Fault {
    let lost = Fault::before_sending(Cause::SessionLost);
    match failed {
        // Whoever is to log in is to be told how.
        Outcome::Fault(fault) if matches!(fault.cause, Cause::LoginRequired { .. }) => fault.clone(),
        Outcome::Fault(fault) => {
            let words = fault.evidence.body.as_deref().unwrap_or_default();
            lost.note(fault.cause.to_string()).body(words.as_bytes())
        }
        Outcome::Server(error) => lost.body(error.message.as_bytes()),
        Outcome::Left => lost,
    }
}

/// `at + wait`, where a wait of centuries (a caller's `Duration::MAX`) must not overflow.
fn far(at: Instant, wait: Duration) -> Instant {
    at + wait.min(Duration::from_secs(86_400 * 365))
}

/// SC-04: how often one call may ask for credentials.
const MAX_LOGINS: u32 = 3;
/// New sessions in a row that were lost before they answered anything: another would be lost too.
const MAX_UNPROVEN_LOSSES: u32 = 5;
/// The shortest wait before a request is sent a third time. It doubles with each sending.
const BACKOFF_FLOOR: Duration = Duration::from_millis(50);
/// The longest.
const BACKOFF_CAP: Duration = Duration::from_secs(5);

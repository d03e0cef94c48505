//! Whoever waits for a call: when it is sent, when it is sent once more, and how it ends.
//!
//! This is the rule of the client, in small. What may be sent again is asked of `Fault` and of the verdict
//! on the session; what was run is counted by the server, which knows nothing of the rule.

use std::time::{Duration, Instant};

use bowline_proto::calls::{Due, Limits};
use bowline_proto::era::Reply;
use bowline_proto::fault::{Cause, Execution, Fault, Misbehaviour};
use bowline_proto::loss::Verdict;
use bowline_proto::session::{Attempt, Carrier, Command, Event, Status};
use bowline_proto::wire::method;

use crate::exchange::Who;
use crate::world::{Happening, World};

pub(crate) struct Caller {
    /// To run it twice is to run it once.
    harmless: bool,
    begun: Instant,
    /// It was sent a second time.
    resent: bool,
    /// Why the next time is the second.
    again: Option<&'static str>,
    /// One of the times it was sent, it may have run.
    doubt: bool,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// For a link.
    Waiting,
    /// For an answer to this request.
    Flying(u64),
    Done(Outcome),
}

/// How a call ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Answered,
    Failed(Execution),
    Left,
}

/// What the table of calls keeps for one request.
pub(crate) struct Flight {
    caller: usize,
    attempt: Attempt,
    exchange: u64,
    written: bool,
    /// It only asks whether the session of this answer is there.
    first: Option<Reply>,
}

impl World {
    pub(crate) fn begin_call(&mut self) {
        let caller = self.callers.len();
        let harmless = self.rng.u8(..3) == 0;
        self.callers.push(Caller {
            harmless,
            begun: self.now,
            resent: false,
            again: None,
            doubt: false,
            stage: Stage::Waiting,
        });
        if self.rng.u8(..12) == 0 {
            let at = self.soon(6_000);
            self.at(at, Happening::Leave(caller));
        }
        self.wait_for_link(caller);
    }

    /// Sends the call, now or when there is a link.
    fn wait_for_link(&mut self, caller: usize) {
        self.callers[caller].stage = Stage::Waiting;
        if let Some(attempt) = self.live {
            return self.fly(caller, attempt);
        }
        if self.session.hopeless(self.now).is_some() {
            self.tally.note("call: hopeless");
            return self.fail(caller, Execution::NotExecuted);
        }
        self.waiting.push(caller);
        self.at(
            (self.now + RECONNECT_WAIT).min(self.callers[caller].begun + LIMITS.total),
            Happening::StopWaiting(caller),
        );
        self.demand();
    }

    /// Somebody waits: that is worth an attempt.
    fn demand(&mut self) {
        if !matches!(self.session.status(), Status::Connecting | Status::Ready(_) | Status::Closed) {
            self.session.handle_command(self.now, Command::Connect);
        }
    }

    /// Whoever waits for a link looks at every change of the connection.
    pub(crate) fn look_at_status(&mut self) {
        let status = self.session.status();
        let seen = (self.session.attempt(), std::mem::discriminant(&status));
        if self.seen == Some(seen) || self.waiting.is_empty() {
            return;
        }
        self.seen = Some(seen);
        if status == Status::Closed || self.session.hopeless(self.now).is_some() {
            for caller in std::mem::take(&mut self.waiting) {
                self.fail(caller, Execution::NotExecuted);
            }
            return;
        }
        self.demand();
        self.act();
    }

    /// There is a link.
    pub(crate) fn release_callers(&mut self) {
        for caller in std::mem::take(&mut self.waiting) {
            // The first of them may have found the link dead.
            self.wait_for_link(caller);
        }
    }

    pub(crate) fn stop_waiting(&mut self, caller: usize) {
        if let Some(place) = self.waiting.iter().position(|waiting| *waiting == caller) {
            self.waiting.swap_remove(place);
            self.tally.note("call: no link in time");
            self.fail(caller, Execution::NotExecuted);
        }
    }

    /// The caller no longer waits. Nothing more is sent for it.
    pub(crate) fn leave_call(&mut self, caller: usize) {
        match self.callers[caller].stage {
            Stage::Done(_) => return,
            Stage::Flying(id) => {
                self.calls.end(id);
            }
            Stage::Waiting => self.waiting.retain(|waiting| *waiting != caller),
        }
        self.finish(caller, Outcome::Left);
    }

    fn fly(&mut self, caller: usize, attempt: Attempt) {
        let call = &mut self.callers[caller];
        assert_eq!(call.stage, Stage::Waiting, "sent for nobody");
        if let Some(why) = call.again.take() {
            assert!(!call.resent, "sent a third time");
            call.resent = true;
            self.tally.note(why);
        }
        let left = (call.begun + LIMITS.total).saturating_duration_since(self.now);
        self.alive.begun(self.now);
        let flight = Flight { caller, attempt, exchange: 0, written: true, first: None };
        let id = self.calls.begin(self.now, Limits { total: left, ..LIMITS }, flight);
        self.callers[caller].stage = Stage::Flying(id);
        let session = self.links[&attempt].session;
        let exchange = self.post(attempt, Who::Call { id, caller }, session);
        let written = self.is_written(exchange);
        if let Some(flight) = self.calls.get_mut(id) {
            (flight.exchange, flight.written) = (exchange, written);
        }
        if self.rng.u8(..6) == 0 {
            let at = self.soon(9_000);
            self.at(at, Happening::Progress(id));
        }
    }

    /// An answer, or what came in its place.
    pub(crate) fn judge(&mut self, caller: usize, attempt: Attempt, reply: Reply) {
        let named = self.links[&attempt].session.is_some();
        match (reply.sign(method::TOOLS_CALL, named, self.credentials), reply) {
            (_, Reply::Result(_)) => {
                self.prove(attempt);
                self.finish(caller, Outcome::Answered);
            }
            (Verdict::Lost, _) => self.lose_session(caller, attempt, Execution::NotExecuted),
            (Verdict::Suspect | Verdict::Uninitialized, first) => self.ask(caller, attempt, first),
            (Verdict::Login, Reply::Fault(fault)) => {
                // Some servers say so of a session they have forgotten.
                if self.credentials && self.links[&attempt].proven && !self.callers[caller].resent {
                    return self.lose_session(caller, attempt, Execution::NotExecuted);
                }
                self.leave(attempt);
                self.news(attempt, Event::Lost(fault));
                self.fail(caller, Execution::NotExecuted);
            }
            (_, Reply::Fault(fault)) => self.lose_link(caller, attempt, fault),
            (_, Reply::Error { .. }) => {
                self.prove(attempt);
                self.finish(caller, Outcome::Answered);
            }
            (_, Reply::Accepted | Reply::Silence) => {
                self.lose_link(caller, attempt, Fault::protocol(Misbehaviour::NoAnswer));
            }
        }
    }

    /// The answer may be about the session: a request without effect will tell.
    fn ask(&mut self, caller: usize, attempt: Attempt, first: Reply) {
        self.tally.note("asked whether a suspected session is there");
        let left = (self.callers[caller].begun + LIMITS.total).saturating_duration_since(self.now);
        let flight = Flight { caller, attempt, exchange: 0, written: true, first: Some(first.clone()) };
        let id = self.calls.begin(self.now, Limits { idle: PROBE, total: left.min(PROBE) }, flight);
        self.callers[caller].stage = Stage::Flying(id);
        let session = self.links[&attempt].session;
        let exchange = self.post(attempt, Who::Ask { id, caller, first }, session);
        if let Some(flight) = self.calls.get_mut(id) {
            flight.exchange = exchange;
        }
    }

    pub(crate) fn asked(&mut self, caller: usize, attempt: Attempt, first: Reply, reply: &Reply) {
        // Words are a refusal, though perhaps a tool's; a status alone proves nothing of the request.
        let execution = match &first {
            Reply::Fault(fault) => fault.execution,
            _ => Execution::NotExecuted,
        };
        let named = self.links[&attempt].session.is_some();
        match (reply.sign(method::TOOLS_LIST, named, self.credentials), reply) {
            (Verdict::Answer, Reply::Result(_) | Reply::Error { .. }) => {
                self.tally.note("a suspected session was there");
                self.prove(attempt);
                match first {
                    Reply::Fault(fault) => self.lose_link(caller, attempt, fault),
                    _ => self.finish(caller, Outcome::Answered),
                }
            }
            // The server is gone, whatever is the matter with the session.
            (_, Reply::Fault(fault)) if fault.is_outage() => {
                self.lose_link(caller, attempt, Fault { execution, ..fault.clone() });
            }
            _ => self.lose_session(caller, attempt, execution),
        }
    }

    /// The server has forgotten the session.
    fn lose_session(&mut self, caller: usize, attempt: Attempt, execution: Execution) {
        self.leave(attempt);
        let fault = Fault::before_sending(Cause::SessionLost);
        let proven = self.links[&attempt].proven;
        self.news(attempt, Event::Forgotten { fault, proven });
        let call = &mut self.callers[caller];
        call.doubt |= execution == Execution::Unknown;
        if call.resent || (execution == Execution::Unknown && !call.harmless) {
            return self.fail(caller, execution);
        }
        call.again = Some("sent again: after a lost session");
        self.wait_for_link(caller);
    }

    fn lose_link(&mut self, caller: usize, attempt: Attempt, fault: Fault) {
        // On a pipe its reader notices.
        if self.links[&attempt].carrier != Carrier::Pipe && fault.is_outage() {
            self.leave(attempt);
            self.news(attempt, Event::Lost(fault.clone()));
        }
        let call = &mut self.callers[caller];
        call.doubt |= fault.execution == Execution::Unknown;
        if call.resent || !fault.may_resend(call.harmless) {
            return self.fail(caller, fault.execution);
        }
        call.again = Some(match fault.execution {
            Execution::NotExecuted => "sent again: it was not run",
            Execution::Unknown => "sent again: it may have run, and is harmless",
        });
        self.wait_for_link(caller);
    }

    /// A link is closed: calls that can get no answer any more end with it.
    pub(crate) fn fail_calls(&mut self, fault: &Fault) {
        let unanswerable = |id: &u64| {
            self.calls.get(*id).is_some_and(|flight| !self.exchanges.contains_key(&flight.exchange))
        };
        let mut ids: Vec<_> = self.calls.ids().filter(unanswerable).collect();
        ids.sort_unstable();
        for id in ids {
            let Some(Flight { caller, attempt, written, .. }) = self.calls.end(id) else { continue };
            let fault = if written { fault.clone() } else { fault.clone().not_executed() };
            self.lose_link(caller, attempt, fault);
        }
    }

    /// Looks at the clock for every call.
    pub(crate) fn expire_calls(&mut self) {
        if self.calls.poll_timeout(self.now).is_none_or(|due| due > self.now) {
            return;
        }
        let mut ids: Vec<_> = self.calls.ids().collect();
        ids.sort_unstable();
        for id in ids {
            let Due::Expired(flight, _) = self.calls.due(self.now, id) else { continue };
            self.tally.note("call: no answer in time");
            match flight.first {
                None if flight.written => self.fail(flight.caller, Execution::Unknown),
                None => self.fail(flight.caller, Execution::NotExecuted),
                // Nobody answers on that session any more. For this call there is no time left.
                Some(first) => {
                    self.callers[flight.caller].resent = true;
                    self.asked(flight.caller, flight.attempt, first, &Reply::Silence);
                }
            }
        }
    }

    /// What is said of a failed call: once it may have run, nothing makes that undone.
    fn fail(&mut self, caller: usize, execution: Execution) {
        let known = if self.callers[caller].doubt { Execution::Unknown } else { execution };
        self.finish(caller, Outcome::Failed(known));
    }

    /// Each call has exactly one outcome, in time.
    fn finish(&mut self, caller: usize, outcome: Outcome) {
        let (now, kind_from) = (self.now, self.kind_from);
        // Except by us; and who cannot know that its session is gone cannot renew it in time.
        let ours = self.session.status() == Status::Closed || self.server.mumbles();
        let call = &mut self.callers[caller];
        assert!(!matches!(call.stage, Stage::Done(_)), "call {caller} ended twice");
        assert!(now <= call.begun + LIMITS.total, "call {caller} ended late");
        let was_kind = call.begun > kind_from + SETTLED && !ours;
        assert!(
            !was_kind || !matches!(outcome, Outcome::Failed(_)),
            "call {caller} failed in a kind world: {outcome:?}"
        );
        call.stage = Stage::Done(outcome);
        let resent = call.resent;
        self.tally.note(match outcome {
            Outcome::Answered if resent => "call: saved by sending it again",
            Outcome::Answered => "call: answered",
            Outcome::Failed(Execution::NotExecuted) => "call: failed, not run",
            Outcome::Failed(Execution::Unknown) => "call: failed, perhaps run",
            Outcome::Left => "call: its caller left",
        });
    }

    pub(crate) fn callers_are_done(&self) -> bool {
        self.callers.iter().all(|call| matches!(call.stage, Stage::Done(_)))
    }

    /// What the server ran is what the callers were told.
    pub(crate) fn compare_with_server(&self) {
        for (caller, call) in self.callers.iter().enumerate() {
            let runs = self.server.runs(caller);
            assert!(runs <= 1 || call.harmless, "call {caller} was run {runs} times");
            assert!(runs <= 2, "call {caller} was run {runs} times");
            match call.stage {
                Stage::Done(Outcome::Failed(Execution::NotExecuted)) => {
                    assert_eq!(runs, 0, "call {caller} was run, and is said not to have been");
                }
                Stage::Done(_) => {}
                stage => panic!("call {caller} never ended: {stage:?}"),
            }
        }
    }
}

const LIMITS: Limits = Limits { idle: Duration::from_secs(8), total: Duration::from_secs(20) };
/// How long a call waits for a link.
const RECONNECT_WAIT: Duration = Duration::from_secs(10);
/// How long it waits for the answer to a question about its session.
const PROBE: Duration = Duration::from_secs(10);
/// When the last trace of the unkind world is gone: the longest wait, an attempt that met nothing but silence,
/// one that succeeds, and what a call has to wait after it was told that there is no hope.
const SETTLED: Duration = Duration::from_secs(60 + 30 + 10 + 12);

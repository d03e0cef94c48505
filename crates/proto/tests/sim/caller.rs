//! [`Caller`]: waits for a call, and performs the steps of its [`Retry`] as the client does. It
//! decides nothing.

use std::time::{Duration, Instant};

use bowline_proto::client::calls::{DeadlineCheck, Limits};
use bowline_proto::client::keepalive::Probe;
use bowline_proto::client::loss::Verdict;
use bowline_proto::client::negotiation::Reply;
use bowline_proto::client::retry::{self, FinalFailure, Report, Retry, SendFailure, Step};
use bowline_proto::client::session::{Attempt, Command, Event, Status, TransportKind};
use bowline_proto::fault::{Cause, Execution, Fault, Limit};

use crate::exchange::RequestKind;
use crate::listing::ListingUse;
use crate::oracle::{Author, Oracle};
use crate::requests::SimRequest;
use crate::world::{SimEvent, World};

pub(crate) struct Caller {
    pub(crate) request: SimRequest,
    pub(crate) started_at: Instant,
    pub(crate) retry: Retry,
    /// The link over which the call was last sent.
    link: Option<Attempt>,
    stage: Stage,
    pub(crate) oracle: Oracle,
    /// Whether its link was closed before the session could be probed.
    is_unprobed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Waits for a link.
    Waiting,
    /// Waits for the reply to this request or probe.
    InFlight(u64),
    /// Waits for a time, or for credentials. The number identifies the pause.
    Pausing(u64),
    Done(CallEnd),
}

/// How a call ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallEnd {
    Answered,
    Failed(Execution),
    Left,
}

/// The waiter of one request in the table of calls.
pub(crate) struct PendingCall {
    pub(crate) caller: usize,
    attempt: Attempt,
    exchange: u64,
    written: bool,
    pub(crate) kind: PendingKind,
}

/// What a pending request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PendingKind {
    Call,
    Probe(Probe),
    Listing(ListingUse),
}

impl World {
    pub(crate) fn begin_call(&mut self) {
        let request = SimRequest::random(&mut self.rng);
        let caller = self.add_caller(request);
        if self.rng.u8(..12) == 0 {
            let at = self.random_time(6_000);
            self.schedule(at, SimEvent::Leave(caller));
        }
        self.wait_for_link(caller);
    }

    /// Requests a later page of a list, over the link of the first page.
    pub(crate) fn request_later_page(&mut self, list: usize) {
        let request = self.callers[list].request.later_page();
        let caller = self.add_caller(request);
        let attempt = self.callers[list].link.expect("the link of the first page");
        self.callers[caller].link = Some(attempt);
        self.tally.note("call: a later page");
        self.send_call(caller, attempt);
    }

    fn add_caller(&mut self, request: SimRequest) -> usize {
        let facts = request.facts();
        let oracle = Oracle::new(facts.harmless);
        self.callers.push(Caller {
            request,
            started_at: self.now,
            retry: Retry::new(facts, self.now, LIMITS),
            link: None,
            stage: Stage::Waiting,
            oracle,
            is_unprobed: false,
        });
        self.callers.len() - 1
    }

    /// Takes the live link, now or when there is one.
    fn wait_for_link(&mut self, caller: usize) {
        self.callers[caller].stage = Stage::Waiting;
        if let Some(attempt) = self.live_attempt {
            return self.take_link(caller, attempt);
        }
        if let Some(fault) = self.session.blocking_fault(self.now).cloned() {
            self.tally.note("call: hopeless");
            return self.miss_link(caller, fault.not_executed());
        }
        self.waiting.push(caller);
        let until = (self.now + RECONNECT_WAIT).min(self.callers[caller].retry.deadline());
        self.schedule(until, SimEvent::StopWaiting(caller));
        self.request_connection();
    }

    /// Requests a connection, because a caller waits.
    fn request_connection(&mut self) {
        if !matches!(self.session.status(), Status::Connecting | Status::Ready(_) | Status::Closed) {
            self.session.handle_command(self.now, Command::Connect);
        }
    }

    /// Lets the waiting callers react to a change of the session's status.
    pub(crate) fn notify_waiting_callers(&mut self) {
        let status = self.session.status();
        let seen = (self.session.attempt(), std::mem::discriminant(&status));
        if self.last_seen_status == Some(seen) || self.waiting.is_empty() {
            return;
        }
        self.last_seen_status = Some(seen);
        let hopeless = self.session.blocking_fault(self.now).cloned();
        if status == Status::Closed || hopeless.is_some() {
            let fault = hopeless.unwrap_or_else(|| Fault::new(Cause::Closed)).not_executed();
            for caller in std::mem::take(&mut self.waiting) {
                self.miss_link(caller, fault.clone());
            }
            return;
        }
        self.request_connection();
        self.perform_actions();
    }

    /// Lets the waiting callers take the new link.
    pub(crate) fn resume_waiting_callers(&mut self) {
        for caller in std::mem::take(&mut self.waiting) {
            // The first of them may have found the link dead.
            self.wait_for_link(caller);
        }
    }

    pub(crate) fn stop_waiting(&mut self, caller: usize) {
        let due = self.callers[caller].retry.deadline().min(self.now);
        if let Some(place) = self.waiting.iter().position(|waiting| *waiting == caller)
            && due <= self.now
        {
            self.waiting.swap_remove(place);
            self.tally.note("call: no link in time");
            self.miss_link(caller, Fault::before_sending(Cause::Refused));
        }
    }

    fn take_link(&mut self, caller: usize, attempt: Attempt) {
        let call = &mut self.callers[caller];
        if call.link.replace(attempt).is_none() {
            return self.send_call(caller, attempt);
        }
        let facts = self.link_facts(attempt);
        let step = self.callers[caller].retry.handle_link(self.now, Ok(facts));
        self.perform(caller, step);
    }

    fn miss_link(&mut self, caller: usize, fault: Fault) {
        let call = &mut self.callers[caller];
        call.oracle.record_missing_link();
        if call.link.is_none() {
            return self.finish(caller, &FinalFailure::Fault(fault));
        }
        let step = call.retry.handle_link(self.now, Err(fault));
        self.perform(caller, step);
    }

    /// Ends a call whose caller left. Nothing more is sent for it.
    pub(crate) fn leave_call(&mut self, caller: usize) {
        match self.callers[caller].stage {
            Stage::Done(_) => return,
            Stage::InFlight(id) => {
                self.calls.end(id);
            }
            Stage::Waiting => self.waiting.retain(|waiting| *waiting != caller),
            Stage::Pausing(_) => {}
        }
        self.end_call(caller, CallEnd::Left);
    }

    /// Performs a step of the retry.
    pub(crate) fn perform(&mut self, caller: usize, step: Step) {
        self.trace(&(caller, &step));
        let attempt = self.callers[caller].link;
        if let (Some(report), Some(attempt)) = (self.callers[caller].retry.poll_report(), attempt) {
            self.report(attempt, report);
        }
        match (step, attempt) {
            (Step::Finish(outcome), _) => self.finish(caller, &outcome),
            (Step::Send, Some(attempt)) => {
                self.callers[caller].stage = Stage::Waiting;
                self.tally.note("sent again");
                self.send_call(caller, attempt);
            }
            (Step::Reconnect, _) => {
                assert!(!self.callers[caller].request.pinned, "a pinned request on another link");
                self.wait_for_link(caller);
            }
            (Step::Probe(probe), Some(attempt)) => {
                self.tally.note("probe: of a suspected session");
                self.probe(caller, attempt, probe);
            }
            (Step::CheckHarmless, Some(attempt)) => {
                self.list_tools(caller, attempt, ListingUse::Harmless);
            }
            (Step::RefetchAnnotations, Some(attempt)) => {
                self.tally.note("annotations: fetched again");
                self.callers[caller].oracle.record_refetch();
                self.list_tools(caller, attempt, ListingUse::Annotations);
            }
            (Step::Wait(until), _) => {
                self.next += 1;
                self.callers[caller].stage = Stage::Pausing(self.next);
                self.schedule(until, SimEvent::PauseOver(caller, self.next));
            }
            (Step::LogIn { refused, quietly }, _) => {
                assert!(quietly || !self.callers[caller].request.quiet, "a person is asked for nobody");
                self.next += 1;
                let turn = self.next;
                self.callers[caller].stage = Stage::Pausing(turn);
                let entered = if self.rng.u8(..3) == 0 && self.has_faults() { Err(refused) } else { Ok(()) };
                if quietly {
                    self.tally.note("login: without a person, in a call");
                }
                let at = self.random_time(3_000).min(self.callers[caller].retry.deadline());
                if entered.is_ok() {
                    self.tally.note("login: good, in a call");
                    self.schedule(at, SimEvent::WantsLogin(false));
                }
                self.schedule(at, SimEvent::LoginFinished(caller, turn, entered));
            }
            (step, None) => unreachable!("{step:?} before anything was sent"),
        }
    }

    fn report(&mut self, attempt: Attempt, report: Report) {
        match report {
            Report::SessionLost(fault) => {
                self.retire_link(attempt);
                let link = self.links.get_mut(&attempt).expect("a link that was opened");
                link.session_lost = true;
                let proven = link.proven;
                self.schedule_session_event(attempt, Event::SessionLost { fault, proven });
            }
            Report::LinkLost(fault) => {
                self.retire_link(attempt);
                self.schedule_session_event(attempt, Event::LinkLost(fault));
            }
            Report::LinkSuperseded => self.retire_link(attempt),
            Report::NeedsLogin(_) => {
                self.links.get_mut(&attempt).expect("a link that was opened").challenged = true;
            }
        }
    }

    fn send_call(&mut self, caller: usize, attempt: Attempt) {
        assert_eq!(self.callers[caller].stage, Stage::Waiting, "sent for nobody");
        if attempt != self.session.attempt() {
            let facts = self.link_facts(attempt);
            let step = self.callers[caller].retry.handle_failure(self.now, facts, SendFailure::NotSent);
            self.tally.note("call: its link was left");
            return self.perform(caller, step);
        }
        self.keepalive.record_call(self.now);
        let limits = self.callers[caller].retry.limits(self.now);
        self.callers[caller].oracle.record_sending();
        let id = self.send_for_call(caller, attempt, limits, PendingKind::Call);
        if self.rng.u8(..6) == 0 {
            let at = self.random_time(9_000);
            self.schedule(at, SimEvent::Progress(id));
        }
    }

    fn probe(&mut self, caller: usize, attempt: Attempt, probe: Probe) {
        let link = &self.links[&attempt];
        // A lost session stays lost, so an earlier reply to this probe still holds.
        let known = link.probes.iter().find(|(known, ..)| link.session_lost && *known == probe).cloned();
        if let Some((_, reply, author)) = known {
            self.tally.note("probe: known already");
            return self.handle_probe_reply(caller, attempt, probe, author, reply);
        }
        let http = link.transport == TransportKind::Http;
        if attempt != self.session.attempt() && !http {
            let call = &mut self.callers[caller];
            call.oracle.record_probe(probe, Author::Server, &Reply::Silence);
            call.is_unprobed = true;
            let step = call.retry.handle_probe(self.now, None);
            return self.perform(caller, step);
        }
        let left = self.callers[caller].retry.deadline().saturating_duration_since(self.now);
        let limits = Limits { idle: PROBE_TIMEOUT, total: left.min(PROBE_TIMEOUT) };
        self.send_for_call(caller, attempt, limits, PendingKind::Probe(probe));
    }

    /// Sends a request, or one on its behalf, and enters it into the table. Returns its id there.
    pub(crate) fn send_for_call(
        &mut self,
        caller: usize,
        attempt: Attempt,
        limits: Limits,
        kind: PendingKind,
    ) -> u64 {
        let flight = PendingCall { caller, attempt, exchange: 0, written: true, kind };
        let id = self.calls.begin(self.now, limits, flight);
        self.callers[caller].stage = Stage::InFlight(id);
        let session = self.links[&attempt].session;
        let exchange = self.send_request(attempt, RequestKind::Call { id, caller, kind }, session);
        let written = self.is_written(exchange);
        if let Some(flight) = self.calls.get_mut(id) {
            (flight.exchange, flight.written) = (exchange, written);
        }
        id
    }

    /// Handles the reply to a call, or what came in its place.
    pub(crate) fn handle_call_reply(&mut self, caller: usize, attempt: Attempt, reply: Reply) {
        if matches!(reply, Reply::Result(_)) {
            self.mark_proven(attempt);
            if self.has_faults() && self.callers[caller].request.is_list() && self.rng.u8(..3) == 0 {
                let at = self.random_time(2_000);
                self.schedule(at, SimEvent::LaterPage(caller));
            }
            return self.end_call(caller, CallEnd::Answered);
        }
        let verdict = self.verdict(attempt, self.callers[caller].request.method, &reply);
        self.fail(caller, attempt, verdict, reply);
    }

    fn fail(&mut self, caller: usize, attempt: Attempt, verdict: Verdict, reply: Reply) {
        let facts = self.link_facts(attempt);
        let failure = SendFailure::Reply(verdict, reply);
        let step = self.callers[caller].retry.handle_failure(self.now, facts, failure);
        self.perform(caller, step);
    }

    /// Handles the reply to a probe for a call.
    pub(crate) fn handle_probe_reply(
        &mut self,
        caller: usize,
        attempt: Attempt,
        probe: Probe,
        author: Author,
        reply: Reply,
    ) {
        self.callers[caller].oracle.record_probe(probe, author, &reply);
        let link = self.links.get_mut(&attempt).expect("a link that was opened");
        link.probes.retain(|(known, ..)| *known != probe);
        link.probes.push((probe, reply.clone(), author));
        let method = self.link_facts(attempt).probe_method(probe);
        let verdict = self.verdict(attempt, method, &reply);
        if matches!(reply, Reply::Result(_)) {
            self.mark_proven(attempt);
        }
        let step = self.callers[caller].retry.handle_probe(self.now, Some((verdict, reply)));
        self.perform(caller, step);
    }

    fn verdict(&self, attempt: Attempt, method: &str, reply: &Reply) -> Verdict {
        let link = &self.links[&attempt];
        if link.transport == TransportKind::Http && !link.modern && link.session.is_none() {
            return reply.handshake_verdict(method, self.credentials);
        }
        reply.session_verdict(method, link.session.is_some(), self.credentials)
    }

    fn link_facts(&self, attempt: Attempt) -> retry::LinkFacts {
        let link = &self.links[&attempt];
        retry::LinkFacts {
            http: link.transport == TransportKind::Http,
            modern: link.modern,
            session: link.session.is_some(),
            credentials: self.credentials,
            can_authorize: self.settings.can_authorize,
            proven: link.proven,
            challenged: link.challenged,
            list_method: self.server.list,
        }
    }

    pub(crate) fn end_pause(&mut self, caller: usize, turn: u64) {
        if self.callers[caller].stage == Stage::Pausing(turn) {
            let step = self.callers[caller].retry.handle_timeout(self.now);
            self.perform(caller, step);
        }
    }

    pub(crate) fn finish_login(&mut self, caller: usize, turn: u64, entered: Result<(), Fault>) {
        if self.callers[caller].stage == Stage::Pausing(turn) {
            let step = if self.now >= self.callers[caller].retry.deadline() {
                self.callers[caller].retry.handle_timeout(self.now)
            } else {
                self.callers[caller].retry.handle_login(self.now, entered)
            };
            self.perform(caller, step);
        }
    }

    /// Fails the calls that can get no reply any more, because their link was closed.
    pub(crate) fn fail_calls(&mut self, fault: &Fault) {
        let unanswerable = |id: &u64| {
            self.calls.get(*id).is_some_and(|flight| !self.exchanges.contains_key(&flight.exchange))
        };
        let mut ids: Vec<_> = self.calls.ids().filter(unanswerable).collect();
        ids.sort_unstable();
        let fault = &fault.for_pending_calls();
        for id in ids {
            let Some(PendingCall { caller, attempt, written, kind, .. }) = self.calls.end(id) else {
                continue;
            };
            let fault = if written { fault.clone() } else { fault.clone().not_executed() };
            match kind {
                PendingKind::Call => {
                    self.callers[caller].oracle.record_silence(written);
                    self.fail(caller, attempt, Verdict::Answer, Reply::Fault(fault));
                }
                PendingKind::Probe(probe) => self.miss_probe_reply(caller, probe, fault),
                PendingKind::Listing(listing) => self.end_listing(caller, listing, false),
            }
        }
        if self.session.status() == Status::Closed {
            let pausing = |call: &Caller| matches!(call.stage, Stage::Pausing(_));
            let callers: Vec<_> = (0..self.callers.len()).filter(|at| pausing(&self.callers[*at])).collect();
            for caller in callers {
                let step = self.callers[caller].retry.handle_timeout(self.now);
                self.perform(caller, step);
            }
        }
    }

    /// Checks the deadline of every call.
    pub(crate) fn expire_calls(&mut self) {
        if self.calls.poll_timeout(self.now).is_none_or(|due| due > self.now) {
            return;
        }
        let mut ids: Vec<_> = self.calls.ids().collect();
        ids.sort_unstable();
        for id in ids {
            let DeadlineCheck::Expired(flight, limit) = self.calls.check_deadline(self.now, id) else {
                continue;
            };
            let PendingCall { caller, attempt, written, kind, .. } = flight;
            self.tally.note("call: no answer in time");
            match kind {
                PendingKind::Call => {
                    self.callers[caller].oracle.record_silence(written);
                    let fault = Fault::new(Cause::Timeout(limit));
                    let fault = if written { fault } else { fault.not_executed() };
                    self.handle_call_reply(caller, attempt, Reply::Fault(fault));
                }
                PendingKind::Probe(probe) => {
                    self.miss_probe_reply(caller, probe, Fault::new(Cause::Timeout(Limit::Idle)));
                }
                PendingKind::Listing(listing) => self.end_listing(caller, listing, false),
            }
        }
    }

    /// Handles the end of a probe that got no reply.
    fn miss_probe_reply(&mut self, caller: usize, probe: Probe, fault: Fault) {
        let late = self.now >= self.callers[caller].retry.deadline();
        let call = &mut self.callers[caller];
        let reply = Reply::Fault(fault);
        call.oracle.record_probe(probe, Author::Server, &reply);
        let step = if late {
            call.retry.handle_timeout(self.now)
        } else {
            call.retry.handle_probe(self.now, Some((Verdict::Answer, reply)))
        };
        self.perform(caller, step);
    }

    fn finish(&mut self, caller: usize, outcome: &FinalFailure) {
        let closed = self.session.status() == Status::Closed;
        self.callers[caller].check_outcome(self.now, closed, outcome);
        let end = match outcome {
            FinalFailure::ServerError(_) => {
                self.tally.note("call: an error of the server handed on");
                CallEnd::Answered
            }
            FinalFailure::Fault(fault) => CallEnd::Failed(fault.execution),
            FinalFailure::NotSent => CallEnd::Failed(Execution::NotExecuted),
        };
        self.end_call(caller, end);
    }

    /// Ends a call, and checks that it ends once, in time, and without a failure after the faults
    /// ended.
    fn end_call(&mut self, caller: usize, end: CallEnd) {
        let (now, kind_from, stopped) = (self.now, self.faults_until, self.clock_skipped);
        // A failure is allowed if we closed the session, or if the server hides its session losses.
        let ours = self.session.status() == Status::Closed || self.server.has_vague_wording();
        let call = &mut self.callers[caller];
        assert!(!matches!(call.stage, Stage::Done(_)), "call {caller} ended twice");
        // Time that the clock skipped does not count.
        assert!(now <= call.started_at + LIMITS.total + stopped, "call {caller} ended late");
        // A refusal on a stream that is closed by then is not proof, nor is one of a request that the
        // server has sent a message about.
        let excused = ours || call.is_unprobed || call.oracle.was_heard_of();
        let was_kind = call.started_at > kind_from + SETTLING_TIME && !excused;
        assert!(
            !was_kind || !matches!(end, CallEnd::Failed(_)),
            "call {caller} failed in a kind world: {end:?}"
        );
        call.stage = Stage::Done(end);
        let resent = call.retry.resends() > 0;
        self.tally.note(match end {
            CallEnd::Answered if resent => "call: saved by sending it again",
            CallEnd::Answered => "call: answered",
            CallEnd::Failed(Execution::NotExecuted) => "call: failed, not run",
            CallEnd::Failed(Execution::Unknown) => "call: failed, perhaps run",
            CallEnd::Left => "call: its caller left",
        });
    }

    pub(crate) fn all_calls_ended(&self) -> bool {
        self.callers.iter().all(|call| matches!(call.stage, Stage::Done(_)))
    }

    /// Checks that the outcomes that callers were told match the executions of the server.
    pub(crate) fn compare_with_server(&self) {
        for (caller, call) in self.callers.iter().enumerate() {
            let runs = self.server.runs(caller);
            assert!(runs <= 1 || call.request.harmless, "call {caller} was run {runs} times");
            match call.stage {
                Stage::Done(CallEnd::Failed(Execution::NotExecuted)) => {
                    assert_eq!(runs, 0, "call {caller} was run, and is said not to have been");
                }
                Stage::Done(_) => {}
                stage => panic!("call {caller} never ended: {stage:?}"),
            }
        }
    }
}

pub(crate) const LIMITS: Limits = Limits { idle: Duration::from_secs(8), total: Duration::from_secs(20) };
/// Limit for the wait of a call for a link.
pub(crate) const RECONNECT_WAIT: Duration = Duration::from_secs(10);
/// Limit for the reply to a probe.
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time after which no effect of the faults is left: the longest wait, an attempt that met only
/// silence, an attempt that succeeds, and the wait after a failure that only a person can fix.
const SETTLING_TIME: Duration = Duration::from_secs(60 + 30 + 10 + 12);

//! [`Session`]: the connection state of one server, from opening over ready to backing off.
//!
//! It does no I/O and has no clock. The driver calls `handle_command`, `handle_event` and
//! `handle_timeout` with what happened, then [`Session::poll_action`] until it is empty, and then
//! [`Session::poll_timeout`] for the time of the next `handle_timeout`.
//!
//! Every event of a link carries the link's [`Attempt`], so a late event of a dead link is dropped,
//! and a thousand calls that report the loss of one session start one recovery.
//!
//! ```text
//!            ┌─────────────────────────── session lost ◀─────────────────────────┐
//!            ▼                                                                   │
//! Idle ─▶ Opening ─▶ Negotiating ─▶ Restoring ─▶ Ready ──────────────────────────┤
//!            ▲  └──▶ Resuming ──────────────────▲  │ link lost                   │
//!            └── BackingOff ◀──────────────────────┴─────────────────────────────┘
//! ```

mod login;
mod messages;
mod pacer;
mod record;
mod status;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use self::messages::{
    Action, Announcement, Attempt, Command, Event, NegotiationMessage, NegotiationRecord, Settings, Status,
    TransportKind,
};
use self::pacer::ReconnectPacer;
use self::record::HttpRefusal;
use crate::client::loss::Verdict;
use crate::client::negotiation::{
    EraChoice, LinkKind, Negotiation, Peer, Reply, StartHint, Step, is_transport_refusal,
};
use crate::fault::{Cause, Execution, Fault, Limit, Misbehavior, Recovery};
use crate::revision::Era;
use crate::wire::method;

/// The connection state machine of one configured server.
#[derive(Debug)]
pub struct Session {
    phase: Phase,
    attempt: Attempt,
    settings: Settings,
    pacer: ReconnectPacer,
    /// The era of the last negotiation, with which the next one begins.
    agreed_era: Option<Era>,
    /// The record of an earlier connection, until it is confirmed or proves wrong.
    prior_record: Option<NegotiationRecord>,
    /// The transport in use: the configured one, or the one it fell back to.
    transport: TransportKind,
    http_refusal: Option<HttpRefusal>,
    /// The peer whose session may have outlived its link, and is resumed by the next one.
    resumable_peer: Option<Arc<Peer>>,
    was_ready: bool,
    /// Whether it was ready over the configured transport, which rules out a fallback.
    was_ready_as_configured: bool,
    outage: Option<Outage>,
    /// Time of the first sign of trouble, if it came before the loss was certain.
    suspected_since: Option<Instant>,
    attempts_made: u32,
    /// The fault that ended the only link, with [`Settings::single_link`].
    final_fault: Option<Fault>,
    /// Logins since the session was last `Ready`.
    logins: u32,
    actions: VecDeque<Action>,
}

/// The phases of a session, as in [`Status`]. Every phase that waits for a peer has a deadline.
#[derive(Debug, Default)]
enum Phase {
    /// No connection was requested yet.
    #[default]
    Idle,
    /// The link is being opened. `probe_until` limits a transport that comes from a record alone.
    Opening { until: Instant, probe_until: Option<Instant>, negotiation: Option<Negotiation> },
    /// A probe on the old session finds out whether it still exists.
    Resuming { until: Instant, probe_until: Instant, peer: Arc<Peer> },
    /// The protocol revision is being negotiated.
    Negotiating { until: Instant, probe_until: Option<Instant>, negotiation: Negotiation },
    /// The driver restores the state of the old session (log level, subscriptions) on the new one.
    Restoring { until: Instant, peer: Arc<Peer> },
    /// Calls may be sent.
    Ready { peer: Arc<Peer>, since: Instant },
    /// The server requires a login, and the driver is obtaining one.
    LoggingIn { until: Instant, cause: Fault },
    /// Only a person can help.
    NeedsLogin { not_before: Instant, cause: Fault },
    /// Waits for the next attempt.
    BackingOff { not_before: Instant, until: Instant, cause: Fault },
    /// Retrying cannot help, as far as we know.
    Failed { not_before: Instant, cause: Fault },
    /// The owner closed the session.
    Closed,
}

#[derive(Clone, Copy, Debug)]
struct Outage {
    since: Instant,
    /// Whether [`Announcement::Disconnected`] was sent. A session loss alone does not send it.
    announced: bool,
    /// Probes of the old session that were cut or put off after the server had been away for a while.
    late_probes: u32,
}

impl Session {
    /// Creates an idle session. Nothing happens before [`Command::Connect`].
    pub fn new(mut settings: Settings) -> Self {
        // A caller's `Duration::MAX` must not overflow.
        for limit in [&mut settings.connect_timeout, &mut settings.probe_timeout] {
            *limit = (*limit).min(MAX_TIMEOUT);
        }
        Self {
            phase: Phase::Idle,
            attempt: Attempt::default(),
            pacer: ReconnectPacer::new(&settings),
            agreed_era: None,
            prior_record: settings.usable_record(),
            transport: settings.initial_transport(),
            http_refusal: None,
            resumable_peer: None,
            was_ready: false,
            was_ready_as_configured: false,
            outage: None,
            suspected_since: None,
            attempts_made: 0,
            final_fault: None,
            logins: 0,
            settings,
            actions: VecDeque::new(),
        }
    }

    /// Takes up a session of an earlier process. Call this before [`Command::Connect`].
    pub fn resume(&mut self, peer: Arc<Peer>) {
        self.resumable_peer = Some(peer);
    }

    /// Counts the next outage from `since`, when the loss showed itself before it was certain.
    pub fn suspect(&mut self, since: Instant) {
        self.suspected_since = Some(since);
    }

    /// The transport by which the server is reached, or was last tried.
    pub fn current_transport(&self) -> TransportKind {
        self.transport
    }

    /// Takes a command of the owner.
    pub fn handle_command(&mut self, now: Instant, command: Command) {
        self.phase = match (mem::take(&mut self.phase), command) {
            (Phase::Closed, _) => Phase::Closed,
            (Phase::Idle, Command::Connect) => self.open(now, None),
            // Demand cuts the wait short, but not below the floor nor below `Retry-After`: many
            // callers must not turn a crashing server into a storm of attempts.
            (Phase::BackingOff { not_before, until, cause }, Command::Connect | Command::Wake) => {
                Phase::BackingOff { not_before, until: until.min(not_before), cause }
            }
            // Demand may mean that something has changed, which is worth an attempt now and then.
            (
                Phase::NeedsLogin { not_before, .. } | Phase::Failed { not_before, .. },
                Command::Connect | Command::Wake,
            ) if now >= not_before => self.open(now, None),
            (Phase::NeedsLogin { .. }, Command::LoggedIn) => self.open(now, None),
            (phase, Command::Connect | Command::Wake | Command::LoggedIn) => phase,
            (
                Phase::Idle
                | Phase::LoggingIn { .. }
                | Phase::NeedsLogin { .. }
                | Phase::BackingOff { .. }
                | Phase::Failed { .. },
                Command::Close,
            ) => Phase::Closed,
            (_, Command::Close) => {
                self.close(Fault::new(Cause::Closed));
                Phase::Closed
            }
        };
    }

    /// Takes an event of the link opened for `attempt`. Late events of a dead link are dropped.
    pub fn handle_event(&mut self, now: Instant, attempt: Attempt, event: Event) {
        if attempt != self.attempt {
            return;
        }
        self.phase = match (mem::take(&mut self.phase), event) {
            (Phase::Opening { until, negotiation, .. }, Event::Opened { session }) => {
                match self.resumable_peer.take().filter(|_| session && negotiation.is_none()) {
                    Some(peer) => self.probe_old_session(now, until, peer),
                    None => self.negotiate(now, until, negotiation),
                }
            }
            (Phase::Resuming { until, peer, .. }, Event::Reply(reply)) => {
                self.handle_resume_reply(now, until, peer, &reply)
            }
            (Phase::Resuming { peer, .. }, Event::LinkLost(fault)) => self.resume_later(now, peer, fault),
            (Phase::Negotiating { until, negotiation, .. }, Event::Reply(reply)) => {
                self.handle_reply(now, until, negotiation, reply)
            }
            // A broken link counts as a reply, since some servers exit on an unknown probe (DE-05).
            (Phase::Negotiating { until, negotiation, .. }, Event::LinkLost(fault)) => {
                self.handle_reply(now, until, negotiation, Reply::Fault(fault))
            }
            (Phase::Restoring { peer, .. }, Event::Restored) => self.become_ready(now, peer),
            // A session lost while it is being restored counts as failed, so backoff applies.
            (Phase::Restoring { .. }, Event::SessionLost { fault, .. }) => {
                self.replace_session(now, fault, false)
            }
            (Phase::Ready { since, .. }, Event::SessionLost { fault, proven }) => {
                let lasted = now.saturating_duration_since(since);
                self.pacer.record_uptime(lasted);
                self.replace_session(now, fault, proven || lasted >= pacer::MIN_SESSION_LIFETIME)
            }
            (Phase::Ready { peer, since }, Event::LinkLost(fault)) => {
                self.pacer.record_uptime(now.saturating_duration_since(since));
                // A cut connection is not a lost session: over HTTP the next link probes it first.
                self.resumable_peer =
                    (self.transport == TransportKind::Http && peer.era() == Era::Legacy).then_some(peer);
                self.handle_link_loss(now, fault)
            }
            (Phase::Opening { until, .. }, Event::LinkLost(fault))
                if self.is_recorded_stream_refused(&fault) =>
            {
                self.leave_recorded_stream(now, until, fault)
            }
            (Phase::Opening { .. } | Phase::Restoring { .. }, Event::LinkLost(fault)) => {
                self.recover(now, fault)
            }
            (Phase::LoggingIn { .. }, Event::Authorized) => self.open(now, None),
            (Phase::LoggingIn { .. }, Event::Denied(fault)) => self.handle_denied_login(now, fault),
            // Opened twice, or a reply that nobody waits for: a correct driver does not send these.
            (phase, _) => phase,
        };
    }

    /// Acts on the deadline of [`Self::poll_timeout`], if it has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.poll_timeout().is_none_or(|due| now < due) {
            return;
        }
        self.phase = match mem::take(&mut self.phase) {
            Phase::BackingOff { .. } => self.open(now, None),
            Phase::Negotiating { until, negotiation, probe_until: Some(_) } if now < until => {
                self.handle_reply(now, until, negotiation, Reply::Silence)
            }
            Phase::Opening { until, probe_until: Some(_), .. } if now < until => {
                self.leave_recorded_stream(now, until, Fault::before_sending(Cause::Timeout(Limit::Connect)))
            }
            // A session that does not answer is useless, even if the server still knows it.
            Phase::Resuming { until, .. } if now < until => self.negotiate(now, until, None),
            Phase::LoggingIn { cause, .. } => self.handle_denied_login(now, cause),
            // Restoring took too long: a server that can be called matters more than its old state.
            Phase::Restoring { peer, .. } => self.become_ready(now, peer),
            _ => {
                self.forget_record();
                self.recover(now, Fault::new(Cause::Timeout(Limit::Connect)))
            }
        };
    }

    /// When [`Self::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        match &self.phase {
            Phase::LoggingIn { until, .. }
            | Phase::BackingOff { until, .. }
            | Phase::Restoring { until, .. } => Some(*until),
            Phase::Resuming { until, probe_until, .. } => Some((*probe_until).min(*until)),
            Phase::Opening { until, probe_until, .. } | Phase::Negotiating { until, probe_until, .. } => {
                Some(probe_until.map_or(*until, |probe| probe.min(*until)))
            }
            Phase::Idle
            | Phase::Ready { .. }
            | Phase::NeedsLogin { .. }
            | Phase::Failed { .. }
            | Phase::Closed => None,
        }
    }

    /// The next action for the driver.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// The attempt whose events count.
    pub fn attempt(&self) -> Attempt {
        self.attempt
    }

    fn open(&mut self, now: Instant, negotiation: Option<Negotiation>) -> Phase {
        if let Some(cause) = self.final_fault.clone() {
            self.announce(Announcement::Failed(cause.clone()));
            return Phase::Failed { not_before: now + FAILED_RETRY_INTERVAL, cause };
        }
        self.attempt.0 += 1;
        self.attempts_made = self.attempts_made.saturating_add(1);
        self.actions.push_back(Action::Open(self.attempt, self.transport));
        let probe_until = self.is_on_recorded_stream().then(|| now + self.settings.probe_timeout);
        Phase::Opening { until: now + self.settings.connect_timeout, probe_until, negotiation }
    }

    /// Opens another link within the deadline of the current attempt.
    fn reopen(&mut self, now: Instant, until: Instant, negotiation: Option<Negotiation>) -> Phase {
        match self.open(now, negotiation) {
            Phase::Opening { probe_until, negotiation, .. } => {
                Phase::Opening { until, probe_until, negotiation }
            }
            other => other,
        }
    }

    /// Closes the link and retires its attempt, so its late events are dropped.
    fn close(&mut self, fault: Fault) {
        // The outcome is known of the request that failed, not of the other pending ones.
        let fault = Fault { execution: Execution::Unknown, ..fault };
        if self.settings.single_link {
            self.final_fault.get_or_insert_with(|| fault.clone());
        }
        self.actions.push_back(Action::Close(self.attempt, fault));
        self.attempt.0 += 1;
    }

    fn probe_old_session(&mut self, now: Instant, until: Instant, peer: Arc<Peer>) -> Phase {
        self.actions.push_back(Action::Send(self.attempt, NegotiationMessage::Resume(peer.revision)));
        Phase::Resuming { until, probe_until: now + self.settings.probe_timeout, peer }
    }

    /// Takes the reply to the probe of the old session: any but a loss proves the session.
    fn handle_resume_reply(&mut self, now: Instant, until: Instant, peer: Arc<Peer>, reply: &Reply) -> Phase {
        match (reply.session_verdict(method::PING, true, false), reply) {
            // The session may still exist, for whoever logs in.
            (Verdict::Login, Reply::Fault(fault)) if self.settings.can_authorize => {
                self.resumable_peer = Some(peer);
                self.recover(now, fault.clone())
            }
            (Verdict::Answer, Reply::Result(_) | Reply::Error { .. }) => self.become_ready(now, peer),
            (Verdict::Answer, Reply::Fault(fault)) if fault.is_unreachable() || has_retry_after(fault) => {
                self.resume_later(now, peer, fault.clone())
            }
            // A handshake settles it, and costs no more than another probe.
            _ => self.negotiate(now, until, None),
        }
    }

    /// Keeps the old session for the next link, because the server did not answer its probe. If
    /// something took the probe, only for a while: a proxy may answer 502 forever for a node that is
    /// gone, and a server may break down at every probe.
    fn resume_later(&mut self, now: Instant, peer: Arc<Peer>, fault: Fault) -> Phase {
        let young = |outage: Outage| now.saturating_duration_since(outage.since) < RESUME_RETRY_WINDOW;
        let mut is_kept = fault.execution == Execution::NotExecuted || self.outage.is_none_or(young);
        // A server that is restarted again while it is probed has not spoken of the session, nor has one that says when
        // to come back.
        if let (false, Some(outage)) =
            (matches!(fault.cause, Cause::Status { retry_after: None, .. }), &mut self.outage)
            && !is_kept
        {
            outage.late_probes += 1;
            is_kept = outage.late_probes < MAX_LATE_PROBES;
        }
        self.resumable_peer = is_kept.then_some(peer);
        self.recover(now, fault)
    }

    /// Begins the negotiation on an open link, or continues it after a process was restarted.
    fn negotiate(&mut self, now: Instant, until: Instant, ongoing: Option<Negotiation>) -> Phase {
        let (negotiation, step) = match ongoing {
            Some(negotiation) => {
                let step = negotiation.restart_step();
                (negotiation, step)
            }
            None => match self.transport {
                TransportKind::Pipe => {
                    Negotiation::begin(LinkKind::Pipe, self.settings.era_choice, self.start_hint())
                }
                TransportKind::Http => {
                    Negotiation::begin(LinkKind::Http, self.settings.era_choice, self.start_hint())
                }
                // HTTP+SSE is older than the modern era.
                TransportKind::EventStream => {
                    Negotiation::begin(LinkKind::Pipe, EraChoice::Legacy, StartHint::Unknown)
                }
            },
        };
        self.perform_step(now, until, negotiation, step)
    }

    fn handle_reply(
        &mut self,
        now: Instant,
        until: Instant,
        mut negotiation: Negotiation,
        reply: Reply,
    ) -> Phase {
        let refused = is_transport_refusal(negotiation.failed_handshake().unwrap_or(&reply));
        let step = negotiation.handle(reply);
        if negotiation.failed_handshake().is_some() {
            self.forget_record();
        }
        match step {
            Step::Failed(fault) if self.is_recorded_stream_refused(&fault) => {
                self.leave_recorded_stream(now, until, fault)
            }
            Step::Failed(fault) if refused => {
                let refusal = HttpRefusal { fault, modern_refused: negotiation.is_probe_refused() };
                self.fall_back_or_recover(now, until, refusal)
            }
            step => self.perform_step(now, until, negotiation, step),
        }
    }

    fn perform_step(&mut self, now: Instant, until: Instant, negotiation: Negotiation, step: Step) -> Phase {
        let hello = match step {
            Step::Discover(revision) => NegotiationMessage::Discover(revision),
            Step::Initialize(revision) => NegotiationMessage::Initialize(revision),
            Step::Confirm(revision) => NegotiationMessage::Initialized(revision),
            Step::Restart => {
                self.actions.push_back(Action::Close(self.attempt, Fault::new(Cause::Closed)));
                return self.reopen(now, until, Some(negotiation));
            }
            Step::Agreed(peer) => {
                let peer = Arc::from(peer);
                self.record_negotiation(&peer, &negotiation);
                self.agreed_era = Some(Peer::era(&peer));
                self.http_refusal = None;
                self.actions.push_back(Action::Restore(self.attempt, Arc::clone(&peer)));
                return Phase::Restoring { until, peer };
            }
            Step::Failed(fault) => return self.recover(now, fault),
        };
        self.actions.push_back(Action::Send(self.attempt, hello));
        let probe_until = negotiation.is_probing().then(|| now + self.settings.probe_timeout);
        Phase::Negotiating { until, probe_until, negotiation }
    }

    fn become_ready(&mut self, now: Instant, peer: Arc<Peer>) -> Phase {
        self.suspected_since = None;
        let outage = self.outage.take().map(|outage| now.saturating_duration_since(outage.since));
        self.actions.push_back(Action::Ready(self.attempt, Arc::clone(&peer)));
        self.announce(match outage {
            Some(outage) if self.was_ready => Announcement::Recovered { outage },
            _ => Announcement::Connected,
        });
        self.was_ready = true;
        self.logins = 0;
        self.was_ready_as_configured |= self.transport == self.settings.transport;
        Phase::Ready { peer, since: now }
    }

    /// Replaces a lost session at once, unless the server loses every session.
    fn replace_session(&mut self, now: Instant, fault: Fault, proven: bool) -> Phase {
        self.begin_outage(now);
        self.announce(Announcement::SessionLost(fault.clone()));
        self.resumable_peer = None;
        match self.pacer.decide_replacement(now, proven) {
            pacer::SessionReplacement::Now => {
                self.close(fault);
                self.open(now, None)
            }
            pacer::SessionReplacement::At(until) => {
                self.close(fault.clone());
                Phase::BackingOff { not_before: until, until, cause: fault }
            }
            pacer::SessionReplacement::Pointless => {
                let evidence = fault.evidence;
                self.recover(now, Fault { evidence, ..Fault::before_sending(Cause::NotAffine) })
            }
        }
    }

    /// Handles a lost link. The first attempt usually costs no wait, since most losses are short.
    fn handle_link_loss(&mut self, now: Instant, fault: Fault) -> Phase {
        let Recovery::Retry { not_before: Duration::ZERO } = fault.recovery() else {
            return self.recover(now, fault);
        };
        // Over HTTP a single exchange may have broken while the server is up, and a probe is cheap.
        let first = self.pacer.record_failure(now);
        if !first && (self.transport == TransportKind::Pipe || !self.pacer.try_spend_budget(now)) {
            return self.recover(now, fault);
        }
        self.begin_outage(now);
        self.announce_outage(&fault);
        self.close(fault);
        self.open(now, None)
    }

    /// Tries HTTP+SSE in the same attempt after Streamable HTTP was refused (DE-04).
    fn fall_back_or_recover(&mut self, now: Instant, until: Instant, refusal: HttpRefusal) -> Phase {
        // HTTP+SSE does not know the modern era, so it is no fallback if only that is wanted.
        let may = self.settings.fallback
            && self.settings.era_choice != EraChoice::Modern
            && self.transport == TransportKind::Http
            && !self.was_ready_as_configured;
        if !may {
            return self.recover(now, refusal.fault);
        }
        self.close(refusal.fault.clone());
        self.http_refusal = Some(refusal);
        self.transport = TransportKind::EventStream;
        self.reopen(now, until, None)
    }

    /// Closes the link and decides what a fault costs: retry, ask a person, or give up.
    fn recover(&mut self, now: Instant, cause: Fault) -> Phase {
        // If HTTP+SSE fails as well, the first refusal is reported; a required login is no failure.
        let wants_login = matches!(cause.cause, Cause::LoginRequired { .. });
        // A server that sends the event which only HTTP+SSE has does speak it.
        let speaks_sse = matches!(
            cause.cause,
            Cause::Protocol(Misbehavior::BadResult | Misbehavior::ForeignEndpoint { .. })
        );
        let cause = match self.http_refusal.take() {
            Some(refusal) if !wants_login => {
                self.transport = self.settings.transport;
                if speaks_sse { cause } else { refusal.fault }
            }
            _ => cause,
        };
        // The fallback is refused as well: the server may have been upgraded.
        if matches!(cause.cause, Cause::Status { code: 400..500, .. }) {
            self.transport = self.settings.transport;
        }
        self.close(cause.clone());
        self.schedule_recovery(now, cause)
    }

    /// Decides what a fault costs while there is no link to close.
    fn schedule_recovery(&mut self, now: Instant, cause: Fault) -> Phase {
        let retry = match cause.recovery() {
            Recovery::Retry { not_before } => not_before,
            Recovery::Login => return self.log_in(now, cause),
            // A server that worked once is not given up: it may be half deployed.
            Recovery::GiveUp if self.was_ready && cause.cause != Cause::Closed => Duration::ZERO,
            Recovery::GiveUp => {
                self.announce(Announcement::Failed(cause.clone()));
                return Phase::Failed { not_before: now + FAILED_RETRY_INTERVAL, cause };
            }
        };
        self.begin_outage(now);
        self.announce_outage(&cause);
        // A closed port is cheap to find, so over HTTP each outage starts with short waits.
        // Starting a process that dies at once is expensive, and so is a handshake in vain.
        let cheap = self.transport != TransportKind::Pipe && cause.cause != Cause::NotAffine;
        let outage = self.outage.filter(|_| cheap).map(|outage| outage.since);
        let (soonest, wait) = self.pacer.next_waits(now, outage, cheap && cause.cause == Cause::Refused);
        // `Retry-After` holds, but a waiting caller is not made to wait an hour for it.
        let asked = retry.min(MAX_RETRY_AFTER_ON_DEMAND);
        Phase::BackingOff { not_before: now + soonest.max(asked), until: now + wait.max(retry), cause }
    }

    fn begin_outage(&mut self, now: Instant) {
        let since = self.suspected_since.take().map_or(now, |since| since.min(now));
        if self.outage.is_none() {
            self.outage = Some(Outage { since, announced: false, late_probes: 0 });
            if self.was_ready {
                self.attempts_made = 0;
            }
        }
    }

    /// Announces `Disconnected`, once for each outage.
    fn announce_outage(&mut self, cause: &Fault) {
        if let Some(outage) = &mut self.outage
            && !mem::replace(&mut outage.announced, true)
        {
            self.announce(Announcement::Disconnected(cause.clone()));
        }
    }

    fn announce(&mut self, announcement: Announcement) {
        self.actions.push_back(Action::Announce(announcement));
    }
}

fn has_retry_after(fault: &Fault) -> bool {
    matches!(fault.recovery(), Recovery::Retry { not_before } if !not_before.is_zero())
}

/// How long into an outage an old session is probed again, whatever becomes of the probes.
const RESUME_RETRY_WINDOW: Duration = Duration::from_secs(5);
/// How many probes may be cut or put off after that, with no other answer, until the session is given up.
const MAX_LATE_PROBES: u32 = 4;

/// Maximum of the timeouts of an attempt, a year.
const MAX_TIMEOUT: Duration = Duration::from_secs(86_400 * 365);
/// Upper bound of the `Retry-After` that a waiting caller has to respect.
const MAX_RETRY_AFTER_ON_DEMAND: Duration = Duration::from_secs(30);

/// Minimum time between attempts while only a person can change the result.
const FAILED_RETRY_INTERVAL: Duration = Duration::from_secs(10);

//! The life of one server: opening, negotiating, ready, backing off, and how it moves between them.
//!
//! [`Session`] is the only thing that changes a phase. It does no I/O and has no clock. Its driver calls,
//! in this order:
//!
//! - `handle_command`, `handle_event`, `handle_timeout` with what happened;
//! - [`Session::poll_action`] until it is empty, doing what each action says;
//! - [`Session::poll_timeout`] for the time of the next `handle_timeout`.
//!
//! Everything that comes from a link carries the [`Attempt`] under which that link was opened, so the
//! late news of a dead link can never disturb its successor. A thousand calls that find the session gone
//! report the same attempt: the first starts one recovery, the others find it under way.
//!
//! ```text
//!            ┌─────────────────────────── forgotten by the server ◀──────────────┐
//!            ▼                                                                   │
//! Idle ─▶ Opening ─▶ Negotiating ─▶ Restoring ─▶ Ready ──────────────────────────┤
//!            ▲  └──▶ Resuming ──────────────────▲  │ cut, refused, ended         │
//!            └── BackingOff ◀──────────────────────┴─────────────────────────────┘
//! ```

mod login;
mod messages;
mod pace;
mod record;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use self::messages::{
    Action, Announcement, Attempt, Carrier, Command, Event, Finding, Hello, Settings, Status,
};
use self::pace::Pace;
use self::record::Refusal;
use crate::era::{Choice, Link, Negotiation, Peer, Reply, Start, Step, is_transport_refusal};
use crate::fault::{Cause, Execution, Fault, Limit, Recovery};
use crate::loss::Verdict;
use crate::revision::Era;
use crate::wire::method;

/// The life of one configured server.
#[derive(Debug)]
pub struct Session {
    phase: Phase,
    attempt: Attempt,
    settings: Settings,
    pace: Pace,
    /// What the server has spoken in this session (DE-09).
    spoken: Option<Era>,
    /// What an earlier connection found out, until it is confirmed or proves wrong.
    recorded: Option<Finding>,
    /// How it is reached: what was configured, or what was fallen back to.
    carrier: Carrier,
    /// Streamable HTTP was refused, and the older transport is being tried.
    refused: Option<Refusal>,
    /// Whose session may have outlived the connection.
    kept: Option<Arc<Peer>>,
    /// Calls could go at least once.
    was_ready: bool,
    /// They could over what was configured, so that there is nothing to fall back from.
    spoke_as_configured: bool,
    /// Start of the current outage, and whether `Disconnected` was announced.
    outage: Option<Outage>,
    /// When the first sign of trouble came, if that was before the loss was certain.
    suspected: Option<Instant>,
    /// Attempts in this outage, or in the last one.
    tries: u32,
    /// Logins since calls could last go.
    logins: u32,
    actions: VecDeque<Action>,
}

/// The phases. Waiting ones have a deadline.
#[derive(Debug, Default)]
enum Phase {
    /// Nothing was asked for yet.
    #[default]
    Idle,
    /// The link is being opened; for HTTP that is immediate.
    /// `probe_until`: the carrier is only a recorded one, which has a limit of its own.
    Opening { until: Instant, probe_until: Option<Instant>, negotiation: Option<Negotiation> },
    /// Asking on the old session whether it is still there.
    Resuming { until: Instant, probe_until: Instant, peer: Arc<Peer> },
    /// Finding out what the server speaks.
    Negotiating { until: Instant, probe_until: Option<Instant>, negotiation: Negotiation },
    /// Telling a new session what the old one knew.
    Restoring { until: Instant, peer: Arc<Peer> },
    /// Calls may go.
    Ready { peer: Arc<Peer>, since: Instant },
    /// The server wants to know who we are, and that is being settled.
    LoggingIn { until: Instant, cause: Fault },
    /// Only a person can move us on.
    NeedsLogin { not_before: Instant, cause: Fault },
    /// Waiting for the next attempt.
    BackingOff { not_before: Instant, until: Instant, cause: Fault },
    /// Trying again cannot help, as far as we know.
    Failed { not_before: Instant, cause: Fault },
    /// We ended it.
    Closed,
}

#[derive(Clone, Copy, Debug)]
struct Outage {
    since: Instant,
    /// Whether it was announced that the server is gone, and not just its session.
    announced: bool,
}

// === impl Session ===

impl Session {
    /// Nothing happens before [`Command::Connect`].
    pub fn new(settings: Settings) -> Self {
        Self {
            phase: Phase::Idle,
            attempt: Attempt::default(),
            pace: Pace::new(&settings),
            spoken: None,
            recorded: settings.usable_record(),
            carrier: settings.first_carrier(),
            refused: None,
            kept: None,
            was_ready: false,
            spoke_as_configured: false,
            outage: None,
            suspected: None,
            tries: 0,
            logins: 0,
            settings,
            actions: VecDeque::new(),
        }
    }

    /// There is a session that somebody else has left: the first link asks for it, and opens a new one only if it
    /// is gone. To be said before [`Command::Connect`].
    pub fn resume(&mut self, peer: Arc<Peer>) {
        self.kept = Some(peer);
    }

    /// The next loss showed itself at `since`, before it was certain: an outage begins with its first evidence.
    pub fn suspect(&mut self, since: Instant) {
        self.suspected = Some(since);
    }

    /// By what the server is reached, or was last tried.
    pub fn carrier(&self) -> Carrier {
        self.carrier
    }

    /// The owner wants something.
    pub fn handle_command(&mut self, now: Instant, command: Command) {
        self.phase = match (mem::take(&mut self.phase), command) {
            (Phase::Closed, _) => Phase::Closed,
            (Phase::Idle, Command::Connect) => self.open(now, None),
            // On demand the wait is cut short, but never below the floor, nor below what the server asked for:
            // many callers must not turn a crashing server into a storm of attempts.
            (Phase::BackingOff { not_before, until, cause }, Command::Connect | Command::Wake) => {
                Phase::BackingOff { not_before, until: until.min(not_before), cause }
            }
            // Somebody hopes that something has changed. Now and then that is worth a look.
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

    /// News from the link opened for `attempt`. Late news of a dead link stops here.
    pub fn handle_event(&mut self, now: Instant, attempt: Attempt, event: Event) {
        if attempt != self.attempt {
            return;
        }
        self.phase = match (mem::take(&mut self.phase), event) {
            (Phase::Opening { until, negotiation, .. }, Event::Opened { session }) => {
                match self.kept.take().filter(|_| session && negotiation.is_none()) {
                    Some(peer) => self.ask_whether_there(now, until, peer),
                    None => self.negotiate(now, until, negotiation),
                }
            }
            (Phase::Resuming { until, peer, .. }, Event::Reply(reply)) => {
                self.take_sign(now, until, peer, &reply)
            }
            (Phase::Resuming { peer, .. }, Event::Lost(fault)) => self.ask_later(now, peer, fault),
            (Phase::Negotiating { until, negotiation, .. }, Event::Reply(reply)) => {
                self.take_reply(now, until, negotiation, reply)
            }
            // The link broke while an answer was awaited: for the negotiation that is an answer too, since
            // some servers exit on a probe they do not know (DE-05).
            (Phase::Negotiating { until, negotiation, .. }, Event::Lost(fault)) => {
                self.take_reply(now, until, negotiation, Reply::Fault(fault))
            }
            (Phase::Restoring { peer, .. }, Event::Restored) => self.ready(now, peer),
            // No session lives shorter than one that is gone before the first call.
            (Phase::Restoring { .. }, Event::Forgotten { fault, .. }) => self.renew(now, fault, false),
            (Phase::Ready { since, .. }, Event::Forgotten { fault, proven }) => {
                let lasted = now.saturating_duration_since(since);
                self.pace.held(lasted);
                self.renew(now, fault, proven || lasted >= pace::AT_ONCE)
            }
            (Phase::Ready { peer, since }, Event::Lost(fault)) => {
                self.pace.held(now.saturating_duration_since(since));
                // A cut connection is no lost session: over HTTP the next link asks first.
                self.kept = (self.carrier == Carrier::Http && peer.era() == Era::Legacy).then_some(peer);
                self.lose(now, fault)
            }
            (Phase::Opening { until, .. }, Event::Lost(fault)) if self.is_recorded_stream_refused(&fault) => {
                self.leave_recorded_stream(now, until, fault)
            }
            (Phase::Opening { .. } | Phase::Restoring { .. }, Event::Lost(fault)) => self.recover(now, fault),
            (Phase::LoggingIn { .. }, Event::Authorized) => self.open(now, None),
            (Phase::LoggingIn { .. }, Event::Denied(fault)) => self.deny(now, fault),
            // Opened twice, or an answer nobody waits for: nothing that a driver does, nothing to act on.
            (phase, _) => phase,
        };
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.poll_timeout().is_none_or(|due| now < due) {
            return;
        }
        self.phase = match mem::take(&mut self.phase) {
            Phase::BackingOff { .. } => self.open(now, None),
            Phase::Negotiating { until, negotiation, probe_until: Some(_) } if now < until => {
                self.take_reply(now, until, negotiation, Reply::Silence)
            }
            Phase::Opening { until, probe_until: Some(_), .. } if now < until => {
                self.leave_recorded_stream(now, until, Fault::before_sending(Cause::Timeout(Limit::Connect)))
            }
            // A session that does not answer is no use, whether it is there or not.
            Phase::Resuming { until, .. } if now < until => self.negotiate(now, until, None),
            Phase::LoggingIn { cause, .. } => self.deny(now, cause),
            // What could not be restored in time is not worth a server that can be called.
            Phase::Restoring { peer, .. } => self.ready(now, peer),
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

    /// The next thing to do.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// The link that counts.
    pub fn attempt(&self) -> Attempt {
        self.attempt
    }

    /// Why waiting for a connection is pointless at the moment, if it is.
    pub fn hopeless(&self, now: Instant) -> Option<&Fault> {
        match &self.phase {
            Phase::NeedsLogin { not_before, cause } | Phase::Failed { not_before, cause }
                if now < *not_before =>
            {
                Some(cause)
            }
            _ => None,
        }
    }

    /// Whether this is no first attempt: something was lost, or could not be had.
    pub fn is_down(&self) -> bool {
        self.was_ready || self.outage.is_some()
    }

    /// Attempts in this outage, or in the last one.
    pub fn tries(&self) -> u32 {
        self.tries
    }

    /// The phase as others see it.
    pub fn status(&self) -> Status {
        match &self.phase {
            Phase::Idle => Status::Idle,
            Phase::Opening { .. }
            | Phase::Resuming { .. }
            | Phase::Negotiating { .. }
            | Phase::Restoring { .. } => Status::Connecting,
            Phase::Ready { peer, .. } => Status::Ready(Arc::clone(peer)),
            Phase::LoggingIn { cause, .. } => Status::LoggingIn(cause.clone()),
            Phase::NeedsLogin { cause, .. } => Status::NeedsLogin(cause.clone()),
            Phase::BackingOff { until, cause, .. } => {
                Status::BackingOff { until: *until, cause: cause.clone() }
            }
            Phase::Failed { cause, .. } => Status::Failed(cause.clone()),
            Phase::Closed => Status::Closed,
        }
    }

    fn open(&mut self, now: Instant, negotiation: Option<Negotiation>) -> Phase {
        self.attempt.0 += 1;
        self.tries = self.tries.saturating_add(1);
        self.actions.push_back(Action::Open(self.attempt, self.carrier));
        let probe_until = self.is_on_recorded_stream().then(|| now + self.settings.probe);
        Phase::Opening { until: now + self.settings.connect, probe_until, negotiation }
    }

    /// [`Self::open`] within the time that is left of an attempt: the time for connecting is not granted twice.
    fn reopen(&mut self, now: Instant, until: Instant, negotiation: Option<Negotiation>) -> Phase {
        match self.open(now, negotiation) {
            Phase::Opening { probe_until, negotiation, .. } => {
                Phase::Opening { until, probe_until, negotiation }
            }
            other => other,
        }
    }

    /// Leaves the link; its late news counts no more.
    fn close(&mut self, fault: Fault) {
        // What is known of the request that failed is not known of the others that are under way.
        let fault = Fault { execution: Execution::Unknown, ..fault };
        self.actions.push_back(Action::Close(self.attempt, fault));
        self.attempt.0 += 1;
    }

    fn ask_whether_there(&mut self, now: Instant, until: Instant, peer: Arc<Peer>) -> Phase {
        self.actions.push_back(Action::Send(self.attempt, Hello::Resume(peer.revision)));
        Phase::Resuming { until, probe_until: now + self.settings.probe, peer }
    }

    /// An answer on the old session: any at all proves it, unless it says the contrary.
    fn take_sign(&mut self, now: Instant, until: Instant, peer: Arc<Peer>, reply: &Reply) -> Phase {
        match (reply.sign(method::PING, true, false), reply) {
            // The session may well be there, for whoever we are to be.
            (Verdict::Login, Reply::Fault(fault)) if self.settings.authorizes => {
                self.kept = Some(peer);
                self.recover(now, fault.clone())
            }
            (Verdict::Answer, Reply::Result(_) | Reply::Error { .. }) => self.ready(now, peer),
            (Verdict::Answer, Reply::Fault(fault)) if fault.is_unreachable() || asks_for_time(fault) => {
                self.ask_later(now, peer, fault.clone())
            }
            // Nothing is at stake: a handshake finds out, and costs what asking again would.
            _ => self.negotiate(now, until, None),
        }
    }

    /// The old session could not be asked for. That is tried again, but if something answers in the server's
    /// place, not for long: a balancer may say of a session whose node is gone that the gateway is bad, for ever.
    fn ask_later(&mut self, now: Instant, peer: Arc<Peer>, fault: Fault) -> Phase {
        let asked = fault.execution == Execution::Unknown;
        let young = |outage: Outage| now.saturating_duration_since(outage.since) < ASK_AGAIN;
        self.kept = (!asked || self.outage.is_none_or(young)).then_some(peer);
        self.recover(now, fault)
    }

    /// The link is open: begin, or go on where a died process left off.
    fn negotiate(&mut self, now: Instant, until: Instant, ongoing: Option<Negotiation>) -> Phase {
        let (negotiation, step) = match ongoing {
            Some(negotiation) => {
                let step = negotiation.restarted();
                (negotiation, step)
            }
            None => match self.carrier {
                Carrier::Pipe => Negotiation::begin(Link::Pipe, self.settings.choice, self.start()),
                Carrier::Http => Negotiation::begin(Link::Http, self.settings.choice, self.start()),
                // The transport is older than the other era.
                Carrier::EventStream => Negotiation::begin(Link::Pipe, Choice::Legacy, Start::Unknown),
            },
        };
        self.take_step(now, until, negotiation, step)
    }

    fn take_reply(
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
                let refusal = Refusal { fault, modern_too: negotiation.is_probe_refused() };
                self.fall_back_or_recover(now, until, refusal)
            }
            step => self.take_step(now, until, negotiation, step),
        }
    }

    fn take_step(&mut self, now: Instant, until: Instant, negotiation: Negotiation, step: Step) -> Phase {
        let hello = match step {
            Step::Discover(revision) => Hello::Discover(revision),
            Step::Initialize(revision) => Hello::Initialize(revision),
            Step::Confirm(revision) => Hello::Initialized(revision),
            Step::Restart => {
                self.actions.push_back(Action::Close(self.attempt, Fault::new(Cause::Closed)));
                return self.reopen(now, until, Some(negotiation));
            }
            Step::Agreed(peer) => {
                let peer = Arc::from(peer);
                self.record(&peer, &negotiation);
                self.spoken = Some(Peer::era(&peer));
                self.refused = None;
                self.actions.push_back(Action::Restore(self.attempt, Arc::clone(&peer)));
                return Phase::Restoring { until, peer };
            }
            Step::Failed(fault) => return self.recover(now, fault),
        };
        self.actions.push_back(Action::Send(self.attempt, hello));
        let probe_until = negotiation.is_probing().then(|| now + self.settings.probe);
        Phase::Negotiating { until, probe_until, negotiation }
    }

    fn ready(&mut self, now: Instant, peer: Arc<Peer>) -> Phase {
        self.suspected = None;
        let outage = self.outage.take().map(|outage| now.saturating_duration_since(outage.since));
        self.actions.push_back(Action::Ready(self.attempt, Arc::clone(&peer)));
        self.announce(match outage {
            Some(outage) if self.was_ready => Announcement::Recovered { outage },
            _ => Announcement::Connected,
        });
        self.was_ready = true;
        self.logins = 0;
        self.spoke_as_configured |= self.carrier == self.settings.carrier;
        Phase::Ready { peer, since: now }
    }

    /// The server forgot the session: a new one at once, unless that is all it ever does.
    fn renew(&mut self, now: Instant, fault: Fault, proven: bool) -> Phase {
        self.begin_outage(now);
        self.announce(Announcement::SessionLost(fault.clone()));
        self.kept = None;
        match self.pace.renewal(now, proven) {
            pace::Renewal::Now => {
                self.close(fault);
                self.open(now, None)
            }
            pace::Renewal::At(until) => {
                self.close(fault.clone());
                Phase::BackingOff { not_before: until, until, cause: fault }
            }
            pace::Renewal::Pointless => {
                let evidence = fault.evidence;
                self.recover(now, Fault { evidence, ..Fault::before_sending(Cause::NotAffine) })
            }
        }
    }

    /// A connection was lost: as a rule the next attempt costs no wait, since most losses are a blink.
    fn lose(&mut self, now: Instant, fault: Fault) -> Phase {
        let Recovery::Retry { not_before: Duration::ZERO } = fault.recovery() else {
            return self.recover(now, fault);
        };
        // Over HTTP what broke may be one exchange, of a server that is up: asking costs next to nothing.
        let first = self.pace.first(now);
        if !first && (self.carrier == Carrier::Pipe || !self.pace.spend(now)) {
            return self.recover(now, fault);
        }
        self.begin_outage(now);
        self.announce_outage(&fault);
        self.close(fault);
        self.open(now, None)
    }

    /// Streamable HTTP was refused. The transport before it is tried in the same breath (DE-04).
    fn fall_back_or_recover(&mut self, now: Instant, until: Instant, refusal: Refusal) -> Phase {
        // Nor where only the era is wanted that the older transport does not know.
        let may = self.settings.fallback
            && self.settings.choice != Choice::Modern
            && self.carrier == Carrier::Http
            && !self.spoke_as_configured;
        if !may {
            return self.recover(now, refusal.fault);
        }
        self.close(refusal.fault.clone());
        self.refused = Some(refusal);
        self.carrier = Carrier::EventStream;
        self.reopen(now, until, None)
    }

    /// The one place that decides what a fault costs: try again, ask a person, or give up.
    fn recover(&mut self, now: Instant, cause: Fault) -> Phase {
        // If the older transport does not work either, the first refusal is the one to tell. One that wants a login
        // works, though not for everybody.
        let wants_login = matches!(cause.cause, Cause::LoginRequired { .. });
        let cause = match self.refused.take() {
            Some(refusal) if !wants_login => {
                self.carrier = self.settings.carrier;
                refusal.fault
            }
            _ => cause,
        };
        // What was fallen back to is refused as well: the server may have moved on.
        if matches!(cause.cause, Cause::Status { code: 400..500, .. }) {
            self.carrier = self.settings.carrier;
        }
        self.close(cause.clone());
        self.settle(now, cause)
    }

    /// The same where there is no link.
    fn settle(&mut self, now: Instant, cause: Fault) -> Phase {
        let retry = match cause.recovery() {
            Recovery::Retry { not_before } => not_before,
            Recovery::Login => return self.log_in(now, cause),
            // What worked once is not given up: it may have been moved, or be half deployed.
            Recovery::GiveUp if self.was_ready && cause.cause != Cause::Closed => Duration::ZERO,
            Recovery::GiveUp => {
                self.announce(Announcement::Failed(cause.clone()));
                return Phase::Failed { not_before: now + HOPELESS, cause };
            }
        };
        self.begin_outage(now);
        self.announce_outage(&cause);
        // To find a port closed is cheap, so over HTTP each outage is judged by itself. A process that dies as
        // soon as it is started is dear, and so is a handshake for nothing.
        let cheap = self.carrier != Carrier::Pipe && cause.cause != Cause::NotAffine;
        let outage = self.outage.filter(|_| cheap).map(|outage| outage.since);
        let (soonest, wait) = self.pace.waits(now, outage, cheap && cause.cause == Cause::Refused);
        // What the server asked for holds, but a person who waits is not sent away for an hour on its word.
        let asked = retry.min(PATIENCE);
        Phase::BackingOff { not_before: now + soonest.max(asked), until: now + wait.max(retry), cause }
    }

    fn begin_outage(&mut self, now: Instant) {
        let since = self.suspected.take().map_or(now, |since| since.min(now));
        if self.outage.is_none() {
            self.outage = Some(Outage { since, announced: false });
            if self.was_ready {
                self.tries = 0;
            }
        }
    }

    /// Once for each outage.
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

/// Whether the server said when it wants to be asked again.
fn asks_for_time(fault: &Fault) -> bool {
    matches!(fault.recovery(), Recovery::Retry { not_before } if !not_before.is_zero())
}

/// How long an old session is asked for, if what stands in front of the server answers.
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// How long `Retry-After` is believed while somebody waits.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long a verdict that only a person can change is believed.
const HOPELESS: Duration = Duration::from_secs(10);

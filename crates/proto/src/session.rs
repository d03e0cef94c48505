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
//! late news of a dead link can never disturb its successor.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::backoff::Backoff;
use crate::era::{Choice, Link, Negotiation, Peer, Reply, Step};
use crate::fault::{Cause, Fault, Limit, Recovery};
use crate::revision::{Era, Revision};

/// The life of one configured server.
#[derive(Debug)]
pub struct Session {
    phase: Phase,
    attempt: Attempt,
    settings: Settings,
    backoff: Backoff,
    /// What the server spoke last time (DE-09).
    remembered: Option<Era>,
    actions: VecDeque<Action>,
}

/// What does not change in a session's life.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Pipe or HTTP.
    pub link: Link,
    /// Which eras may be tried.
    pub choice: Choice,
    /// What the server spoke last time, if that is known.
    pub remembered: Option<Era>,
    /// For opening and negotiating together.
    pub connect: Duration,
    /// For the probe alone: silence longer than this means legacy.
    pub probe: Duration,
    /// How long a connection must have held for the next loss to be waited for briefly again.
    pub stable: Duration,
    /// The shortest wait between two attempts.
    pub backoff_floor: Duration,
    /// The longest.
    pub backoff_cap: Duration,
    /// For jitter.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            link: Link::Pipe,
            choice: Choice::Auto,
            remembered: None,
            connect: Duration::from_secs(30),
            probe: Duration::from_secs(3),
            stable: Duration::from_secs(30),
            backoff_floor: Duration::from_millis(250),
            backoff_cap: Duration::from_secs(60),
            seed: 0,
        }
    }
}

/// Names one link, from the moment it is asked for. Never used twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attempt(u64);

/// The phases. Waiting ones have a deadline.
#[derive(Debug, Default)]
enum Phase {
    /// Nothing was asked for yet.
    #[default]
    Idle,
    /// The link is being opened; for HTTP that is immediate.
    Opening { until: Instant, negotiation: Option<Negotiation> },
    /// Finding out what the server speaks.
    Negotiating { until: Instant, probe_until: Option<Instant>, negotiation: Negotiation },
    /// Calls may go.
    Ready { peer: Arc<Peer>, since: Instant },
    /// Only a person can move us on.
    NeedsLogin { cause: Fault },
    /// Waiting for the next attempt.
    BackingOff { not_before: Instant, until: Instant, cause: Fault },
    /// Trying again cannot help.
    Failed { cause: Fault },
    /// We ended it.
    Closed,
}

/// What the owner wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Be connected, soon: the first time, or because a call is waiting.
    Connect,
    /// Be done.
    Close,
}

/// News of a link.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// It is open.
    Opened,
    /// The answer to the last [`Hello`].
    Reply(Reply),
    /// It is gone.
    Lost(Fault),
}

/// A message of the negotiation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hello {
    /// `server/discover` in this revision.
    Discover(Revision),
    /// `initialize`, offering this revision.
    Initialize(Revision),
    /// `notifications/initialized`, now that this revision is agreed.
    Initialized(Revision),
}

/// What the driver must do now.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Open a link and report [`Event::Opened`] or [`Event::Lost`].
    Open(Attempt),
    /// Send this and report its [`Event::Reply`].
    Send(Attempt, Hello),
    /// Let calls go over this link.
    Ready(Attempt, Arc<Peer>),
    /// Close the link; calls under way on it end with this fault.
    Close(Attempt, Fault),
}

/// The phase as others see it.
#[derive(Clone, Debug, PartialEq)]
pub enum Status {
    /// Nothing was asked for yet.
    Idle,
    /// Opening or negotiating.
    Connecting,
    /// Calls go.
    Ready(Arc<Peer>),
    /// Waiting for a person.
    NeedsLogin(Fault),
    /// Waiting for the next attempt.
    BackingOff {
        /// When it comes.
        until: Instant,
        /// Why the last one failed.
        cause: Fault,
    },
    /// For good.
    Failed(Fault),
    /// For good, by us.
    Closed,
}

// === impl Session ===

impl Session {
    /// Nothing happens before [`Command::Connect`].
    pub fn new(settings: Settings) -> Self {
        let backoff = Backoff::new(settings.backoff_floor, settings.backoff_cap, settings.seed);
        Self {
            phase: Phase::Idle,
            attempt: Attempt::default(),
            remembered: settings.remembered,
            settings,
            backoff,
            actions: VecDeque::new(),
        }
    }

    /// The owner wants something.
    pub fn handle_command(&mut self, now: Instant, command: Command) {
        self.phase = match (mem::take(&mut self.phase), command) {
            (Phase::Closed, _) => Phase::Closed,
            (Phase::Idle, Command::Connect) => self.open(now, None),
            // On demand the wait is cut short, but never below the floor, nor below what the server asked for:
            // many callers must not turn a crashing server into a storm of attempts.
            (Phase::BackingOff { not_before, until, cause }, Command::Connect) => {
                Phase::BackingOff { not_before, until: until.min(not_before), cause }
            }
            // A person has acted, or hopes that something changed.
            (Phase::NeedsLogin { .. } | Phase::Failed { .. }, Command::Connect) => self.open(now, None),
            (phase, Command::Connect) => phase,
            (Phase::Opening { .. } | Phase::Negotiating { .. } | Phase::Ready { .. }, Command::Close) => {
                self.actions.push_back(Action::Close(self.attempt, Fault::new(Cause::Closed)));
                self.attempt.0 += 1;
                Phase::Closed
            }
            (_, Command::Close) => Phase::Closed,
        };
    }

    /// News from the link opened for `attempt`. Late news of a dead link stops here.
    pub fn handle_event(&mut self, now: Instant, attempt: Attempt, event: Event) {
        if attempt != self.attempt {
            return;
        }
        self.phase = match (mem::take(&mut self.phase), event) {
            (Phase::Opening { until, negotiation }, Event::Opened) => self.negotiate(now, until, negotiation),
            (Phase::Negotiating { until, negotiation, .. }, Event::Reply(reply)) => {
                self.take_reply(now, until, negotiation, reply)
            }
            // The link broke while an answer was awaited: for the negotiation that is an answer too, since
            // some servers exit on a probe they do not know (DE-05).
            (Phase::Negotiating { until, negotiation, .. }, Event::Lost(fault)) => {
                self.take_reply(now, until, negotiation, Reply::Fault(fault))
            }
            (Phase::Ready { since, .. }, Event::Lost(fault)) => {
                // Flapping is not recovery: only a connection that held starts the waits over.
                if now.saturating_duration_since(since) >= self.settings.stable {
                    self.backoff.reset();
                }
                self.recover(now, fault)
            }
            (Phase::Opening { .. }, Event::Lost(fault)) => self.recover(now, fault),
            // Opened twice, or an answer nobody waits for: nothing that a driver does, nothing to act on.
            (phase, Event::Opened | Event::Reply(_) | Event::Lost(_)) => phase,
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
            _ => self.recover(now, Fault::new(Cause::Timeout(Limit::Connect))),
        };
    }

    /// When [`Self::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        match &self.phase {
            Phase::Opening { until, .. } | Phase::BackingOff { until, .. } => Some(*until),
            Phase::Negotiating { until, probe_until, .. } => {
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

    /// How many attempts have failed since the last stable connection.
    pub fn failures(&self) -> u32 {
        self.backoff.failures()
    }

    /// What the server spoke last, to be remembered for the next process.
    pub fn era(&self) -> Option<Era> {
        self.remembered
    }

    /// The phase as others see it.
    pub fn status(&self) -> Status {
        match &self.phase {
            Phase::Idle => Status::Idle,
            Phase::Opening { .. } | Phase::Negotiating { .. } => Status::Connecting,
            Phase::Ready { peer, .. } => Status::Ready(Arc::clone(peer)),
            Phase::NeedsLogin { cause } => Status::NeedsLogin(cause.clone()),
            Phase::BackingOff { until, cause, .. } => {
                Status::BackingOff { until: *until, cause: cause.clone() }
            }
            Phase::Failed { cause } => Status::Failed(cause.clone()),
            Phase::Closed => Status::Closed,
        }
    }

    fn open(&mut self, now: Instant, negotiation: Option<Negotiation>) -> Phase {
        self.attempt.0 += 1;
        self.actions.push_back(Action::Open(self.attempt));
        Phase::Opening { until: now + self.settings.connect, negotiation }
    }

    /// The link is open: begin, or go on where a died process left off.
    fn negotiate(&mut self, now: Instant, until: Instant, ongoing: Option<Negotiation>) -> Phase {
        let (negotiation, step) = match ongoing {
            Some(negotiation) => {
                let step = negotiation.restarted();
                (negotiation, step)
            }
            None => Negotiation::begin(self.settings.link, self.settings.choice, self.remembered),
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
        let step = negotiation.handle(reply);
        self.take_step(now, until, negotiation, step)
    }

    fn take_step(&mut self, now: Instant, until: Instant, negotiation: Negotiation, step: Step) -> Phase {
        let hello = match step {
            Step::Discover(revision) => Hello::Discover(revision),
            Step::Initialize(revision) => Hello::Initialize(revision),
            Step::Confirm(revision) => Hello::Initialized(revision),
            Step::Restart => {
                self.actions.push_back(Action::Close(self.attempt, Fault::new(Cause::Closed)));
                return match self.open(now, Some(negotiation)) {
                    // The time for connecting is not granted twice.
                    Phase::Opening { negotiation, .. } => Phase::Opening { until, negotiation },
                    other => other,
                };
            }
            Step::Agreed(peer) => {
                let peer = Arc::from(peer);
                self.remembered = Some(Peer::era(&peer));
                self.actions.push_back(Action::Ready(self.attempt, Arc::clone(&peer)));
                return Phase::Ready { peer, since: now };
            }
            Step::Failed(fault) => return self.recover(now, fault),
        };
        self.actions.push_back(Action::Send(self.attempt, hello));
        let probe_until = negotiation.is_probing().then(|| now + self.settings.probe);
        Phase::Negotiating { until, probe_until, negotiation }
    }

    /// The one place that decides what a fault costs: try again, ask a person, or give up.
    fn recover(&mut self, now: Instant, cause: Fault) -> Phase {
        self.actions.push_back(Action::Close(self.attempt, cause.clone()));
        self.attempt.0 += 1;
        match cause.recovery() {
            Recovery::Retry { not_before } => {
                let wait = self.backoff.next_wait().max(not_before);
                let not_before = now + self.settings.backoff_floor.max(not_before);
                Phase::BackingOff { not_before, until: now + wait, cause }
            }
            Recovery::Login => Phase::NeedsLogin { cause },
            Recovery::GiveUp => Phase::Failed { cause },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `Retry-After` holds even when somebody is waiting.
    #[test]
    fn demand_does_not_override_what_the_server_asked_for() {
        let t0 = Instant::now();
        let mut session = Session::new(Settings { link: Link::Http, ..Settings::default() });
        session.handle_command(t0, Command::Connect);
        let attempt = session.attempt();
        let busy = Cause::Status { code: 503, retry_after: Some(Duration::from_secs(9)) };
        session.handle_event(t0, attempt, Event::Lost(Fault::new(busy)));
        session.handle_command(t0, Command::Connect);
        assert_eq!(session.poll_timeout(), Some(t0 + Duration::from_secs(9)));
    }

    /// Without such a wish, demand cuts the wait to the floor, and no further.
    #[test]
    fn demand_cuts_the_wait_to_the_floor() {
        let t0 = Instant::now();
        let settings = Settings::default();
        let mut session = Session::new(settings.clone());
        session.handle_command(t0, Command::Connect);
        for _ in 0..8 {
            session.handle_event(t0, session.attempt(), Event::Lost(Fault::new(Cause::Refused)));
            session.handle_timeout(t0 + Duration::from_secs(3_600));
        }
        session.handle_event(t0, session.attempt(), Event::Lost(Fault::new(Cause::Refused)));
        assert!(session.poll_timeout().unwrap() > t0 + settings.backoff_floor);
        session.handle_command(t0, Command::Connect);
        assert_eq!(session.poll_timeout(), Some(t0 + settings.backoff_floor));
    }
}

//! When to ask an idle server whether it is there, with what, and what an answer proves.
//!
//! Traffic is life: as long as calls go through, nothing is asked. After [`Keepalive::interval`] without any,
//! one probe goes out. It is `ping`, which costs a server nothing; one that does not know `ping` is asked for a
//! list it advertises, for the rest of that connection (PG-02).
//!
//! The interval is what was configured, or less. A session that is found gone after a time of silence shows
//! that its server waits for no longer than that, so from then on two thirds of that time is the most that passes
//! without a sign of life. This is remembered for as long as the server is configured: a new session dies
//! of the same silence as the last.

use std::time::{Duration, Instant};

use crate::era::Peer;
use crate::wire::method;

/// The keepalive of one server, across its connections.
#[derive(Debug)]
pub struct Keepalive {
    /// As configured, no less than the floor. `None`: off.
    configured: Option<Duration>,
    /// What the server was seen to need.
    learned: Option<Duration>,
    /// When the server, or we, last said something.
    last: Option<Instant>,
    /// When it was last asked.
    asked: Option<Instant>,
    /// A request went unanswered: when to ask for that reason.
    doubt: Option<Instant>,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    /// Not connected.
    Silent,
    /// Waiting for the time to ask.
    Idle { next: Next, due: Option<Instant> },
    /// A probe was sent.
    Asked { next: Next, with: Probe },
}

/// What to ask with: decided anew for each connection.
#[derive(Clone, Copy, Debug)]
struct Next {
    probe: Probe,
    /// What takes the place of `ping`, if the server offers it.
    list: Option<&'static str>,
}

/// A request without effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// `ping`, or what takes its place: a modern server has none, and is asked to describe itself (LC-14).
    Ping,
    /// The first page of a list, by its method.
    List(&'static str),
}

/// How a probe was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// With a result.
    Alive,
    /// With `-32601`.
    Unsupported,
    /// With anything else, or not at all.
    Failed,
}

/// What that proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// The server is there and knows us.
    Alive,
    /// It is not, or it does not.
    Dead,
}

/// No server is asked more often than this.
pub const FLOOR: Duration = Duration::from_secs(5);

/// A list that the server advertises, of those the one that is likely to be the smallest: for a question that
/// `ping` does not answer.
pub fn smallest_list(peer: &Peer) -> Option<&'static str> {
    let offered = &peer.capabilities;
    if offered.prompts.is_some() {
        Some(method::PROMPTS_LIST)
    } else if offered.resources.is_some() {
        Some(method::RESOURCES_LIST)
    } else {
        offered.tools.is_some().then_some(method::TOOLS_LIST)
    }
}

impl Keepalive {
    /// Probes after `interval` without traffic, which is raised to [`FLOOR`]. `None` is off, and so is zero.
    pub fn new(interval: Option<Duration>) -> Self {
        let configured = interval.filter(|interval| !interval.is_zero()).map(|interval| interval.max(FLOOR));
        Self { configured, learned: None, last: None, asked: None, doubt: None, phase: Phase::Silent }
    }

    /// A connection is ready. What the last connection taught about `ping` is forgotten.
    pub fn connected(&mut self, now: Instant, peer: &Peer) {
        self.last = Some(now);
        self.doubt = None;
        let offered = &peer.capabilities;
        // LC-05: only what is advertised. Tools first, since nearly all servers have them.
        let list = if offered.tools.is_some() {
            Some(method::TOOLS_LIST)
        } else if offered.prompts.is_some() {
            Some(method::PROMPTS_LIST)
        } else {
            offered.resources.is_some().then_some(method::RESOURCES_LIST)
        };
        self.phase = Phase::Idle { next: Next { probe: Probe::Ping, list }, due: self.after(now) };
    }

    /// The connection has ended, and with it any probe on it.
    pub fn disconnected(&mut self) {
        self.phase = Phase::Silent;
    }

    /// A message went either way at `at`. Times may come in any order.
    ///
    /// A request that finds its session gone is no sign of life: tell
    /// [`session_dropped`](Self::session_dropped) first.
    pub fn traffic(&mut self, at: Instant) {
        if self.last.is_some_and(|last| at <= last) {
            return;
        }
        self.last = Some(at);
        let after = self.after(at);
        if let Phase::Idle { due, .. } = &mut self.phase {
            *due = after;
        }
    }

    /// When to call [`handle_timeout`](Self::handle_timeout).
    pub fn poll_timeout(&self) -> Option<Instant> {
        match self.phase {
            Phase::Idle { due, .. } => [due, self.doubt_due()].into_iter().flatten().min(),
            Phase::Silent | Phase::Asked { .. } => None,
        }
    }

    /// The probe to send now, if it is time. Tell how it ended with [`answered`](Self::answered): until then
    /// there is no other.
    ///
    /// `busy`: nobody needs to know, or the server may be at work on something, which has a deadline of its own and
    /// shows as well as a probe who is there. To one that is [doubted](Self::doubts) less counts as work than to others.
    pub fn handle_timeout(&mut self, now: Instant, busy: bool) -> Option<Probe> {
        if self.poll_timeout().is_none_or(|due| now < due) {
            return None;
        }
        let (after, doubts) = (self.after(now), self.doubts(now));
        let Phase::Idle { due, next } = &mut self.phase else { return None };
        if busy {
            if due.is_some_and(|due| now >= due) {
                *due = after;
            }
            if doubts {
                self.doubt = now.checked_add(FLOOR);
            }
            return None;
        }
        let (next, with) = (*next, next.probe);
        self.asked = Some(now);
        self.doubt = None;
        self.phase = Phase::Asked { next, with };
        Some(with)
    }

    /// What the answer to the probe proves.
    ///
    /// An answer that comes when no probe is open is taken for what it proves and teaches nothing.
    pub fn answered(&mut self, now: Instant, heard: Heard) -> Proof {
        let due = self.after(now);
        if let Phase::Asked { mut next, with } = self.phase {
            // Where nothing is advertised there is no better question, and `-32601` answers this one.
            if let (Probe::Ping, Heard::Unsupported, Some(list)) = (with, heard, next.list) {
                next.probe = Probe::List(list);
            }
            self.phase = Phase::Idle { next, due };
        }
        match heard {
            Heard::Alive | Heard::Unsupported => {
                self.traffic(now);
                Proof::Alive
            }
            Heard::Failed => Proof::Dead,
        }
    }

    /// The server forgot the session, after it had been idle since the last traffic.
    ///
    /// A silence that no permitted interval would have broken in time teaches nothing: the server was
    /// restarted, or cannot be kept warm. A long one only says that it was long enough, so it may take a few
    /// losses until the interval fits.
    pub fn session_dropped(&mut self, now: Instant) {
        let Some(last) = self.last else { return };
        // The last third is for the probe's own way, and for servers that look only now and then.
        let wanted = now.saturating_duration_since(last) / 3 * 2;
        if wanted >= FLOOR {
            self.learned = Some(self.learned.map_or(wanted, |learned| learned.min(wanted)));
        }
        // The same silence shall not be counted twice.
        self.last = Some(now);
    }

    /// What was quiet until now is to be asked at once: the machine slept, or the network changed.
    ///
    /// Not sooner than [`FLOOR`] after the last probe, however often this is said.
    pub fn hurry(&mut self) {
        let soonest = self.soonest().max(self.last);
        if let (Phase::Idle { due: Some(due), .. }, Some(soonest)) = (&mut self.phase, soonest) {
            *due = soonest.min(*due);
        }
    }

    /// A request was left without an answer: the server is asked at `at`, but as seldom as
    /// [`hurry`](Self::hurry) would. Also one that is never asked otherwise: who wants no keepalive wants no
    /// hung server either.
    pub fn doubt(&mut self, at: Instant) {
        self.doubt = Some(self.doubt.map_or(at, |doubt| doubt.min(at)));
    }

    /// Whether it is time to ask for a [`doubt`](Self::doubt).
    pub fn doubts(&self, now: Instant) -> bool {
        self.doubt_due().is_some_and(|at| now >= at)
    }

    /// The server was heard since.
    pub fn trust(&mut self) {
        self.doubt = None;
    }

    fn doubt_due(&self) -> Option<Instant> {
        self.doubt.map(|at| self.soonest().map_or(at, |soonest| at.max(soonest)))
    }

    /// Not sooner than [`FLOOR`] after the last probe.
    fn soonest(&self) -> Option<Instant> {
        self.asked.and_then(|asked| asked.checked_add(FLOOR))
    }

    /// The interval in force.
    pub fn interval(&self) -> Option<Duration> {
        self.configured.map(|configured| self.learned.map_or(configured, |learned| learned.min(configured)))
    }

    /// An interval after `from`. `None`: off, or beyond the end of time.
    fn after(&self, from: Instant) -> Option<Instant> {
        from.checked_add(self.interval()?)
    }
}

#[cfg(test)]
mod tests;

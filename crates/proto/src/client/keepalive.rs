//! [`Keepalive`]: when to probe an idle server, with what, and what the reply proves.
//!
//! As long as messages flow, no probe is sent. After [`Keepalive::interval`] without traffic, one
//! probe is sent. It is `ping`, which costs a server nothing; a server that does not know `ping` is
//! probed with a list that it advertises, for the rest of that connection.
//!
//! The interval is the configured one, or less. A session that is lost after a time of silence
//! shows that its server keeps sessions no longer than that, so from then on the interval is at
//! most two thirds of that time. This is remembered across connections, since a new session would
//! be lost in the same way.
// PG-02

use std::time::{Duration, Instant};

use crate::client::negotiation::Peer;
use crate::wire::method;

/// The keepalive of one server, across its connections.
#[derive(Debug)]
pub struct Keepalive {
    /// The configured interval, at least [`MIN_PROBE_INTERVAL`]. `None`: off.
    configured_interval: Option<Duration>,
    /// The interval that the server's session losses showed to be needed.
    learned_interval: Option<Duration>,
    /// Time of the last message in either direction.
    last_traffic: Option<Instant>,
    /// Time of the last probe.
    last_probe: Option<Instant>,
    /// When to probe because a request went unanswered.
    suspected_at: Option<Instant>,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    /// Not connected.
    Disconnected,
    /// Waiting for the next probe.
    Idle { next: ProbePlan, due: Option<Instant> },
    /// A probe was sent, and its result is awaited.
    Probing { next: ProbePlan, with: Probe },
}

/// The probe to use on this connection.
#[derive(Clone, Copy, Debug)]
struct ProbePlan {
    probe: Probe,
    /// The list that replaces `ping`, if the server offers one.
    list_method: Option<&'static str>,
}

/// A request without effect that shows whether a server or session is alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    // LC-14
    /// `ping`, or `server/discover` for a modern server, which has no `ping`.
    Ping,
    /// The first page of a list, by its method.
    List(&'static str),
}

/// The result of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeResult {
    /// The server answered with a result.
    Alive,
    /// The server answered with `-32601`.
    Unsupported,
    /// The server answered with anything else, or not at all.
    Failed,
}

/// What the result of a probe proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// The server is up and knows the session.
    Alive,
    /// The server is down or lost the session.
    Dead,
}

/// Minimum time between two probes.
pub const MIN_PROBE_INTERVAL: Duration = Duration::from_secs(5);

/// The method of the advertised list that is likely to be the smallest, for probes that `ping` does
/// not settle.
pub fn smallest_list_method(peer: &Peer) -> Option<&'static str> {
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
    /// Creates a keepalive that probes after `interval` without traffic. The interval is raised to
    /// [`MIN_PROBE_INTERVAL`]; `None` and zero turn it off.
    pub fn new(interval: Option<Duration>) -> Self {
        let configured =
            interval.filter(|interval| !interval.is_zero()).map(|interval| interval.max(MIN_PROBE_INTERVAL));
        Self {
            configured_interval: configured,
            learned_interval: None,
            last_traffic: None,
            last_probe: None,
            suspected_at: None,
            phase: Phase::Disconnected,
        }
    }

    /// Takes note of a ready connection. Whether the last one knew `ping` is forgotten.
    pub fn handle_connected(&mut self, now: Instant, peer: &Peer) {
        self.last_traffic = Some(now);
        self.suspected_at = None;
        let offered = &peer.capabilities;
        // LC-05: only an advertised list. Tools first, since nearly all servers have them.
        let list = if offered.tools.is_some() {
            Some(method::TOOLS_LIST)
        } else if offered.prompts.is_some() {
            Some(method::PROMPTS_LIST)
        } else {
            offered.resources.is_some().then_some(method::RESOURCES_LIST)
        };
        self.phase = Phase::Idle {
            next: ProbePlan { probe: Probe::Ping, list_method: list },
            due: self.next_due(now),
        };
    }

    /// Takes note that the connection ended, and with it any probe on it.
    pub fn handle_disconnected(&mut self) {
        self.phase = Phase::Disconnected;
    }

    /// Records a message in either direction at `at`. Times may come in any order.
    ///
    /// A request that finds its session lost is no sign of life: call
    /// [`handle_session_loss`](Self::handle_session_loss) first.
    pub fn record_traffic(&mut self, at: Instant) {
        if self.last_traffic.is_some_and(|last| at <= last) {
            return;
        }
        self.last_traffic = Some(at);
        let after = self.next_due(at);
        if let Phase::Idle { due, .. } = &mut self.phase {
            *due = after;
        }
    }

    /// When to call [`handle_timeout`](Self::handle_timeout).
    pub fn poll_timeout(&self) -> Option<Instant> {
        match self.phase {
            Phase::Idle { due, .. } => [due, self.suspicion_due()].into_iter().flatten().min(),
            Phase::Disconnected | Phase::Probing { .. } => None,
        }
    }

    /// Returns the probe to send now, if one is due. Report its result with
    /// [`handle_probe_result`](Self::handle_probe_result); until then no other probe is sent.
    ///
    /// `busy` means that no probe is needed: there is nothing to keep alive, or the server is
    /// working on a call, whose own deadline shows as well as a probe whether the server is alive.
    /// For a [suspect](Self::is_suspect) server, the caller should count less as work.
    pub fn handle_timeout(&mut self, now: Instant, busy: bool) -> Option<Probe> {
        if self.poll_timeout().is_none_or(|due| now < due) {
            return None;
        }
        let (after, doubts) = (self.next_due(now), self.is_suspect(now));
        let Phase::Idle { due, next } = &mut self.phase else { return None };
        if busy {
            if due.is_some_and(|due| now >= due) {
                *due = after;
            }
            if doubts {
                self.suspected_at = now.checked_add(MIN_PROBE_INTERVAL);
            }
            return None;
        }
        let (next, with) = (*next, next.probe);
        self.last_probe = Some(now);
        self.suspected_at = None;
        self.phase = Phase::Probing { next, with };
        Some(with)
    }

    /// Takes the result of the probe, and returns what it proves.
    ///
    /// A result that comes when no probe is pending does not change which probe is used.
    pub fn handle_probe_result(&mut self, now: Instant, heard: ProbeResult) -> Liveness {
        let due = self.next_due(now);
        if let Phase::Probing { mut next, with } = self.phase {
            // If no list is advertised there is no better probe, and `-32601` is a sign of life.
            if let (Probe::Ping, ProbeResult::Unsupported, Some(list)) = (with, heard, next.list_method) {
                next.probe = Probe::List(list);
            }
            self.phase = Phase::Idle { next, due };
        }
        match heard {
            ProbeResult::Alive | ProbeResult::Unsupported => {
                self.record_traffic(now);
                Liveness::Alive
            }
            ProbeResult::Failed => Liveness::Dead,
        }
    }

    /// Learns from the loss of a session that was idle since the last traffic.
    ///
    /// A silence shorter than any permitted interval teaches nothing: the server was restarted, or
    /// its sessions cannot be kept alive. A long silence only shows that it was too long, so it may
    /// take a few losses until the interval fits.
    pub fn handle_session_loss(&mut self, now: Instant) {
        let Some(last) = self.last_traffic else { return };
        // The last third allows for the probe's latency, and for servers that check only now and
        // then.
        let wanted = now.saturating_duration_since(last) / 3 * 2;
        if wanted >= MIN_PROBE_INTERVAL {
            self.learned_interval = Some(self.learned_interval.map_or(wanted, |learned| learned.min(wanted)));
        }
        // A silence must not be counted twice.
        self.last_traffic = Some(now);
    }

    /// Makes a probe due at once, because the machine woke up or the network changed.
    ///
    /// The probe is sent no sooner than [`MIN_PROBE_INTERVAL`] after the last one.
    pub fn probe_soon(&mut self) {
        let soonest = self.earliest_probe().max(self.last_traffic);
        if let (Phase::Idle { due: Some(due), .. }, Some(soonest)) = (&mut self.phase, soonest) {
            *due = soonest.min(*due);
        }
    }

    /// Makes a probe due at `at`, because a request got no answer. It is limited as in
    /// [`probe_soon`](Self::probe_soon), and is also sent if the keepalive is off, since a hung
    /// server has to be noticed all the same.
    pub fn suspect(&mut self, at: Instant) {
        self.suspected_at = Some(self.suspected_at.map_or(at, |doubt| doubt.min(at)));
    }

    /// Whether a probe is due because of [`suspect`](Self::suspect).
    pub fn is_suspect(&self, now: Instant) -> bool {
        self.suspicion_due().is_some_and(|at| now >= at)
    }

    /// Cancels the probe of [`suspect`](Self::suspect), because the server answered meanwhile.
    pub fn clear_suspicion(&mut self) {
        self.suspected_at = None;
    }

    fn suspicion_due(&self) -> Option<Instant> {
        self.suspected_at.map(|at| self.earliest_probe().map_or(at, |soonest| at.max(soonest)))
    }

    /// The earliest time of the next probe: [`MIN_PROBE_INTERVAL`] after the last one.
    fn earliest_probe(&self) -> Option<Instant> {
        self.last_probe.and_then(|asked| asked.checked_add(MIN_PROBE_INTERVAL))
    }

    /// The interval in force.
    pub fn interval(&self) -> Option<Duration> {
        self.configured_interval
            .map(|configured| self.learned_interval.map_or(configured, |learned| learned.min(configured)))
    }

    /// The time one interval after `from`. `None` if the keepalive is off or the time overflows.
    fn next_due(&self, from: Instant) -> Option<Instant> {
        from.checked_add(self.interval()?)
    }
}

#[cfg(test)]
mod tests;

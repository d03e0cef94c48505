//! [`KeepaliveDriver`]: sends the keepalive probes of the connection, as the real driver does.

use std::time::{Duration, Instant};

use bowline_proto::client::keepalive::{Keepalive, Liveness, Probe, ProbeResult};
use bowline_proto::client::negotiation::{Peer, Reply};
use bowline_proto::client::retry::{SessionLiveness, assess_session};
use bowline_proto::client::session::{Attempt, Event, TransportKind};
use bowline_proto::fault::{Cause, Fault, Limit};
use bowline_proto::wire::method;

use crate::exchange::RequestKind;
use crate::world::{SimEvent, World};

pub(crate) struct KeepaliveDriver {
    pub(crate) keepalive: Keepalive,
    /// Time of the last call.
    last_call: Option<Instant>,
    /// Time of the last call before the pause that the newest call ended.
    last_call_before_pause: Option<Instant>,
    /// The attempt of the link that is kept alive.
    link: Option<Attempt>,
}

impl KeepaliveDriver {
    pub(crate) fn new(interval: Option<Duration>) -> Self {
        Self {
            keepalive: Keepalive::new(interval),
            last_call: None,
            last_call_before_pause: None,
            link: None,
        }
    }

    pub(crate) fn handle_connected(&mut self, now: Instant, attempt: Attempt, peer: &Peer) {
        self.keepalive.handle_connected(now, peer);
        self.link = Some(attempt);
    }

    pub(crate) fn handle_disconnected(&mut self) {
        self.keepalive.handle_disconnected();
        self.link = None;
    }

    /// Records the start of a call.
    pub(crate) fn record_call(&mut self, now: Instant) {
        if self.last_call.is_some_and(|last| now.duration_since(last) > Duration::from_secs(1)) {
            self.last_call_before_pause = self.last_call;
        }
        self.last_call = Some(now);
    }

    pub(crate) fn handle_session_loss(&mut self, now: Instant) {
        if let Some(at) = self.last_call_before_pause {
            self.keepalive.record_traffic(at);
        }
        self.keepalive.handle_session_loss(now);
    }
}

impl World {
    /// Sends a probe if one is due.
    pub(crate) fn send_due_probe(&mut self) {
        let Some(attempt) = self.keepalive.link else { return };
        let due = |alive: &KeepaliveDriver, now| alive.keepalive.poll_timeout().filter(|due| *due <= now);
        if due(&self.keepalive, self.now).is_none() {
            return;
        }
        // Recorded only now, since a call that finds its session lost is no sign of life.
        if let Some(at) = self.keepalive.last_call {
            self.keepalive.keepalive.record_traffic(at);
        }
        let Some(due) = due(&self.keepalive, self.now) else { return };
        let busy = !self.calls.is_empty() || !self.needs_keepalive(attempt);
        let Some(probe) = self.keepalive.keepalive.handle_timeout(self.now, busy) else {
            let later = self.keepalive.keepalive.poll_timeout();
            assert!(later.is_none_or(|later| later > due), "a probe that is due for ever");
            self.tally.note("keepalive: not while calls are open");
            return;
        };
        assert!(!busy, "a probe while calls are open");
        assert_eq!(self.live_attempt, Some(attempt), "a probe of a link that is not live");
        self.tally.note("keepalive: asked");
        self.send_probe(attempt, probe);
    }

    fn send_probe(&mut self, attempt: Attempt, probe: Probe) {
        let id = self.send_request(attempt, RequestKind::Keepalive(probe), self.links[&attempt].session);
        self.schedule(self.now + PROBE_TIMEOUT, SimEvent::Reply(id, Reply::Silence));
    }

    /// Handles the reply to a keepalive probe.
    pub(crate) fn handle_keepalive_reply(&mut self, attempt: Attempt, probe: Probe, reply: Reply) {
        if self.keepalive.link != Some(attempt) {
            return;
        }
        let named = self.links[&attempt].session.is_some();
        let verdict = reply.session_verdict(method::PING, named, self.credentials);
        let event = match assess_session(probe, verdict, &reply, self.server.list, false) {
            SessionLiveness::Alive => {
                if matches!(reply, Reply::Result(_)) {
                    self.mark_proven(attempt);
                }
                self.keepalive.keepalive.handle_probe_result(self.now, ProbeResult::Alive);
                return self.tally.note("keepalive: alive");
            }
            SessionLiveness::NeedsProbe(list) => return self.send_probe(attempt, list),
            SessionLiveness::Lost => {
                let fault = Fault::before_sending(Cause::SessionLost);
                Event::SessionLost { fault, proven: self.links[&attempt].proven }
            }
            SessionLiveness::Unanswered => match reply {
                Reply::Fault(fault) => Event::LinkLost(fault),
                _ => Event::LinkLost(Fault::new(Cause::Timeout(Limit::Idle))),
            },
        };
        assert_eq!(
            self.keepalive.keepalive.handle_probe_result(self.now, ProbeResult::Failed),
            Liveness::Dead
        );
        self.tally.note("keepalive: dead");
        self.retire_link(attempt);
        self.schedule_session_event(attempt, event);
    }

    /// Whether there is something to keep alive: over HTTP, only a session.
    pub(crate) fn needs_keepalive(&self, attempt: Attempt) -> bool {
        let link = &self.links[&attempt];
        link.transport != TransportKind::Http || link.session.is_some()
    }
}

/// Limit for the reply to a probe.
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);

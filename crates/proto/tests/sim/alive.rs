//! [`KeepaliveDriver`]: sends the keepalive probes of the connection, as the real driver does.

use std::time::{Duration, Instant};

use bowline_proto::era::{Peer, Reply};
use bowline_proto::fault::{Cause, Fault, Limit};
use bowline_proto::keepalive::{Heard, Keepalive, Probe, Proof};
use bowline_proto::retry::{Standing, standing};
use bowline_proto::session::{Attempt, Carrier, Event};
use bowline_proto::wire::method;

use crate::exchange::Who;
use crate::world::{Happening, World};

pub(crate) struct Alive {
    pub(crate) keepalive: Keepalive,
    /// Time of the last call.
    last: Option<Instant>,
    /// Time of the last call before the pause that the newest call ended.
    before_pause: Option<Instant>,
    /// The attempt of the link that is kept alive.
    link: Option<Attempt>,
}

impl Alive {
    pub(crate) fn new(interval: Option<Duration>) -> Self {
        Self { keepalive: Keepalive::new(interval), last: None, before_pause: None, link: None }
    }

    pub(crate) fn connected(&mut self, now: Instant, attempt: Attempt, peer: &Peer) {
        self.keepalive.connected(now, peer);
        self.link = Some(attempt);
    }

    pub(crate) fn disconnected(&mut self) {
        self.keepalive.disconnected();
        self.link = None;
    }

    /// Records the start of a call.
    pub(crate) fn begun(&mut self, now: Instant) {
        if self.last.is_some_and(|last| now.duration_since(last) > Duration::from_secs(1)) {
            self.before_pause = self.last;
        }
        self.last = Some(now);
    }

    pub(crate) fn session_dropped(&mut self, now: Instant) {
        if let Some(at) = self.before_pause {
            self.keepalive.traffic(at);
        }
        self.keepalive.session_dropped(now);
    }
}

impl World {
    /// Sends a probe if one is due.
    pub(crate) fn keep_alive(&mut self) {
        let Some(attempt) = self.alive.link else { return };
        let due = |alive: &Alive, now| alive.keepalive.poll_timeout().filter(|due| *due <= now);
        if due(&self.alive, self.now).is_none() {
            return;
        }
        // Recorded only now, since a call that finds its session lost is no sign of life.
        if let Some(at) = self.alive.last {
            self.alive.keepalive.traffic(at);
        }
        let Some(due) = due(&self.alive, self.now) else { return };
        let busy = !self.calls.is_empty() || !self.needs_keepalive(attempt);
        let Some(probe) = self.alive.keepalive.handle_timeout(self.now, busy) else {
            let later = self.alive.keepalive.poll_timeout();
            assert!(later.is_none_or(|later| later > due), "a probe that is due for ever");
            self.tally.note("keepalive: not while calls are open");
            return;
        };
        assert!(!busy, "a probe while calls are open");
        assert_eq!(self.live, Some(attempt), "a probe of a link that is not live");
        self.tally.note("keepalive: asked");
        self.ask_server(attempt, probe);
    }

    fn ask_server(&mut self, attempt: Attempt, probe: Probe) {
        let id = self.post(attempt, Who::Probe(probe), self.links[&attempt].session);
        self.at(self.now + PROBE, Happening::Answer(id, Reply::Silence));
    }

    /// Handles the reply to a keepalive probe.
    pub(crate) fn probed(&mut self, attempt: Attempt, probe: Probe, reply: Reply) {
        if self.alive.link != Some(attempt) {
            return;
        }
        let named = self.links[&attempt].session.is_some();
        let verdict = reply.sign(method::PING, named, self.credentials);
        let event = match standing(probe, verdict, &reply, self.server.list, false) {
            Standing::Lives => {
                if matches!(reply, Reply::Result(_)) {
                    self.prove(attempt);
                }
                self.alive.keepalive.answered(self.now, Heard::Alive);
                return self.tally.note("keepalive: alive");
            }
            Standing::Ask(list) => return self.ask_server(attempt, list),
            Standing::Gone => {
                let fault = Fault::before_sending(Cause::SessionLost);
                Event::Forgotten { fault, proven: self.links[&attempt].proven }
            }
            Standing::Unanswered => match reply {
                Reply::Fault(fault) => Event::Lost(fault),
                _ => Event::Lost(Fault::new(Cause::Timeout(Limit::Idle))),
            },
        };
        assert_eq!(self.alive.keepalive.answered(self.now, Heard::Failed), Proof::Dead);
        self.tally.note("keepalive: dead");
        self.leave(attempt);
        self.news(attempt, event);
    }

    /// Whether there is something to keep alive: over HTTP, only a session.
    pub(crate) fn needs_keepalive(&self, attempt: Attempt) -> bool {
        let link = &self.links[&attempt];
        link.carrier != Carrier::Http || link.session.is_some()
    }
}

/// Limit for the reply to a probe.
const PROBE: Duration = Duration::from_secs(10);

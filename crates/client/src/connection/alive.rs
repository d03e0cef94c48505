//! Signs of life: what counts as traffic, and when an idle connection is probed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bowline_proto::keepalive::{Heard, Keepalive, Proof};
use bowline_proto::session::{Attempt, Event};

use super::probe::ProbeOutcome;
use super::{Live, News, Shared, Wire};

/// When calls were begun, and whether anything came of them. Kept under a lock that every call takes anyway.
#[derive(Clone, Copy, Debug)]
pub(super) struct Traffic {
    last: Instant,
    /// The last call before the pause that the newest call ended.
    before_pause: Instant,
    /// How often the server answered, or said how far it is.
    pub(super) heard: u64,
}

impl Traffic {
    pub(super) fn new(now: Instant) -> Self {
        Self { last: now, before_pause: now, heard: 0 }
    }

    pub(super) fn begun(&mut self, now: Instant) {
        if now.saturating_duration_since(self.last) > PAUSE {
            self.before_pause = self.last;
        }
        self.last = now;
    }

    pub(super) fn heard(&mut self) {
        self.heard += 1;
    }
}

/// Calls that follow each other closer than this are one conversation.
const PAUSE: Duration = Duration::from_secs(1);

/// The keepalive of one server: the decisions are `proto::keepalive`'s, the probes go out from here.
pub(super) struct Watch {
    keepalive: Keepalive,
    live: Option<Arc<Live>>,
    doubt: Option<Doubt>,
    /// When the first sign of trouble came that no answer has disproved yet.
    evidence: Option<Instant>,
}

/// A call went unanswered.
struct Doubt {
    /// Its number, if its caller left before its time was up. The server may be busy with older ones, and
    /// they have clocks of their own.
    left: Option<u64>,
    /// What had been heard of the server by then.
    heard: u64,
}

impl Watch {
    pub(super) fn new(interval: Option<Duration>) -> Self {
        Self { keepalive: Keepalive::new(interval), live: None, doubt: None, evidence: None }
    }

    pub(super) fn connected(&mut self, live: &Arc<Live>) {
        self.keepalive.connected(Instant::now(), &live.peer);
        self.live = Some(Arc::clone(live));
        self.evidence = None;
    }

    pub(super) fn disconnected(&mut self) {
        self.keepalive.disconnected();
        self.live = None;
        self.doubt = None;
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.keepalive.poll_timeout()
    }

    /// The machine slept: whatever was quiet until now is to be asked at once.
    pub(super) fn hurry(&mut self, shared: &Shared) {
        // What is not told first would put the probe off again.
        self.keepalive.traffic(shared.core().traffic.last);
        self.keepalive.hurry();
    }

    /// A call went unanswered for all the time it had, or its caller left it after a long silence: with its
    /// number, and the time it still had. The server then gets that time before it is asked, or most of it:
    /// whoever is impatient may not get a process ended that works.
    pub(super) fn doubt(
        &mut self,
        now: Instant,
        shared: &Shared,
        attempt: Attempt,
        left: Option<(u64, Duration)>,
    ) {
        if self.live.as_ref().is_none_or(|live| live.attempt != attempt) {
            return;
        }
        let heard = shared.core().traffic.heard;
        if self.doubt.as_ref().is_some_and(|doubt| doubt.heard != heard) {
            self.keepalive.trust();
            self.doubt = None;
            self.evidence = None;
        }
        self.evidence.get_or_insert(now);
        let grace = left.map_or(Duration::ZERO, |(_, left)| left.min(GRACE));
        self.keepalive.doubt(now + grace);
        // An older doubt stands, unless this one is more than a doubt.
        if self.doubt.is_none() || left.is_none() {
            self.doubt = Some(Doubt { left: left.map(|(id, _)| id), heard });
        }
    }

    /// When the trouble began that a probe has confirmed.
    pub(super) fn evidence(&mut self) -> Option<Instant> {
        self.evidence.take()
    }

    /// The server forgot the session: was it idle for too long?
    pub(super) fn session_dropped(&mut self, now: Instant, traffic: Traffic) {
        self.keepalive.traffic(traffic.before_pause);
        self.keepalive.session_dropped(now);
    }

    /// Sends a probe if one is due.
    pub(super) fn look(&mut self, now: Instant, shared: &Arc<Shared>) {
        let Some(live) = &self.live else { return };
        // What was said since is told when it matters, and not before: a call that finds the session gone is
        // no sign that it was there.
        if self.due().is_none_or(|due| now < due) {
            return;
        }
        // Without a session there is nothing to keep warm, and where nobody watches, nobody needs to know.
        let needed = !live.wire.is_http() || live.session || shared.is_watched();
        let busy = {
            let core = shared.core();
            self.keepalive.traffic(core.traffic.last);
            match &self.doubt {
                // It has spoken since.
                Some(doubt) if doubt.heard != core.traffic.heard => {
                    self.keepalive.trust();
                    self.doubt = None;
                    self.evidence = None;
                    !core.calls.is_empty()
                }
                Some(doubt) if self.keepalive.doubts(now) => {
                    doubt.left.is_some_and(|left| core.calls.ids().any(|open| open < left))
                }
                _ => !core.calls.is_empty(),
            }
        };
        let doubts = self.keepalive.doubts(now);
        let Some(probe) = self.keepalive.handle_timeout(now, busy || !(needed || doubts)) else { return };
        // The probe settles it. If it fails, the trouble began no later than now.
        self.doubt = None;
        self.evidence.get_or_insert(now);
        let (shared, live) = (Arc::clone(shared), Arc::clone(live));
        tokio::spawn(async move {
            let probed = shared.probe_server(&live, probe).await;
            let _ = shared.news.send(News::Probed(live.attempt, probed));
        });
    }

    /// What a probe proves. An event: the server is not alive, or no longer knows us.
    pub(super) fn answered(&mut self, now: Instant, attempt: Attempt, probed: ProbeOutcome) -> Option<Event> {
        self.live.as_ref().filter(|live| live.attempt == attempt)?;
        let (heard, event) = match probed {
            ProbeOutcome::Alive(heard) => {
                self.evidence = None;
                (heard, None)
            }
            ProbeOutcome::Dead(event) => (Heard::Failed, Some(event)),
            ProbeOutcome::Left => return None,
        };
        match self.keepalive.answered(now, heard) {
            Proof::Alive => None,
            Proof::Dead => event,
        }
    }
}

impl Shared {
    /// Whether somebody wants to hear how the server fares: an event stream, a hook, a gateway.
    pub(super) fn is_watched(&self) -> bool {
        self.events.receiver_count() > 0
    }

    /// A stream or a kept connection of the link has ended, which a server that dies causes within milliseconds. Whoever
    /// watches is to hear of it at once, so the server is probed.
    pub(super) fn suspect_server(&self, live: &Live) {
        if self.is_watched() {
            let _ = self.news.send(News::Suspect(live.attempt));
        }
    }

    /// Looks into the end of kept connections. Servers that are well close them too, after their keep-alive timeout: a
    /// close after as long a time as one that meant nothing is not looked into. Ends when dropped.
    pub(super) async fn watch_kept_connections(self: Arc<Self>, live: Arc<Live>) {
        let Wire::Http { link, .. } = &live.wire else { return };
        let mut closes = IdleCloses::default();
        loop {
            link.idle_closed().await;
            let idle = self.core().traffic.last.elapsed();
            if closes.is_suspicious(idle) {
                self.suspect_server(&live);
            }
        }
    }
}

/// Learns the keep-alive timeout of a server from the closes of its idle connections.
#[derive(Debug, Default)]
struct IdleCloses {
    /// After how long an idle connection was closed by a server that was well.
    timeout: Option<Duration>,
}

impl IdleCloses {
    /// Whether a close after `idle` has to be looked into. A suspicious one that was the server's end ends the link, and
    /// this with it; if it was not, the next one after as long a time means nothing either.
    fn is_suspicious(&mut self, idle: Duration) -> bool {
        let suspicious = self.timeout.is_none_or(|timeout| idle < timeout.mul_f64(0.8));
        if suspicious {
            self.timeout = Some(idle.max(MIN_KEEP_ALIVE));
        }
        suspicious
    }
}

/// No server keeps connections for a shorter time and is worth watching for it.
const MIN_KEEP_ALIVE: Duration = Duration::from_secs(1);

/// The longest that a server is spared the question for the sake of a call whose caller has left.
const GRACE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keep_alive_timeout_of_a_server_is_learned() {
        let mut closes = IdleCloses::default();
        let mut suspicious = |millis| closes.is_suspicious(Duration::from_millis(millis));
        assert!(suspicious(10));
        // A timeout below a second is not believed to be one.
        assert!(!suspicious(800));
        assert!(suspicious(799));
        assert!(!suspicious(5_000));
    }

    #[test]
    fn a_close_well_before_the_learned_timeout_is_looked_into() {
        let mut closes = IdleCloses::default();
        let mut suspicious = |seconds| closes.is_suspicious(Duration::from_secs(seconds));
        assert!(suspicious(60));
        assert!(!suspicious(48));
        assert!(suspicious(47));
        assert!(!suspicious(38));
    }
}

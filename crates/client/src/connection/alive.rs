//! The keepalive of one connection: counts traffic and probes an idle or suspect server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bowline_proto::keepalive::{Keepalive, Liveness, ProbeResult};
use bowline_proto::session::{Attempt, Event};

use super::probe::ProbeOutcome;
use super::{Live, News, Shared, Wire};

/// Times of recent calls, and how often the server replied. It is kept under a lock that every call
/// takes anyway.
#[derive(Clone, Copy, Debug)]
pub(super) struct Traffic {
    last: Instant,
    /// Time of the last call before the gap that the newest call ended.
    before_pause: Instant,
    /// Number of responses and progress notifications received.
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

/// Calls that are closer together than this belong to one conversation.
const PAUSE: Duration = Duration::from_secs(1);

/// The keepalive of one server. [`Keepalive`] decides; this sends the probes.
pub(super) struct Watch {
    keepalive: Keepalive,
    live: Option<Arc<Live>>,
    doubt: Option<Doubt>,
    /// When the first sign of trouble was seen that no reply has disproved yet.
    evidence: Option<Instant>,
}

/// A call that the server did not answer.
struct Doubt {
    /// Id of the call if its caller dropped it before its deadline. While older calls are open, the
    /// server may be busy with them, and they have deadlines of their own.
    left: Option<u64>,
    /// Value of [`CallTraffic::heard_count`] at that time.
    heard: u64,
}

impl Watch {
    pub(super) fn new(interval: Option<Duration>) -> Self {
        Self { keepalive: Keepalive::new(interval), live: None, doubt: None, evidence: None }
    }

    pub(super) fn connected(&mut self, live: &Arc<Live>) {
        self.keepalive.handle_connected(Instant::now(), &live.peer);
        self.live = Some(Arc::clone(live));
        self.evidence = None;
    }

    pub(super) fn disconnected(&mut self) {
        self.keepalive.handle_disconnected();
        self.live = None;
        self.doubt = None;
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.keepalive.poll_timeout()
    }

    /// Makes the next probe due now, after the machine was suspended.
    pub(super) fn hurry(&mut self, shared: &Shared) {
        // Report past traffic first; reported later, it would postpone the probe.
        self.keepalive.record_traffic(shared.core().traffic.last);
        self.keepalive.probe_soon();
    }

    /// Records a call that reached its deadline without an answer, or that its caller dropped after
    /// a long silence (`left`: its id and its remaining time). In the latter case the probe waits
    /// for the remaining time, at most [`MAX_ABANDONED_CALL_GRACE`]: an impatient caller must not
    /// get a working process killed.
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
            self.keepalive.clear_suspicion();
            self.doubt = None;
            self.evidence = None;
        }
        self.evidence.get_or_insert(now);
        let grace = left.map_or(Duration::ZERO, |(_, left)| left.min(GRACE));
        self.keepalive.suspect(now + grace);
        // An earlier suspicion stands, unless this call reached its deadline.
        if self.doubt.is_none() || left.is_none() {
            self.doubt = Some(Doubt { left: left.map(|(id, _)| id), heard });
        }
    }

    /// Takes the time at which the trouble began that a probe has confirmed.
    pub(super) fn evidence(&mut self) -> Option<Instant> {
        self.evidence.take()
    }

    /// Records a session loss, from which the keepalive learns the server's idle limit.
    pub(super) fn session_dropped(&mut self, now: Instant, traffic: Traffic) {
        self.keepalive.record_traffic(traffic.before_pause);
        self.keepalive.handle_session_loss(now);
    }

    /// Sends a probe if one is due.
    pub(super) fn look(&mut self, now: Instant, shared: &Arc<Shared>) {
        let Some(live) = &self.live else { return };
        // Traffic is reported only when a probe is due: a call that finds the session lost does not
        // prove that the session existed.
        if self.due().is_none_or(|due| now < due) {
            return;
        }
        // Over HTTP without a session and without subscribers, a probe has no use.
        let needed = !live.wire.is_http() || live.session || shared.is_watched();
        let busy = {
            let core = shared.core();
            self.keepalive.record_traffic(core.traffic.last);
            match &self.doubt {
                // The server has replied since.
                Some(doubt) if doubt.heard != core.traffic.heard => {
                    self.keepalive.clear_suspicion();
                    self.doubt = None;
                    self.evidence = None;
                    !core.calls.is_empty()
                }
                Some(doubt) if self.keepalive.is_suspect(now) => {
                    doubt.left.is_some_and(|left| core.calls.ids().any(|open| open < left))
                }
                _ => !core.calls.is_empty(),
            }
        };
        let doubts = self.keepalive.is_suspect(now);
        let Some(probe) = self.keepalive.handle_timeout(now, busy || !(needed || doubts)) else { return };
        // The probe settles the suspicion. If it fails, the trouble began no later than now.
        self.doubt = None;
        self.evidence.get_or_insert(now);
        let (shared, live) = (Arc::clone(shared), Arc::clone(live));
        tokio::spawn(async move {
            let probed = shared.probe_server(&live, probe).await;
            let _ = shared.news.send(News::Probed(live.attempt, probed));
        });
    }

    /// Evaluates a finished probe. Returns an event if the server is down or has lost the session.
    pub(super) fn answered(&mut self, now: Instant, attempt: Attempt, probed: ProbeOutcome) -> Option<Event> {
        self.live.as_ref().filter(|live| live.attempt == attempt)?;
        let (heard, event) = match probed {
            ProbeOutcome::Alive(heard) => {
                self.evidence = None;
                (heard, None)
            }
            ProbeOutcome::Dead(event) => (ProbeResult::Failed, Some(event)),
            ProbeOutcome::Left => return None,
        };
        match self.keepalive.handle_probe_result(now, heard) {
            Liveness::Alive => None,
            Liveness::Dead => event,
        }
    }
}

impl Shared {
    /// Whether an event stream, a hook or a relay subscribes to the events of this connection.
    pub(super) fn is_watched(&self) -> bool {
        self.events.receiver_count() > 0
    }

    /// Requests a probe after a stream or an idle connection of the link ended. A dying server
    /// causes that within milliseconds, and subscribers should learn of it at once.
    pub(super) fn suspect_server(&self, live: &Live) {
        if self.is_watched() {
            let _ = self.news.send(News::Suspect(live.attempt));
        }
    }

    /// Requests a probe when the server closes an idle connection. Healthy servers close them too,
    /// after their keep-alive timeout, so closes after the learned timeout are ignored. Runs until
    /// dropped.
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

/// Learns a server's keep-alive timeout from the closes of its idle connections.
#[derive(Debug, Default)]
struct IdleCloses {
    /// Idle time after which a healthy server closed a connection; `None` if unknown.
    timeout: Option<Duration>,
}

impl IdleCloses {
    /// Whether a close after `idle` warrants a probe. If the server is down, the probe ends the
    /// link and this estimate with it; otherwise later closes after a similar time are harmless
    /// too.
    fn is_suspicious(&mut self, idle: Duration) -> bool {
        let suspicious = self.timeout.is_none_or(|timeout| idle < timeout.mul_f64(0.8));
        if suspicious {
            self.timeout = Some(idle.max(MIN_KEEP_ALIVE));
        }
        suspicious
    }
}

/// Lower bound of the learned timeout. Shorter ones are not believed.
const MIN_KEEP_ALIVE: Duration = Duration::from_secs(1);

/// Maximum delay of a probe for the sake of a call that its caller dropped.
const GRACE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keep_alive_timeout_of_a_server_is_learned() {
        let mut closes = IdleCloses::default();
        let mut suspicious = |millis| closes.is_suspicious(Duration::from_millis(millis));
        assert!(suspicious(10));
        // A timeout below one second is not believed.
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

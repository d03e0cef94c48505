//! The keepalive of one connection: counts traffic and probes an idle or suspect server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bowline_proto::client::keepalive::{Keepalive, Liveness, ProbeResult};
use bowline_proto::client::session::{Attempt, Event};

use crate::clock;
use crate::connection::engine::{DriverEvent, EngineState, ProbeOutcome};
use crate::connection::{Connection, LiveLink, Wire};

/// The keepalive of one server. [`Keepalive`] decides; this sends the probes.
pub(crate) struct ServerKeepalive {
    keepalive: Keepalive,
    live: Option<Arc<LiveLink>>,
    unanswered: Option<UnansweredCall>,
    /// When the first sign of trouble was seen that no reply has disproved yet.
    trouble_since: Option<Instant>,
}

/// A call that the server did not answer.
struct UnansweredCall {
    /// Id of the call if its caller dropped it before its deadline. While older calls are open, the
    /// server may be busy with them, and they have deadlines of their own.
    abandoned_call: Option<u64>,
    /// Value of `heard_count` of the traffic of calls at that time.
    heard_count: u64,
}

impl ServerKeepalive {
    pub(crate) fn new(interval: Option<Duration>) -> Self {
        Self { keepalive: Keepalive::new(interval), live: None, unanswered: None, trouble_since: None }
    }

    pub(crate) fn handle_connected(&mut self, live: &Arc<LiveLink>) {
        self.keepalive.handle_connected(clock::now(), &live.peer);
        self.live = Some(Arc::clone(live));
        self.trouble_since = None;
    }

    pub(crate) fn handle_disconnected(&mut self) {
        self.keepalive.handle_disconnected();
        self.live = None;
        self.unanswered = None;
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.keepalive.poll_timeout()
    }

    /// Makes the next probe due now, after the machine was suspended.
    pub(crate) fn probe_soon(&mut self, connection: &Connection) {
        // Report past traffic first; reported later, it would postpone the probe.
        self.keepalive.record_traffic(connection.engine.state().traffic.last_call);
        self.keepalive.probe_soon();
    }

    /// Records a call that reached its deadline without an answer, or that its caller dropped after
    /// a long silence (`left`: its id and its remaining time). In the latter case the probe waits
    /// for the remaining time, at most [`MAX_ABANDONED_CALL_GRACE`]: an impatient caller must not
    /// get a working process killed.
    pub(crate) fn handle_unanswered_call(
        &mut self,
        now: Instant,
        connection: &Connection,
        attempt: Attempt,
        left: Option<(u64, Duration)>,
    ) {
        if self.live.as_ref().is_none_or(|live| live.attempt != attempt) {
            return;
        }
        let heard = connection.engine.state().traffic.heard_count;
        if self.unanswered.as_ref().is_some_and(|doubt| doubt.heard_count != heard) {
            self.keepalive.clear_suspicion();
            self.unanswered = None;
            self.trouble_since = None;
        }
        self.trouble_since.get_or_insert(now);
        let grace = left.map_or(Duration::ZERO, |(_, left)| left.min(MAX_ABANDONED_CALL_GRACE));
        self.keepalive.suspect(now + grace);
        // An earlier suspicion stands, unless this call reached its deadline.
        if self.unanswered.is_none() || left.is_none() {
            self.unanswered =
                Some(UnansweredCall { abandoned_call: left.map(|(id, _)| id), heard_count: heard });
        }
    }

    /// Records that the link or the session was lost. From a session loss the keepalive learns the idle limit of the
    /// server. The outage is counted from the first sign of trouble.
    pub(super) fn handle_loss(&mut self, now: Instant, event: &Event, core: &mut EngineState) {
        match event {
            Event::SessionLost { .. } => {
                self.keepalive.record_traffic(core.traffic.last_call_before_pause);
                self.keepalive.handle_session_loss(now);
            }
            Event::LinkLost(_) => {}
            _ => return,
        }
        if let Some(since) = self.trouble_since.take() {
            core.session.suspect(since);
        }
    }

    pub(crate) fn send_due_probe(&mut self, now: Instant, connection: &Arc<Connection>) {
        let Some(live) = &self.live else { return };
        // Traffic is reported only when a probe is due: a call that finds the session lost does not
        // prove that the session existed.
        if self.poll_timeout().is_none_or(|due| now < due) {
            return;
        }
        // Over HTTP without a session and with nobody who watches, a probe has no use.
        let needed = !live.wire.is_http() || live.has_session || connection.is_watched();
        let busy = {
            let core = connection.engine.state();
            self.keepalive.record_traffic(core.traffic.last_call);
            match &self.unanswered {
                // The server has replied since.
                Some(doubt) if doubt.heard_count != core.traffic.heard_count => {
                    self.keepalive.clear_suspicion();
                    self.unanswered = None;
                    self.trouble_since = None;
                    !core.calls.is_empty()
                }
                Some(doubt) if self.keepalive.is_suspect(now) => {
                    doubt.abandoned_call.is_some_and(|left| core.calls.ids().any(|open| open < left))
                }
                _ => !core.calls.is_empty(),
            }
        };
        let doubts = self.keepalive.is_suspect(now);
        let Some(probe) = self.keepalive.handle_timeout(now, busy || !(needed || doubts)) else { return };
        // The probe settles the suspicion. If it fails, the trouble began no later than now.
        self.unanswered = None;
        self.trouble_since.get_or_insert(now);
        let (connection, live) = (Arc::clone(connection), Arc::clone(live));
        tokio::spawn(async move {
            let probed = connection.probe_server(&live, probe).await;
            connection.engine.send(DriverEvent::ProbeFinished(live.attempt, probed));
        });
    }

    /// Evaluates a finished probe. Returns an event if the server is down or has lost the session.
    pub(crate) fn handle_probe_outcome(
        &mut self,
        now: Instant,
        attempt: Attempt,
        probed: ProbeOutcome,
    ) -> Option<Event> {
        self.live.as_ref().filter(|live| live.attempt == attempt)?;
        let (heard, event) = match probed {
            ProbeOutcome::Alive(heard) => {
                self.trouble_since = None;
                (heard, None)
            }
            ProbeOutcome::Dead(event) => (ProbeResult::Failed, Some(event)),
            ProbeOutcome::LinkSuperseded => return None,
        };
        match self.keepalive.handle_probe_result(now, heard) {
            Liveness::Alive => None,
            Liveness::Dead => event,
        }
    }
}

impl Connection {
    /// Whether somebody wants to learn of the end of the server without a call.
    fn is_watched(&self) -> bool {
        self.events.has_subscribers() || self.links.is_status_watched()
    }

    /// Requests a probe after a stream or an idle connection of the link ended. A dying server
    /// causes that within milliseconds, and whoever watches should learn of it at once.
    pub(crate) fn suspect_server(&self, live: &LiveLink) {
        if self.is_watched() {
            self.engine.send(DriverEvent::ServerSuspect(live.attempt));
        }
    }
}

/// Requests a probe when the server closes an idle connection. Healthy servers close them too,
/// after their keep-alive timeout, so closes after the learned timeout are ignored. Runs until
/// dropped.
pub(super) async fn watch_idle_connections(connection: Arc<Connection>, live: Arc<LiveLink>) {
    let Wire::Http { link, .. } = &live.wire else { return };
    let mut closes = IdleTimeoutEstimate::default();
    loop {
        link.wait_for_idle_close().await;
        let idle = clock::elapsed(connection.engine.state().traffic.last_call);
        if closes.is_suspicious(idle) {
            connection.suspect_server(&live);
        }
    }
}

/// Learns a server's keep-alive timeout from the closes of its idle connections.
#[derive(Debug, Default)]
struct IdleTimeoutEstimate {
    /// Idle time after which a healthy server closed a connection; `None` if unknown.
    timeout: Option<Duration>,
}

impl IdleTimeoutEstimate {
    /// Whether a close after `idle` warrants a probe. If the server is down, the probe ends the
    /// link and this estimate with it; otherwise later closes after a similar time are harmless
    /// too.
    fn is_suspicious(&mut self, idle: Duration) -> bool {
        let suspicious = self.timeout.is_none_or(|timeout| idle < timeout.mul_f64(0.8));
        if suspicious {
            self.timeout = Some(idle.max(MIN_IDLE_TIMEOUT));
        }
        suspicious
    }
}

/// Lower bound of the learned timeout. Shorter ones are not believed.
const MIN_IDLE_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum delay of a probe for the sake of a call that its caller dropped.
const MAX_ABANDONED_CALL_GRACE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keep_alive_timeout_of_a_server_is_learned() {
        let mut closes = IdleTimeoutEstimate::default();
        let mut suspicious = |millis| closes.is_suspicious(Duration::from_millis(millis));
        assert!(suspicious(10));
        // A timeout below one second is not believed.
        assert!(!suspicious(800));
        assert!(suspicious(799));
        assert!(!suspicious(5_000));
    }

    #[test]
    fn a_close_well_before_the_learned_timeout_is_looked_into() {
        let mut closes = IdleTimeoutEstimate::default();
        let mut suspicious = |seconds| closes.is_suspicious(Duration::from_secs(seconds));
        assert!(suspicious(60));
        assert!(!suspicious(48));
        assert!(suspicious(47));
        assert!(!suspicious(38));
    }
}

//! Sends probes: requests without effect that show whether a session or a server is alive.
//!
//! [`bowline_proto::client::retry`] decides what a reply proves.

use std::sync::Arc;
use std::time::Duration;

use bowline_proto::client::keepalive::{self, Probe, ProbeResult};
use bowline_proto::client::loss::Verdict;
use bowline_proto::client::negotiation::Reply;
use bowline_proto::client::retry::{SessionLiveness, assess_session};
use bowline_proto::client::session::Event;
use bowline_proto::fault::{Cause, Fault};
use bowline_proto::wire::{RpcError, code};

use super::{CallMeter, CallRequest};
use crate::clock;
use crate::connection::engine::ProbeOutcome;
use crate::connection::failure::JudgedReply;
use crate::connection::link::live::ProbeRecord;
use crate::connection::login::LoginMode;
use crate::connection::{CallOptions, Connection, Failure, LiveLink};

impl Connection {
    /// Probes the session of a link. One probe serves all callers that asked before it was sent.
    /// `None` if the link was replaced and cannot be probed.
    pub(crate) async fn probe_session(
        self: &Arc<Self>,
        live: &Arc<LiveLink>,
        probe: Probe,
    ) -> Option<(Verdict, Reply)> {
        let came = clock::now();
        let mut probes = live.probes.lock().await;
        let known = probes.iter().find(|known| known.probe == probe);
        // A lost session does not come back, so the last reply still holds.
        if let Some(known) = known.filter(|known| known.sent_at >= came || live.is_session_lost()) {
            return Some((known.verdict, known.reply.clone()));
        }
        let begun = clock::now();
        let (verdict, reply) = self.send_probe(live, probe).await?;
        probes.retain(|known| known.probe != probe);
        probes.push(ProbeRecord { probe, sent_at: begun, verdict, reply: reply.clone() });
        Some((verdict, reply))
    }

    /// Probes whether the session is lost, after something other than a request cast doubt on it.
    pub(crate) async fn confirm_session_loss(self: &Arc<Self>, live: &Arc<LiveLink>) -> bool {
        let list = keepalive::smallest_list_method(&live.peer);
        let mut probe = Probe::Ping;
        while let Some((verdict, reply)) = self.probe_session(live, probe).await {
            match assess_session(probe, verdict, &reply, list, true) {
                SessionLiveness::NeedsProbe(next) => probe = next,
                SessionLiveness::Lost => return true,
                SessionLiveness::Alive | SessionLiveness::Unanswered => return false,
            }
        }
        live.is_session_lost()
    }

    /// Whether a request was refused because its session is lost.
    pub(crate) async fn is_session_lost(self: &Arc<Self>, live: &Arc<LiveLink>, failure: &Failure) -> bool {
        match failure {
            Failure::Session(refused) => match refused.verdict {
                Verdict::Lost => true,
                Verdict::Suspect(_) => self.confirm_session_loss(live).await,
                Verdict::Login | Verdict::Answer => false,
            },
            _ => false,
        }
    }

    /// Runs a keepalive probe.
    pub(crate) async fn probe_server(self: &Arc<Self>, live: &Arc<LiveLink>, first: Probe) -> ProbeOutcome {
        let before = self.engine.state().traffic.heard_count;
        let list = keepalive::smallest_list_method(&live.peer);
        let mut probe = first;
        loop {
            let Some((verdict, reply)) = self.send_probe(live, probe).await else {
                return ProbeOutcome::LinkSuperseded;
            };
            return match assess_session(probe, verdict, &reply, list, false) {
                // A server that refuses this probe needs another kind of probe.
                SessionLiveness::Alive if probe != first || is_unsupported(&reply) => {
                    ProbeOutcome::Alive(ProbeResult::Unsupported)
                }
                SessionLiveness::Alive => ProbeOutcome::Alive(ProbeResult::Alive),
                SessionLiveness::NeedsProbe(next) => {
                    probe = next;
                    continue;
                }
                SessionLiveness::Lost => {
                    let fault = Failure::Session(Box::new(JudgedReply { verdict, reply })).into_loss();
                    ProbeOutcome::Dead(Event::SessionLost { fault, proven: live.is_proven() })
                }
                SessionLiveness::Unanswered => match reply {
                    // The server answers other requests, so it is only slow with this one.
                    Reply::Fault(Fault { cause: Cause::Timeout(_), .. })
                        if self.engine.state().traffic.heard_count != before =>
                    {
                        ProbeOutcome::Alive(ProbeResult::Alive)
                    }
                    Reply::Fault(fault) if !matches!(fault.cause, Cause::Timeout(_)) => {
                        ProbeOutcome::Dead(Event::LinkLost(fault))
                    }
                    // A probe's own timeout means nothing to others, so it is reported as a cut.
                    _ => {
                        let note = "the server answers nothing, not even a probe";
                        ProbeOutcome::Dead(Event::LinkLost(Fault::new(Cause::Cut).with_note(note)))
                    }
                },
            };
        }
    }

    /// Sends a probe. `None` if the link was replaced before it was sent.
    async fn send_probe(self: &Arc<Self>, live: &Arc<LiveLink>, probe: Probe) -> Option<(Verdict, Reply)> {
        let method = live.facts(&self.login).probe_method(probe);
        // A busy process may answer slowly, and replacing it is costly.
        let patience = if live.wire.is_http() { PROBE_TIMEOUT } else { 3 * PROBE_TIMEOUT };
        let options = CallOptions::for_probe().idle_timeout(patience).timeout(patience);
        let generation = self.login.credentials_generation();
        let ask = CallRequest { method, params: None, options: &options, meter: &CallMeter::start() };
        let mut answered = self.send_once(live, ask).await;
        if let Err(failure) = &answered
            && let Some(refused) = failure.auth_refusal()
            && self.login.reauthenticate(refused, generation, method, LoginMode::Silent).await.is_ok()
        {
            answered = self.send_once(live, ask).await;
        }
        match answered {
            Ok(result) => {
                live.mark_proven();
                Some((Verdict::Answer, Reply::Result(result)))
            }
            Err(Failure::Session(refused)) => Some((refused.verdict, refused.reply)),
            Err(Failure::Server(error) | Failure::Declined(error)) => {
                Some((Verdict::Answer, Reply::Error { status: None, error, stray: false }))
            }
            Err(Failure::Fault(fault)) => Some((Verdict::Answer, Reply::Fault(fault))),
            Err(Failure::LinkSuperseded | Failure::Usage(_)) => None,
        }
    }
}

/// Whether the server does not support the probe's method.
fn is_unsupported(reply: &Reply) -> bool {
    match reply {
        Reply::Error { error: RpcError { code, .. }, .. } => *code == code::METHOD_NOT_FOUND,
        Reply::Fault(Fault { cause: Cause::Status { code, .. }, .. }) => *code != 429,
        _ => false,
    }
}

/// How long an HTTP server may take to answer a probe before it counts as down.
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);

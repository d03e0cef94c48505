//! Probes: requests without effect that show whether a session, or a server, is there.
//!
//! What an answer proves is decided in [`bowline_proto::retry`]; here the probe is sent.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bowline_proto::era::Reply;
use bowline_proto::fault::{Cause, Fault};
use bowline_proto::keepalive::{self, Heard, Probe};
use bowline_proto::loss::Verdict;
use bowline_proto::retry::{Standing, standing};
use bowline_proto::session::Event;
use bowline_proto::wire::{RpcError, code};

use super::authorize::Ask as Asking;
use super::{CallOptions, Failure, JudgedReply, Live, Shared};

/// A probe of a session, and what came back.
pub(crate) struct ProbeRecord {
    probe: Probe,
    begun: Instant,
    verdict: Verdict,
    reply: Reply,
}

/// What a probe of the keepalive shows.
pub(super) enum ProbeOutcome {
    /// The server is there, and knows us.
    Alive(Heard),
    /// It is not, or it does not.
    Dead(Event),
    /// The link was left meanwhile. Whoever left it says why.
    Left,
}

impl Shared {
    /// Probes the session of a link. One probe serves all who came before it was sent. `None`: the link is gone, and
    /// nobody can be asked.
    pub(super) async fn probe_session(
        self: &Arc<Self>,
        live: &Arc<Live>,
        probe: Probe,
    ) -> Option<(Verdict, Reply)> {
        let came = Instant::now();
        let mut probes = live.probes.lock().await;
        let known = probes.iter().find(|known| known.probe == probe);
        // A session that was forgotten does not come back, so what its server said last still holds.
        if let Some(known) = known.filter(|known| known.begun >= came || live.is_forgotten()) {
            return Some((known.verdict, known.reply.clone()));
        }
        let begun = Instant::now();
        let (verdict, reply) = self.send_probe(live, probe).await?;
        probes.retain(|known| known.probe != probe);
        probes.push(ProbeRecord { probe, begun, verdict, reply: reply.clone() });
        Some((verdict, reply))
    }

    /// Whether the session of a link is gone, where something other than a request gave reason to doubt it.
    pub(super) async fn is_session_gone(self: &Arc<Self>, live: &Arc<Live>) -> bool {
        let list = keepalive::smallest_list(&live.peer);
        let mut probe = Probe::Ping;
        while let Some((verdict, reply)) = self.probe_session(live, probe).await {
            match standing(probe, verdict, &reply, list, true) {
                Standing::Ask(next) => probe = next,
                Standing::Gone => return true,
                Standing::Lives | Standing::Unanswered => return false,
            }
        }
        live.is_forgotten()
    }

    /// Whether a request was refused because its session is gone.
    pub(super) async fn is_session_lost(self: &Arc<Self>, live: &Arc<Live>, failure: &Failure) -> bool {
        match failure {
            Failure::Session(refused) => match refused.verdict {
                Verdict::Lost => true,
                Verdict::Suspect(_) => self.is_session_gone(live).await,
                Verdict::Login | Verdict::Answer => false,
            },
            _ => false,
        }
    }

    /// Sends a probe of the keepalive.
    pub(super) async fn probe_server(self: &Arc<Self>, live: &Arc<Live>, first: Probe) -> ProbeOutcome {
        let before = self.core().traffic.heard;
        let list = keepalive::smallest_list(&live.peer);
        let mut probe = first;
        loop {
            let Some((verdict, reply)) = self.send_probe(live, probe).await else {
                return ProbeOutcome::Left;
            };
            return match standing(probe, verdict, &reply, list, false) {
                // What refuses the probe is no use as a probe.
                Standing::Lives if probe != first || is_unsupported(&reply) => {
                    ProbeOutcome::Alive(Heard::Unsupported)
                }
                Standing::Lives => ProbeOutcome::Alive(Heard::Alive),
                Standing::Ask(next) => {
                    probe = next;
                    continue;
                }
                Standing::Gone => {
                    let fault = Failure::Session(Box::new(JudgedReply { verdict, reply })).into_loss();
                    ProbeOutcome::Dead(Event::Forgotten { fault, proven: live.is_proven() })
                }
                Standing::Unanswered => match reply {
                    // It answers others, so it is only slow with this.
                    Reply::Fault(Fault { cause: Cause::Timeout(_), .. })
                        if self.core().traffic.heard != before =>
                    {
                        ProbeOutcome::Alive(Heard::Alive)
                    }
                    Reply::Fault(fault) if !matches!(fault.cause, Cause::Timeout(_)) => {
                        ProbeOutcome::Dead(Event::Lost(fault))
                    }
                    // The probe's own time is nobody else's.
                    _ => {
                        let note = "the server answers nothing, not even a probe";
                        ProbeOutcome::Dead(Event::Lost(Fault::new(Cause::Cut).note(note)))
                    }
                },
            };
        }
    }

    /// `None`: the link was left before it could be sent.
    async fn send_probe(self: &Arc<Self>, live: &Arc<Live>, probe: Probe) -> Option<(Verdict, Reply)> {
        let method = self.facts(live).probe_method(probe);
        // A process that works on something may be slow to answer, and is dear to replace.
        let patience = if live.wire.is_http() { PROBE_TIMEOUT } else { 3 * PROBE_TIMEOUT };
        let options = CallOptions::for_probe().timeout(patience).max_timeout(patience);
        let generation = self.generation();
        let mut answered = self.once(live, method, None, &options).await;
        if let Err(failure) = &answered
            && let Some(refused) = failure.denial()
            && self.be_let_in(refused, generation, method, Asking::Nobody).await.is_ok()
        {
            answered = self.once(live, method, None, &options).await;
        }
        match answered {
            Ok(result) => {
                live.prove();
                Some((Verdict::Answer, Reply::Result(result)))
            }
            Err(Failure::Session(refused)) => Some((refused.verdict, refused.reply)),
            Err(Failure::Server(error) | Failure::Declined(error)) => {
                Some((Verdict::Answer, Reply::Error { status: None, error, stray: false }))
            }
            Err(Failure::Fault(fault)) => Some((Verdict::Answer, Reply::Fault(fault))),
            Err(Failure::Left | Failure::Usage(_)) => None,
        }
    }
}

/// Whether the server knows no such request, or takes none here.
fn is_unsupported(reply: &Reply) -> bool {
    match reply {
        Reply::Error { error: RpcError { code, .. }, .. } => *code == code::METHOD_NOT_FOUND,
        Reply::Fault(Fault { cause: Cause::Status { code, .. }, .. }) => *code != 429,
        _ => false,
    }
}

/// How long a server may take to answer a probe before it counts as dead.
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);

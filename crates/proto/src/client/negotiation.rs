//! [`Negotiation`]: which era and revision of the protocol a server speaks.
//!
//! It begins with a modern probe (`modern.rs`) or a legacy handshake (`legacy.rs`) and moves from
//! one to the other on evidence. It takes each reply and says what to send next. It always ends,
//! whatever the server answers.
//!
//! What counts as evidence: a discovery result or one of the three modern error codes means modern.
//! A login, a rate limit or a broken network means nothing. Everything else, in whatever framing,
//! means legacy.
// Checklist groups LC and DE: DE-10 and DE-03 for the evidence.

mod legacy;
mod modern;
mod peer;
mod session_verdict;

pub use peer::Peer;

use crate::fault::{Cause, Exit, Fault};
use crate::revision::{Era, Revision};
use crate::via::is_loop_error;
use crate::wire::{Json, RpcError, code};

/// The kind of link, as far as it affects the negotiation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkKind {
    /// A process or another byte stream.
    Pipe,
    /// Streamable HTTP.
    Http,
}

/// Which eras may be tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EraChoice {
    /// Both; [`StartHint`] says which comes first.
    #[default]
    Auto,
    /// Only the legacy handshake.
    Legacy,
    /// Only the modern, stateless era.
    Modern,
}

/// What a negotiation begins with, where both eras may be tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartHint {
    /// Nothing is known of the server, so the modern probe comes first.
    Unknown,
    /// The caller prefers this era, or this session agreed on it before.
    Prefer(Era),
    /// An earlier connection recorded this era. The record may be out of date, so a handshake that
    /// the server answers with a failure is followed by the probe that was skipped.
    Recorded(Era),
}

/// The reply to a message, or what came in its place.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// A result.
    Result(Json),
    /// A JSON-RPC error.
    Error {
        /// The HTTP status, if it was not a success. `None` on a pipe.
        status: Option<u16>,
        /// The error of the peer.
        error: RpcError,
        /// Whether the error named no request of ours, but came where only this response was due.
        stray: bool,
    },
    /// The server accepted a notification.
    Accepted,
    /// No reply came within the probe timeout.
    Silence,
    /// No response in the sense of the protocol: a bare status, a broken connection, an exit.
    Fault(Fault),
}

/// The next step of the negotiation.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Send `server/discover` as a modern request of this revision.
    Discover(Revision),
    /// Send `initialize`, offering this revision.
    Initialize(Revision),
    /// Start another process, because this one exited on the last message; then continue with
    /// [`Negotiation::restart_step`].
    Restart,
    /// Send `notifications/initialized`, because this revision is agreed.
    Confirm(Revision),
    /// The negotiation succeeded.
    Agreed(Box<Peer>),
    /// The negotiation failed.
    Failed(Fault),
}

/// The state of a negotiation.
#[derive(Debug)]
pub struct Negotiation {
    link: LinkKind,
    choice: EraChoice,
    start: StartHint,
    state: State,
    evidence: EraEvidence,
    /// Whether the server answered the probe, but not as a modern server does.
    probe_refused: bool,
    /// The fault of the last probe, if it was not answered: an outage says nothing about the era.
    broken_probe: Option<Fault>,
    /// The reply to a handshake that failed although the server was expected to be legacy, and its
    /// fault.
    failed_handshake: Option<(Reply, Fault)>,
}

/// What is known of the server's era. It decides whether switching to the modern era is still
/// allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EraEvidence {
    /// The first probe is pending.
    Probing,
    /// The probe was skipped because of a record or preference, or it was not answered: a server that
    /// was still starting or restarting refuses the handshake that follows.
    None,
    /// A probe was answered. No further switch is made, since a server could send us back and
    /// forth.
    Probed,
    /// A refusal of the handshake showed that the server is modern.
    Modern,
    /// The handshake failed, and the skipped probe is sent now. The handshake is not repeated.
    Reprobing,
}

#[derive(Debug)]
enum State {
    Modern(modern::Probe),
    Legacy(legacy::Handshake),
}

/// What the handling of one era concludes from a reply.
enum EraVerdict {
    /// Stay in this era and take this step.
    Stay(Step),
    /// The server is of the other era. Begin there with this revision.
    SwitchEra(Revision),
    /// The process exited on the probe.
    ProcessDied,
}

impl Negotiation {
    /// Begins a negotiation and returns its first step. `start` counts where `choice` allows both
    /// eras.
    // DE-09
    pub fn begin(link: LinkKind, choice: EraChoice, start: StartHint) -> (Self, Step) {
        let first = match (choice, start) {
            (EraChoice::Legacy, _)
            | (EraChoice::Auto, StartHint::Prefer(Era::Legacy) | StartHint::Recorded(Era::Legacy)) => {
                Era::Legacy
            }
            (EraChoice::Modern | EraChoice::Auto, _) => Era::Modern,
        };
        let (state, step) = State::begin(first, None);
        let evidence = match first {
            Era::Modern => EraEvidence::Probing,
            Era::Legacy => EraEvidence::None,
        };
        let (probe_refused, broken_probe, failed_handshake) = (false, None, None);
        (Self { link, choice, start, state, evidence, probe_refused, broken_probe, failed_handshake }, step)
    }

    /// Takes the reply to the last step.
    pub fn handle(&mut self, reply: Reply) -> Step {
        if let Some(fault) = inconclusive_fault(&reply) {
            return Step::Failed(fault);
        }
        let doubtful = self.is_record_doubtful(&reply);
        let verdict = match &mut self.state {
            State::Modern(probe) => probe.handle(self.link, reply.clone()),
            State::Legacy(handshake) => handshake.handle(self.link, reply.clone()),
        };
        match verdict {
            EraVerdict::Stay(Step::Failed(fault)) if doubtful => self.send_skipped_probe(reply, fault),
            EraVerdict::Stay(step) => step,
            EraVerdict::ProcessDied if self.evidence == EraEvidence::Reprobing => {
                Step::Failed(self.wrong_era_fault(reply))
            }
            EraVerdict::ProcessDied => match self.choice {
                EraChoice::Modern => Step::Failed(wrong_era_fault(reply)),
                EraChoice::Auto | EraChoice::Legacy => {
                    // An exit proves little: the restarted process may still show that it is
                    // modern.
                    if self.evidence == EraEvidence::Probing {
                        self.evidence = EraEvidence::None;
                    }
                    self.probe_refused = true;
                    self.state = State::begin(Era::Legacy, None).0;
                    Step::Restart
                }
            },
            EraVerdict::SwitchEra(revision) => self.switch_era(revision, reply),
        }
    }

    /// Switches to the other era, at most once in each direction.
    fn switch_era(&mut self, revision: Revision, reply: Reply) -> Step {
        if revision.era() == Era::Legacy {
            self.probe_refused = is_refused_probe(&reply);
            self.broken_probe = match &reply {
                Reply::Fault(fault) if !self.probe_refused => Some(fault.clone()),
                _ => None,
            };
        }
        self.evidence = match (self.choice, revision.era(), self.evidence) {
            // A probe that was cut off, or refused for an outage, says no more than silence.
            (EraChoice::Auto, Era::Legacy, EraEvidence::Probing) if !self.probe_refused => EraEvidence::None,
            (EraChoice::Auto, Era::Legacy, EraEvidence::Probing | EraEvidence::Probed) => EraEvidence::Probed,
            (EraChoice::Auto, Era::Modern, EraEvidence::None) if indicates_modern(&reply) => {
                EraEvidence::Modern
            }
            (EraChoice::Auto, Era::Modern, EraEvidence::None) => EraEvidence::Probed,
            _ => return Step::Failed(self.wrong_era_fault(reply)),
        };
        let (state, step) = State::begin(revision.era(), Some(revision));
        self.state = state;
        step
    }

    /// Whether a handshake that fails with this reply may have failed because of the era, while the
    /// server was not probed or did not answer the probe. A record is doubted on any answer, a
    /// preference or silence only where the server refuses the handshake, or the HTTP request as a
    /// whole.
    // DE-03: a modern server may refuse `initialize` with any code.
    fn is_record_doubtful(&self, reply: &Reply) -> bool {
        let opens = matches!(&self.state, State::Legacy(handshake) if handshake.expects_result());
        let skipped = self.choice == EraChoice::Auto && self.evidence == EraEvidence::None;
        opens
            && skipped
            && match self.start {
                StartHint::Unknown => is_handshake_refusal(reply),
                StartHint::Prefer(_) => {
                    is_handshake_refusal(reply) || self.link == LinkKind::Http && is_transport_refusal(reply)
                }
                StartHint::Recorded(_) => is_answer(reply),
            }
    }

    /// Sends the probe that was skipped, on a new process if this one has ended.
    fn send_skipped_probe(&mut self, reply: Reply, fault: Fault) -> Step {
        let ended = self.link == LinkKind::Pipe && matches!(reply, Reply::Fault(_));
        self.evidence = EraEvidence::Reprobing;
        self.failed_handshake = Some((reply, fault));
        let (state, step) = State::begin(Era::Modern, None);
        self.state = state;
        if ended { Step::Restart } else { step }
    }

    /// The fault of a server that speaks neither era. The failure of the handshake says most. A modern server
    /// refuses it as well, so after a probe that an outage broke, the outage is the fault, and is retried.
    fn wrong_era_fault(&self, reply: Reply) -> Fault {
        match (&self.failed_handshake, &self.broken_probe) {
            (Some((_, fault)), _) => fault.clone(),
            (None, Some(outage)) if matches!(reply, Reply::Error { .. }) => outage.clone(),
            (None, _) => wrong_era_fault(reply),
        }
    }

    /// Whether the server was probed and refused, which proves that it is legacy.
    pub fn is_probe_refused(&self) -> bool {
        self.probe_refused
    }

    /// The reply to a handshake that failed although the server was expected to be legacy.
    pub fn failed_handshake(&self) -> Option<&Reply> {
        self.failed_handshake.as_ref().map(|(reply, _)| reply)
    }

    /// The step to take on a new process after [`Step::Restart`].
    pub fn restart_step(&self) -> Step {
        match &self.state {
            State::Modern(probe) => Step::Discover(probe.revision()),
            State::Legacy(handshake) => Step::Initialize(handshake.offer()),
        }
    }

    /// Whether the last step was a probe, which has a time limit of its own.
    pub fn is_probing(&self) -> bool {
        self.choice == EraChoice::Auto
            && self.evidence != EraEvidence::Modern
            && matches!(self.state, State::Modern(_))
    }
}

impl State {
    fn begin(era: Era, revision: Option<Revision>) -> (Self, Step) {
        match era {
            Era::Modern => {
                let revision = revision.unwrap_or(Revision::NEWEST_MODERN);
                (Self::Modern(modern::Probe::new(revision)), Step::Discover(revision))
            }
            Era::Legacy => {
                let offer = revision.unwrap_or(Revision::NEWEST_LEGACY);
                (Self::Legacy(legacy::Handshake::new(offer)), Step::Initialize(offer))
            }
        }
    }
}

/// The fault of a reply that says nothing about the era. The negotiation fails with it, and a new
/// one is made when the fault is dealt with. A 5xx to the probe alone is handled in `modern.rs`.
// DE-10
fn inconclusive_fault(reply: &Reply) -> Option<Fault> {
    match reply {
        Reply::Fault(fault) => match &fault.cause {
            Cause::Status { code, .. } if *code != 429 => None,
            Cause::Exited(Exit::Code(_) | Exit::Signal(_) | Exit::Eof) => None,
            // A server that hangs up on an unknown message has answered in its own way.
            Cause::Timeout(_) | Cause::Protocol(_) | Cause::Cut => None,
            _ => Some(fault.clone()),
        },
        _ => None,
    }
}

/// Whether a server that knows no Streamable HTTP, or not this era of it, would answer a handshake
/// so.
// DE-04
pub(crate) fn is_transport_refusal(reply: &Reply) -> bool {
    let code = match reply {
        Reply::Error { status, .. } => *status,
        Reply::Fault(Fault { cause: Cause::Status { code, .. }, .. }) => Some(*code),
        _ => None,
    };
    code.is_some_and(|code| matches!(code, 400 | 404 | 405 | 406 | 415 | 501))
}

/// Whether the server refuses the handshake with a JSON-RPC error that leaves open which era it speaks. One
/// that names versions does not. One with the status of a limit or an outage says nothing about the server,
/// and neither does a gateway that is reached through itself.
fn is_handshake_refusal(reply: &Reply) -> bool {
    match reply {
        Reply::Error { status, error, .. } => {
            !is_loop_error(error)
                && supported_versions(error).is_empty()
                && status.is_none_or(|status| status < 500 && status != 429)
        }
        _ => false,
    }
}

/// Whether the reply comes from the server itself. Statuses from 502 on are a proxy's.
fn is_answer(reply: &Reply) -> bool {
    match reply {
        Reply::Result(_) | Reply::Error { .. } | Reply::Accepted => true,
        Reply::Silence => false,
        Reply::Fault(fault) => match &fault.cause {
            Cause::Status { code, .. } => *code < 502,
            Cause::Timeout(_) => false,
            _ => true,
        },
    }
}

/// Whether this reply to the probe proves that the server is legacy. Silence and broken exchanges
/// lead to a handshake too, but the next connection should probe again.
fn is_refused_probe(reply: &Reply) -> bool {
    match reply {
        Reply::Result(_) | Reply::Error { .. } | Reply::Accepted => true,
        Reply::Silence => false,
        Reply::Fault(fault) => match &fault.cause {
            Cause::Status { code, .. } => (400..500).contains(code),
            Cause::Protocol(_) => true,
            _ => false,
        },
    }
}

/// Whether only a modern server sends this refusal: by its code, or by a modern revision that it
/// names.
fn indicates_modern(reply: &Reply) -> bool {
    let Reply::Error { error, .. } = reply else { return false };
    let names = supported_versions(error);
    code::is_modern(error.code)
        || Revision::newest_of(Era::Modern, names.iter().map(String::as_str)).is_some()
}

/// The fault of a negotiation whose era was pinned, or that tried both eras.
fn wrong_era_fault(reply: Reply) -> Fault {
    match reply {
        Reply::Fault(fault) => fault,
        Reply::Error { error, .. } => refusal_fault(&error),
        Reply::Silence => Fault::new(Cause::Timeout(crate::fault::Limit::Connect)),
        Reply::Result(_) | Reply::Accepted => Fault::protocol(crate::fault::Misbehavior::BadResult)
            .with_note("the answer fits no revision we speak"),
    }
}

/// The fault of a refused handshake, with the versions that the server names, if it does.
// LC-06
fn refusal_fault(error: &RpcError) -> Fault {
    if is_loop_error(error) {
        return Fault::before_sending(Cause::Loop);
    }
    match supported_versions(error) {
        names if names.is_empty() => {
            Fault::protocol(crate::fault::Misbehavior::BadResult).with_note(format!(
                "the server refused the handshake: {} (code {})",
                truncate_text(&error.message),
                error.code
            ))
        }
        supported => {
            Fault::new(Cause::NoCommonVersion { supported }).with_note(truncate_text(&error.message))
        }
    }
}

/// The versions in `error.data.supported`: at most 32, of at most 64 characters each.
fn supported_versions(error: &RpcError) -> Vec<String> {
    let names = error.data.as_ref().and_then(|data| data.member("supported"));
    let mut names: Vec<String> = names.and_then(|names| names.decode().ok()).unwrap_or_default();
    names.truncate(32);
    names.iter().map(|name| name.chars().take(64).collect()).collect()
}

/// Cuts a server's text to 200 characters.
fn truncate_text(text: &str) -> String {
    text.chars().take(200).collect()
}

#[cfg(test)]
mod tests;

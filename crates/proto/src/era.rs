//! Which protocol does this server speak? Checklist groups LC and DE.
//!
//! [`Negotiation`] begins with a modern probe (`modern.rs`) or a legacy handshake (`legacy.rs`) and moves
//! from one to the other on evidence. It is fed each answer and says what to send next; it never asks
//! for the same thing without end, whatever the server says.
//!
//! What counts as evidence: a discovery result or one of the three modern error codes means modern. A
//! login, a rate limit or a broken network means nothing (DE-10). Everything else, in whatever framing,
//! means legacy (DE-03).

mod legacy;
mod modern;
mod peer;
mod sign;

pub use peer::Peer;

use crate::fault::{Cause, Exit, Fault};
use crate::revision::{Era, Revision};
use crate::wire::{Json, RpcError, code};

/// The kind of link, as far as it changes how eras are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// A process or another byte stream.
    Pipe,
    /// Streamable HTTP.
    Http,
}

/// Which eras may be tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// Find out; begin as [`Start`] says.
    #[default]
    Auto,
    /// Only a handshake.
    Legacy,
    /// Only stateless.
    Modern,
}

/// What a negotiation begins with, where both eras may be tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Nothing is known of the server: the modern probe comes first.
    Unknown,
    /// The caller prefers this era, or this session has spoken it before.
    Prefer(Era),
    /// An earlier connection found the server to be of this era. That may be out of date, so a handshake that fails in
    /// any way that is an answer is followed by the probe that was skipped.
    Recorded(Era),
}

/// What came back for a message of the negotiation.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// A result.
    Result(Json),
    /// A JSON-RPC error, with the HTTP status it came with if that was not a success.
    Error {
        /// Not set on a pipe, nor for a success.
        status: Option<u16>,
        /// The peer's words.
        error: RpcError,
        /// It named no request of ours, and came where only the answer to this one was due.
        stray: bool,
    },
    /// A notification was taken.
    Accepted,
    /// Nothing within the probe's time.
    Silence,
    /// No answer in the sense of the protocol: a bare status, a broken connection, an exit.
    Fault(Fault),
}

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Send `server/discover` as a modern request of this revision.
    Discover(Revision),
    /// Send `initialize`, offering this revision.
    Initialize(Revision),
    /// The process did not survive the probe: start another, then send `initialize`.
    Restart,
    /// This revision is agreed: send `notifications/initialized`.
    Confirm(Revision),
    /// Done.
    Agreed(Box<Peer>),
    /// It cannot be done.
    Failed(Fault),
}

/// The state of a negotiation.
#[derive(Debug)]
pub struct Negotiation {
    link: Link,
    choice: Choice,
    start: Start,
    state: State,
    evidence: Evidence,
    /// The probe was answered, and not as a modern server answers it.
    probe_refused: bool,
    /// The reply to a handshake that failed although the server was taken to be legacy, and what was made of it.
    failed_handshake: Option<(Reply, Fault)>,
}

/// What is known of the era beyond the state: whether to turn to the modern one may still be worth it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Evidence {
    /// The first probe is out.
    Probing,
    /// The probe was skipped on the strength of memory (DE-09), or it ran out of time: a server that was
    /// still starting answers it late, and then refuses the handshake.
    None,
    /// A probe was answered. No more turning: two confused servers could send us back and forth.
    Probed,
    /// A refusal of the handshake said that the server is modern.
    Modern,
    /// The handshake failed, and the probe that was skipped is made up for. The handshake is not tried again.
    Doubted,
}

#[derive(Debug)]
enum State {
    Modern(modern::Probe),
    Legacy(legacy::Handshake),
}

/// What an era's file makes of a reply.
enum Verdict {
    /// Stay in this era and do that.
    Stay(Step),
    /// The server is of the other era. With the revision to begin with.
    Other(Revision),
    /// The process died on the probe.
    Died,
}

impl Negotiation {
    /// Begins. Where the choice leaves the era open, `start` says with which (DE-09).
    pub fn begin(link: Link, choice: Choice, start: Start) -> (Self, Step) {
        let first = match (choice, start) {
            (Choice::Legacy, _)
            | (Choice::Auto, Start::Prefer(Era::Legacy) | Start::Recorded(Era::Legacy)) => Era::Legacy,
            (Choice::Modern | Choice::Auto, _) => Era::Modern,
        };
        let (state, step) = State::begin(first, None);
        let evidence = match first {
            Era::Modern => Evidence::Probing,
            Era::Legacy => Evidence::None,
        };
        let (probe_refused, failed_handshake) = (false, None);
        (Self { link, choice, start, state, evidence, probe_refused, failed_handshake }, step)
    }

    /// Takes the reply to the last step.
    pub fn handle(&mut self, reply: Reply) -> Step {
        if let Some(fault) = says_nothing(&reply) {
            return Step::Failed(fault);
        }
        let doubtful = self.is_doubtful(&reply);
        let verdict = match &mut self.state {
            State::Modern(probe) => probe.handle(self.link, reply.clone()),
            State::Legacy(handshake) => handshake.handle(self.link, reply.clone()),
        };
        match verdict {
            Verdict::Stay(Step::Failed(fault)) if doubtful => self.make_up_for_probe(reply, fault),
            Verdict::Stay(step) => step,
            Verdict::Died if self.evidence == Evidence::Doubted => Step::Failed(self.wrong_era(reply)),
            Verdict::Died => match self.choice {
                Choice::Modern => Step::Failed(wrong_era(reply)),
                Choice::Auto | Choice::Legacy => {
                    // That it died says little: what it says when it lives may still prove it modern.
                    if self.evidence == Evidence::Probing {
                        self.evidence = Evidence::None;
                    }
                    self.probe_refused = true;
                    self.state = State::begin(Era::Legacy, None).0;
                    Step::Restart
                }
            },
            Verdict::Other(revision) => self.turn(revision, reply),
        }
    }

    /// Goes over to the other era, once in each direction.
    fn turn(&mut self, revision: Revision, reply: Reply) -> Step {
        if revision.era() == Era::Legacy {
            self.probe_refused = is_refused_probe(&reply);
        }
        self.evidence = match (self.choice, revision.era(), self.evidence) {
            (Choice::Auto, Era::Legacy, Evidence::Probing) if reply == Reply::Silence => Evidence::None,
            (Choice::Auto, Era::Legacy, Evidence::Probing | Evidence::Probed) => Evidence::Probed,
            (Choice::Auto, Era::Modern, Evidence::None) if says_modern(&reply) => Evidence::Modern,
            (Choice::Auto, Era::Modern, Evidence::None) => Evidence::Probed,
            _ => return Step::Failed(self.wrong_era(reply)),
        };
        let (state, step) = State::begin(revision.era(), Some(revision));
        self.state = state;
        step
    }

    /// Whether a failure of the handshake with this reply may be due to the era, and the server was not asked for its era
    /// before. A record is doubted on any answer. A preference is doubted where the server refuses the request as a whole.
    fn is_doubtful(&self, reply: &Reply) -> bool {
        let opens = matches!(&self.state, State::Legacy(handshake) if handshake.expects_result());
        let skipped = self.choice == Choice::Auto && self.evidence == Evidence::None;
        opens
            && skipped
            && match self.start {
                Start::Unknown => false,
                Start::Prefer(_) => self.link == Link::Http && is_transport_refusal(reply),
                Start::Recorded(_) => is_answer(reply),
            }
    }

    /// Sends the probe that was skipped, on a new process if this one has ended.
    fn make_up_for_probe(&mut self, reply: Reply, fault: Fault) -> Step {
        let ended = self.link == Link::Pipe && matches!(reply, Reply::Fault(_));
        self.evidence = Evidence::Doubted;
        self.failed_handshake = Some((reply, fault));
        let (state, step) = State::begin(Era::Modern, None);
        self.state = state;
        if ended { Step::Restart } else { step }
    }

    /// The fault of a server that speaks neither era. The handshake's own failure says most.
    fn wrong_era(&self, reply: Reply) -> Fault {
        match &self.failed_handshake {
            Some((_, fault)) => fault.clone(),
            None => wrong_era(reply),
        }
    }

    /// Whether the server was asked for the modern era, and refused: it is legacy, whatever was known before.
    pub fn is_probe_refused(&self) -> bool {
        self.probe_refused
    }

    /// The reply to a handshake that failed although the server was taken to be legacy.
    pub fn failed_handshake(&self) -> Option<&Reply> {
        self.failed_handshake.as_ref().map(|(reply, _)| reply)
    }

    /// What to send on a fresh process after [`Step::Restart`].
    pub fn restarted(&self) -> Step {
        match &self.state {
            State::Modern(probe) => Step::Discover(probe.revision()),
            State::Legacy(handshake) => Step::Initialize(handshake.offer()),
        }
    }

    /// Whether the last step was a probe, which has a time limit of its own.
    pub fn is_probing(&self) -> bool {
        self.choice == Choice::Auto
            && self.evidence != Evidence::Modern
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

/// DE-10: these say nothing of the era, so the negotiation stops here and starts over when they are dealt
/// with. (A 5xx to the probe alone is another matter: see `modern.rs`.)
fn says_nothing(reply: &Reply) -> Option<Fault> {
    match reply {
        Reply::Fault(fault) => match &fault.cause {
            Cause::Status { code, .. } if *code != 429 => None,
            Cause::Exited(Exit::Code(_) | Exit::Signal(_) | Exit::Eof) => None,
            // A server that hangs up on what it does not know has answered after a fashion.
            Cause::Timeout(_) | Cause::Protocol(_) | Cause::Cut => None,
            _ => Some(fault.clone()),
        },
        _ => None,
    }
}

/// Whether a server that knows no Streamable HTTP, or not this era of it, would answer a handshake like this (DE-04).
pub(crate) fn is_transport_refusal(reply: &Reply) -> bool {
    let code = match reply {
        Reply::Error { status, .. } => *status,
        Reply::Fault(Fault { cause: Cause::Status { code, .. }, .. }) => Some(*code),
        _ => None,
    };
    code.is_some_and(|code| matches!(code, 400 | 404 | 405 | 406 | 415 | 501))
}

/// Whether the server has answered, after a fashion. What stands in front of it says other statuses of 5xx.
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

/// Whether this reply to the probe says that the server is legacy. Silence and broken exchanges lead to a handshake
/// too, but the next connection had better ask again.
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

/// A refusal that only a modern server sends, or that names a modern revision.
fn says_modern(reply: &Reply) -> bool {
    let Reply::Error { error, .. } = reply else { return false };
    let names = supported(error);
    code::is_modern(error.code)
        || Revision::newest_of(Era::Modern, names.iter().map(String::as_str)).is_some()
}

/// The era was pinned, or both were tried.
fn wrong_era(reply: Reply) -> Fault {
    match reply {
        Reply::Fault(fault) => fault,
        Reply::Error { error, .. } => refused(&error),
        Reply::Silence => Fault::new(Cause::Timeout(crate::fault::Limit::Connect)),
        Reply::Result(_) | Reply::Accepted => Fault::protocol(crate::fault::Misbehaviour::BadResult)
            .note("the answer fits no revision we speak"),
    }
}

/// LC-06: a refusal names the versions the server speaks, where it says so.
fn refused(error: &RpcError) -> Fault {
    match supported(error) {
        names if names.is_empty() => Fault::protocol(crate::fault::Misbehaviour::BadResult).note(format!(
            "the server refused the handshake: {} (code {})",
            cut(&error.message),
            error.code
        )),
        supported => Fault::new(Cause::Versions { supported }).note(cut(&error.message)),
    }
}

/// `error.data.supported`, bounded.
fn supported(error: &RpcError) -> Vec<String> {
    let names = error.data.as_ref().and_then(|data| data.member("supported"));
    let mut names: Vec<String> = names.and_then(|names| names.decode().ok()).unwrap_or_default();
    names.truncate(32);
    names.iter().map(|name| name.chars().take(64).collect()).collect()
}

/// A server's words, as many as are worth repeating.
fn cut(text: &str) -> String {
    text.chars().take(200).collect()
}

#[cfg(test)]
mod tests;

//! [`Oracle`]: how a call must end, computed from the truth and from what the client could see.
//!
//! The oracle shares no code with the decision that it checks. It knows who wrote each refusal (the
//! session check, a rate limit, a tool after its work), which the client does not; and it knows
//! which probes were refused by the same author, which the client can see.
//!
//! A refusal is handed on only as an answer: of a tool, of a server at work, or of a session that
//! answered a probe afterwards. Any other failed call was sent again, or the rule of evidence
//! forbids that, or its time or our side ended it.

use std::time::Instant;

use bowline_proto::client::keepalive::Probe;
use bowline_proto::client::negotiation::Reply;
use bowline_proto::client::retry::FinalFailure;
use bowline_proto::fault::{Cause, Execution, Fault};

use crate::caller::Caller;

/// The author of a reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Author {
    /// The server in the course of its work, or nobody.
    #[default]
    Server,
    /// The session check, with a text that a probe may repeat.
    SessionCheck,
    /// The session check, with a 404 or 410 without an error for our id. It is believed once.
    NotFound,
    /// Another server at the same address, with a 404 of its own.
    Elsewhere,
    /// The session check, with a text that a proxy or a failing server might also send.
    VagueSessionCheck,
    /// A rate limit.
    Limit,
    /// The check of credentials.
    Authentication,
    /// The session check, with a status that causes no probe.
    Status,
    /// The check of a modern server that the headers agree with the body.
    HeaderCheck,
    /// A tool with sessions of its own.
    Tool,
}

/// What the client could see of one sending.
#[derive(Debug)]
enum SendEvidence {
    /// Nothing yet, or nothing that proves anything.
    Opaque,
    /// No byte of it was sent, or the connection was refused.
    Unwritten,
    /// It was refused. `believed`: without a probe, as the first 404 is.
    Refused { refusal: Refusal, believed: bool, probes: Vec<(Probe, ProbeFinding)> },
}

/// One sending of a request.
#[derive(Debug)]
struct Sending {
    evidence: SendEvidence,
    /// Whether the server sent a message about the request after that.
    was_heard_of: bool,
    /// How many times the request was refused for its session before.
    session_refusals: usize,
}

/// The refusal of a request.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) author: Author,
    pub(crate) reply: Reply,
    /// Whether the request named a session.
    pub(crate) names_session: bool,
    /// Whether it speaks so plainly of the session that an answered `ping` does not settle it.
    pub(crate) is_plain: bool,
    /// The method of the list that the server offers.
    pub(crate) list: Option<&'static str>,
    /// Whether the wait that a rate limit asks for fits into the time of the call.
    pub(crate) leaves_time: bool,
}

/// What the reply to a probe shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProbeFinding {
    /// The session answered.
    Answered,
    /// The author of the refusal refused the probe as well.
    SameRefusal,
    /// The probe was refused differently, or by somebody else, or not answered.
    Nothing,
}

/// What the rule of evidence concludes from one sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Conclusion {
    NotExecuted,
    /// The reply is the answer to the request.
    Answer,
    /// Nothing is proved.
    Nothing,
    /// A probe that was not sent would settle it.
    NeedsProbe,
}

#[derive(Debug)]
pub(crate) struct Oracle {
    sendings: Vec<Sending>,
    /// Whether the client knows the request as harmless. `None`: it has not asked yet.
    known_harmless: Option<bool>,
    /// Whether a 404 was believed.
    not_found: bool,
    /// Whether the annotations of the tool were fetched again.
    refetched: bool,
    /// Whether there was no link in time.
    no_link: bool,
}

impl Oracle {
    pub(crate) fn new(known_harmless: Option<bool>) -> Self {
        Self { sendings: Vec::new(), known_harmless, not_found: false, refetched: false, no_link: false }
    }

    /// Records a sending, and checks that the rule of evidence allows one more.
    pub(crate) fn record_sending(&mut self) {
        if let Some(last) = self.sendings.last() {
            let allowed = match last.conclusion() {
                Conclusion::NotExecuted => true,
                Conclusion::Nothing | Conclusion::NeedsProbe => self.known_harmless == Some(true),
                Conclusion::Answer => {
                    self.known_harmless == Some(true) && (last.is_outage() || last.is_busy())
                }
            };
            assert!(allowed, "sent again without proof: {self:?}");
        }
        let session_refusals = self.sendings.iter().filter(|sending| sending.is_session_refusal()).count();
        self.sendings.push(Sending { evidence: SendEvidence::Opaque, was_heard_of: false, session_refusals });
        self.no_link = false;
    }

    /// Records that the server sent a message about the request.
    pub(crate) fn record_message(&mut self) {
        self.sendings.last_mut().expect("it was sent").was_heard_of = true;
    }

    /// Whether the server sent a message about the request at any time.
    pub(crate) fn was_heard_of(&self) -> bool {
        self.sendings.iter().any(|sending| sending.was_heard_of)
    }

    /// Records that the link or the time ended before a reply.
    pub(crate) fn record_silence(&mut self, written: bool) {
        self.set_last(if written { SendEvidence::Opaque } else { SendEvidence::Unwritten });
    }

    pub(crate) fn record_refusal(&mut self, refusal: Refusal) {
        let not_found =
            matches!(refusal.author, Author::NotFound | Author::Elsewhere) && refusal.names_session;
        let believed = not_found && !self.not_found;
        self.not_found |= not_found;
        self.set_last(SendEvidence::Refused { refusal, believed, probes: Vec::new() });
    }

    /// Records a fault of the connection.
    pub(crate) fn record_fault(&mut self, fault: &Fault) {
        let unwritten = fault.execution == Execution::NotExecuted;
        self.record_silence(!unwritten);
    }

    /// Records the reply to a probe after the last sending, and its author.
    pub(crate) fn record_probe(&mut self, probe: Probe, by: Author, reply: &Reply) {
        let Some(Sending { evidence: SendEvidence::Refused { refusal, probes, .. }, .. }) =
            self.sendings.last_mut()
        else {
            return;
        };
        let repeats =
            matches!(by, Author::SessionCheck | Author::Limit | Author::NotFound | Author::Elsewhere);
        let finding = match reply {
            Reply::Result(_) => ProbeFinding::Answered,
            // To the client this is an error like any other.
            _ if by == Author::Status => ProbeFinding::Answered,
            _ if repeats && refusal.author == by => ProbeFinding::SameRefusal,
            _ => ProbeFinding::Nothing,
        };
        probes.push((probe, finding));
    }

    pub(crate) fn record_known_harmless(&mut self, harmless: bool) {
        self.known_harmless = Some(harmless);
    }

    pub(crate) fn record_refetch(&mut self) {
        self.refetched = true;
    }

    pub(crate) fn record_missing_link(&mut self) {
        self.no_link = true;
    }

    fn set_last(&mut self, what: SendEvidence) {
        self.sendings.last_mut().expect("it was sent").evidence = what;
    }

    fn expected_label(&self) -> Execution {
        if self.sendings.iter().all(|sending| sending.conclusion() == Conclusion::NotExecuted) {
            Execution::NotExecuted
        } else {
            Execution::Unknown
        }
    }
}

impl Sending {
    /// What was said of the request before a refusal outweighs the refusal.
    fn conclusion(&self) -> Conclusion {
        match self.evidence.conclusion() {
            Conclusion::NotExecuted if self.was_heard_of => match self.author() {
                Author::HeaderCheck => Conclusion::Answer,
                _ => Conclusion::Nothing,
            },
            // A tool may end its own session each time.
            Conclusion::NotExecuted if self.session_refusals >= 5 && self.is_session_refusal() => {
                Conclusion::Nothing
            }
            conclusion => conclusion,
        }
    }

    /// Whether it was refused in front of the tools because of its session.
    fn is_session_refusal(&self) -> bool {
        let author = self.author();
        matches!(author, Author::SessionCheck | Author::NotFound | Author::Elsewhere)
            && self.evidence.conclusion() == Conclusion::NotExecuted
    }

    /// Whether the refusal may be that of a proxy, although the session is alive.
    fn is_outage(&self) -> bool {
        matches!(self.reply(), Some(Reply::Fault(fault)) if fault.is_outage())
    }

    /// Whether it was refused for a rate limit.
    fn is_busy(&self) -> bool {
        self.author() == Author::Limit
    }

    fn author(&self) -> Author {
        match &self.evidence {
            SendEvidence::Refused { refusal, .. } => refusal.author,
            SendEvidence::Opaque | SendEvidence::Unwritten => Author::Server,
        }
    }

    /// The error with which the server answered.
    fn reply(&self) -> Option<&Reply> {
        match &self.evidence {
            SendEvidence::Refused { refusal, .. } => Some(&refusal.reply),
            SendEvidence::Opaque | SendEvidence::Unwritten => None,
        }
    }
}

impl SendEvidence {
    fn conclusion(&self) -> Conclusion {
        let (refusal, believed, probes) = match self {
            Self::Opaque => return Conclusion::Nothing,
            Self::Unwritten => return Conclusion::NotExecuted,
            Self::Refused { refusal, believed, probes } => (refusal, *believed, probes),
        };
        if believed
            || matches!(refusal.author, Author::Authentication | Author::HeaderCheck)
            || probes.iter().any(|(_, finding)| *finding == ProbeFinding::SameRefusal)
        {
            return Conclusion::NotExecuted;
        }
        match probes.last() {
            // Some servers check sessions everywhere but in `ping`.
            Some((Probe::Ping, ProbeFinding::Answered)) if refusal.is_plain && refusal.list.is_some() => {
                Conclusion::NeedsProbe
            }
            Some((_, ProbeFinding::Answered)) => Conclusion::Answer,
            Some(_) => Conclusion::Nothing,
            None => match refusal.author {
                Author::Server | Author::Status | Author::Tool => Conclusion::Answer,
                // Without a session there is none to lose.
                Author::NotFound | Author::Elsewhere if !refusal.names_session => Conclusion::Answer,
                // Said again, it would prove nothing.
                Author::VagueSessionCheck => Conclusion::Nothing,
                _ => Conclusion::NeedsProbe,
            },
        }
    }
}

impl Caller {
    /// Checks that the outcome is exact, and that the request was sent again if the rule of
    /// evidence allows it. `closed`: our side ended the call.
    pub(crate) fn check_outcome(&self, now: Instant, closed: bool, outcome: &FinalFailure) {
        let oracle = &self.oracle;
        let last = oracle.sendings.last();
        match outcome {
            FinalFailure::ServerError(error) => {
                let last = last.expect("it was sent");
                assert!(
                    matches!(last.reply(), Some(Reply::Error { error: said, .. }) if said == error),
                    "not what the server said: {error:?}, {oracle:?}"
                );
                let proved = last.conclusion() == Conclusion::NotExecuted;
                assert!(
                    !proved || last.author() == Author::HeaderCheck,
                    "a refusal in place of an answer: {oracle:?}"
                );
            }
            FinalFailure::Fault(fault) => {
                let label = oracle.expected_label();
                assert_eq!(fault.execution, label, "a wrong label: {fault}, {oracle:?}");
                let changed = last.is_some_and(|last| {
                    last.conclusion() == Conclusion::Answer
                        && matches!(last.reply(), Some(Reply::Error { .. }))
                });
                assert!(!changed, "an answer became a failure: {fault}, {oracle:?}");
            }
            FinalFailure::NotSent => {
                assert!(self.request.pinned, "given up before it was sent: {oracle:?}");
                assert_eq!(oracle.expected_label(), Execution::NotExecuted, "{oracle:?}");
            }
        }
        let in_time = !closed && !oracle.no_link && now < self.retry.deadline();
        assert!(!in_time || self.may_end_with(outcome), "given up too soon: {outcome:?}, {oracle:?}");
    }

    /// Whether the rule of evidence allows this end while there are time and links.
    fn may_end_with(&self, outcome: &FinalFailure) -> bool {
        let pinned = self.request.pinned;
        let Some(last) = self.oracle.sendings.last() else { return pinned };
        let harmless = self.oracle.known_harmless.unwrap_or(self.request.harmless);
        match outcome {
            // The limit of the call itself.
            FinalFailure::Fault(Fault { cause: Cause::Timeout(_), .. }) => return true,
            // A server that loses session after session is given up.
            FinalFailure::Fault(Fault { cause: Cause::NotAffine, .. }) => return true,
            // The link was replaced during a wait.
            FinalFailure::Fault(Fault { cause: Cause::SessionLost, .. }) | FinalFailure::NotSent
                if pinned =>
            {
                return true;
            }
            _ => {}
        }
        let limit = match &last.evidence {
            SendEvidence::Refused { refusal, .. } if refusal.author == Author::Limit => Some(refusal),
            _ => None,
        };
        match (last.conclusion(), limit) {
            (_, Some(limit)) if !limit.leaves_time => true,
            (Conclusion::NotExecuted, Some(_)) => false,
            // Credentials may be impossible to obtain, and new annotations may be as wrong.
            (Conclusion::NotExecuted, None) => match last.author() {
                Author::Authentication => true,
                Author::HeaderCheck => self.oracle.refetched,
                _ => pinned,
            },
            (Conclusion::Answer, _) => !(harmless && (last.is_outage() || last.is_busy())),
            // Credentials are not asked for by the caller of a request that was begun.
            (Conclusion::Nothing, _) if last.author() == Author::Authentication => true,
            (Conclusion::Nothing, _) => !harmless || pinned,
            (Conclusion::NeedsProbe, _) => false,
        }
    }
}

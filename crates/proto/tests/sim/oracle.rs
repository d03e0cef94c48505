//! [`Oracle`]: the outcome that a caller must be told, computed from the truth and from what the
//! client could see.
//!
//! The oracle shares no code with the decision that it checks. It knows who wrote each refusal (the
//! session check, a rate limit, a tool after its work), which the client does not; and it knows
//! which probes were refused by the same author, which the client can see.

use std::time::Instant;

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
    /// A tool with sessions of its own.
    Tool,
}

/// What the client could see of one sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SendEvidence {
    /// Nothing yet, or nothing that proves anything.
    Opaque,
    /// No byte of it was sent, or the connection was refused.
    Unwritten,
    /// It was refused. `confirmed` says whether a probe was refused by the same author.
    Refused { author: Author, confirmed: bool },
}

#[derive(Debug, Default)]
pub(crate) struct Oracle {
    sendings: Vec<SendEvidence>,
    /// Whether a 404 was believed.
    not_found: bool,
    /// Whether there was no link in time.
    pub(crate) no_link: bool,
}

impl Oracle {
    pub(crate) fn record_sending(&mut self) {
        self.sendings.push(SendEvidence::Opaque);
        self.no_link = false;
    }

    fn set_last(&mut self, what: SendEvidence) {
        *self.sendings.last_mut().expect("it was sent") = what;
    }

    /// Records that the link or the time ended before a reply.
    pub(crate) fn record_silence(&mut self, written: bool) {
        self.set_last(if written { SendEvidence::Opaque } else { SendEvidence::Unwritten });
    }

    /// Records a refusal. `named` says whether the request named a session.
    pub(crate) fn record_refusal(&mut self, author: Author, named: bool) {
        let not_found = matches!(author, Author::NotFound | Author::Elsewhere) && named;
        let believed = not_found && !self.not_found;
        self.not_found |= not_found;
        self.set_last(SendEvidence::Refused { author, confirmed: believed });
    }

    /// Records a fault of the connection.
    pub(crate) fn record_fault(&mut self, fault: &Fault) {
        let unwritten = fault.execution == Execution::NotExecuted;
        self.record_silence(!unwritten);
    }

    /// Records that a probe for the last sending was refused by this author.
    pub(crate) fn record_probe(&mut self, by: Author) {
        if let Some(SendEvidence::Refused { author, confirmed }) = self.sendings.last_mut() {
            let repeats =
                matches!(by, Author::SessionCheck | Author::Limit | Author::NotFound | Author::Elsewhere);
            *confirmed |= *author == by && repeats;
        }
    }

    fn expected_outcome(&self) -> Execution {
        if self.sendings.iter().all(|sending| sending.is_proved()) {
            Execution::NotExecuted
        } else {
            Execution::Unknown
        }
    }
}

impl SendEvidence {
    /// Whether the client could see that the request was not executed.
    fn is_proved(self) -> bool {
        match self {
            Self::Opaque => false,
            Self::Unwritten => true,
            Self::Refused { author, confirmed } => match author {
                Author::Authentication => true,
                Author::SessionCheck | Author::Limit | Author::NotFound | Author::Elsewhere => confirmed,
                Author::Server | Author::VagueSessionCheck | Author::Status | Author::Tool => false,
            },
        }
    }
}

impl Caller {
    /// Checks that the outcome is exact, and that the request was retried if the rule of evidence
    /// allows it.
    pub(crate) fn check_outcome(&self, now: Instant, outcome: &FinalFailure) {
        let FinalFailure::Fault(fault) = outcome else { return };
        let label = self.oracle.expected_outcome();
        assert_eq!(fault.execution, label, "a wrong label: {fault}, {:?}", self.oracle);
        let may_go_again =
            self.oracle.sendings.last().is_none_or(|sending| sending.is_proved()) || self.harmless;
        let in_time = !self.oracle.no_link && now < self.retry.deadline();
        // A fault that is not an outage is an answer, and a server that is not affine is given up.
        let lost = fault.is_outage() && fault.cause != Cause::NotAffine;
        assert!(!(lost && in_time && may_go_again), "given up too soon: {fault}, {:?}", self.oracle);
    }
}

//! What a caller must be told: computed from the truth that the world knows, and from what the client could see.
//!
//! The oracle shares nothing with the decision that it checks. It knows who wrote each refusal (the gate that checks
//! sessions, a limit, a tool after its work), which the client does not; and it knows which probes were refused by the
//! same gate, which the client can see.

use std::time::Instant;

use bowline_proto::fault::{Cause, Execution, Fault};
use bowline_proto::retry::Outcome;

use crate::caller::Caller;

/// Who wrote an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Author {
    /// The server, in the course of its work; or nobody.
    #[default]
    Server,
    /// The gate that checks sessions, in words that a probe may repeat.
    Gate,
    /// The gate that checks sessions, by a 404 or 410 without an error for our id. It is believed once.
    NotFound,
    /// Whatever is found where the server was, with a 404 of its own.
    Elsewhere,
    /// A gate whose words anybody might say: a proxy's, or those of a server that fails at everything.
    VagueGate,
    /// A limit.
    Limit,
    /// Whoever checks credentials.
    Authentication,
    /// A gate whose status leaves nothing open, so that nothing is asked.
    Status,
    /// A tool that has sessions of its own, after its work.
    Tool,
}

/// What could be seen of one sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sending {
    /// Nothing yet, or nothing that proves anything.
    Opaque,
    /// No byte of it left, or nobody was there.
    Unwritten,
    /// It was refused; whether a probe was refused by the same gate.
    Refused { author: Author, confirmed: bool },
}

#[derive(Debug, Default)]
pub(crate) struct Oracle {
    sendings: Vec<Sending>,
    /// A 404 was believed.
    not_found: bool,
    /// There was no link in time.
    pub(crate) no_link: bool,
}

impl Oracle {
    pub(crate) fn sent(&mut self) {
        self.sendings.push(Sending::Opaque);
        self.no_link = false;
    }

    fn see(&mut self, what: Sending) {
        *self.sendings.last_mut().expect("it was sent") = what;
    }

    /// The link ended, or the time, before an answer.
    pub(crate) fn saw_nothing(&mut self, written: bool) {
        self.see(if written { Sending::Opaque } else { Sending::Unwritten });
    }

    /// `named`: the request named a session.
    pub(crate) fn saw_refusal(&mut self, author: Author, named: bool) {
        let not_found = matches!(author, Author::NotFound | Author::Elsewhere) && named;
        let believed = not_found && !self.not_found;
        self.not_found |= not_found;
        self.see(Sending::Refused { author, confirmed: believed });
    }

    /// A fault of the connection.
    pub(crate) fn saw_fault(&mut self, fault: &Fault) {
        let unwritten = fault.execution == Execution::NotExecuted;
        self.saw_nothing(!unwritten);
    }

    /// A probe for the last sending was refused by this author.
    pub(crate) fn saw_probe(&mut self, by: Author) {
        if let Some(Sending::Refused { author, confirmed }) = self.sendings.last_mut() {
            let repeats = matches!(by, Author::Gate | Author::Limit | Author::NotFound | Author::Elsewhere);
            *confirmed |= *author == by && repeats;
        }
    }

    fn label(&self) -> Execution {
        if self.sendings.iter().all(|sending| sending.is_proved()) {
            Execution::NotExecuted
        } else {
            Execution::Unknown
        }
    }
}

impl Sending {
    /// Whether it could be seen that the request was not executed.
    fn is_proved(self) -> bool {
        match self {
            Self::Opaque => false,
            Self::Unwritten => true,
            Self::Refused { author, confirmed } => match author {
                Author::Authentication => true,
                Author::Gate | Author::Limit | Author::NotFound | Author::Elsewhere => confirmed,
                Author::Server | Author::VagueGate | Author::Status | Author::Tool => false,
            },
        }
    }
}

impl Caller {
    /// The label is exact, and whatever the rule of evidence allows to be saved was saved.
    pub(crate) fn check(&self, now: Instant, outcome: &Outcome) {
        let Outcome::Fault(fault) = outcome else { return };
        let label = self.oracle.label();
        assert_eq!(fault.execution, label, "a wrong label: {fault}, {:?}", self.oracle);
        let may_go_again =
            self.oracle.sendings.last().is_none_or(|sending| sending.is_proved()) || self.harmless;
        let in_time = !self.oracle.no_link && now < self.retry.deadline();
        // What is no outage is an answer; and a server that forgets each session at once is not asked for ever.
        let lost = fault.is_outage() && fault.cause != Cause::NotAffine;
        assert!(!(lost && in_time && may_go_again), "given up too soon: {fault}, {:?}", self.oracle);
    }
}

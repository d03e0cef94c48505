//! What an earlier connection found out about the server, and what this one does for the next (DE-09).
//!
//! A record saves a question and decides nothing: where it proves wrong, the attempt goes on as if there were none.

use std::time::Instant;

use super::{Action, Carrier, Finding, Phase, Session, Settings};
use crate::era::{Choice, Negotiation, Peer, Start};
use crate::fault::{Cause, Fault};
use crate::revision::Era;

/// How Streamable HTTP was refused.
#[derive(Debug)]
pub(super) struct Refusal {
    /// What is told if the older transport does not work either.
    pub(super) fault: Fault,
    /// Whether the modern era was asked for, too.
    pub(super) modern_too: bool,
}

impl Settings {
    /// The record, if these settings leave open what it tells.
    pub(super) fn usable_record(&self) -> Option<Finding> {
        let finding = self.recorded.filter(|_| self.choice == Choice::Auto)?;
        let same = finding.carrier == self.carrier;
        (same || is_older_transport(finding) && self.carrier == Carrier::Http && self.fallback)
            .then_some(finding)
    }

    /// How the server is reached first.
    pub(super) fn first_carrier(&self) -> Carrier {
        self.usable_record().map_or(self.carrier, |finding| finding.carrier)
    }
}

impl Session {
    /// What a negotiation begins with. What this session has spoken counts most, then what the caller prefers.
    pub(super) fn start(&self) -> Start {
        match (self.spoken, self.settings.preferred, self.recorded) {
            (Some(era), ..) => Start::Prefer(era),
            (None, None | Some(Era::Legacy), Some(finding)) if finding.revision.era() == Era::Legacy => {
                Start::Recorded(Era::Legacy)
            }
            (None, Some(era), _) => Start::Prefer(era),
            (None, None, _) => Start::Unknown,
        }
    }

    /// The older transport is tried because of the record alone.
    pub(super) fn is_on_recorded_stream(&self) -> bool {
        let fallback = self.carrier == Carrier::EventStream && self.settings.carrier == Carrier::Http;
        fallback && self.recorded.is_some_and(is_older_transport)
    }

    /// Whether the recorded transport was refused, so that the configured one is worth a try at once. A server that is
    /// down, or that wants a login, has not refused it.
    pub(super) fn is_recorded_stream_refused(&self, fault: &Fault) -> bool {
        self.is_on_recorded_stream()
            && match &fault.cause {
                Cause::Status { code, .. } => *code < 502 && *code != 429,
                Cause::Protocol(_) | Cause::Redirect { .. } | Cause::Timeout(_) | Cause::Cut => true,
                Cause::Versions { .. } => true,
                _ => false,
            }
    }

    /// The recorded transport is not spoken any more: the configured one is tried in the same attempt.
    pub(super) fn leave_recorded_stream(&mut self, now: Instant, until: Instant, fault: Fault) -> Phase {
        self.forget_record();
        self.close(fault);
        self.carrier = self.settings.carrier;
        self.reopen(now, until, None)
    }

    /// The record is wrong, or may be: the next attempt, and the next connection, begin without it.
    pub(super) fn forget_record(&mut self) {
        if self.recorded.take().is_some() {
            self.actions.push_back(Action::Record(None));
        }
    }

    /// Records what a negotiation has found out. One that did not ask has found out nothing, and a record that was
    /// confirmed keeps its age: the server is to be asked anew when that is over.
    pub(super) fn record(&mut self, peer: &Peer, negotiation: &Negotiation) {
        self.recorded = None;
        let asked = match (self.carrier, peer.era()) {
            (Carrier::EventStream, _) => self.refused.as_ref().is_some_and(|refusal| refusal.modern_too),
            (Carrier::Http | Carrier::Pipe, Era::Modern) => true,
            (Carrier::Http | Carrier::Pipe, Era::Legacy) => negotiation.is_probe_refused(),
        };
        if asked && self.settings.choice == Choice::Auto {
            let finding = Finding { revision: peer.revision, carrier: self.carrier };
            self.actions.push_back(Action::Record(Some(finding)));
        }
    }
}

fn is_older_transport(finding: Finding) -> bool {
    finding.carrier == Carrier::EventStream
}

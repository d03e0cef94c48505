//! How a session uses the [`NegotiationRecord`] of an earlier connection, and when it makes a new
//! one.
//!
//! A record saves a probe and decides nothing: where it proves wrong, the attempt continues as if
//! there were none.
// DE-09

use std::time::Instant;

use super::{Action, Carrier, Finding, Phase, Session, Settings};
use crate::era::{Choice, Negotiation, Peer, Start};
use crate::fault::{Cause, Fault};
use crate::revision::Era;

/// How Streamable HTTP was refused, kept while HTTP+SSE is tried in its place.
#[derive(Debug)]
pub(super) struct Refusal {
    /// The fault to report if the older transport fails as well.
    pub(super) fault: Fault,
    /// Whether the modern probe was refused, too.
    pub(super) modern_too: bool,
}

impl Settings {
    /// The record, if these settings leave open what it answers.
    pub(super) fn usable_record(&self) -> Option<Finding> {
        let finding = self.recorded.filter(|_| self.choice == Choice::Auto)?;
        let same = finding.carrier == self.carrier;
        (same || is_older_transport(finding) && self.carrier == Carrier::Http && self.fallback)
            .then_some(finding)
    }

    /// The transport of the first attempt: the recorded one, else the configured one.
    pub(super) fn first_carrier(&self) -> Carrier {
        self.usable_record().map_or(self.carrier, |finding| finding.carrier)
    }
}

impl Session {
    /// What a negotiation begins with. The era agreed before counts most, then the preferred one.
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

    /// Whether HTTP+SSE is tried because of the record alone.
    pub(super) fn is_on_recorded_stream(&self) -> bool {
        let fallback = self.carrier == Carrier::EventStream && self.settings.carrier == Carrier::Http;
        fallback && self.recorded.is_some_and(is_older_transport)
    }

    /// Whether the recorded transport was refused, so that the configured one is tried at once. A
    /// server that is down, or that requires a login, has not refused it.
    pub(super) fn is_recorded_stream_refused(&self, fault: &Fault) -> bool {
        self.is_on_recorded_stream()
            && match &fault.cause {
                Cause::Status { code, .. } => *code < 502 && *code != 429,
                Cause::Protocol(_) | Cause::Redirect { .. } | Cause::Timeout(_) | Cause::Cut => true,
                Cause::Versions { .. } => true,
                _ => false,
            }
    }

    /// Drops the record and tries the configured transport in the same attempt.
    pub(super) fn leave_recorded_stream(&mut self, now: Instant, until: Instant, fault: Fault) -> Phase {
        self.forget_record();
        self.close(fault);
        self.carrier = self.settings.carrier;
        self.reopen(now, until, None)
    }

    /// Deletes a record that is wrong or may be, for the next attempt and the next connection.
    pub(super) fn forget_record(&mut self) {
        if self.recorded.take().is_some() {
            self.actions.push_back(Action::Record(None));
        }
    }

    /// Records the result of a negotiation that probed the server. A negotiation that skipped the
    /// probe records nothing, so a confirmed record keeps its age and the server is probed again
    /// when it expires.
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

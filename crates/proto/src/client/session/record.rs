//! How a session uses the [`NegotiationRecord`] of an earlier connection, and when it makes a new
//! one.
//!
//! A record saves a probe and decides nothing: where it proves wrong, the attempt continues as if
//! there were none.
// DE-09

use std::time::Instant;

use super::{Action, NegotiationRecord, Phase, Session, Settings, TransportKind};
use crate::client::negotiation::{EraChoice, Negotiation, Peer, StartHint};
use crate::fault::{Cause, Fault};
use crate::revision::Era;

/// How Streamable HTTP was refused, kept while HTTP+SSE is tried in its place.
#[derive(Debug)]
pub(super) struct HttpRefusal {
    /// The fault to report if the older transport fails as well.
    pub(super) fault: Fault,
    /// Whether the modern probe was refused, too.
    pub(super) modern_refused: bool,
}

impl Settings {
    /// The record, if these settings leave open what it answers.
    pub(super) fn usable_record(&self) -> Option<NegotiationRecord> {
        let finding = self.record.filter(|_| self.era_choice == EraChoice::Auto)?;
        let same = finding.transport == self.transport;
        (same || is_event_stream(finding) && self.transport == TransportKind::Http && self.fallback)
            .then_some(finding)
    }

    /// The transport of the first attempt: the recorded one, else the configured one.
    pub(super) fn initial_transport(&self) -> TransportKind {
        self.usable_record().map_or(self.transport, |finding| finding.transport)
    }
}

impl Session {
    /// What a negotiation begins with. The era agreed before counts most, then the preferred one.
    pub(super) fn start_hint(&self) -> StartHint {
        match (self.agreed_era, self.settings.preferred_era, self.prior_record) {
            (Some(era), ..) => StartHint::Prefer(era),
            (None, None | Some(Era::Legacy), Some(finding)) if finding.revision.era() == Era::Legacy => {
                StartHint::Recorded(Era::Legacy)
            }
            (None, Some(era), _) => StartHint::Prefer(era),
            (None, None, _) => StartHint::Unknown,
        }
    }

    /// Whether HTTP+SSE is tried because of the record alone.
    pub(super) fn is_on_recorded_stream(&self) -> bool {
        let fallback =
            self.transport == TransportKind::EventStream && self.settings.transport == TransportKind::Http;
        fallback && self.prior_record.is_some_and(is_event_stream)
    }

    /// Whether the recorded transport was refused, so that the configured one is tried at once. A
    /// server that is down, or that requires a login, has not refused it.
    pub(super) fn is_recorded_stream_refused(&self, fault: &Fault) -> bool {
        self.is_on_recorded_stream()
            && match &fault.cause {
                Cause::Status { code, .. } => *code < 502 && *code != 429,
                Cause::Protocol(_) | Cause::Redirect { .. } | Cause::Timeout(_) | Cause::Cut => true,
                Cause::NoCommonVersion { .. } => true,
                _ => false,
            }
    }

    /// Drops the record and tries the configured transport in the same attempt.
    pub(super) fn leave_recorded_stream(&mut self, now: Instant, until: Instant, fault: Fault) -> Phase {
        self.forget_record();
        self.close(fault);
        self.transport = self.settings.transport;
        self.reopen(now, until, None)
    }

    /// Deletes a record that is wrong or may be, for the next attempt and the next connection.
    pub(super) fn forget_record(&mut self) {
        if self.prior_record.take().is_some() {
            self.actions.push_back(Action::Record(None));
        }
    }

    /// Records the result of a negotiation that probed the server. A negotiation that skipped the
    /// probe records nothing, so a confirmed record keeps its age and the server is probed again
    /// when it expires.
    pub(super) fn record_negotiation(&mut self, peer: &Peer, negotiation: &Negotiation) {
        self.prior_record = None;
        let asked = match (self.transport, peer.era()) {
            (TransportKind::EventStream, _) => {
                self.http_refusal.as_ref().is_some_and(|refusal| refusal.modern_refused)
            }
            (TransportKind::Http | TransportKind::Pipe, Era::Modern) => true,
            (TransportKind::Http | TransportKind::Pipe, Era::Legacy) => negotiation.is_probe_refused(),
        };
        if asked && self.settings.era_choice == EraChoice::Auto {
            let finding = NegotiationRecord { revision: peer.revision, transport: self.transport };
            self.actions.push_back(Action::Record(Some(finding)));
        }
    }
}

fn is_event_stream(finding: NegotiationRecord) -> bool {
    finding.transport == TransportKind::EventStream
}

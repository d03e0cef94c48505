//! The public view of a [`Session`].

use std::sync::Arc;
use std::time::Instant;

use super::{Phase, Session, Status};
use crate::fault::Fault;

impl Session {
    /// The fault that makes waiting for a connection pointless at the moment, if there is one.
    pub fn blocking_fault(&self, now: Instant) -> Option<&Fault> {
        match &self.phase {
            Phase::NeedsLogin { not_before, cause } | Phase::Failed { not_before, cause }
                if now < *not_before =>
            {
                Some(cause)
            }
            _ => None,
        }
    }

    /// Whether this is past the first attempt: the session was ready once, or an attempt failed.
    pub fn has_connected_or_failed(&self) -> bool {
        self.was_ready || self.outage.is_some()
    }

    /// Number of attempts in the current outage, or in the last one.
    pub fn attempt_count(&self) -> u32 {
        self.attempts_made
    }

    /// The public view of the phase.
    pub fn status(&self) -> Status {
        match &self.phase {
            Phase::Idle => Status::Idle,
            Phase::Opening { .. }
            | Phase::Resuming { .. }
            | Phase::Negotiating { .. }
            | Phase::Restoring { .. } => Status::Connecting,
            Phase::Ready { peer, .. } => Status::Ready(Arc::clone(peer)),
            Phase::LoggingIn { cause, .. } => Status::LoggingIn(cause.clone()),
            Phase::NeedsLogin { cause, .. } => Status::NeedsLogin(cause.clone()),
            Phase::BackingOff { until, cause, .. } => {
                Status::BackingOff { until: *until, cause: cause.clone() }
            }
            Phase::Failed { cause, .. } => Status::Failed(cause.clone()),
            Phase::Closed => Status::Closed,
        }
    }
}

//! What replies and failures are to the caller.

use std::time::Duration;

use super::messages::FinalFailure;
use crate::client::negotiation::Reply;
use crate::fault::{Cause, Execution, Fault, Misbehavior};

/// The failure that a reply is to the caller, if nothing more is learned.
pub fn failure_from_reply(reply: &Reply) -> FinalFailure {
    match reply {
        Reply::Error { error, .. } => FinalFailure::ServerError(error.clone()),
        Reply::Fault(fault) => FinalFailure::Fault(fault.clone()),
        Reply::Result(_) | Reply::Accepted | Reply::Silence => {
            FinalFailure::Fault(Fault::protocol(Misbehavior::NoAnswer))
        }
    }
}

/// The wait that a server asked for with `Retry-After`.
pub(super) fn asked_wait(reply: &Reply) -> Option<Duration> {
    match reply {
        Reply::Fault(Fault { cause: Cause::Status { retry_after, .. }, .. }) => *retry_after,
        _ => None,
    }
}

/// Marks a refusal as `Unknown`: one that leaves its reason open may come after the work.
pub(super) fn mark_unknown(outcome: FinalFailure) -> FinalFailure {
    match outcome {
        FinalFailure::Fault(fault) => FinalFailure::Fault(Fault { execution: Execution::Unknown, ..fault }),
        other => other,
    }
}

/// Marks a refusal as `NotExecuted`: the server refuses everything in the same way.
pub(super) fn mark_not_executed(outcome: FinalFailure) -> FinalFailure {
    match outcome {
        FinalFailure::Fault(fault) => FinalFailure::Fault(fault.not_executed()),
        other => other,
    }
}

/// The fault that reports a failure as a session loss, with the server's text as evidence.
pub fn session_loss_fault(failed: &FinalFailure) -> Fault {
    let lost = Fault::before_sending(Cause::SessionLost);
    match failed {
        // The challenge is kept, since it says how to log in.
        FinalFailure::Fault(fault) if matches!(fault.cause, Cause::LoginRequired { .. }) => fault.clone(),
        FinalFailure::Fault(fault) => {
            let words = fault.evidence.body.as_deref().unwrap_or_default();
            lost.with_note(fault.cause.to_string()).with_body(words.as_bytes())
        }
        FinalFailure::ServerError(error) => lost.with_body(error.message.as_bytes()),
        FinalFailure::NotSent => lost,
    }
}

//! Owns when the headers command is run: once for all callers, and with backoff while it fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;

use super::Inner;
use super::backoff::FailureBackoff;
use super::single_flight::SharedOutcome;
use crate::error::AuthError;

/// Why the headers command is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RunReason {
    /// An explicit login needs the headers.
    Requested,
    /// A call needs the headers.
    Call,
    /// Background work, which no caller waits for.
    Background,
}

/// Recent failures of the headers command.
pub(super) struct CommandFailures {
    backoff: FailureBackoff,
    /// Whether a call has seen the last failure.
    seen_by_call: AtomicBool,
}

/// The longest time for which a failure is reused instead of running the command again.
const MAX_COMMAND_BACKOFF: Duration = Duration::from_secs(30);

impl Inner {
    /// Runs the headers command, shared by all concurrent callers.
    pub(super) fn run_headers_command(self: &Arc<Self>, run: RunReason) -> SharedOutcome {
        if let Some(error) = self.command_failures.active_error(run) {
            return std::future::ready(Err(error)).boxed().shared();
        }
        let inner = Arc::clone(self);
        self.command_runs.join(|| async move {
            let Some(headers) = &inner.headers else { return Ok(()) };
            match headers.run().await {
                Ok(made) => {
                    inner.command_failures.clear();
                    if let Some(made) = made {
                        inner.ctx.http_client.set_headers(made.clone());
                        inner.current.set_headers(made);
                    }
                    Ok(())
                }
                Err(error) => {
                    inner.command_failures.add(&error, run);
                    Err(error)
                }
            }
        })
    }
}

impl CommandFailures {
    /// The error to report instead of running the command again. The first call after a failure in
    /// the background runs it anyway, because its user may have fixed it.
    fn active_error(&self, run: RunReason) -> Option<AuthError> {
        let heeds = match run {
            RunReason::Requested => false,
            RunReason::Call => self.seen_by_call.load(Ordering::Relaxed),
            RunReason::Background => true,
        };
        if heeds { self.backoff.active_error() } else { None }
    }

    fn add(&self, error: &AuthError, run: RunReason) {
        self.backoff.add(error);
        self.seen_by_call.store(run != RunReason::Background, Ordering::Relaxed);
    }

    fn clear(&self) {
        self.backoff.clear();
    }
}

impl Default for CommandFailures {
    fn default() -> Self {
        Self {
            backoff: FailureBackoff::with_max_backoff(MAX_COMMAND_BACKOFF),
            seen_by_call: AtomicBool::new(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::AuthErrorKind;

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_reused_for_at_most_30_seconds_and_a_call_sees_it_first() {
        let (tries, error) = (CommandFailures::default(), AuthError::new(AuthErrorKind::Unavailable, "no"));
        tries.add(&error, RunReason::Background);
        assert!(tries.active_error(RunReason::Background).is_some());
        assert!(tries.active_error(RunReason::Call).is_none(), "a call has not seen it yet");
        for _ in 0..10 {
            tries.add(&error, RunReason::Call);
        }
        assert!(tries.active_error(RunReason::Call).is_some());
        assert!(tries.active_error(RunReason::Requested).is_none());
        tokio::time::advance(MAX_COMMAND_BACKOFF).await;
        assert!(tries.active_error(RunReason::Call).is_none());
        tries.add(&error, RunReason::Call);
        tries.clear();
        assert!(tries.active_error(RunReason::Call).is_none());
    }
}

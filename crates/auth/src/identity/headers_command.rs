//! Owns when the headers command is run: once for all callers, and with backoff while it fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bowline_config::HeadersCommand;
use futures_util::FutureExt as _;

use super::backoff::FailureBackoff;
use super::current::CurrentCredentials;
use super::refusals::{RefusalHistory, RefusedRequest};
use super::single_flight::{DetachedSingleFlight, SharedOutcome};
use crate::command_headers::CommandHeaders;
use crate::error::{AuthError, AuthErrorKind};
use crate::http_client::AuthHttpClient;

/// Runs the headers command of a server, and puts its headers to use.
pub(super) struct HeadersRunner {
    headers: CommandHeaders,
    http_client: AuthHttpClient,
    current: Arc<CurrentCredentials>,
    runs: DetachedSingleFlight,
    failures: CommandFailures,
}

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
struct CommandFailures {
    backoff: FailureBackoff,
    /// Whether a call has seen the last failure.
    seen_by_call: AtomicBool,
}

/// The longest time for which a failure is reused instead of running the command again.
const MAX_COMMAND_BACKOFF: Duration = Duration::from_secs(30);

impl HeadersRunner {
    pub(super) fn new(
        command: HeadersCommand,
        http_client: AuthHttpClient,
        current: Arc<CurrentCredentials>,
    ) -> Self {
        Self {
            headers: CommandHeaders::new(command),
            http_client,
            current,
            runs: DetachedSingleFlight::default(),
            failures: CommandFailures::default(),
        }
    }

    /// Whether the command has to run: it has not run yet, or its output is too old.
    pub(super) fn is_due(&self) -> bool {
        self.headers.is_due()
    }

    /// Whether the command has printed headers yet.
    pub(super) fn has_output(&self) -> bool {
        self.headers.has_output()
    }

    /// Runs the command if it is due.
    pub(super) async fn run_if_due(self: &Arc<Self>, reason: RunReason) -> Result<(), AuthError> {
        if self.is_due() { self.run(reason).await } else { Ok(()) }
    }

    /// Runs the command again for a refused request, unless it just ran for the same refusal.
    /// Returns `true` if the headers changed, and `false` if a login can be tried.
    pub(super) async fn run_again(
        self: &Arc<Self>,
        refusal: &RefusedRequest,
        refusals: &RefusalHistory,
    ) -> Result<bool, AuthError> {
        if !refusals.was_command_futile(refusal) {
            self.run(if refusal.background { RunReason::Background } else { RunReason::Call }).await?;
            if self.current.generation() > refusal.generation {
                return Ok(true);
            }
            refusals.add_futile_command(refusal);
        }
        if self.current.login().is_some() {
            return Ok(false);
        }
        let code = refusal.status;
        let what = format!("the server refused the headers that the headers command printed ({code})");
        Err(AuthError::new(AuthErrorKind::Refused, what)
            .hint("check what the command prints; it was run again, with the same result"))
    }

    /// Runs the command, shared by all concurrent callers.
    fn run(self: &Arc<Self>, reason: RunReason) -> SharedOutcome {
        if let Some(error) = self.failures.active_error(reason) {
            return std::future::ready(Err(error)).boxed().shared();
        }
        let runner = Arc::clone(self);
        self.runs.join(|| async move {
            match runner.headers.run().await {
                Ok(changed) => {
                    runner.failures.clear();
                    if let Some(headers) = changed {
                        runner.http_client.set_headers(headers.clone());
                        runner.current.set_headers(headers);
                    }
                    Ok(())
                }
                Err(error) => {
                    runner.failures.add(&error, reason);
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

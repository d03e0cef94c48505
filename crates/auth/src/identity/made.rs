//! Owns when the headers command is run: once for all callers, and with backoff while it fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;

use super::Inner;
use super::flight::Landing;
use super::memory::Failures;
use crate::error::AuthError;

/// Why the headers command is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Run {
    /// An explicit login needs the headers.
    Asked,
    /// A call needs the headers.
    Call,
    /// Background work, which no caller waits for.
    Quiet,
}

/// Recent failures of the headers command.
pub(super) struct Tries {
    failures: Failures,
    /// Whether a call has seen the last failure.
    told: AtomicBool,
}

/// The longest time for which a failure is reused instead of running the command again.
const MOST: Duration = Duration::from_secs(30);

impl Inner {
    /// Runs the headers command, shared by all concurrent callers.
    pub(super) fn run_headers(self: &Arc<Self>, run: Run) -> Landing {
        if let Some(error) = self.tries.standing(run) {
            return std::future::ready(Err(error)).boxed().shared();
        }
        let inner = Arc::clone(self);
        self.runs.join(|| async move {
            let Some(headers) = &inner.headers else { return Ok(()) };
            match headers.run().await {
                Ok(made) => {
                    inner.tries.clear();
                    if let Some(made) = made {
                        inner.ctx.net.set_headers(made.clone());
                        inner.held.set_made(made);
                    }
                    Ok(())
                }
                Err(error) => {
                    inner.tries.add(&error, run);
                    Err(error)
                }
            }
        })
    }
}

impl Tries {
    /// The error to report instead of running the command again. The first call after a failure in
    /// the background runs it anyway, because its user may have fixed it.
    fn standing(&self, run: Run) -> Option<AuthError> {
        let heeds = match run {
            Run::Asked => false,
            Run::Call => self.told.load(Ordering::Relaxed),
            Run::Quiet => true,
        };
        if heeds { self.failures.standing() } else { None }
    }

    fn add(&self, error: &AuthError, run: Run) {
        self.failures.add(error);
        self.told.store(run != Run::Quiet, Ordering::Relaxed);
    }

    fn clear(&self) {
        self.failures.clear();
    }
}

impl Default for Tries {
    fn default() -> Self {
        Self { failures: Failures::up_to(MOST), told: AtomicBool::new(false) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::AuthErrorKind;

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_believed_for_half_a_minute_at_most_and_told_to_a_call_first() {
        let (tries, error) = (Tries::default(), AuthError::new(AuthErrorKind::Unavailable, "no"));
        tries.add(&error, Run::Quiet);
        assert!(tries.standing(Run::Quiet).is_some());
        assert!(tries.standing(Run::Call).is_none(), "a call has not seen it yet");
        for _ in 0..10 {
            tries.add(&error, Run::Call);
        }
        assert!(tries.standing(Run::Call).is_some());
        assert!(tries.standing(Run::Asked).is_none());
        tokio::time::advance(MOST).await;
        assert!(tries.standing(Run::Call).is_none());
        tries.add(&error, Run::Call);
        tries.clear();
        assert!(tries.standing(Run::Call).is_none());
    }
}

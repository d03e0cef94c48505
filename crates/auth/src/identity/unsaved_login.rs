//! Retries the save of a login that the store did not accept.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout_at};

use super::single_flight::{DetachedSingleFlight, SharedOutcome};
use super::stored_login::StoredLogin;
use crate::error::{AuthError, AuthErrorKind};
use crate::refresh::core::{RefreshGoal, RefreshOutcome};
use crate::refresh::driver::{self, RefreshProgress};
use crate::revoke;

/// Saves a login that could not be saved when it was obtained.
pub(super) struct SaveRetries {
    login: Arc<StoredLogin>,
    /// Not shared with refreshes: their callers want another token.
    runs: DetachedSingleFlight,
}

/// How long a shutdown retries a save: as long as a refresh waits for its response, since the login
/// is lost with the program in both cases.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(300);
/// The wait between two save attempts; it doubles from the first value to the second.
const FIRST_SAVE_WAIT: Duration = Duration::from_millis(200);
const MAX_SAVE_WAIT: Duration = Duration::from_secs(5);

impl SaveRetries {
    pub(super) fn new(login: Arc<StoredLogin>) -> Self {
        Self { login, runs: DetachedSingleFlight::default() }
    }

    /// Joins the running save, or starts one; `None` if everything is saved.
    pub(super) fn join(&self) -> Option<SharedOutcome> {
        self.login.unsaved()?;
        let login = Arc::clone(&self.login);
        Some(self.runs.join(|| async move { Box::pin(save(&login)).await }))
    }

    /// Retries until the login is saved, for at most [`SHUTDOWN_TIMEOUT`].
    pub(super) async fn finish(&self) -> Result<(), AuthError> {
        let until = Instant::now() + SHUTDOWN_TIMEOUT;
        let mut wait = FIRST_SAVE_WAIT;
        // Tokens that can be requested again are not worth waiting for.
        while self.login.is_at_stake()
            && let Some(saving) = self.join()
        {
            // Success shows in `unsaved`, and the reason of a failure in `refresh_state`.
            let _ = timeout_at(until, saving).await;
            let Some(unsaved) = self.login.unsaved() else { break };
            let now = Instant::now();
            if now >= until {
                let error =
                    self.login.refresh_state.store_error().unwrap_or_else(|| {
                        self.login.save_error(&unsaved.source, "the store does not answer")
                    });
                let server = &self.login.ctx.server;
                tracing::error!(%server, %error, "the login is lost when this program ends");
                return Err(error);
            }
            sleep_until((now + wait).min(until)).await;
            wait = (wait * 2).min(MAX_SAVE_WAIT);
        }
        Ok(())
    }
}

async fn save(login: &StoredLogin) -> Result<(), AuthError> {
    let (ctx, current) = (&login.ctx, &login.current);
    let Some(active) = current.login() else { return Ok(()) };
    let Some(unsaved) = active.unsaved.clone() else { return Ok(()) };
    let (source, at_stake) = (unsaved.source.clone(), unsaved.would_lose_login());
    let goal = RefreshGoal { stale_token: None, unsaved: Some(unsaved) };
    let no_request =
        async |_, _| Err(AuthError::new(AuthErrorKind::Unavailable, "there is nothing to refresh"));
    let outcome = driver::run_refresh(&login.store, (&ctx.auth, &ctx.url), goal, no_request, |progress| {
        if let RefreshProgress::SaveFailed(why) = progress {
            login.report_save_error(&source, &why.what);
        }
        true
    })
    .await;
    match outcome {
        RefreshOutcome::Current(record, version) => {
            tracing::info!(server = %ctx.server, "the login has been stored after all");
            let saved = login.activate(record, Some(version), Some(&active)).await?;
            // If a refresh or login came in between, that one counts.
            current.replace_login(Some(&active), Some(saved));
            login.clear_refresh_state();
            Ok(())
        }
        RefreshOutcome::LoggedOut(record) => {
            if current.replace_login(Some(&active), None)
                && let Some(record) = record
            {
                // A logout happened meanwhile; nobody may keep these tokens.
                let _ = revoke::revoke_tokens(ctx, &record).await;
            }
            login.clear_refresh_state();
            Ok(())
        }
        RefreshOutcome::Failed(error) => {
            if at_stake {
                login.report_save_error(&source, &error.what);
            }
            Err(error)
        }
        // Only a refresh has these outcomes.
        RefreshOutcome::Unsaved(_) | RefreshOutcome::LoginEnded { .. } => Ok(()),
    }
}

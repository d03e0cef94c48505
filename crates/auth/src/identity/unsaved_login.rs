//! Retries the save of a login that the store did not accept.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout_at};

use super::current::ActiveLogin;
use super::single_flight::SharedOutcome;
use super::{Inner, RefreshState};
use crate::error::{AuthError, AuthErrorKind};
use crate::refresh::core::{LoginSource, RefreshGoal, RefreshOutcome, UnsavedLogin};
use crate::refresh::driver::{self, RefreshProgress};
use crate::revoke;

/// How long a shutdown retries a save: as long as a refresh waits for its response, since the login
/// is lost with the program in both cases.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(300);
/// The wait between two save attempts; it doubles from the first value to the second.
const FIRST_SAVE_WAIT: Duration = Duration::from_millis(200);
const MAX_SAVE_WAIT: Duration = Duration::from_secs(5);

impl Inner {
    /// Joins the running save, or starts one; `None` if everything is saved.
    pub(super) fn join_save(self: &Arc<Self>) -> Option<SharedOutcome> {
        self.current.login().filter(|login| login.unsaved.is_some())?;
        let inner = Arc::clone(self);
        // Not joined with refreshes: their callers want another token.
        Some(self.saves.join(|| async move { Box::pin(inner.save()).await }))
    }

    /// Waits for a running refresh, then retries a failed save.
    pub(super) async fn shut_down(self: &Arc<Self>) -> Result<(), AuthError> {
        self.critical_section.close().await;
        let until = Instant::now() + SHUTDOWN_TIMEOUT;
        let mut wait = FIRST_SAVE_WAIT;
        // Tokens that can be requested again are not worth waiting for.
        while self.unsaved().is_some_and(|unsaved| unsaved.would_lose_login())
            && let Some(saving) = self.join_save()
        {
            // Success shows in `unsaved`, and the reason of a failure in `refresh_state`.
            let _ = timeout_at(until, saving).await;
            let Some(unsaved) = self.unsaved() else { break };
            let now = Instant::now();
            if now >= until {
                let error = match &*self.refresh_state.borrow() {
                    RefreshState::Store(error) => error.clone(),
                    _ => self.save_error(&unsaved.source, "the store does not answer"),
                };
                tracing::error!(server = %self.ctx.server, %error, "the login is lost when this program ends");
                return Err(error);
            }
            sleep_until((now + wait).min(until)).await;
            wait = (wait * 2).min(MAX_SAVE_WAIT);
        }
        Ok(())
    }

    /// The login that still has to be saved.
    pub(super) fn unsaved(&self) -> Option<UnsavedLogin> {
        self.current.login().and_then(|login| login.unsaved.clone())
    }

    /// The error that says why the login could not be saved.
    pub(super) fn save_error(&self, over: &LoginSource, why: &str) -> AuthError {
        let made = match over {
            LoginSource::Refresh(_) => "refreshed",
            LoginSource::Login(_) => "new",
        };
        let what = format!("the {made} login of `{}` could not be stored: {why}", self.ctx.server);
        AuthError::new(AuthErrorKind::Store, what)
    }

    async fn save(&self) -> Result<(), AuthError> {
        let Some(login) = self.current.login() else { return Ok(()) };
        let Some(mine) = login.unsaved.clone() else { return Ok(()) };
        let (over, at_stake) = (mine.source.clone(), mine.would_lose_login());
        let wish = RefreshGoal { stale_token: None, unsaved: Some(mine) };
        let nobody = async |_, _| Err(AuthError::new(AuthErrorKind::Unavailable, "nothing is to be renewed"));
        let outcome =
            driver::run_refresh(&self.login_store, (&self.ctx.auth, &self.ctx.url), wish, nobody, |pass| {
                if let RefreshProgress::SaveFailed(why) = pass {
                    self.set_refresh_state(RefreshState::Store(self.save_error(&over, &why.what)));
                }
                true
            })
            .await;
        match outcome {
            RefreshOutcome::Current(record, version) => {
                tracing::info!(server = %self.ctx.server, "the login has been stored after all");
                let written =
                    ActiveLogin::from_record(&self.ctx.store, record, Some(version), Some(&login)).await?;
                // If a refresh or login came in between, that one counts.
                self.current.replace_login(Some(&login), Some(written));
                self.clear_refresh_state();
                Ok(())
            }
            RefreshOutcome::LoggedOut(given) => {
                if self.current.replace_login(Some(&login), None)
                    && let Some(record) = given
                {
                    // A logout happened meanwhile; nobody may keep these tokens.
                    let _ = revoke::revoke_tokens(&self.ctx, &record).await;
                }
                self.clear_refresh_state();
                Ok(())
            }
            RefreshOutcome::Failed(error) => {
                if at_stake {
                    self.set_refresh_state(RefreshState::Store(self.save_error(&over, &error.what)));
                }
                Err(error)
            }
            // Only a refresh has these outcomes.
            RefreshOutcome::Unsaved(_) | RefreshOutcome::LoginEnded { .. } => Ok(()),
        }
    }
}

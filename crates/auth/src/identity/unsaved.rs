//! Retries the save of a login that the store did not accept.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout_at};

use super::flight::Landing;
use super::held::Login;
use super::{Inner, RefreshState};
use crate::error::{AuthError, AuthErrorKind};
use crate::refresh::core::{Outcome, Over, Unsaved, Wish};
use crate::refresh::drive::{self, Pass};

/// How long a shutdown retries a save: as long as a refresh waits for its response, since the login
/// is lost with the program in both cases.
const SETTLE_LIMIT: Duration = Duration::from_secs(300);
/// The wait between two save attempts; it doubles from the first value to the second.
const FIRST_WAIT: Duration = Duration::from_millis(200);
const LONGEST_WAIT: Duration = Duration::from_secs(5);

impl Inner {
    /// Joins the running save, or starts one; `None` if everything is saved.
    pub(super) fn saving(self: &Arc<Self>) -> Option<Landing> {
        self.held.login().filter(|login| login.unsaved.is_some())?;
        let inner = Arc::clone(self);
        // Not joined with refreshes: their callers want another token.
        Some(self.saves.join(|| async move { Box::pin(inner.save()).await }))
    }

    /// Waits for a running refresh, then retries a failed save.
    pub(super) async fn settle(self: &Arc<Self>) -> Result<(), AuthError> {
        self.gate.close().await;
        let until = Instant::now() + SETTLE_LIMIT;
        let mut wait = FIRST_WAIT;
        // Tokens that can be requested again are not worth waiting for.
        while self.unsaved().is_some_and(|unsaved| unsaved.is_at_stake())
            && let Some(saving) = self.saving()
        {
            // Success shows in `unsaved`, and the reason of a failure in `refresh_state`.
            let _ = timeout_at(until, saving).await;
            let Some(unsaved) = self.unsaved() else { break };
            let now = Instant::now();
            if now >= until {
                let error = match &*self.waiting.borrow() {
                    RefreshState::Store(error) => error.clone(),
                    _ => self.unwritten(&unsaved.over, "the store does not answer"),
                };
                tracing::error!(server = %self.ctx.server, %error, "the login is lost when this program ends");
                return Err(error);
            }
            sleep_until((now + wait).min(until)).await;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
        Ok(())
    }

    /// The login that still has to be saved.
    pub(super) fn unsaved(&self) -> Option<Unsaved> {
        self.held.login().and_then(|login| login.unsaved.clone())
    }

    /// The error that says why the login could not be saved.
    pub(super) fn unwritten(&self, over: &Over, why: &str) -> AuthError {
        let made = match over {
            Over::Renewed(_) => "renewed",
            Over::Login(_) => "new",
        };
        let what = format!("the {made} login of `{}` could not be written down: {why}", self.ctx.server);
        AuthError::new(AuthErrorKind::Store, what)
    }

    async fn save(&self) -> Result<(), AuthError> {
        let Some(login) = self.held.login() else { return Ok(()) };
        let Some(mine) = login.unsaved.clone() else { return Ok(()) };
        let (over, at_stake) = (mine.over.clone(), mine.is_at_stake());
        let wish = Wish { stale: None, unsaved: Some(mine) };
        let nobody = async |_, _| Err(AuthError::new(AuthErrorKind::Unavailable, "nothing is to be renewed"));
        let outcome = drive::renew(&self.shelf, (&self.ctx.auth, &self.ctx.url), wish, nobody, |pass| {
            if let Pass::Unwritten(why) = pass {
                self.wait_for(RefreshState::Store(self.unwritten(&over, &why.what)));
            }
            true
        })
        .await;
        match outcome {
            Outcome::Good(record, version) => {
                tracing::info!(server = %self.ctx.server, "the login is written down after all");
                let written = Login::of(&self.ctx.safe, record, Some(version), Some(&login)).await?;
                // If a refresh or login came in between, that one counts.
                self.held.swap(Some(&login), Some(written));
                self.wait_no_longer();
                Ok(())
            }
            Outcome::Gone(given) => {
                if self.held.swap(Some(&login), None)
                    && let Some(record) = given
                {
                    // A logout happened meanwhile; nobody may keep these tokens.
                    let _ = self.end(&record).await;
                }
                self.wait_no_longer();
                Ok(())
            }
            Outcome::Failed(error) => {
                if at_stake {
                    self.wait_for(RefreshState::Store(self.unwritten(&over, &error.what)));
                }
                Err(error)
            }
            // Only a refresh has these outcomes.
            Outcome::Unsaved(_) | Outcome::Ended { .. } => Ok(()),
        }
    }
}

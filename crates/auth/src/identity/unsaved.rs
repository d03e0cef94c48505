//! Owns how what could not be written down is written down after all.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout_at};

use super::flight::Landing;
use super::held::Login;
use super::{Inner, RefreshState};
use crate::error::{AuthError, AuthErrorKind};
use crate::refresh::core::{Outcome, Over, Unsaved, Wish};
use crate::refresh::drive::{self, Pass};

/// How long a program that ends goes on trying: as long as an authorization server is given to answer, for the login is
/// lost with the program in both cases.
const SETTLE_LIMIT: Duration = Duration::from_secs(300);
/// How long it waits between two tries, which doubles from the first to the longest.
const FIRST_WAIT: Duration = Duration::from_millis(200);
const LONGEST_WAIT: Duration = Duration::from_secs(5);

impl Inner {
    /// The attempt that is under way, or a new one; `None`: everything is written down.
    pub(super) fn saving(self: &Arc<Self>) -> Option<Landing> {
        self.held.login().filter(|login| login.unsaved.is_some())?;
        let inner = Arc::clone(self);
        // Not one of the renewals: whoever joins those wants another token.
        Some(self.saves.join(|| async move { Box::pin(inner.save()).await }))
    }

    /// Waits for what is under way, then tries to write down what is not, again and again.
    pub(super) async fn settle(self: &Arc<Self>) -> Result<(), AuthError> {
        self.gate.close().await;
        let until = Instant::now() + SETTLE_LIMIT;
        let mut wait = FIRST_WAIT;
        // What can be had again is worth no wait.
        while self.unsaved().is_some_and(|unsaved| unsaved.is_at_stake())
            && let Some(saving) = self.saving()
        {
            // What came of it shows in whether something is still unsaved, and why in the state.
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

    /// What is not written down.
    pub(super) fn unsaved(&self) -> Option<Unsaved> {
        self.held.login().and_then(|login| login.unsaved.clone())
    }

    /// Says that it could not be written down, and why.
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
                // A renewal or a login in between has sorted it out.
                self.held.swap(Some(&login), Some(written));
                self.wait_no_longer();
                Ok(())
            }
            Outcome::Gone(given) => {
                if self.held.swap(Some(&login), None)
                    && let Some(record) = given
                {
                    // Nobody is to have it: somebody logged out meanwhile.
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
            // Only a renewal comes to that.
            Outcome::Unsaved(_) | Outcome::Ended { .. } => Ok(()),
        }
    }
}

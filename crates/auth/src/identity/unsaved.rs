//! Owns how what could not be written down is written down after all.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::Inner;
use super::flight::Landing;
use super::held::Login;
use crate::error::{AuthError, AuthErrorKind};
use crate::refresh::core::{Outcome, Wish};
use crate::refresh::drive;

/// How long a program that ends tries it once more.
const LAST_TRY: Duration = Duration::from_secs(5);

impl Inner {
    /// The attempt that is under way, or a new one; `None`: everything is written down.
    pub(super) fn saving(self: &Arc<Self>) -> Option<Landing> {
        self.held.login().filter(|login| login.unsaved.is_some())?;
        let inner = Arc::clone(self);
        // Not one of the renewals: whoever joins those wants another token.
        Some(self.saves.join(|| async move { Box::pin(inner.save()).await }))
    }

    /// Waits for what is under way, and tries once more to write down what is not.
    pub(super) async fn settle(self: &Arc<Self>) {
        self.gate.close().await;
        if let Some(saving) = self.saving() {
            let _ = timeout(LAST_TRY, saving).await;
        }
    }

    async fn save(&self) -> Result<(), AuthError> {
        let Some(login) = self.held.login() else { return Ok(()) };
        let Some(mine) = login.unsaved.clone() else { return Ok(()) };
        let wish = Wish { stale: None, unsaved: Some(mine) };
        let nobody = async |_, _| Err(AuthError::new(AuthErrorKind::Unavailable, "nothing is to be renewed"));
        let outcome =
            drive::renew(&self.shelf, (&self.ctx.auth, &self.ctx.url), wish, nobody, |_| true).await;
        match outcome {
            Outcome::Good(record, version) => {
                tracing::info!(server = %self.ctx.server, "the login is written down after all");
                let written = Login::of(&self.ctx.safe, record, Some(version), Some(&login)).await?;
                // A renewal or a login in between has sorted it out.
                self.held.swap(Some(&login), Some(written));
                Ok(())
            }
            Outcome::Gone(given) => {
                if self.held.swap(Some(&login), None)
                    && let Some(record) = given
                {
                    // Nobody is to have it: somebody logged out meanwhile.
                    let _ = self.end(&record).await;
                }
                Ok(())
            }
            Outcome::Failed(error) => Err(error),
            // Only a renewal comes to that.
            Outcome::Unsaved(_) | Outcome::Ended { .. } => Ok(()),
        }
    }
}

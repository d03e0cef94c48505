//! Owns when the token of a connection is refreshed, and what the outcome means.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bowline_config::Secret;
use bowline_transport::http::SendFence;
use tokio::time::timeout;

use super::backoff::FailureBackoff;
use super::current::ActiveLogin;
use super::refresh_state::RefreshState;
use super::single_flight::{CriticalSection, DetachedSingleFlight, SharedOutcome};
use super::stored_login::StoredLogin;
use crate::error::{AuthError, AuthErrorKind};
use crate::grant::{self, TokenGrant, TokenRequest};
use crate::record::LoginRecord;
use crate::refresh::core::{LoginSource, RefreshGoal, RefreshOutcome};
use crate::refresh::driver::RefreshProgress;
use crate::refresh::{driver, due};
use crate::register;
use crate::revoke;
use crate::tokens::Tokens;

/// Refreshes the token of one login, once for all callers.
pub(super) struct Refresher {
    login: Arc<StoredLogin>,
    runs: DetachedSingleFlight,
    /// Held while a refresh token is spent but its successor is not yet stored.
    critical_section: CriticalSection,
    /// The backoff after failures to obtain tokens, by a refresh or without a person.
    pub(super) backoff: FailureBackoff,
}

/// How long a call waits for a refresh while the old token is still valid.
const EARLY_REFRESH_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a caller waits for a token it needs: longer than a dead process can block refreshes.
/// The refresh itself continues until the authorization server responds.
const REFRESH_TIMEOUT: Duration = Duration::from_secs(45);
/// A token with less life left than this is not sent.
const MIN_TOKEN_LIFE: Duration = Duration::from_secs(1);

impl Refresher {
    pub(super) fn new(login: Arc<StoredLogin>) -> Self {
        Self {
            login,
            runs: DetachedSingleFlight::default(),
            critical_section: CriticalSection::new(),
            backoff: FailureBackoff::default(),
        }
    }

    /// Whether a call has to refresh the token first.
    pub(super) fn is_due(&self) -> bool {
        let now = SystemTime::now();
        let Some(login) = self.due_login(now) else { return false };
        // During the backoff of a failed refresh, a token that is still valid is not due.
        !is_usable(&login.record, now) || self.backoff.active_error().is_none()
    }

    /// Refreshes the token if it expires soon. Fails only if it has expired and the refresh failed
    /// temporarily.
    pub(super) async fn refresh_if_due(self: &Arc<Self>) -> Result<(), AuthError> {
        let now = SystemTime::now();
        let Some(login) = self.due_login(now) else { return Ok(()) };
        if let Some(error) = self.backoff.active_error() {
            return if is_usable(&login.record, now) || !error.may_pass() { Ok(()) } else { Err(error) };
        }
        let good_for = due::time_left(&login.record, now).unwrap_or_default().saturating_sub(MIN_TOKEN_LIFE);
        if good_for.is_zero() {
            return match self.wait(&login.record.access).await {
                Err(error) if error.may_pass() => Err(error),
                _ => Ok(()),
            };
        }
        // The old token is still valid. A slow refresh continues in the background.
        let _ = timeout(EARLY_REFRESH_TIMEOUT.min(good_for), self.join(&login.record.access)).await;
        Ok(())
    }

    /// Joins the running refresh, or starts one, to replace the token `stale`. Fails at once during
    /// the backoff of the last failure.
    pub(super) fn join(self: &Arc<Self>, stale: &Secret) -> SharedOutcome {
        let (refresher, stale) = (Arc::clone(self), stale.clone());
        self.runs.join(|| async move {
            if let Some(error) = refresher.backoff.active_error() {
                return Err(error);
            }
            let outcome = Box::pin(refresher.refresh(stale)).await;
            refresher.login.clear_refresh_state();
            refresher.critical_section.leave();
            outcome
        })
    }

    /// Waits for a refresh for at most [`REFRESH_TIMEOUT`]. The refresh continues regardless.
    pub(super) async fn wait(self: &Arc<Self>, stale: &Secret) -> Result<(), AuthError> {
        timeout(REFRESH_TIMEOUT, self.join(stale)).await.unwrap_or_else(|_| {
            let what = format!("refreshing the login has taken more than {} s", REFRESH_TIMEOUT.as_secs());
            Err(AuthError::new(AuthErrorKind::Unavailable, what))
        })
    }

    /// Waits for a running refresh, and lets no other start.
    pub(super) async fn close(&self) {
        self.critical_section.close().await;
    }

    fn due_login(&self, now: SystemTime) -> Option<Arc<ActiveLogin>> {
        let login = self.login.current.login()?;
        (due::is_due(&login.record, now) && login.record.is_refreshable()).then_some(login)
    }

    async fn refresh(&self, stale: Secret) -> Result<(), AuthError> {
        let (login, ctx) = (&self.login, &self.login.ctx);
        let goal = RefreshGoal { stale_token: Some(stale), unsaved: login.unsaved() };
        let request = |record, fence| Box::pin(self.request_tokens(record, fence));
        let progress = |progress| self.handle_progress(progress);
        let outcome = driver::run_refresh(&login.store, (&ctx.auth, &ctx.url), goal, request, progress).await;
        let server = &ctx.server;
        match outcome {
            RefreshOutcome::Current(record, version) => {
                tracing::debug!(%server, "the token is refreshed");
                self.backoff.clear();
                login.use_record(record, version).await
            }
            RefreshOutcome::Unsaved(unsaved) => {
                if unsaved.would_lose_login() {
                    tracing::warn!(
                        %server,
                        "the token was refreshed but cannot be stored; the login is lost if that does not succeed before \
                         this program ends"
                    );
                } else {
                    tracing::info!(%server, "the token was refreshed but cannot be stored; it can be requested again");
                }
                self.backoff.clear();
                login.use_unsaved(unsaved).await
            }
            RefreshOutcome::LoginEnded { record, version, why } => {
                tracing::info!(%server, why = why.what, "the login has expired: a person has to log in again");
                if why.kind == AuthErrorKind::InvalidClient
                    && let Ok(Some(client)) = record.client(&ctx.auth)
                {
                    // If this fails, the next login finds out that the client is unknown.
                    let _ = register::forget_client(ctx, &client).await;
                }
                login.use_record(record, version).await?;
                Err(AuthError { kind: AuthErrorKind::LoginNeeded, ..why })
            }
            RefreshOutcome::LoggedOut(record) => {
                login.current.clear_login();
                if let Some(record) = record {
                    // A logout happened during the refresh; nobody may keep these tokens.
                    let _ = revoke::revoke_tokens(ctx, &record).await;
                }
                Err(AuthError::new(AuthErrorKind::LoginNeeded, "somebody logged out"))
            }
            RefreshOutcome::Failed(error) => {
                tracing::debug!(%server, %error, "the token could not be refreshed");
                self.backoff.add(&error);
                Err(error)
            }
        }
    }

    /// Requests tokens for a stored login. Until they are saved, they can be lost.
    async fn request_tokens(&self, record: LoginRecord, fence: SendFence) -> Result<Tokens, AuthError> {
        if !self.critical_section.enter() {
            return Err(AuthError::new(AuthErrorKind::Unavailable, "the program is ending"));
        }
        let ctx = &self.login.ctx;
        let client = record.client(&ctx.auth)?;
        let before = self.login.current.login();
        let dpop_key = ActiveLogin::key_for(&ctx.store, &record, before.as_deref()).await?;
        let request = TokenRequest {
            ctx,
            metadata: &record.metadata,
            client: client.as_ref(),
            scopes: &record.requested,
            resource: record.resource.as_deref(),
            dpop: dpop_key.as_deref(),
        };
        match &record.refresh {
            Some(token) => {
                grant::request_tokens(&request, TokenGrant::Refresh { token, fence: &fence }).await
            }
            None => grant::request_tokens_without_person(&request).await,
        }
    }

    /// Handles a progress report of a refresh. Returns `false` if the refresh must not start.
    fn handle_progress(&self, progress: RefreshProgress) -> bool {
        let state = &self.login.refresh_state;
        match progress {
            RefreshProgress::Starting => return self.critical_section.enter(),
            RefreshProgress::NotStarted => self.critical_section.leave(),
            RefreshProgress::WaitingForOther(pid) => state.set(RefreshState::OtherProcess(pid)),
            RefreshProgress::Requesting => state.set(RefreshState::AuthorizationServer),
            RefreshProgress::SaveFailed(why) => {
                self.login.report_save_error(&LoginSource::Refresh(None), &why.what);
            }
        }
        true
    }
}

fn is_usable(record: &LoginRecord, now: SystemTime) -> bool {
    due::time_left(record, now).is_none_or(|left| left > MIN_TOKEN_LIFE)
}

//! Owns when the token of a connection is refreshed, and what the outcome means.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use bowline_config::Secret;
use bowline_store::Version;
use bowline_transport::http::SendFence;
use tokio::time::{sleep, timeout};

use super::Inner;
use super::current::ActiveLogin;
use super::headers_command::RunReason;
use super::single_flight::SharedOutcome;
use crate::command_headers::CommandHeaders;
use crate::error::{AuthError, AuthErrorKind};
use crate::grant::{self, TokenGrant, TokenRequest};
use crate::record::LoginRecord;
use crate::refresh::core::{RefreshGoal, RefreshOutcome};
use crate::refresh::{driver, due};
use crate::register;
use crate::revoke;
use crate::tokens::Tokens;

/// How long a call waits for a refresh while the old token is still valid.
const EARLY_REFRESH_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a caller waits for a token it needs: longer than a dead process can block refreshes.
/// The refresh itself continues until the authorization server responds.
const REFRESH_TIMEOUT: Duration = Duration::from_secs(45);
/// A token with less life left than this is not sent.
const MIN_TOKEN_LIFE: Duration = Duration::from_secs(1);
/// How often an idle connection checks the clock and the store: machines sleep, and clocks are
/// adjusted.
const POLL_INTERVAL: Duration = Duration::from_secs(30);
/// How often it checks while a login is missing that another process may make, or while one is
/// unsaved.
const URGENT_POLL_INTERVAL: Duration = Duration::from_secs(2);
/// How often the store is read again if the current login changes meanwhile.
const MAX_RELOADS: u32 = 3;
/// The shortest time between two checks.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(20);

impl Inner {
    pub(super) fn is_due(&self) -> bool {
        if self.headers.as_ref().is_some_and(CommandHeaders::is_due) {
            return true;
        }
        let now = SystemTime::now();
        let Some(login) = self.current.login().filter(|login| is_due(login, now)) else { return false };
        // During the backoff of a failed refresh, a token that is still valid is not due.
        !is_usable(&login.record, now) || self.backoff.active_error().is_none()
    }

    pub(super) async fn refresh_if_due(self: &Arc<Self>) -> Result<(), AuthError> {
        if let Some(headers) = self.headers.as_ref().filter(|headers| headers.is_due())
            && let Err(error) = self.run_headers_command(RunReason::Call).await
            // Older headers may still be accepted; the server decides.
            && !headers.has_output()
        {
            return Err(error);
        }
        let now = SystemTime::now();
        let Some(login) = self.current.login().filter(|login| is_due(login, now)) else { return Ok(()) };
        if let Some(error) = self.backoff.active_error() {
            return if is_usable(&login.record, now) || !error.may_pass() { Ok(()) } else { Err(error) };
        }
        let good_for = due::time_left(&login.record, now).unwrap_or_default().saturating_sub(MIN_TOKEN_LIFE);
        if good_for.is_zero() {
            return match self.wait_for_refresh(&login.record.access).await {
                Err(error) if error.may_pass() => Err(error),
                _ => Ok(()),
            };
        }
        // The old token is still valid. A slow refresh continues in the background.
        let _ = timeout(EARLY_REFRESH_TIMEOUT.min(good_for), self.join_refresh(&login.record.access)).await;
        Ok(())
    }

    pub(super) async fn keep_refreshed(self: &Arc<Self>) {
        if !self.uses_logins() {
            return std::future::pending().await;
        }
        // Jitter that differs between processes, so that they do not refresh at the same moment.
        let share = fastrand::f64();
        let mut changes = self.current.watch_generation();
        loop {
            let wait = self.next_poll(share);
            tokio::select! {
                () = sleep(wait) => {}
                _ = changes.changed() => continue,
                () = self.login_missing_notify.notified() => continue,
            }
            // Another process may have refreshed already; then there is nothing to do.
            if let Err(error) = self.reload().await {
                tracing::debug!(server = %self.ctx.server, %error, "what is remembered of the login cannot be read");
            }
            if let Some(saving) = self.join_save()
                && let Err(error) = saving.await
            {
                tracing::debug!(server = %self.ctx.server, %error, "the login can still not be stored");
            }
            let Some(login) = self.current.login() else { continue };
            let early = due::idle_refresh_at(&login.record, share).is_some_and(|at| SystemTime::now() >= at);
            if early && login.record.is_refreshable() && self.backoff.active_error().is_none() {
                // Callers that need the token see the error themselves.
                let _ = self.join_refresh(&login.record.access).await;
            }
        }
    }

    fn next_poll(&self, share: f64) -> Duration {
        let login = self.current.login();
        let unsaved = login.as_ref().is_some_and(|login| login.unsaved.is_some());
        let renewable = login.filter(|login| login.record.is_refreshable());
        let missing = renewable.is_none() && self.login_missing.load(Ordering::Relaxed);
        let most = if missing || unsaved { URGENT_POLL_INTERVAL } else { POLL_INTERVAL };
        let Some(at) = renewable.and_then(|login| due::idle_refresh_at(&login.record, share)) else {
            return most;
        };
        let due = at.duration_since(SystemTime::now()).unwrap_or_default();
        due.max(self.backoff.remaining_wait()).clamp(MIN_POLL_INTERVAL, most)
    }

    /// Joins the running refresh, or starts one, to replace the token `stale`. Fails at once during
    /// the backoff of the last failure.
    pub(super) fn join_refresh(self: &Arc<Self>, stale: &Secret) -> SharedOutcome {
        let (inner, stale) = (Arc::clone(self), stale.clone());
        self.refreshes.join(|| async move {
            if let Some(error) = inner.backoff.active_error() {
                return Err(error);
            }
            let outcome = Box::pin(Arc::clone(&inner).refresh(stale)).await;
            inner.clear_refresh_state();
            inner.critical_section.leave();
            outcome
        })
    }

    /// Waits for a refresh for at most [`REFRESH_TIMEOUT`]. The refresh continues regardless.
    pub(super) async fn wait_for_refresh(self: &Arc<Self>, stale: &Secret) -> Result<(), AuthError> {
        timeout(REFRESH_TIMEOUT, self.join_refresh(stale)).await.unwrap_or_else(|_| {
            let what = format!("refreshing the login has taken more than {} s", REFRESH_TIMEOUT.as_secs());
            Err(AuthError::new(AuthErrorKind::Unavailable, what))
        })
    }

    async fn refresh(self: Arc<Self>, stale: Secret) -> Result<(), AuthError> {
        let unsaved = self.current.login().and_then(|login| login.unsaved.clone());
        let entry = (&*self.ctx.auth, &self.ctx.url);
        let wish = RefreshGoal { stale_token: Some(stale), unsaved };
        let ask = |record, fence| Box::pin(self.request_tokens(record, fence));
        let outcome =
            driver::run_refresh(&self.login_store, entry, wish, ask, |pass| self.handle_progress(pass)).await;
        let server = &self.ctx.server;
        match outcome {
            RefreshOutcome::Current(record, version) => {
                tracing::debug!(%server, "the token is refreshed");
                self.backoff.clear();
                self.use_record(record, version).await
            }
            RefreshOutcome::Unsaved(mine) => {
                if mine.would_lose_login() {
                    tracing::warn!(
                        %server,
                        "the token was refreshed but cannot be stored; the login is lost if that does not succeed before \
                         this program ends"
                    );
                } else {
                    tracing::info!(%server, "the token was refreshed but cannot be stored; it can be requested again");
                }
                self.backoff.clear();
                let before = self.current.login();
                let record = mine.record.clone();
                let mut login =
                    ActiveLogin::from_record(&self.ctx.store, record, None, before.as_deref()).await?;
                login.unsaved = Some(mine);
                self.current.set_login(login);
                Ok(())
            }
            RefreshOutcome::LoginEnded { record, version, why } => {
                tracing::info!(%server, why = why.what, "the login has expired: a person has to log in again");
                if why.kind == AuthErrorKind::InvalidClient
                    && let Ok(Some(client)) = record.client(&self.ctx.auth)
                {
                    // If this fails, the next login finds out that the client is unknown.
                    let _ = register::forget_client(&self.ctx, &client).await;
                }
                self.use_record(record, version).await?;
                Err(AuthError { kind: AuthErrorKind::LoginNeeded, ..why })
            }
            RefreshOutcome::LoggedOut(given) => {
                self.current.clear_login();
                if let Some(record) = given {
                    // A logout happened during the refresh; nobody may keep these tokens.
                    let _ = revoke::revoke_tokens(&self.ctx, &record).await;
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
        let client = record.client(&self.ctx.auth)?;
        let before = self.current.login();
        let key = ActiveLogin::key_for(&self.ctx.store, &record, before.as_deref()).await?;
        let ask = TokenRequest {
            ctx: &self.ctx,
            metadata: &record.metadata,
            client: client.as_ref(),
            scopes: &record.requested,
            resource: record.resource.as_deref(),
            dpop: key.as_deref(),
        };
        match &record.refresh {
            Some(token) => grant::request_tokens(&ask, TokenGrant::Refresh { token, fence: &fence }).await,
            None => grant::request_tokens_without_person(&ask).await,
        }
    }

    /// Adopts the stored login if it differs from the current one.
    pub(super) async fn reload(&self) -> Result<(), AuthError> {
        if !self.uses_logins() {
            return Ok(());
        }
        for _ in 0..MAX_RELOADS {
            let before = self.current.login();
            let found = self.login_store.read(&self.ctx.auth, &self.ctx.url).await?;
            let unsaved = before.as_ref().and_then(|held| held.unsaved.as_ref());
            if unsaved.is_some_and(|mine| found.is_none() || mine.supersedes(found.as_ref().map(|it| &it.0)))
            {
                // The unsaved login is newer than the stored one.
                return Ok(());
            }
            let held = before.as_ref().map(|held| (held.version, &held.record.access));
            if held == found.as_ref().map(|(record, version)| (Some(*version), &record.access)) {
                return Ok(());
            }
            let renewable = found.as_ref().is_some_and(|(record, _)| record.is_refreshable());
            // Adopt it even if its version is lower: it was read after the current one was stored,
            // and store files are sometimes replaced by copies.
            let login = match found {
                Some((record, version)) => Some(
                    ActiveLogin::from_record(&self.ctx.store, record, Some(version), before.as_deref())
                        .await?,
                ),
                None => None,
            };
            if self.current.replace_login(before.as_ref(), login) {
                if renewable {
                    self.set_login_missing(false);
                }
                if unsaved.is_some() {
                    self.clear_refresh_state();
                }
                return Ok(());
            }
        }
        // The login changed each time, so it is recent enough.
        Ok(())
    }

    async fn use_record(&self, record: LoginRecord, version: Version) -> Result<(), AuthError> {
        let before = self.current.login();
        let login =
            ActiveLogin::from_record(&self.ctx.store, record, Some(version), before.as_deref()).await?;
        if login.record.is_refreshable() {
            self.set_login_missing(false);
        }
        self.current.set_login(login);
        Ok(())
    }
}

fn is_due(login: &ActiveLogin, now: SystemTime) -> bool {
    due::is_due(&login.record, now) && login.record.is_refreshable()
}

fn is_usable(record: &LoginRecord, now: SystemTime) -> bool {
    due::time_left(record, now).is_none_or(|left| left > MIN_TOKEN_LIFE)
}

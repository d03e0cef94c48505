//! Owns when the token of a connection is refreshed, and what the outcome means.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use bowline_config::{Grant, Secret};
use bowline_store::Version;
use bowline_transport::http::Fence;
use tokio::time::{sleep, timeout};

use super::Inner;
use super::flight::Landing;
use super::held::Login;
use super::made::Run;
use crate::dpop;
use crate::error::{AuthError, AuthErrorKind};
use crate::grant::{self, Ask, Request};
use crate::headers::Headers;
use crate::record::Record;
use crate::refresh::core::{Outcome, Wish};
use crate::refresh::{drive, due};
use crate::register;
use crate::revoke;
use crate::tokens::Tokens;

/// How long a call waits for a refresh while the old token is still valid.
const POLITE: Duration = Duration::from_secs(2);
/// How long a caller waits for a token it needs: longer than a dead process can block refreshes.
/// The refresh itself continues until the authorization server responds.
const WAIT: Duration = Duration::from_secs(45);
/// A token with less life left than this is not sent.
const LEFT: Duration = Duration::from_secs(1);
/// How often an idle connection checks the clock and the store: machines sleep, and clocks are
/// adjusted.
const LOOK: Duration = Duration::from_secs(30);
/// How often it checks while a login is missing that another process may make, or while one is
/// unsaved.
const LOOK_OUT: Duration = Duration::from_secs(2);
/// How often the store is read again if the current login changes meanwhile.
const RELOADS: u32 = 3;
/// The shortest time between two checks.
const BREATH: Duration = Duration::from_millis(20);

impl Inner {
    pub(super) fn is_due(&self) -> bool {
        if self.headers.as_ref().is_some_and(Headers::are_due) {
            return true;
        }
        let now = SystemTime::now();
        let Some(login) = self.held.login().filter(|login| is_due(login, now)) else { return false };
        // During the backoff of a failed refresh, a token that is still valid is not due.
        !is_good(&login.record, now) || self.failures.standing().is_none()
    }

    pub(super) async fn fresh(self: &Arc<Self>) -> Result<(), AuthError> {
        if let Some(headers) = self.headers.as_ref().filter(|headers| headers.are_due())
            && let Err(error) = self.run_headers(Run::Call).await
            // Older headers may still be accepted; the server decides.
            && !headers.are_there()
        {
            return Err(error);
        }
        let now = SystemTime::now();
        let Some(login) = self.held.login().filter(|login| is_due(login, now)) else { return Ok(()) };
        if let Some(error) = self.failures.standing() {
            return if is_good(&login.record, now) || !is_passing(&error) { Ok(()) } else { Err(error) };
        }
        let good_for = due::left(&login.record, now).unwrap_or_default().saturating_sub(LEFT);
        if good_for.is_zero() {
            return match self.renewed(&login.record.access).await {
                Err(error) if is_passing(&error) => Err(error),
                _ => Ok(()),
            };
        }
        // The old token is still valid. A slow refresh continues in the background.
        let _ = timeout(POLITE.min(good_for), self.renewal(&login.record.access)).await;
        Ok(())
    }

    pub(super) async fn keep(self: &Arc<Self>) {
        if !self.uses_logins() {
            return std::future::pending().await;
        }
        // Jitter that differs between processes, so that they do not refresh at the same moment.
        let share = fastrand::f64();
        let mut changes = self.held.changes();
        loop {
            let wait = self.next_look(share);
            tokio::select! {
                () = sleep(wait) => {}
                _ = changes.changed() => continue,
                () = self.missed.notified() => continue,
            }
            // Another process may have refreshed already; then there is nothing to do.
            if let Err(error) = self.reload().await {
                tracing::debug!(server = %self.ctx.server, %error, "what is remembered of the login cannot be read");
            }
            if let Some(saving) = self.saving()
                && let Err(error) = saving.await
            {
                tracing::debug!(server = %self.ctx.server, %error, "the login can still not be written down");
            }
            let Some(login) = self.held.login() else { continue };
            let early = due::early_at(&login.record, share).is_some_and(|at| SystemTime::now() >= at);
            if early && login.record.is_renewable() && self.failures.standing().is_none() {
                // Callers that need the token see the error themselves.
                let _ = self.renewal(&login.record.access).await;
            }
        }
    }

    fn next_look(&self, share: f64) -> Duration {
        let login = self.held.login();
        let unsaved = login.as_ref().is_some_and(|login| login.unsaved.is_some());
        let renewable = login.filter(|login| login.record.is_renewable());
        let missing = renewable.is_none() && self.missing.load(Ordering::Relaxed);
        let most = if missing || unsaved { LOOK_OUT } else { LOOK };
        let Some(at) = renewable.and_then(|login| due::early_at(&login.record, share)) else { return most };
        let due = at.duration_since(SystemTime::now()).unwrap_or_default();
        due.max(self.failures.wait()).clamp(BREATH, most)
    }

    /// Joins the running refresh, or starts one, to replace the token `stale`. Fails at once during
    /// the backoff of the last failure.
    pub(super) fn renewal(self: &Arc<Self>, stale: &Secret) -> Landing {
        let (inner, stale) = (Arc::clone(self), stale.clone());
        self.renewals.join(|| async move {
            if let Some(error) = inner.failures.standing() {
                return Err(error);
            }
            let outcome = Box::pin(Arc::clone(&inner).renew(stale)).await;
            inner.wait_no_longer();
            inner.gate.leave();
            outcome
        })
    }

    /// Waits for a refresh for at most [`REFRESH_TIMEOUT`]. The refresh continues regardless.
    pub(super) async fn renewed(self: &Arc<Self>, stale: &Secret) -> Result<(), AuthError> {
        timeout(WAIT, self.renewal(stale)).await.unwrap_or_else(|_| {
            let what =
                format!("the login is being renewed, and that has taken more than {} s", WAIT.as_secs());
            Err(AuthError::new(AuthErrorKind::Unavailable, what))
        })
    }

    async fn renew(self: Arc<Self>, stale: Secret) -> Result<(), AuthError> {
        let unsaved = self.held.login().and_then(|login| login.unsaved.clone());
        let entry = (&*self.ctx.auth, &self.ctx.url);
        let wish = Wish { stale: Some(stale), unsaved };
        let ask = |record, fence| Box::pin(self.ask(record, fence));
        let outcome = drive::renew(&self.shelf, entry, wish, ask, |pass| self.pass(pass)).await;
        let server = &self.ctx.server;
        match outcome {
            Outcome::Good(record, version) => {
                tracing::debug!(%server, "the token is renewed");
                self.failures.clear();
                self.hold(record, version).await
            }
            Outcome::Unsaved(mine) => {
                if mine.is_at_stake() {
                    tracing::warn!(
                        %server,
                        "the token was renewed and cannot be written down: unless it can be before this program \
                         ends, it is lost, and the login with it"
                    );
                } else {
                    tracing::info!(%server, "the token was renewed and cannot be written down; it can be had again");
                }
                self.failures.clear();
                let before = self.held.login();
                let record = mine.record.clone();
                let mut login = Login::of(&self.ctx.safe, record, None, before.as_deref()).await?;
                login.unsaved = Some(mine);
                self.held.set_login(login);
                Ok(())
            }
            Outcome::Ended { record, version, why } => {
                tracing::info!(%server, why = why.what, "the login has to be renewed by a person");
                if why.kind == AuthErrorKind::InvalidClient
                    && let Ok(Some(client)) = record.client(&self.ctx.auth)
                {
                    // If this fails, the next login finds out that the client is unknown.
                    let _ = register::forget(&self.ctx, &client).await;
                }
                self.hold(record, version).await?;
                Err(AuthError { kind: AuthErrorKind::LoginNeeded, ..why })
            }
            Outcome::Gone(given) => {
                self.held.drop_login();
                if let Some(record) = given {
                    // A logout happened during the refresh; nobody may keep these tokens.
                    let _ = self.end(&record).await;
                }
                Err(AuthError::new(AuthErrorKind::LoginNeeded, "somebody logged out"))
            }
            Outcome::Failed(error) => {
                tracing::debug!(%server, %error, "the token could not be renewed");
                self.failures.add(&error);
                Err(error)
            }
        }
    }

    /// Requests tokens for a stored login. Until they are saved, they can be lost.
    async fn ask(&self, record: Record, fence: Fence) -> Result<Tokens, AuthError> {
        if !self.gate.enter() {
            return Err(AuthError::new(AuthErrorKind::Unavailable, "the program is ending"));
        }
        let client = record.client(&self.ctx.auth)?;
        // The key in use has collected nonces.
        let held = self.held.login();
        let key = match (&record.dpop, held.and_then(|login| login.key_of(&record))) {
            (None, _) => None,
            (Some(_), Some(key)) => Some(key),
            (Some(id), None) => Some(Arc::new(dpop::Key::load_or_make(&self.ctx.safe, id).await?)),
        };
        let ask = Ask {
            ctx: &self.ctx,
            metadata: &record.metadata,
            client: client.as_ref(),
            scopes: &record.requested,
            resource: record.resource.as_deref(),
            dpop: key.as_deref(),
        };
        match (&record.refresh, &self.ctx.auth.grant) {
            (Some(token), _) => grant::tokens(&ask, Request::Refresh { token, fence: &fence }).await,
            (None, grant) => without_a_person(&ask, grant).await,
        }
    }

    /// Adopts the stored login if it differs from the current one.
    pub(super) async fn reload(&self) -> Result<(), AuthError> {
        if !self.uses_logins() {
            return Ok(());
        }
        for _ in 0..RELOADS {
            let before = self.held.login();
            let found = self.shelf.read(&self.ctx.auth, &self.ctx.url).await?;
            let unsaved = before.as_ref().and_then(|held| held.unsaved.as_ref());
            if unsaved.is_some_and(|mine| found.is_none() || mine.is_over(found.as_ref().map(|it| &it.0))) {
                // The unsaved login is newer than the stored one.
                return Ok(());
            }
            let held = before.as_ref().map(|held| (held.version, &held.record.access));
            if held == found.as_ref().map(|(record, version)| (Some(*version), &record.access)) {
                return Ok(());
            }
            let renewable = found.as_ref().is_some_and(|(record, _)| record.is_renewable());
            // Adopt it even if its version is lower: it was read after the current one was stored,
            // and store files are sometimes replaced by copies.
            let login = match found {
                Some((record, version)) => {
                    Some(Login::of(&self.ctx.safe, record, Some(version), before.as_deref()).await?)
                }
                None => None,
            };
            if self.held.swap(before.as_ref(), login) {
                if renewable {
                    self.set_missing(false);
                }
                if unsaved.is_some() {
                    self.wait_no_longer();
                }
                return Ok(());
            }
        }
        // The login changed each time, so it is recent enough.
        Ok(())
    }

    async fn hold(&self, record: Record, version: Version) -> Result<(), AuthError> {
        let before = self.held.login();
        let login = Login::of(&self.ctx.safe, record, Some(version), before.as_deref()).await?;
        if login.record.is_renewable() {
            self.set_missing(false);
        }
        self.held.set_login(login);
        Ok(())
    }

    /// Revokes tokens. Returns whether the authorization server supports that.
    pub(super) async fn end(&self, record: &Record) -> Result<bool, AuthError> {
        let client = record.client(&self.ctx.auth)?;
        let held = revoke::Held { access: &record.access, refresh: record.refresh.as_ref() };
        revoke::revoke(&self.ctx, &record.metadata, client.as_ref(), held).await
    }
}

/// Requests tokens by a grant that needs no person.
pub(super) async fn without_a_person(ask: &Ask<'_>, by: &Grant) -> Result<Tokens, AuthError> {
    match by {
        Grant::ClientCredentials => grant::tokens(ask, Request::ClientCredentials).await,
        Grant::Enterprise(idp) => grant::enterprise(ask, idp).await,
        Grant::Workload(statement) => grant::workload(ask, statement).await,
        Grant::Person | Grant::Device | Grant::Off => {
            Err(AuthError::new(AuthErrorKind::LoginNeeded, "only a person can log in here"))
        }
    }
}

/// Whether the failure may go away by itself, and nothing has changed.
pub(super) fn is_passing(error: &AuthError) -> bool {
    matches!(error.kind, AuthErrorKind::Unavailable | AuthErrorKind::Store)
}

fn is_due(login: &Login, now: SystemTime) -> bool {
    due::is_due(&login.record, now) && login.record.is_renewable()
}

fn is_good(record: &Record, now: SystemTime) -> bool {
    due::left(record, now).is_none_or(|left| left > LEFT)
}

//! Owns when the token of a connection is renewed, and what comes of it.

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

/// How long a call waits for a renewal while the old token is good.
const POLITE: Duration = Duration::from_secs(2);
/// How long whoever needs a token waits for it: longer than a process that died holds up the others. The renewal itself
/// takes as long as the authorization server does.
const WAIT: Duration = Duration::from_secs(45);
/// How much of a token's life has to be left for it to be sent.
const LEFT: Duration = Duration::from_secs(1);
/// How often somebody who has nothing to do looks at the clock and the store: machines sleep, and clocks are set.
const LOOK: Duration = Duration::from_secs(30);
/// The same while a login is missed that may come from elsewhere, or is not written down.
const LOOK_OUT: Duration = Duration::from_secs(2);
/// How often the store is read again if what is held changes meanwhile.
const RELOADS: u32 = 3;
/// The shortest time between two looks.
const BREATH: Duration = Duration::from_millis(20);

impl Inner {
    pub(super) fn is_due(&self) -> bool {
        if self.headers.as_ref().is_some_and(Headers::are_due) {
            return true;
        }
        let now = SystemTime::now();
        let Some(login) = self.held.login().filter(|login| is_due(login, now)) else { return false };
        // While nothing can be done about it, a token that is good is not due.
        !is_good(&login.record, now) || self.failures.standing().is_none()
    }

    pub(super) async fn fresh(self: &Arc<Self>) -> Result<(), AuthError> {
        if let Some(headers) = self.headers.as_ref().filter(|headers| headers.are_due())
            && let Err(error) = self.run_headers(Run::Call).await
            // Older ones may do; the server will say.
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
        // It is still good. What takes long goes on without us.
        let _ = timeout(POLITE.min(good_for), self.renewal(&login.record.access)).await;
        Ok(())
    }

    pub(super) async fn keep(self: &Arc<Self>) {
        if !self.uses_logins() {
            return std::future::pending().await;
        }
        // Each process has its own moment.
        let share = fastrand::f64();
        let mut changes = self.held.changes();
        loop {
            let wait = self.next_look(share);
            tokio::select! {
                () = sleep(wait) => {}
                _ = changes.changed() => continue,
                () = self.missed.notified() => continue,
            }
            // Somebody else may have been first: then there is nothing to do.
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
                // What goes wrong is known to whoever needs the token.
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

    /// The renewal that is under way, or a new one, for everybody who does not want this token. Fails at once while
    /// the last failure stands.
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

    /// Waits for a renewal no longer than a caller can be expected to. It goes on all the same.
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
                    // If that fails, the next login finds out as well.
                    let _ = register::forget(&self.ctx, &client).await;
                }
                self.hold(record, version).await?;
                Err(AuthError { kind: AuthErrorKind::LoginNeeded, ..why })
            }
            Outcome::Gone(given) => {
                self.held.drop_login();
                if let Some(record) = given {
                    // Nobody is to have it: somebody logged out while it was given.
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

    /// Has tokens given for a login. From here on they can be lost, until they are written down.
    async fn ask(&self, record: Record, fence: Fence) -> Result<Tokens, AuthError> {
        if !self.gate.enter() {
            return Err(AuthError::new(AuthErrorKind::Unavailable, "the program is ending"));
        }
        let client = record.client(&self.ctx.auth)?;
        // The one that is held knows the nonces.
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

    /// Takes over what the store has, if that is something else than what is held.
    pub(super) async fn reload(&self) -> Result<(), AuthError> {
        if !self.uses_logins() {
            return Ok(());
        }
        for _ in 0..RELOADS {
            let before = self.held.login();
            let found = self.shelf.read(&self.ctx.auth, &self.ctx.url).await?;
            let unsaved = before.as_ref().and_then(|held| held.unsaved.as_ref());
            if unsaved.is_some_and(|mine| found.is_none() || mine.is_over(found.as_ref().map(|it| &it.0))) {
                // It is newer than what the store has, until it is written down.
                return Ok(());
            }
            let held = before.as_ref().map(|held| (held.version, &held.record.access));
            if held == found.as_ref().map(|(record, version)| (Some(*version), &record.access)) {
                return Ok(());
            }
            let renewable = found.as_ref().is_some_and(|(record, _)| record.is_renewable());
            // Whatever its version is, even an earlier one: it was read after what is held was in the store. Files are
            // replaced by copies.
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
        // It changed each time, so it is as new as can be.
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

    /// Ends tokens at the authorization server. Says whether it offers that.
    pub(super) async fn end(&self, record: &Record) -> Result<bool, AuthError> {
        let client = record.client(&self.ctx.auth)?;
        let held = revoke::Held { access: &record.access, refresh: record.refresh.as_ref() };
        revoke::revoke(&self.ctx, &record.metadata, client.as_ref(), held).await
    }
}

/// Has tokens given where no person is needed.
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

/// Whether it can be gone in a while, and nothing has changed.
pub(super) fn is_passing(error: &AuthError) -> bool {
    matches!(error.kind, AuthErrorKind::Unavailable | AuthErrorKind::Store)
}

fn is_due(login: &Login, now: SystemTime) -> bool {
    due::is_due(&login.record, now) && login.record.is_renewable()
}

fn is_good(record: &Record, now: SystemTime) -> bool {
    due::left(record, now).is_none_or(|left| left > LEFT)
}

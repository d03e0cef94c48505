//! Keeps the login in use and its copy in the store in step.

use std::sync::Arc;

use bowline_store::Version;

use super::current::{ActiveLogin, CurrentCredentials};
use super::missing_login::MissingLogin;
use super::policy::LoginPolicy;
use super::refresh_state::{RefreshState, RefreshStatePublisher};
use crate::context::AuthContext;
use crate::error::{AuthError, AuthErrorKind};
use crate::record::LoginRecord;
use crate::refresh::core::{LoginSource, UnsavedLogin};
use crate::refresh::driver::LoginStore;

/// The login of one server: the one in use, and its copy in the store.
pub(super) struct StoredLogin {
    pub(super) ctx: AuthContext,
    pub(super) policy: LoginPolicy,
    pub(super) store: LoginStore,
    pub(super) current: Arc<CurrentCredentials>,
    /// What a refresh waits for, published to watchers.
    pub(super) refresh_state: RefreshStatePublisher,
    pub(super) missing: MissingLogin,
}

/// How often the store is read again if the current login changes meanwhile.
const MAX_RELOADS: u32 = 3;

impl StoredLogin {
    pub(super) fn new(ctx: AuthContext, policy: LoginPolicy, current: Arc<CurrentCredentials>) -> Self {
        let key = LoginRecord::key(&ctx.server, &ctx.auth, &ctx.url);
        let store = LoginStore { store: ctx.store.clone(), key };
        let (refresh_state, missing) = (RefreshStatePublisher::default(), MissingLogin::default());
        Self { ctx, policy, store, current, refresh_state, missing }
    }

    /// Reads the login from the store.
    pub(super) async fn read(&self) -> Result<Option<(LoginRecord, Version)>, AuthError> {
        self.store.read(&self.ctx.auth, &self.ctx.url).await
    }

    /// Adopts the stored login if it differs from the current one.
    pub(super) async fn reload(&self) -> Result<(), AuthError> {
        if !self.policy.uses_logins() {
            return Ok(());
        }
        for _ in 0..MAX_RELOADS {
            let before = self.current.login();
            let found = self.read().await?;
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
            let refreshable = found.as_ref().is_some_and(|(record, _)| record.is_refreshable());
            // Adopt it even if its version is lower: it was read after the current one was stored,
            // and store files are sometimes replaced by copies.
            let login = match found {
                Some((record, version)) => {
                    Some(self.activate(record, Some(version), before.as_deref()).await?)
                }
                None => None,
            };
            if self.current.replace_login(before.as_ref(), login) {
                if refreshable {
                    self.missing.set(false);
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

    /// Prepares a record for use. `before` is the login that it replaces.
    pub(super) async fn activate(
        &self,
        record: LoginRecord,
        version: Option<Version>,
        before: Option<&ActiveLogin>,
    ) -> Result<ActiveLogin, AuthError> {
        ActiveLogin::from_record(&self.ctx.store, record, version, before).await
    }

    /// Uses a login that was just stored.
    pub(super) async fn use_record(&self, record: LoginRecord, version: Version) -> Result<(), AuthError> {
        let login = self.activate(record, Some(version), self.current.login().as_deref()).await?;
        if login.record.is_refreshable() {
            self.missing.set(false);
        }
        self.current.set_login(login);
        Ok(())
    }

    /// Uses a login that could not be stored.
    pub(super) async fn use_unsaved(&self, unsaved: UnsavedLogin) -> Result<(), AuthError> {
        let before = self.current.login();
        let mut login = self.activate(unsaved.record.clone(), None, before.as_deref()).await?;
        login.unsaved = Some(unsaved);
        self.current.set_login(login);
        Ok(())
    }

    /// The login that still has to be saved.
    pub(super) fn unsaved(&self) -> Option<UnsavedLogin> {
        self.current.login().and_then(|login| login.unsaved.clone())
    }

    /// Whether the login would be lost if the program exited now.
    pub(super) fn is_at_stake(&self) -> bool {
        self.unsaved().is_some_and(|unsaved| unsaved.would_lose_login())
    }

    /// Resets the state after a refresh or save, unless a login is still unsaved: then the last
    /// error stays.
    pub(super) fn clear_refresh_state(&self) {
        if !self.is_at_stake() {
            self.refresh_state.set(RefreshState::Idle);
        }
    }

    /// Publishes why the login could not be saved.
    pub(super) fn report_save_error(&self, source: &LoginSource, why: &str) {
        self.refresh_state.set(RefreshState::Store(self.save_error(source, why)));
    }

    /// The error that says why the login could not be saved.
    pub(super) fn save_error(&self, source: &LoginSource, why: &str) -> AuthError {
        let age = match source {
            LoginSource::Refresh(_) => "refreshed",
            LoginSource::Login(_) => "new",
        };
        let what = format!("the {age} login of `{}` could not be stored: {why}", self.ctx.server);
        AuthError::new(AuthErrorKind::Store, what)
    }
}
